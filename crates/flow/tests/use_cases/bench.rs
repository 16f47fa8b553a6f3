// SPDX-License-Identifier: Apache-2.0
//! A program of `programs/` at work, by the engine of whoever this folder is part of.

#![allow(dead_code, reason = "each of these uses its part")]

use std::sync::Arc;

use catena_flow::HeapMemory;
use catena_flow::efsm::source::load;
use catena_flow::program::ir::Program;
use catena_flow::program::layout::Layout;
use catena_flow::program::run::Arrival;
use catena_flow::program::table::{Pattern, TableEntry};
use catena_flow::simulate::{Passed, Simulation};

pub(crate) struct Bench {
    pub(crate) simulation: Simulation,
    pub(crate) now_ns: u64,
}

fn program(text: &str) -> Program {
    let (mut found, warnings) = load("program", text).unwrap_or_else(|errors| panic!("{errors}"));
    assert!(warnings.is_empty(), "{warnings:#?}");
    found.remove(0).compiled.program
}

impl Bench {
    pub(crate) fn new(text: &str) -> Self {
        Self::of(program(text))
    }

    pub(crate) fn of(program: Program) -> Self {
        let words = Layout::of(&program).shared_words;
        Self::beside(program, &Arc::new(HeapMemory::new(words)))
    }

    /// The program in several shards.
    pub(crate) fn shards(text: &str, count: usize) -> Vec<Self> {
        let program = program(text);
        let shared = Arc::new(HeapMemory::new(Layout::of(&program).shared_words));
        let shard = |_| Self::beside(program.clone(), &shared);
        (0..count).map(shard).collect()
    }

    fn beside(program: Program, shared: &Arc<HeapMemory>) -> Self {
        let compiled = super::compiled(&program);
        Self {
            simulation: Simulation::beside(program, compiled, shared).unwrap(),
            now_ns: 1_000_000_000,
        }
    }

    pub(crate) fn pass(&mut self, input: u8, frame: &[u8]) -> Passed {
        let arrival = Arrival {
            now_ns: self.now_ns,
            input,
        };
        self.simulation.packet(frame, arrival)
    }

    pub(crate) fn one(&mut self, input: u8, frame: &[u8]) -> String {
        self.pass(input, frame).verdict
    }

    pub(crate) fn wait(&mut self, ns: u64) {
        self.now_ns += ns;
        self.simulation.expire(self.now_ns);
    }

    /// Sets an entry of a table whose key is one exact part, as a control request does.
    pub(crate) fn set(&mut self, table: &str, key: u128, data: &[u128]) {
        let running = self.simulation.running();
        let mut tables = running.tables().iter();
        let at = tables.position(|one| one.shape().name == table).unwrap();
        let width = running.tables()[at].shape().key[0].1;
        let entry = TableEntry {
            key: vec![Pattern::exact(key, width)],
            priority: 0,
            data: data.to_vec(),
        };
        running.set_entry(at, entry).unwrap();
    }

    /// Takes such an entry away.
    pub(crate) fn remove(&mut self, table: &str, key: u128) {
        let running = self.simulation.running();
        let mut tables = running.tables().iter();
        let at = tables.position(|one| one.shape().name == table).unwrap();
        let width = running.tables()[at].shape().key[0].1;
        let key = [Pattern::exact(key, width)];
        running.remove_entry(at, &key).unwrap();
    }

    /// A register that all flows share.
    pub(crate) fn global(&mut self, name: &str, index: u32) -> u64 {
        let running = self.simulation.running();
        let mut globals = running.program().globals.iter();
        let at = globals.position(|one| one.name == name).unwrap();
        running.global(at, index).unwrap()
    }

    /// Flows of an element.
    pub(crate) fn flows(&mut self, element: usize) -> u32 {
        self.simulation.running().flows(element).unwrap().len()
    }
}
