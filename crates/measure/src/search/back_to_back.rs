//! Back-to-back frames (RFC 9004, which updates RFC 2544 section 26.4): the longest burst at the
//! highest rate that a device forwards without loss, and the buffer that this implies.
//!
//! Each repetition is a binary search over the length of the burst, with loss verification (ETSI
//! TST009, 12.3.3): a burst that loses packets is repeated before it counts as lossy. The wait
//! after a burst, at least 2 s for buffers to drain, is the business of whoever runs the trials.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::preset::Standing;
use super::{ReportError, Search, Trial, TrialResult};

/// What the test needs to know.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Input {
    /// Maximum theoretical frame rate of the interface at this frame size, in packets per second.
    pub max_theoretical_pps: f64,
    /// Throughput at this frame size, measured before; below the rate above.
    pub throughput_pps: f64,
    /// Longest burst to try: RFC 9004 section 6.2 wants up to 30 s to be possible, and RFC 2544
    /// section 26.4 trials of 2 s at least.
    pub longest_burst: Duration,
    /// Bursts are told apart down to this many packets.
    pub resolution_packets: u64,
    /// How often to search; the mean over all is the result.
    pub repetitions: u32,
    /// How often a lossy burst is tried in all, max(r) of TST009; 1 is no verification.
    pub tries: u32,
}

/// Why the test says nothing here.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum BackToBackError {
    /// RFC 9004 section 5: the device keeps up for ever.
    #[error(
        "throughput {throughput} packets/s is not below the theoretical {max} packets/s: the \
         device keeps up without its buffer, so back-to-back does not apply to this frame size"
    )]
    NotApplicable {
        /// Throughput given.
        throughput: f64,
        /// Theoretical rate given.
        max: f64,
    },
    /// A value that allows no search.
    #[error("back-to-back: {name} must be above zero")]
    Zero {
        /// Which.
        name: &'static str,
    },
}

/// What the test found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BackToBackOutcome {
    /// Longest burst without loss of each repetition, in packets.
    pub bursts: Vec<u64>,
    /// Repetitions whose longest burst of all had no loss: the real value is larger.
    pub unbounded: u32,
    /// Mean of the bursts.
    pub mean_packets: Option<f64>,
    /// Standard deviation (of a sample) of the bursts.
    pub deviation_packets: Option<f64>,
    /// Implied DUT buffer time: mean burst over the theoretical rate, in seconds.
    pub implied_buffer_s: Option<f64>,
    /// Corrected DUT buffer time: without what left the device while the burst arrived.
    pub corrected_buffer_s: Option<f64>,
}

/// A running back-to-back test.
#[derive(Clone, Debug)]
pub struct BackToBackSearch {
    input: Input,
    longest: u64,
    /// Longest burst known good, and shortest known bad, of this repetition.
    good: u64,
    bad: Option<u64>,
    tried: u32,
    bursts: Vec<u64>,
    unbounded: u32,
}

/// Repetitions that RFC 2544 section 26.4 asks for. RFC 9004 section 6.3 makes their mean, and
/// leaves their number open if it is reported.
const REPETITIONS: u32 = 50;
/// Least length of the longest burst, after RFC 2544 section 26.4, and after RFC 9004 section 6.2
/// where a device has not overflowed before.
const BURST_MIN: Duration = Duration::from_secs(2);
const BURST_UNBOUNDED: Duration = Duration::from_secs(30);

impl Input {
    /// How far a result may call itself after RFC 9004. A tester in the same machine never may
    /// without a word: complete is for those that know more.
    pub fn standing(&self, outcome: &BackToBackOutcome) -> Standing {
        let mut reasons = vec![
            "no external tester (RFC 2544, 6)".to_owned(),
            "no isolated test network (RFC 6815, 3)".to_owned(),
            "one frame size, not all to which the test applies (RFC 9004, 6.1)".to_owned(),
        ];
        let count = outcome.bursts.len();
        if count < REPETITIONS as usize {
            reasons.push(format!(
                "{count} repetitions, not {REPETITIONS} (RFC 2544, 26.4)"
            ));
        }
        let longest = self.longest_burst;
        if longest < BURST_MIN {
            reasons.push(format!(
                "bursts of up to {longest:?}, not of {BURST_MIN:?} (RFC 2544, 26.4)"
            ));
        }
        if outcome.unbounded > 0 && longest < BURST_UNBOUNDED {
            reasons.push(format!(
                "{} repetitions had no loss in a burst of {longest:?}, the longest that was tried, not of \
                 {BURST_UNBOUNDED:?} (RFC 9004, 6.2): the value is a lower bound",
                outcome.unbounded
            ));
        }
        Standing::Partial(reasons)
    }
}

