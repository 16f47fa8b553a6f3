//! Tests of what is said of shared registers that lose what other shards write.

use serde_json::json;

use super::super::tests::program;
use super::tests::{all, machine};

/// A shared register that is written from what was read of it, by whatever way, is told of; one
/// that changes in one step is not, and neither are those of each shard.
#[test]
fn values_of_shared_registers_that_are_written_back_are_stale() {
    let with = |scope: &str| {
        let mut document = program(machine(&json!({
            "registers": {"kept": 8, "free": 8},
            "before": ["meta.turn = global.next", "flow.kept = meta.turn + 1",
                "meta.copy = hash(meta.turn, ipv4.dst) as 8"],
            "transitions": [
                {"next": "b", "if": "ipv4.ttl == 1", "do": [
                    "global.next = (global.next + 1) % 3", "global.all[2] = flow.kept",
                    "global.next = global.next + meta.copy", "flow.free = fetch_add(global.next, 1)",
                ]},
                {"do": ["global.next = min(global.all[1], 3)", "output(out)"]},
            ],
        })));
        let second = json!({"name": "second", "key": ["ipv4.dst"],
        "registers": {"kept": 8}, "transitions": [{"do": [
            "global.next = flow.kept", "flow.kept = 1", "global.next = meta.copy + 1",
            "output(out)",
        ]}]});
        document["elements"][0]["transitions"][1]["do"][1] = json!("ipv4.ttl = flow.free");
        document["elements"].as_array_mut().unwrap().push(second);
        document["metadata"] = json!({"turn": 8, "copy": 8});
        document["globals"] = json!({
            "next": {"width": 8, "scope": scope},
            "all": {"width": 8, "count": 3, "initial": 1, "scope": scope},
        });
        all(&document)
    };
    let repair = "change it in one step (global.next = global.next + ..., or meta.x = \
                  fetch_add(global.next, ...)), or give it the scope per_core";
    let expected = [
        "elements[0].transitions[0].do[0]: global.next is read and then written, and what other \
         shards write in between is lost",
        "elements[1].transitions[0].do[2]: meta.copy is stale: other shards may have written \
         global.next since it was read, and that is lost",
    ];
    let expected = expected.map(|line| format!("{line} ({repair})"));
    assert_eq!(with("shared"), expected);
    assert_eq!(with("per_core"), [""; 0]);
}

/// So is what is written where a guard or a condition has seen it, or something made of it: what
/// others have written since is lost. A step loses nothing, whatever decides about it.
#[test]
fn what_is_written_where_a_condition_has_read_it_is_stale() {
    let with = |before: &[&str], condition: &str, list: &[&str]| {
        let mut document = program(machine(&json!({"before": before, "transitions": [
            {"next": "b", "if": condition, "do": list},
            {"do": ["ipv4.ttl = meta.seen", "output(out)"]},
        ]})));
        document["metadata"] = json!({"seen": 8});
        document["globals"] = json!({"next": {"width": 8, "scope": "shared"}});
        all(&document)
    };
    let (reset, turn) = ("global.next = 0", "global.next = global.next + 1");
    let (guarded, seen) = ("global.next = 0 if global.next >= 3", "meta.seen = 1");
    type Row<'a> = (&'a [&'a str], &'a str, &'a [&'a str], Option<&'a str>);
    let rows: [Row<'_>; 6] = [
        (
            &[turn, seen, guarded],
            "ipv4.ttl == 1",
            &[],
            Some("before[2]"),
        ),
        (
            &[seen],
            "global.next >= 3",
            &[reset],
            Some("transitions[0].do[0]"),
        ),
        (
            &["meta.seen = 1 if global.next == 3"],
            "ipv4.ttl == 1",
            &["global.next = 0 if meta.seen == 1"],
            Some("transitions[0].do[0]"),
        ),
        (&[seen], "global.next < 3", &[turn], None),
        (
            &[seen, "global.next = global.next + 1 if global.next < 3"],
            "ipv4.ttl == 1",
            &[],
            None,
        ),
        (
            &[seen, turn],
            "ipv4.ttl == 1",
            &["global.next = 0 if ipv4.dscp == 3"],
            None,
        ),
    ];
    for (before, condition, list, place) in rows {
        let found = with(before, condition, list);
        assert!(!found.iter().any(|line| line.starts_with('!')), "{found:?}");
        let lost = found.iter().filter(|line| line.contains("is lost"));
        let lost: Vec<&String> = lost.collect();
        match place {
            Some(place) => assert!(lost.len() == 1 && lost[0].contains(place), "{found:?}"),
            None => assert_eq!(lost, [""; 0], "{found:?}"),
        }
    }
}
