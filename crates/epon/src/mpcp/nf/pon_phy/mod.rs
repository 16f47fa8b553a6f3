//! `pon_phy`: the PHY between `olt_mac` and `onu_mac`: packets of the PON's side become line bits,
//! and line bits such packets again, by the same coding as `epon_phy`.
//!
//! ```text
//!  olt_mac -> pon_phy -> tee -> l1sim -> pon_phy -> onu_mac     downstream
//!             transmit                   receive
//!  onu_mac -> pon_phy -> l1sim -> merge -> pon_phy -> olt_mac   upstream
//! ```
//!
//! # Instants
//!
//! A packet carries when its first octet passes the OLT, to 16 ns, and MPCP lives by that. Line
//! bits lie in chunks, whose header says in place of a due time when the first frame in them
//! begins. So delay through the PHY is constant to the quantum, as Clause 77 asks, however late a
//! chunk is looked at.
//!
//! - Downstream each frame is a chunk of whole codewords, filled up with idle. They follow each
//!   other without what lies between on a line, codewords of idle alone: lock, scrambler and the
//!   state of the decoder go on from one to the next.
//! - Upstream a chunk is a burst, from sync pattern to terminator, at the bit at which it would
//!   fall. The place of a frame in it is found by counting blocks. Between bursts it is dark.
//!
//! A frame whose codewords came with an earlier chunk (while lock was looked for) has no instant
//! any more: it is dropped as `frames_unplaced`, and MPCP makes good for it.

use catena_engine::config::{ConfigError, ConfigErrors, parse_config};
use catena_engine::nf::{BuiltNf, Burst, Emission, Inputs, Nanos, Nf, NfKind, NfPlan, Verdict};
use catena_engine::own_counters::CounterSink;
use catena_pcs::params::Params;
use catena_pcs::stage::Direction;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use self::receive::Receiving;
use self::transmit::Transmitting;
use super::frame_queue::FrameQueue;
use super::pon_packet::copy_parts;
use crate::phy::{Role, Task};

mod receive;
#[cfg(test)]
pub(super) mod tests;
mod transmit;

/// Bytes of what waits to leave.
const QUEUE_BYTES: usize = 4 << 20;
/// When an output that had no room is tried again.
const AGAIN_NS: u64 = 1_000;

/// Settings of `pon_phy`.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Which end of the fibre it is.
    role: Role,
    /// Whether it turns packets into line bits or line bits into packets.
    direction: Task,
    /// Blocks of sync pattern in front of a burst (ONU, transmit), 1 to 1024; with the delimiter no
    /// longer than the `sync_time` of the OLT, of which a quantum is two and a half blocks. 64
    /// if left out.
    sync_blocks: Option<u16>,
    /// Idle blocks into the FIFO after which a burst ends (ONU, transmit), 1 to 4096; without it, a
    /// burst ends with the codeword of its last frame.
    delay_bound: Option<u16>,
}

impl Config {
    /// Which way the line bits go.
    fn line(self) -> Direction {
        match (self.role, self.direction) {
            (Role::Olt, Task::Transmit) | (Role::Onu, Task::Receive) => Direction::Downstream,
            (Role::Onu, Task::Transmit) | (Role::Olt, Task::Receive) => Direction::Upstream,
        }
    }

    /// Parameters of the coding.
    ///
    /// # Errors
    /// Settings out of range, or of another role.
    fn params(self) -> Result<Params, ConfigErrors> {
        let is_sender = (self.role, self.direction) == (Role::Onu, Task::Transmit);
        let mut errors = Vec::new();
        for (path, value, most) in [
            ("sync_blocks", self.sync_blocks, 1024),
            ("delay_bound", self.delay_bound, 4096),
        ] {
            let Some(value) = value else { continue };
            if !is_sender {
                errors.push(ConfigError::new(
                    path,
                    format!("{path} is a setting of an ONU that transmits"),
                    "remove it, or correct role and direction",
                ));
            } else if !(1..=most).contains(&value) {
                let repair = format!("write 1 to {most}");
                errors.push(ConfigError::new(path, format!("{path} is {value}"), repair));
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        let defaults = Params::default();
        Ok(Params {
            sync_blocks: self.sync_blocks.map_or(defaults.sync_blocks, usize::from),
            delay_bound: self.delay_bound.map(usize::from),
            ..defaults
        })
    }
}

enum Half {
    Transmit(Transmitting),
    Receive(Receiving),
}

/// One direction of one end.
struct PonPhy {
    half: Half,
    leaving: FrameQueue,
}

impl Nf for PonPhy {
    fn process(&mut self, burst: &mut Burst<'_>, _now: Nanos) {
        for (packet, verdict) in burst.iter_mut() {
            let leaving = &mut self.leaving;
            let reason = match &mut self.half {
                Half::Transmit(half) => half.packet(packet.bytes(), packet.tag(), leaving),
                Half::Receive(half) => half.chunk(packet.bytes(), leaving),
            };
            *verdict = Verdict::Drop(reason);
        }
    }

    fn ends_paths(&self) -> bool {
        true
    }

    fn emit(&mut self, out: &mut Emission<'_>, now: Nanos) -> Option<Nanos> {
        while let Some((waiting, parts)) = self.leaving.front() {
            if !out.send(0, waiting.len, 0, |bytes| copy_parts(bytes, parts)) {
                return Some(now.plus(AGAIN_NS));
            }
            self.leaving.pop();
        }
        None
    }

    fn holds_packets(&self) -> bool {
        !self.leaving.is_empty()
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if request != &json!("show") {
            return Err("pon_phy answers to \"show\"".to_owned());
        }
        Ok(json!({ "counters": Value::from_iter(self.report()) }))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        match &self.half {
            Half::Transmit(half) => half.counters(out),
            Half::Receive(half) => half.counters(out),
        }
    }
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "pon_phy",
    summary: "PHY between the MACs of an EPON: packets with instants to line bits, and back",
    example: r#"{"role": "olt", "direction": "transmit"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let config: Config = parse_config(config)?;
        config.params()?;
        let counters = match config.direction {
            Task::Transmit => transmit::counter_names(config.line()),
            Task::Receive => receive::counter_names(config.line()),
        };
        let plan = NfPlan::new().inputs(Inputs::Ending).allocates();
        let plan = plan.requests([(r#""show""#, "counters")]);
        Ok(plan.counters(counters))
    },
    build: |config, _context| {
        let config: Config = parse_config(config)?;
        let params = config.params()?;
        let half = match config.direction {
            Task::Transmit => Half::Transmit(Transmitting::new(config.line(), params)),
            Task::Receive => Half::Receive(Receiving::new(config.line())),
        };
        Ok(BuiltNf::new(PonPhy {
            half,
            leaving: FrameQueue::new(QUEUE_BYTES),
        }))
    },
};
