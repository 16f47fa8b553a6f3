//! Settings of `epon_phy`, as a chain file has them: checked before anything starts.

use std::ops::RangeInclusive;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_pcs::params::Params;
use catena_pcs::stage::Direction;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which end of the fibre.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Role {
    /// The head end.
    Olt,
    /// The subscriber's end.
    Onu,
}

/// What the node does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Task {
    /// Frames to line bits.
    Transmit,
    /// Line bits to frames.
    Receive,
}

/// Which implementation of the coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Implementation {
    /// Vector instructions, in real time.
    #[default]
    Fast,
    /// Bit by bit: the same result, a thousand times slower, and it allocates.
    Reference,
}

/// Settings of `epon_phy`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Which end of the fibre it is.
    role: Role,
    /// Whether it turns frames into line bits or line bits into frames.
    pub(super) direction: Task,
    /// Whether it codes at all; without, chunks pass untouched.
    #[serde(default = "yes")]
    pub(super) pcs: bool,
    /// Which implementation of the coding.
    #[serde(default)]
    pub(super) implementation: Implementation,
    /// An ONU's logical link identifier: it sends all frames under it and takes those for it.
    /// Without it, an ONU sends frames under the identifier that they have, and takes all.
    pub(super) llid: Option<u16>,
    /// Longest frame in octets, with check sequence; the same at both ends.
    #[serde(default = "Limits::max_frame")]
    max_frame: u16,
    /// Blocks of sync pattern in front of a burst (ONU, transmit); 64 if left out.
    sync_blocks: Option<u16>,
    /// Idle blocks into the FIFO after which a burst ends (ONU, transmit); without it, a burst ends
    /// with the codeword of its last frame.
    delay_bound: Option<u16>,
    /// Codewords in a row whose headers must fit for lock (ONU, receive); 2 if left out.
    lock_codewords: Option<u8>,
    /// Bad codewords in a row by which lock or burst is lost (receive); 3 if left out.
    loss_codewords: Option<u8>,
    /// Codewords over which wrong headers are counted (receive); 630 if left out.
    ber_window: Option<u16>,
    /// Wrong headers in that window from which the bit error rate is high (receive); 64 if left
    /// out.
    ber_limit: Option<u16>,
    /// Whether frames are withheld while the bit error rate is high (receive); they are not if left
    /// out.
    ber_withholds: Option<bool>,
}

const fn yes() -> bool {
    true
}

/// What settings may be.
struct Limits;

impl Limits {
    const MAX_FRAME: RangeInclusive<u16> = 64..=16_384;
    /// At most 8.25 KiB in front of a burst.
    const SYNC_BLOCKS: RangeInclusive<u16> = 1..=1024;
    const DELAY_BOUND: RangeInclusive<u16> = 1..=4096;
    /// A receiver looks back at 40 codewords.
    const LOCK: RangeInclusive<u8> = 1..=16;
    const LOSS: RangeInclusive<u8> = 1..=255;
    /// At most 13 ms.
    const BER: RangeInclusive<u16> = 1..=u16::MAX;

    const fn max_frame() -> u16 {
        2000
    }
}

impl Config {
    /// Which way the line bits go.
    pub(super) fn line(&self) -> Direction {
        match (self.role, self.direction) {
            (Role::Olt, Task::Transmit) | (Role::Onu, Task::Receive) => Direction::Downstream,
            (Role::Onu, Task::Transmit) | (Role::Olt, Task::Receive) => Direction::Upstream,
        }
    }

    /// Reads and checks a node's configuration.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(super) fn parse(config: &serde_json::Value) -> Result<Self, ConfigErrors> {
        let config: Self = parse_config(config)?;
        let mut errors = config.misplaced();
        errors.extend(config.beyond_limits());
        if errors.is_empty() {
            return Ok(config);
        }
        Err(errors)
    }

    /// Settings that this role and direction do not have.
    fn misplaced(&self) -> ConfigErrors {
        let onu = self.role == Role::Onu;
        let sends = self.direction == Task::Transmit;
        let is_sender = onu && sends;
        let is_receiver = onu && !sends;
        let sender = "an ONU that transmits";
        let settings = [
            ("llid", self.llid.is_some(), onu, "an ONU"),
            ("sync_blocks", self.sync_blocks.is_some(), is_sender, sender),
            ("delay_bound", self.delay_bound.is_some(), is_sender, sender),
            (
                "lock_codewords",
                self.lock_codewords.is_some(),
                is_receiver,
                "an ONU that receives",
            ),
            (
                "loss_codewords",
                self.loss_codewords.is_some(),
                !sends,
                "a receiver",
            ),
            (
                "ber_window",
                self.ber_window.is_some(),
                !sends,
                "a receiver",
            ),
            ("ber_limit", self.ber_limit.is_some(), !sends, "a receiver"),
            (
                "ber_withholds",
                self.ber_withholds.is_some(),
                !sends,
                "a receiver",
            ),
        ];
        let wrong = settings
            .iter()
            .filter(|(_, is_set, fits, _)| *is_set && !fits);
        let mut errors: ConfigErrors = wrong
            .map(|(path, _, _, whose)| {
                ConfigError::new(
                    *path,
                    format!("{path} is a setting of {whose}"),
                    "remove it, or correct role and direction",
                )
            })
            .collect();
        if !self.pcs && self.implementation == Implementation::Reference {
            errors.push(ConfigError::new(
                "implementation",
                "without pcs nothing is coded",
                "remove implementation, or pcs: false",
            ));
        }
        errors
    }

    fn beyond_limits(&self) -> impl Iterator<Item = ConfigError> {
        let wide = |limits: RangeInclusive<u8>| u16::from(*limits.start())..=(*limits.end()).into();
        let settings = [
            ("max_frame", Some(self.max_frame), Limits::MAX_FRAME),
            ("sync_blocks", self.sync_blocks, Limits::SYNC_BLOCKS),
            ("delay_bound", self.delay_bound, Limits::DELAY_BOUND),
            ("ber_window", self.ber_window, Limits::BER),
            ("ber_limit", self.ber_limit, Limits::BER),
            (
                "lock_codewords",
                self.lock_codewords.map(u16::from),
                wide(Limits::LOCK),
            ),
            (
                "loss_codewords",
                self.loss_codewords.map(u16::from),
                wide(Limits::LOSS),
            ),
        ];
        settings.into_iter().filter_map(|(path, value, limits)| {
            let value = value.filter(|value| !limits.contains(value))?;
            let (low, high) = limits.into_inner();
            let repair = format!("write {low} to {high}");
            Some(ConfigError::new(path, format!("{path} is {value}"), repair))
        })
    }

    /// Parameters of the coding.
    pub(super) fn params(&self) -> Params {
        let defaults = Params::default();
        let or = |chosen: Option<u16>, default| chosen.map_or(default, usize::from);
        Params {
            frame_len_with_fcs_max: self.max_frame.into(),
            sync_blocks: or(self.sync_blocks, defaults.sync_blocks),
            delay_bound: self.delay_bound.map(usize::from),
            lock_codewords: or(self.lock_codewords.map(u16::from), defaults.lock_codewords),
            ber_window_codewords: self
                .ber_window
                .map_or(defaults.ber_window_codewords, u32::from),
            ber_headers_max: self.ber_limit.map_or(defaults.ber_headers_max, u32::from),
            high_ber_withholds: self.ber_withholds.unwrap_or(defaults.high_ber_withholds),
            loss_codewords: or(self.loss_codewords.map(u16::from), defaults.loss_codewords),
            ..defaults
        }
    }
}
