//! Searches: which trial to run next, and what the results say.
//!
//! A search is a state machine without a clock and without I/O. Whoever runs trials asks
//! [`Search::next`] for a [`Trial`], runs it, reports the [`TrialResult`], and repeats until `next`
//! gives `None`; [`Search::finish`] gives the outcome, also when a search was cut short.
//!
//! | state | `next` | `report` | `finish` |
//! |---|---|---|---|
//! | a trial is due | gives that trial, however often asked | counts it; another is due, or done | the outcome so far, marked as interrupted |
//! | done | `None` | refused: no trial is due | the outcome |
//!
//! A trial that was disturbed (clock step, migration, throttling) is not reported: `next` gives it
//! again.
//!
//! - [`mlr`]: MLRsearch, throughput for several loss ratios at once; [`preset`] has its goals.
//! - [`mrr`]: forwarding rate at the highest load.
//! - [`back_to_back`]: longest burst without loss, RFC 9004.
//! - [`soak`]: loss over a long time at one load.
//! - [`steady`]: whether a search's later trials lost what its earlier ones did.

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub mod back_to_back;
pub mod classification;
pub mod goal;
pub mod held;
pub mod mlr;
pub mod mrr;
pub mod preset;
#[cfg(test)]
pub(crate) mod simulated_device;
pub mod soak;
pub mod steady;

/// What a trial shall be: MLRsearch's Trial Input (RFC 9971 4.5.3), and for bursts how many
/// packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// Intended Load in packets per second, over all interfaces.
    pub load_pps: f64,
    /// How long to offer it.
    pub duration: Duration,
    /// Exactly so many packets, for bursts; otherwise as many as load and duration give.
    pub packet_count: Option<u64>,
}

impl Trial {
    pub(crate) fn new(load_pps: f64, duration: Duration) -> Self {
        Self {
            load_pps,
            duration,
            packet_count: None,
        }
    }
}

/// What came of a trial: MLRsearch's Trial Output (RFC 9971 4.5.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrialResult {
    /// Packets that the trial should have offered; those that could not be sent count as lost.
    pub intended_packets: u64,
    /// Packets that came back in time, without duplicates.
    pub forwarded_packets: u64,
    /// How long the trial took with all that belongs to it, for the sums of durations. The
    /// simplest honest value is the trial's duration.
    pub effective_duration: Duration,
}

impl TrialResult {
    /// Lost share of the intended packets, 0 to 1.
    ///
    /// # Errors
    ///
    /// A result that cannot be: nothing intended, or more forwarded than intended. Negative loss
    /// means that counters were read while packets moved, and is never taken for zero.
    pub fn loss_ratio(&self) -> Result<f64, ReportError> {
        if self.intended_packets == 0 {
            return Err(ReportError::NothingIntended);
        }
        if self.forwarded_packets > self.intended_packets {
            return Err(ReportError::NegativeLoss {
                intended: self.intended_packets,
                forwarded: self.forwarded_packets,
            });
        }
        let lost = self.intended_packets - self.forwarded_packets;
        Ok(lost as f64 / self.intended_packets as f64)
    }
}

/// Why a result was refused. The trial stays due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// Loss has no value.
    #[error("the trial intended no packet, so its loss ratio has no value; raise load or duration")]
    NothingIntended,
    /// Counters are wrong.
    #[error(
        "{forwarded} packets forwarded of {intended} intended: negative loss; read counters only \
         after traffic has stopped and drained, and count duplicates apart"
    )]
    NegativeLoss {
        /// Packets intended.
        intended: u64,
        /// Packets counted as forwarded.
        forwarded: u64,
    },
    /// Sums of durations would never grow.
    #[error("the trial has an effective duration of zero; report at least the time it sent for")]
    NoDuration,
    /// The search is over.
    #[error("a result was reported, but no trial is due; ask next() first")]
    NoTrialDue,
}

/// A search as seen by whoever runs its trials.
pub trait Search {
    /// What it finds.
    type Outcome;

    /// The trial to run now, the same until a result is reported; `None` when done.
    fn next(&mut self) -> Option<Trial>;

    /// Takes the result of the trial that [`Self::next`] gave.
    ///
    /// # Errors
    ///
    /// A result that cannot be, or none was due; the search is as before.
    fn report(&mut self, result: &TrialResult) -> Result<(), ReportError>;

    /// Ends the search, finished or not.
    fn finish(self) -> Self::Outcome;
}

/// Runs a search to its end with a function that runs trials.
///
/// # Errors
///
/// The first result that was refused.
pub fn run<S: Search>(
    mut search: S,
    mut measure: impl FnMut(&Trial) -> TrialResult,
) -> Result<S::Outcome, ReportError> {
    while let Some(trial) = search.next() {
        search.report(&measure(&trial))?;
    }
    Ok(search.finish())
}

/// Nanoseconds of a duration; some 584 years are the most that anybody measures.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}
