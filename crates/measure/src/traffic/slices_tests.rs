//! Turns of two devices of known speed, packet by packet in simulated time.

use super::*;
use crate::compare::{Interleaving, Plan, Verdict};
use crate::stats::random::Random;

/// Packets that the links and buffers of a device hold.
const QUEUE: f64 = 1500.0;
/// Length of a slice, in ns, and how far the simulation steps.
const SLICE_NS: u64 = 5_000_000;
const STEP_NS: u64 = 5_000;
/// Packets per second that the generator makes.
const GENERATOR_PPS: f64 = 2e7;

/// A device that serves packets at a rate, and a bucket that lets a burst through at once.
#[derive(Clone, Copy)]
struct Simulated {
    pps: f64,
    bucket: f64,
    /// What is beyond its rate is dropped, as by a policer; otherwise it waits.
    drops: bool,
}

/// Rates that a side's receiver finds.
fn rates(side: Side, device: Simulated, seed: u64, pairs: u32) -> Vec<f64> {
    let config = SliceConfig {
        side,
        pairs,
        length: Span { ns: SLICE_NS },
        seed,
        start: 0,
    };
    let mut slices = Slices::new(&config, TickRate::from_ns_per_tick(1.0));
    let mut random = Random::new(seed ^ side as u64);
    let (mut queue, mut tokens, mut served) = (0.0_f64, device.bucket, 0.0_f64);
    let mut speed = 1.0;
    let steps = SLICE_NS * 2 * u64::from(pairs) / STEP_NS;
    for step in 0..steps {
        let now = step * STEP_NS;
        if now.is_multiple_of(SLICE_NS) {
            // The machine: 1 % from slice to slice, and half a core now and then.
            speed = (0.01 * random.normal()).exp();
            if random.unit() < 0.01 {
                speed *= 0.5;
            }
        }
        let seconds = STEP_NS as f64 / 1e9;
        tokens = (tokens + device.pps * speed * seconds).min(device.bucket.max(1.0));
        if slices.at(now) == Moment::Own {
            queue = (queue + GENERATOR_PPS * seconds).min(QUEUE);
        }
        let able = if device.bucket > 0.0 {
            queue.min(tokens)
        } else {
            queue.min(device.pps * speed * seconds)
        };
        queue = if device.drops { 0.0 } else { queue - able };
        tokens -= able.min(tokens);
        served += able;
        let whole = served.floor();
        served -= whole;
        slices.count(now, whole as u64);
    }
    slices.rates_pps()
}

/// Compares two devices over so many pairs; gives the verdict and the ratio.
fn compare(a: Simulated, b: Simulated, seed: u64, pairs: u32) -> (Verdict, f64) {
    let plan = Plan {
        pairs: pairs as usize,
        false_alarms: 0.05,
        margin: 1e-9,
        seed,
    };
    let mut comparison = Interleaving::new(plan).unwrap();
    let found = [
        rates(Side::A, a, seed, pairs),
        rates(Side::B, b, seed, pairs),
    ];
    for (a, b) in found[0].iter().zip(&found[1]) {
        for _ in 0..2 {
            let value = match comparison.next() {
                Some(Side::A) => *a,
                Some(Side::B) => *b,
                None => break,
            };
            comparison.report(value).unwrap();
        }
    }
    let result = comparison.result().unwrap();
    (result.verdict, result.ratio.estimate)
}

const fn server(pps: f64) -> Simulated {
    Simulated {
        pps,
        bucket: 0.0,
        drops: false,
    }
}

#[test]
fn differences_of_known_size_and_sign_are_found() {
    for (share, pairs) in [(0.2, 100), (0.05, 100), (0.02, 100), (0.002, 3000)] {
        for effect in [share, -share] {
            for seed in 0..3 {
                let (verdict, ratio) =
                    compare(server(4e6), server(4e6 * (1.0 + effect)), seed, pairs);
                let expected = if effect > 0.0 {
                    Verdict::Higher
                } else {
                    Verdict::Lower
                };
                assert_eq!(verdict, expected, "{effect} {seed} {ratio}");
                assert!(
                    (ratio - 1.0 - effect).abs() < 0.3 * share + 5e-4,
                    "{effect} {ratio}"
                );
            }
        }
    }
}

/// A policer of 10 kpps against nothing at all: by what leaves the generator the two are alike, or
/// the policer ahead, since buffers empty at once.
#[test]
fn a_policer_is_a_thousandth_of_what_it_polices() {
    let policer = Simulated {
        pps: 1e4,
        bucket: 20.0,
        drops: true,
    };
    let (verdict, ratio) = compare(server(1e7), policer, 1, 100);
    assert_eq!(verdict, Verdict::Lower);
    assert!((0.000_9..0.001_1).contains(&ratio), "{ratio}");
    let (verdict, ratio) = compare(policer, server(1e7), 1, 100);
    assert_eq!(verdict, Verdict::Higher);
    assert!((900.0..1100.0).contains(&ratio), "{ratio}");
}

/// A device so slow that its queues never empty in a slice: what fills them is no throughput.
#[test]
fn what_fills_queues_is_no_throughput() {
    let (verdict, ratio) = compare(server(1e6), server(2e5), 2, 100);
    assert_eq!(verdict, Verdict::Lower);
    assert!((0.19..0.21).contains(&ratio), "{ratio}");
}

#[test]
fn equals_are_seldom_called_different() {
    let alarms = (0..200).filter(|seed| {
        let (verdict, _) = compare(server(4e6), server(4e6), *seed, 100);
        matches!(verdict, Verdict::Higher | Verdict::Lower)
    });
    let alarms = alarms.count();
    assert!(alarms <= 14, "{alarms} of 200");
}
