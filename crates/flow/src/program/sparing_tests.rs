//! Goal: whichever way a flow comes into a state in which it gives way, it does, though it has been
//! spared before.
//! Method: a table of two flows that are marked, a change, and a third flow that takes a place; and
//! random packets, ends, settings and programs for two tables, in one of which nobody is marked.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::HeapMemory;
use crate::efsm::compile;
use crate::efsm::tables::to_hex;
use crate::efsm::tests::{Bench, UDP, packet};
use crate::program::ir::Program;
use crate::program::layout::Layout;
use crate::program::outside::FlowSetting;
use crate::program::run::{Loaded, Running};
use crate::tests::{Random, contents, spared};

const HALF: u128 = 1;

/// Flows become whole by a packet to port 2, and half by one to port 1 or when they are idle; by
/// one to port 3 they are over, and end when they are idle.
fn document(gives_way: &str, flows: u32) -> Value {
    json!({"outputs": ["out", "other"], "elements": [{
        "name": "e", "key": ["ipv4.src"], "flows": flows,
        "when_full": format!("evict oldest in {gives_way}"),
        "initial": "new",
        "states": {"new": {}, "half": {}, "whole": {"idle": "5s"}, "over": {"idle": "4s"}},
        "transitions": [
            {"if": "udp.dst_port == 2", "next": "whole", "do": ["output(out)"]},
            {"if": "udp.dst_port == 3", "next": "over", "do": ["output(out)"]},
            {"next": "half", "do": ["output(other)"]},
            {"from": "whole", "on": "timeout", "next": "half"},
        ],
    }]})
}

fn program(gives_way: &str, flows: u32) -> Program {
    let document = serde_json::from_value(document(gives_way, flows)).unwrap();
    compile(&document).unwrap().program
}

fn loaded(gives_way: &str, flows: u32) -> Box<Loaded> {
    Box::new(Loaded::new(program(gives_way, flows), None))
}

/// Two flows that are whole, and have been asked to give way.
fn marked() -> Bench {
    let mut bench = Bench::new(&document("half", 2));
    for src in [1, 2] {
        assert_eq!(one(&mut bench, src, 2), "out");
    }
    assert_eq!(one(&mut bench, 3, 2), "!FlowFull");
    assert_eq!(marks(&bench), 2);
    bench
}

fn one(bench: &mut Bench, src: u8, port: u16) -> String {
    bench.now_ns += 1;
    bench.one(0, &packet(UDP, (src, 5), (9, port), 0))
}

fn marks(bench: &Bench) -> usize {
    spared(bench.running.flows(0).unwrap()).len()
}

/// A third flow is taken in, and another one has given way.
fn takes_a_third(bench: &mut Bench) {
    assert_eq!(one(bench, 3, 2), "out");
    assert_eq!(bench.running.counts.evicted, 1);
    assert_eq!(bench.running.flows(0).unwrap().check(), Ok(()));
}

#[test]
fn a_flow_that_a_packet_brings_back_gives_way() {
    let mut bench = marked();
    // What stays in states that are spared keeps its mark.
    assert_eq!(one(&mut bench, 2, 2), "out");
    assert_eq!(marks(&bench), 2);
    assert_eq!(one(&mut bench, 2, 1), "other");
    assert_eq!(marks(&bench), 1);
    takes_a_third(&mut bench);
}

#[test]
fn a_flow_that_was_idle_gives_way() {
    let mut bench = marked();
    bench.now_ns += 6_000_000_000;
    let now_ns = bench.now_ns;
    assert!(!bench.running.expire(0, now_ns, 1000));
    assert_eq!(marks(&bench), 0);
    takes_a_third(&mut bench);
}

#[test]
fn a_flow_that_somebody_sets_gives_way() {
    let mut bench = marked();
    let table = bench.running.flows(0).unwrap();
    let mut keys = Vec::new();
    table.walk(&mut crate::Cursor::default(), 10, |_, entry| {
        keys.push(entry.key(0));
    });
    let setting = FlowSetting {
        key: vec![keys[0]],
        registers: vec![(0, HALF)],
    };
    let now_ns = bench.now_ns;
    assert_eq!(bench.running.set_flows(0, &[setting], now_ns), Ok(0));
    assert_eq!(marks(&bench), 1);
    takes_a_third(&mut bench);
}

#[test]
fn another_program_does_not_believe_the_marks_of_the_one_before() {
    let mut bench = marked();
    bench.running.replace(loaded("half", 2));
    assert_eq!(marks(&bench), 2);
    bench.running.replace(loaded("whole", 2));
    assert_eq!(marks(&bench), 0);
    takes_a_third(&mut bench);
}

#[test]
fn a_successor_believes_marks_of_its_own_states_alone() {
    for (gives_way, left) in [("half", 2), ("new, half", 0)] {
        let first = program("half", 2);
        let layout = Layout::of(&first);
        let memory = Arc::new(HeapMemory::new(layout.words));
        let mut bench = marked();
        let ground = layout.create(&first, &memory, || [1, 2], 0).unwrap();
        let none = || layout.share(&Arc::new(HeapMemory::new(0))).unwrap();
        bench.running = Running::new(Box::new(Loaded::new(first, None)), ground, none());
        for (src, said) in [(1, "out"), (2, "out"), (3, "!FlowFull")] {
            assert_eq!(one(&mut bench, src, 2), said);
        }
        let next = program(gives_way, 2);
        let ground = layout.attach(&next, &memory, u64::MAX).unwrap();
        bench.running = Running::new(Box::new(Loaded::new(next, None)), ground, none());
        assert_eq!(marks(&bench), left, "{gives_way}");
    }
}

