//! Search goals of MLRsearch (RFC 9971 4.6): what a preset names and the search, the classification
//! of loads and reports work by.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A Search Goal: what a load must keep to count as throughput.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goal {
    /// Goal Loss Ratio: a trial that loses a larger share is a high-loss trial. 0 to below 1.
    pub loss_ratio: f64,
    /// Goal Exceed Ratio: share of time that high-loss trials may have at a lower bound. 0 to
    /// below 1; RFC 9971 4.6.4 recommends 0.5.
    pub exceed_ratio: f64,
    /// Goal Final Trial Duration: trials at least as long are full-length.
    pub final_trial_duration: Duration,
    /// Goal Duration Sum: so much time of trials settles a load.
    pub duration_sum: Duration,
    /// Goal Initial Trial Duration: the shortest trial chosen for this goal; the final one if
    /// absent.
    pub initial_trial_duration: Option<Duration>,
    /// Goal Width: the search ends when upper and lower bound differ by no more than this share of
    /// the upper bound. If absent, the loss ratio, but at least [`WIDTH_DEFAULT`].
    pub width: Option<f64>,
}

/// Width of goals that name none, as a share of the upper bound.
pub const WIDTH_DEFAULT: f64 = 0.005;

/// Why a goal, or a set of them with limits of load, cannot be searched for.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GoalError {
    /// Nothing to search for.
    #[error("a search needs at least one goal")]
    NoGoal,
    /// A share outside of its range.
    #[error("goal {goal}: {name} is {value}; it must be {range}")]
    Share {
        /// Number of the goal, from 0.
        goal: usize,
        /// Name of the attribute.
        name: &'static str,
        /// Its value.
        value: f64,
        /// What it may be.
        range: &'static str,
    },
    /// A duration that must not be.
    #[error("goal {goal}: {name} is {value:?}; it must be {range}")]
    Span {
        /// Number of the goal, from 0.
        goal: usize,
        /// Name of the attribute.
        name: &'static str,
        /// Its value.
        value: Duration,
        /// What it may be.
        range: &'static str,
    },
    /// Limits of load that leave nothing to search.
    #[error("loads from {min} to {max} packets/s: they must be finite, above 0, and min below max")]
    Loads {
        /// Least load.
        min: f64,
        /// Highest load.
        max: f64,
    },
    /// Too fine for the range.
    #[error(
        "goal width {width} over loads from {min} to {max} packets/s makes {count} loads, more than \
         {LOADS_MAX}; widen the goal or narrow the range"
    )]
    TooFine {
        /// The narrowest width of all goals.
        width: f64,
        /// Least load.
        min: f64,
        /// Highest load.
        max: f64,
        /// Number of distinct loads.
        count: f64,
    },
}

/// Distinct loads of one search at most: far beyond what any tester can tell apart.
pub(super) const LOADS_MAX: usize = 10_000_000;

impl Goal {
    /// The width in force.
    pub fn width(&self) -> f64 {
        self.width.unwrap_or(self.loss_ratio.max(WIDTH_DEFAULT))
    }

    /// The shortest duration chosen for this goal.
    pub fn initial_trial_duration(&self) -> Duration {
        self.initial_trial_duration
            .unwrap_or(self.final_trial_duration)
    }

    pub(super) fn check(&self, goal: usize) -> Result<(), GoalError> {
        let share = |name, value: f64, is_good: bool, range| {
            if is_good {
                Ok(())
            } else {
                Err(GoalError::Share {
                    goal,
                    name,
                    value,
                    range,
                })
            }
        };
        let below_one = 0.0..1.0;
        for (name, value) in [
            ("loss ratio", self.loss_ratio),
            ("exceed ratio", self.exceed_ratio),
        ] {
            let is_good = below_one.contains(&value);
            share(name, value, is_good, "from 0 to below 1")?;
        }
        let width = self.width();
        let is_good = width > 0.0 && width < 1.0;
        share("width", width, is_good, "above 0 and below 1")?;
        let span = |name, value: Duration, is_good: bool, range| {
            if is_good {
                Ok(())
            } else {
                Err(GoalError::Span {
                    goal,
                    name,
                    value,
                    range,
                })
            }
        };
        let (initial, last) = (self.initial_trial_duration(), self.final_trial_duration);
        span("final trial duration", last, !last.is_zero(), "above 0")?;
        let sum = self.duration_sum;
        span("duration sum", sum, !sum.is_zero(), "above 0")?;
        let is_good = !initial.is_zero() && initial <= last;
        let range = "above 0 and not above the final trial duration";
        span("initial trial duration", initial, is_good, range)
    }
}
