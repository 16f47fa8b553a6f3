//! A against B by interleaving: effect size, interval and verdict.
//!
//! Two systems measured one after the other differ by whatever the machine did meanwhile. Here they
//! take turns in short slices, in pairs of random order; what changes slowly hits both sides of a
//! pair and falls out of their ratio. The logarithms of the ratios go, in order of time, into
//! [`BATCHES`] batches; the medians of batches are nearly independent even if neighbouring pairs
//! are not, and one stall does not move them. Their t interval is the result.
//!
//! The data are looked at once, after all pairs, whose number is fixed beforehand ([`power`]).
//! Looking again and again until something is significant finds differences where there are none;
//! where each look may spend only a part of the error that is no more so, but a ratio that ends its
//! own comparison as soon as it is far enough from 1 is too far from 1 on average.

use serde::{Deserialize, Serialize};

pub mod holm;
pub mod power;

use crate::stats::Interval;
use crate::stats::quantile::median;
use crate::stats::random::Random;
use crate::stats::student::t_quantile;
use crate::stats::{deviation, halves, mean};

/// Batches that pairs are put into.
pub const BATCHES: usize = 20;
/// Least pairs: a batch of fewer than five has hardly a median.
pub const PAIRS_MIN: usize = 5 * BATCHES;

/// Which system a slice measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Side {
    /// The one that is compared with.
    A,
    /// The one that may differ.
    B,
}

/// What a comparison is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Pairs of slices; at least [`PAIRS_MIN`].
    pub pairs: usize,
    /// Chance of a verdict of difference between equals; 0.05 unless there is a reason.
    pub false_alarms: f64,
    /// Differences below this share do not matter: if the interval lies within, the verdict is
    /// [`Verdict::Same`].
    pub margin: f64,
    /// The same seed gives the same order of slices.
    pub seed: u64,
}

/// Why a plan or a value was refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum CompareError {
    /// Batches of less than one pair.
    #[error("{0} pairs are too few to compare: plan at least {PAIRS_MIN}")]
    TooFewPairs(usize),
    /// A share out of range.
    #[error("{name} is {value}; it must be above 0 and below 1")]
    Share {
        /// Which.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A measured value without a logarithm.
    #[error("a slice measured {0}; ratios need finite values above zero, such as a rate or a time")]
    Value(f64),
    /// All slices are done.
    #[error("a value was reported, but no slice is due")]
    NoSliceDue,
}

/// What a comparison says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// B is above A.
    Higher,
    /// B is below A.
    Lower,
    /// B is within the margin of A.
    Same,
    /// Neither a difference nor its absence could be shown with these pairs.
    Inconclusive,
}

/// A comparison's result.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// B over A, with its interval.
    pub ratio: Interval,
    /// What it means.
    pub verdict: Verdict,
    /// Pairs that were measured.
    pub pairs: usize,
    /// The least relative difference that these data would have shown, as a share.
    pub detectable: f64,
}

/// A running comparison.
#[derive(Clone, Debug)]
pub struct Interleaving {
    plan: Plan,
    random: Random,
    first: Side,
    pending: Option<f64>,
    log_ratios: Vec<f64>,
    result: Option<Comparison>,
}

fn draw(random: &mut Random) -> Side {
    let is_a_first = random.bits() & 1 == 0;
    if is_a_first { Side::A } else { Side::B }
}

/// Which side comes first in each pair of a comparison with this seed.
pub fn firsts(seed: u64, pairs: usize) -> Vec<Side> {
    let mut random = Random::new(seed);
    (0..pairs).map(|_| draw(&mut random)).collect()
}

impl Interleaving {
    /// A comparison of which nothing was measured.
    ///
    /// # Errors
    ///
    /// Plans that cannot give a verdict.
    pub fn new(plan: Plan) -> Result<Self, CompareError> {
        if plan.pairs < PAIRS_MIN {
            return Err(CompareError::TooFewPairs(plan.pairs));
        }
        for (name, value) in [("false_alarms", plan.false_alarms), ("margin", plan.margin)] {
            if !(value > 0.0 && value < 1.0) {
                return Err(CompareError::Share { name, value });
            }
        }
        let mut comparison = Self {
            random: Random::new(plan.seed),
            plan,
            first: Side::A,
            pending: None,
            log_ratios: Vec::new(),
            result: None,
        };
        comparison.draw_order();
        Ok(comparison)
    }

    fn draw_order(&mut self) {
        self.first = draw(&mut self.random);
    }

