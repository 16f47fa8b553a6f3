//! Quantiles of samples, and the rule for when they may be printed.
//!
//! Of n samples, n (1 - q) lie above the quantile q. With fewer than ten of them, one sample more
//! or less moves it at will; so the quantile q needs 10 / (1 - q) samples, and 10 / q below the
//! median: p99 needs 1000, p99.9 needs 10,000, p99.99 needs 100,000. Below that there is no value,
//! and reports say "n/a".

/// Samples that must lie beyond a quantile.
pub const BEYOND_MIN: f64 = 10.0;

/// Number of samples that the quantile q needs, 0 <= q <= 1. Minimum and maximum are no quantiles
/// in this sense and need one.
pub fn samples_needed(q: f64) -> u64 {
    let beyond = q.min(1.0 - q);
    if beyond <= 0.0 {
        return 1;
    }
    // 1 - 0.999 is a hair above 0.001; a relative billionth is no reason for one sample more.
    (BEYOND_MIN / beyond * (1.0 - 1e-9)).ceil() as u64
}

/// Whether so many samples suffice for the quantile q.
pub fn is_enough(count: u64, q: f64) -> bool {
    count >= samples_needed(q)
}

/// Index into `count` sorted samples of the smallest one with at least the share q at or below it.
pub fn rank(count: usize, q: f64) -> usize {
    // The same hair as above, so that 0.999 of 1000 is the 999th and not the 1000th.
    let rank = (q * count as f64 - 1e-9 * count as f64).ceil();
    (rank.max(1.0) as usize).min(count.max(1)) - 1
}

/// The quantile q of sorted values, if there are enough.
pub fn quantile<T: Copy>(sorted: &[T], q: f64) -> Option<T> {
    let is_enough = is_enough(sorted.len() as u64, q) && !sorted.is_empty();
    is_enough.then(|| sorted[rank(sorted.len(), q)])
}

/// The median of values in any order, of however few; for slices and repetitions, not for tails.
pub fn median(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let is_even = sorted.len().is_multiple_of(2);
    let below = if is_even { middle - 1 } else { middle };
    Some(f64::midpoint(sorted[below], sorted[middle]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_samples_must_lie_beyond() {
        for (q, needed) in [
            (0.5, 20),
            (0.9, 100),
            (0.99, 1000),
            (0.999, 10_000),
            (0.9999, 100_000),
            (0.001, 10_000),
            (1.0, 1),
            (0.0, 1),
        ] {
            assert_eq!(samples_needed(q), needed, "{q}");
        }
        let samples: Vec<_> = (1..=1000).collect();
        assert_eq!(quantile(&samples, 0.99), Some(990));
        assert_eq!(quantile(&samples, 0.999), None);
        assert_eq!(quantile(&samples, 1.0), Some(1000));
        assert_eq!(quantile::<u8>(&[], 1.0), None);
    }

    #[test]
    fn medians_of_even_and_odd_counts() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&[]), None);
    }
}
