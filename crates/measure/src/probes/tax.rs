//! What probes cost: a running chain with them and without, in turns.
//!
//! The chain is not started anew: its workers are told to follow packets, or not to, every few
//! milliseconds, in pairs of random order, and each slice's rate or time per packet is compared.

use serde::{Deserialize, Serialize};

use crate::compare::{CompareError, Comparison, Interleaving, Plan, Side};

/// Pairs of slices for [`Measure::BusyTimePerPacket`]: as few as a comparison can have.
pub const PAIRS: usize = 100;
/// Pairs of slices for [`Measure::Throughput`], which varies more.
pub const PAIRS_OF_THROUGHPUT: usize = 250;

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time of all workers in turns that moved packets, by packets received from the world.
    BusyTimePerPacket,
    /// Packets per second that leave the chain, at the highest load.
    Throughput,
}

impl Measure {
    /// Pairs of slices.
    pub const fn pairs(self) -> usize {
        match self {
            Self::BusyTimePerPacket => PAIRS,
            Self::Throughput => PAIRS_OF_THROUGHPUT,
        }
    }
}

/// What the probes cost.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tax {
    /// What was compared.
    pub measure: Measure,
    /// With probes over without.
    pub comparison: Comparison,
}

impl Tax {
    /// The cost as a share: above 0 if probes cost something.
    pub fn share(&self) -> f64 {
        let ratio = self.comparison.ratio.estimate;
        match self.measure {
            Measure::BusyTimePerPacket => ratio - 1.0,
            Measure::Throughput => 1.0 - ratio,
        }
    }

    /// The interval of [`Self::share`].
    pub fn bounds(&self) -> (f64, f64) {
        let ratio = &self.comparison.ratio;
        match self.measure {
            Measure::BusyTimePerPacket => (ratio.low - 1.0, ratio.high - 1.0),
            Measure::Throughput => (1.0 - ratio.high, 1.0 - ratio.low),
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        let (ratio, what) = (
            &self.comparison.ratio,
            match self.measure {
                Measure::BusyTimePerPacket => "busy time per packet",
                Measure::Throughput => "throughput",
            },
        );
        format!(
            "{what} with probes over without: {:.4} ({:.4} to {:.4}, {:.0} %), {} pairs in turns",
            ratio.estimate,
            ratio.low,
            ratio.high,
            ratio.confidence * 100.0,
            self.comparison.pairs
        )
    }
}

/// Why there is no tax.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TaxError<E> {
    /// A slice could not be measured.
    #[error("{0}")]
    Slice(E),
    /// A slice gave nothing that can be compared: no packets.
    #[error(transparent)]
    Compare(#[from] CompareError),
}

/// Measures all pairs of slices, which `slice` does with probes or without.
///
/// # Errors
///
/// What `slice` says, or that its values cannot be compared.
pub fn measure<E>(
    measure: Measure,
    seed: u64,
    mut slice: impl FnMut(bool) -> Result<f64, E>,
) -> Result<Tax, TaxError<E>> {
    let plan = Plan {
        pairs: measure.pairs(),
        false_alarms: 0.05,
        // Never the same within a margin: the ratio is the result.
        margin: 1e-6,
        seed,
    };
    let mut interleaving = Interleaving::new(plan)?;
    while let Some(side) = interleaving.next() {
        let value = slice(side == Side::B).map_err(TaxError::Slice)?;
        interleaving.report(value)?;
    }
    let comparison = interleaving.result().copied();
    let comparison = comparison.ok_or(CompareError::NoSliceDue)?;
    Ok(Tax {
        measure,
        comparison,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::random::Random;

    /// Goal: the ratio is not the one that a lucky look would have ended with. Method: slices with
    /// a tenth of noise and a cost of 2 %, of which each look alone could be deceived; over 200
    /// runs, the mean is the cost, and its interval holds it in 95 % of them.
    #[test]
    fn a_cost_beneath_the_noise_is_estimated_without_bias() {
        let run = |seed: u64| {
            let mut random = Random::new(seed);
            let found = measure(Measure::Throughput, seed, |with_probes| {
                let rate = if with_probes { 0.98 } else { 1.0 };
                Ok::<_, std::convert::Infallible>(1e6 * rate * (0.1 * random.normal()).exp())
            });
            found.unwrap()
        };
        let all: Vec<_> = (0..200).map(run).collect();
        assert!(
            all.iter()
                .all(|tax| tax.comparison.pairs == PAIRS_OF_THROUGHPUT)
        );
        let mean = all.iter().map(Tax::share).sum::<f64>() / 200.0;
        assert!((mean - 0.02).abs() < 0.003, "{mean}");
        let holds = |tax: &&Tax| tax.bounds().0 <= 0.02 && 0.02 <= tax.bounds().1;
        let held = all.iter().filter(holds).count();
        assert!(held >= 180, "{held} of 200");
    }
}
