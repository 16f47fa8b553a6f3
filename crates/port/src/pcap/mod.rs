//! `pcap`: reads packets from a capture file, or writes them to one.
//!
//! First or last step of a packet's life. Reading waits for buffers, so every record before the end
//! or the first damage is received; damage is told at the end and the chain works on what came
//! before. Writing never stops a chain either: packets that a full disk has no room for are
//! refused, and the error is told at the end. The files themselves are
//! [`capture`](crate::capture)'s.
//!
//! File access blocks; a slow disk slows the worker that owns the port.

mod reading;
mod writing;

use std::borrow::Cow;
use std::num::NonZeroU64;
use std::path::PathBuf;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::port::{PortKind, PortRole};
use catena_engine::units::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use crate::capture::CaptureFormat;
use crate::opening::{parse, refused, resolve};
use reading::Reading;
use writing::Writing;

/// What to read or write.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// File to receive packets from, pcap or pcapng by its contents.
    read: Option<PathBuf>,
    /// When to receive them: at the gaps they were `recorded` with, at a rate (`10kpps`, `1Gbps`),
    /// or as fast as the chain takes them (`max`, the default). For `read`.
    pace: Option<Pace>,
    /// How often to read the file: a number or `forever`; once without it. For `read`.
    #[serde(rename = "loop")]
    laps: Option<Laps>,
    /// Most packets to receive. For `read`.
    limit: Option<u64>,
    /// File to send packets to; an old one is replaced.
    write: Option<PathBuf>,
    /// Format of the written file; by its extension without it. For `write`.
    format: Option<Format>,
    /// Most bytes written of a packet. For `write`.
    snaplen: Option<u32>,
}

/// When packets are received.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Pace {
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
enum Laps {
    Count(NonZeroU64),
    Word(LapsWord),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum LapsWord {
    Forever,
}

/// Format of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Format {
    Pcap,
    Pcapng,
}

impl Config {
    fn check(&self) -> Result<PortRole, ConfigErrors> {
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

    fn format(&self, path: &std::path::Path) -> CaptureFormat {
        match self.format {
            Some(Format::Pcap) => CaptureFormat::Pcap,
            Some(Format::Pcapng) => CaptureFormat::PcapNg,
            None => CaptureFormat::from_path(path),
        }
    }
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "pcap",
    summary: "Receives packets from a capture file, or sends them to one",
    counters: &["laps", "cut_short", "in_file", "refused"],
    drop_reasons: &[],
    schema: || schemars::schema_for!(Config),
    check: |config| parse_config::<Config>(config)?.check(),
    open: |config, opening| {
        let dir = opening.dir;
        let config: Config = parse(config)?;
        config.check().map_err(refused)?;
        Ok(match (&config.read, &config.write) {
            (Some(path), _) => Box::new(Reading::open(&config, &resolve(dir, path))?),
            (None, path) => {
                let path = resolve(dir, path.as_deref().unwrap_or(dir));
                Box::new(Writing::open(&config, &path)?)
            }
        })
    },
};

#[cfg(test)]
mod tests;
