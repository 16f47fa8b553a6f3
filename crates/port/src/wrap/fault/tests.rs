//! What a `fault` wrapper does to a sequence of packets, both ways.
//!
//! Each packet is numbered in its first bytes, so that its fate can be told from what comes out.

use std::path::Path;

use catena_engine::nf::{DropReason, Nanos};
use catena_engine::port::RxState;
use serde_json::{Value, json};

use super::*;
use crate::port_bench::PortBench;
use crate::scripted_port::ScriptedPort;

fn frame(number: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[..4].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[..4].try_into().unwrap())
}

fn wrapped(config: &Value, inner: ScriptedPort) -> PortBench {
    PortBench::wrap(&KIND, config, Path::new("."), Box::new(inner)).unwrap()
}

/// Receives `count` packets, one each microsecond, through the faults.
fn receive(
    faults: &Value,
    seed: u64,
    count: u32,
    burst: usize,
) -> (Vec<(u64, Vec<u8>)>, PortBench) {
    let script = (0..count).map(|index| (u64::from(index) * 1000, frame(index)));
    let config = json!({ "seed": seed, "rx": faults });
    let mut bench = wrapped(&config, ScriptedPort::new(script));
    let (packets, state) = bench.rx_all(burst);
    assert_eq!(state, RxState::Finished);
    assert_eq!(bench.buffers_in_use(), 0);
    assert_eq!(bench.counter("rx_held"), 0);
    assert_eq!(bench.counter("rx_skipped"), 0);
    let packets = packets
        .into_iter()
        .map(|(time, bytes)| (time.0, bytes))
        .collect();
    (packets, bench)
}

/// Sends `count` packets through the faults, and then nothing until none waits.
fn send(faults: &Value, seed: u64, count: u32, burst: usize) -> (Vec<(u64, Vec<u8>)>, PortBench) {
    let inner = ScriptedPort::new([]);
    let heard = inner.heard();
    let mut bench = wrapped(&json!({ "seed": seed, "tx": faults }), inner);
    let frames: Vec<_> = (0..count).map(frame).collect();
    for frames in frames.chunks(burst) {
        assert_eq!(bench.tx(frames), frames.len());
        bench.now = bench.now.plus(1000 * frames.len() as u64);
    }
    while bench.port().holds_packets() {
        bench.tx::<Vec<u8>>(&[]);
        bench.now = bench.now.plus(1000);
    }
    assert_eq!(bench.counter("tx_skipped"), 0);
    let heard = heard.lock().unwrap();
    let sent = heard
        .sent
        .iter()
        .map(|(time, bytes)| (time.0, bytes.clone()))
        .collect();
    (sent, bench)
}

fn numbers(packets: &[(u64, Vec<u8>)]) -> Vec<u32> {
    packets.iter().map(|(_, bytes)| number(bytes)).collect()
}

fn all() -> Value {
    json!({
        "loss": "5%", "duplicate": "5%", "reorder": "5%", "corrupt": "5%",
        "delay": { "fixed": "10us", "jitter": "5us" },
    })
}

#[test]
fn the_same_seed_does_the_same_whatever_the_bursts() {
    for faults in [
        json!({ "loss": 0.1, "corrupt": 0.1, "duplicate": 0.1 }),
        all(),
    ] {
        let (first, _) = receive(&faults, 7, 2000, 64);
        let (again, _) = receive(&faults, 7, 2000, 64);
        assert_eq!(first, again);
        let sorted = |packets: &[(u64, Vec<u8>)]| {
            let mut bytes: Vec<_> = packets.iter().map(|(_, bytes)| bytes.clone()).collect();
            bytes.sort();
            bytes
        };
        let (single, _) = receive(&faults, 7, 2000, 1);
        assert_eq!(sorted(&first), sorted(&single));
        let (other, _) = receive(&faults, 8, 2000, 64);
        assert_ne!(sorted(&first), sorted(&other));
        let (sent, _) = send(&faults, 7, 2000, 32);
        let (sent_again, _) = send(&faults, 7, 2000, 32);
        assert_eq!(sent, sent_again);
        assert_ne!(sorted(&first), sorted(&sent), "the directions differ");
    }
}

