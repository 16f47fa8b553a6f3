//! Goal: what is not as a test file expects is told with its place, what was expected and what
//! came; what a file cannot mean is refused. Method: a small program, files with one fault each.

use super::{Failure, Plan};
use crate::efsm::source::load;
use crate::program::ir::Program;
use crate::program::run::Arrival;
use crate::simulate::Simulation;

const PROGRAM: &str = r#"
outputs: [out, tap]
templates:
  probe:
    packet: "02000000000002000000000108004500001c00004000401166cf0a0000010a0000020007000700080000"
globals: { total: { width: 32, scope: per_core }, each: { width: 8, count: 4, scope: per_core } }
tables:
  servers:
    key: [exact 8]
    data: { addr: 32 }
    entries: [{ key: [0], data: { addr: 10.0.1.1 } }]
elements:
  - name: e
    key: [ipv4.src]
    registers: { seen: 8 }
    initial: new
    states: { new: {}, old: { idle: 10ms } }
    before: ["lookup(servers, 0)"]
    transitions:
      - from: new
        next: old
        do: [flow.seen = 1, global.total = global.total + 1, "global.each[2] = 7",
             "emit(probe, tap)", "notify(fresh, ipv4.src, 9)", clone(tap),
             ipv4.dst = servers.addr, output(out)]
      - { from: old, if: udp.dst_port == 1, do: [drop(closed)] }
      - { from: old, do: [flow.seen = flow.seen + 1, output(out)] }
    otherwise: [output(out)]
"#;

fn program() -> Program {
    let (mut found, _) = load("program", PROGRAM).unwrap_or_else(|errors| panic!("{errors}"));
    found.remove(0).compiled.program
}

/// UDP from 10.0.0.1:5 to 10.0.0.2:53.
pub(crate) fn frame() -> Vec<u8> {
    let packets = std::collections::BTreeMap::new();
    let names = super::packet::Names {
        packets: &packets,
        came: None,
    };
    super::packet::packet(names, "udp 10.0.0.1:5 > 10.0.0.2:53").unwrap()
}

fn run(text: &str) -> Vec<Failure> {
    let program = program();
    let plan =
        Plan::read("a.test.yaml", text, &program).unwrap_or_else(|errors| panic!("{errors}"));
    plan.run(&mut Simulation::new(program).unwrap(), || {})
}

const GOOD: &str = r#"
packets:
  ask: udp 10.0.0.1:5 > 10.0.0.2:53
steps:
  - at: 1ms
    packet: ask
    expect: out
    bytes: packet ipv4.dst=10.0.1.1
    fields: { ipv4.dst: 10.0.1.1, udp.dst_port: 53 }
    copies: [tap]
    emits: [{ output: tap, fields: { ipv4.protocol: 17 } }]
    events: [{ event: fresh, values: [10.0.0.1, 9] }]
    flows: { e: 1 }
    registers: [{ key: { ipv4.src: 10.0.0.1 }, is: { state: old, seen: 1 } }]
    globals: { total: 1, "each[2]": 7, "each[3]": 0 }
    tables: [{ table: servers, key: [0], data: { addr: 10.0.1.1 } }]
  - { at: 2ms, packet: ask, times: 3, expect: out, copies: [], emits: 0, events: 0 }
  - { at: 3ms, packet: udp 10.0.0.1:5 > 10.0.0.2:1, expect: "!closed" }
  - { at: 4ms, registers: [{ is: { seen: 4 } }, { key: { ipv4.src: 9 }, absent: true }] }
  - at: 1s
    set: [{ table: servers, key: [0], data: { addr: 10.0.1.2 } }]
    flows: { e: 0 }
  - { at: 1s, packet: ask, fields: { ipv4.dst: 10.0.1.2 } }
  - at: 2s
    remove: [{ table: servers, key: [0] }]
    tables: [{ table: servers, key: [0], absent: true }]
"#;

#[test]
fn everything_that_can_be_expected_is_met() {
    assert_eq!(run(GOOD), []);
}

