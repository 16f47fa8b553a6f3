//! `receiver`: reads the stamps of what arrives, and hands them on.
//!
//! Last step of a packet's life. The clock is read once per burst, after it has arrived; so a
//! latency is too long by up to the time between two polls, never too short. What becomes of flows
//! (loss, duplicates, order) is the [`ArrivalSink`]'s matter; this port tells whole stamps from
//! damaged ones and from packets that are nobody's.

use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::packet::Packet;
use catena_engine::port::{
    Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst,
};
use catena_shm::tsc;
use catena_wire::dissect::{Dissected, Transport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latency_recorder::{LatencyRecorder, LatencySample};
use super::slices::{SliceConfig, Slices};
use super::source::Source;
use super::stall_recorder::{STALL_COUNT_MAX, STALL_THRESHOLD_NS, StallInterval, StallRecorder};
use super::tick_rate::TickRate;
use super::window::{Window, WindowConfig};
use crate::flow_quality::sink::{FLOW_COUNT, FLOW_COUNT_MAX, FlowResult, FlowSink};
use crate::stamp::Stamp;

pub use super::arrival::{Arrival, ArrivalSink};

/// Samples of latency kept unless told otherwise.
pub const SAMPLE_COUNT: usize = 1 << 17;
/// Bursts of fewer packets are not full, though none was larger: a burst of the engine's holds 128
/// unless told otherwise, and two packets that came together have nothing waiting behind them.
const FULL_MIN: usize = 16;
/// Most samples of latency: 640 MiB.
pub const SAMPLE_COUNT_MAX: usize = 1 << 24;

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiveRecord {
    /// Packets of any kind.
    pub packets: u64,
    /// Bytes of them, without FCS.
    pub bytes: u64,
    /// Packets of this trial with a whole stamp.
    pub stamped: u64,
    /// Packets that should have a stamp and whose stamp is damaged.
    pub corrupted: u64,
    /// Packets with the stamp of another trial.
    pub other_trial: u64,
    /// Packets that no generator stamped (neighbour discovery and the like).
    pub foreign: u64,
    /// Bursts.
    pub bursts: u64,
    /// Bursts as large as any so far: a receiver that gets nothing else is at its limit.
    pub full_bursts: u64,
    /// Packets of the warm-up that arrived behind it, where the receiver knows the trial's window.
    #[serde(default)]
    pub held_before: u64,
    /// Packets of this trial that arrived behind its end.
    #[serde(default)]
    pub held_after: u64,
}

/// The port.
#[derive(Debug)]
pub struct ReceiverPort<S> {
    trial: Option<u8>,
    rate: TickRate,
    record: ReceiveRecord,
    burst_max: usize,
    /// Whether the last burst was as large as any, so that the next was waiting already.
    was_full: bool,
    latencies: LatencyRecorder,
    stalls: StallRecorder,
    sink: S,
    results: Option<PathBuf>,
    slices: Option<Slices>,
    window: Option<Window>,
}

impl<S: ArrivalSink> ReceiverPort<S> {
    /// A port that takes stamps of `trial`, or of any, and keeps `samples` latencies.
    pub fn new(trial: Option<u8>, rate: TickRate, samples: usize, sink: S) -> Self {
        Self {
            trial,
            rate,
            record: ReceiveRecord::default(),
            burst_max: 1,
            was_full: false,
            latencies: LatencyRecorder::new(samples.min(SAMPLE_COUNT_MAX)),
            stalls: StallRecorder::new(rate.ticks(STALL_THRESHOLD_NS), STALL_COUNT_MAX),
            sink,
            results: None,
            slices: None,
            window: None,
        }
    }

    /// What arrived so far.
    pub const fn record(&self) -> &ReceiveRecord {
        &self.record
    }

    /// Latencies so far.
    pub const fn latencies(&self) -> &LatencyRecorder {
        &self.latencies
    }

    /// Gaps between polls, as far as [`Self::poll`] was told of them.
    pub const fn stalls(&self) -> &StallRecorder {
        &self.stalls
    }

    /// The sink.
    pub fn into_sink(self) -> S {
        self.sink
    }

    /// Notes a poll of the loop that owns this port, with packets or without.
    #[inline]
    pub fn poll(&mut self, now: u64) {
        self.stalls.poll(now);
    }

    /// Notes the gap before a burst of `len` packets, if the one before it was full.
    #[inline]
    fn note_gap(&mut self, len: usize, received: u64) {
        // Otherwise nothing waited, and the worker may have slept on purpose.
        if self.was_full {
            self.stalls.poll(received);
        } else {
            self.stalls.resume(received);
        }
        self.was_full = len >= self.burst_max.max(FULL_MIN);
    }

    /// Takes a burst that arrived by tick `received`.
    #[inline]
    pub fn take_burst<'a>(
        &mut self,
        packets: impl ExactSizeIterator<Item = &'a [u8]>,
        received: u64,
    ) {
        let len = packets.len();
        self.record.bursts += 1;
        self.burst_max = self.burst_max.max(len);
        self.record.full_bursts += u64::from(len == self.burst_max && len > 1);
        for packet in packets {
            self.record.packets += 1;
            self.record.bytes += packet.len() as u64;
            match Stamp::read(packet) {
                Some(stamp) => self.take_stamp(&stamp, received),
                None => self.take_other(packet, received),
            }
        }
    }

    #[inline]
    fn take_stamp(&mut self, stamp: &Stamp, received: u64) {
        let intended = stamp.intended_near(received);
        if let Some(trial) = self.trial.filter(|trial| *trial != stamp.trial) {
            self.record.other_trial += 1;
            if let Some(window) = &mut self.window
                && stamp.trial == Source::trial_number(trial, true)
            {
                let is_held = window.is_behind_warmup(intended, received);
                self.record.held_before += u64::from(is_held);
            }
            return;
        }
        self.record.stamped += 1;
        if let Some(window) = &mut self.window {
            let is_held = window.is_behind_end(intended, received);
            self.record.held_after += u64::from(is_held);
        }
        let arrival = Arrival {
            flow: stamp.flow,
            sequence: stamp.sequence,
            intended,
            late: stamp.late,
            received,
            is_valid: true,
        };
        self.latencies.record(&arrival);
        self.sink.arrived(&arrival);
    }

    /// A packet whose last bytes are no stamp: padded, damaged or foreign.
    #[cold]
    fn take_other(&mut self, packet: &[u8], received: u64) {
        let Ok(found) = Dissected::parse(packet) else {
            return self.note_corrupted(received);
        };
        if let Some(stamp) = Stamp::read(&packet[..found.end]) {
            return self.take_stamp(&stamp, received);
        }
        match found.transport {
            Transport::Udp { .. } | Transport::Tcp { .. } => self.note_corrupted(received),
            _ => self.record.foreign += 1,
        }
    }

    fn note_corrupted(&mut self, received: u64) {
        self.record.corrupted += 1;
        self.sink.arrived(&Arrival {
            flow: 0,
            sequence: 0,
            intended: received,
            late: 0,
            received,
            is_valid: false,
        });
    }
}

