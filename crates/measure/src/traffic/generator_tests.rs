//! The port at times of the test's choosing.

use std::path::Path;

use super::*;
use catena_engine::own_counters::CounterSink;
use catena_port::port_bench::PortBench;
use serde_json::json;

use crate::profile::Profile;
use crate::stamp::Stamp;
use crate::traffic::generator::KIND;

/// A port whose ticks are nanoseconds.
fn port(document: &serde_json::Value) -> TrafficPort {
    let profile = Profile::from_json(document).unwrap();
    let plan = Plan::new(&profile, Path::new(".")).unwrap();
    TrafficPort::new(plan, 7, TickRate::from_ns_per_tick(1.0))
}

/// Drives a port at ticks of the test's choosing.
struct Driven(TrafficPort);

impl Port for Driven {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        self.0.send_due(burst, now.0, now)
    }

    fn blocked(&mut self, now: Nanos) {
        self.0.held_back(now.0);
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.0.counters(out);
    }
}

fn bench(document: &serde_json::Value, end_ns: u64) -> PortBench {
    PortBench::new(Box::new(Driven(port(document).until(end_ns))))
}

#[test]
fn packets_carry_the_time_at_which_they_were_due() {
    let mut bench = bench(&json!({ "load": { "rate": "1Mpps" } }), 10_000);
    bench.now = Nanos(1_000_000);
    assert_eq!(bench.rx(32).packets.len(), 1);
    // Late by 3.5 gaps: all that became due goes, with its own time.
    bench.now = Nanos(1_004_500);
    let received = bench.rx(32);
    let stamps: Vec<_> = received
        .packets
        .iter()
        .map(|packet| Stamp::read(packet).unwrap())
        .map(|stamp| (stamp.trial, stamp.sequence, stamp.intended, stamp.late))
        .collect();
    // Coded to twelve bits: 3,500 and the others are exact.
    let expected = [1, 2, 3, 4].map(|n| (7, n, 1_000_000 + 1000 * n, 4500 - 1000 * n));
    assert_eq!(stamps, expected);
    assert_eq!(received.state, RxState::Until(Nanos(1_005_000)));
    assert_eq!(bench.counter("late_max_ns"), 3500);
    let (rest, state) = bench.rx_all(32);
    assert_eq!((rest.len(), state), (5, RxState::Finished));
}

#[test]
fn a_generator_that_cannot_keep_up_says_so() {
    let slow = |limit: usize, room_first: usize| {
        let mut bench = bench(&json!({ "load": { "rate": "10Mpps" } }), 100_000_000);
        bench.rx(room_first);
        // 4 packets in a microsecond where 10 are due.
        let mut calls = 0;
        while bench.rx(limit).state != RxState::Finished {
            bench.now = bench.now.plus(1000);
            calls += 1;
            assert!(calls < 200_000);
        }
        let of = |name: &str| bench.counter(name);
        [
            of("unsent"),
            of("entry_lost"),
            of("behind_by_chain"),
            of("behind_by_generator"),
        ]
    };
    let [unsent, lost, by_chain, by_generator] = slow(4, 1);
    // 100 ms and 20 ms of grace at 4 Mpps leave 520,000 of 1,000,000.
    assert!((519_990..=520_010).contains(&unsent), "{unsent}");
    assert!(by_generator > 100_000 && (lost, by_chain) == (0, 0));
    // The same when there once was more room: the chain holds back, and what its entry has no
    // place for is lost: all but 400,000 and a full buffer.
    let [unsent, lost, by_chain, by_generator] = slow(4, 32);
    assert_eq!(unsent, 0);
    assert!((599_000..=599_600).contains(&lost), "{lost}");
    assert!(
        by_chain > 90_000 && by_generator <= 1,
        "{by_chain} {by_generator}"
    );
}

/// A device that freezes for 200 ms under 50,000 packets/s: 10,000 are due meanwhile, of which the
/// entry keeps as many as it has places.
#[test]
fn a_frozen_chain_loses_what_its_entry_has_no_room_for() {
    let port = port(&json!({ "load": { "rate": "50kpps" } })).until(400_000_000);
    let mut bench = PortBench::new(Box::new(Driven(port.with_entry(300))));
    bench.now = Nanos(1);
    let mut frames = Vec::new();
    while bench.now.0 < 100_000_000 {
        frames.extend(bench.rx(32).packets);
        bench.now = bench.now.plus(20_000);
    }
    let stalled = bench.counter("stalled_ns");
    let thawed = bench.now.plus(200_000_000);
    while bench.now < thawed {
        let now = bench.now;
        bench.port().blocked(now);
        // The worker sleeps as long as it likes.
        bench.now = now.plus(7_000_000).min(thawed);
    }
    frames.extend(bench.rx(32).packets);
    assert_eq!(bench.counter("stalled_ns"), stalled);
    let (rest, state) = bench.rx_all(32);
    assert_eq!(state, RxState::Finished);
    // 10,001 were due from the last call before on.
    assert_eq!(bench.counter("entry_lost"), 10_001 - 300);
    assert_eq!(frames.len() + rest.len(), 20_000 - 9_701);
    assert_eq!(bench.counter("unsent"), 0);
    // What waited is the device's latency and not the tester's lateness.
    assert!(bench.counter("held_max_ns") > 199_000_000);
    assert!(bench.counter("late_max_ns") <= 20_000);
    let latest = rest
        .iter()
        .map(|(_, frame)| Stamp::read(frame).unwrap().late);
    assert!(latest.max() <= Some(20_000));
}