#[test]
fn lost_packets_are_counted_and_the_rest_is_whole() {
    let (received, bench) = receive(&json!({ "loss": "10%" }), 1, 10_000, 64);
    let lost = 10_000 - received.len() as u64;
    assert!((800..1200).contains(&lost), "{lost}");
    assert_eq!(bench.counter("rx_lost"), lost);
    assert_eq!(bench.drops(DropReason::FaultInjected), lost);
    assert_eq!(bench.drops_total(), lost);
    assert!(numbers(&received).is_sorted());
    let (sent, bench) = send(&json!({ "loss": "10%" }), 1, 10_000, 64);
    assert_eq!(bench.counter("tx_lost"), 10_000 - sent.len() as u64);
    assert!(numbers(&sent).is_sorted());
    let (none, _) = receive(&json!({ "loss": 1 }), 1, 100, 64);
    assert!(none.is_empty());
}

#[test]
fn one_bit_of_a_corrupted_packet_is_inverted() {
    let faults = json!({ "corrupt": "20%" });
    for (packets, bench, name) in [
        {
            let (packets, bench) = receive(&faults, 3, 1000, 64);
            (packets, bench, "rx_corrupted")
        },
        {
            let (packets, bench) = send(&faults, 3, 1000, 64);
            (packets, bench, "tx_corrupted")
        },
    ] {
        let mut damaged = 0;
        for (index, (_, bytes)) in (0..).zip(&packets) {
            let expected = frame(index);
            let flipped: u32 = bytes
                .iter()
                .zip(&expected)
                .map(|(a, b)| (a ^ b).count_ones())
                .sum();
            assert!(flipped <= 1);
            damaged += u64::from(flipped);
        }
        assert!((150..250).contains(&damaged), "{damaged}");
        assert_eq!(bench.counter(name), damaged);
    }
}

#[test]
fn a_duplicate_follows_its_original() {
    let faults = json!({ "duplicate": "30%" });
    for (packets, bench, name) in [
        {
            let (packets, bench) = receive(&faults, 3, 1000, 7);
            (packets, bench, "rx_duplicated")
        },
        {
            let (packets, bench) = send(&faults, 3, 1000, 7);
            (packets, bench, "tx_duplicated")
        },
    ] {
        let mut unique = numbers(&packets);
        assert!(unique.is_sorted());
        unique.dedup();
        assert_eq!(unique.len(), 1000);
        assert_eq!(bench.counter(name), packets.len() as u64 - 1000);
    }
}

#[test]
fn delayed_packets_come_in_order_and_in_time() {
    let faults = json!({ "delay": { "fixed": "50us", "jitter": "20us" } });
    for (packets, slack) in [
        (receive(&faults, 5, 500, 64).0, 0),
        (send(&faults, 5, 500, 1).0, 1000),
    ] {
        assert_eq!(numbers(&packets), (0..500).collect::<Vec<_>>());
        let mut delays: Vec<_> = (0..)
            .zip(&packets)
            .map(|(index, (time, _))| time - index * 1000)
            .collect();
        assert!(
            delays
                .iter()
                .all(|delay| (50_000..=70_000 + slack).contains(delay)),
            "{delays:?}"
        );
        delays.sort_unstable();
        assert!(delays[490] - delays[10] > 5_000, "{delays:?}");
    }
}

