//! Tests of what is said of suspicious programs, to the word.

use serde_json::{Value, json};

use super::super::Problem;
use super::super::tests::{problems, program};

/// What is said of a document: errors begin with `!`.
pub(super) fn all(document: &Value) -> Vec<String> {
    let shown = |one: &Problem| {
        let sign = if one.is_error { "!" } else { "" };
        format!("{sign}{}: {} ({})", one.path, one.message, one.repair)
    };
    problems(document).iter().map(shown).collect()
}

/// An element of two states that flows can be in, with members of these.
pub(super) fn machine(members: &Value) -> Value {
    let mut element = json!({"key": ["ipv4.src"], "initial": "a", "states": {"a": {}, "b": {}},
        "transitions": [{"next": "b", "if": "ipv4.ttl == 1"}, {"do": ["output(out)"]}]});
    for (name, value) in members.as_object().unwrap() {
        element[name] = value.clone();
    }
    element
}

/// What is said of an element with these members: just that.
fn said(members: Value, expected: &[&str]) {
    assert_eq!(all(&program(machine(&members))), expected, "{members}");
}

#[test]
fn conditions_that_never_hold_are_refused() {
    let when = |condition: &str| {
        json!({"registers": {"n": 8}, "conditions": {"low": "flow.n < LEAST"},
        "transitions": [
            {"if": condition, "do": ["flow.n = flow.n + 1", "output(other) if low"]},
            {"do": ["output(out)"]}, {"next": "b", "priority": 1, "if": "ipv4.ttl == 1"},
        ]})
    };
    let at = "!elements[0].transitions[0].if: ";
    let alone = "write another number, or remove the transition";
    let both = "remove one of the two, or make two transitions of them";
    for (condition, expected, repair) in [
        (
            "ipv4.ttl == 1 && ipv4.ttl == 2",
            "(ipv4.ttl == 1) and (ipv4.ttl == 2) never hold together",
            both,
        ),
        (
            "flow.n > 5 && low",
            "(flow.n > 5) and (flow.n < 3) never hold together",
            both,
        ),
        (
            "flow.n < ipv4.ttl && !(flow.n < ipv4.ttl)",
            "(flow.n < ipv4.ttl) and !(flow.n < ipv4.ttl) never hold together",
            both,
        ),
        ("flow.n < 0", "(flow.n < 0) never holds", alone),
        ("flow.n > 255", "(flow.n > 255) never holds", alone),
        ("LEAST > 4", "(3 > 4) never holds", alone),
        (
            "tcp.flags & 2 == 3",
            "((tcp.flags & 2) == 3) never holds: 0x3 has bits outside 0x2",
            alone,
        ),
    ] {
        let mut document = program(machine(&when(condition)));
        document["constants"] = json!({"LEAST": 3});
        assert_eq!(all(&document), [format!("{at}{expected} ({repair})")]);
    }
    let mut always = program(machine(&when("flow.n <= 255")));
    always["constants"] = json!({"LEAST": 3});
    let expected = "elements[0].transitions[0].if: (flow.n <= 255) always holds (remove it, or \
                    write another number)";
    assert!(all(&always).contains(&expected.to_owned()), "{always}");
}

#[test]
fn patterns_that_never_match_are_refused() {
    let with = |pattern: &str| {
        json!({"transitions": [{"next": "b", "match": {"tcp.flags": pattern}},
            {"do": ["output(out)"]}]})
    };
    let repair = "write 80, 10.0.0.0/8, 0x02/0x12, 1024-65535 or any";
    for (pattern, message) in [
        (
            "3/2",
            "\"3/2\" has bits outside its mask: it would never match",
        ),
        ("9-8", "\"9-8\" is empty: the lower end stands first"),
    ] {
        let expected = format!("!elements[0].transitions[0].match: {message} ({repair})");
        assert!(all(&program(machine(&with(pattern)))).contains(&expected));
    }
}