    /// What to measure now; `None` when the verdict is there.
    pub fn next(&self) -> Option<Side> {
        if self.result.is_some() {
            return None;
        }
        Some(match (self.first, self.pending) {
            (side, None) => side,
            (Side::A, Some(_)) => Side::B,
            (Side::B, Some(_)) => Side::A,
        })
    }

    /// Takes the value of the slice that [`Self::next`] asked for: a rate, or a time per packet.
    ///
    /// # Errors
    ///
    /// A value that has no ratio; the slice stays due.
    pub fn report(&mut self, value: f64) -> Result<(), CompareError> {
        if self.result.is_some() {
            return Err(CompareError::NoSliceDue);
        }
        if !(value.is_finite() && value > 0.0) {
            return Err(CompareError::Value(value));
        }
        let Some(first) = self.pending.take() else {
            self.pending = Some(value);
            return Ok(());
        };
        let (a, b) = match self.first {
            Side::A => (first, value),
            Side::B => (value, first),
        };
        self.log_ratios.push((b / a).ln());
        self.draw_order();
        if self.log_ratios.len() == self.plan.pairs {
            self.result = Some(self.look());
        }
        Ok(())
    }

    /// The verdict, if there is one yet.
    pub fn result(&self) -> Option<&Comparison> {
        self.result.as_ref()
    }

    /// The median of each batch, in order of time.
    fn medians(&self) -> Vec<f64> {
        let count = self.log_ratios.len();
        let batch = |batch: usize| {
            let (from, to) = (batch * count / BATCHES, (batch + 1) * count / BATCHES);
            median(&self.log_ratios[from..to])
        };
        (0..BATCHES).filter_map(batch).collect()
    }

    /// The ratio in the second half of the pairs over that in the first: 1 in a steady state.
    pub fn change(&self) -> Option<Interval> {
        let change = halves::change(&self.medians())?;
        Some(Interval {
            estimate: change.estimate.exp(),
            low: change.low.exp(),
            high: change.high.exp(),
            ..change
        })
    }