/// A right expectation, a wrong one in its place, and what is said of it, with its line.
const FAULTS: &[(&str, &str, u32, &str)] = &[
    (
        "expect: out\n    b",
        "expect: tap\n    b",
        7,
        "steps[0].expect: expected tap, came out",
    ),
    (
        "ipv4.dst=10.0.1.1",
        "ipv4.dst=10.0.1.3",
        8,
        "steps[0].bytes: expected 42 bytes, came 3 of",
    ),
    (
        "udp.dst_port: 53",
        "udp.dst_port: 54",
        9,
        "expected udp.dst_port 54, came udp.dst_port 53",
    ),
    (
        "udp.dst_port: 53",
        "tcp.seq: 1",
        9,
        "came a packet without tcp",
    ),
    (
        "copies: [tap]",
        "copies: [out, tap]",
        10,
        "steps[0].copies: expected out, tap, came tap",
    ),
    (
        "emits: [{ output: tap,",
        "emits: [{ output: out,",
        11,
        "steps[0].emits[0].output",
    ),
    (
        "protocol: 17",
        "protocol: 6",
        11,
        "expected ipv4.protocol 6, came ipv4.protocol 17",
    ),
    (
        "emits: 0",
        "emits: 1",
        17,
        "steps[1].emits: expected 1 packet, came 0 packets",
    ),
    (
        "10.0.0.1, 9]",
        "10.0.0.1, 8]",
        12,
        "expected 167772161, 8, came 167772161, 9",
    ),
    (
        "events: [{ event: fresh, values: [10.0.0.1, 9] }]",
        "events: 2",
        12,
        "came fresh(1677",
    ),
    (
        "events: [{ event: fresh, values: [10.0.0.1, 9] }]",
        "events: []",
        12,
        "expected 0, came f",
    ),
    (
        "flows: { e: 1 }",
        "flows: { e: 2 }",
        13,
        "steps[0].flows: expected 2 of e, came 1 of e",
    ),
    (
        "state: old",
        "state: new",
        14,
        "steps[0].registers[0]: expected state new, came state old",
    ),
    ("seen: 1 }", "seen: 2 }", 14, "expected seen 2, came seen 1"),
    (
        "ipv4.src: 10.0.0.1 }",
        "ipv4.src: 10.0.0.2 }",
        14,
        "expected one flow with this key, came n",
    ),
    (
        "total: 1",
        "total: 2",
        15,
        "steps[0].globals: expected total 2, came total 1",
    ),
    (
        "key: [0], data: { addr: 10.0.1.1 }",
        "key: [0], data: { addr: 10.0.1.2 }",
        16,
        "addr 1677",
    ),
    (
        "times: 3, expect: out",
        "times: 3, expect: tap",
        17,
        "expected tap, came out (3 times)",
    ),
    (
        "\"!closed\"",
        "out",
        18,
        "steps[2].expect: expected out, came !closed",
    ),
    (
        "[{ is: { seen: 4 } },",
        "[{ absent: true },",
        19,
        "expected no such flow, came one",
    ),
    (
        "remove: [{ table: servers, key: [0] }]",
        "remove: [{ table: servers, key: [1] }]",
        25,
        "no e",
    ),
    (
        "key: [0], absent: true",
        "key: [9]",
        26,
        "an entry of servers, came none with this key",
    ),
];

#[test]
fn what_is_not_as_expected_is_told_with_its_line() {
    for (right, wrong, line, said) in FAULTS {
        assert!(GOOD.contains(right), "{right}");
        let failures = run(&GOOD.replacen(right, wrong, 1));
        let first = failures
            .first()
            .unwrap_or_else(|| panic!("{wrong}: nothing was noticed"));
        assert!(first.to_string().contains(said), "{wrong}: {first}");
        assert_eq!(first.line, *line, "{wrong}: {first}");
    }
}

