//! Goal: meters decide as exact models do, for any rates, and never drift.
//! Method: random arrivals, mostly near the rate, against models of the obvious kind in 128 bits;
//! ten million of them in a release build, fewer in a debug build.

use super::*;
use crate::tests::Random;

const ARRIVALS: u64 = if cfg!(debug_assertions) {
    200_000
} else {
    10_000_000
};
/// Arrivals at one meter before the next is drawn.
const RUN: u64 = 5_000;

impl Random {
    /// Any order of magnitude up to 2^bits.
    fn magnitude(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits) + 1;
        self.next() >> (64 - bits) | 1
    }

    fn colour(&mut self) -> Colour {
        [Colour::Green, Colour::Yellow, Colour::Red][self.below(3) as usize]
    }
}

/// Instants near those at which packets of `cost` at `rate` earn their way, now and then a pause.
fn advance(random: &mut Random, now_ns: &mut u64, rate: u64, cost: u32) {
    let fair_ns = (u128::from(cost) * 1_000_000_000 / u128::from(rate)) as u64;
    *now_ns += match random.below(100) {
        0 => random.magnitude(45),
        1..=20 => 0,
        21..=40 => fair_ns + random.below(3),
        _ => random.below(fair_ns.saturating_mul(2).max(2)),
    };
}

/// A bucket that holds credits, in as many bits as it takes.
#[derive(Clone, Copy)]
struct Bucket {
    depth: u128,
    held: u128,
}

impl Bucket {
    fn full(burst: u64) -> Self {
        let depth = u128::from(burst) * 1_000_000_000;
        Self { depth, held: depth }
    }

    fn earn(&mut self, credits: u128) -> u128 {
        let sum = self.held + credits;
        self.held = sum.min(self.depth);
        sum - self.held
    }

    fn has(&self, cost: u32) -> bool {
        self.held >= u128::from(cost) * 1_000_000_000
    }

    fn pay(&mut self, cost: u32) {
        self.held -= u128::from(cost) * 1_000_000_000;
    }
}

#[test]
fn a_meter_of_the_moment_decides_as_one_that_is_kept() {
    let mut random = Random(29);
    for _ in 0..ARRIVALS / RUN {
        let (rate, burst) = (random.magnitude(43), random.magnitude(34));
        let kept = Gcra::new(rate, burst).unwrap();
        let (mut one, mut other) = (GcraState::default(), GcraState::default());
        let (mut now_ns, cost) = (0, random.magnitude(14) as u32);
        for _ in 0..RUN {
            advance(&mut random, &mut now_ns, rate, cost);
            let cost = cost + random.below(3) as u32;
            let passes = Gcra::charge((rate, burst), &mut one, now_ns, cost).unwrap();
            assert_eq!(passes, kept.passes(&mut other, now_ns, cost));
            assert_eq!(one, other, "{rate} {burst} {cost} at {now_ns}");
        }
    }
    let state = &mut GcraState::default();
    for (rate, burst) in [(0, 1), (1, 0), (1, u64::MAX)] {
        let refused = Gcra::charge((rate, burst), state, 5, 1).unwrap_err();
        assert_eq!(Gcra::new(rate, burst).unwrap_err(), refused);
    }
}

/// What is owed is charged as what passes; where the burst is used up it is owed beyond that, by
/// one burst more, and others wait for it.
#[test]
fn what_is_owed_is_charged_up_to_two_bursts() {
    let mut random = Random(7);
    for _ in 0..2000 {
        let (rate, burst) = (random.magnitude(40), random.magnitude(18));
        let meter = Gcra::new(rate, burst).unwrap();
        let (mut passed, mut owed) = (GcraState::default(), GcraState::default());
        let now_ns = random.magnitude(50);
        let mut sum = 0u64;
        loop {
            let cost = random.magnitude(14) as u32;
            let passes = meter.passes(&mut passed, now_ns, cost);
            if !passes {
                break;
            }
            meter.owe(&mut owed, now_ns, cost);
            sum += u64::from(cost);
            assert_eq!(owed, passed, "{meter:?}");
        }
        assert!(sum <= burst);
        for _ in 0..2 {
            meter.owe(&mut owed, now_ns, u32::try_from(burst).unwrap());
        }
        // A burst later it is as after one; another one later, as after none.
        let burst_ns = (burst as u128 * 1_000_000_000).div_ceil(rate.into());
        let burst_ns = u64::try_from(burst_ns).unwrap();
        assert!(!meter.passes(&mut owed.clone(), now_ns + burst_ns - 1, 1));
        let later_ns = now_ns + 2 * burst_ns + 2;
        assert!(meter.passes(&mut owed, later_ns, u32::try_from(burst).unwrap()));
    }
}

