//! What can be wrong on purpose: settings of the wrapper `fault`, checked before a chain starts.

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::units::{Share, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Fewest and most packets that may wait in a direction: two bursts of the longest kind, and 256
/// MiB.
pub const HOLD_LIMITS: (u32, u32) = (512, 65_536);

/// What to do to packets.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Decides which packets suffer; the same seed repeats the same faults.
    #[serde(default = "one")]
    pub(super) seed: u64,
    /// Faults of received packets; none without it.
    pub(super) rx: Option<Faults>,
    /// Faults of sent packets; none without it.
    pub(super) tx: Option<Faults>,
    /// Most packets that wait in each direction.
    #[serde(default = "one_thousand")]
    pub(super) hold: u32,
}

fn one() -> u64 {
    1
}

fn one_thousand() -> u32 {
    1024
}

/// The faults of one direction.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Faults {
    /// Share of packets that are lost.
    pub(super) loss: Share,
    /// Share of packets that come twice.
    pub(super) duplicate: Share,
    /// Share of packets that are passed by later ones.
    pub(super) reorder: Share,
    /// Share of packets in which a bit is inverted.
    pub(super) corrupt: Share,
    /// How long packets wait; not at all without it.
    pub(super) delay: Option<Delay>,
}

/// How long packets wait.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Delay {
    /// The least.
    #[serde(default = "no_time")]
    pub(super) fixed: Span,
    /// Up to so much more, different for each packet; the order is kept.
    #[serde(default = "no_time")]
    pub(super) jitter: Span,
}

fn no_time() -> Span {
    Span { ns: 0 }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        if self.rx.is_none() && self.tx.is_none() {
            errors.push(ConfigError::new(
                "",
                "no fault is asked for",
                "give rx, tx or both",
            ));
        }
        let (least, most) = HOLD_LIMITS;
        if !(least..=most).contains(&self.hold) {
            errors.push(ConfigError::new(
                "hold",
                format!("{} is out of range", self.hold),
                format!("give {least} to {most}"),
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}