/// Two tables of eight flows. In the second one nobody is marked.
struct Both([Bench; 2]);

impl Both {
    fn new() -> Self {
        let mut both = Self([0; 2].map(|_| Bench::new(&document("half", 8))));
        both.mark_in_the_first();
        both
    }

    fn mark_in_the_first(&mut self) {
        self.0[1].running.flows_mut(0).unwrap().set_sparing(0);
    }

    /// The same for both; gives what has come of it.
    fn each<T: PartialEq + std::fmt::Debug>(&mut self, mut run: impl FnMut(&mut Bench) -> T) -> T {
        let [first, second] = self.0.each_mut().map(&mut run);
        assert_eq!(first, second);
        first
    }

    fn step(&mut self, random: &mut Random) {
        let (src, number) = (random.below(14) as u8, random.below(4));
        match random.below(40) {
            0 => {
                let gives_way = ["half", "whole", "over, half", "new"][number as usize];
                self.each(|bench| _ = bench.running.replace(loaded(gives_way, 8)));
                self.mark_in_the_first();
            }
            1 => self.each(|bench| bench.now_ns += (1 + number) * 1_000_000_000),
            2 | 3 => _ = self.each(|bench| bench.running.expire(0, bench.now_ns, 2)),
            4 | 5 => {
                let all = contents(self.0[0].running.flows(0).unwrap());
                if let Some(key) = all.into_keys().nth(usize::from(src)) {
                    let registers = vec![(0, number.into())];
                    let setting = [FlowSetting { key, registers }];
                    let set =
                        |bench: &mut Bench| bench.running.set_flows(0, &setting, bench.now_ns);
                    assert_eq!(self.each(set), Ok(0));
                }
            }
            _ => _ = self.each(|bench| one(bench, src, 1 + number as u16)),
        }
        self.each(|bench| contents(bench.running.flows(0).unwrap()));
        self.each(|bench| bench.running.counts);
        assert_eq!(
            self.each(|bench| bench.running.flows(0).unwrap().check()),
            Ok(())
        );
    }
}

#[test]
fn with_and_without_marks_the_same_flows_give_way() {
    let mut random = Random(31);
    let mut all = [0; 3];
    for _ in 0..100 {
        let mut both = Both::new();
        for _ in 0..100 {
            both.step(&mut random);
            all[0] += marks(&both.0[0]);
            assert_eq!(marks(&both.0[1]), 0);
        }
        all[1] += both.0[0].running.counts.evicted as usize;
        all[2] += both.0[0].running.counts.not_stored as usize;
    }
    assert!(all.iter().all(|count| *count > 500), "{all:?} is no test");
}

/// Who answers a packet that a program makes is to be known: of a flow without a place nothing is.
#[test]
fn a_flow_that_finds_no_place_has_nothing_made_for_it() {
    let probe = packet(UDP, (7, 7), (8, 8), 0);
    for (when_full, last) in [
        ("drop", "!FlowFull"),
        ("evict oldest in asked", "!FlowFull"),
    ] {
        let mut bench = Bench::new(&json!({
            "outputs": ["out"],
            "templates": {"probe": {"packet": to_hex(&probe), "fields": ["ipv4.dst"]}},
            "elements": [{
                "name": "e", "flows": 1, "key": ["ipv4.src"], "when_full": when_full,
                "initial": "new",
                "states": {"new": {}, "asked": {}, "known": {}},
                "transitions": [
                    {"from": "new", "if": "udp.dst_port == 9", "next": "known",
                     "do": ["emit(probe, out, ipv4.src)", "output(out)"]},
                    {"from": "new", "if": "udp.dst_port == 8", "next": "asked",
                     "do": ["output(out)"]},
                    {"from": "new", "do": ["emit(probe, out, ipv4.src)", "output(out)"]},
                    {"do": ["output(out)"]},
                ],
            }],
        }));
        let from = |source, port| packet(UDP, (source, 1), (9, port), 0);
        assert_eq!(bench.one(0, &from(1, 9)), "out");
        assert_eq!(bench.running.emissions.made, 1);
        let mut refused = 0;
        for source in 2..200 {
            let made = bench.running.emissions.made;
            let decision = bench.one(0, &from(source, 9));
            let is_refused = decision == last;
            refused += u32::from(is_refused);
            let more = u64::from(!is_refused);
            assert_eq!(bench.running.emissions.made, made + more);
            bench.running.emissions.pop();
        }
        assert!(refused > 100, "{refused}");
        // What needs no place is sent on, with what is made for it.
        let made = bench.running.emissions.made;
        assert_eq!(bench.one(0, &from(250, 1)), "out");
        assert_eq!(bench.running.emissions.made, made + 1);
    }
}