/// What a file cannot mean, with the line and what is said of it.
const REFUSED: &[(&str, &str, u32, &str)] = &[
    (
        "expect: out\n    b",
        "expect: uot\n    b",
        7,
        "the program has no output uot",
    ),
    ("\"!closed\"", "\"!clsoed\"", 18, "no drop reason clsoed"),
    ("copies: [tap]", "copies: [tip]", 10, "no output tip"),
    (
        "emits: [{ output: tap,",
        "emits: [{ output: tip,",
        11,
        "no output tip",
    ),
    ("event: fresh", "event: stale", 12, "no event stale"),
    (
        "flows: { e: 1 }",
        "flows: { f: 1 }",
        13,
        "no element with flows f",
    ),
    ("state: old", "state: odd", 14, "no state odd"),
    ("seen: 1 }", "sen: 1 }", 14, "no register sen"),
    ("seen: 1 }", "seen: 256 }", 14, "does not fit 8 bits"),
    (
        "ipv4.src: 10.0.0.1 }",
        "ipv4.dst: 10.0.0.1 }",
        14,
        "no part of this key ipv4.dst",
    ),
    ("total: 1", "totl: 1", 15, "no global register totl"),
    ("each[3]", "each[4]", 15, "each has 4 places"),
    ("each[3]", "each[x]", 15, "NAME[NUMBER]"),
    (
        "table: servers, key: [0], data: { addr: 10.0.1.1",
        "table: s, key: [0], data: { addr: 1",
        16,
        "no table s",
    ),
    (
        "data: { addr: 10.0.1.1 }",
        "data: { adr: 1 }",
        16,
        "no datum of this table adr",
    ),
    (
        "key: [0], absent",
        "key: [0, 1], absent",
        26,
        "the key of servers has 1 parts",
    ),
    ("packet: ask\n", "packet: aks\n", 6, "one of packets: ask"),
    (
        "ask: udp 10.0.0.1:5 >",
        "ask: udp 10.0.0.1:5",
        3,
        "write udp FROM > TO",
    ),
    (
        "udp.dst_port: 53",
        "udp.dst_prot: 53",
        9,
        "there is no field udp.dst_prot",
    ),
    ("times: 3", "times: 0", 17, "at least once"),
    (
        "times: 3",
        "times: 60000000",
        17,
        "at most 50000000 packets",
    ),
    ("packet: ask, fields", "fields", 23, "no packet of which"),
    ("expect: out\n    b", "expct: out\n    b", 7, "expct"),
];

#[test]
fn what_a_file_cannot_mean_is_refused_with_its_line() {
    let program = program();
    for (right, wrong, line, said) in REFUSED {
        assert!(GOOD.contains(right), "{right}");
        let text = GOOD.replacen(right, wrong, 1);
        let errors = Plan::read("a.test.yaml", &text, &program).expect_err(wrong);
        let first = &errors.errors[0];
        assert!(first.message.contains(said), "{wrong}: {errors}");
        assert_eq!(first.at.line, *line, "{wrong}: {errors}");
    }
    for text in [
        "",
        "steps: 7",
        "steps: [",
        "- 1",
        "steps: [{ at: yesterday }]",
    ] {
        assert!(Plan::read("a.test.yaml", text, &program).is_err(), "{text}");
    }
}

/// A connection, or none: begun, whole, left to its time, forgotten, or out of room.
const CHANGES: &str = r#"
elements:
  - name: e
    key: [ipv4.src]
    flows: 4
    when_full: evict oldest
    registers: { seen: 8 }
    initial: none
    changes: moved
    states: { half: { idle: 10ms }, none: {}, whole: { idle: 20ms } }
    transitions:
      - { from: none, next: half, do: [output(out)] }
      - { from: half, next: whole, do: [output(out)] }
      - { from: whole, if: udp.dst_port == 1, next: forget, do: [output(out)] }
      - { from: whole, do: ["flow.seen = 1", output(out)] }
      - { from: whole, on: timeout, next: half }
    otherwise: [output(out)]
"#;

fn changes(text: &str) -> Result<Vec<Failure>, String> {
    let (mut found, _) = load("program", CHANGES).unwrap_or_else(|errors| panic!("{errors}"));
    let program = found.remove(0).compiled.program;
    let plan = Plan::read("a.test.yaml", text, &program).map_err(|errors| errors.to_string())?;
    Ok(plan.run(&mut Simulation::new(program).unwrap(), || {}))
}