#[test]
fn transitions_that_others_hide_or_overlap_are_told() {
    let two = |one: Value, other: Value| {
        let mut list = [one, other];
        list[0]["next"] = "b".into();
        list[1]["do"] = json!(["output(other)"]);
        json!({"transitions": list, "otherwise": ["output(out)"]})
    };
    let hidden = |text: &str| {
        ["a", "b"].map(|state| {
            format!(
                "elements[0].transitions[1]: never taken from \"{state}\": \"{text}\" comes first \
                 (give it a greater priority, or the other one a condition)"
            )
        })
    };
    let same = two(
        json!({"if": "ipv4.ttl == 1"}),
        json!({"if": "ipv4.ttl == 1"}),
    );
    let texts = hidden("any -> b, if (ipv4.ttl == 1)");
    said(same, &[&*texts[0], &*texts[1]]);
    let wider = two(
        json!({"match": {"tcp.flags": "2/2"}}),
        json!({"match": {"tcp.flags": "6/6"}}),
    );
    let texts = hidden("any -> b, if ((tcp.flags & 2) == 2)");
    said(wider, &[&*texts[0], &*texts[1]]);
    // Neither is within the other, and there are flags that both match.
    let crossed = two(
        json!({"match": {"tcp.flags": "2/3"}, "priority": 4}),
        json!({"match": {"tcp.flags": "4/5"}, "priority": 4}),
    );
    let repair = "give them different priorities, or conditions that exclude each other";
    let texts = ["a", "b"].map(|state| {
        format!(
            "!elements[0].transitions[1]: it overlaps \"any -> b, if ((tcp.flags & 3) == 2)\" of \
             the same priority in \"{state}\" ({repair})"
        )
    });
    said(crossed, &[&*texts[0], &*texts[1]]);
    let apart = two(
        json!({"match": {"tcp.flags": "2/3"}, "priority": 4}),
        json!({"match": {"tcp.flags": "5/5"}, "priority": 4}),
    );
    said(apart, &[]);
}

#[test]
fn a_state_is_reached_by_what_can_be_taken_alone() {
    let lost = "elements[0].states.b: no transition leads to b (add one, or remove the state)";
    let hidden = json!({"transitions": [{"do": ["output(out)"]},
        {"next": "b", "from": "a", "if": "ipv4.ttl == 1"}]});
    let never = "elements[0].transitions[1]: never taken from \"a\": \"any -> same\" comes first \
                 (give it a greater priority, or the other one a condition)";
    said(hidden, &[lost, never]);
}

#[test]
fn timeouts_and_what_is_done_then_belong_together() {
    let with = |states: Value, from: Value| {
        json!({"states": states, "transitions": [
            {"next": "b", "if": "ipv4.ttl == 1"}, {"do": ["output(out)"]},
            {"from": from, "on": "timeout", "next": "a"},
        ]})
    };
    said(
        with(json!({"a": {}, "b": {}}), json!("b")),
        &[
            "!elements[0].transitions[2]: it is never taken: no state that it is from has a \
             timeout (write idle or hard for the state or the element, or remove the transition)",
        ],
    );
    said(
        with(json!({"a": {}, "b": {"idle": "1s"}}), json!(["a", "b"])),
        &[
            "elements[0].transitions[2]: never taken from a: no timeout there (write idle or \
             hard for the state, or leave it away here)",
        ],
    );
    said(with(json!({"a": {}, "b": {"idle": "1s"}}), json!([])), &[]);
    let without = program(json!({"idle": "1s", "transitions": [{"do": ["output(other)"]}]}));
    assert_eq!(
        all(&without),
        [
            "!elements[0].idle: idle is of flows, and no key says what a flow is (write key: \
             [ipv4.src], say, or remove it)"
        ]
    );
}

#[test]
fn verdicts_that_do_not_count_are_refused() {
    let with = |statements: Value| {
        json!({"transitions": [
        {"next": "b", "if": "ipv4.ttl == 1"}, {"do": statements}]})
    };
    let expected = "!elements[0].transitions[1].do[1]: it takes the place of the verdict do[0], \
                    which never counts (remove one of the two; one with `if` stands behind one \
                    without)";
    said(with(json!(["output(out)", "drop(no)"])), &[expected]);
    said(
        with(json!(["drop(no) if ipv4.ttl == 2", "output(out)"])),
        &[expected],
    );
    said(
        with(json!(["output(out)", "drop(no) if ipv4.ttl == 2"])),
        &[],
    );
    let behind = "elements[0].transitions[1].do[1]: it changes a packet that is dropped (remove \
                  it)";
    said(with(json!(["drop(no)", "ipv4.ttl = 3"])), &[behind]);
    said(with(json!(["drop(no)", "ipv4.ttl = 3", "clone(out)"])), &[]);
    let lost = json!({"registers": {"n": 8}, "transitions": [
        {"next": "b", "if": "flow.n == 1"}, {"do": ["forget()", "flow.n = 1"]}]});
    said(
        lost,
        &[
            "elements[0].transitions[1].do[1]: flow.n is lost: the flow's entry ends (remove it, \
             or forget())",
        ],
    );
}

