//! Whether a measurement had settled: what comes first must not differ from what comes later.
//!
//! A warm-up is discarded before each trial; whether it was long enough, the samples themselves
//! say. Each trial is cut into slices of equal length, and each slice has a value: the share of its
//! packets that took longer than nine in ten of all packets of the trial. A transient raises that
//! of the first slice, a drift raises or lowers it along the trial. Two tests by ranks, so that one
//! stall of the machine, however long, is one slice and no more:
//!
//! - *transient*: the sum over trials of the first slice's rank, which in a steady state is any
//!   rank with the same chance;
//! - *drift*: Kendall's S of the slices against time, summed over trials.
//!
//! Each is allowed half of [`FALSE_ALARMS`]. Slices that follow each other are not quite
//! independent, so a drift is called more often than that where the machine itself wanders.

use serde::{Deserialize, Serialize};

use super::Sample;
use crate::stats::student::normal_quantile;

/// Slices of a trial.
pub const SLICES: usize = 20;
/// Least packets in a slice.
const SLICE_PACKETS_MIN: usize = 20;
/// Least trials: one first slice of twenty is the highest once in twenty times.
const TRIALS_MIN: usize = 3;
/// Chance that trials in a steady state are called unsteady.
pub const FALSE_ALARMS: f64 = 0.01;
/// The part of the packets that a threshold leaves below.
const BELOW: f64 = 0.9;

/// What the tests say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Steadiness {
    /// No transient and no drift could be shown.
    Steady,
    /// The first slices are slower, or faster, than the rest: the warm-up is too short.
    Transient,
    /// Delays rise or fall along the trials.
    Drift,
    /// Too few packets or trials to say.
    TooFew,
}

impl Steadiness {
    /// As tables call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Transient => "TRANSIENT",
            Self::Drift => "DRIFT",
            Self::TooFew => "too few",
        }
    }
}

/// How the slices of one trial lie among each other: all that the tests need of it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ranks {
    /// Rank of the first slice, the middle one being 0.
    pub first: f64,
    /// Kendall's S of the slices against time.
    pub kendall: f64,
}

impl Ranks {
    /// Of the samples of a trial of a length, without the warm-up; none with too few packets.
    pub fn of(samples: &[Sample], length_ns: u64) -> Option<Self> {
        let (first, kendall) = ranks(&values(samples, length_ns)?);
        Some(Self { first, kendall })
    }
}

/// Values of the slices of one trial of a length, if there are packets enough.
fn values(samples: &[Sample], length_ns: u64) -> Option<Vec<f64>> {
    let mut delays: Vec<_> = samples.iter().map(Sample::delay_ns).collect();
    if delays.len() < SLICES * SLICE_PACKETS_MIN || length_ns == 0 {
        return None;
    }
    let place = (delays.len() as f64 * BELOW) as usize;
    let (_, threshold, _) = delays.select_nth_unstable(place);
    let threshold = *threshold;
    let (mut counts, mut above) = ([0_u32; SLICES], [0_u32; SLICES]);
    for sample in samples {
        let slice = u128::from(sample.intended_ns) * SLICES as u128 / u128::from(length_ns);
        let slice = usize::try_from(slice).map_or(SLICES - 1, |slice| slice.min(SLICES - 1));
        counts[slice] += 1;
        above[slice] += u32::from(sample.delay_ns() > threshold);
    }
    let share = |(above, count): (&u32, &u32)| f64::from(*above) / f64::from((*count).max(1));
    Some(above.iter().zip(&counts).map(share).collect())
}

/// Rank of the first value among all, the middle one being 0, and Kendall's S with ties as 0.
fn ranks(values: &[f64]) -> (f64, f64) {
    let signs = |at: usize| {
        let later = values[at + 1..].iter();
        later
            .map(|later| f64::from(i8::from(*later > values[at]) - i8::from(*later < values[at])))
            .sum::<f64>()
    };
    let s = (0..values.len()).map(signs).sum();
    // As many below it as above it, in the middle.
    (-signs(0) / 2.0, s)
}