#[test]
fn gcra_equals_a_full_bucket_over_random_arrivals() {
    let (mut random, mut passed) = (Random(1), 0u64);
    for _ in 0..ARRIVALS / RUN {
        let is_packets = random.below(2) == 0;
        let burst_bits = if is_packets { 8 } else { 18 };
        let (rate, burst) = (random.magnitude(40), random.magnitude(burst_bits));
        let meter = Gcra::new(rate, burst).expect("a meter");
        let (mut state, mut bucket) = (GcraState::default(), Bucket::full(burst));
        let mut last = 0;
        let mut now = random.magnitude(55);
        for _ in 0..RUN {
            let cost = if is_packets {
                1
            } else {
                random.magnitude(14) as u32
            };
            advance(&mut random, &mut now, rate, cost);
            bucket.earn(u128::from(now - last) * u128::from(rate));
            last = now;
            let expected = bucket.has(cost);
            if expected {
                bucket.pay(cost);
            }
            // Through its words, as a program would.
            state = GcraState::from_words(state.words());
            assert_eq!(
                meter.passes(&mut state, now, cost),
                expected,
                "{meter:?} at {now}"
            );
            passed += u64::from(expected);
        }
    }
    assert!(
        (ARRIVALS / 5..ARRIVALS * 9 / 10).contains(&passed),
        "{passed} passed: no test"
    );
}

#[test]
fn srtcm_equals_two_buckets_over_random_arrivals() {
    let (mut random, mut colours) = (Random(2), [0u64; 3]);
    for _ in 0..ARRIVALS / RUN {
        let (rate, is_blind) = (random.magnitude(40), random.below(2) == 0);
        let (cbs, ebs) = (random.magnitude(20), random.magnitude(20) * random.below(2));
        let meter = SrTcm::new(rate, cbs, ebs).expect("a meter");
        let mut state = SrTcmState::default();
        let (mut committed, mut excess) = (Bucket::full(cbs), Bucket::full(ebs));
        let mut last = 0;
        let mut now = random.magnitude(55);
        for _ in 0..RUN {
            let cost = random.magnitude(14) as u32;
            let before = if is_blind {
                Colour::Green
            } else {
                random.colour()
            };
            advance(&mut random, &mut now, rate, cost);
            // RFC 2697 section 3: the committed bucket first, then the excess one.
            let over = committed.earn(u128::from(now - last) * u128::from(rate));
            excess.earn(over);
            last = now;
            let expected = if before == Colour::Green && committed.has(cost) {
                committed.pay(cost);
                Colour::Green
            } else if before != Colour::Red && excess.has(cost) {
                excess.pay(cost);
                Colour::Yellow
            } else {
                Colour::Red
            };
            state = SrTcmState::from_words(state.words());
            assert_eq!(
                meter.colour(&mut state, now, cost, before),
                expected,
                "{meter:?}"
            );
            colours[expected as usize] += 1;
        }
    }
    assert!(
        colours.iter().all(|count| *count > ARRIVALS / 20),
        "{colours:?}"
    );
}

#[test]
fn trtcm_equals_two_buckets_over_random_arrivals() {
    let (mut random, mut colours) = (Random(3), [0u64; 3]);
    for _ in 0..ARRIVALS / RUN {
        let (cir, is_blind) = (random.magnitude(40), random.below(2) == 0);
        let pir = cir + random.below(cir + 1);
        let (cbs, pbs) = (random.magnitude(20), random.magnitude(20));
        let meter = TrTcm::new(cir, cbs, pir, pbs).expect("a meter");
        let mut state = TrTcmState::default();
        let (mut committed, mut peak) = (Bucket::full(cbs), Bucket::full(pbs));
        let mut last = 0;
        let mut now = random.magnitude(55);
        for _ in 0..RUN {
            let cost = random.magnitude(14) as u32;
            let before = if is_blind {
                Colour::Green
            } else {
                random.colour()
            };
            advance(&mut random, &mut now, cir, cost);
            committed.earn(u128::from(now - last) * u128::from(cir));
            peak.earn(u128::from(now - last) * u128::from(pir));
            last = now;
            // RFC 2698 section 3.
            let expected = if before == Colour::Red || !peak.has(cost) {
                Colour::Red
            } else {
                peak.pay(cost);
                if before == Colour::Yellow || !committed.has(cost) {
                    Colour::Yellow
                } else {
                    committed.pay(cost);
                    Colour::Green
                }
            };
            state = TrTcmState::from_words(state.words());
            assert_eq!(
                meter.colour(&mut state, now, cost, before),
                expected,
                "{meter:?}"
            );
            colours[expected as usize] += 1;
        }
    }
    assert!(
        colours.iter().all(|count| *count > ARRIVALS / 20),
        "{colours:?}"
    );
}

