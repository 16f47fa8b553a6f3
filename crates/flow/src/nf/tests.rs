//! Tests of the NF `flow`: packets in, verdicts out, and what it is asked.

use catena_engine::nf::{DropReason, Verdict};
use catena_engine::nf_bench::NfBench;
use serde_json::{Value, json};

use super::KIND;
use crate::efsm::tests::{UDP, packet};

/// Counts packets of a source up to a limit.
fn config(limit: u8) -> Value {
    json!({"program": {
        "tables": {"friends": {"key": ["exact 32"]}},
        "globals": {"dropped": {"width": 32, "scope": "merged"}},
        "elements": [{
            "name": "limit", "key": ["ipv4.src"], "registers": {"packets": 8}, "idle": "1s",
            "before": ["lookup(friends, ipv4.src)"],
            "transitions": [
                {"if": format!("flow.packets >= {limit} && !friends.hit"),
                 "do": ["global.dropped = global.dropped + 1", "drop(enough)"]},
                {"do": ["flow.packets = flow.packets + 1", "output(out)"]},
            ],
        }],
    }})
}

const ENOUGH: Verdict = Verdict::Drop(DropReason::own(2));

fn verdicts(bench: &mut NfBench, frames: &[&[u8]]) -> Vec<Verdict> {
    bench
        .process(frames)
        .packets
        .iter()
        .map(|packet| packet.verdict)
        .collect()
}

#[test]
fn packets_of_a_burst_and_of_a_bundle_are_judged_alike() {
    let frames: Vec<Vec<u8>> = [1, 2, 1, 1, 2]
        .iter()
        .map(|src| packet(UDP, (*src, 5), (9, 9), 0))
        .collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut bench = NfBench::new(&KIND, &config(2), &[]).unwrap();
    let out = Verdict::Output(0);
    assert_eq!(verdicts(&mut bench, &frames), [out, out, out, ENOUGH, out]);
    assert_eq!(verdicts(&mut bench, &frames), [ENOUGH; 5]);
    let mut bundled = NfBench::new(&KIND, &config(2), &[]).unwrap();
    let result = bundled.process_bundle(&frames);
    let found: Vec<Verdict> = result.packets.iter().map(|packet| packet.verdict).collect();
    assert_eq!(found, [out, out, out, ENOUGH, out]);
    assert_eq!(bench.buffers_in_use(), 0);
    assert_eq!(
        verdicts(&mut bench, &[b"short".as_slice()]),
        [Verdict::Drop(DropReason::Malformed)]
    );
}

