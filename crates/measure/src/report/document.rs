//! Everything that a report shows: results of one run or study; itself the JSON beside the page.

use serde::{Deserialize, Serialize};

use crate::blame::Blame;
use crate::compare::Comparison;
use crate::latency::Latency;
use crate::latency::stall::{Attribution, NoiseBracket};
use crate::search::mlr::GoalResult;
use crate::search::preset::{Preset, Standing};
use crate::stats::Interval;
use crate::stats::histogram::Histogram;
use crate::study::summary::StudyResults;

use super::over_time::OverTime;
use super::trial_row::TrialRow;
use super::valued::Valued;
use crate::csv::quoted;

/// Version of the form of documents; goes up when a reader of the old form would err.
pub const SCHEMA: &str = "catena.measure.report/1";

/// How names of results begin that say how far others keep to the documents they are named after.
pub const STANDING: &str = "standing: ";

/// All results of one run or study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`SCHEMA`].
    pub schema: String,
    /// What was measured.
    pub title: String,
    /// What was found, in a sentence or a few.
    pub summary: String,
    /// When it began, RFC 3339.
    pub began: String,
    /// Machine, kernel, versions, settings: name and value, in the order shown.
    pub environment: Vec<(String, String)>,
    /// Settings that this machine does not have, and why.
    pub unsupported: Vec<(String, String)>,
    /// Every command that leads to these numbers, in order.
    pub commands: Vec<String>,
    /// Results that have no table of their own: name and value, in the order shown.
    #[serde(default)]
    pub results: Vec<(String, String)>,
    /// Single values with their intervals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<Valued>,
    /// Throughput results.
    #[serde(default)]
    pub throughput: Vec<Throughput>,
    /// Latency results.
    #[serde(default)]
    pub latency: Vec<LatencyResult>,
    /// Results of a study.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub study: Option<StudyResults>,
    /// Blame tables, by what was measured.
    #[serde(default)]
    pub blame: Vec<(String, Blame)>,
    /// Comparisons, by what was compared.
    #[serde(default)]
    pub comparisons: Vec<(String, Comparison)>,
    /// Noise floors around trials, by trial.
    #[serde(default)]
    pub noise: Vec<(String, NoiseBracket)>,
    /// What the probes cost: throughput with them over throughput without.
    pub probe_tax: Option<Comparison>,
    /// Every trial, in order.
    #[serde(default)]
    pub trials: Vec<TrialRow>,
}

/// Throughput of one system under one traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Throughput {
    /// The system, such as a mode or a port kind: one colour of the bars.
    pub system: String,
    /// The traffic, such as a packet size: one place of the bars.
    pub traffic: String,
    /// Goals that were searched for.
    pub preset: Preset,
    /// How far the result may call itself after the preset.
    pub standing: Standing,
    /// Results of the goals.
    pub goals: Vec<GoalResult>,
    /// Interval over repetitions of the first goal's conditional throughput, packets per second.
    pub interval: Option<Interval>,
}

/// Latency of one system under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// The system and its load.
    pub name: String,
    /// Numbers by definition.
    pub latency: Latency,
    /// Delay from intended sending, ns.
    pub histogram: Histogram,
    /// Quantiles of the delay with their intervals, ns.
    #[serde(default)]
    pub intervals_ns: Vec<(f64, Interval)>,
    /// With the machine's stalls told apart.
    pub attribution: Option<Attribution>,
    /// Delay over time.
    pub over_time: Option<OverTime>,
}

/// Why a text is no document.
#[derive(Debug, thiserror::Error)]
pub enum DocumentError {
    /// Not JSON, or not of this form.
    #[error("not a report document: {0}; see docs/reference/measure-report.md")]
    Form(#[from] serde_json::Error),
    /// Another version.
    #[error(
        "the document is of form \"{0}\", this reads \"{SCHEMA}\"; use the program it came from"
    )]
    Schema(String),
}

impl Document {
    /// A document without results.
    pub fn new(title: impl Into<String>, began: impl Into<String>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            title: title.into(),
            summary: String::new(),
            began: began.into(),
            environment: Vec::new(),
            unsupported: Vec::new(),
            commands: Vec::new(),
            results: Vec::new(),
            values: Vec::new(),
            throughput: Vec::new(),
            latency: Vec::new(),
            study: None,
            blame: Vec::new(),
            comparisons: Vec::new(),
            noise: Vec::new(),
            probe_tax: None,
            trials: Vec::new(),
        }
    }

    /// Reads what [`Self::to_json`] wrote.
    ///
    /// # Errors
    ///
    /// Text that is no document of this version.
    pub fn from_json(text: &str) -> Result<Self, DocumentError> {
        #[derive(Deserialize)]
        struct Version {
            schema: String,
        }
        let Version { schema } = serde_json::from_str(text)?;
        if schema != SCHEMA {
            return Err(DocumentError::Schema(schema));
        }
        Ok(serde_json::from_str(text)?)
    }

    /// How far results keep to the documents that they are named after.
    pub fn standings(&self) -> Vec<&(String, String)> {
        let rows = self.results.iter();
        rows.filter(|(name, _)| name.starts_with(STANDING))
            .collect()
    }

    /// The document as JSON.
    ///
    /// # Errors
    ///
    /// None that a document built from numbers and text can cause.
    pub fn to_json(&self) -> Result<String, DocumentError> {
        // Thousands of buckets of histograms, one a line, would make a study's document five times
        // as large.
        let text = match &self.study {
            Some(_) => serde_json::to_string(self)?,
            None => serde_json::to_string_pretty(self)?,
        };
        Ok(text + "\n")
    }
}

/// The trials as CSV (RFC 4180), with a line of names first.
pub fn csv(document: &Document) -> String {
    let mut text = String::from("name,load_pps,duration_s,intended,forwarded,loss_ratio,invalid\n");
    for trial in &document.trials {
        let lost = trial.intended.saturating_sub(trial.forwarded);
        let loss_ratio = lost as f64 / trial.intended.max(1) as f64;
        let fields = [
            quoted(&trial.name),
            trial.load_pps.to_string(),
            trial.duration_s.to_string(),
            trial.intended.to_string(),
            trial.forwarded.to_string(),
            loss_ratio.to_string(),
            quoted(trial.invalid.as_deref().unwrap_or_default()),
        ];
        text.push_str(&fields.join(","));
        text.push('\n');
    }
    text
}
