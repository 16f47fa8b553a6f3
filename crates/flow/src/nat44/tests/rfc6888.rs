//! Requirements of RFC 6888, for NATs of carriers, each by its number.

use serde_json::json;

use super::*;

const WORLD: frames::End = ("203.0.113.5", 53);

fn said(bench: &mut NfBench) -> Vec<(String, String, Value)> {
    let answer = bench.control(&json!({"events": 100})).unwrap();
    let events = answer["events"].as_array().unwrap().iter();
    let row = |event: &Value| {
        let text = |key: &str| event[key].as_str().unwrap().to_owned();
        (text("event"), text("inside"), event["ports"].clone())
    };
    events.map(row).collect()
}

#[test]
fn req_4_a_subscriber_has_so_many_ports_and_takes_none_of_others() {
    let mut bench = bench(json!({"blocks_per_subscriber": 2}));
    for port in 1..=128 {
        out(&mut bench, &Frame::udp(("10.0.0.1", port), WORLD));
    }
    dropped(
        &mut bench,
        0,
        &Frame::udp(("10.0.0.1", 129), WORLD),
        Why::SubscriberPorts,
    );
    out(&mut bench, &Frame::ping("10.0.0.1", WORLD.0, 1));
    out(&mut bench, &Frame::udp(("10.0.0.2", 1), WORLD));
    out(&mut bench, &Frame::udp(("10.0.0.1", 1), WORLD));
    nothing_is_left(&mut bench);
}

#[test]
fn req_5_a_subscriber_has_so_many_sessions() {
    let mut bench = bench(json!({"sessions_per_subscriber": 3}));
    for port in 1..=3 {
        out(&mut bench, &Frame::udp(("10.0.0.1", 1), (WORLD.0, port)));
    }
    let fourth = Frame::udp(("10.0.0.1", 1), (WORLD.0, 4));
    dropped(&mut bench, 0, &fourth, Why::SubscriberSessions);
    out(&mut bench, &Frame::udp(("10.0.0.2", 1), (WORLD.0, 4)));
    later(&mut bench, 301);
    out(&mut bench, &fourth);
    nothing_is_left(&mut bench);
}

#[test]
fn req_8_nobody_else_gets_a_block_for_two_minutes() {
    // One block in all.
    let only = json!({"outside": ["192.0.2.1"], "ports": {"first": 2000, "last": 2063}});
    let mut bench = bench(only);
    let outside = out(&mut bench, &Frame::udp(("10.0.0.1", 1), WORLD)).src;
    let other = Frame::udp(("10.0.0.2", 1), WORLD);
    dropped(&mut bench, 0, &other, Why::NoBlock);
    later(&mut bench, 301);
    dropped(
        &mut bench,
        1,
        &Frame {
            dst: outside,
            ..other.answer()
        },
        Why::NoMapping,
    );
    dropped(&mut bench, 0, &other, Why::NoBlock);
    later(&mut bench, 119);
    dropped(&mut bench, 0, &other, Why::NoBlock);
    later(&mut bench, 1);
    out(&mut bench, &other);
    nothing_is_left(&mut bench);
}

#[test]
fn section_4_each_block_is_logged_once_when_it_begins_and_when_it_ends() {
    let mut bench = bench(json!({"log": 3}));
    for port in 1..=64 {
        out(&mut bench, &Frame::udp(("10.0.0.1", port), WORLD));
    }
    let first = said(&mut bench);
    assert_eq!(first.len(), 1, "{first:?}");
    assert_eq!((&first[0].0[..], &first[0].1[..]), ("assigned", "10.0.0.1"));
    out(&mut bench, &Frame::udp(("10.0.0.1", 65), WORLD));
    let second = said(&mut bench);
    assert_eq!((&second[0].0[..], second.len()), ("assigned", 1));
    assert_ne!(second[0].2, first[0].2);
    later(&mut bench, 301);
    let mut released = said(&mut bench);
    released.sort_by_key(|event| event.2.to_string());
    let mut given = vec![first[0].2.clone(), second[0].2.clone()];
    given.sort_by_key(ToString::to_string);
    let ports: Vec<Value> = released.iter().map(|event| event.2.clone()).collect();
    assert_eq!(ports, given);
    assert!(released.iter().all(|event| event.0 == "released"));
    // A log that nobody reads says how much of it is lost.
    for host in ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5"] {
        out(&mut bench, &Frame::udp((host, 1), WORLD));
    }
    assert_eq!(said(&mut bench).len(), 3);
    assert_eq!(bench.counter("events_lost"), 2);
    nothing_is_left(&mut bench);
}

/// A flood of refusals makes one note a second for each limit, which says how many there were, and
/// leaves room for blocks.
#[test]
fn what_is_refused_for_a_limit_is_logged_once_a_second_with_their_number() {
    let mut bench = bench(json!({"log": 8, "sessions_per_subscriber": 1, "subscribers": 2}));
    out(&mut bench, &Frame::udp(("10.0.0.1", 1), WORLD));
    out(&mut bench, &Frame::udp(("10.0.0.2", 1), WORLD));
    let refusals = |bench: &mut NfBench| {
        let answer = bench.control(&json!({"events": 100})).unwrap();
        let all = answer["events"].as_array().unwrap().clone();
        let refused = all.into_iter().filter(|event| event["event"] == "refused");
        let row = |event: Value| {
            assert!(event["ports"].is_null() && event["outside"].is_null());
            let reason = event["reason"].as_str().unwrap().to_owned();
            (reason, event["inside"].clone(), event["count"].clone())
        };
        refused.map(row).collect::<Vec<_>>()
    };
    let flood = |bench: &mut NfBench| {
        for port in 2..=100 {
            let more = Frame::udp(("10.0.0.1", port), WORLD);
            dropped(bench, 0, &more, Why::SubscriberSessions);
            let third = Frame::udp(("10.0.0.3", port), WORLD);
            dropped(bench, 0, &third, Why::SubscribersFull);
        }
    };
    flood(&mut bench);
    let of =
        |reason: &str, inside: &str, count: u64| (reason.to_owned(), json!(inside), json!(count));
    let both = |count| {
        [
            of("subscriber_sessions", "10.0.0.1", count),
            of("subscribers_full", "10.0.0.3", count),
        ]
    };
    assert_eq!(refusals(&mut bench), both(1));
    flood(&mut bench);
    assert_eq!(refusals(&mut bench), [], "within the second");
    bench.now = Nanos(bench.now.0 + S);
    flood(&mut bench);
    // 98 of the first flood, 99 of the second, and the first of this one.
    assert_eq!(refusals(&mut bench), both(198));
    for _ in 0..10 {
        bench.now = Nanos(bench.now.0 + S);
        flood(&mut bench);
    }
    assert_eq!(refusals(&mut bench).len(), 4, "half of the log");
    assert_eq!(bench.counter("events_lost"), 16);
    nothing_is_left(&mut bench);
}
