//! MRR, maximum receive rate: what comes back when the highest load is offered, as FD.io CSIT
//! measures it (10 trials of 1 s). Quick and stable, but no throughput: loss is not looked at.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{ReportError, Search, Trial, TrialResult};

/// Trials of CSIT's form of the test.
pub const TRIALS_DEFAULT: usize = 10;
/// Duration of each.
pub const DURATION_DEFAULT: Duration = Duration::from_secs(1);

/// A running MRR test.
#[derive(Clone, Debug)]
pub struct MrrSearch {
    trial: Trial,
    trials: usize,
    rates_pps: Vec<f64>,
}

/// Forwarding rates of the trials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MrrOutcome {
    /// The load that was offered.
    pub offered_pps: f64,
    /// Forwarding rate of each trial: offered load less what was lost.
    pub rates_pps: Vec<f64>,
    /// Their mean.
    pub mean_pps: Option<f64>,
    /// Their standard deviation (of a sample), from two trials on.
    pub deviation_pps: Option<f64>,
}

impl MrrSearch {
    /// A test of `trials` trials at `max_load_pps`.
    pub fn new(max_load_pps: f64, trials: usize, duration: Duration) -> Self {
        Self {
            trial: Trial::new(max_load_pps, duration),
            trials,
            rates_pps: Vec::new(),
        }
    }
}

impl Search for MrrSearch {
    type Outcome = MrrOutcome;

    fn next(&mut self) -> Option<Trial> {
        (self.rates_pps.len() < self.trials).then_some(self.trial)
    }

    fn report(&mut self, result: &TrialResult) -> Result<(), ReportError> {
        let trial = self.next().ok_or(ReportError::NoTrialDue)?;
        let rate_pps = trial.load_pps * (1.0 - result.loss_ratio()?);
        self.rates_pps.push(rate_pps);
        Ok(())
    }

    fn finish(self) -> MrrOutcome {
        let count = self.rates_pps.len() as f64;
        let sum: f64 = self.rates_pps.iter().sum();
        let mean_pps = (count > 0.0).then(|| sum / count);
        let squares = mean_pps.map(|mean| {
            let squares = self.rates_pps.iter().map(|rate| (rate - mean).powi(2));
            squares.sum::<f64>()
        });
        let squares = squares.filter(|_| count > 1.0);
        MrrOutcome {
            offered_pps: self.trial.load_pps,
            mean_pps,
            deviation_pps: squares.map(|squares| (squares / (count - 1.0)).sqrt()),
            rates_pps: self.rates_pps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::run;

    #[test]
    fn mean_and_deviation_of_what_came_back() {
        let mut forwarded = [900u64, 1000, 800].into_iter();
        let search = MrrSearch::new(1000.0, 3, DURATION_DEFAULT);
        let outcome = run(search, |trial| TrialResult {
            intended_packets: trial.load_pps as u64,
            forwarded_packets: forwarded.next().unwrap(),
            effective_duration: trial.duration,
        });
        let outcome = outcome.unwrap();
        assert_eq!(outcome.rates_pps, [900.0, 1000.0, 800.0]);
        assert_eq!(outcome.mean_pps, Some(900.0));
        assert_eq!(outcome.deviation_pps, Some(100.0));
        let none = MrrSearch::new(1000.0, 3, DURATION_DEFAULT).finish();
        assert_eq!((none.mean_pps, none.deviation_pps), (None, None));
    }
}
