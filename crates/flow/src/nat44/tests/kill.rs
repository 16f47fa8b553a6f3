//! What another life of the NF finds: all sessions, and what follows from them.

use catena_wire::tcp::Flags;
use serde_json::json;

use super::super::config::settings;
use super::super::endpoint::Endpoint;
use super::super::translator::{Nat, shape};
use super::*;
use crate::{FlowTable, HeapMemory, Timeouts};

const WORLD: frames::End = ("203.0.113.5", 443);

/// The NF with these settings, in the memory of the one before.
fn replace(bench: &mut NfBench, more: Value) {
    assert_eq!(bench.replace(&KIND, &config(more)).unwrap(), 0);
}

#[test]
fn sessions_mappings_blocks_and_permits_are_as_before() {
    for filtering in ["address_dependent", "address_and_port_dependent"] {
        let more = json!({"filtering": filtering});
        let mut bench = bench(more.clone());
        let mut sent = Vec::new();
        for port in 1..150 {
            let frame = Frame::udp(("10.0.0.1", port), WORLD);
            sent.push((frame.clone(), out(&mut bench, &frame)));
        }
        let syn = out(&mut bench, &Frame::tcp(("10.0.0.2", 1), WORLD, Flags::SYN));
        back(&mut bench, &syn.answer());
        out(&mut bench, &Frame::tcp(("10.0.0.2", 1), WORLD, Flags::ACK));
        let names = ["sessions", "mappings", "subscribers", "blocks"];
        let before = names.map(|name| bench.counter(name));
        replace(&mut bench, more);
        assert_eq!(names.map(|name| bench.counter(name)), before);
        for (frame, outside) in &sent {
            let heard = back(&mut bench, &outside.answer());
            assert_eq!(heard.dst, frame.src);
            assert_eq!(&out(&mut bench, frame), outside);
        }
        // No port is given twice.
        let new = out(&mut bench, &Frame::udp(("10.0.0.1", 4000), WORLD));
        assert!(sent.iter().all(|(_, outside)| outside.src != new.src));
        // The connection is established still.
        later(&mut bench, 7000);
        back(
            &mut bench,
            &Frame {
                body: frames::Body::Tcp(Flags::ACK),
                ..syn.answer()
            },
        );
        let events = bench.control(&json!({"events": 9})).unwrap();
        let kept = events["events"].as_array().unwrap().iter();
        // When they began was told in another life.
        let kept = kept.filter(|event| event["event"] == "kept" && event["at_ns"].is_null());
        assert_eq!(kept.count(), 4);
        nothing_is_left(&mut bench);
    }
}

#[test]
fn blocks_that_are_kept_leave_room_in_the_log() {
    let mut bench = bench(json!({"log": 4}));
    for host in [
        "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.6",
    ] {
        out(&mut bench, &Frame::udp((host, 1), WORLD));
    }
    replace(&mut bench, json!({"log": 4}));
    let told = |bench: &mut NfBench| {
        let events = bench.control(&json!({"events": 9})).unwrap();
        let all = events["events"].as_array().unwrap().iter();
        let names: Vec<String> = all
            .map(|one| one["event"].as_str().unwrap().into())
            .collect();
        (names, events["lost"].as_u64())
    };
    out(&mut bench, &Frame::udp(("10.0.0.7", 1), WORLD));
    let (names, lost) = told(&mut bench);
    assert_eq!(names, ["kept", "kept", "assigned"]);
    assert_eq!((lost, bench.counter("blocks")), (Some(4), 7));
    nothing_is_left(&mut bench);
}

#[test]
fn sessions_that_have_no_place_under_other_settings_end() {
    let mut bench = bench(json!({}));
    for (host, port) in [
        ("10.0.0.1", 1),
        ("10.0.0.1", 2),
        ("10.0.0.2", 1),
        ("10.1.0.1", 1),
    ] {
        out(&mut bench, &Frame::udp((host, port), WORLD));
    }
    // One of two addresses, and one of two networks.
    let fewer = json!({"outside": ["192.0.2.0"], "inside": ["10.0.0.0/16"]});
    replace(&mut bench, fewer);
    let (stay, gone) = (
        bench.counter("sessions"),
        bench.counter("sessions_given_up"),
    );
    assert!((1..=2).contains(&stay) && stay + gone == 4, "{stay} {gone}");
    nothing_is_left(&mut bench);
}

#[test]
fn what_a_kill_leaves_half_done_or_contradicts_is_given_up() {
    let settings = settings(&config(json!({}))).unwrap();
    let shape = shape(&settings);
    let memory = HeapMemory::new(shape.words().unwrap());
    let end = |address: u32, port: u16| Endpoint {
        address,
        port,
        protocol: 17,
    };
    let world = end(0xcb00_7105, 53);
    let outside = end(0xc000_0200, 2000);
    let mut table = FlowTable::create(&memory, &shape, [1, 2], 0).unwrap();
    let tcp = Endpoint {
        protocol: 6,
        ..outside
    };
    for (host, outside) in [
        // As it should be, and twice the same mapping.
        (end(0x0a00_0001, 1), outside.word()),
        // A session of which nothing more was written.
        (end(0x0a00_0002, 1), 0),
        // Another's port, another's block, another protocol, no address outside, nobody inside.
        (end(0x0a00_0003, 1), outside.word()),
        (end(0x0a00_0004, 1), end(0xc000_0200, 2001).word()),
        (end(0x0a00_0001, 2), tcp.word()),
        (end(0x0a00_0001, 3), end(0xc000_0202, 2000).word()),
        (end(0x0b00_0001, 1), end(0xc000_0201, 2000).word()),
    ] {
        let key = [host.word(), world.word()];
        table.insert(&key, Timeouts::idle(S), 0).unwrap();
        let flow = table.find(&key).unwrap();
        table.set_state(flow, 0, outside);
    }
    let (table, _) = FlowTable::attach(&memory, &shape, S).unwrap();
    let (mut nat, lost) = Nat::new(settings, table).unwrap();
    assert_eq!((lost, nat.sessions.len(), nat.mappings.len()), (6, 1, 1));
    assert_eq!((nat.subscribers.len(), nat.pool.assigned()), (1, 1));
    assert_eq!(nat.outside_of(end(0x0a00_0001, 1)), Some(outside));
    nat.expire(10 * S, 99);
    assert_eq!((nat.subscribers.len(), nat.pool.assigned()), (0, 0));
}
