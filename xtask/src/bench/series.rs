//! The values of one measurement over the rounds of a benchmark, and what they say together.
//!
//! A round gives one value, or none and the reason. Two series that were measured in the same
//! rounds are compared round by round, so that what disturbs a whole round falls out; others by
//! their intervals alone. Fewer than [`ROUNDS_MIN`] rounds decide nothing.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt::Display;

pub(crate) use catena_measure::stats::quantile::median;
use catena_measure::stats::student::t_quantile;
use catena_measure::stats::{deviation, mean};

/// Rounds without which nothing is decided.
pub(crate) const ROUNDS_MIN: usize = 3;
/// From so many values on, two of them bound the median in 95 % of cases, whatever they are like.
const RANKED: usize = 6;
/// How often an interval may miss on one of its sides.
const TAIL: f64 = 0.025;

/// A median over rounds, and the interval that holds the true one in 95 % of cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    pub(crate) median: f64,
    /// None with one value.
    pub(crate) interval: Option<(f64, f64)>,
    pub(crate) rounds: usize,
}

impl Estimate {
    /// Of one value a round; `None` without any.
    ///
    /// From six values on the interval is between two of them, by their ranks (sign test). Fewer
    /// cannot bound a median in 95 % of cases, so it is Student's for the mean: of logarithms where
    /// all are above zero, as times and rates are. With fewer than six it holds the median, too.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let interval = match values.len() {
            0 | 1 => None,
            count if count < RANKED => students(values),
            count => {
                let mut sorted = values.to_vec();
                sorted.sort_by(f64::total_cmp);
                let below = values_below(count);
                Some((sorted[below], sorted[count - 1 - below]))
            }
        };
        Some(Self {
            median: median(values)?,
            interval,
            rounds: values.len(),
        })
    }

    /// Whether all of the interval is on the side of a bound that `is_within` says; `Some(false)`
    /// if none of it is, `None` if it is on both sides or there are too few rounds.
    pub(crate) fn decides(&self, is_within: impl Fn(f64) -> bool) -> Option<bool> {
        let (low, high) = self.interval.filter(|_| self.rounds >= ROUNDS_MIN)?;
        let both = (is_within(low), is_within(high));
        (both.0 == both.1).then_some(both.0)
    }

    /// Whether it differs from `value`; `None` with too few rounds to say so.
    pub(crate) fn differs_from(&self, value: f64) -> Option<bool> {
        let (low, high) = self.interval.filter(|_| self.rounds >= ROUNDS_MIN)?;
        Some(!(low..=high).contains(&value))
    }
}

/// Student's interval of the mean.
fn students(values: &[f64]) -> Option<(f64, f64)> {
    let half_around = |values: &[f64]| {
        let count = values.len();
        let half = t_quantile(1.0 - TAIL, count - 1) * deviation(values)? / (count as f64).sqrt();
        mean(values).map(|centre| (centre - half, centre + half))
    };
    if values.iter().all(|value| *value == values[0]) {
        return Some((values[0], values[0]));
    }
    if values.iter().any(|value| *value <= 0.0) {
        return half_around(values);
    }
    let logarithms: Vec<_> = values.iter().map(|value| value.ln()).collect();
    half_around(&logarithms).map(|(low, high)| (low.exp(), high.exp()))
}

/// How many of `count` sorted values lie below the interval of the median, and as many above: the
/// chance that so few fall on one side of it is at most [`TAIL`].
fn values_below(count: usize) -> usize {
    let mut chance_ln = -(count as f64) * std::f64::consts::LN_2;
    let mut so_few = chance_ln.exp();
    let mut below = 0;
    while 2 * below + 2 < count {
        chance_ln += ((count - below) as f64 / (below + 1) as f64).ln();
        so_few += chance_ln.exp();
        if so_few > TAIL {
            break;
        }
        below += 1;
    }
    below
}

/// Values by round, and the first error.
#[derive(Clone, Debug, Default)]
pub(crate) struct Series {
    rounds: Vec<Option<f64>>,
    error: Option<String>,
}

impl Series {
    /// Adds one round's outcome.
    pub(crate) fn push<E: Display>(&mut self, outcome: Result<f64, E>) {
        match outcome {
            Ok(value) => self.rounds.push(Some(value)),
            Err(error) => {
                self.rounds.push(None);
                self.error.get_or_insert_with(|| error.to_string());
            }
        }
    }

