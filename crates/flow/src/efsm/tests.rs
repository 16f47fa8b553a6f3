//! Tests of documents: what they mean to packets, and what is said of wrong ones.

use serde_json::{Value, json};

use super::{Document, Problem, compile, to_hex};
use crate::program::frame::{Buffer, Frame};
use crate::program::ir::Verdict;
use crate::program::layout::{Ground, Layout};
use crate::program::run::{Arrival, Decision, Loaded, Running};
use crate::{HeapMemory, Memory};
use std::sync::Arc;

#[path = "../../tests/use_cases/packet.rs"]
mod packets;
pub(crate) use packets::{TCP, UDP, packet};

type Heap = crate::program::layout::Portion<HeapMemory>;

/// A program on the heap.
pub(crate) struct Bench {
    pub(crate) running: Running<Heap>,
    pub(crate) now_ns: u64,
}

pub(super) fn problems(document: &Value) -> Vec<Problem> {
    let document: Document = serde_json::from_value(document.clone()).unwrap();
    match compile(&document) {
        Ok(compiled) => compiled.warnings,
        Err(problems) => problems,
    }
}

/// Memory for registers that all shards share.
fn shared_words(layout: &Layout) -> Heap {
    let memory = Arc::new(HeapMemory::new(layout.shared_words));
    layout.share(&memory).unwrap()
}

impl Bench {
    pub(crate) fn new(document: &Value) -> Self {
        let document: Document = serde_json::from_value(document.clone()).unwrap();
        let program = compile(&document)
            .unwrap_or_else(|problems| panic!("{problems:#?}"))
            .program;
        let layout = Layout::of(&program);
        let memory = Arc::new(HeapMemory::new(layout.words));
        let ground: Ground<Heap> = layout.create(&program, &memory, || [1, 2], 0).unwrap();
        let shared = shared_words(&layout);
        Self {
            running: Running::new(Box::new(Loaded::new(program, None)), ground, shared),
            now_ns: 1_000_000_000,
        }
    }

    /// A burst from an input; what becomes of each packet, and its bytes.
    pub(crate) fn burst(&mut self, input: u8, frames: &[Vec<u8>]) -> Vec<(Decision, Vec<u8>)> {
        let mut buffers: Vec<Buffer> = frames.iter().map(|frame| Buffer::new(frame)).collect();
        let arrival = Arrival {
            now_ns: self.now_ns,
            input,
        };
        for element in 0..self.running.program().elements.len() {
            for (index, buffer) in buffers.iter_mut().enumerate() {
                self.running.make_key(element, index, buffer, arrival);
            }
            self.running.look_up(element, buffers.len(), self.now_ns);
            for (index, buffer) in buffers.iter_mut().enumerate() {
                self.running.step(element, index, buffer, arrival);
            }
        }
        let decided = buffers.iter().enumerate();
        decided
            .map(|(index, buffer)| (self.running.decision(index).0, buffer.bytes().to_vec()))
            .collect()
    }

    /// What becomes of one packet: the name of its output, or of its drop reason with a `!`.
    pub(crate) fn one(&mut self, input: u8, frame: &[u8]) -> String {
        let (decision, _) = self.burst(input, &[frame.to_vec()]).remove(0);
        self.named(decision)
    }

    pub(crate) fn named(&self, decision: Decision) -> String {
        let program = self.running.program();
        match decision {
            Decision::Program(Verdict::Output(at)) => program.outputs[usize::from(at)].clone(),
            Decision::Program(Verdict::Drop(at)) => {
                format!("!{}", program.reasons[usize::from(at)])
            }
            other => format!("!{other:?}"),
        }
    }

    pub(super) fn expire(&mut self, ns: u64) {
        self.now_ns += ns;
        self.running.expire(0, self.now_ns, 1000);
    }

    fn flows(&self) -> u32 {
        self.running.flows(0).unwrap().len()
    }
}

/// A program of one element with these members.
pub(super) fn program(element: Value) -> Value {
    let mut element = element;
    element["name"] = "e".into();
    json!({"outputs": ["out", "other"], "elements": [element]})
}