#[test]
fn it_is_asked_for_flows_registers_tables_and_traces() {
    let mut bench = NfBench::new(&KIND, &config(2), &[]).unwrap();
    let one = packet(UDP, (1, 5), (9, 9), 0);
    assert_eq!(
        bench.control(&json!({"trace": 2})),
        Ok(json!({"packets": 2}))
    );
    verdicts(&mut bench, &[&one, &one, &one]);
    let flows = bench.control(&json!({"show": "flows"})).unwrap();
    assert_eq!(flows["flows"][0]["key"]["ipv4.src"], "167772161");
    assert_eq!(flows["flows"][0]["state"]["packets"], "2");
    assert_eq!((&flows["count"], &flows["next"]), (&json!(1), &Value::Null));
    let globals = bench.control(&json!({"show": "globals"})).unwrap();
    assert_eq!(globals["dropped"], 1);
    let traces = bench.control(&json!({"show": "traces"})).unwrap();
    assert_eq!(traces.as_array().map(Vec::len), Some(2));
    assert_eq!(traces[1]["elements"][0]["found"], true);
    assert_eq!(traces[1]["elements"][0]["before"][0]["value"], "1");
    assert_eq!(traces[1]["elements"][0]["after"][0]["value"], "2");
    assert_eq!(traces[1]["elements"][0]["conditions"][0]["held"], false);
    // A friend is never stopped.
    let friend = json!({"set": "friends", "key": ["10.0.0.1"]});
    assert_eq!(bench.control(&friend), Ok(json!({"entries": 1})));
    assert_eq!(verdicts(&mut bench, &[&one]), [Verdict::Output(0)]);
    let gone = json!({"remove": "friends", "key": ["10.0.0.1"]});
    assert_eq!(bench.control(&gone), Ok(json!({"entries": 0})));
    assert!(bench.control(&gone).is_err());
    assert_eq!(verdicts(&mut bench, &[&one]), [ENOUGH]);
    let many = |key: &str, count: u32| {
        let entries = (0..count).map(|key| json!({"key": [key]}));
        json!({key: "friends", "entries": entries.collect::<Vec<_>>()})
    };
    assert_eq!(bench.control(&many("set", 40)), Ok(json!({"entries": 40})));
    assert!(bench.control(&many("remove", 41)).is_err(), "all or none");
    assert_eq!(
        bench.control(&many("remove", 40)),
        Ok(json!({"entries": 0}))
    );
    let error = bench
        .control(&json!({"set": "foes", "key": [1]}))
        .unwrap_err();
    assert!(error.contains("friends"), "{error}");
    let transitions = bench.control(&json!({"show": "transitions"})).unwrap();
    let counts: Vec<u64> = transitions
        .as_object()
        .unwrap()
        .values()
        .filter_map(Value::as_u64)
        .collect();
    assert_eq!(counts.iter().sum::<u64>(), 5);
}

/// Changes of state are told with the flow's key, and with names.
#[test]
fn events_tell_whose_state_has_changed() {
    let config = json!({"program": {"elements": [{
        "name": "e", "key": ["ipv4.src"], "initial": "idle", "changes": "moved",
        "states": {"idle": {}, "busy": {}},
        "transitions": [
            {"from": "idle", "do": ["notify(seen, 7)", "output(out)"], "next": "busy"},
            {"from": "busy", "do": ["output(out)"], "next": "forget"},
        ],
    }]}});
    let mut bench = NfBench::new(&KIND, &config, &[]).unwrap();
    let one = packet(UDP, (1, 5), (9, 9), 0);
    verdicts(&mut bench, &[&one, &one]);
    let said = bench.control(&json!({"events": 9})).unwrap();
    let change = |at: usize| {
        let event = &said["events"][at];
        assert_eq!(event["event"], "moved", "{said}");
        assert_eq!(event["key"], json!({"ipv4.src": "167772161"}));
        (event["from"].clone(), event["to"].clone())
    };
    assert_eq!(said["events"][0]["values"], json!(["7"]), "{said}");
    assert_eq!(change(1), (json!("idle"), json!("busy")));
    assert_eq!(change(2), (json!("busy"), Value::Null));
    assert_eq!(said["events"].as_array().map(Vec::len), Some(3));

    // Those that wait are not told by the names of a program that takes the place of theirs.
    verdicts(&mut bench, &[&one]);
    let mut other = config["program"].clone();
    other["elements"][0]["changes"] = "gone".into();
    bench.control(&json!({"program": other})).unwrap();
    verdicts(&mut bench, &[&one]);
    let said = bench.control(&json!({"events": 9})).unwrap();
    assert_eq!(said["events"].as_array().map(Vec::len), Some(1), "{said}");
    assert_eq!(
        (&said["events"][0]["event"], &said["lost"]),
        (&json!("gone"), &json!(2))
    );
}

/// Sends each packet where a slot says that follows from the table of servers.
fn slots(hash_seed: Option<u64>) -> Value {
    let mut config = json!({"program": {
        "outputs": ["a", "b", "none"],
        "tables": {
            "servers": {"key": ["exact 8"], "data": {"weight": 8},
                "entries": [{"key": [0], "data": {"weight": 1}},
                    {"key": [1], "data": {"weight": 1}}]},
            "slots": {"key": ["exact 16"], "data": {"server": 8},
                "maglev": {"of": "servers", "weight": "weight", "slots": 31}},
        },
        "elements": [{"name": "choose", "transitions": [
            {"do": ["lookup(slots, (hash(ipv4.src) % 31) as 16)",
                "output(b)", "output(a) if slots.server == 0", "output(none) if slots.hit == 0"]},
        ]}],
    }});
    if let Some(seed) = hash_seed {
        config["program"]["hash_seed"] = seed.into();
    }
    config
}

