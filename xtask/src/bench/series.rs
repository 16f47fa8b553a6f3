//! The values of one measurement over the rounds of a benchmark.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt::Display;

/// Values by round, and the first error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    values: Vec<f64>,
    error: Option<String>,
}

impl Series {
    /// Adds one round's outcome.
    pub(crate) fn push<E: Display>(&mut self, outcome: Result<f64, E>) {
        match outcome {
            Ok(value) => self.values.push(value),
            Err(error) => {
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Adds the values of `other`.
    pub(crate) fn extend(&mut self, other: Self) {
        self.values.extend(other.values);
        self.error = self.error.take().or(other.error);
    }

    /// Median over the rounds that gave a value.
    pub(crate) fn median(&self) -> Option<f64> {
        median(&self.values)
    }

    /// The same values in a unit that is `factor` times smaller.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        Self {
            values: self.values.iter().map(|value| value * factor).collect(),
            error: self.error.clone(),
        }
    }

    /// `factor` over each value: a rate from times, or times from a rate.
    pub(crate) fn inverse(&self, factor: f64) -> Self {
        Self {
            values: self.values.iter().map(|value| factor / value).collect(),
            error: self.error.clone(),
        }
    }

    /// The values over those of another series, round by round, where every round gave both.
    pub(crate) fn over(&self, other: &Self) -> Self {
        let whole = self.values.len() == other.values.len();
        let pairs = self.values.iter().zip(&other.values).filter(|_| whole);
        Self {
            values: pairs.map(|(value, other)| value / other).collect(),
            error: None,
        }
    }

    /// Lowest and highest over the rounds that gave a value.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let low = self.values.iter().copied().reduce(f64::min)?;
        let high = self.values.iter().copied().reduce(f64::max)?;
        Some((low, high))
    }

    /// The first round's failure, also when other rounds gave values.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// `name: N rounds, from MIN to MAX unit`, or `None` with fewer than two values.
    pub(crate) fn note(&self, name: &str, unit: &str) -> Option<String> {
        if self.values.len() < 2 {
            return None;
        }
        let (min, max) = self.range()?;
        let rounds = self.values.len();
        Some(format!(
            "{name}: {rounds} rounds, from {} to {} {unit}",
            digits(min),
            digits(max)
        ))
    }
}

/// Median; the mean of the middle two where the count is even.
pub(crate) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = sorted[(sorted.len() - 1) / 2];
    Some(f64::midpoint(lower, upper))
}

/// A number with about four significant digits, for people.
pub(crate) fn digits(value: f64) -> String {
    match value.abs() {
        v if v >= 1000.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.5}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_of_odd_even_and_no_values() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn a_failed_round_is_kept_beside_the_values() {
        let mut series = Series::default();
        series.push(Ok::<_, String>(5.0));
        series.push(Err("gone"));
        series.push(Err("later"));
        assert_eq!(series.median(), Some(5.0));
        assert_eq!(series.error(), Some("gone"));
    }
}