#[test]
fn conditions_see_what_was_before_the_packet() {
    let mut bench = Bench::new(&program(json!({
        "key": ["ipv4.src"],
        "registers": {"count": 8},
        "transitions": [
            {"if": "flow.count == 2", "do": ["drop(enough)"]},
            {"do": ["flow.count = flow.count + 1", "output(other)"]},
        ],
    })));
    let (a, b) = (
        packet(UDP, (1, 1), (9, 9), 0),
        packet(UDP, (2, 1), (9, 9), 0),
    );
    let decided = bench.burst(0, &[a.clone(), b, a.clone(), a.clone(), a]);
    let names: Vec<String> = decided
        .into_iter()
        .map(|(one, _)| bench.named(one))
        .collect();
    // Packets of one burst see what those before them have written.
    assert_eq!(names, ["other", "other", "other", "!enough", "!enough"]);
    assert_eq!(bench.flows(), 2);
}

#[test]
fn states_lead_from_one_to_the_next_and_times_end() {
    let mut bench = Bench::new(&program(json!({
        "key": ["ipv4.src"],
        "initial": "closed",
        "states": {"closed": {}, "half": {"hard": "2s"}, "open": {"idle": "5s"}},
        "transitions": [
            {"from": "closed", "if": "udp.dst_port == 7000", "do": ["drop(knock)"], "next": "half"},
            {"from": "half", "if": "udp.dst_port == 8000", "do": ["drop(knock)"], "next": "open"},
            {"from": "half", "do": ["drop(wrong)"], "next": "forget"},
            {"from": "open", "do": ["output(out)"]},
            {"from": "open", "on": "timeout", "next": "half"},
        ],
        "otherwise": ["drop(closed)"],
    })));
    let to = |port| packet(UDP, (1, 5), (9, port), 0);
    assert_eq!(bench.one(0, &to(22)), "!closed");
    assert_eq!(bench.flows(), 0);
    assert_eq!(bench.one(0, &to(7000)), "!knock");
    assert_eq!(bench.one(0, &to(22)), "!wrong");
    assert_eq!(bench.flows(), 0);
    assert_eq!(bench.one(0, &to(7000)), "!knock");
    assert_eq!(bench.one(0, &to(8000)), "!knock");
    assert_eq!(bench.one(0, &to(22)), "out");
    bench.expire(4_000_000_000);
    assert_eq!(bench.one(0, &to(22)), "out");
    // Open was idle for too long: half open again, where its time ends for good.
    bench.expire(5_100_000_000);
    assert_eq!(bench.flows(), 1);
    assert_eq!(bench.one(0, &to(8000)), "!knock");
    bench.expire(5_100_000_000);
    bench.expire(2_100_000_000);
    assert_eq!(bench.flows(), 0);
    assert_eq!(bench.one(0, &to(22)), "!closed");
}

#[test]
fn both_directions_are_one_flow_and_know_which_is_which() {
    let mut bench = Bench::new(&program(json!({
        "key": ["ip.protocol"],
        "biflow": [["ip.src", "ip.dst"], ["l4.src_port", "l4.dst_port"]],
        "registers": {"packets": 16},
        "transitions": [
            {"if": "flow.reversed", "do": ["flow.packets = flow.packets + 1", "output(other)"]},
            {"do": ["flow.packets = flow.packets + 1", "output(out)"]},
        ],
    })));
    assert_eq!(bench.one(0, &packet(TCP, (1, 80), (2, 90), 0)), "out");
    assert_eq!(bench.one(0, &packet(TCP, (2, 90), (1, 80), 0)), "other");
    // Equal addresses are told apart by the ports.
    assert_eq!(bench.one(0, &packet(TCP, (3, 90), (3, 80), 0)), "other");
    assert_eq!(bench.one(0, &packet(TCP, (3, 80), (3, 90), 0)), "out");
    assert_eq!(bench.flows(), 2);
    assert_eq!(bench.one(0, &packet(UDP, (1, 80), (2, 90), 0)), "out");
    assert_eq!(bench.flows(), 3);
}