    /// Adds one round that was measured in several windows, by their median: windows of a round
    /// resemble each other, and do not count as rounds.
    pub(crate) fn push_median(&mut self, windows: Self) {
        self.rounds.push(windows.median());
        self.error = self.error.take().or(windows.error);
    }

    fn values(&self) -> Vec<f64> {
        self.rounds.iter().copied().flatten().collect()
    }

    /// Number of rounds, those without a value included.
    pub(crate) fn rounds(&self) -> usize {
        self.rounds.len()
    }

    /// The value of a round, if it gave one.
    pub(crate) fn of_round(&self, round: usize) -> Option<f64> {
        self.rounds.get(round).copied().flatten()
    }

    /// Median over the rounds that gave a value.
    pub(crate) fn median(&self) -> Option<f64> {
        median(&self.values())
    }

    /// Median and interval over the rounds that gave a value.
    pub(crate) fn estimate(&self) -> Option<Estimate> {
        Estimate::of(&self.values())
    }

    /// The same values in a unit that is `factor` times smaller.
    pub(crate) fn scaled(&self, factor: f64) -> Self {
        self.each(|value| value * factor)
    }

    /// `factor` over each value: a rate from times, or times from a rate.
    pub(crate) fn inverse(&self, factor: f64) -> Self {
        self.each(|value| factor / value)
    }

    fn each(&self, of: impl Fn(f64) -> f64) -> Self {
        Self {
            rounds: self.rounds.iter().map(|value| value.map(&of)).collect(),
            error: self.error.clone(),
        }
    }

    /// How many times the values of `other` these are. Where both have the same rounds, by those
    /// that gave both; otherwise by the medians, as far apart as both intervals allow.
    pub(crate) fn ratio_to(&self, other: &Self) -> Option<Estimate> {
        if self.rounds.len() == other.rounds.len() {
            return self.by_round(other, |value, other| (other > 0.0).then_some(value / other));
        }
        let (own, other) = (self.estimate()?, other.estimate()?);
        let both = own.interval.zip(other.interval);
        let both = both.filter(|((least, _), (lowest, _))| *least > 0.0 && *lowest > 0.0);
        (other.median > 0.0).then(|| Estimate {
            median: own.median / other.median,
            interval: both.map(|((low, high), (lowest, highest))| (low / highest, high / lowest)),
            rounds: own.rounds.min(other.rounds),
        })
    }

    /// By how much these are above those of `other`, by the rounds that gave both.
    pub(crate) fn difference_to(&self, other: &Self) -> Option<Estimate> {
        self.by_round(other, |value, other| Some(value - other))
    }