/// Judges trials, each by its samples and its length, without the warm-up.
pub fn judge<'a>(trials: impl IntoIterator<Item = (&'a [Sample], u64)>) -> Steadiness {
    let mut found = Vec::new();
    for (samples, length_ns) in trials {
        match Ranks::of(samples, length_ns) {
            Some(ranks) => found.push(ranks),
            None => return Steadiness::TooFew,
        }
    }
    judge_ranks(&found)
}

/// Judges trials by what is kept of their slices.
pub fn judge_ranks(found: &[Ranks]) -> Steadiness {
    if found.len() < TRIALS_MIN {
        return Steadiness::TooFew;
    }
    let (trials, n) = (found.len() as f64, SLICES as f64);
    let limit = normal_quantile(1.0 - FALSE_ALARMS / 4.0);
    let first: f64 = found.iter().map(|ranks| ranks.first).sum();
    // A rank of n has the variance (n^2 - 1) / 12, Kendall's S n (n - 1) (2n + 5) / 18.
    let first_deviation = (trials * (n * n - 1.0) / 12.0).sqrt();
    let s: f64 = found.iter().map(|ranks| ranks.kendall).sum();
    let s_deviation = (trials * n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    if first.abs() > limit * first_deviation {
        Steadiness::Transient
    } else if s.abs() > limit * s_deviation {
        Steadiness::Drift
    } else {
        Steadiness::Steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    const LENGTH_NS: u64 = 500_000_000;

    /// Trials of 10,000 packets, of which the part of a trial up to `transient` is slower by ten
    /// times, and which grow slower by `drift` from beginning to end; stalls of 4 ms in between.
    fn trials(seed: u64, count: usize, transient: f64, drift: f64) -> Vec<Vec<Sample>> {
        let mut random = Random::new(seed);
        let one = |random: &mut Random| {
            let stall = random.unit();
            (0..10_000_u64)
                .map(|sequence| {
                    let part = sequence as f64 / 10_000.0;
                    let mut delay = 10_000.0 * (0.2 * random.normal()).exp() * (1.0 + drift * part);
                    if part < transient {
                        delay *= 10.0;
                    }
                    if (stall..stall + 0.01).contains(&part) {
                        delay += 4e6;
                    }
                    let intended_ns = sequence * LENGTH_NS / 10_000;
                    Sample {
                        sequence,
                        intended_ns,
                        sent_ns: intended_ns,
                        received_ns: intended_ns + delay as u64,
                    }
                })
                .collect()
        };
        (0..count).map(|_| one(&mut random)).collect()
    }

    fn verdict(trials: &[Vec<Sample>]) -> Steadiness {
        judge(trials.iter().map(|samples| (samples.as_slice(), LENGTH_NS)))
    }

    /// Goal: at most 2 % of 500 steady measurements are called unsteady, stalls or not.
    #[test]
    fn a_steady_state_is_seldom_called_another() {
        let alarms =
            (0..500).filter(|seed| verdict(&trials(*seed, 3, 0.0, 0.0)) != Steadiness::Steady);
        let alarms = alarms.count();
        assert!(alarms <= 10, "{alarms} of 500");
    }

    #[test]
    fn a_cold_start_and_a_drift_are_found() {
        for seed in 0..20 {
            // The first 25 ms of half a second.
            let cold = trials(seed, 5, 0.05, 0.0);
            assert_eq!(verdict(&cold), Steadiness::Transient, "{seed}");
            let warms = trials(seed, 5, 0.0, 0.3);
            assert_ne!(verdict(&warms), Steadiness::Steady, "{seed}");
        }
        assert_eq!(verdict(&trials(1, 3, 0.0, -0.3)), Steadiness::Drift);
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(verdict(&trials(1, 2, 0.0, 0.0)), Steadiness::TooFew);
        let mut few = trials(1, 3, 0.0, 0.0);
        few[1].truncate(100);
        assert_eq!(verdict(&few), Steadiness::TooFew);
        assert_eq!(judge([]), Steadiness::TooFew);
    }
}
