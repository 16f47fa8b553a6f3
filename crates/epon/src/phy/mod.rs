//! `epon_phy`: the 10G-EPON PHY as an NF; chunks of frames become chunks of line bits, and back.
//!
//! One node is one direction of one end: an OLT transmits one stream downstream, which an ONU
//! receives; an ONU transmits a burst per chunk upstream, which an OLT receives. The coding is
//! `catena_pcs`, in either implementation; here it meets packets. A chunk is changed in the buffer
//! in which it came. Without `pcs`, chunks pass untouched: what chaining alone costs.
//!
//! State is that of the stream (scrambler, lock, a frame in progress). A PHY that is killed and
//! replaced begins anew: a transmitter goes on with the next codeword, a receiver looks for lock.

mod config;
mod receive;
mod transmit;

use catena_engine::nf::{BuiltNf, Burst, DropReason, Nanos, Nf, NfKind, NfPlan, Verdict};
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_pcs::llid::Accept;
use catena_pcs::{Simd, fast, reference};
use serde_json::{Value, json};

use crate::custody::Custody;
use config::{Config, Implementation};
pub(crate) use config::{Role, Task};
use receive::Receiving;
pub(crate) use receive::counts as receiver_counts;
use transmit::Transmitting;

/// The half that a configuration asks for.
fn build(config: &Config) -> Half {
    let (line, params) = (config.line(), config.params());
    let is_fast = config.implementation == Implementation::Fast;
    match config.direction {
        _ if !config.pcs => Half::Bypass,
        Task::Transmit => {
            let llid = config.llid;
            let make = move || -> transmit::Transmitter {
                let params = params.clone();
                match is_fast {
                    true => Box::new(fast::Transmitter::new(line, params, Simd::best())),
                    false => Box::new(reference::Transmitter::new(line, params)),
                }
            };
            Half::Transmit(Transmitting::new(line, llid, Box::new(make)))
        }
        Task::Receive => {
            let accept = config.llid.map_or(Accept::Any, Accept::Onu);
            let receiver: receive::Receiver = match is_fast {
                true => Box::new(fast::Receiver::new(line, accept, params, Simd::best())),
                false => Box::new(reference::Receiver::new(line, accept, params)),
            };
            Half::Receive(Receiving::new(line, receiver))
        }
    }
}

/// What is done with chunks.
enum Half {
    Bypass,
    Transmit(Transmitting),
    Receive(Receiving),
}

impl Half {
    #[inline]
    fn chunk(&mut self, packet: &mut Packet) -> Result<(), DropReason> {
        match self {
            Self::Bypass => Ok(()),
            Self::Transmit(half) => half.chunk(packet),
            Self::Receive(half) => half.chunk(packet),
        }
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        match self {
            Self::Bypass => {}
            Self::Transmit(half) => half.counters(out),
            Self::Receive(half) => half.counters(out),
        }
    }
}

/// One direction of one end.
struct Phy {
    half: Half,
    custody: Custody,
}

impl Nf for Phy {
    fn process(&mut self, burst: &mut Burst<'_>, now: Nanos) {
        for (packet, verdict) in burst.iter_mut() {
            let held = self.custody.take(packet.bytes(), now.0);
            if let Err(reason) = self.half.chunk(packet) {
                *verdict = Verdict::Drop(reason);
            } else if let Some(held) = held {
                Custody::hand_on(held, packet.bytes_mut(), now.0);
            }
        }
    }

    fn control(&mut self, request: &Value) -> Result<Value, String> {
        if *request != json!({"show": "counts"}) {
            return Err("epon_phy answers {\"show\": \"counts\"}".to_owned());
        }
        let counts = Value::from_iter(self.report());
        let (state, high_ber) = match &self.half {
            Half::Receive(half) => (half.state(), json!(half.is_high_ber())),
            _ => (Value::Null, Value::Null),
        };
        Ok(json!({"counts": counts, "state": state, "high_ber": high_ber}))
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        self.half.counters(out);
        out.extend(self.custody.report());
    }
}

/// Names of the counters of an end and direction.
fn counter_names(config: &Config) -> Vec<&'static str> {
    let mut names: Vec<&str> = match config.direction {
        _ if !config.pcs => Vec::new(),
        Task::Transmit => transmit::counter_names(config.line()),
        Task::Receive => receive::counter_names(config.line()),
    };
    names.extend(Custody::default().report().map(|(name, _)| name));
    names
}

/// The chain file's entry.
pub const KIND: NfKind = NfKind {
    name: "epon_phy",
    summary: "Turns frames into 10G-EPON line bits, or line bits into frames",
    example: r#"{"role": "olt", "direction": "transmit"}"#,
    schema: || schemars::schema_for!(Config),
    plan: |config, _outputs| {
        let config = Config::parse(config)?;
        let plan = NfPlan::new().writes().counters(counter_names(&config));
        let what = "what it has counted, and a receiver's state";
        Ok(plan.requests([(r#"{"show": "counts"}"#, what)]))
    },
    build: |config, _context| {
        let config = Config::parse(config)?;
        Ok(BuiltNf::new(Phy {
            half: build(&config),
            custody: Custody::default(),
        }))
    },
};

#[cfg(test)]
mod limit_tests;
#[cfg(test)]
mod tests;