#[test]
fn a_generator_that_did_not_run_is_the_tester_s_and_loses_nothing() {
    let mut bench = bench(&json!({ "load": { "rate": "50kpps" } }), 400_000_000);
    bench.rx(32);
    bench.rx(32);
    bench.now = bench.now.plus(10_000);
    bench.rx(32);
    bench.now = bench.now.plus(200_000_000);
    let late = bench.rx(64).packets.len();
    // The link is full of what came late: that is not the device's loss either.
    for _ in 0..10 {
        let now = bench.now;
        bench.port().blocked(now);
        bench.now = now.plus(10_000);
    }
    let (rest, _) = bench.rx_all(64);
    assert_eq!(bench.counter("entry_lost") + bench.counter("unsent"), 0);
    assert_eq!(1 + late + rest.len(), 20_000);
    assert!(bench.counter("late_max_ns") >= 199_900_000);
    assert!(bench.counter("held_max_ns") <= 1_000_000);
}

/// Ticks stalled at a rate of which each packet finds the loop back `after_ns` after it was due.
fn stalled_ns(rate: &str, after_ns: u64) -> u64 {
    let mut bench = bench(&json!({ "load": { "rate": rate } }), 1_000_000_000);
    for _ in 0..1000 {
        let RxState::Until(time) = bench.rx(32).state else {
            panic!("{rate} are no load");
        };
        bench.now = time.plus(after_ns);
    }
    assert_eq!(bench.counter("late_max_ns"), after_ns);
    bench.counter("stalled_ns")
}

#[test]
fn nothing_is_stalled_while_nothing_is_due_and_from_then_on_it_is() {
    // 200 us are slept through; 50 us and 20 us are waited for awake, and others get the core.
    for rate in ["5kpps", "20kpps", "50kpps"] {
        assert_eq!(stalled_ns(rate, 0), 0, "{rate}");
        assert_eq!(stalled_ns(rate, 4_000), 0, "{rate}");
        assert_eq!(stalled_ns(rate, 15_000), 1000 * 15_000 - 15_000, "{rate}");
    }
    let mut fast = bench(&json!({ "load": { "rate": "1Mpps" } }), 1_000_000_000);
    fast.rx(32);
    fast.now = Nanos(50_000);
    fast.rx(64);
    assert_eq!(fast.counter("stalled_ns"), 49_000);
}

#[test]
fn a_warm_up_is_another_trials_and_nothing_of_it_counts() {
    let port = port(&json!({ "load": { "rate": "1Mpps" } })).after(5000);
    let mut bench = PortBench::new(Box::new(Driven(port.until(3000))));
    let (all, state) = bench.rx_all(32);
    let seen: Vec<_> = all
        .iter()
        .map(|(_, frame)| Stamp::read(frame).unwrap())
        .map(|stamp| (stamp.trial, stamp.sequence, stamp.intended))
        .collect();
    let expected = (0..5).map(|n| (7 + 128, n, 1000 * n));
    let expected = expected.chain((0..3).map(|n| (7, n, 5000 + 1000 * n)));
    assert_eq!(seen, expected.collect::<Vec<_>>());
    assert_eq!(state, RxState::Finished);
    assert_eq!((bench.counter("made"), bench.counter("warmup")), (3, 5));
}

#[test]
fn a_delay_is_no_lateness() {
    let mut port = port(&json!({ "load": { "rate": "1Mpps" } })).until(10_000);
    port.delay_ns = 500_000;
    let mut bench = PortBench::new(Box::new(Driven(port)));
    bench.now = Nanos(1000);
    let first = bench.rx(32);
    assert_eq!(
        (first.packets.len(), first.state),
        (0, RxState::Until(Nanos(501_000)))
    );
    bench.now = Nanos(501_000);
    let received = bench.rx(32);
    let stamp = Stamp::read(&received.packets[0]).unwrap();
    assert_eq!((stamp.sequence, stamp.intended), (0, 501_000));
    assert_eq!(bench.counter("late_max_ns"), 0);
    assert_eq!(bench.counter("stalled_ns"), 0);
}

#[test]
fn without_a_rate_everything_is_due_now() {
    let mut bench = bench(&json!({}), 1000);
    bench.now = Nanos(50);
    assert_eq!(bench.rx(32).packets.len(), 32);
    bench.now = Nanos(60);
    let received = bench.rx(8);
    let stamp = Stamp::read(&received.packets[0]).unwrap();
    assert_eq!((stamp.sequence, stamp.intended), (32, 60));
    bench.now = Nanos(1050);
    assert_eq!(bench.rx(8).state, RxState::Finished);
}

#[test]
fn wrong_profiles_in_chain_files_name_the_field() {
    let config = json!({ "profile": { "sizes": [64, 20], "lode": {} } });
    let errors = (KIND.check)(&config).unwrap_err();
    let paths: Vec<_> = errors.iter().map(|error| error.path.as_str()).collect();
    assert_eq!(paths, ["profile.lode", "profile.sizes[1]"]);
}

#[test]
fn results_are_written_when_the_chain_ends() {
    let dir = tempfile::tempdir().unwrap();
    let config = json!({
        "profile": { "load": { "rate": "1Gpps" } }, "count": 5, "results": "sent.json",
    });
    let mut bench = PortBench::open(&KIND, &config, dir.path()).unwrap();
    let (packets, _) = bench.rx_all(2);
    assert_eq!(packets.len(), 5);
    bench.close().unwrap();
    let text = std::fs::read_to_string(dir.path().join("sent.json")).unwrap();
    let results: SendResults = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (results.record.sent, results.shortfall),
        (5, Shortfall::None)
    );
}
