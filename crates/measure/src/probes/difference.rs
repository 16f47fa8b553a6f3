//! Which component a change has made slower: stretches of time without it and with it, in turns,
//! component by component.
//!
//! Means of whole runs would not do: on a machine with anything else to do, waiting alone differs
//! between two runs by more than most changes. So each stretch gives the median of each component,
//! which a stall does not move, and neighbouring stretches are compared.

use crate::stats::quantile::median;
use crate::stats::student::t_quantile;
use crate::stats::{deviation, mean};

/// Confidence of the interval of each component's growth: high, since there are many components.
pub const CONFIDENCE: f64 = 0.999;

/// By how much a component has grown.
#[derive(Clone, Debug, PartialEq)]
pub struct Growth {
    /// Index of the component.
    pub component: usize,
    /// Mean over pairs of stretches, ns.
    pub ns: f64,
    /// Its interval.
    pub low: f64,
    /// Its interval.
    pub high: f64,
}

/// The medians of components over the packets of a stretch; `None` without any.
pub fn medians(parts: &[Vec<f64>]) -> Option<Vec<f64>> {
    let count = parts.first()?.len();
    let median_of = |component: usize| {
        let times: Vec<_> = parts.iter().map(|packet| packet[component]).collect();
        median(&times)
    };
    (0..count).map(median_of).collect()
}

/// The component that has grown for certain, and of those the one that has grown by the most at
/// the least: of pairs of medians without the change and with it. `None` if none has.
pub fn culprit(pairs: &[(Vec<f64>, Vec<f64>)]) -> Option<Growth> {
    let count = pairs.first()?.0.len();
    let growth = |component: usize| {
        let differences: Vec<_> = pairs
            .iter()
            .map(|(without, with)| with[component] - without[component])
            .collect();
        let ns = mean(&differences)?;
        let spread = deviation(&differences)? / (differences.len() as f64).sqrt();
        let half = spread * t_quantile(f64::midpoint(1.0, CONFIDENCE), differences.len() - 1);
        Some(Growth {
            component,
            ns,
            low: ns - half,
            high: ns + half,
        })
    };
    let grown = (0..count).filter_map(growth);
    let certain = grown.filter(|growth| growth.low > 0.0);
    certain.max_by(|a, b| a.low.total_cmp(&b.low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    #[test]
    fn a_small_growth_is_told_from_a_large_noise() {
        let mut random = Random::new(3);
        let mut stretch = |delay: f64| {
            let packet = |_| {
                let wait = 5000.0 * -(1.0 - random.unit()).ln();
                vec![wait, 300.0 + 20.0 * random.unit() + delay]
            };
            medians(&(0..100).map(packet).collect::<Vec<_>>()).unwrap()
        };
        let pairs: Vec<_> = (0..8).map(|_| (stretch(0.0), stretch(500.0))).collect();
        let found = culprit(&pairs).unwrap();
        assert_eq!(found.component, 1);
        assert!(found.low < 500.0 && found.high > 500.0 && found.high - found.low < 50.0);
        let same: Vec<_> = (0..8).map(|_| (stretch(0.0), stretch(0.0))).collect();
        assert_eq!(culprit(&same), None);
    }
}
