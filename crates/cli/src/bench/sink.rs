//! `bench-sink`: reads every byte of every packet, and, if asked, the stamps.
//!
//! It reports latencies in nanoseconds when it closes: `p50_ns`, `p99_ns`, `p999_ns`, `mean_ns`,
//! `max_ns`, as far as there are enough, and `samples`. A burst is one arrival: the counter is read
//! once for all of it.

use std::time::Duration;

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{
    Port, PortError, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst,
};
use catena_measure::stats::histogram::Histogram;
use catena_shm::tsc;
use schemars::JsonSchema;
use serde::Deserialize;

use super::STAMP;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Config {
    /// Read stamps and report latencies.
    #[serde(default)]
    latency: bool,
    /// Milliseconds after the first packet that count as start-up and are left out.
    #[serde(default = "warm_up_ms")]
    skip_ms: u32,
}

fn warm_up_ms() -> u32 {
    20
}

struct Sink {
    sum: u64,
    latencies: Option<Latencies>,
}

struct Latencies {
    histogram: Histogram,
    skip_ticks: u64,
    /// Arrivals before this are start-up; set by the first.
    from: Option<u64>,
    ns_per_tick: f64,
}

impl Latencies {
    /// When the packets in hand arrived, if that counts.
    fn arrival(&mut self) -> Option<u64> {
        let arrived = tsc::ticks();
        let first = arrived.saturating_add(self.skip_ticks);
        (arrived >= *self.from.get_or_insert(first)).then_some(arrived)
    }

    fn add(&mut self, arrived: u64, bytes: &[u8]) {
        if let Some(stamp) = bytes.get(STAMP).and_then(|b| b.first_chunk::<8>()) {
            let ticks = arrived.saturating_sub(u64::from_le_bytes(*stamp));
            self.histogram.record(ticks);
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "nanoseconds for people"
    )]
    fn report(&self) -> Vec<(&'static str, u64)> {
        let ns = |ticks: f64| (ticks * self.ns_per_tick) as u64;
        let quantile = |q| self.histogram.quantile(q).map(|ticks| ticks as f64);
        let values = [
            ("p50_ns", quantile(0.5)),
            ("p99_ns", quantile(0.99)),
            ("p999_ns", quantile(0.999)),
            ("mean_ns", self.histogram.mean()),
            ("max_ns", self.histogram.max().map(|ticks| ticks as f64)),
        ];
        let known = values
            .into_iter()
            .filter_map(|(name, ticks)| Some((name, ns(ticks?))));
        known.chain([("samples", self.histogram.count())]).collect()
    }
}

impl Port for Sink {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        let arrived = self.latencies.as_mut().and_then(Latencies::arrival);
        burst.read(|bytes| self.read(arrived, bytes));
        std::hint::black_box(self.sum);
        burst.count()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        if let (Some(latencies), false) = (&self.latencies, out.is_live()) {
            out.extend(latencies.report());
        }
    }
}

/// How long the counter is measured against the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(50);

impl Sink {
    /// Reads every byte of a packet, and its stamp if its arrival counts.
    #[inline]
    fn read(&mut self, arrived: Option<u64>, bytes: &[u8]) {
        if let (Some(latencies), Some(arrived)) = (&mut self.latencies, arrived) {
            latencies.add(arrived, bytes);
        }
        for word in bytes.as_chunks::<8>().0 {
            self.sum = self.sum.wrapping_add(u64::from_le_bytes(*word));
        }
    }

    fn open(config: &Config) -> Self {
        let latencies = config.latency.then(|| {
            let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a span of days in ticks fits"
            )]
            let skip_ticks = (f64::from(config.skip_ms) * 1e6 / ns_per_tick) as u64;
            Latencies {
                histogram: Histogram::new(),
                skip_ticks,
                from: None,
                ns_per_tick,
            }
        });
        Self { sum: 0, latencies }
    }
}

/// The chain file's entry.
pub(super) const KIND: PortKind = PortKind {
    name: "bench-sink",
    summary: "Reads every byte of every packet",
    counters: &[],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        parse_config::<Config>(config)?;
        Ok(PortRole::of(false, true))
    },
    open: |config, _| {
        let config: Config =
            parse_config(config).map_err(|_| PortError("wrong settings".to_owned()))?;
        Ok(Box::new(Sink::open(&config)))
    },
};
