//! What probes cost: a running chain with them and without, in turns.
//!
//! The chain is not started anew: its workers are told to follow packets, or not to, every few
//! milliseconds, in pairs of random order, and each slice's rate or time per packet is compared.

use serde::{Deserialize, Serialize};

use crate::compare::{CompareError, Comparison, Interleaving, Plan, Side};

/// Pairs of slices: as few as a comparison can have.
pub const PAIRS: usize = 100;

/// What was compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time of all workers in turns that moved packets, by packets received from the world.
    BusyTimePerPacket,
    /// Packets per second that leave the chain, at the highest load.
    Throughput,
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

/// Measures slices, which `slice` does with probes or without, until there is a verdict.
///
/// # Errors
///
/// What `slice` says, or that its values cannot be compared.
pub fn measure<E>(
    measure: Measure,
    seed: u64,
    mut slice: impl FnMut(bool) -> Result<f64, E>,
) -> Result<Tax, TaxError<E>> {
    let mut interleaving = Interleaving::new(Plan {
        pairs_max: PAIRS,
        false_alarms: 0.05,
        // Never the same within a margin: all pairs are measured, and the ratio is the result.
        margin: 1e-6,
        seed,
    })?;
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
