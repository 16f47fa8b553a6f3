// SPDX-License-Identifier: Apache-2.0
//! `catena-jit`: compiled code does what the interpreter does, whatever the program and packets.
//!
//! Both run the same random program over the same bursts, with flows that come, go and time out;
//! verdicts, copies, bytes, headers, registers, entries, packets and events of the program's making
//! and all counters must be the same behind each burst.

#[path = "jit/parts.rs"]
mod parts;
#[path = "jit/program.rs"]
mod program;
#[path = "jit/registers.rs"]
mod registers;
#[path = "jit/source.rs"]
mod source;

use std::sync::Arc;

use catena_flow::HeapMemory;
use catena_flow::program::frame::{Buffer, Frame};
use catena_flow::program::ir::Program;
use catena_flow::program::layout::{Layout, Portion};
use catena_flow::program::run::{Arrival, Compiled, Loaded, Running};
use catena_flow::program::verify::verify;
use source::Source;

type Heap = Running<Portion<HeapMemory>>;

/// Packets of a burst, at most.
const BURST_MAX: usize = 6;
/// Bursts of a case, at most.
const BURSTS_MAX: usize = 8;

/// Bytes as a program and what comes to it.
pub fn flow_jit(data: &[u8]) {
    compare(data);
}

/// As [`flow_jit`]; gives how many packets were compared.
pub fn compare(data: &[u8]) -> usize {
    let mut source = Source::new(data);
    let program = program::program(&mut source);
    if let Err(fault) = verify(&program) {
        panic!("the generator is wrong: {fault}\n{program:#?}");
    }
    let compiled = match catena_jit::compile(&program) {
        Ok(compiled) => compiled,
        Err(error) if cfg!(target_arch = "x86_64") => panic!("{error}\n{program:#?}"),
        Err(_) => return 0,
    };
    let mut interpreted = running(&program, None);
    let mut compiled = running(&program, Some(compiled));
    let (mut now_ns, mut count) = (1 << 30, 0);
    for _ in 0..BURSTS_MAX {
        now_ns += [1, 700, 1_000_000, 5_000_000][source.below(4)];
        let arrival = Arrival {
            now_ns,
            input: source.byte() % 3,
        };
        let frames: Vec<Vec<u8>> = (0..=source.below(BURST_MAX))
            .map(|_| source.frame())
            .collect();
        count += frames.len();
        let expected = burst(&mut interpreted, &frames, arrival);
        let found = burst(&mut compiled, &frames, arrival);
        assert_eq!(found, expected, "{program:#?}\n{frames:02x?}");
        if source.is_empty() {
            break;
        }
    }
    count
}

fn running(program: &Program, compiled: Option<Box<dyn Compiled>>) -> Heap {
    let layout = Layout::of(program);
    let memory = Arc::new(HeapMemory::new(layout.words));
    let ground = layout.create(program, &memory, || [1, 2], 0);
    let loaded = Loaded::new(program.clone(), compiled);
    let shared = layout.share(&Arc::new(HeapMemory::new(layout.shared_words)));
    Running::new(
        Box::new(loaded),
        ground.expect("memory for a few flows"),
        shared.expect("memory for a few registers"),
    )
}

/// All that can be seen of a program behind a burst.
fn burst(running: &mut Heap, frames: &[Vec<u8>], arrival: Arrival) -> Vec<String> {
    let mut buffers: Vec<Buffer> = frames.iter().map(|frame| Buffer::new(frame)).collect();
    for (tag, buffer) in (7..).zip(&mut buffers) {
        buffer.tag = tag;
    }
    let elements = running.program().elements.len();
    for element in 0..elements {
        running.expire(element, arrival.now_ns, 3);
        for (index, buffer) in buffers.iter_mut().enumerate() {
            running.make_key(element, index, buffer, arrival);
        }
        running.look_up(element, buffers.len(), arrival.now_ns);
        for (index, buffer) in buffers.iter_mut().enumerate() {
            running.step(element, index, buffer, arrival);
        }
    }
    let mut seen = Vec::new();
    for (index, buffer) in buffers.iter().enumerate() {
        seen.push(format!("packet {index}: {:?}", running.decision(index)));
        seen.push(format!("{:?}", running.headers(index)));
        seen.push(format!("{:02x?}", buffer.bytes()));
    }
    while let Some(made) = running.emissions.first().map(|made| format!("{made:02x?}")) {
        seen.push(made);
        running.emissions.pop();
    }
    while let Some(notice) = running.notices.pop() {
        seen.push(format!("{notice:?}"));
    }
    seen.push(format!("{:?} {:?}", running.counts, running.marks()));
    for global in 0..running.program().globals.len() {
        let values: Vec<_> = (0..5).map(|index| running.global(global, index)).collect();
        seen.push(format!("global {global}: {values:?}"));
    }
    for element in 0..elements {
        flows(running, element, &mut seen);
    }
    seen
}

/// Entries of an element: keys, state and when they were used.
fn flows(running: &Heap, element: usize, seen: &mut Vec<String>) {
    let Some(table) = running.flows(element) else {
        return;
    };
    let shape = *table.shape();
    let mut cursor = catena_flow::Cursor::default();
    while !table.walk(&mut cursor, 16, |flow, entry| {
        let ends = table.record(flow).map(|one| (one.idle_ns, one.hard_ns));
        let key: Vec<u64> = (0..shape.key_words)
            .map(|at| entry.key(at as usize))
            .collect();
        let state = 0..shape.state_words;
        let state: Vec<u64> = state.map(|at| entry.state(at as usize)).collect();
        seen.push(format!(
            "{key:x?}: {state:x?} at {}, ends {ends:?}",
            entry.used_ns()
        ));
    }) {}
    seen.push(format!("next {:?}", running.next_expiry_ns()));
}