#[test]
fn changes_of_state_are_told_with_the_flow_s_key() {
    const TEXT: &str = r#"
packets:
  one: udp 10.0.0.1:5 > 10.0.0.2:53
  two: udp 10.0.0.9:5 > 10.0.0.2:53
  end: udp 10.0.0.9:5 > 10.0.0.2:1
steps:
  - at: 1ms
    packet: one
    times: 3
    events:
      - { event: moved, values: [none, half], key: { ipv4.src: 10.0.0.1 } }
      - { event: moved, values: [half, whole], key: { ipv4.src: 10.0.0.1 } }
  - at: 50ms
    events: [{ event: moved, values: [whole, half] }, { event: moved, values: [half] }]
  - { at: 51ms, packet: one, events: [{ event: moved, values: [none, half] }] }
  - at: 52ms
    packet: two
    times: 2
    events:
      - { event: moved, values: [none, half], key: { ipv4.src: 10.0.0.9 } }
      - { event: moved, values: [half, whole] }
  - { at: 53ms, packet: end, flows: { e: 1 }, events: [{ event: moved, values: [whole] }] }
"#;
    assert_eq!(changes(TEXT), Ok(Vec::new()));
    let said = |right: &str, wrong: &str| {
        assert!(TEXT.contains(right));
        let failures = changes(&TEXT.replacen(right, wrong, 1))?;
        Ok::<_, String>(failures[0].to_string())
    };
    let wrong = said("[whole, half]", "[whole, none]").unwrap();
    assert!(
        wrong.contains("expected whole, none, came whole, half"),
        "{wrong}"
    );
    let wrong = said("key: { ipv4.src: 10.0.0.9 }", "key: { ipv4.src: 10.0.0.8 }").unwrap();
    assert!(wrong.contains("events[0].key"), "{wrong}");
    let wrong = said("[none, half]", "[none, full]").unwrap_err();
    assert!(wrong.contains("full") && wrong.contains("half"), "{wrong}");
    let wrong = said("ipv4.src: 10.0.0.9", "ipv4.dst: 10.0.0.9").unwrap_err();
    assert!(wrong.contains("part of this key"), "{wrong}");
}

/// Who gives way has ended as well as others, and is told by its own key.
#[test]
fn flows_that_give_way_are_told() {
    let (mut found, _) = load("program", CHANGES).unwrap_or_else(|errors| panic!("{errors}"));
    let program = found.remove(0).compiled.program;
    let mut simulation = Simulation::new(program).unwrap();
    let (mut begun, mut ended) = (Vec::new(), Vec::new());
    for source in 0..200_u8 {
        let mut packet = frame();
        packet[29] = source;
        let arrival = Arrival {
            now_ns: 1_000 * u64::from(source),
            input: 0,
        };
        simulation.packet(&packet, arrival);
        for (_, notice) in simulation.events() {
            match notice.values() {
                [0, 1] => begun.push(notice.key[0]),
                [1] => ended.push(notice.key[0]),
                other => panic!("{other:?}"),
            }
        }
    }
    let running = simulation.running();
    let flows = running.flows(0).unwrap().len() as usize;
    assert!(running.counts.evicted > 100, "{}", running.counts.evicted);
    assert_eq!(ended.len() as u64, running.counts.evicted);
    assert_eq!(begun.len() - ended.len(), flows);
    assert!(ended.iter().all(|key| begun.contains(key)));
}

#[test]
fn an_event_of_changes_is_told_by_nobody_else() {
    let refused = |from: &str, to: &str| {
        assert!(CHANGES.contains(from));
        let Err(errors) = load("program", &CHANGES.replacen(from, to, 1)) else {
            panic!("{to} is taken");
        };
        errors.to_string()
    };
    let wrong = refused("\"flow.seen = 1\"", "\"notify(moved, 1)\"");
    assert!(wrong.contains("moved tells changes of state"), "{wrong}");
    let second = "\nelements:\n  - { name: f, initial: a, states: { a: {} }, key: [ipv4.src], \
                  changes: moved }\n";
    let wrong = refused("\nelements:\n", second);
    assert!(wrong.contains("moved is told elsewhere"), "{wrong}");
    let second = "\nelements:\n  - { name: f, key: [ipv4.src], changes: gone }\n";
    let wrong = refused("\nelements:\n", second);
    assert!(wrong.contains("its flows have no states"), "{wrong}");
}
