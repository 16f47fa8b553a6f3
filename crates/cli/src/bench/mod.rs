//! Ports for benchmarks: a source that writes every byte of every packet, and a sink that reads
//! them.
//!
//! They run in the ordinary engine over ordinary links, so a benchmark measures what a chain pays.
//! Not for chains of users: the generator and sink ports are.

use std::sync::Arc;

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::packet::Packet;
use catena_engine::port::{Port, PortError, PortKind, PortRole, RxBurst, RxState};
use catena_shm::tsc;
use schemars::JsonSchema;
use serde::Deserialize;

/// Both kinds.
pub(crate) const PORTS: [&PortKind; 2] = [&SOURCE, &SINK];

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SourceConfig {
    /// Bytes per packet.
    size: usize,
    /// Nanoseconds between lone packets; as many as fit if absent.
    #[serde(default)]
    gap_ns: Option<u64>,
}

struct Source {
    size: usize,
    gap_ns: Option<u64>,
    next: Nanos,
    sequence: u64,
}

impl Source {
    /// Writes all of a packet: words that differ from packet to packet, and the time of writing in
    /// the first, if packets go alone.
    fn write(&mut self, packet: &mut Packet) {
        self.sequence = self.sequence.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = self.sequence;
        let bytes = packet.bytes_mut();
        let (lines, rest) = bytes.as_chunks_mut::<64>();
        for line in lines {
            for (n, to) in line.as_chunks_mut::<8>().0.iter_mut().enumerate() {
                *to = word.wrapping_add(n as u64).to_le_bytes();
            }
        }
        for byte in rest {
            *byte = 0;
        }
        if self.gap_ns.is_some()
            && let Some(stamp) = bytes.first_chunk_mut::<8>()
        {
            *stamp = tsc::ticks().to_le_bytes();
        }
    }
}

impl Port for Source {
    fn rx(&mut self, burst: &mut RxBurst<'_>, now: Nanos) -> RxState {
        let count = match self.gap_ns {
            Some(_) if now < self.next => return RxState::Until(self.next),
            Some(gap_ns) => {
                self.next = now.plus(gap_ns);
                1
            }
            None => burst.room(),
        };
        if burst.fill(count, self.size, |packet| self.write(packet)) < count {
            return RxState::Idle;
        }
        match self.gap_ns {
            Some(_) => RxState::Until(self.next),
            None => RxState::More,
        }
    }

    fn tx(&mut self, _packets: &mut [Packet], _now: Nanos) -> usize {
        0
    }
}

const SOURCE: PortKind = PortKind {
    name: "bench-source",
    summary: "Packets for benchmarks, every byte written",
    schema: || schemars::schema_for!(SourceConfig),
    check: |config| {
        parse_config::<SourceConfig>(config)?;
        Ok(PortRole {
            receives: true,
            sends: false,
        })
    },
    open: |config, _dir| {
        let SourceConfig { size, gap_ns } =
            parse_config(config).map_err(|_| PortError("wrong settings".to_owned()))?;
        Ok(Box::new(Source {
            size,
            gap_ns,
            next: Nanos(0),
            sequence: 0,
        }))
    },
};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct SinkConfig {
    /// Read stamps and report latencies.
    #[serde(default)]
    latency: bool,
}

struct Sink {
    latency: bool,
    sum: u64,
    /// Latencies in ticks; a bounded sample, the first thousand left out.
    samples: Vec<u64>,
    seen: u64,
    ns_per_tick: f64,
}

const SAMPLES_MAX: usize = 1 << 20;
const WARM_UP: u64 = 1000;

impl Port for Sink {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, packets: &mut [Packet], _now: Nanos) -> usize {
        let arrived = if self.latency { tsc::ticks() } else { 0 };
        let mut sum = self.sum;
        for packet in packets.iter() {
            for word in packet.bytes().as_chunks::<8>().0 {
                sum = sum.wrapping_add(u64::from_le_bytes(*word));
            }
            if self.latency
                && let Some(stamp) = packet.bytes().first_chunk::<8>()
            {
                self.seen += 1;
                if self.seen > WARM_UP && self.samples.len() < SAMPLES_MAX {
                    self.samples
                        .push(arrived.saturating_sub(u64::from_le_bytes(*stamp)));
                }
            }
        }
        self.sum = std::hint::black_box(sum);
        packets.len()
    }

    fn report(&self) -> Vec<(&'static str, u64)> {
        if self.samples.is_empty() {
            return Vec::new();
        }
        let mut sorted = self.samples.clone();
        sorted.sort_unstable();
        #[expect(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "nanoseconds for people"
        )]
        let at = |share: f64| {
            let index = ((sorted.len() - 1) as f64 * share) as usize;
            (sorted[index] as f64 * self.ns_per_tick) as u64
        };
        vec![
            ("p50_ns", at(0.5)),
            ("p99_ns", at(0.99)),
            ("samples", sorted.len() as u64),
        ]
    }
}

const SINK: PortKind = PortKind {
    name: "bench-sink",
    summary: "Reads every byte of every packet",
    schema: || schemars::schema_for!(SinkConfig),
    check: |config| {
        parse_config::<SinkConfig>(config)?;
        Ok(PortRole {
            receives: false,
            sends: true,
        })
    },
    open: |config, _dir| {
        let SinkConfig { latency } =
            parse_config(config).map_err(|_| PortError("wrong settings".to_owned()))?;
        Ok(Box::new(Sink {
            latency,
            sum: 0,
            samples: Vec::with_capacity(if latency { SAMPLES_MAX } else { 0 }),
            seen: 0,
            ns_per_tick: tsc::ns_per_tick(std::time::Duration::from_millis(50)),
        }))
    },
};

/// The registry of users, with the ports of benchmarks.
pub(crate) fn registry() -> Arc<catena_engine::chain::registry::Registry> {
    let mut registry = (*crate::registry::registry()).clone();
    registry.ports.extend(PORTS);
    Arc::new(registry)
}
