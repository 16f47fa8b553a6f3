//! `generator`: makes UDP packets at a rate, so that a chain can be tried without a network.
//!
//! First step of a packet's life. Open loop: packets are due by the clock, whatever becomes of the
//! ones before. When the chain has no room, packets are held back: up to 100 us of the rate is made
//! up for, the rest is given up and counted, so that the rate is never exceeded (see `pacer`). The
//! cost per packet is a copy of a template and a few stores.
//!
//! Limits: lengths 60..=9000, [`SIZE_COUNT_MAX`] of them, [`FLOW_COUNT_MAX`] flows. Not supported:
//! TCP, other layers above UDP, distributions of lengths other than a list in turn.

mod template;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortKind, PortRole, RxBurst, RxState};
use catena_engine::units::Rate;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

pub use template::{FLOW_COUNT_MAX, MARK, MARK_LEN, numbers_in};

use crate::buffer_wait::Buffer;
use crate::pacer::Pacer;
use template::{Template, headers_len};

/// Most lengths in a list: their templates stay in the second-level cache.
pub const SIZE_COUNT_MAX: usize = 64;
/// Shortest frame, without FCS (IEEE 802.3 3.2.7 less its 4 bytes).
pub const SIZE_MIN: usize = 60;
/// Longest frame, without FCS: a jumbo frame.
pub const SIZE_MAX: usize = 9000;

/// What to make.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// How fast: a rate of packets (`10kpps`) or bits without FCS (`1Gbps`), or `max`.
    #[serde(default)]
    rate: Speed,
    /// Length of the packets in bytes, without FCS; several are used in turn.
    #[serde(default)]
    size: Sizes,
    /// How many packets to make, then the port has finished; without it, it never does.
    count: Option<u64>,
    /// How many flows to make packets of, in turn.
    #[serde(default = "one")]
    flows: u32,
    /// `udp` over IPv4 or `udp6` over IPv6.
    #[serde(default)]
    protocol: IpVersion,
    /// VLAN identifier of the packets, 0 to 4095; untagged without it.
    vlan: Option<u16>,
    /// What fills the payload behind the sequence number.
    #[serde(default)]
    payload: Filling,
    /// Destination address.
    #[serde(default = "dst_mac")]
    dst_mac: Mac,
    /// Source address.
    #[serde(default = "src_mac")]
    src_mac: Mac,
}

fn one() -> u32 {
    1
}

fn dst_mac() -> Mac {
    Mac([2, 0, 0, 0, 0, 2])
}

fn src_mac() -> Mac {
    Mac([2, 0, 0, 0, 0, 1])
}

/// How fast.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Speed {
    /// As fast as the chain takes packets.
    #[default]
    Max,
    /// At a rate.
    Rate(Rate),
}

impl<'de> Deserialize<'de> for Speed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match text.as_str() {
            "max" => Ok(Self::Max),
            rate => Rate::parse(rate)
                .map(Self::Rate)
                .map_err(|error| serde::de::Error::custom(format!("{error}, or max"))),
        }
    }
}

impl JsonSchema for Speed {
    fn schema_name() -> Cow<'static, str> {
        "Speed".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "const": "max" }, generator.subschema_for::<Rate>()],
        })
    }
}

/// One length or several.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write a number of bytes, or a list of them")]
enum Sizes {
    One(usize),
    Several(Vec<usize>),
}

impl Default for Sizes {
    fn default() -> Self {
        Self::One(64)
    }
}

impl Sizes {
    fn as_slice(&self) -> &[usize] {
        match self {
            Self::One(size) => std::slice::from_ref(size),
            Self::Several(sizes) => sizes,
        }
    }
}

/// What carries UDP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
enum IpVersion {
    #[default]
    #[serde(rename = "udp")]
    Four,
    #[serde(rename = "udp6")]
    Six,
}

impl IpVersion {
    const fn header_len(self) -> usize {
        match self {
            Self::Four => 20,
            Self::Six => 40,
        }
    }
}

/// What fills a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Filling {
    /// Bytes 0, 1, 2 and so on.
    #[default]
    Counting,
    /// Bytes of 0.
    Zeros,
    /// Bytes of 255.
    Ones,
    /// The same arbitrary bytes in every packet.
    Random,
}

/// An Ethernet address, as in `02:00:00:00:00:01`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mac([u8; 6]);

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let address: Result<catena_wire::ethernet::MacAddr, _> = text.parse();
        address.map(|address| Self(address.0)).map_err(|_| {
            serde::de::Error::custom(format!(
                "\"{text}\" is not an Ethernet address; write it like 02:00:00:00:00:01"
            ))
        })
    }
}

impl JsonSchema for Mac {
    fn schema_name() -> Cow<'static, str> {
        "Mac".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$" })
    }
}

