//! `epon_phy`: the 10G-EPON PHY as an NF; chunks of frames become chunks of line bits, and back.
//!
//! One node is one direction of one end: an OLT transmits one stream downstream, which an ONU
//! receives; an ONU transmits a burst per chunk upstream, which an OLT receives. The coding is
//! `catena_pcs`, in either implementation; here it meets packets. A chunk is changed in the buffer
//! in which it came. Without `pcs`, chunks pass untouched: what chaining alone costs.
//!
//! State is that of the stream (scrambler, lock, a frame in progress). A PHY that is killed and
//! replaced begins anew: a transmitter goes on with the next codeword, a receiver looks for lock.

mod receive;
mod transmit;

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{Access, BuiltNf, Burst, DropReason, Inputs, Nanos, Nf, NfKind, Verdict};
use catena_engine::packet::Packet;
use catena_pcs::llid::Accept;
use catena_pcs::params::Params;
use catena_pcs::stage::Direction;
use catena_pcs::{Simd, fast, reference};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use receive::Receiving;
use transmit::Transmitting;

/// Which end of the fibre.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Role {
    /// The head end.
    Olt,
    /// The subscriber's end.
    Onu,
}

/// What the node does there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Task {
    /// Frames to line bits.
    Transmit,
    /// Line bits to frames.
    Receive,
}

/// Which implementation of the coding.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Implementation {
    /// Vector instructions, in real time.
    #[default]
    Fast,
    /// Bit by bit: the same result, a thousand times slower, and it allocates.
    Reference,
}

/// Settings of `epon_phy`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Which end of the fibre it is.
    role: Role,
    /// Whether it turns frames into line bits or line bits into frames.
    direction: Task,
    /// Whether it codes at all; without, chunks pass untouched.
    #[serde(default = "yes")]
    pcs: bool,
    /// Which implementation of the coding.
    #[serde(default)]
    implementation: Implementation,
    /// An ONU's logical link identifier: it sends all frames under it and takes those for it.
    /// Without it, an ONU sends frames under the identifier that they have, and takes all.
    llid: Option<u16>,
    /// Longest frame in octets, with check sequence; the same at both ends.
    #[serde(default = "Limits::max_frame")]
    max_frame: u16,
    /// Blocks of sync pattern in front of a burst (ONU, transmit).
    sync_blocks: Option<u16>,
    /// Idle blocks after which a burst ends (ONU, transmit).
    delay_bound: Option<u16>,
    /// Codewords in a row whose headers must fit for lock (ONU, receive).
    lock_codewords: Option<u8>,
    /// Bad codewords in a row by which lock or burst is lost (receive).
    loss_codewords: Option<u8>,
}

const fn yes() -> bool {
    true
}

/// What settings may be.
struct Limits;

impl Limits {
    const MAX_FRAME: std::ops::RangeInclusive<u16> = 64..=16_384;
    /// A burst's front must fit a buffer of 16 KiB beside its codewords.
    const SYNC_BLOCKS: std::ops::RangeInclusive<u16> = 1..=1024;
    const DELAY_BOUND: std::ops::RangeInclusive<u16> = 1..=4096;
    /// A receiver looks back at 40 codewords.
    const LOCK: std::ops::RangeInclusive<u8> = 1..=16;
    const LOSS: std::ops::RangeInclusive<u8> = 1..=255;

    const fn max_frame() -> u16 {
        2000
    }
}

impl Config {
    fn line(&self) -> Direction {
        match (self.role, self.direction) {
            (Role::Olt, Task::Transmit) | (Role::Onu, Task::Receive) => Direction::Downstream,
            (Role::Onu, Task::Transmit) | (Role::Olt, Task::Receive) => Direction::Upstream,
        }
    }

