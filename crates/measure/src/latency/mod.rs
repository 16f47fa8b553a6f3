//! Latency and its variation, each by the name of the document that defines it.
//!
//! "Jitter" alone means at least four things, so nothing here is called that:
//!
//! | name | what | where defined |
//! |---|---|---|
//! | mean latency | mean over packets | after RFC 2544, 26.2 (one tagged frame a trial) |
//! | typical, worst-case latency | median, p99.9 | RFC 8219, 7.2 |
//! | IPDV | signed difference of neighbours' delays, in order of sending | RFC 3393; RFC 5481, 4.1 |
//! | PDV distribution | delay less the least delay | RFC 5481, 4.2 |
//! | PDV | p99.9 less the least delay | RFC 8219, 7.3.1 |
//! | interarrival jitter | smoothed \|IPDV\|, factor 1/16, in order of arrival | RFC 3550, 6.4.1 |
//!
//! All times are of one clock, in ns. Latency counts from the time at which a packet was *meant* to
//! be sent: a tester that falls behind then shows in the result, instead of sparing the device
//! (coordinated omission). Latency from the time of actual sending is given beside it, and their
//! difference as the tester's lateness.

use serde::{Deserialize, Serialize};

use crate::stats::bootstrap::Resampling;
use crate::stats::histogram::Histogram;
use crate::stats::{self, Interval, quantile};

pub mod stall;
pub mod standing;
pub mod steady;

/// Which way was measured; the two are never mixed or compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From sender to receiver, on one clock.
    OneWay,
    /// There and back.
    RoundTrip,
}

/// One packet that arrived, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sample {
    /// Its number in the order of sending, of one flow or stream.
    pub sequence: u64,
    /// When it was meant to be sent.
    pub intended_ns: u64,
    /// When it was sent.
    pub sent_ns: u64,
    /// When it was received.
    pub received_ns: u64,
}

impl Sample {
    /// Delay from the intended time; below zero only if clocks disagree.
    pub fn delay_ns(&self) -> i64 {
        self.received_ns
            .wrapping_sub(self.intended_ns)
            .cast_signed()
    }

    /// Delay from the time of sending.
    pub fn delay_from_sent_ns(&self) -> i64 {
        self.received_ns.wrapping_sub(self.sent_ns).cast_signed()
    }

    /// How late the tester sent it.
    pub fn lateness_ns(&self) -> i64 {
        self.sent_ns.wrapping_sub(self.intended_ns).cast_signed()
    }
}

/// Quantiles of a distribution; those that the number of samples does not allow are absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// Number of samples.
    pub count: u64,
    /// Least value.
    pub min_ns: Option<i64>,
    /// Highest value.
    pub max_ns: Option<i64>,
    /// Mean.
    pub mean_ns: Option<f64>,
    /// Standard deviation of the sample.
    pub deviation_ns: Option<f64>,
    /// `(q, value)` for those of [`QUANTILES`] that have enough samples.
    pub quantiles_ns: Vec<(f64, i64)>,
}

/// Quantiles that distributions list.
pub const QUANTILES: [f64; 9] = [0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999];

impl Distribution {
    /// Of values in any order.
    pub fn of(mut values: Vec<i64>) -> Self {
        values.sort_unstable();
        let numbers: Vec<_> = values.iter().map(|value| *value as f64).collect();
        Self {
            count: values.len() as u64,
            min_ns: values.first().copied(),
            max_ns: values.last().copied(),
            mean_ns: stats::mean(&numbers),
            deviation_ns: stats::deviation(&numbers),
            quantiles_ns: QUANTILES
                .into_iter()
                .filter_map(|q| Some((q, quantile::quantile(&values, q)?)))
                .collect(),
        }
    }

    /// A quantile of [`QUANTILES`], if there were enough samples.
    pub fn quantile(&self, q: f64) -> Option<i64> {
        let found = self.quantiles_ns.iter();
        found
            .copied()
            .find(|(known, _)| (known - q).abs() < 1e-12)
            .map(|(_, value)| value)
    }
}

/// RFC 3393 IPDV between packets that were sent one after the other and both arrived.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ipdv {
    /// Signed differences; RFC 8219 7.3.2 asks for min, median and max.
    pub signed: Distribution,
    /// Mean of their absolute values.
    pub mean_absolute_ns: Option<f64>,
}

