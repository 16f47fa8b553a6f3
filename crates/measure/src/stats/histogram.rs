//! A histogram of values over many orders of magnitude, in constant memory.
//!
//! Log-linear: values up to 255 have a bucket each; above that each power of two is divided into
//! 128 buckets, so that a bucket is at most 1/128 (0.8 %) wide. Recording is a shift and an
//! increment, without branches on the data; buckets add up, so that histograms of slices and cores
//! can be merged.

use serde::{Deserialize, Serialize};

use super::quantile;

/// log2 of the buckets of each power of two.
const SUB_BITS: u32 = 7;
const SUB_BUCKETS: usize = 1 << SUB_BITS;
/// Powers of two above the exact part, and the exact part, which is as large as two of them.
const BUCKETS: usize = (64 - SUB_BITS as usize + 1) * SUB_BUCKETS;

/// Counts of values from 0 to 2^64 - 1, such as nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Sparse", into = "Sparse")]
pub struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; BUCKETS],
            count: 0,
            sum: 0,
            min: u64::MAX,
            max: 0,
        }
    }
}

fn bucket_of(value: u64) -> usize {
    // Setting a bit below the exact part gives small values the shift 0.
    let top = 63 - (value | (SUB_BUCKETS as u64)).leading_zeros();
    let shift = top - SUB_BITS;
    (shift as usize) * SUB_BUCKETS + (value >> shift) as usize
}

/// Least and highest value of a bucket.
fn bounds_of(bucket: usize) -> (u64, u64) {
    if bucket < 2 * SUB_BUCKETS {
        return (bucket as u64, bucket as u64);
    }
    let shift = bucket / SUB_BUCKETS - 1;
    let low = ((bucket - shift * SUB_BUCKETS) as u64) << shift;
    (low, low + ((1u64 << shift) - 1))
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, value: u64) {
        self.record_many(value, 1);
    }

    /// Counts a value several times, as for a burst with one stamp.
    pub fn record_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        // Saturating, since counts can come from a file.
        let count = &mut self.counts[bucket_of(value)];
        *count = count.saturating_add(times);
        self.count = self.count.saturating_add(times);
        self.sum = self
            .sum
            .saturating_add(u128::from(value) * u128::from(times));
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// Adds all counts of another histogram.
    pub fn merge(&mut self, other: &Self) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count = count.saturating_add(*more);
        }
        self.count = self.count.saturating_add(other.count);
        self.sum = self.sum.saturating_add(other.sum);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Least value, exactly.
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// Highest value, exactly.
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// Mean, exactly.
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The quantile q, high by at most a bucket's width, if there are enough samples
    /// ([`quantile::samples_needed`]).
    pub fn quantile(&self, q: f64) -> Option<u64> {
        if self.count == 0 || !quantile::is_enough(self.count, q) {
            return None;
        }
        let rank = quantile::rank(usize::try_from(self.count).unwrap_or(usize::MAX), q) as u64;
        let mut below = 0u64;
        for (bucket, count) in self.counts.iter().enumerate() {
            below = count.saturating_add(below);
            if below > rank {
                return Some(bounds_of(bucket).1.min(self.max).max(self.min));
            }
        }
        Some(self.max)
    }

    /// Buckets that hold values: least value, highest value, count; in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let counts = self.counts.iter().enumerate();
        counts
            .filter(|(_, count)| **count > 0)
            .map(|(bucket, count)| {
                let (low, high) = bounds_of(bucket);
                (low, high, *count)
            })
    }

    /// Points `(value, share at or below)` of the cumulative distribution.
    pub fn cdf(&self) -> Vec<(f64, f64)> {
        let mut below = 0u64;
        let points = self.buckets().map(|(_, high, count)| {
            below = count.saturating_add(below);
            let value = high.min(self.max) as f64;
            (value, below as f64 / self.count as f64)
        });
        points.collect()
    }

    /// Points `(q, value)` of all quantiles that the number of samples allows.
    pub fn percentiles(&self) -> Vec<(f64, f64)> {
        let allowed = |(_, q): &(f64, f64)| quantile::is_enough(self.count, *q);
        let points = self.cdf().into_iter().filter(|(_, q)| *q < 1.0);
        points
            .filter(allowed)
            .map(|(value, q)| (q, value))
            .collect()
    }
}

/// How a histogram is stored: only the buckets that hold values.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Sparse {
    sum: f64,
    min: u64,
    max: u64,
    /// Least value of the bucket, count.
    buckets: Vec<(u64, u64)>,
}

impl From<Histogram> for Sparse {
    fn from(histogram: Histogram) -> Self {
        Self {
            sum: histogram.sum as f64,
            min: histogram.min,
            max: histogram.max,
            buckets: histogram
                .buckets()
                .map(|(low, _, count)| (low, count))
                .collect(),
        }
    }
}

impl From<Sparse> for Histogram {
    fn from(sparse: Sparse) -> Self {
        let mut histogram = Self::new();
        for (low, count) in sparse.buckets {
            histogram.record_many(low, count);
        }
        histogram.sum = sparse.sum as u128;
        (histogram.min, histogram.max) = (sparse.min, sparse.max);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_follow_each_other_without_gaps() {
        let mut next = 0u64;
        for bucket in 0..BUCKETS {
            let (low, high) = bounds_of(bucket);
            assert_eq!(low, next, "{bucket}");
            assert_eq!((bucket_of(low), bucket_of(high)), (bucket, bucket));
            assert!((high - low) as f64 <= low as f64 / 127.0);
            next = high.wrapping_add(1);
        }
        assert_eq!(next, 0, "the last bucket ends at 2^64 - 1");
    }

    #[test]
    fn too_few_samples_have_no_tail() {
        let mut histogram = Histogram::new();
        histogram.record_many(1000, 999);
        assert_eq!(histogram.quantile(0.99), None);
        histogram.record(1000);
        assert_eq!(histogram.quantile(0.99), Some(1000));
        assert_eq!(histogram.quantile(1.0), Some(1000));
        assert_eq!(Histogram::new().quantile(0.5), None);
    }

    proptest! {
        /// Against the crate hdrhistogram with three significant digits, and against sorting.
        #[test]
        fn quantiles_agree_with_other_ways(
            values in proptest::collection::vec(1u64..10_000_000_000, 1000..1500),
            split in 0usize..1000,
        ) {
            let (mut one, mut two) = (Histogram::new(), Histogram::new());
            let mut other = hdrhistogram::Histogram::<u64>::new(3).unwrap();
            for (index, value) in values.iter().enumerate() {
                if index < split { one.record(*value) } else { two.record(*value) }
                other.record(*value).unwrap();
            }
            one.merge(&two);
            let mut sorted = values.clone();
            sorted.sort_unstable();
            for q in [0.05, 0.5, 0.9, 0.99] {
                let ours = one.quantile(q).unwrap();
                let exact = sorted[quantile::rank(sorted.len(), q)];
                prop_assert!(ours >= exact && ours as f64 <= exact as f64 * (1.0 + 1.0 / 127.0));
                let theirs = other.value_at_quantile(q) as f64;
                prop_assert!((ours as f64 / theirs - 1.0).abs() < 0.02, "{} {}", ours, theirs);
            }
            let exact = values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64;
            prop_assert!((one.mean().unwrap() / exact - 1.0).abs() < 1e-9);
            prop_assert_eq!(one.min(), sorted.first().copied());
            prop_assert_eq!(one.max(), sorted.last().copied());
        }
    }
}