/// What a `receiver` port writes to its results file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReceiveResults {
    /// What arrived.
    pub record: ReceiveRecord,
    /// Further counters by name.
    pub counters: std::collections::BTreeMap<String, u64>,
    /// Flows that were followed and of which packets came.
    pub flows: Vec<FlowResult>,
    /// Evenly spaced samples of latency, in ticks.
    pub samples: Vec<LatencySample>,
    /// Every so many packets is a sample.
    pub stride: u64,
    /// Mean latency of all packets, in ticks.
    pub mean: Option<f64>,
    /// Least and most latency of all packets, in ticks.
    pub range: Option<(i64, i64)>,
    /// Gaps between bursts while packets kept coming, in ticks.
    pub stalls: Vec<StallInterval>,
    /// Nanoseconds in a tick.
    pub ns_per_tick: f64,
    /// Packets per second that arrived in the own slice of each pair, where there are slices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slice_rates_pps: Vec<f64>,
    /// Packets that arrived in the other side's turn.
    #[serde(default)]
    pub slice_strays: u64,
}

/// Writes a results file, all of it or none.
pub(super) fn write_results(path: &Path, results: &impl Serialize) -> Result<(), PortError> {
    let failed = |error: String| PortError(format!("{}: {error}", path.display()));
    let text = serde_json::to_string(results).map_err(|error| failed(error.to_string()))?;
    let part = path.with_extension("part");
    std::fs::write(&part, text)
        .and_then(|()| std::fs::rename(&part, path))
        .map_err(|error| failed(error.to_string()))
}

