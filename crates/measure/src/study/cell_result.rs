//! What was measured of one combination of factors: made by `summary`, looked at by `suspicion`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::latency::steady::Steadiness;
use crate::probes::tax::Tax;
use crate::report::over_time::OverTime;
use crate::stats::Interval;
use crate::stats::histogram::Histogram;

/// A value with its interval over blocks, from two blocks on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Mean over blocks.
    pub estimate: f64,
    /// Interval.
    pub interval: Option<Interval>,
}

/// A combination.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// Its level of each factor.
    pub levels: Vec<String>,
    /// Trials with a result.
    pub trials: u32,
    /// Values by the name of a [`METRICS`](super::summary::METRICS) entry; those without a value
    /// are absent.
    pub values: BTreeMap<String, Spread>,
    /// Delays of all trials, ns.
    pub latency: Option<Histogram>,
    /// The first trial as a map of delay over time; of one combination for each of two modes.
    pub over_time: Option<OverTime>,
    /// Why a trial has no result, if one has none.
    pub failure: Option<String>,
    /// What following packets cost in the trial with probes, at that trial's load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_tax: Option<Tax>,
    /// Whether its trials had settled; none at `max`, and in older documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steadiness: Option<Steadiness>,
}