#[test]
fn one_key_is_read_and_another_written() {
    // A switch that learns: where a source came from is where its packets go to.
    let mut bench = Bench::new(&program(json!({
        "key": ["eth.dst"],
        "update_key": ["eth.src"],
        "registers": {"port": 8},
        "transitions": [
            {"if": "flow.found && flow.port == 1",
             "do": ["flow.port = packet.input", "output(other)"]},
            {"if": "flow.found", "do": ["flow.port = packet.input", "output(out)"]},
            {"do": ["flow.port = packet.input", "drop(unknown)"]},
        ],
    })));
    let a_to_b = packet(UDP, (1, 1), (2, 2), 0);
    let mut b_to_a = a_to_b.clone();
    b_to_a[..12].rotate_left(6);
    assert_eq!(bench.one(1, &a_to_b), "!unknown");
    assert_eq!(bench.one(0, &b_to_a), "other");
    assert_eq!(bench.one(1, &a_to_b), "out");
    assert_eq!(bench.flows(), 2);
}

#[test]
fn a_full_table_does_as_the_program_says() {
    let document = |policy: &str| {
        program(json!({
            "key": ["ipv4.src"], "flows": 2, "when_full": policy, "registers": {"n": 32},
            "transitions": [
                {"if": "flow.full", "do": ["flow.n = 100", "output(other)"]},
                {"do": ["flow.n = flow.n + (udp.src_port as 32)", "output(out)"]},
            ],
        }))
    };
    let from = |src| packet(UDP, (src, u16::from(src)), (9, 9), 0);
    for (policy, third, flows) in [
        ("drop", "!FlowFull", 2),
        ("pass", "other", 2),
        ("evict oldest", "other", 2),
        ("evict lowest n", "other", 2),
    ] {
        let mut bench = Bench::new(&document(policy));
        for src in [1, 2] {
            assert_eq!(bench.one(0, &from(src)), "out");
            bench.now_ns += 1;
        }
        assert_eq!(bench.one(0, &from(3)), third, "{policy}");
        assert_eq!(bench.flows(), flows);
        let evicted = u64::from(policy.starts_with("evict"));
        assert_eq!(bench.running.counts.evicted, evicted, "{policy}");
        assert_eq!(bench.running.counts.not_stored, 1 - evicted, "{policy}");
        bench.now_ns += 1;
        if evicted == 0 {
            assert_eq!(bench.one(0, &from(1)), "out", "{policy}");
        }
    }
}

#[test]
fn flows_in_some_states_give_way_and_others_stay() {
    let mut bench = Bench::new(&program(json!({
        "key": ["ipv4.src"], "flows": 2, "when_full": "evict oldest in half, new",
        "initial": "new", "states": {"new": {}, "half": {}, "whole": {}},
        "transitions": [
            {"from": "new", "next": "half", "do": ["output(out)"]},
            {"from": "half", "next": "whole", "do": ["output(other)"]},
            {"from": "whole", "do": ["output(other)"]},
        ],
    })));
    let from = |src| packet(UDP, (src, 5), (9, 9), 0);
    let mut one = |src, expected: &str| {
        bench.now_ns += 1;
        assert_eq!(bench.one(0, &from(src)), expected, "{src}");
    };
    one(1, "out");
    one(1, "other");
    one(2, "out");
    // The second one gives way, though the first has been idle for longer.
    one(3, "out");
    one(1, "other");
    one(3, "other");
    // Now both are whole.
    one(4, "!FlowFull");
    one(1, "other");
    assert_eq!(
        (
            bench.running.counts.evicted,
            bench.running.counts.not_stored
        ),
        (1, 1)
    );
    let wrong = json!({"key": ["ipv4.src"], "when_full": "evict oldest in nowhere"});
    said(wrong, "when_full", "no policy", "evict oldest in STATE");
}

