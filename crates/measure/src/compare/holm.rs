//! Several comparisons in one report: how sure they are together.
//!
//! Of twenty comparisons of equals one says "different" at 95 %, so a report that makes many must
//! ask more of each. Holm's procedure (1979) orders them by their p-values and multiplies the least
//! by the number of all, the next by one fewer, and so on: the chance of any false verdict in the
//! whole report stays at the level that was asked for, however the comparisons depend on each
//! other.

use crate::stats::Interval;
use crate::stats::student::{t_probability, t_quantile};

/// The p-value of "no difference" for a ratio with an interval of the normal or t kind, whose width
/// on the logarithmic axis tells the standard error. `freedom` is that of the t distribution.
pub fn p_value(ratio: &Interval, freedom: usize) -> f64 {
    let half = (ratio.high.ln() - ratio.low.ln()) / 2.0;
    let quantile = t_quantile(f64::midpoint(1.0, ratio.confidence), freedom);
    let error = half / quantile;
    let away = ratio.estimate.ln().abs();
    if !(error.is_finite() && away.is_finite()) {
        return 1.0;
    }
    if error <= 0.0 {
        return if away > 0.0 { 0.0 } else { 1.0 };
    }
    2.0 * (1.0 - t_probability(away / error, freedom))
}

/// The p-values that Holm's procedure makes of these, in the same order: a comparison is of a
/// difference at level a if its own is at most a.
pub fn corrected(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<_> = (0..p_values.len()).collect();
    order.sort_by(|a, b| p_values[*a].total_cmp(&p_values[*b]));
    let mut found = vec![1.0; p_values.len()];
    let mut least = 0.0_f64;
    for (rank, index) in order.into_iter().enumerate() {
        let times = (p_values.len() - rank) as f64;
        least = least.max((p_values[index] * times).min(1.0));
        found[index] = least;
    }
    found
}

/// Chance of any false verdict of difference in a whole report.
pub const LEVEL: f64 = 0.05;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;
    use crate::stats::{deviation, mean};

    #[test]
    fn corrections_are_those_of_the_procedure() {
        let found = corrected(&[0.01, 0.04, 0.03, 0.005]);
        for (found, expected) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - expected).abs() < 1e-12, "{found}");
        }
        assert_eq!(corrected(&[]), Vec::<f64>::new());
        assert_eq!(corrected(&[0.9, 0.9]), [1.0, 1.0]);
    }

    /// The interval of a ratio from `values`, logarithms of ratios.
    fn interval(values: &[f64]) -> Interval {
        let centre = mean(values).unwrap();
        let error = deviation(values).unwrap() / (values.len() as f64).sqrt();
        let half = error * t_quantile(0.975, values.len() - 1);
        Interval {
            estimate: centre.exp(),
            low: (centre - half).exp(),
            high: (centre + half).exp(),
            confidence: 0.95,
        }
    }

    #[test]
    fn an_interval_that_just_touches_one_has_the_level_as_p_value() {
        let touching = Interval {
            estimate: 1.1,
            low: 1.0,
            high: 1.21,
            confidence: 0.95,
        };
        assert!((p_value(&touching, 7) - 0.05).abs() < 1e-9);
        let wide = Interval {
            high: f64::INFINITY,
            ..touching
        };
        assert_eq!(p_value(&wide, 7).to_bits(), 1.0_f64.to_bits());
    }

    /// Goal: of 200 reports with 20 comparisons of equals each, at most 7 % name a difference; not
    /// corrected, more than half do. A difference of ten standard errors is still found.
    #[test]
    fn reports_of_many_comparisons_of_equals_seldom_name_a_difference() {
        let mut random = Random::new(3);
        let (mut alarms, mut alarms_raw) = (0, 0);
        for _ in 0..200 {
            let mut p_values: Vec<_> = (0..20)
                .map(|_| {
                    let values: Vec<_> = (0..6).map(|_| 0.1 * random.normal()).collect();
                    p_value(&interval(&values), 5)
                })
                .collect();
            alarms += usize::from(corrected(&p_values).iter().any(|p| *p <= LEVEL));
            alarms_raw += usize::from(p_values.iter().any(|p| *p <= LEVEL));
            let values: Vec<_> = (0..6).map(|_| 0.5 + 0.1 * random.normal()).collect();
            p_values[7] = p_value(&interval(&values), 5);
            assert!(corrected(&p_values)[7] < 0.2);
        }
        assert!(
            alarms <= 14 && alarms_raw > 100,
            "{alarms} {alarms_raw} of 200"
        );
    }
}
