//! Settings of `pktgenrcv`, as a chain file has them: checked before anything starts.

use std::path::PathBuf;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::units::{ByteSize, Rate, Span};
use catena_measure::stamp::STAMP_LEN;
use catena_pcs::params::FCS_LEN;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::filling::HEADERS_LEN;
use crate::chunk::{CODEWORDS_MAX, GROUP_OCTETS, codewords_in};

/// What is in a chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Payload {
    /// Stamped Ethernet frames.
    #[default]
    Frames,
    /// Octets, for a chain without coding.
    Raw,
}

/// Lengths of frames.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "lengths of frames are one number, or a list of numbers that take turns"
)]
enum Sizes {
    One(u16),
    Several(Vec<u16>),
}

/// How fast chunks go.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a rate is written like 10.3125Gbps of line bits, or 1kpps of chunks, or sustained"
)]
enum Pace {
    Word(Sustained),
    At(Rate),
}

#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Sustained {
    Sustained,
}

/// The chain file's keys.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Config {
    /// Length of a chunk on the line, in whole groups of four codewords (1023 bytes).
    #[serde(default = "Config::default_chunk")]
    chunk: ByteSize,
    /// What is in it.
    #[serde(default)]
    pub(super) payload: Payload,
    /// Lengths of frames without check sequence, in turn.
    #[serde(default = "Config::default_sizes")]
    size: Sizes,
    /// Logical link identifier of the frames.
    #[serde(default = "Config::default_llid")]
    pub(super) llid: u16,
    /// Line bits or chunks per second; `sustained`, as if left out, sends when a chunk has come
    /// back.
    rate: Option<Pace>,
    /// Chunks under way at most.
    #[serde(default = "Config::default_window")]
    pub(super) window: u16,
    /// How many chunks to send; without it and `duration`, for ever.
    pub(super) count: Option<u64>,
    /// How long to send; without it and `count`, for ever.
    pub(super) duration: Option<Span>,
    /// Chunks of idle before the first frame, in which an ONU finds lock; they are not measured.
    #[serde(default = "Config::default_lead")]
    pub(super) lead: u32,
    /// Most chunks of idle behind the last frame, by which what is under way comes home.
    #[serde(default = "Config::default_tail")]
    pub(super) tail: u32,
    /// Chunks at the start that are sent and judged, but whose times are not counted.
    #[serde(default)]
    pub(super) warm_up: u64,
    /// Compare every octet that comes back with what was sent.
    #[serde(default = "Config::verifies")]
    pub(super) verify: bool,
    /// How long a chunk may be under way before it counts as lost.
    #[serde(default = "Config::default_timeout")]
    pub(super) timeout: Span,
    /// Number in the stamps, by which chunks of others are told apart.
    #[serde(default)]
    pub(super) trial: u8,
    /// Write counts and histograms, as JSON, to this file when the chain ends; to none if left out.
    pub(super) results: Option<PathBuf>,
}

/// Most chunks under way.
pub(super) const WINDOW_MAX: u16 = 256;
/// Most lengths in turn.
const SIZE_COUNT_MAX: usize = 64;
/// Longest frame, without check sequence.
const SIZE_MAX: u16 = 16_380;
const TIMEOUT_NS: std::ops::RangeInclusive<u64> = 1_000_000..=60_000_000_000;

impl Config {
    const fn default_chunk() -> ByteSize {
        ByteSize { bytes: 8192 }
    }

    const fn default_sizes() -> Sizes {
        Sizes::One(1514)
    }

    const fn default_llid() -> u16 {
        1
    }

    const fn default_window() -> u16 {
        1
    }

    const fn default_lead() -> u32 {
        4
    }

    const fn default_tail() -> u32 {
        64
    }

    const fn verifies() -> bool {
        true
    }

    const fn default_timeout() -> Span {
        Span { ns: 1_000_000_000 }
    }

    /// Reads and checks a node's configuration.
    ///
    /// # Errors
    /// Everything that is wrong.
    pub(super) fn parse(config: &serde_json::Value) -> Result<Self, ConfigErrors> {
        let config: Self = parse_config(config)?;
        let errors = config.errors();
        if errors.is_empty() {
            return Ok(config);
        }
        Err(errors)
    }

    fn errors(&self) -> ConfigErrors {
        let mut errors = Vec::new();
        let mut refuse = |path: &str, message: String, repair: String| {
            errors.push(ConfigError::new(path, message, repair));
        };
        if codewords_in(self.chunk.bytes).is_none() {
            let most = u64::from(CODEWORDS_MAX / 4 * GROUP_OCTETS);
            refuse(
                "chunk",
                format!("a chunk of {} bytes", self.chunk.bytes),
                format!("write {GROUP_OCTETS}B, which is four codewords, to {most}B, such as 8KiB"),
            );
        }
        let least = HEADERS_LEN.max(60 - STAMP_LEN) + STAMP_LEN;
        let (sizes, limits) = (self.sizes(), least..=usize::from(SIZE_MAX));
        let wrong = |size: &&u16| !limits.contains(&usize::from(**size));
        if let Some(size) = sizes.iter().find(wrong) {
            refuse(
                "size",
                format!("frames of {size} octets"),
                format!("write {least} to {SIZE_MAX}, without the {FCS_LEN} of the check sequence"),
            );
        }
        if sizes.is_empty() || sizes.len() > SIZE_COUNT_MAX {
            refuse(
                "size",
                format!("{} lengths of frames", sizes.len()),
                format!("write 1 to {SIZE_COUNT_MAX}"),
            );
        }
        if !(1..=WINDOW_MAX).contains(&self.window) {
            refuse(
                "window",
                format!("{} chunks under way", self.window),
                format!("write 1 to {WINDOW_MAX}"),
            );
        }
        if !TIMEOUT_NS.contains(&self.timeout.ns) {
            refuse(
                "timeout",
                format!("a timeout of {} ns", self.timeout.ns),
                "write 1ms to 60s".to_owned(),
            );
        }
        errors
    }

    pub(super) fn codewords(&self) -> u32 {
        codewords_in(self.chunk.bytes).unwrap_or(CODEWORDS_MAX)
    }

    pub(super) fn sizes(&self) -> &[u16] {
        match &self.size {
            Sizes::One(size) => std::slice::from_ref(size),
            Sizes::Several(sizes) => sizes,
        }
    }

    /// Nanoseconds from one chunk to the next; none if sustained.
    pub(super) fn interval_ns(&self) -> Option<f64> {
        let chunks_per_second = match self.rate? {
            Pace::Word(Sustained::Sustained) => return None,
            Pace::At(Rate::PacketsPerSecond(rate)) => rate,
            Pace::At(Rate::BitsPerSecond(rate)) => {
                rate / (f64::from(self.codewords()) * catena_pcs::params::CODEWORD_BITS as f64)
            }
        };
        Some(1e9 / chunks_per_second)
    }
}