/// Gives a server a weight.
fn drain(number: u8, weight: u8) -> Value {
    json!({"set": "servers", "key": [number], "data": {"weight": weight}})
}

#[test]
fn slots_follow_from_the_table_of_backends_and_a_seed_makes_all_hash_alike() {
    let frames: Vec<Vec<u8>> = (1..60)
        .map(|src| packet(UDP, (src, 5), (9, 9), 0))
        .collect();
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    let mut seen = Vec::new();
    for seed in [Some(5), Some(5), Some(6), None, None] {
        let mut bench = NfBench::new(&KIND, &slots(seed), &[]).unwrap();
        seen.push(verdicts(&mut bench, &frames));
    }
    assert_eq!(seen[0], seen[1], "the same seed, another shard or machine");
    assert_ne!(seen[0], seen[2]);
    assert_ne!(seen[3], seen[4], "a secret of each");
    let mut bench = NfBench::new(&KIND, &slots(Some(5)), &[]).unwrap();
    let is_all = |bench: &mut NfBench, output| {
        let found = verdicts(bench, &frames);
        found
            .iter()
            .all(|verdict| *verdict == Verdict::Output(output))
    };
    assert!(!is_all(&mut bench, 0) && !is_all(&mut bench, 1));
    assert!(bench.control(&drain(1, 0)).is_ok() && is_all(&mut bench, 0));
    assert!(bench.control(&drain(1, 1)).is_ok());
    assert_eq!(verdicts(&mut bench, &frames), seen[0], "as before");
    let gone = json!({"remove": "servers", "key": [0]});
    assert!(bench.control(&gone).is_ok() && is_all(&mut bench, 1));
    assert!(bench.control(&drain(1, 0)).is_ok() && is_all(&mut bench, 2));
    let error = bench.control(&json!({"set": "slots", "key": [3], "data": {"server": 1}}));
    assert!(error.unwrap_err().contains("change these"));
    // Another program hashes by its own seed from its first packet on.
    let mut bench = NfBench::new(&KIND, &slots(Some(6)), &[]).unwrap();
    let other = json!({"program": slots(Some(5))["program"]});
    assert!(bench.control(&other).is_ok());
    assert_eq!(verdicts(&mut bench, &frames), seen[0]);
}

#[test]
fn slots_that_cannot_be_are_refused() {
    let mut config = slots(None);
    for (slots, of, weight, message) in [
        (30, "servers", "weight", "there cannot be 30 slots"),
        (4099, "servers", "weight", "there cannot be 4099 slots"),
        (31, "server", "weight", "there is no table server"),
        (31, "servers", "wait", "has no wait"),
        (31, "slots", "weight", "no key of one exact part"),
    ] {
        config["program"]["tables"]["slots"]["maglev"] =
            json!({"of": of, "weight": weight, "slots": slots});
        let errors = NfBench::new(&KIND, &config, &[]).unwrap_err();
        assert_eq!(errors[0].path, "program.tables.slots.maglev");
        assert!(errors[0].to_string().contains(message), "{errors:?}");
    }
}