#[test]
fn reordered_packets_are_passed_by_few() {
    let faults = json!({ "reorder": "10%" });
    for (packets, bench, name) in [
        {
            let (packets, bench) = receive(&faults, 9, 2000, 64);
            (packets, bench, "rx_reordered")
        },
        {
            let (packets, bench) = send(&faults, 9, 2000, 64);
            (packets, bench, "tx_reordered")
        },
    ] {
        let order = numbers(&packets);
        let mut late = 0;
        for (place, number) in order.iter().enumerate() {
            let passed_by = order[..place]
                .iter()
                .filter(|other| *other > number)
                .count();
            // Others that are reordered too may go on just before.
            assert!(passed_by <= 6, "{number} was passed by {passed_by}");
            late += u64::from(passed_by > 0);
        }
        let reordered = bench.counter(name);
        assert!((150..250).contains(&reordered));
        assert!(
            late >= reordered * 8 / 10 && late <= reordered,
            "{late} of {reordered}"
        );
        let mut all = order;
        all.sort_unstable();
        assert_eq!(all, (0..2000).collect::<Vec<_>>());
    }
}

#[test]
fn the_last_packet_is_not_kept_for_ever() {
    let (packets, _) = receive(&json!({ "reorder": 1 }), 1, 1, 64);
    assert_eq!(packets.len(), 1);
    assert_eq!(packets[0].0, 10_000_000);
    let (sent, _) = send(&json!({ "reorder": 1 }), 1, 1, 64);
    assert_eq!(sent.len(), 1);
}

/// A worker looks at the clock, loses its core for 30 us, and then takes packets that have come
/// meanwhile: they have come by the time of its next call, and wait from then on.
#[test]
fn a_delay_is_never_too_short_where_the_clock_was_read_early() {
    let delay = json!({ "delay": { "fixed": "50us" } });
    let script = (0..10).map(|index| (0, frame(index)));
    let config = json!({ "rx": delay, "tx": delay });
    let inner = ScriptedPort::new(script);
    let heard = inner.heard();
    let mut bench = wrapped(&config, inner);
    assert_eq!(bench.rx(64).state, RxState::More, "asked again at once");
    assert_eq!(bench.tx(&[frame(1), frame(2)]), 2);
    assert_eq!(bench.tx(&[frame(3)]), 1, "another link, in the same turn");
    bench.now = Nanos(30_000);
    assert_eq!(bench.rx(64).state, RxState::Until(Nanos(80_000)));
    bench.tx::<Vec<u8>>(&[]);
    bench.now = Nanos(79_999);
    assert_eq!(bench.rx(64).packets.len(), 0);
    bench.tx::<Vec<u8>>(&[]);
    assert!(heard.lock().unwrap().sent.is_empty());
    bench.now = Nanos(80_000);
    assert_eq!(bench.rx(64).packets.len(), 10);
    bench.tx::<Vec<u8>>(&[]);
    assert_eq!(heard.lock().unwrap().sent.len(), 3);
}

#[test]
fn a_full_hold_makes_packets_wait_where_they_are() {
    let config = json!({
        "rx": { "delay": { "fixed": "1s" } },
        "tx": { "delay": { "fixed": "1s" } },
        "hold": 512,
    });
    let mut bench = wrapped(
        &config,
        ScriptedPort::new((0..2000).map(|index| (0, frame(index)))),
    );
    for _ in 0..50 {
        assert_eq!(bench.rx(64).packets.len(), 0);
    }
    let held = bench.counter("rx_held");
    assert!((384..=512).contains(&held), "{held}");
    while bench.port().tx_room(Nanos(0)) > 0 {
        assert_eq!(bench.tx(&[frame(1)]), 1);
    }
    assert!(bench.counter("tx_held") >= 510);
    assert_eq!(bench.port().tx_room_at(), Some(Nanos(1_000_000_000)));
    let (packets, state) = bench.rx_all(64);
    assert_eq!((packets.len(), state), (2000, RxState::Finished));
    assert_eq!(bench.counter("rx_skipped") + bench.counter("tx_skipped"), 0);
}

