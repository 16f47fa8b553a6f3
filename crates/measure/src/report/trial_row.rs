//! A trial as a report shows it: a row of its tables, and what a study's journal keeps of it.

use serde::{Deserialize, Serialize};

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRow {
    /// What it belongs to.
    pub name: String,
    /// Offered load, packets per second.
    pub load_pps: f64,
    /// Duration in seconds.
    pub duration_s: f64,
    /// Packets that should have been offered.
    pub intended: u64,
    /// Packets that came back.
    pub forwarded: u64,
    /// Why it does not count, if it does not.
    pub invalid: Option<String>,
}