#[test]
fn the_window_equals_gcra_with_a_strict_limit_over_random_arrivals() {
    let (mut random, mut passed) = (Random(4), 0u64);
    for _ in 0..ARRIVALS / RUN {
        let (interval, burst) = (random.magnitude(34), random.magnitude(10));
        let meter = Window::new(interval, burst).expect("a meter");
        let mut state = WindowState::default();
        let mut arrival: Option<i128> = None;
        let mut now = random.below(2) * random.magnitude(50);
        for _ in 0..RUN {
            let limit = i128::from(burst) * i128::from(interval);
            let expected = arrival.is_none_or(|arrival| i128::from(now) > arrival - limit);
            if expected {
                let from = arrival.map_or(i128::from(now), |a| a.max(i128::from(now)));
                arrival = Some(from + i128::from(interval));
            }
            state = WindowState::from_words(state.words());
            assert_eq!(
                meter.passes(&mut state, now),
                expected,
                "{meter:?} at {now}"
            );
            passed += u64::from(expected);
            now += match random.below(100) {
                0 => random.magnitude(45),
                1..=20 => 0,
                21..=40 => interval,
                _ => random.below(interval + interval / 2 + 1),
            };
        }
    }
    assert!(
        (ARRIVALS / 5..ARRIVALS * 9 / 10).contains(&passed),
        "{passed} passed: no test"
    );
}

#[test]
fn the_window_lets_one_packet_more_pass_than_the_exact_bucket() {
    // Three packets per 30 ns, arrivals a nanosecond apart.
    let window = Window::new(10, 3).expect("a meter");
    let bucket = Gcra::new(100_000_000, 3).expect("a meter");
    let (mut ours, mut exact) = (WindowState::default(), GcraState::default());
    let passed: Vec<[bool; 2]> = (0..5)
        .map(|now| {
            [
                window.passes(&mut ours, now),
                bucket.passes(&mut exact, now, 1),
            ]
        })
        .collect();
    let [yes, no] = [true, false];
    assert_eq!(
        passed,
        [[yes, yes], [yes, yes], [yes, yes], [yes, no], [no, no]]
    );
}

#[test]
fn meters_of_nothing_are_refused() {
    assert_eq!(Gcra::new(0, 1), Err(MeterError::Rate));
    assert!(matches!(Gcra::new(1, 0), Err(MeterError::Burst { .. })));
    assert!(matches!(
        Gcra::new(1, 1 << 35),
        Err(MeterError::Burst { .. })
    ));
    assert!(matches!(SrTcm::new(1, 0, 0), Err(MeterError::Burst { .. })));
    assert!(SrTcm::new(1, 0, 1).is_ok());
    let peak = MeterError::Peak {
        peak: 1,
        committed: 2,
    };
    assert_eq!(TrTcm::new(2, 1, 1, 1), Err(peak));
    assert!(matches!(
        TrTcm::new(2, 1, 2, 0),
        Err(MeterError::Burst { .. })
    ));
    assert_eq!(Window::new(0, 1), Err(MeterError::Rate));
    assert!(matches!(
        Window::new(1 << 60, 5),
        Err(MeterError::Burst { .. })
    ));
}

#[test]
fn any_words_are_a_state_and_time_may_run_backwards() {
    let mut random = Random(5);
    let gcra = Gcra::new(u64::MAX, 3).expect("a meter");
    let single = SrTcm::new(u64::MAX, 3, 3).expect("a meter");
    let two = TrTcm::new(u64::MAX, 3, u64::MAX, 3).expect("a meter");
    let window = Window::new(1 << 61, 2).expect("a meter");
    for _ in 0..100_000 {
        let words = [0; 3].map(|_: u64| random.magnitude(64));
        let (now, cost) = (random.magnitude(64), random.magnitude(32) as u32);
        gcra.passes(&mut GcraState::from_words([words[0], words[1]]), now, cost);
        single.colour(&mut SrTcmState::from_words(words), now, cost, Colour::Green);
        two.colour(&mut TrTcmState::from_words(words), now, cost, Colour::Green);
        window.passes(&mut WindowState::from_words([words[0], words[1]]), now);
    }
    let mut state = SrTcmState::default();
    let meter = SrTcm::new(1_000_000_000, 1, 0).expect("a meter");
    let colours = [100, 50, 100, 101].map(|now| meter.colour(&mut state, now, 1, Colour::Green));
    assert_eq!(
        colours,
        [Colour::Green, Colour::Red, Colour::Red, Colour::Green]
    );
}