    fn check(&self) -> ConfigErrors {
        let mut errors = Vec::new();
        let mut refuse = |path: &str, message: String, repair: &str| {
            errors.push(ConfigError::new(path, message, repair));
        };
        let onu = self.role == Role::Onu;
        let sends = self.direction == Task::Transmit;
        let misplaced = [
            ("llid", self.llid.is_some() && !onu, "an ONU"),
            (
                "sync_blocks",
                self.sync_blocks.is_some() && !(onu && sends),
                "an ONU that transmits",
            ),
            (
                "delay_bound",
                self.delay_bound.is_some() && !(onu && sends),
                "an ONU that transmits",
            ),
            (
                "lock_codewords",
                self.lock_codewords.is_some() && (!onu || sends),
                "an ONU that receives",
            ),
            (
                "loss_codewords",
                self.loss_codewords.is_some() && sends,
                "a receiver",
            ),
        ];
        for (path, _, whose) in misplaced.iter().filter(|(_, is_wrong, _)| *is_wrong) {
            let message = format!("{path} is a setting of {whose}");
            refuse(path, message, "remove it, or correct role and direction");
        }
        if !self.pcs && self.implementation == Implementation::Reference {
            refuse(
                "implementation",
                "without pcs nothing is coded".to_owned(),
                "remove implementation, or pcs: false",
            );
        }
        let mut within = |path: &str, value: Option<u16>, low: u16, high: u16| {
            if let Some(value) = value.filter(|value| !(low..=high).contains(value)) {
                let message = format!("{path} is {value}");
                refuse(path, message, &format!("write {low} to {high}"));
            }
        };
        let wide = |limits: std::ops::RangeInclusive<u8>| {
            (u16::from(*limits.start()), u16::from(*limits.end()))
        };
        let (low, high) = Limits::MAX_FRAME.into_inner();
        within("max_frame", Some(self.max_frame), low, high);
        let (low, high) = Limits::SYNC_BLOCKS.into_inner();
        within("sync_blocks", self.sync_blocks, low, high);
        let (low, high) = Limits::DELAY_BOUND.into_inner();
        within("delay_bound", self.delay_bound, low, high);
        let (low, high) = wide(Limits::LOCK);
        within(
            "lock_codewords",
            self.lock_codewords.map(u16::from),
            low,
            high,
        );
        let (low, high) = wide(Limits::LOSS);
        within(
            "loss_codewords",
            self.loss_codewords.map(u16::from),
            low,
            high,
        );
        errors
    }

    fn params(&self) -> Params {
        let defaults = Params::default();
        let or = |chosen: Option<u16>, default| chosen.map_or(default, usize::from);
        Params {
            frame_len_with_fcs_max: self.max_frame.into(),
            sync_blocks: or(self.sync_blocks, defaults.sync_blocks),
            delay_bound: or(self.delay_bound, defaults.delay_bound),
            lock_codewords: or(self.lock_codewords.map(u16::from), defaults.lock_codewords),
            loss_codewords: or(self.loss_codewords.map(u16::from), defaults.loss_codewords),
            ..defaults
        }
    }

    fn build(&self) -> Phy {
        let (line, params) = (self.line(), self.params());
        let is_fast = self.implementation == Implementation::Fast;
        match self.direction {
            _ if !self.pcs => Phy::Bypass,
            Task::Transmit => {
                let llid = self.llid;
                let make = move || -> transmit::Transmitter {
                    let params = params.clone();
                    match is_fast {
                        true => Box::new(fast::Transmitter::new(line, params, Simd::best())),
                        false => Box::new(reference::Transmitter::new(line, params)),
                    }
                };
                Phy::Transmit(Transmitting::new(line, llid, Box::new(make)))
            }
            Task::Receive => {
                let accept = self.llid.map_or(Accept::Any, Accept::Onu);
                let receiver: receive::Receiver = match is_fast {
                    true => Box::new(fast::Receiver::new(line, accept, params, Simd::best())),
                    false => Box::new(reference::Receiver::new(line, accept, params)),
                };
                Phy::Receive(Receiving::new(line, receiver))
            }
        }
    }
}

/// One direction of one end.
enum Phy {
    Bypass,
    Transmit(Transmitting),
    Receive(Receiving),
}

impl Phy {
    #[inline]
    fn chunk(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        match self {
            Self::Bypass => Ok(()),
            Self::Transmit(half) => half.chunk(packet),
            Self::Receive(half) => half.chunk(packet),
        }
    }
}

impl Nf for Phy {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for (packet, verdict) in burst.iter_mut() {
            if let Err(reason) = self.chunk(packet) {
                *verdict = Verdict::Drop(reason);
            }
        }
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request != json!({"show": "counts"}) {
            return Err("epon_phy answers {\"show\": \"counts\"}".to_owned());
        }
        let counts: serde_json::Map<String, Value> = self
            .report()
            .into_iter()
            .map(|(name, count)| (name.to_owned(), count.into()))
            .collect();
        let state = match self {
            Self::Receive(half) => half.state(),
            _ => Value::Null,
        };
        Ok(json!({"counts": counts, "state": state}))
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Bypass => Vec::new(),
            Self::Transmit(half) => half.report(),
            Self::Receive(half) => half.report(),
        }
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "epon_phy",
    summary: "Turns frames into 10G-EPON line bits, or line bits into frames",
    access: Access::Write,
    inputs: Inputs::One,
    allocates: false,
    headroom: 0,
    schema: || schemars::schema_for!(Config),
    build: |config, _outputs| {
        let config: Config = parse_config(config)?;
        let errors = config.check();
        if errors.is_empty() {
            return Ok(BuiltNf::single(config.build()));
        }
        Err(errors)
    },
};

#[cfg(test)]
mod tests;