impl BackToBackSearch {
    /// A test that has run no burst yet.
    ///
    /// # Errors
    ///
    /// Values with which the test means nothing.
    pub fn new(input: Input) -> Result<Self, BackToBackError> {
        let longest = input.max_theoretical_pps * input.longest_burst.as_secs_f64();
        let checks = [
            ("the throughput", input.throughput_pps > 0.0),
            ("the longest burst", longest >= 1.0 && longest.is_finite()),
            ("the resolution", input.resolution_packets > 0),
            ("the number of tries", input.tries > 0),
        ];
        if let Some((name, _)) = checks.into_iter().find(|(_, is_good)| !is_good) {
            return Err(BackToBackError::Zero { name });
        }
        if input.throughput_pps >= input.max_theoretical_pps {
            return Err(BackToBackError::NotApplicable {
                throughput: input.throughput_pps,
                max: input.max_theoretical_pps,
            });
        }
        Ok(Self {
            input,
            longest: longest as u64,
            good: 0,
            bad: None,
            tried: 0,
            bursts: Vec::new(),
            unbounded: 0,
        })
    }

    fn burst(&self) -> u64 {
        match self.bad {
            None => self.longest,
            Some(bad) => u64::midpoint(self.good, bad),
        }
    }

    fn close_repetition_if_narrow(&mut self) {
        let is_unbounded = self.good == self.longest;
        let gap = self.bad.unwrap_or(self.longest) - self.good;
        // Neighbouring numbers have no burst between them.
        if is_unbounded || gap <= self.input.resolution_packets {
            self.bursts.push(self.good);
            self.unbounded += u32::from(is_unbounded);
            (self.good, self.bad) = (0, None);
        }
    }
}

impl Search for BackToBackSearch {
    type Outcome = BackToBackOutcome;

    fn next(&mut self) -> Option<Trial> {
        if self.bursts.len() >= self.input.repetitions as usize {
            return None;
        }
        let packets = self.burst();
        let seconds = packets as f64 / self.input.max_theoretical_pps;
        Some(Trial {
            load_pps: self.input.max_theoretical_pps,
            duration: Duration::from_secs_f64(seconds),
            packet_count: Some(packets),
        })
    }

    fn report(&mut self, result: &TrialResult) -> Result<(), ReportError> {
        self.next().ok_or(ReportError::NoTrialDue)?;
        let is_lossy = result.loss_ratio()? > 0.0;
        self.tried += 1;
        if is_lossy && self.tried < self.input.tries {
            return Ok(());
        }
        self.tried = 0;
        let burst = self.burst();
        if is_lossy {
            self.bad = Some(burst);
        } else {
            self.good = burst;
        }
        self.close_repetition_if_narrow();
        Ok(())
    }

