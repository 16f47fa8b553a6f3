//! Definitions computed by hand, and that the tester's lateness cannot hide.

use super::*;
use crate::stats::random::Random;

/// Packets sent every 1000 ns with the given delays.
fn samples(delays: &[u64]) -> Vec<Sample> {
    let sample = |(index, delay): (usize, &u64)| {
        let sent_ns = 1_000_000 + index as u64 * 1000;
        Sample {
            sequence: index as u64,
            intended_ns: sent_ns,
            sent_ns,
            received_ns: sent_ns + delay,
        }
    };
    delays.iter().enumerate().map(sample).collect()
}

#[test]
fn each_definition_gives_its_own_number() {
    let latency = Latency::of(Direction::OneWay, &samples(&[100, 110, 100, 140]));
    assert_eq!(latency.delay.mean_ns, Some(112.5));
    let ipdv = &latency.ipdv_rfc3393;
    // Differences 10, -10, 40.
    assert_eq!(
        (ipdv.signed.min_ns, ipdv.signed.max_ns),
        (Some(-10), Some(40))
    );
    assert_eq!(ipdv.mean_absolute_ns, Some(20.0));
    assert_eq!(latency.pdv_rfc5481.max_ns, Some(40));
    assert_eq!(latency.pdv_rfc5481.min_ns, Some(0));
    // 0.625, then 1.2109375, then 3.635253906.
    let smoothed = latency.interarrival_jitter_rfc3550_ns.unwrap();
    assert!((smoothed - 3.635_253_906_25).abs() < 1e-9, "{smoothed}");
    assert_eq!(latency.pdv_rfc8219_ns, None, "four samples have no p99.9");
}

#[test]
fn pdv_of_rfc_8219_is_p999_less_the_least() {
    let mut delays = vec![200; 10_000];
    delays[17] = 150;
    for delay in &mut delays[5000..5011] {
        *delay = 900;
    }
    let latency = Latency::of(Direction::RoundTrip, &samples(&delays));
    assert_eq!(latency.pdv_rfc8219_ns, Some(750));
    assert_eq!(latency.delay.quantile(0.5), Some(200));
    assert_eq!(latency.delay.quantile(0.9999), None);
}

#[test]
fn lost_and_reordered_packets_make_no_false_pairs() {
    let mut packets = samples(&[100, 0, 150, 170, 400]);
    packets.remove(1);
    packets.swap(1, 2);
    let ipdv = ipdv_rfc3393(&packets);
    // 2 to 3 and 3 to 4; not 0 to 2.
    assert_eq!(ipdv.signed.count, 2);
    assert_eq!(
        (ipdv.signed.min_ns, ipdv.signed.max_ns),
        (Some(20), Some(230))
    );
}

/// Goal: no coordinated omission. Method: the tester stands still for 1 ms and then sends what it
/// owes; from actual sending nothing shows, from intended sending every owed packet does.
#[test]
fn a_tester_that_falls_behind_shows() {
    let mut packets = samples(&[500; 2000]);
    let resumed = packets[1000].intended_ns + 1_000_000;
    for packet in &mut packets[1000..] {
        packet.sent_ns = packet.sent_ns.max(resumed);
        packet.received_ns = packet.sent_ns + 500;
    }
    let latency = Latency::of(Direction::OneWay, &packets);
    assert_eq!(latency.delay_from_sent.max_ns, Some(500));
    assert_eq!(latency.delay.max_ns, Some(1_000_500));
    assert_eq!(latency.tester_lateness.max_ns, Some(1_000_000));
    assert_eq!(latency.delay.quantile(0.9), Some(800_500));
}

#[test]
fn no_sample_gives_no_number() {
    let latency = Latency::of(Direction::OneWay, &[]);
    assert_eq!(latency.delay.count, 0);
    assert_eq!(latency.delay.mean_ns, None);
    assert_eq!(latency.interarrival_jitter_rfc3550_ns, None);
}

/// Goal: intervals of p99 hold it. Method: 40 trials of 30 slices whose delays are exponential with
/// a mean that wanders from slice to slice by its own noise; the true p99 is that of the mixture,
/// taken from one very long trial.
#[test]
fn intervals_of_percentiles_hold_the_true_value() {
    let trial = |seed: u64, slices: usize| -> Vec<Histogram> {
        let mut random = Random::new(seed);
        let slice = |_| {
            let scale = 10_000.0 * (0.1 * random.normal()).exp();
            let mut histogram = Histogram::new();
            for _ in 0..1000 {
                histogram.record((-(1.0 - random.unit()).ln() * scale) as u64);
            }
            histogram
        };
        (0..slices).map(slice).collect()
    };
    let mut long = Histogram::new();
    trial(1000, 2000).iter().for_each(|slice| long.merge(slice));
    let truth = long.quantile(0.99).unwrap() as f64;
    let resampling = Resampling {
        resamples: 100,
        ..Resampling::with_block(2)
    };
    let holds = (0..40).filter(|seed| {
        let found = quantile_intervals(&trial(*seed, 30), &[0.99, 0.9999], &resampling);
        assert_eq!(found.len(), 1, "30,000 samples have no p99.99");
        let interval = found[0].1;
        interval.low <= truth && truth <= interval.high
    });
    let holds = holds.count();
    assert!(holds >= 34, "{holds} of 40");
}

/// Two blocks of which one had a stall: so few make an interval wide, and no delay negative.
#[test]
fn an_interval_of_a_delay_is_above_zero() {
    let slices = [10_000, 10_000, 50_000_000, 10_000].map(|delay_ns| {
        let mut histogram = Histogram::new();
        (0..1000).for_each(|at| histogram.record(delay_ns + at));
        histogram
    });
    let found = quantile_intervals(&slices, &[0.5, 0.9], &Resampling::with_block(2));
    assert_eq!(found.len(), 2);
    for (q, interval) in found {
        assert!(interval.low > 0.0, "{q}: {interval:?}");
        assert!(
            interval.low <= interval.estimate && interval.estimate <= interval.high,
            "{q}: {interval:?}"
        );
    }
}