#[test]
fn elements_tell_each_other_by_metadata_and_a_verdict_ends_the_way() {
    let mut bench = Bench::new(&json!({
        "outputs": ["out", "other"],
        "metadata": {"mark": 8},
        "globals": {"seen": {"width": 32, "scope": "per_core"}},
        "elements": [
            {"name": "first", "key": ["ipv4.src"], "transitions": [
                {"if": "udp.dst_port == 1", "do": ["drop(first)"]},
                {"do": ["meta.mark = udp.dst_port as 8"]},
            ]},
            {"name": "second", "transitions": [
                {"if": "meta.mark == 2", "do": ["global.seen = global.seen + 1", "output(other)"]},
                {"do": ["global.seen = global.seen + 1", "output(out)"]},
            ]},
        ],
    }));
    let to = |port| packet(UDP, (1, 1), (9, port), 0);
    assert_eq!(bench.one(0, &to(1)), "!first");
    assert_eq!(bench.one(0, &to(2)), "other");
    assert_eq!(bench.one(0, &to(3)), "out");
    assert_eq!(bench.running.global(0, 0), Some(2));
}

#[test]
fn tables_meters_templates_and_events_do_what_statements_say() {
    let probe = packet(UDP, (7, 7), (8, 8), 0);
    let mut bench = Bench::new(&json!({
        "outputs": ["out", "other"],
        "metadata": {"colour": 2},
        "tables": {"servers": {"key": ["exact 16"], "data": {"addr": 32},
            "entries": [{"key": [53], "data": {"addr": "10.0.0.53"}}]}},
        "templates": {"probe": {"packet": to_hex(&probe), "fields": ["ipv4.dst", "udp.dst_port"]}},
        "elements": [{
            "name": "e", "key": ["ipv4.src"],
            "meters": {"limit": {"gcra": {"rate": "1pps", "burst": 2}}},
            "before": ["meta.colour = meter(limit)", "lookup(servers, udp.dst_port)"],
            "transitions": [
                {"if": "meta.colour == 2", "do": ["notify(red, ipv4.src)", "drop(red)"]},
                {"if": "servers.hit", "do": ["ipv4.dst = servers.addr", "clone(other)",
                    "emit(probe, other, ipv4.dst, 99)", "output(out)"]},
            ],
            "otherwise": ["drop(unknown)"],
        }],
    }));
    let (decision, bytes) = bench.burst(0, &[packet(UDP, (1, 1), (9, 53), 0)]).remove(0);
    assert_eq!(bench.named(decision), "out");
    assert_eq!(bytes, packet(UDP, (1, 1), (53, 53), 0));
    assert_eq!(bench.running.decision(0).1, 2);
    // Conditions and values see the field as it is when they are looked at.
    let (output, emitted) = bench.running.emissions.first().unwrap();
    assert_eq!((output, emitted), (1, &*packet(UDP, (7, 7), (53, 99), 0)));
    bench.running.emissions.pop();
    assert_eq!(bench.one(0, &packet(UDP, (1, 1), (9, 54), 0)), "!unknown");
    assert_eq!(bench.one(0, &packet(UDP, (1, 1), (9, 53), 0)), "!red");
    let notice = bench.running.notices.pop().unwrap();
    assert_eq!(notice.values[0], 0x0a00_0001);
    assert!(bench.running.emissions.is_empty());
}

#[test]
fn a_flow_whose_time_is_over_may_try_again_and_gives_up() {
    let probe = packet(UDP, (7, 7), (8, 8), 0);
    let mut bench = Bench::new(&json!({
        "templates": {"probe": {"packet": to_hex(&probe)}},
        "elements": [{
            "name": "e", "key": ["ipv4.src"], "registers": {"tries": 4},
            "initial": "new", "states": {"new": {}, "waiting": {"hard": "1s"}},
            "transitions": [
                {"from": "new", "do": ["emit(probe, out)", "drop(waits)"], "next": "waiting"},
                {"from": "waiting", "do": ["drop(waits)"]},
                {"from": "waiting", "on": "timeout", "if": "flow.tries < 2", "next": "waiting",
                 "do": ["flow.tries = flow.tries + 1", "emit(probe, out)"]},
                {"from": "waiting", "on": "timeout", "next": "forget"},
            ],
        }],
    }));
    assert_eq!(bench.one(0, &packet(UDP, (1, 1), (9, 9), 0)), "!waits");
    for (made, flows) in [(2, 1), (3, 1), (3, 0), (3, 0)] {
        bench.expire(1_100_000_000);
        assert_eq!((bench.running.emissions.made, bench.flows()), (made, flows));
    }
}