/// Everything about the latency of one stream of packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Which way.
    pub direction: Direction,
    /// Delay from intended sending; the mean is after RFC 2544, median and p99.9 are typical and
    /// worst-case latency of RFC 8219.
    pub delay: Distribution,
    /// Delay from actual sending.
    pub delay_from_sent: Distribution,
    /// How late the tester was.
    pub tester_lateness: Distribution,
    /// RFC 3393.
    pub ipdv_rfc3393: Ipdv,
    /// RFC 5481: delay less the least delay.
    pub pdv_rfc5481: Distribution,
    /// RFC 8219: p99.9 less the least delay.
    pub pdv_rfc8219_ns: Option<i64>,
    /// RFC 3550, its value after the last packet.
    pub interarrival_jitter_rfc3550_ns: Option<f64>,
}

impl Latency {
    /// Of the samples of one stream in the order of arrival, without duplicates.
    pub fn of(direction: Direction, samples: &[Sample]) -> Self {
        let all = |field: fn(&Sample) -> i64| Distribution::of(samples.iter().map(field).collect());
        let delay = all(Sample::delay_ns);
        let least = delay.min_ns.unwrap_or(0);
        let above_least = samples.iter().map(|sample| sample.delay_ns() - least);
        let pdv_rfc5481 = Distribution::of(above_least.collect());
        Self {
            direction,
            delay_from_sent: all(Sample::delay_from_sent_ns),
            tester_lateness: all(Sample::lateness_ns),
            ipdv_rfc3393: ipdv_rfc3393(samples),
            pdv_rfc8219_ns: pdv_rfc5481.quantile(0.999),
            pdv_rfc5481,
            interarrival_jitter_rfc3550_ns: interarrival_jitter_rfc3550(samples),
            delay,
        }
    }
}

/// RFC 3393 with the selection function of RFC 5481 4.1: neighbours in the order of sending. Pairs
/// of which one was lost are left out.
pub fn ipdv_rfc3393(samples: &[Sample]) -> Ipdv {
    let mut by_sequence: Vec<_> = samples.iter().collect();
    by_sequence.sort_by_key(|sample| sample.sequence);
    let pairs = by_sequence.windows(2);
    let neighbours = pairs.filter(|pair| pair[0].sequence.checked_add(1) == Some(pair[1].sequence));
    let signed: Vec<_> = neighbours
        .map(|pair| pair[1].delay_ns() - pair[0].delay_ns())
        .collect();
    let absolute: Vec<_> = signed
        .iter()
        .map(|value| value.unsigned_abs() as f64)
        .collect();
    Ipdv {
        mean_absolute_ns: stats::mean(&absolute),
        signed: Distribution::of(signed),
    }
}

/// RFC 3550 6.4.1: J = J + (|D| - J) / 16 over packets in the order of arrival, where D compares
/// the distances of arrival and of intended sending: its time stamps are those of sampling, not of
/// transmission (5.1). `None` below two packets.
pub fn interarrival_jitter_rfc3550(samples: &[Sample]) -> Option<f64> {
    let differences = samples
        .windows(2)
        .map(|pair| (pair[1].delay_ns() - pair[0].delay_ns()).unsigned_abs() as f64);
    (samples.len() > 1).then(|| differences.fold(0.0, |j, difference| j + (difference - j) / 16.0))
}

/// Intervals of quantiles of the delay over a whole trial, from one histogram for each slice of it
/// in the order of time. Blocks of `resampling` are counted in slices and should last a second or
/// more. Quantiles for which there are too few samples, or fewer than two blocks, are left out.
/// Few blocks widen an interval; it is done by logarithms, since no delay is below zero.
pub fn quantile_intervals(
    slices: &[Histogram],
    quantiles: &[f64],
    resampling: &Resampling,
) -> Vec<(f64, Interval)> {
    let interval = |q: f64| {
        let found = resampling.interval_by(slices.len(), |drawn| {
            let mut pooled = Histogram::new();
            drawn.iter().for_each(|slice| pooled.merge(&slices[*slice]));
            pooled.quantile(q).map(|value| (value.max(1) as f64).ln())
        })?;
        Some(Interval {
            estimate: found.estimate.exp(),
            low: found.low.exp(),
            high: found.high.exp(),
            confidence: found.confidence,
        })
    };
    let found = quantiles.iter();
    found.filter_map(|q| Some((*q, interval(*q)?))).collect()
}

#[cfg(test)]
mod tests;
