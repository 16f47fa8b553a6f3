//! Whether values that were measured one after the other stayed the same: their second half against
//! their first.

use super::student::t_quantile;
use super::{Interval, deviation, mean};

/// Confidence of the interval: one steady measurement in a hundred looks unsteady.
pub const CONFIDENCE: f64 = 0.99;
/// Least values in each half.
const LEAST: usize = 3;

/// The mean of the second half less that of the first, with its t interval, for values of one
/// spread in both; `None` where they are too few. Of an odd number, the one in the middle counts
/// for the second.
pub fn change(values: &[f64]) -> Option<Interval> {
    let (first, second) = values.split_at(values.len() / 2);
    if first.len() < LEAST {
        return None;
    }
    let estimate = mean(second)? - mean(first)?;
    let freedom = values.len() - 2;
    let squares = |half: &[f64]| Some(deviation(half)?.powi(2) * (half.len() - 1) as f64);
    let variance = (squares(first)? + squares(second)?) / freedom as f64;
    let error = (variance * (1.0 / first.len() as f64 + 1.0 / second.len() as f64)).sqrt();
    let half = t_quantile(f64::midpoint(1.0, CONFIDENCE), freedom) * error;
    Some(Interval {
        estimate,
        low: estimate - half,
        high: estimate + half,
        confidence: CONFIDENCE,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    /// Two samples of three whose t statistic is known: 3 over the root of 2/3, with 4 degrees of
    /// freedom, of which the 99 % quantile is 4.604.
    #[test]
    fn a_change_has_the_interval_of_two_samples() {
        let found = change(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).unwrap();
        let half = 4.604 * (2.0_f64 / 3.0).sqrt();
        assert!((found.estimate - 3.0).abs() < 1e-12, "{found:?}");
        assert!((found.low - (3.0 - half)).abs() < 1e-3, "{found:?}");
        assert!((found.high - (3.0 + half)).abs() < 1e-3, "{found:?}");
        assert_eq!(change(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert!(change(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).is_some());
    }

    #[test]
    fn what_stays_the_same_seldom_looks_changed() {
        let mut random = Random::new(5);
        let alarms = (0..1000).filter(|_| {
            let values: Vec<_> = (0..10).map(|_| random.normal()).collect();
            let found = change(&values).unwrap();
            !(found.low..=found.high).contains(&0.0)
        });
        let alarms = alarms.count();
        assert!((2..=20).contains(&alarms), "{alarms} of 1000");
    }
}
