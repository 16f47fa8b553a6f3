//! Confidence intervals by resampling blocks (moving block bootstrap, circular).
//!
//! Samples of a running system resemble their neighbours: a stall or a busy neighbour spoils many
//! in a row. Resampling single samples would take them for independent and promise too much, so
//! whole stretches are drawn. Blocks must be longer than what makes neighbours alike: at least a
//! second of a measurement, or ten stalls.

use super::Interval;
use super::random::Random;
use super::student::{normal_quantile, t_quantile};

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resampling {
    /// Items in a row that are drawn together.
    pub block: usize,
    /// Number of resamples; 1000 settle a 95 % interval to about a tenth of its width.
    pub resamples: usize,
    /// Confidence, such as 0.95.
    pub confidence: f64,
    /// The same seed gives the same interval.
    pub seed: u64,
}

impl Resampling {
    /// 1000 resamples of blocks, 95 %, a fixed seed.
    pub fn with_block(block: usize) -> Self {
        Self {
            block,
            resamples: 1000,
            confidence: 0.95,
            seed: 0x6361_7465_6e61_2121,
        }
    }

    /// The interval of a statistic over `count` items, which is computed from the numbers of the
    /// items that a resample drew. `None` if there are fewer than two blocks, or if the statistic
    /// has no value for some resample.
    pub fn interval_by(
        &self,
        count: usize,
        mut statistic: impl FnMut(&[usize]) -> Option<f64>,
    ) -> Option<Interval> {
        let block = self.block.max(1);
        if count < 2 * block || self.resamples < 2 {
            return None;
        }
        let all: Vec<_> = (0..count).collect();
        let estimate = statistic(&all)?;
        let mut random = Random::new(self.seed);
        let mut drawn = Vec::with_capacity(count);
        let mut values = Vec::with_capacity(self.resamples);
        for _ in 0..self.resamples {
            drawn.clear();
            while drawn.len() < count {
                let start = random.below(count as u64) as usize;
                let length = block.min(count - drawn.len());
                drawn.extend((start..start + length).map(|index| index % count));
            }
            values.push(statistic(&drawn)?);
        }
        values.sort_unstable_by(f64::total_cmp);
        let tail = (1.0 - self.confidence.clamp(0.0, 1.0)) / 2.0;
        let last = (values.len() - 1) as f64;
        let low = values[(tail * last).floor() as usize];
        let high = values[((1.0 - tail) * last).ceil() as usize];
        let widening = widening(count / block, tail);
        Some(Interval {
            estimate,
            low: estimate + (low - estimate).min(0.0) * widening,
            high: estimate + (high - estimate).max(0.0) * widening,
            confidence: self.confidence,
        })
    }

    /// The interval of a statistic of values in order of time.
    pub fn interval(
        &self,
        values: &[f64],
        statistic: impl Fn(&[f64]) -> Option<f64>,
    ) -> Option<Interval> {
        let mut chosen = Vec::with_capacity(values.len());
        self.interval_by(values.len(), |drawn| {
            chosen.clear();
            chosen.extend(drawn.iter().map(|index| values[*index]));
            statistic(&chosen)
        })
    }
}

/// Resampling few blocks understates how much they vary: by the usual factor of a sample's
/// variance, and by the difference of Student's t and the normal distribution.
fn widening(blocks: usize, tail: f64) -> f64 {
    let blocks = blocks.max(2);
    let student = t_quantile(1.0 - tail, blocks - 1) / normal_quantile(1.0 - tail).max(1e-9);
    student * (blocks as f64 / (blocks - 1) as f64).sqrt()
}

/// Items after which neighbours no longer resemble each other: three times the first lag at which
/// the autocorrelation is within its noise, at least the cube root of the number of items, at most
/// a quarter of it. For blocks of series whose scale of time is not known.
pub fn block_length(values: &[f64]) -> usize {
    let count = values.len();
    let least = (count as f64).cbrt().ceil() as usize;
    let most = (count / 4).max(1);
    let Some(mean) = super::mean(values) else {
        return 1;
    };
    let covariance = |lag: usize| {
        let pairs = values.iter().zip(&values[lag..]);
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>()
    };
    let variance = covariance(0);
    if variance <= 0.0 {
        return least.clamp(1, most);
    }
    let noise = 2.0 / (count as f64).sqrt();
    let lag = (1..=most / 3)
        .find(|lag| covariance(*lag) / variance < noise)
        .unwrap_or(most / 3);
    (3 * lag).max(least).clamp(1, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::mean;

    /// First-order autoregressive noise around a mean of 10.
    fn alike(seed: u64, count: usize, memory: f64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut noise = random.normal() / (1.0 - memory * memory).sqrt();
        let step = |_| {
            noise = memory * noise + random.normal();
            10.0 + noise
        };
        (0..count).map(step).collect()
    }

    fn coverage(block: impl Fn(&[f64]) -> usize) -> usize {
        let runs = 0..200;
        let holds = runs.filter(|seed| {
            let values = alike(*seed, 600, 0.7);
            let resampling = Resampling {
                resamples: 300,
                ..Resampling::with_block(block(&values))
            };
            let interval = resampling.interval(&values, mean).unwrap();
            interval.low <= 10.0 && 10.0 <= interval.high
        });
        holds.count()
    }

    /// Goal: intervals hold what they promise on autocorrelated data. Method: 200 series; blocks
    /// must cover the mean in about 95 %, single samples in far less.
    #[test]
    fn blocks_cover_where_single_samples_do_not() {
        let blocks = coverage(block_length);
        assert!(blocks >= 180, "{blocks} of 200");
        let singles = coverage(|_| 1);
        assert!(singles <= 140, "{singles} of 200");
    }

    #[test]
    fn a_seed_repeats_an_interval() {
        let values = alike(1, 200, 0.3);
        let resampling = Resampling::with_block(10);
        let interval = resampling.interval(&values, mean);
        assert!(interval.is_some());
        assert_eq!(interval, resampling.interval(&values, mean));
        let other = Resampling {
            seed: 1,
            ..resampling
        };
        assert_ne!(interval, other.interval(&values, mean));
    }

    #[test]
    fn one_block_gives_no_interval() {
        assert_eq!(Resampling::with_block(10).interval(&[1.0; 19], mean), None);
    }
}
