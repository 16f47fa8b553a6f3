//! What a probe of the machine found, how bad that is, and what repairs it: for whoever reads it.

use serde::Serialize;

/// How a machine does in one respect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it should be.
    Ok,
    /// Measurements suffer; there is a repair.
    Warning,
    /// This machine does not have it, and nothing here depends on it.
    Unsupported,
}

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub name: &'static str,
    /// How it does.
    pub verdict: Verdict,
    /// What was seen, and what that means.
    pub seen: String,
    /// The command or setting that repairs it.
    pub repair: Option<String>,
}

impl Finding {
    pub(super) fn ok(name: &'static str, seen: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Ok,
            seen: seen.into(),
            repair: None,
        }
    }

    pub(super) fn warning(
        name: &'static str,
        seen: impl Into<String>,
        repair: impl Into<String>,
    ) -> Self {
        Self {
            name,
            verdict: Verdict::Warning,
            seen: seen.into(),
            repair: Some(repair.into()),
        }
    }

    pub(super) fn unsupported(name: &'static str, seen: impl Into<String>) -> Self {
        Self {
            name,
            verdict: Verdict::Unsupported,
            seen: seen.into(),
            repair: None,
        }
    }
}