#[test]
fn packets_without_a_key_or_with_malformed_headers_have_their_own_way() {
    let mut bench = Bench::new(&program(json!({
        "key": ["tcp.src_port"],
        "keyless": ["output(other)", "drop(no_tcp) if valid(udp)"],
        "transitions": [{"do": ["output(out)"]}],
    })));
    assert_eq!(bench.one(0, &packet(TCP, (1, 1), (2, 2), 0)), "out");
    assert_eq!(bench.running.counts.keyless, 0);
    let arp = [&[0; 12][..], &[8, 6], &[0; 28]].concat();
    assert_eq!(bench.one(0, &arp), "other");
    assert_eq!(bench.one(0, &packet(UDP, (1, 1), (2, 2), 0)), "!no_tcp");
    assert_eq!(
        bench.one(0, &packet(TCP, (1, 1), (2, 2), 0)[..40]),
        "!Malformed"
    );
    let mut document = program(json!({"transitions": [{"do": ["output(other)"]}]}));
    document["malformed"] = "pass".into();
    assert_eq!(Bench::new(&document).one(0, &[0; 10]), "other");
}

#[test]
fn memory_of_the_same_layout_is_taken_over_and_of_another_is_not() {
    let document = |width: u8, limit: u8| -> Value {
        program(json!({
            "key": ["ipv4.src"], "flows": 10, "idle": "10s", "registers": {"n": width},
            "transitions": [
                {"if": format!("flow.n == {limit}"), "do": ["drop(enough)"]},
                {"do": ["flow.n = flow.n + 1", "output(out)"]},
            ],
        }))
    };
    let compiled = |document: &Value| {
        let document: Document = serde_json::from_value(document.clone()).unwrap();
        compile(&document).unwrap().program
    };
    let first = compiled(&document(8, 3));
    let layout = Layout::of(&first);
    let memory = Arc::new(HeapMemory::new(layout.words + 8));
    assert!(layout.attach(&first, &memory, 0).is_err());
    let ground = layout.create(&first, &memory, || [5, 6], 0).unwrap();
    let mut bench = Bench {
        running: Running::new(
            Box::new(Loaded::new(first, None)),
            ground,
            shared_words(&layout),
        ),
        now_ns: 1,
    };
    let frame = packet(UDP, (1, 1), (2, 2), 0);
    assert_eq!([bench.one(0, &frame), bench.one(0, &frame)], ["out", "out"]);
    // Another program of the same layout goes on where the first one was.
    let second = compiled(&document(8, 2));
    assert_eq!(Layout::of(&second).number, layout.number);
    let ground = Layout::of(&second)
        .attach(&second, &memory, u64::MAX)
        .unwrap();
    let shared = shared_words(&layout);
    bench.running = Running::new(Box::new(Loaded::new(second, None)), ground, shared);
    assert_eq!(bench.one(0, &frame), "!enough");
    // Its time goes on as well.
    bench.expire(9_000_000_000);
    assert_eq!(bench.flows(), 1);
    bench.expire(2_000_000_000);
    assert_eq!(bench.flows(), 0);
    let other = compiled(&document(16, 2));
    assert!(Layout::of(&other).attach(&other, &memory, 2).is_err());
    assert!(memory.words().len() >= layout.words);
}

/// What is said of an element with these members: path, and parts of message and repair.
pub(super) fn said(element: Value, path: &str, message: &str, repair: &str) {
    let found = problems(&program(element));
    let is_it = |one: &Problem| {
        one.path.contains(path) && one.message.contains(message) && one.repair.contains(repair)
    };
    assert!(
        found.iter().any(is_it),
        "{path}: {message} ({repair}): {found:#?}"
    );
}