#[test]
fn another_program_of_the_same_layout_goes_on_with_the_flows() {
    let mut bench = NfBench::new(&KIND, &config(2), &[]).unwrap();
    let one = packet(UDP, (1, 5), (9, 9), 0);
    assert_eq!(verdicts(&mut bench, &[&one, &one, &one])[2], ENOUGH);
    let other = json!({"program": config(4)["program"]});
    assert!(bench.control(&other).is_ok());
    let found = verdicts(&mut bench, &[&one, &one, &one]);
    assert_eq!(found, [Verdict::Output(0), Verdict::Output(0), ENOUGH]);
    let mut wider = config(4);
    wider["program"]["elements"][0]["registers"]["packets"] = 16.into();
    let error = bench
        .control(&json!({"program": wider["program"]}))
        .unwrap_err();
    assert!(error.contains("another layout"), "{error}");
    let error = bench
        .control(&json!({"program": {"elements": []}}))
        .unwrap_err();
    assert!(error.contains("no element"), "{error}");
}

#[test]
fn flows_end_and_timers_say_when() {
    let mut bench = NfBench::new(&KIND, &config(1), &[]).unwrap();
    let one = packet(UDP, (1, 5), (9, 9), 0);
    assert_eq!(
        verdicts(&mut bench, &[&one, &one]),
        [Verdict::Output(0), ENOUGH]
    );
    bench.now = catena_engine::nf::Nanos(1_100_000_000);
    let now = bench.now;
    bench.nf().tick(now);
    assert_eq!(verdicts(&mut bench, &[&one]), [Verdict::Output(0)]);
    let counts = ["expired", "inserts", "flows"].map(|name| bench.counter(name));
    assert_eq!(counts, [1, 2, 1]);
}

/// Who knocks is let in; `open` ends.
fn knock(flows: u32) -> Value {
    json!({"program": {"elements": [{
        "name": "knock", "key": ["ipv4.src", "udp.dst_port"], "flows": flows, "initial": "closed",
        "states": {"closed": {}, "open": {"idle": "2s"}}, "changes": "moved",
        "registers": {"packets": 8, "who": 32},
        "transitions": [
            {"from": "closed", "if": "udp.src_port == 7", "next": "open", "do": ["drop(knock)"]},
            {"from": "open", "do": ["flow.packets = flow.packets + 1", "output(out)"]},
        ],
        "otherwise": ["drop(closed)"],
    }]}})
}