#[test]
fn elements_that_no_packet_reaches_are_told() {
    let two = |first: Value| {
        let mut document = program(json!({"transitions": [{"do": ["output(other)"]}]}));
        let mut first = first;
        first["name"] = "first".into();
        document["elements"]
            .as_array_mut()
            .unwrap()
            .insert(0, first);
        document
    };
    let expected = "elements[1]: no packet reaches \"e\": \"first\" decides about all (remove it, \
                    or leave packets to it: those without a verdict go on)";
    let both = |verdict: &str| {
        json!({"transitions": [{"if": "ipv4.ttl < 9", "do": ["drop(old)"]},
            {"if": "ipv4.ttl >= 9", "do": [verdict]}]})
    };
    assert_eq!(all(&two(both("output(out)"))), [expected]);
    let some = "output(out) if ipv4.ttl == 20";
    assert_eq!(all(&two(both(some))), Vec::<String>::new());
    // Packets without a key go on, unless it is said what becomes of them.
    let mut keyed = both("output(out)");
    keyed["key"] = json!(["ipv4.src"]);
    assert_eq!(all(&two(keyed.clone())), Vec::<String>::new());
    keyed["keyless"] = json!(["drop(no_ip)"]);
    assert_eq!(all(&two(keyed)), [expected]);
}

#[test]
fn what_is_declared_and_not_used_is_told_and_places_beyond_arrays_refused() {
    let mut document = program(json!({
        "key": ["ipv4.src"], "meters": {"limit": {"gcra": {"rate": "1pps", "burst": 2}}},
        "conditions": {"old": "ipv4.ttl == 1"},
        "transitions": [{"do": [
            "global.seen[4] = 1", "meta.out = meta.in", "output(other)",
        ]}],
    }));
    document["metadata"] = json!({"in": 8, "out": 8});
    document["globals"] = json!({"seen": {"width": 8, "count": 4, "scope": "per_core"}});
    document["tables"] = json!({"servers": {"key": ["exact 8"]}});
    document["templates"] = json!({"probe": {"packet": probe()}});
    assert_eq!(
        all(&document),
        [
            "!elements[0].transitions[0].do[0]: global.seen has 4 elements: there is no \
             global.seen[4] (write an index from 0 to 3)",
            "elements[0].meters.limit: no packet is charged to the meter limit (write \
             meter(limit), or remove it)",
            "elements[0].conditions.old: the condition old is not used (write it in an `if`, or \
             remove it)",
            "metadata.in: meta.in is read and never written: it is always 0 (write it in front \
             of where it is read, or use a constant)",
            "metadata.out: meta.out is never read (read it, or remove it)",
            "tables.servers: nothing looks servers up (write lookup(servers, ...), or remove it)",
            "templates.probe: probe is never emitted (write emit(probe, ...), or remove it)",
            "globals.seen: global.seen is never read (remove it, if nobody asks for it)",
        ]
    );
}

pub(super) fn probe() -> String {
    "020000000001020000000002 0806".to_owned() + &"00".repeat(28)
}

/// A flow whose timeouts lead around, and emit.
fn around(back: Value) -> Value {
    let mut back = back;
    back["from"] = "b".into();
    back["on"] = "timeout".into();
    json!({
        "templates": {"probe": {"packet": probe()}},
        "constants": {"TRIES": "2 + 3"},
        "elements": [{
            "name": "e", "key": ["ipv4.src"], "registers": {"n": 8, "m": 8}, "initial": "a",
            "states": {"a": {"idle": "1s"}, "b": {"idle": "1s"}},
            "conditions": {"more": "flow.n < TRIES"},
            "transitions": [
                {"from": "a", "if": "more", "do": ["flow.n = flow.n + 1", "flow.m = 200"],
                 "next": "b"},
                {"from": "a", "on": "timeout", "next": "b"},
                back,
                {"from": "b", "on": "timeout", "if": "flow.m == 7", "next": "forget"},
            ],
            "otherwise": ["flow.n = 0"],
        }],
    })
}