#[test]
fn wrong_expressions_are_refused_with_their_place_and_a_repair() {
    let with = |statement: &str| {
        json!({"key": ["ipv4.src"], "registers": {"n": 8},
            "transitions": [{"do": [statement]}]})
    };
    let at = "transitions[0].do[0]";
    for (statement, message, repair) in [
        ("ipv4.sorc = 1", "there is no ipv4.sorc", "write ipv4.src"),
        ("flow.n = now", "64 bits do not fit 8", "as 8"),
        ("flow.n = 256", "256 does not fit 8 bits", "255"),
        ("ipv4.checksum = 1", "is not written", "follow"),
        ("flow.n = ipv4.ttl == 1 == 2", "comparisons in a row", "&&"),
        ("flow.n =", "the end is no value", "write a number"),
        ("flow.n = 3 parsecs", "does not belong here", "operator"),
        ("flow.n = 3parsecs", "is no unit", "ms"),
        ("drop(Red)", "is no reason", "small letters"),
        (
            "output(nowhere)",
            "there is no output nowhere",
            "out, other",
        ),
        (
            "drop(x) if flow.n",
            "8 bits: it is no condition",
            "flow.n != 0",
        ),
        ("encap(gtpu, 1)", "3 values, not 1", "teid (32 bits)"),
        ("explode()", "no statement explode", "output"),
        ("flow.n == 1", "this is no statement", "NAME = EXPRESSION"),
        ("flow.n = -1", "a number of no width", "as WIDTH"),
    ] {
        said(with(statement), at, message, repair);
    }
    let found = problems(&program(with("flow.n = flow.n + ipv4.sorc")));
    assert_eq!(found[0].at, 18);
}

#[test]
fn suspicious_programs_are_warned_about_and_wrong_ones_refused() {
    let states = json!({"a": {}, "b": {}, "lost": {}});
    let machine = |transitions: Value| {
        json!({"key": ["ipv4.src"], "initial": "a", "states": states, "registers": {"n": 8},
            "transitions": transitions})
    };
    let some = machine(json!([{"from": "a", "if": "flow.n == 1", "next": "b"}]));
    said(
        some.clone(),
        "states.lost",
        "no transition leads to lost",
        "add one",
    );
    said(some.clone(), "registers.n", "never written", "constant");
    said(some, "elements[0]", "may find no transition", "otherwise");
    let hidden = machine(json!([{"from": "a"}, {"from": "a", "if": "ipv4.ttl == 1"}]));
    said(
        hidden,
        "transitions[1]",
        "never taken from \"a\"",
        "priority",
    );
    let certain = machine(json!([
        {"from": "a", "if": "ipv4.ttl == 1", "priority": 5, "next": "b"},
        {"from": "a", "if": "ipv4.ttl == 1 && ipv4.tos == 2", "priority": 5},
    ]));
    said(
        certain,
        "transitions[1]",
        "overlaps",
        "different priorities",
    );
    let maybe = machine(json!([
        {"from": "a", "if": "ipv4.ttl == 1", "priority": 5, "next": "b"},
        {"from": "a", "if": "ipv4.tos == 2", "priority": 5},
    ]));
    said(
        maybe,
        "transitions[1]",
        "may hold together",
        "different priorities",
    );
    for (one, other) in [
        ("ipv4.ttl == 1", "ipv4.ttl > 1"),
        ("flow.n < ipv4.ttl", "flow.n >= ipv4.ttl"),
        ("tcp.flags & 2 == 2", "tcp.flags & 6 == 4"),
        ("!flow.found", "flow.found"),
    ] {
        let apart = machine(json!([
            {"from": "a", "if": one, "priority": 5}, {"from": "a", "if": other, "priority": 5},
        ]));
        let found = problems(&program(apart));
        let is_overlap = |problem: &Problem| problem.message.contains("same priority");
        assert!(
            !found.iter().any(is_overlap),
            "{one} against {other}: {found:#?}"
        );
    }
    let unnamed = json!({"key": ["ipv4.src"], "states": {"a": {}}});
    said(unnamed, "initial", "not named", "write initial: a");
    said(
        json!({"registers": {"n": 8}}),
        "key",
        "belong to flows",
        "write key",
    );
    let wide = json!({"key": ["ip.src", "ip.dst", "inner.ip.src", "inner.ip.dst", "eth.src"]});
    said(wide, "key", "at most 64 bytes", "hash");
    let stranger = machine(json!([{"from": "c", "next": "b"}]));
    said(
        stranger,
        "transitions[0].from",
        "there is no state c",
        "name one of",
    );
}
