//! Soak: one load for a long time, in slices, to see loss that short trials miss and drift that
//! they cannot show. Fixed in load and duration; it searches for nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ReportError, Search, Trial, TrialResult};

/// A running soak test.
#[derive(Clone, Debug)]
pub struct SoakSearch {
    slice: Trial,
    slices: usize,
    results: Vec<TrialResult>,
}

/// What a soak test saw.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SoakOutcome {
    /// The load, in packets per second.
    pub load_pps: f64,
    /// Lost share of each slice, in order of time.
    pub loss_ratios: Vec<f64>,
    /// Lost share of all packets.
    pub loss_ratio: Option<f64>,
    /// Upper end of a one-sided 95 % interval for the probability that a slice of this length
    /// loses packets (Clopper and Pearson). With no lossy slice among n, about 3 / n.
    pub lossy_slice_probability_max: Option<f64>,
    /// Loss of the second half less that of the first: above zero if things get worse.
    pub drift: Option<f64>,
    /// All slices were run.
    pub is_complete: bool,
}

impl SoakSearch {
    /// A test of `duration` at a load, counted in slices of `slice`; both at least 1 ms.
    pub fn new(load_pps: f64, duration: Duration, slice: Duration) -> Self {
        let slice = slice.max(Duration::from_millis(1));
        let slices = (duration.as_secs_f64() / slice.as_secs_f64())
            .ceil()
            .max(1.0);
        Self {
            slice: Trial::new(load_pps, slice),
            slices: slices as usize,
            results: Vec::new(),
        }
    }
}

impl Search for SoakSearch {
    type Outcome = SoakOutcome;

    fn next(&mut self) -> Option<Trial> {
        (self.results.len() < self.slices).then_some(self.slice)
    }

    fn report(&mut self, result: &TrialResult) -> Result<(), ReportError> {
        self.next().ok_or(ReportError::NoTrialDue)?;
        result.loss_ratio()?;
        self.results.push(*result);
        Ok(())
    }

    fn finish(self) -> SoakOutcome {
        let results = &self.results;
        let lossy = results
            .iter()
            .filter(|result| result.forwarded_packets < result.intended_packets)
            .count();
        let (first, second) = results.split_at(results.len() / 2);
        let drift = share_lost(second).zip(share_lost(first));
        SoakOutcome {
            load_pps: self.slice.load_pps,
            loss_ratios: results
                .iter()
                .filter_map(|result| result.loss_ratio().ok())
                .collect(),
            loss_ratio: share_lost(results),
            lossy_slice_probability_max: (!results.is_empty())
                .then(|| probability_max(lossy, results.len())),
            drift: drift.map(|(later, earlier)| later - earlier),
            is_complete: results.len() == self.slices,
        }
    }
}

fn share_lost(results: &[TrialResult]) -> Option<f64> {
    let sum = |field: fn(&TrialResult) -> u64| results.iter().map(|r| field(r) as f64).sum::<f64>();
    let intended = sum(|result| result.intended_packets);
    let forwarded = sum(|result| result.forwarded_packets);
    (intended > 0.0).then(|| (intended - forwarded) / intended)
}

/// The probability at which `hits` or fewer of `count` have a chance of 5 %.
fn probability_max(hits: usize, count: usize) -> f64 {
    if hits >= count {
        return 1.0;
    }
    let (mut low, mut high) = (0.0f64, 1.0f64);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        if at_most(hits, count, middle) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Chance of `hits` or fewer of `count`, each with probability `p`, in logarithms so that many
/// slices do not underflow.
fn at_most(hits: usize, count: usize, p: f64) -> f64 {
    let (log_p, log_q) = (p.ln(), (1.0 - p).ln());
    let mut log_choose = 0.0;
    let mut sum = 0.0;
    for k in 0..=hits {
        if k > 0 {
            log_choose += ((count - k + 1) as f64 / k as f64).ln();
        }
        let hits_part = if k == 0 { 0.0 } else { k as f64 * log_p };
        sum += (log_choose + hits_part + (count - k) as f64 * log_q).exp();
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::run;

    #[test]
    fn rare_loss_and_drift_are_seen() {
        let search = SoakSearch::new(1000.0, Duration::from_secs(100), Duration::from_secs(1));
        let mut slice = 0;
        let outcome = run(search, |trial| {
            slice += 1;
            TrialResult {
                intended_packets: 1000,
                forwarded_packets: if slice > 98 { 900 } else { 1000 },
                effective_duration: trial.duration,
            }
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.loss_ratios.len(), 100);
        assert!((outcome.loss_ratio.unwrap() - 0.002).abs() < 1e-12);
        assert!((outcome.drift.unwrap() - 0.004).abs() < 1e-12);
        assert!(outcome.is_complete);
        // Table value: 2 of 100, one-sided 95 %, 0.0616.
        assert!((outcome.lossy_slice_probability_max.unwrap() - 0.0616).abs() < 1e-4);
    }

    #[test]
    fn no_loss_in_n_slices_gives_about_three_over_n() {
        assert!((probability_max(0, 1000) - 0.003).abs() < 1e-4);
        assert!((probability_max(5, 5) - 1.0).abs() < f64::EPSILON);
    }
}