    fn finish(self) -> BackToBackOutcome {
        let count = self.bursts.len() as f64;
        let sum: f64 = self.bursts.iter().map(|burst| *burst as f64).sum();
        let mean = (count > 0.0).then(|| sum / count);
        let squares = mean.filter(|_| count > 1.0).map(|mean| {
            let squares = self
                .bursts
                .iter()
                .map(|burst| (*burst as f64 - mean).powi(2));
            squares.sum::<f64>()
        });
        let implied = mean.map(|mean| mean / self.input.max_theoretical_pps);
        let left = 1.0 - self.input.throughput_pps / self.input.max_theoretical_pps;
        BackToBackOutcome {
            bursts: self.bursts,
            unbounded: self.unbounded,
            mean_packets: mean,
            deviation_packets: squares.map(|squares| (squares / (count - 1.0)).sqrt()),
            implied_buffer_s: implied,
            corrected_buffer_s: implied.map(|implied| implied * left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::search::run;

    const INPUT: Input = Input {
        max_theoretical_pps: 14_880_952.0,
        throughput_pps: 11_160_714.0,
        longest_burst: Duration::from_secs(2),
        resolution_packets: 1,
        repetitions: 5,
        tries: 2,
    };

    /// A device with a buffer: it overflows when arrivals outrun departures by its size.
    fn forward(trial: &Trial, buffer: f64) -> TrialResult {
        let packets = trial.packet_count.unwrap();
        let share = 1.0 - INPUT.throughput_pps / INPUT.max_theoretical_pps;
        let lost = (packets as f64 * share - buffer).ceil().max(0.0) as u64;
        TrialResult {
            intended_packets: packets,
            forwarded_packets: packets - lost,
            effective_duration: trial.duration,
        }
    }

    #[test]
    fn the_buffer_of_a_device_is_found_to_the_packet() {
        let search = BackToBackSearch::new(INPUT).unwrap();
        let outcome = run(search, |trial| forward(trial, 4096.0)).unwrap();
        let drained = 1.0 - INPUT.throughput_pps / INPUT.max_theoretical_pps;
        let expected = (4096.0 / drained) as u64;
        assert_eq!(outcome.bursts, [expected; 5]);
        assert_eq!(outcome.unbounded, 0);
        let corrected = outcome.corrected_buffer_s.unwrap();
        let buffer_packets = corrected * INPUT.max_theoretical_pps;
        assert!((buffer_packets - 4096.0).abs() < 1.0, "{buffer_packets}");
    }

    #[test]
    fn a_burst_lost_by_accident_is_tried_again() {
        let mut trials = 0;
        let search = BackToBackSearch::new(INPUT).unwrap();
        let outcome = run(search, |trial| {
            trials += 1;
            let buffer = if trials % 7 == 0 { 0.0 } else { 4096.0 };
            forward(trial, buffer)
        });
        let bursts = outcome.unwrap().bursts;
        let clean = run(BackToBackSearch::new(INPUT).unwrap(), |trial| {
            forward(trial, 4096.0)
        });
        assert_eq!(bursts, clean.unwrap().bursts);
    }

    #[test]
    fn what_never_overflows_is_marked() {
        let search = BackToBackSearch::new(INPUT).unwrap();
        let outcome = run(search, |trial| forward(trial, 1e12)).unwrap();
        assert_eq!(outcome.unbounded, 5);
        let text = format!("{:?}", INPUT.standing(&outcome));
        assert!(
            text.contains("5 repetitions had no loss in a burst of 2s"),
            "{text}"
        );
    }

    /// A tester in the device's machine is one shortfall of three that no option mends.
    #[test]
    fn what_a_test_lacks_is_named() {
        let reasons = |repetitions, longest_burst| {
            let input = Input {
                repetitions,
                longest_burst,
                ..INPUT
            };
            let search = BackToBackSearch::new(input).unwrap();
            let outcome = run(search, |trial| forward(trial, 4096.0)).unwrap();
            match input.standing(&outcome) {
                Standing::Partial(reasons) => reasons[3..].join("; "),
                other => panic!("{other:?}"),
            }
        };
        let short = reasons(10, Duration::from_millis(100));
        assert_eq!(
            short,
            "10 repetitions, not 50 (RFC 2544, 26.4); bursts of up to 100ms, not of 2s (RFC 2544, \
             26.4)"
        );
        assert_eq!(reasons(50, Duration::from_secs(2)), "");
    }

    #[test]
    fn a_device_at_line_rate_is_refused() {
        let input = Input {
            throughput_pps: INPUT.max_theoretical_pps,
            ..INPUT
        };
        let error = BackToBackSearch::new(input).unwrap_err();
        assert!(error.to_string().contains("does not apply"));
    }
}