impl<S: ArrivalSink> Port for ReceiverPort<S> {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let received = tsc::ticks();
        let packets = burst.packets();
        self.note_gap(packets.len(), received);
        let before = self.record.stamped;
        self.take_burst(packets.iter().map(Packet::bytes), received);
        if let Some(slices) = &mut self.slices {
            slices.count(received, self.record.stamped - before);
        }
        packets.len()
    }

    fn close(&mut self) -> Result<(), PortError> {
        let Some(path) = &self.results else {
            return Ok(());
        };
        let counters = self.sink.report().into_iter();
        let results = ReceiveResults {
            record: self.record,
            counters: counters
                .map(|(name, count)| (name.to_owned(), count))
                .collect(),
            flows: self.sink.flows(),
            samples: self.latencies.samples().to_vec(),
            stride: self.latencies.stride(),
            mean: self.latencies.mean(),
            range: self.latencies.range(),
            stalls: self.stalls.intervals().to_vec(),
            ns_per_tick: self.rate.ns_per_tick(),
            slice_rates_pps: self
                .slices
                .as_ref()
                .map_or_else(Vec::new, Slices::rates_pps),
            slice_strays: self.slices.as_ref().map_or(0, Slices::strays),
        };
        write_results(path, &results)
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        let record = &self.record;
        out.extend([
            ("packets", record.packets),
            ("stamped", record.stamped),
            ("corrupted", record.corrupted),
            ("other_trial", record.other_trial),
            ("foreign", record.foreign),
            ("bursts", record.bursts),
            ("full_bursts", record.full_bursts),
        ]);
        if out.is_live() {
            return;
        }
        let ns = |ticks: i64| self.rate.ns(ticks.max(0).cast_unsigned());
        let (least, most) = self.latencies.range().unwrap_or((0, 0));
        let mean = self.latencies.mean().unwrap_or(0.0).max(0.0) * self.rate.ns_per_tick();
        out.extend([
            ("latency_min_ns", ns(least)),
            ("latency_mean_ns", mean as u64),
            ("latency_max_ns", ns(most)),
        ]);
        out.extend(self.sink.report());
    }
}

/// What to look at.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Number in the stamps that are looked at; those of any trial without it.
    trial: Option<u8>,
    /// Most samples of latency that are kept.
    samples: usize,
    /// Follow loss, duplicates and order of flows 0 to this less 1; 0 follows none.
    flows: usize,
    /// Write what arrived, as JSON, to this file when the chain ends; to none without it.
    results: Option<PathBuf>,
    /// Count what arrives in slices, in turns with another chain; all together without it.
    slices: Option<SliceConfig>,
    /// Count what arrives behind the warm-up and behind the end of the trial (`held_before` and
    /// `held_after` of the results); these are 0 without it.
    window: Option<WindowConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            trial: None,
            samples: SAMPLE_COUNT,
            flows: FLOW_COUNT,
            results: None,
            slices: None,
            window: None,
        }
    }
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "receiver",
    summary: "Takes a profile's packets and records latencies from the time each was due",
    counters: &[
        "packets",
        "stamped",
        "corrupted",
        "other_trial",
        "foreign",
        "bursts",
        "full_bursts",
    ],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        let config: Config = parse_config(config)?;
        if config.samples > SAMPLE_COUNT_MAX {
            return Err(vec![catena_engine::config::ConfigError::new(
                "samples",
                format!("{} samples are too many", config.samples),
                format!("give at most {SAMPLE_COUNT_MAX}"),
            )]);
        }
        if config.flows > FLOW_COUNT_MAX {
            return Err(vec![catena_engine::config::ConfigError::new(
                "flows",
                format!("{} flows are too many", config.flows),
                format!("give at most {FLOW_COUNT_MAX}"),
            )]);
        }
        Ok(PortRole::of(false, true))
    },
    open: |config, opening| {
        let config: Config = parse_config(config).map_err(|errors| {
            let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
            PortError(lines.join("; "))
        })?;
        let rate = TickRate::measure(Duration::from_millis(20));
        let mut port = ReceiverPort::new(
            config.trial,
            rate,
            config.samples,
            FlowSink::new(config.flows),
        );
        port.results = config.results.map(|path| opening.dir.join(path));
        port.slices = config.slices.map(|slices| Slices::new(&slices, rate));
        port.window = config.window.map(|window| Window::new(&window, rate));
        Ok(Box::new(port))
    },
};

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