impl Config {
    fn check(&self) -> Result<(), ConfigErrors> {
        let mut errors = Vec::new();
        let sizes = self.size.as_slice();
        if sizes.is_empty() || sizes.len() > SIZE_COUNT_MAX {
            errors.push(ConfigError::new(
                "size",
                format!("there are {} sizes", sizes.len()),
                format!("give 1 to {SIZE_COUNT_MAX}"),
            ));
        }
        let least = SIZE_MIN.max(headers_len(self.protocol, self.vlan.is_some()));
        for (index, size) in sizes.iter().enumerate() {
            if !(least..=SIZE_MAX).contains(size) {
                let path = match self.size {
                    Sizes::One(_) => "size".to_owned(),
                    Sizes::Several(_) => format!("size[{index}]"),
                };
                errors.push(ConfigError::new(
                    path,
                    format!("{size} bytes do not hold these headers, or are too many"),
                    format!("give {least} to {SIZE_MAX}"),
                ));
            }
        }
        if !(1..=FLOW_COUNT_MAX).contains(&self.flows) {
            errors.push(ConfigError::new(
                "flows",
                format!("{} is out of range", self.flows),
                format!("give 1 to {FLOW_COUNT_MAX}"),
            ));
        }
        if self.vlan.is_some_and(|vlan| vlan > 4095) {
            errors.push(ConfigError::new(
                "vlan",
                "a VLAN identifier has 12 bits",
                "give 0 to 4095",
            ));
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "generator",
    summary: "Makes numbered UDP packets at a rate",
    counters: &["made", "held_back", "numbered"],
    drop_reasons: &[],
    schema: || schemars::schema_for!(Config),
    check: |config| {
        parse_config::<Config>(config)?.check()?;
        Ok(PortRole::of(true, false))
    },
    open: |config, _| {
        let config: Config = crate::opening::parse(config)?;
        config.check().map_err(crate::opening::refused)?;
        Ok(Box::new(Generator::new(&config)))
    },
};

/// The port.
#[derive(Debug)]
struct Generator {
    templates: Vec<Template>,
    /// Template of the next packet.
    next: usize,
    pacer: Option<Pacer>,
    left: Option<u64>,
    flow: u32,
    flow_count: u32,
    /// Sequence number of the next packet of `flow`: the number of rounds through all flows.
    sequence: u64,
    made: u64,
}

impl Generator {
    fn new(config: &Config) -> Self {
        let sizes = config.size.as_slice();
        Self {
            templates: sizes
                .iter()
                .map(|&len| Template::new(config, len))
                .collect(),
            next: 0,
            pacer: match config.rate {
                Speed::Max => None,
                Speed::Rate(rate) => Some(Pacer::new(rate)),
            },
            left: config.count,
            flow: 0,
            flow_count: config.flows,
            sequence: 0,
            made: 0,
        }
    }

    /// Goes on to the next packet.
    #[inline]
    fn advance(&mut self, len: usize) {
        if let Some(pacer) = &mut self.pacer {
            pacer.spend(len);
        }
        if let Some(left) = &mut self.left {
            *left -= 1;
        }
        self.next += 1;
        if self.next == self.templates.len() {
            self.next = 0;
        }
        self.flow += 1;
        if self.flow == self.flow_count {
            self.flow = 0;
            self.sequence += 1;
        }
    }
}

impl Port for Generator {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let len = self.templates[self.next].len();
        if let Some(pacer) = &mut self.pacer {
            pacer.begin(now, len);
        }
        loop {
            if self.left == Some(0) {
                return RxState::Finished;
            }
            if let Some(pacer) = &self.pacer
                && !pacer.is_due(now)
            {
                return RxState::Until(pacer.due_at());
            }
            if burst.room() == 0 {
                return RxState::More;
            }
            let len = self.templates[self.next].len();
            match Buffer::ask(burst, len) {
                Buffer::Ready => {}
                Buffer::Busy => return RxState::More,
                Buffer::Never => {
                    self.advance(len);
                    continue;
                }
            }
            let Ok(mut packet) = burst.alloc(len) else {
                return RxState::More;
            };
            self.templates[self.next].write(packet.bytes_mut(), self.flow, self.sequence);
            burst.push(packet);
            self.made += 1;
            self.advance(len);
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let sum: usize = self.templates.iter().map(Template::len).sum();
        let len = sum / self.templates.len();
        let held_back = self.pacer.map_or(0, |pacer| pacer.missed(len));
        let numbered = self.templates.iter().all(Template::is_numbered);
        out.extend([
            ("made", self.made),
            ("held_back", held_back),
            ("numbered", u64::from(numbered)),
        ]);
    }
}