#[test]
fn circles_that_emit_need_a_counter() {
    let emit = "emit(probe, out)";
    let is_bounded = |back: Value| {
        let found = problems(&around(back.clone()));
        let errors: Vec<&Problem> = found.iter().filter(|one| one.is_error).collect();
        for one in &errors {
            assert_eq!(
                one.message,
                "a flow may emit packets for ever, though none comes: nothing bounds how often \
                 its timeouts lead back here"
            );
            assert!(
                one.path.starts_with("elements[0].transitions[2].do["),
                "{one:?}"
            );
        }
        errors.is_empty()
    };
    let up = "flow.n = flow.n + 1";
    for (back, expected) in [
        // Nothing counts, though there are conditions, or something is emitted only sometimes.
        (json!({"do": [emit], "next": "a"}), false),
        (json!({"if": "more", "do": [emit], "next": "a"}), false),
        (json!({"if": "1 == 1", "do": [emit], "next": "a"}), false),
        (
            json!({"do": ["emit(probe, out) if flow.n == 3"], "next": "a"}),
            false,
        ),
        // A register counts, upwards or down, to a constant.
        (json!({"if": "more", "do": [up, emit], "next": "a"}), true),
        (
            json!({"if": "5 >= flow.n", "do": ["flow.n = 2 + flow.n", emit], "next": "a"}),
            true,
        ),
        (
            json!({"if": "flow.m > 0", "do": ["flow.m = flow.m - 1", emit], "next": "a"}),
            true,
        ),
        (
            json!({"if": "flow.m != 7 && flow.m >= 1",
                "do": ["flow.m = sat_sub(flow.m, 3)", emit], "next": "a"}),
            true,
        ),
        (
            json!({"do": ["emit(probe, out) if more", "flow.n = flow.n + 1 if more"],
            "next": "a"}),
            true,
        ),
        // It wraps, or not always counts, or is set back on the way, or goes both ways.
        (
            json!({"if": "flow.n <= 255", "do": [up, emit], "next": "a"}),
            false,
        ),
        (
            json!({"if": "flow.m > 0", "do": ["flow.m = flow.m - 2", emit], "next": "a"}),
            false,
        ),
        (
            json!({"do": ["emit(probe, out) if more", up], "next": "a"}),
            false,
        ),
        (
            json!({"if": "more", "do": ["flow.n = flow.n + 1 if flow.m == 1", emit],
            "next": "a"}),
            false,
        ),
        (
            json!({"if": "more", "do": ["flow.n = flow.n + 0", emit], "next": "a"}),
            false,
        ),
        (
            json!({"if": "more", "do": [up, "flow.n = 0 if flow.m == 1", emit], "next": "a"}),
            false,
        ),
        (
            json!({"if": "more && flow.m == 1",
                "do": ["flow.m = 2", "flow.n = flow.n + 1 if flow.m == 1", emit], "next": "a"}),
            false,
        ),
        // It does not lead back.
        (json!({"do": [emit], "next": "forget"}), true),
        (json!({"do": [emit, "forget()"], "next": "a"}), true),
        (
            json!({"do": [emit, "forget() if flow.m == 1"], "next": "a"}),
            false,
        ),
    ] {
        let shown = back.to_string();
        let mut document = around(back);
        // What can be taken alone counts.
        if shown.contains("1 == 1") {
            document["elements"][0]["transitions"][2]
                .as_object_mut()
                .unwrap()
                .remove("if");
        }
        assert_eq!(
            is_bounded(document["elements"][0]["transitions"][2].clone()),
            expected,
            "{shown}"
        );
    }
    // Where no time is over there is no way back.
    let mut document = around(json!({"do": [emit], "next": "a"}));
    document["elements"][0]["states"]["a"] = json!({});
    let found = problems(&document);
    assert!(
        !found.iter().any(|one| one.message.contains("for ever")),
        "{found:#?}"
    );
}

#[test]
fn what_ships_is_free_of_findings() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut seen = 0;
    for folder in ["crates/flow/programs", "chains", "examples/fb5g"] {
        for entry in std::fs::read_dir(root.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            let is_program = folder == "crates/flow/programs" || text.contains("type: flow");
            if !is_program || path.extension().is_none_or(|end| end != "yaml") {
                continue;
            }
            let loaded = super::super::source::load(&path.display().to_string(), &text);
            let (_, warnings) = loaded.unwrap_or_else(|errors| panic!("{errors}"));
            assert!(warnings.is_empty(), "{}: {warnings:#?}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 25, "{seen}");
}

#[test]
fn the_reference_quotes_what_is_said() {
    let reference = include_str!("../../../../../docs/reference/flow.md");
    let (_, section) = reference.split_once("## What is checked\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let said = [
        include_str!("tests.rs"),
        include_str!("stale_tests.rs"),
        include_str!("../tests.rs"),
        include_str!("../pattern.rs"),
        include_str!("order.rs"),
    ];
    let mut seen = 0;
    for row in section
        .lines()
        .filter(|line| line.starts_with("| ") && line.contains('`'))
    {
        let finding = row.split('|').nth(1).unwrap();
        for quoted in finding.split('`').skip(1).step_by(2) {
            for part in quoted.split("...").map(str::trim) {
                // Strings of the tests are broken where lines end.
                let whole = |text: &&str| {
                    let joined = text.split("\\\n").map(str::trim_start);
                    joined.collect::<String>().contains(part)
                };
                assert!(said.iter().any(whole), "nothing says \"{part}\"");
                seen += 1;
            }
        }
    }
    assert!(seen > 20, "{seen}");
}
