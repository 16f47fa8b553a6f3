//! What a comparison is going to see: said before it is run, from a few pairs that do not count.
//!
//! Only the spread of pairs matters, so it is taken robustly: stalls that move a few pairs far do
//! not move medians of batches either. Pairs are thought independent of each other, which taking
//! turns in random order makes them nearly.

use serde::{Deserialize, Serialize};

use super::{BATCHES, CompareError, PAIRS_MIN, Plan};
use crate::stats::quantile::median;
use crate::stats::student::t_quantile;

/// Chance to see a difference of the size that is called detectable.
pub const POWER: f64 = 0.8;
/// Ratio of the median absolute deviation to the standard deviation of a normal distribution.
const MAD_OF_NORMAL: f64 = 0.674_49;
/// Standard error of a median over that of a mean, of many normal values: the root of pi/2.
const MEDIAN_OVER_MEAN: f64 = 1.253_31;

/// What so many pairs would show.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Standard deviation of the logarithm of one pair's ratio, by the pilot.
    pub deviation: f64,
    /// Pairs of the pilot.
    pub pilot_pairs: usize,
    /// Chance of a verdict of difference between equals.
    pub false_alarms: f64,
}

impl Power {
    /// By the ratios B over A of a pilot's pairs.
    ///
    /// # Errors
    /// Fewer than three pairs, or a ratio that has no logarithm.
    pub fn of(ratios: &[f64], false_alarms: f64) -> Result<Self, CompareError> {
        if let Some(bad) = ratios
            .iter()
            .find(|ratio| !(**ratio > 0.0 && ratio.is_finite()))
        {
            return Err(CompareError::Value(*bad));
        }
        if ratios.len() < 3 {
            return Err(CompareError::TooFewPairs(ratios.len()));
        }
        let logs: Vec<_> = ratios.iter().map(|ratio| ratio.ln()).collect();
        let centre = median(&logs).unwrap_or(0.0);
        let away: Vec<_> = logs.iter().map(|log| (log - centre).abs()).collect();
        Ok(Self {
            deviation: median(&away).unwrap_or(0.0) / MAD_OF_NORMAL,
            pilot_pairs: ratios.len(),
            false_alarms,
        })
    }

    /// Standard errors between no difference and one that is seen with a chance of [`POWER`].
    fn reach(&self) -> f64 {
        let freedom = BATCHES - 1;
        t_quantile(1.0 - self.false_alarms / 2.0, freedom) + t_quantile(POWER, freedom)
    }

    /// The least relative difference that `pairs` show with a chance of [`POWER`].
    pub fn detectable(&self, pairs: usize) -> f64 {
        let error = MEDIAN_OVER_MEAN * self.deviation / (pairs.max(1) as f64).sqrt();
        (self.reach() * error).exp_m1()
    }

    /// Pairs that show a relative difference of `share` with a chance of [`POWER`]; at least as
    /// many as any comparison takes.
    pub fn pairs_for(&self, share: f64) -> usize {
        let errors = self.reach() * MEDIAN_OVER_MEAN * self.deviation / share.ln_1p();
        // Saturates, which is what nobody can measure.
        (errors.powi(2).ceil() as usize).max(PAIRS_MIN)
    }

    /// A plan that shows `share` if that takes at most `pairs_max` pairs, and else takes those.
    pub fn plan(&self, share: f64, pairs_max: usize, margin: f64, seed: u64) -> Plan {
        Plan {
            pairs: self.pairs_for(share).min(pairs_max.max(PAIRS_MIN)),
            false_alarms: self.false_alarms,
            margin,
            seed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Interleaving, Side, Verdict};
    use super::*;
    use crate::stats::random::Random;

    /// The verdict on a difference among pairs of this spread.
    fn verdict(seed: u64, effect: f64, deviation: f64, plan: Plan) -> Verdict {
        let mut random = Random::new(seed);
        let mut comparison = Interleaving::new(Plan { seed, ..plan }).unwrap();
        while let Some(side) = comparison.next() {
            let factor = if side == Side::B { 1.0 + effect } else { 1.0 };
            let noise = (deviation / 2.0_f64.sqrt() * random.normal()).exp();
            comparison.report(factor * noise).unwrap();
        }
        comparison.result().unwrap().verdict
    }

    #[test]
    fn what_is_promised_is_found_as_often_as_promised() {
        let mut random = Random::new(11);
        let pilot: Vec<_> = (0..2000).map(|_| (0.1 * random.normal()).exp()).collect();
        let power = Power::of(&pilot, 0.05).unwrap();
        assert!((power.deviation - 0.1).abs() < 0.01, "{power:?}");
        let plan = power.plan(0.02, 100_000, 1e-9, 0);
        assert!((0.019..=0.02).contains(&power.detectable(plan.pairs)));
        for effect in [0.02, -0.02 / 1.02] {
            let wanted = if effect > 0.0 {
                Verdict::Higher
            } else {
                Verdict::Lower
            };
            let found = (0..200).filter(|seed| verdict(*seed, effect, 0.1, plan) == wanted);
            let found = found.count();
            assert!((140..=185).contains(&found), "{found} of 200 at {effect}");
        }
    }

    #[test]
    fn a_budget_limits_the_pairs_and_the_promise() {
        let power = Power {
            deviation: 1.0,
            pilot_pairs: 20,
            false_alarms: 0.05,
        };
        let plan = power.plan(0.02, 6000, 0.01, 0);
        assert_eq!(plan.pairs, 6000);
        assert!(power.detectable(6000) > 0.02);
        assert!(power.pairs_for(0.02) > 6000);
        let still = Power {
            deviation: 0.0,
            ..power
        };
        assert_eq!((still.pairs_for(0.02), still.detectable(100)), (100, 0.0));
    }

    #[test]
    fn pilots_that_say_nothing_are_refused() {
        assert!(Power::of(&[1.0, 1.1], 0.05).is_err());
        assert!(Power::of(&[1.0, 1.1, f64::INFINITY], 0.05).is_err());
    }
}