#[test]
fn flows_are_set_and_ended_from_outside_all_or_none() {
    let mut bench = NfBench::new(&KIND, &knock(70), &[]).unwrap();
    let one = packet(UDP, (1, 5), (9, 9), 0);
    let closed = Verdict::Drop(DropReason::own(3));
    bench.now = catena_engine::nf::Nanos(1_000_000_000);
    assert_eq!(verdicts(&mut bench, &[&one]), [closed]);
    let open = json!({"set_flow": "knock", "key": {"udp.dst_port": 9, "ipv4.src": "10.0.0.1"},
        "state": {"state": "open", "who": "10.0.0.77"}});
    let answer = json!({"set": 1, "made": 1, "count": 1});
    assert_eq!(bench.control(&open), Ok(answer));
    assert_eq!(verdicts(&mut bench, &[&one, &one]), [Verdict::Output(0); 2]);
    // What is not named stays, the key as a list is the same flow.
    let more = json!({"set_flow": "knock", "key": ["10.0.0.1", 9], "state": {"who": "0x5"}});
    let answer = json!({"set": 1, "made": 0, "count": 1});
    assert_eq!(bench.control(&more), Ok(answer));
    let shown = bench.control(&json!({"show": "flows"})).unwrap();
    let state = json!({"state": "open", "packets": "2", "who": "5"});
    assert_eq!(shown["flows"][0]["state"], state);
    // All or none: the second is wrong, or has no room.
    let entry = |host: u32, state: Value| json!({"key": [host, 9], "state": state});
    let many = |entries: Vec<Value>| json!({"set_flow": "knock", "entries": entries});
    for (second, message) in [
        (entry(3, json!({"state": "ajar"})), "closed, open"),
        (entry(3, json!({"packets": 256})), "does not fit 8 bits"),
        (entry(3, json!({"packages": 1})), "state, packets, who"),
        (json!({"key": [3], "state": {}}), "ipv4.src, udp.dst_port"),
        (
            json!({"key": {"ipv4.dst": 3, "udp.dst_port": 9}, "state": {}}),
            "ipv4.dst",
        ),
        (json!({"state": {}}), "add \"key\""),
        (json!({"key": [3, 9]}), "add \"state\""),
    ] {
        let wrong = many(vec![entry(2, json!({})), second]);
        let error = bench.control(&wrong).unwrap_err();
        assert!(error.contains(message), "{error}");
    }
    let full = (0..80)
        .map(|host| entry(host, json!({"packets": 1})))
        .collect();
    let error = bench.control(&many(full)).unwrap_err();
    assert!(error.contains("full"), "{error}");
    // They are counted before anybody looks at them.
    let error = bench.control(&many(vec![json!(7); 257])).unwrap_err();
    assert!(error.contains("257 flows at once, at most 256"), "{error}");
    // Their text is not for the half that has packets: it only does what it was sent.
    let error = bench.nf().control(&open).unwrap_err();
    assert!(error.contains("ask again"), "{error}");
    let shown = bench.control(&json!({"show": "flows"})).unwrap();
    assert_eq!(shown["count"], 1, "{shown}");
    let fits = (0..69)
        .map(|host| entry(host, json!({"packets": 1})))
        .collect();
    assert_eq!(bench.control(&many(fits)).unwrap()["made"], 69);
    // The state's timeout is its own; those that are closed have none.
    bench.now = catena_engine::nf::Nanos(3_100_000_000);
    let now = bench.now;
    bench.nf().tick(now);
    assert_eq!(verdicts(&mut bench, &[&one]), [closed]);
    let end = |hosts: &[u32]| {
        let entries = hosts.iter().map(|host| json!({"key": [host, 9]}));
        json!({"end_flow": "knock", "entries": entries.collect::<Vec<_>>()})
    };
    assert!(
        bench
            .control(&end(&[5, 70]))
            .unwrap_err()
            .contains("flow 1")
    );
    let answer = json!({"ended": 2, "count": 67});
    assert_eq!(bench.control(&end(&[5, 6])), Ok(answer));
    let told = bench.control(&json!({"events": 9})).unwrap();
    let told = told["events"].as_array().unwrap();
    let told: Vec<_> = told.iter().map(|one| (&one["from"], &one["to"])).collect();
    let (closed, open) = (&json!("closed"), &json!("open"));
    let ended = |state| (state, &Value::Null);
    assert_eq!(
        told,
        [(closed, open), ended(open), ended(closed), ended(closed)]
    );
    let error = bench.control(&json!({"set_flow": "knack", "key": [1, 9], "state": {}}));
    assert!(error.unwrap_err().contains("knock"));
}

/// Whoever sets a flow need not know which side of it the table has first, nor that `ip.src` has
/// room for IPv6.
#[test]
fn a_flow_that_is_set_from_outside_is_the_one_that_packets_find() {
    let config = json!({"program": {"elements": [{
        "name": "e", "biflow": [["ip.src", "ip.dst"], ["l4.src_port", "l4.dst_port"]],
        "flows": 70, "registers": {"is_let_in": 1},
        "transitions": [{"if": "flow.is_let_in == 1", "do": ["output(out)"]}],
        "otherwise": ["drop(closed)"],
    }]}});
    let mut bench = NfBench::new(&KIND, &config, &[]).unwrap();
    for [one, other] in [
        [(1, 5), (2, 6)],
        [(2, 6), (1, 5)],
        [(1, 6), (2, 5)],
        [(1, 6), (1, 5)],
        [(1, 5), (1, 5)],
    ] {
        let frames = [packet(UDP, one, other, 0), packet(UDP, other, one, 0)];
        let frames = frames.each_ref().map(Vec::as_slice);
        let [src, dst] = [one, other].map(|end| format!("10.0.0.{}", end.0));
        let key = json!({"ip.src": src, "ip.dst": dst, "l4.src_port": one.1,
            "l4.dst_port": other.1});
        let set = json!({"set_flow": "e", "key": key, "state": {"is_let_in": 1}});
        assert_eq!(
            verdicts(&mut bench, &frames),
            [Verdict::Drop(DropReason::own(2)); 2]
        );
        assert_eq!(bench.control(&set).unwrap()["made"], 1, "{set}");
        assert_eq!(
            verdicts(&mut bench, &frames),
            [Verdict::Output(0); 2],
            "{set}"
        );
        let key = json!([format!("::ffff:{dst}"), src, other.1, one.1]);
        let answer = bench.control(&json!({"end_flow": "e", "key": key}));
        assert_eq!(answer, Ok(json!({"ended": 1, "count": 0})));
    }
}