    fn look(&self) -> Comparison {
        let error = self.plan.false_alarms;
        let medians = self.medians();
        let centre = mean(&medians).unwrap_or(0.0);
        let spread = deviation(&medians).unwrap_or(0.0) / (medians.len() as f64).sqrt();
        let half = spread * t_quantile(1.0 - error / 2.0, medians.len() - 1);
        let ratio = Interval {
            estimate: centre.exp(),
            low: (centre - half).exp(),
            high: (centre + half).exp(),
            confidence: 1.0 - error,
        };
        let is_within = ratio.low > 1.0 - self.plan.margin && ratio.high < 1.0 + self.plan.margin;
        // Within the margin first: a difference that does not matter is none.
        let verdict = if is_within {
            Verdict::Same
        } else if ratio.low > 1.0 {
            Verdict::Higher
        } else if ratio.high < 1.0 {
            Verdict::Lower
        } else {
            Verdict::Inconclusive
        };
        Comparison {
            ratio,
            verdict,
            pairs: self.log_ratios.len(),
            detectable: half.exp_m1(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine whose speed wanders (first-order autoregressive), with noise of each slice and
    /// stalls that take half of one in a hundred slices.
    fn compare(seed: u64, effect: f64, pairs: usize, margin: f64) -> Comparison {
        let mut random = Random::new(seed);
        let plan = Plan {
            pairs,
            false_alarms: 0.05,
            margin,
            seed: seed ^ 0x5eed,
        };
        let mut comparison = Interleaving::new(plan).unwrap();
        let mut drift = 0.0;
        while let Some(side) = comparison.next() {
            drift = 0.98 * drift + 0.01 * random.normal();
            let stall = if random.unit() < 0.01 { 0.5 } else { 1.0 };
            let noise = (drift + 0.02 * random.normal()).exp();
            let factor = if side == Side::B { 1.0 + effect } else { 1.0 };
            comparison.report(1e6 * factor * noise * stall).unwrap();
        }
        *comparison.result().unwrap()
    }

    /// Goal: at most 7 % of 200 comparisons of equals report a difference. The margin is set so low
    /// that no comparison may hide in it.
    #[test]
    fn equals_are_seldom_called_different() {
        let is_alarm = |seed: &u64| {
            let verdict = compare(*seed, 0.0, 500, 1e-9).verdict;
            matches!(verdict, Verdict::Higher | Verdict::Lower)
        };
        let alarms = (0..200).filter(is_alarm).count();
        assert!(alarms <= 14, "{alarms} of 200");
    }

    #[test]
    fn two_percent_are_found_and_sized() {
        for seed in 0..50 {
            let found = compare(seed, -0.02, 1000, 0.001);
            assert_eq!(found.verdict, Verdict::Lower, "{found:?}");
            assert!((found.ratio.estimate - 0.98).abs() < 0.01, "{found:?}");
        }
    }

    #[test]
    fn all_pairs_are_measured_and_no_difference_is_called_same() {
        let large = compare(1, 0.3, 5000, 0.01);
        assert_eq!((large.verdict, large.pairs), (Verdict::Higher, 5000));
        let same = compare(2, 0.0, 5000, 0.01);
        assert_eq!(same.verdict, Verdict::Same);
        assert!(same.detectable < 0.01);
    }

    /// Goal: the ratio is not the one that a lucky look would have ended with. Method: a difference
    /// that is about as large as its interval is wide, so that early ends would often come from
    /// exaggerations; over 400 comparisons the mean is the truth, to three standard errors.
    #[test]
    fn a_difference_beneath_the_noise_is_estimated_without_bias() {
        let found: Vec<_> = (0..400)
            .map(|seed| compare(seed, 0.006, 200, 1e-9))
            .collect();
        let logs: Vec<_> = found.iter().map(|one| one.ratio.estimate.ln()).collect();
        let error = deviation(&logs).unwrap() / 20.0;
        let away = mean(&logs).unwrap() - 1.006_f64.ln();
        assert!(away.abs() < 3.0 * error && error < 5e-4, "{away} {error}");
        let named = found
            .iter()
            .filter(|one| one.verdict == Verdict::Higher)
            .count();
        assert!(
            (100..380).contains(&named),
            "{named}: the noise hides nothing"
        );
    }

    /// Goal: a ratio that moves while it is measured is told, and one that stays is not.
    #[test]
    fn a_ratio_that_moves_is_no_steady_state() {
        let change = |seed: u64, drift: f64| {
            let plan = Plan {
                pairs: 400,
                false_alarms: 0.05,
                margin: 0.01,
                seed,
            };
            let mut random = Random::new(seed);
            let mut comparison = Interleaving::new(plan).unwrap();
            let mut count = 0.0;
            while let Some(side) = comparison.next() {
                count += 1.0;
                let moved = if side == Side::B {
                    drift * count / 800.0
                } else {
                    0.0
                };
                let value = (moved + 0.02 * random.normal()).exp();
                comparison.report(value).unwrap();
            }
            comparison.change().unwrap()
        };
        let holds = |found: &Interval| (found.low..=found.high).contains(&1.0);
        let steady = (0..300).filter(|seed| holds(&change(*seed, 0.0))).count();
        assert!(steady >= 291, "{steady} of 300");
        let moved = change(1, 0.05);
        assert!(
            !holds(&moved) && (moved.estimate - 1.025).abs() < 0.005,
            "{moved:?}"
        );
    }

    #[test]
    fn a_seed_repeats_the_order_and_both_orders_occur() {
        let order = |seed| {
            let plan = Plan {
                pairs: 100,
                false_alarms: 0.05,
                margin: 0.01,
                seed,
            };
            let mut comparison = Interleaving::new(plan).unwrap();
            let sides = std::iter::from_fn(|| {
                let side = comparison.next()?;
                comparison.report(1.0).unwrap();
                Some(side)
            });
            sides.take(40).collect::<Vec<_>>()
        };
        let first = order(1);
        assert_eq!(first, order(1));
        assert_ne!(first, order(2));
        let starts: Vec<_> = first.chunks(2).map(|pair| pair[0]).collect();
        assert!(starts.contains(&Side::A) && starts.contains(&Side::B));
        assert!(first.chunks(2).all(|pair| pair[0] != pair[1]));
        assert_eq!(starts, firsts(1, 20));
    }

    #[test]
    fn impossible_plans_and_values_are_refused() {
        let plan = Plan {
            pairs: 100,
            false_alarms: 0.05,
            margin: 0.01,
            seed: 0,
        };
        let few = Plan { pairs: 99, ..plan };
        assert_eq!(
            Interleaving::new(few).unwrap_err(),
            CompareError::TooFewPairs(99)
        );
        let sure = Plan {
            false_alarms: 0.0,
            ..plan
        };
        assert!(Interleaving::new(sure).is_err());
        let mut comparison = Interleaving::new(plan).unwrap();
        let before = comparison.next();
        assert!(comparison.report(0.0).is_err());
        assert!(comparison.report(f64::NAN).is_err());
        assert_eq!(comparison.next(), before);
    }
}
