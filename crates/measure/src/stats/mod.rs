//! Statistics of samples that are neither independent nor normal.
//!
//! - [`halves`]: whether the second half of values is another than the first.
//! - [`histogram`]: counts of values over many orders of magnitude.
//! - [`quantile`]: percentiles, printed only where samples suffice.
//! - [`bootstrap`]: intervals by resampling blocks, since neighbours resemble each other.
//! - [`random`]: numbers that a seed repeats.
//! - [`student`]: how wide an interval of few values is.

use serde::{Deserialize, Serialize};

pub mod bootstrap;
pub mod halves;
pub mod histogram;
pub mod quantile;
pub mod random;
pub mod student;

/// An estimate with the interval that holds the true value with the given confidence.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The estimate from all samples.
    pub estimate: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// How often such intervals hold the true value, such as 0.95.
    pub confidence: f64,
}

/// Mean of values; `None` without any.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Standard deviation of a sample; `None` below two values.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values).filter(|_| values.len() > 1)?;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    Some((squares / (values.len() - 1) as f64).sqrt())
}
