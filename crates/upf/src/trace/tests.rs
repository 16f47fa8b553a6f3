//! What a trace tells is what passed: held to what the other side of scenarios recorded.

use serde_json::{Value, json};

use super::*;
use crate::smf::scenario::Scenario;
use crate::smf::simulation::Simulation;

fn scenario(name: &str) -> Scenario {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../chains/upf/scenarios");
    let text = std::fs::read_to_string(format!("{folder}/{name}.yaml")).unwrap();
    Scenario::parse(&text).unwrap()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// A scenario whose first session is traced from its first turn on, and read whenever there is
/// something: what was recorded since on the other side, and the records.
fn traced(name: &str, snap: u64) -> (Vec<Vec<u8>>, Vec<Value>, Value) {
    let mut simulation = Simulation::new(scenario(name)).unwrap();
    let (mut begun, mut from, mut records) = (None, 0, Vec::new());
    let mut last = Value::Null;
    loop {
        let done = simulation
            .turn()
            .unwrap_or_else(|what| panic!("{name}: {what}"));
        if begun.is_none() {
            let sessions = simulation.ask(&json!({ "show": "sessions" })).unwrap();
            if let Some(seid) = sessions["sessions"][0]["seid"].as_u64() {
                let begin = json!({ "trace": "begin", "seid": seid, "snap": snap });
                begun = Some(simulation.ask(&begin).unwrap());
                from = simulation.recorded().len();
            }
        }
        if let Some(begun) = &begun {
            let read = json!({ "trace": "read", "id": begun["id"], "seid": begun["seid"] });
            last = simulation.ask(&read).unwrap();
            assert_eq!((&last["lost"], &last["more"]), (&json!(0), &json!(false)));
            records.extend(last["records"].as_array().unwrap().iter().cloned());
        }
        if done.is_some() {
            let recorded = &simulation.recorded()[from..];
            let frames = recorded.iter().map(|(_, frame)| frame.clone());
            return (frames.collect(), records, last);
        }
    }
}

/// Every frame of the session that passed is in its trace, once, and nothing else is: in these
/// scenarios all frames behind the establishment are the session's, but for heartbeats.
#[test]
fn a_trace_has_what_passed_and_nothing_else() {
    for name in [
        "paging",
        "quota",
        "gates",
        "volume-threshold",
        "inactivity",
        "handover",
        "duplicate",
    ] {
        let (passed, records, _) = traced(name, 65_535);
        let mut noted: Vec<_> = records
            .iter()
            .filter(|record| !record["way"].is_null())
            .map(|record| (bytes(record["frame"].as_str().unwrap()), record))
            .collect();
        // What was held is looked at again when it leaves, as it came.
        let mut held: Vec<Vec<u8>> = Vec::new();
        noted.retain(|(frame, record)| {
            let again = held.iter().position(|one| one == frame);
            match (record["what"].as_str(), again) {
                (Some("held"), None) => held.push(frame.clone()),
                (_, Some(at)) if record["way"] == "in" => {
                    held.remove(at);
                    return false;
                }
                _ => {}
            }
            true
        });
        let noted: Vec<_> = noted.into_iter().map(|(frame, _)| frame).collect();
        let is_of_node = |frame: &&Vec<u8>| {
            let payload = frame.get(42..).unwrap_or_default();
            frame.get(36..38) == Some(&[0x22, 0x65]) && payload.first() == Some(&0x20)
        };
        let passed: Vec<_> = passed.iter().filter(|frame| !is_of_node(frame)).collect();
        assert!(passed.len() > 4, "{name}");
        assert_eq!(passed.len(), noted.len(), "{name}");
        let sorted = |mut frames: Vec<&Vec<u8>>| {
            frames.sort();
            frames.into_iter().cloned().collect::<Vec<_>>()
        };
        assert_eq!(sorted(passed), sorted(noted.iter().collect()), "{name}");
    }
}

#[test]
fn a_record_says_which_rule_and_what_became_of_it() {
    let (_, records, last) = traced("paging", 65_535);
    let told = |word: &str| {
        let has = |record: &&Value| record["what"].as_str().unwrap().contains(word);
        records.iter().filter(has).collect::<Vec<_>>()
    };
    let held: Vec<_> = records
        .iter()
        .filter(|record| record["what"] == "held")
        .collect();
    assert!(!held.is_empty());
    assert!(held.iter().all(|record| record["interface"] == "n6"));
    // Those behind the first one keep their order, whatever their PDR.
    assert_eq!(held[0]["pdr_id"], 2, "{held:?}");
    let report = told("Session Report Request");
    assert_eq!(
        (&report[0]["way"], &report[0]["interface"]),
        (&json!("out"), &json!("n4"))
    );
    assert_eq!(told("Session Report Response")[0]["way"], "in");
    assert!(told("sent by n3").len() >= held.len(), "{records:?}");
    // In the order in which it happened, by the wall clock of the settings.
    let times: Vec<_> = records
        .iter()
        .map(|one| one["time_ns"].as_u64().unwrap())
        .collect();
    assert!(times.is_sorted() && times[0] >= 1_700_000_000_000_000_000);
    assert!(last["session"].is_boolean());
    let (_, records, _) = traced("gates", 20);
    let dropped = records
        .iter()
        .find(|record| record["reason"] == "gate_closed");
    let dropped = dropped.expect("a gate was closed");
    assert_eq!(
        dropped["frame"].as_str().unwrap().len(),
        40,
        "cut to 20 bytes"
    );
    assert!(dropped["bytes"].as_u64().unwrap() > 20);
}

fn session(slot: u32) -> Traced {
    Traced {
        slot,
        seid: u64::from(slot) + 100,
        cp_seid: 1,
        smf: [None; 2],
    }
}

/// What does not fit is counted, and what was read makes room; a fifth trace has to wait until one
/// ends, or until nobody has read one for long.
#[test]
fn limits_are_kept_and_nothing_is_noted_for_others() {
    let mut traces = Traces::from(u64::MAX);
    let ids: Vec<_> = (0..4)
        .map(|slot| traces.begin(session(slot), 1500).unwrap())
        .collect();
    assert_eq!(traces.begin(session(4), 1500), None);
    let frame = [7; 1500];
    let its = (0, 100);
    for _ in 0..5000 {
        let noted = traces.came(its, &frame, 5);
        traces.ruled(noted, Record::new(5, What::Came(Decision::Send(1))), None);
    }
    // The slot is another session's by now.
    assert_eq!(traces.came((0, 200), &frame, 5), 0);
    let room = BYTES_MAX / 1500;
    let trace = traces.read(ids[0], 100).unwrap();
    assert_eq!(trace.lost, 5000 - room as u64);
    assert_eq!(std::iter::from_fn(|| trace.take()).count(), room);
    assert_ne!(traces.came(its, &frame, 6), 0);
    assert_eq!(traces.read(ids[0], 101).map(|trace| trace.id), None);
    for _ in 0..5000 {
        traces.came(its, &[], 6);
    }
    let trace = traces.read(ids[0], 100).unwrap();
    assert_eq!(
        std::iter::from_fn(|| trace.take()).count(),
        RECORD_COUNT_MAX
    );
    assert!(
        !traces.read(ids[1], 101).unwrap().has_more(),
        "another session's"
    );
    traces.pass(UNREAD_NS - 1);
    traces.read(ids[3], 103).unwrap();
    assert_eq!(traces.next_ns(), Some(UNREAD_NS));
    traces.pass(UNREAD_NS);
    assert!(traces.read(ids[0], 100).is_none() && traces.read(ids[3], 103).is_some());
    assert!(traces.end(ids[3], 103) && !traces.end(ids[3], 103));
    assert!(traces.is_idle());
}
