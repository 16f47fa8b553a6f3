//! Whether a search's trials stayed the same: of those of one load and length, what the later ones
//! lost against the earlier ones.
//!
//! A search changes its load from trial to trial, so that losses of its halves say nothing. Trials
//! of one load and length are repetitions: where nothing drifts, each order of their losses is as
//! likely as any other. So the halves are shuffled within each such set, and the chance is counted
//! that the second halves then differ from the first as much as they did. Losses are compared by
//! their ranks within the set (van Elteren's test), as one lossy trial among many without loss is
//! no drift. The last trial of a set is left out: by it the load was decided, so it is not as
//! likely as any other to have lost. Pure.

use std::collections::BTreeMap;

use super::{Trial, TrialResult};
use crate::stats::random::Random;
use crate::stats::{halves, mean};

/// Least trials of a set, without its last.
const LEAST: usize = 6;
/// How often halves are shuffled: fine enough to tell 1 % from 2 %.
const SHUFFLES: usize = 1999;
/// Shuffles repeat from report to report.
const SEED: u64 = 2;
/// Sums that differ by less are equal.
const ROUNDING: f64 = 1e-9;

/// What the later trials lost against the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Change {
    /// Sets of trials of one load and length that were looked at.
    pub sets: usize,
    /// Trials in them.
    pub trials: usize,
    /// Mean loss ratio of the first halves.
    pub first: f64,
    /// Mean loss ratio of the second halves.
    pub second: f64,
    /// Chance of a difference as large where nothing changes.
    pub p: f64,
}

impl Change {
    /// Whether the second halves are others than the first, with [`halves::CONFIDENCE`].
    pub fn is_shown(&self) -> bool {
        self.p <= 1.0 - halves::CONFIDENCE + ROUNDING
    }
}

/// A set's losses in order, and what each adds to the sum of a half.
struct Set {
    losses: Vec<f64>,
    scores: Vec<f64>,
}

impl Set {
    fn of(mut losses: Vec<f64>) -> Option<Self> {
        losses.pop();
        if losses.len() < LEAST {
            return None;
        }
        let scale = (losses.len() + 1) as f64;
        let rank = |loss: &f64| {
            let below = losses.iter().filter(|other| *other < loss).count();
            let same = losses.iter().filter(|other| *other == loss).count();
            // From 0 on the average.
            (below as f64 + (same + 1) as f64 / 2.0 - scale / 2.0) / scale
        };
        let scores = losses.iter().map(rank).collect();
        Some(Self { losses, scores })
    }

    const fn middle(&self) -> usize {
        self.losses.len() / 2
    }

    fn second_half(&self) -> f64 {
        self.scores[self.middle()..].iter().sum()
    }

    /// In how many ways a set can fall into halves.
    fn ways(&self) -> f64 {
        let (all, half) = (self.losses.len() as f64, self.middle());
        (0..half).fold(1.0, |ways, n| ways * (all - n as f64) / (n + 1) as f64)
    }
}