#[test]
fn packets_too_long_to_wait_pass_at_once_and_are_counted() {
    let inner = ScriptedPort::new([(0, vec![0; 100_000])]);
    let mut bench = wrapped(&json!({ "rx": { "delay": { "fixed": "1s" } } }), inner);
    assert_eq!(bench.rx(64).packets.len(), 1);
    assert_eq!(bench.counter("rx_skipped"), 1);
}

#[test]
fn nothing_is_lost_when_buffers_run_out() {
    let script = (0..100).map(|index| (0, frame(index)));
    let config = json!({ "rx": { "delay": { "fixed": "1us" } } });
    let mut bench = wrapped(&config, ScriptedPort::new(script));
    assert_eq!(bench.rx(100).packets.len(), 0);
    assert_eq!(bench.counter("rx_held"), 100);
    assert_eq!(bench.rx(100).state, RxState::Until(Nanos(1000)));
    bench.now = Nanos(1000);
    bench.exhaust(60);
    assert_eq!(bench.rx(64).state, RxState::More);
    bench.relieve(usize::MAX);
    assert_eq!(bench.rx_all(64).0.len(), 100);
    assert_eq!(bench.drops_total(), 0);
}

#[test]
fn closing_sends_what_waits() {
    let inner = ScriptedPort::new([]);
    let heard = inner.heard();
    let mut bench = wrapped(&json!({ "tx": { "delay": { "fixed": "1s" } } }), inner);
    assert_eq!(bench.tx(&[frame(0), frame(1)]), 2);
    assert!(heard.lock().unwrap().sent.is_empty());
    assert_eq!(bench.close(), Ok(()));
    assert_eq!(heard.lock().unwrap().sent.len(), 2);
    assert!(heard.lock().unwrap().is_closed);
}

#[test]
fn what_the_port_inside_refuses_is_told() {
    let mut inner = ScriptedPort::new([]);
    inner.takes = Some(0);
    let mut bench = wrapped(&json!({ "tx": { "loss": "10%" } }), inner);
    let frames: Vec<_> = (0..200).map(frame).collect();
    let sent = bench.tx(&frames) as u64;
    assert_eq!(
        sent,
        bench.counter("tx_lost"),
        "the lost ones count as sent"
    );
}

#[test]
fn faults_nest_with_other_wrappers() {
    let dir = tempfile::tempdir().unwrap();
    let inner = ScriptedPort::new((0..100).map(|index| (0, frame(index))));
    let capture = json!({ "file": "inside.pcapng" });
    let opening = catena_engine::port::Opening::alone(dir.path());
    let port = (super::super::capture::KIND.wrap)(&capture, &opening, Box::new(inner)).unwrap();
    let port = (KIND.wrap)(&json!({ "rx": { "loss": "50%" } }), &opening, port).unwrap();
    let pace = json!({ "rx": "1Mpps" });
    let mut bench = PortBench::wrap(&super::super::pace::KIND, &pace, dir.path(), port).unwrap();
    let (packets, state) = bench.rx_all(8);
    assert_eq!(state, RxState::Finished);
    assert_eq!(bench.counter("captured"), 100);
    assert_eq!(packets.len() as u64, 100 - bench.counter("rx_lost"));
    assert_eq!(bench.close(), Ok(()));
}

#[test]
fn wrong_configurations_name_the_field() {
    for (config, path) in [
        (json!({}), ""),
        (json!({ "rx": { "loss": 2 } }), "rx.loss"),
        (
            json!({ "rx": { "delay": { "fixed": "5" } } }),
            "rx.delay.fixed",
        ),
        (json!({ "rx": {}, "hold": 5 }), "hold"),
        (json!({ "rx": {}, "seed": -1 }), "seed"),
        (json!({ "tx": { "lose": 1 } }), "tx"),
    ] {
        let errors = (KIND.check)(&config).unwrap_err();
        assert!(errors[0].path.starts_with(path), "{config}: {errors:?}");
    }
}
