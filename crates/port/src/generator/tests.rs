//! What a generator makes, and when.

use std::collections::HashSet;
use std::path::Path;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::port::RxState;
use catena_wire::checksum::Sum;
use catena_wire::dissect::Dissected;
use catena_wire::ip::Addresses;
use serde_json::{Value, json};

use super::*;
use crate::port_bench::PortBench;

fn open(config: &Value) -> PortBench {
    PortBench::open(&KIND, config, Path::new(".")).unwrap()
}

/// Fails unless all lengths and checksums of a frame are right.
fn assert_valid(frame: &[u8]) {
    let found = Dissected::parse(frame).unwrap();
    assert_eq!(found.end, frame.len(), "no padding");
    let addresses = match found.ip.unwrap().addresses {
        Addresses::V4 { .. } => {
            assert!(Sum::of(&frame[found.l3..found.l4]).is_valid());
            12..20
        }
        Addresses::V6 { .. } => 8..40,
    };
    let pseudo_header = Sum::of(&frame[found.l3..][addresses])
        + Sum::of_u16(17)
        + Sum::of_u16((frame.len() - found.l4) as u16);
    assert!((Sum::of(&frame[found.l4..]) + pseudo_header).is_valid());
    assert_ne!(frame[found.l4 + 6..found.l4 + 8], [0, 0]);
}

/// Goal: every packet is what a receiver accepts, whatever its form. Method: parse it and sum it
/// up, for all forms, including 2^17 flows, whose hosts and ports wrap.
#[test]
fn packets_are_valid_and_of_their_length() {
    for protocol in ["udp", "udp6"] {
        for vlan in [Value::Null, json!(100)] {
            for payload in ["zeros", "ones", "counting", "random"] {
                let config = json!({
                    "protocol": protocol, "vlan": vlan, "payload": payload,
                    "size": [66, 78, 82, 128, 1514, 9000], "flows": 3, "count": 40,
                });
                let (packets, state) = open(&config).rx_all(7);
                assert_eq!((packets.len(), state), (40, RxState::Finished));
                for (index, (_, frame)) in packets.iter().enumerate() {
                    assert_eq!(frame.len(), [66, 78, 82, 128, 1514, 9000][index % 6]);
                    assert_valid(frame);
                    let found = Dissected::parse(frame).unwrap();
                    assert_eq!(found.vlan_count(), usize::from(vlan != Value::Null));
                    let numbers = numbers_in(&frame[found.payload..]);
                    let fits = frame.len() - found.payload >= MARK_LEN;
                    let expected = (index as u32 % 3, index as u64 / 3);
                    assert_eq!(numbers, fits.then_some(expected));
                }
            }
        }
    }
}

#[test]
fn flows_differ_in_address_or_port() {
    let config = json!({ "flows": 140_000, "count": 140_001 });
    let mut bench = open(&config);
    let mut seen = HashSet::new();
    let mut count = 0;
    loop {
        let received = bench.rx(64);
        for frame in &received.packets {
            let found = Dissected::parse(frame).unwrap();
            let is_new = seen.insert((found.ip.unwrap().addresses.to_string(), found.ports()));
            assert_eq!(is_new, count < 140_000, "packet {count}");
            if count % 997 == 0 {
                assert_valid(frame);
            }
            count += 1;
        }
        if received.state == RxState::Finished {
            break;
        }
    }
    assert_eq!(count, 140_001);
    assert_eq!(bench.buffers_in_use(), 0);
}

/// Goal: the promise on the rate. Method: poll at irregular times with pauses, then slide a window
/// of 10 ms over the packets.
#[test]
fn rate_is_not_exceeded_in_any_ten_milliseconds() {
    let mut bench = open(&json!({ "rate": "500kpps" }));
    let mut random = crate::random::Random::new(7);
    let mut times = Vec::new();
    while bench.now < Nanos(200_000_000) {
        let pause = if random.next().is_multiple_of(50) {
            random.next() % 3_000_000
        } else {
            random.next() % 30_000
        };
        bench.now = bench.now.plus(pause);
        times.extend(bench.rx(64).packets.iter().map(|_| bench.now.0));
    }
    for (index, time) in times.iter().enumerate() {
        let end = times.partition_point(|other| *other < time + 10_000_000);
        assert!(end - index <= 5_052, "{} packets from {time}", end - index);
    }
    let made = times.len() as u64;
    assert_eq!(bench.counter("made"), made);
    let due = bench.now.0 / 2_000;
    let missing = due.abs_diff(made + bench.counter("held_back"));
    assert!(missing <= 66, "{made} of {due}, {missing} unaccounted for");
}

#[test]
fn a_regular_poller_gets_the_exact_rate() {
    let mut bench = open(&json!({ "rate": "5.12Mbps", "size": 64, "count": 1000 }));
    let (packets, state) = bench.rx_all(64);
    assert_eq!(state, RxState::Finished);
    // 64 bytes at 5.12 Mbps are 10 kpps.
    for (index, (time, _)) in packets.iter().enumerate() {
        assert_eq!(time.0, index as u64 * 100_000);
    }
    assert_eq!(bench.counter("held_back"), 0);
}

#[test]
fn without_buffers_nothing_is_lost_and_the_count_is_kept() {
    let mut bench = open(&json!({ "count": 2000 }));
    bench.rx(1);
    bench.exhaust(64);
    for _ in 0..5000 {
        let received = bench.rx(64);
        assert_eq!((received.packets.len(), received.state), (0, RxState::More));
    }
    bench.relieve(1);
    assert_eq!(bench.rx(64).packets.len(), 1);
    bench.relieve(usize::MAX);
    let (packets, _) = bench.rx_all(64);
    assert_eq!(packets.len(), 1998);
    assert_eq!(bench.drops_total(), 0);
    assert_eq!(bench.buffers_in_use(), 0);
}

#[test]
fn a_length_that_no_pool_holds_is_counted_and_does_not_stall() {
    let config: Config =
        serde_json::from_value(json!({ "size": [64, 9000], "count": 10 })).unwrap();
    let mut bench = PortBench::with_buffers(Box::new(Generator::new(&config)), &[(11, 64)]);
    let (packets, state) = bench.rx_all(64);
    assert_eq!((packets.len(), state), (5, RxState::Finished));
    assert_eq!(bench.drops(DropReason::TooLarge), 5);
    assert_eq!(bench.drops_total(), 5);
}

#[test]
fn wrong_configurations_name_the_field() {
    for (config, path) in [
        (json!({ "size": 59 }), "size"),
        (json!({ "size": 9001 }), "size"),
        (json!({ "size": [64, 10] }), "size[1]"),
        (json!({ "size": [] }), "size"),
        (json!({ "size": 61, "protocol": "udp6" }), "size"),
        (json!({ "flows": 0 }), "flows"),
        (json!({ "vlan": 4096 }), "vlan"),
        (json!({ "rate": "10" }), "rate"),
        (json!({ "rate": 10 }), "rate"),
        (json!({ "protocol": "tcp" }), "protocol"),
        (json!({ "dst_mac": "02:00" }), "dst_mac"),
        (json!({ "sizes": 64 }), "sizes"),
    ] {
        let errors = (KIND.check)(&config).unwrap_err();
        assert!(
            errors[0].path == path || errors[0].message.contains(path),
            "{config}: {errors:?}"
        );
    }
}