#[test]
fn packets_that_are_mirrored_leave_as_they_came() {
    let config = json!({"program": {"outputs": ["out", "tap"], "elements": [{"name": "e",
        "transitions": [{"do": ["ipv4.ttl = 3", "mirror(tap)", "output(out)"]}]}]}});
    let mut bench = NfBench::new(&KIND, &config, &[]).unwrap();
    let frames = [1, 2, 3].map(|src| packet(UDP, (src, 5), (9, 9), 0));
    let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
    for is_bundle in [false, true] {
        let result = match is_bundle {
            true => bench.process_bundle(&frames),
            false => bench.process(&frames),
        };
        let all = result.packets.iter().zip(&frames);
        assert!(all.clone().count() == 3 && all.clone().all(|(left, came)| left.bytes != *came));
        let counted = bench.counter("emitted");
        let (sent, _) = bench.emit(9, false);
        let sent: Vec<_> = sent.iter().map(|one| (one.output, &*one.bytes)).collect();
        let expected: Vec<_> = frames.iter().map(|came| (1, *came)).collect();
        // They count where they leave.
        let before = if is_bundle { 3 } else { 0 };
        assert_eq!((counted, sent), (before, expected));
    }
    assert_eq!(bench.counter("emitted"), 6);
    assert_eq!(bench.buffers_in_use(), 0);
}

#[test]
fn wrong_programs_are_refused_with_their_place() {
    let mut wrong = config(1);
    wrong["program"]["elements"][0]["key"][0] = "ipv4.sorce".into();
    let errors = NfBench::new(&KIND, &wrong, &[]).unwrap_err();
    assert_eq!(errors[0].path, "program.elements[0].key[0]");
    assert!(errors[0].to_string().contains("ipv4.src"), "{errors:?}");
    let mut unknown = config(1);
    unknown["program"]["elements"][0]["kee"] = json!([]);
    assert!(NfBench::new(&KIND, &unknown, &[]).is_err());
    assert!(KIND.example_plan().is_ok_and(|plan| plan.check().is_ok()));
}

/// Its registers go on under another program of the same layout; one whose words would mean
/// something else is refused.
#[test]
fn another_program_goes_on_with_shared_registers_or_is_refused() {
    let config = |step: u8, initial: u8| {
        json!({"program": {
            "globals": {"n": {"width": 8, "initial": initial, "scope": "shared"}},
            "elements": [{"name": "e", "before": [format!("global.n = global.n + {step}")],
                "transitions": [{"do": ["output(out)"]}]}],
        }})
    };
    let mut bench = NfBench::new(&KIND, &config(1, 7), &[]).unwrap();
    let frame = packet(UDP, (1, 5), (9, 9), 0);
    verdicts(&mut bench, &[&frame, &frame]);
    let globals = json!({"show": "globals"});
    assert_eq!(bench.control(&globals), Ok(json!({"n": 9})));
    assert!(bench.control(&config(5, 7)).is_ok());
    verdicts(&mut bench, &[&frame]);
    assert_eq!(bench.control(&globals), Ok(json!({"n": 14})));
    let refused = bench.control(&config(5, 8)).unwrap_err();
    assert!(refused.contains("shared registers are others"), "{refused}");
}