/// What the later trials of each load and length lost against the earlier ones, of trials in order
/// of time; `None` where they are too few to show anything.
pub fn change(trials: &[(Trial, TrialResult)]) -> Option<Change> {
    let mut by_kind: BTreeMap<_, Vec<f64>> = BTreeMap::new();
    for (trial, result) in trials {
        let kind = (trial.load_pps.to_bits(), trial.duration);
        let loss = result.loss_ratio().ok()?;
        by_kind.entry(kind).or_default().push(loss);
    }
    let mut sets: Vec<_> = by_kind.into_values().filter_map(Set::of).collect();
    let ways: f64 = sets.iter().map(Set::ways).product();
    // Both ways to differ the most have to be rare enough.
    if 2.0 / ways > 1.0 - halves::CONFIDENCE {
        return None;
    }
    let of_half = |half: fn(&Set) -> &[f64]| {
        let losses: Vec<_> = sets.iter().flat_map(half).copied().collect();
        mean(&losses)
    };
    let (first, second) = (
        of_half(|set| &set.losses[..set.middle()])?,
        of_half(|set| &set.losses[set.middle()..])?,
    );
    let (count, trials) = (sets.len(), sets.iter().map(|set| set.losses.len()).sum());
    let found = sets.iter().map(Set::second_half).sum::<f64>().abs();
    let mut random = Random::new(SEED);
    let as_large = (0..SHUFFLES).filter(|_| {
        let shuffled = sets.iter_mut().map(|set| {
            random.shuffle(&mut set.scores);
            set.second_half()
        });
        shuffled.sum::<f64>().abs() >= found - ROUNDING
    });
    let p = (as_large.count() + 1) as f64 / (SHUFFLES + 1) as f64;
    Some(Change {
        sets: count,
        trials,
        first,
        second,
        p,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::search::mlr::{Input, MlrSearch};
    use crate::search::preset::Preset;
    use crate::search::run;
    use crate::search::simulated_device::{Curve, SimulatedDevice};

    fn trials(load_pps: f64, losses: &[u64]) -> Vec<(Trial, TrialResult)> {
        let all = losses.iter().map(|lost| {
            let trial = Trial::new(load_pps, Duration::from_millis(200));
            let result = TrialResult {
                intended_packets: 1000,
                forwarded_packets: 1000 - lost,
                effective_duration: trial.duration,
            };
            (trial, result)
        });
        all.collect()
    }

    /// Of 10 in two halves, 2 of the 252 ways are as far apart as these; the last does not count.
    #[test]
    fn losses_that_grow_along_a_load_are_a_change_and_a_single_one_is_none() {
        let grows = trials(1e6, &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0]);
        let found = change(&grows).unwrap();
        assert_eq!((found.sets, found.trials), (1, 10));
        assert!((found.p - 2.0 / 252.0).abs() < 0.005, "{found:?}");
        assert!((found.first - 0.003).abs() < 1e-12 && (found.second - 0.008).abs() < 1e-12);
        let single = change(&trials(1e6, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 500, 0])).unwrap();
        assert!(!single.is_shown() && single.p > 0.9, "{single:?}");
        let none = change(&trials(1e6, &[0; 11])).unwrap();
        assert_eq!((none.p, none.first, none.second), (1.0, 0.0, 0.0));
    }

    #[test]
    fn loads_that_differ_are_no_change_and_few_trials_say_nothing() {
        assert_eq!(change(&[]), None);
        // 6 that count have 20 ways: the rarest is not rare enough.
        assert_eq!(change(&trials(1e6, &[0, 0, 0, 9, 9, 9, 0])), None);
        let mut loads = trials(1e6, &[0; 11]);
        loads.extend(trials(2e6, &[500; 11]));
        let found = change(&loads).unwrap();
        assert_eq!((found.sets, found.p), (2, 1.0));
    }

    /// A search of a device whose capacity changes by a share with each trial.
    fn searched(seed: u64, noise: f64, drift: f64) -> Option<Change> {
        let mut device = SimulatedDevice::new(3_210_000.0, Curve::Noisy(noise), seed);
        let input = Input {
            goals: Preset::Vm.goals(),
            min_load_pps: 10_000.0,
            max_load_pps: 10_000_000.0,
            warmup: None,
            duration_limit: None,
        };
        let mut all = Vec::new();
        let outcome = run(MlrSearch::new(input).unwrap(), |trial| {
            let result = device.measure(trial);
            device.capacity_pps *= 1.0 + drift;
            all.push((*trial, result));
            result
        });
        outcome.unwrap();
        change(&all)
    }

    /// One in a hundred would be told by chance.
    #[test]
    fn searches_of_devices_that_stay_the_same_seldom_look_changed() {
        for noise in [0.002, 0.02] {
            let alarms = (0..200).filter(|seed| {
                let found = searched(*seed, noise, 0.0);
                found.is_some_and(|found| found.is_shown())
            });
            let alarms = alarms.count();
            assert!(alarms <= 6, "{alarms} of 200 at noise {noise}");
        }
    }

    #[test]
    fn searches_of_devices_that_become_slower_or_faster_look_changed() {
        for drift in [-0.001, 0.001] {
            let found = (0..50).filter(|seed| {
                let found = searched(*seed, 0.002, drift);
                found.is_some_and(|found| {
                    found.is_shown() && (found.second > found.first) == (drift < 0.0)
                })
            });
            let found = found.count();
            assert!(found >= 45, "{found} of 50 at {drift}");
        }
    }
}