    fn by_round(&self, other: &Self, of: impl Fn(f64, f64) -> Option<f64>) -> Option<Estimate> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        let both = pairs.filter_map(|(value, other)| of((*value)?, (*other)?));
        Estimate::of(&both.collect::<Vec<_>>())
    }

    /// Lowest and highest over the rounds that gave a value.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let values = || self.rounds.iter().copied().flatten();
        values().reduce(f64::min).zip(values().reduce(f64::max))
    }

    /// The first round's failure, also when other rounds gave values.
    pub(crate) fn error(&self) -> Option<&str> {
        self.error.as_deref()
    }

    /// `name: N rounds, from MIN to MAX unit`, or `None` with fewer than two values.
    pub(crate) fn note(&self, name: &str, unit: &str) -> Option<String> {
        let rounds = self.values().len();
        let (min, max) = self.range().filter(|_| rounds > 1)?;
        Some(format!(
            "{name}: {rounds} rounds, from {} to {} {unit}",
            digits(min),
            digits(max)
        ))
    }
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
pub(super) fn series(values: &[f64]) -> Series {
    let mut series = Series::default();
    for value in values {
        series.push(Ok::<_, String>(*value));
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_measure::stats::random::Random;

    #[test]
    fn a_failed_round_is_kept_beside_the_values() {
        let mut series = Series::default();
        series.push(Ok::<_, String>(5.0));
        series.push(Err("gone"));
        series.push(Err("later"));
        assert_eq!(series.median(), Some(5.0));
        assert_eq!(series.error(), Some("gone"));
    }

    /// Student's by hand: logarithms of 1, 2, 4 have mean ln 2, deviation ln 2; t is 4.303.
    #[test]
    fn intervals_are_those_of_the_tables() {
        let (low, high) = series(&[1.0, 2.0, 4.0])
            .estimate()
            .unwrap()
            .interval
            .unwrap();
        let factor = 2.0_f64.powf(4.303 / 3.0_f64.sqrt());
        assert!((low - 2.0 / factor).abs() < 1e-3 && (high / 2.0 / factor - 1.0).abs() < 1e-3);
        // Below zero as they are: -1, 0, 1 have mean 0 and deviation 1.
        let (low, high) = series(&[-1.0, 0.0, 1.0])
            .estimate()
            .unwrap()
            .interval
            .unwrap();
        assert!((low + 4.303 / 3.0_f64.sqrt()).abs() < 1e-3 && (low + high).abs() < 1e-9);
        // Ranks of the sign test: tables give 1 and 6 of 6, 2 and 9 of 10, 6 and 15 of 20.
        assert_eq!([6, 10, 20].map(values_below), [0, 1, 5]);
        // Beyond the smallest number: about n / 2 less sqrt n.
        assert!((460..=480).contains(&values_below(1000)));
        assert!((49_000..49_700).contains(&values_below(99_000 + 1000)));
        let ranked = series(&[5.0, 1.0, 9.0, 3.0, 100.0, 7.0])
            .estimate()
            .unwrap();
        assert_eq!(ranked.interval, Some((1.0, 100.0)));
        assert_eq!(series(&[5.0]).estimate().unwrap().interval, None);
        let same = series(&[0.0; 3]).estimate().unwrap();
        assert_eq!(same.interval, Some((0.0, 0.0)));
    }

    /// Goal: an interval of few rounds and one of many hold the truth as often as they say. 500
    /// benchmarks each; 95 % less three deviations of a count are 92 %.
    #[test]
    fn intervals_hold_the_truth_with_few_and_many_rounds() {
        let mut random = Random::new(5);
        for rounds in [3, 5, 6, 9] {
            let held = (0..500).filter(|_| {
                let values: Vec<_> = (0..rounds)
                    .map(|_| 20.0 * (0.1 * random.normal()).exp())
                    .collect();
                let (low, high) = Estimate::of(&values).unwrap().interval.unwrap();
                (low..=high).contains(&20.0)
            });
            let held = held.count();
            assert!(held >= 460, "{rounds} rounds: {held} of 500");
        }
    }

    /// A drift that both sides share does not hide a difference of 2 %; without the pairs it would.
    #[test]
    fn rounds_are_compared_with_themselves() {
        let peer = series(&[10.0, 20.0, 40.0]);
        let own = series(&[10.2, 20.41, 40.79]);
        let ratio = own.ratio_to(&peer).unwrap();
        assert_eq!(ratio.differs_from(1.0), Some(true));
        assert_eq!(ratio.decides(|ratio| ratio >= 1.01), Some(true));
        assert_eq!(ratio.decides(|ratio| ratio >= 1.05), Some(false));
        assert_eq!(ratio.decides(|ratio| ratio >= 1.02), None);
        // One round more on a side: no pairs any more, and the intervals overlap.
        let longer = series(&[10.2, 20.41, 40.79, 20.0]);
        let ratio = longer.ratio_to(&peer).unwrap();
        assert_eq!(ratio.differs_from(1.0), Some(false));
        assert_eq!(
            own.difference_to(&peer).unwrap().decides(|d| d <= 5.0),
            Some(true)
        );
    }

    #[test]
    fn a_round_that_one_side_lost_falls_out_of_the_pairs() {
        let (mut own, mut peer) = (series(&[2.0]), series(&[1.0]));
        own.push(Err("gone"));
        peer.push(Ok::<_, String>(100.0));
        own.push(Ok::<_, String>(4.0));
        peer.push(Ok::<_, String>(2.0));
        let ratio = own.ratio_to(&peer).unwrap();
        assert_eq!((ratio.median, ratio.rounds), (2.0, 2));
        assert_eq!(ratio.decides(|ratio| ratio >= 1.0), None, "two rounds only");
        assert_eq!((own.rounds(), own.of_round(1)), (3, None));
    }

    #[test]
    fn windows_of_a_round_are_no_rounds() {
        let mut own = Series::default();
        own.push_median(series(&[1.0, 2.0, 9.0]));
        let mut failed = Series::default();
        failed.push(Err("gone"));
        own.push_median(failed);
        assert_eq!(own.estimate().unwrap().rounds, 1);
        assert_eq!((own.median(), own.error()), (Some(2.0), Some("gone")));
    }
}
