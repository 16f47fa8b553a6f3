//! Settings of `pcap`, as a chain file has them: checked before a file is opened.

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::path::PathBuf;

use catena_engine::config::{ConfigError, ConfigErrors};
use catena_engine::port::PortRole;
use catena_engine::units::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::capture::CaptureFormat;

/// What to read or write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// File to receive packets from, pcap or pcapng by its contents; without it, none are.
    pub(super) read: Option<PathBuf>,
    /// When to receive them: at the gaps they were `recorded` with, at a rate (`10kpps`, `1Gbps`),
    /// or as fast as the chain takes them (`max`, the default). For `read`.
    pub(super) pace: Option<Pace>,
    /// How often to read the file: a number or `forever`; once without it. For `read`.
    #[serde(rename = "loop")]
    pub(super) laps: Option<Laps>,
    /// Most packets to receive; all without it. For `read`.
    pub(super) limit: Option<u64>,
    /// File to send packets to; one from before the chain was started is replaced.
    /// Without it, none are sent.
    pub(super) write: Option<PathBuf>,
    /// Format of the written file; by its extension without it. For `write`.
    pub(super) format: Option<Format>,
    /// Most bytes written of a packet; all without it. For `write`.
    pub(super) snaplen: Option<u32>,
}

/// When packets are received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum Pace {
    #[default]
    Max,
    Recorded,
    Rate(Rate),
}

impl<'de> Deserialize<'de> for Pace {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "max" => Ok(Self::Max),
            "recorded" => Ok(Self::Recorded),
            rate => Rate::parse(rate)
                .map(Self::Rate)
                .map_err(|error| serde::de::Error::custom(format!("{error}, or recorded, or max"))),
        }
    }
}

impl JsonSchema for Pace {
    fn schema_name() -> Cow<'static, str> {
        "Pace".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "enum": ["max", "recorded"] }, generator.subschema_for::<Rate>()],
        })
    }
}

/// How often a file is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write a number above 0, or forever")]
pub(super) enum Laps {
    Count(NonZeroU64),
    Word(LapsWord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum LapsWord {
    Forever,
}

/// Format of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Format {
    Pcap,
    Pcapng,
}

impl Config {
    pub(super) fn check(&self) -> Result<PortRole, ConfigErrors> {
        let reads = match (&self.read, &self.write) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(_), Some(_)) => {
                return Err(vec![ConfigError::new(
                    "write",
                    "a pcap port either reads or writes",
                    "make two ports",
                )]);
            }
            (None, None) => {
                return Err(vec![ConfigError::new(
                    "",
                    "no file",
                    "name one with read: FILE or write: FILE",
                )]);
            }
        };
        let fields = [
            ("pace", self.pace.is_some(), true),
            ("loop", self.laps.is_some(), true),
            ("limit", self.limit.is_some(), true),
            ("format", self.format.is_some(), false),
            ("snaplen", self.snaplen.is_some(), false),
        ];
        let mut errors: ConfigErrors = fields
            .into_iter()
            .filter(|(_, is_given, is_for_reading)| *is_given && *is_for_reading != reads)
            .map(|(name, ..)| {
                let verb = if reads { "write" } else { "read" };
                ConfigError::new(name, format!("only for a port with {verb}"), "leave it out")
            })
            .collect();
        if self.snaplen == Some(0) {
            errors.push(ConfigError::new(
                "snaplen",
                "nothing would be written",
                "give 1 or more",
            ));
        }
        if errors.is_empty() {
            Ok(PortRole::of(reads, !reads))
        } else {
            Err(errors)
        }
    }

    pub(super) fn format(&self, path: &std::path::Path) -> CaptureFormat {
        match self.format {
            Some(Format::Pcap) => CaptureFormat::Pcap,
            Some(Format::Pcapng) => CaptureFormat::PcapNg,
            None => CaptureFormat::from_path(path),
        }
    }
}
