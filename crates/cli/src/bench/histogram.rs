//! Counts of values by size, precise to half a percent: latencies of any number of packets in
//! constant memory.

/// Classes per power of two.
const CLASSES: u64 = 1 << CLASS_BITS;
const CLASS_BITS: u32 = 7;
/// Enough for every 64-bit value.
const CLASS_COUNT: usize = (64 - CLASS_BITS as usize) * CLASSES as usize + CLASSES as usize;

/// A histogram whose classes are 1/128 of their value wide, and exact below 128.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Histogram {
    pub(super) fn new() -> Self {
        Self {
            counts: vec![0; CLASS_COUNT],
            count: 0,
            sum: 0,
            max: 0,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, value: u64) {
        self.counts[class(value)] += 1;
        self.count += 1;
        self.sum += u128::from(value);
        self.max = self.max.max(value);
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn max(&self) -> u64 {
        self.max
    }

    /// Mean, rounded down; 0 without values.
    pub(super) fn mean(&self) -> u64 {
        u64::try_from(self.sum / u128::from(self.count.max(1))).unwrap_or(u64::MAX)
    }

    /// The least value that at least `per_mille` thousandths of all values do not exceed, as the
    /// middle of its class; 0 without values.
    pub(super) fn percentile(&self, per_mille: u64) -> u64 {
        let wanted = (u128::from(self.count) * u128::from(per_mille)).div_ceil(1000);
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += u128::from(*count);
            if seen >= wanted.max(1) {
                return middle(index as u64);
            }
        }
        0
    }
}

#[inline]
fn class(value: u64) -> usize {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(CLASS_BITS + 1);
    let index = u64::from(shift) * CLASSES + (value >> shift);
    usize::try_from(index).unwrap_or(CLASS_COUNT - 1)
}

fn middle(index: u64) -> u64 {
    let shift = (index / CLASSES).saturating_sub(1);
    let low = (index - shift * CLASSES) << shift;
    low + ((1 << shift) >> 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_values(
            mut values in prop::collection::vec(any::<u64>().prop_flat_map(|v| 0..=v), 1..200),
            per_mille in 1_u64..=1000,
        ) {
            let mut histogram = Histogram::new();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let rank = (values.len() as u64 * per_mille).div_ceil(1000) as usize;
            let exact = values[rank - 1];
            let found = histogram.percentile(per_mille);
            prop_assert!(found.abs_diff(exact) <= exact / 200, "{found} for {exact}");
            let sum: u128 = values.iter().map(|value| u128::from(*value)).sum();
            prop_assert_eq!(u128::from(histogram.mean()), sum / values.len() as u128);
            prop_assert_eq!(histogram.max(), *values.last().unwrap());
        }
    }

    #[test]
    fn the_ends_of_the_range_have_classes() {
        let mut histogram = Histogram::new();
        assert_eq!(histogram.percentile(500), 0);
        histogram.add(0);
        assert_eq!(histogram.percentile(1000), 0);
        histogram.add(u64::MAX);
        assert!(histogram.percentile(1000) > u64::MAX / 200 * 199);
    }
}
