//! What is kept of a trial of a study: enough for every table and figure, and no packet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::blame::Blame;
use crate::device::{Baseline, LOOPS, Outcome};
use crate::latency::stall::touched;
use crate::latency::steady::Ranks;
use crate::latency::{Direction, Distribution, Latency, Sample};
use crate::probes::tax::Tax;
use crate::report::over_time::OverTime;
use crate::report::trial_row::TrialRow;
use crate::stats::histogram::Histogram;
use crate::traffic::send_record::SendRecord;

/// How long after a stall the queue that it left may still delay packets.
pub const RECOVERY_NS: u64 = 10_000;

/// A trial of a study, with those before it that did not count.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// In which block, from 0.
    pub block: u32,
    /// Level of each factor.
    pub cell: BTreeMap<String, String>,
    /// When it began, RFC 3339.
    pub began: String,
    /// The command that ran it.
    pub command: String,
    /// Offered load; none at `max`.
    pub load_pps: Option<f64>,
    /// Every attempt.
    pub attempts: Vec<TrialRow>,
    /// What was measured, or why nothing was.
    pub result: Result<Measured, String>,
    /// Which kind of component takes the time, of a trial in which packets were followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blame: Option<Blame>,
    /// What following them cost, or why that is not known; absent where none were followed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_tax: Option<Result<Tax, String>>,
    /// Share of the cores' time in each idle state meanwhile, by the state's name; absent where the
    /// kernel has none, and in older journals.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub idle_shares: BTreeMap<String, f64>,
    /// How the workers waited, and why so; absent where no trial ran, and in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// How the program that ran it was built; absent in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub build: Option<String>,
    /// Trials of the tester without a device, before the first trial of a block in each setting of
    /// the states; absent in the others, and in older journals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub baselines: Vec<Baseline>,
}

/// What a trial that counts gave.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Packets per second that came back.
    pub rate_pps: f64,
    /// Packets that should have been offered.
    pub intended: u64,
    /// Packets that came back.
    pub forwarded: u64,
    /// Packets that the tester's own ports dropped.
    pub tester_lost: u64,
    /// Mean frame length with FCS.
    pub frame_len: f64,
    /// Latency; only of trials at a load.
    pub latency: Option<LatencyRecord>,
    /// Mean power.
    pub watts: Option<f64>,
    /// How late the generator was with all packets that it sent, and what the device held back at
    /// its entry; only of trials at a load, and absent in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<SendRecord>,
}

/// Latency of a trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyRecord {
    /// Delay from intended sending, ns.
    pub raw: Histogram,
    /// The same of packets that no stall of the tester's loops touched.
    pub clean: Histogram,
    /// Share of packets that a stall touched.
    pub excluded_share: f64,
    /// p99.9 less the least delay (RFC 8219 7.3.1).
    pub pdv_rfc8219_ns: Option<f64>,
    /// Mean |IPDV| (RFC 3393).
    pub ipdv_rfc3393_ns: Option<f64>,
    /// Interarrival jitter (RFC 3550 6.4.1).
    pub interarrival_jitter_rfc3550_ns: Option<f64>,
    /// How late the generator sent the packets that came back; absent in older journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lateness: Option<Lateness>,
    /// Delay over time; of the first block only.
    pub over_time: Option<OverTime>,
    /// How the trial's slices lie among each other; none with too few packets, and in older
    /// journals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ranks: Option<Ranks>,
}

/// Actual less intended sending, the generator's own part of the delay, ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Lateness {
    /// Median.
    pub p50_ns: Option<f64>,
    /// 99th percentile, if there are enough samples.
    pub p99_ns: Option<f64>,
    /// Largest.
    pub max_ns: f64,
}

impl Lateness {
    fn of(found: &Distribution) -> Option<Self> {
        let quantile = |q| found.quantile(q).map(|ns| ns as f64);
        Some(Self {
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            max_ns: found.max_ns? as f64,
        })
    }
}

impl Measured {
    /// Of an outcome that is valid. `over_time` asks for the map of delay over time, and `watts` is
    /// the reading of a wattmeter, for a machine without a meter of its own.
    pub fn of(outcome: &Outcome, frame_len: f64, over_time: bool, watts: Option<f64>) -> Self {
        let has_load = outcome.offer.load_pps.is_some();
        Self {
            rate_pps: outcome.forwarding_rate_pps(),
            intended: outcome.intended(),
            forwarded: outcome.forwarded(),
            tester_lost: outcome.tester_lost,
            frame_len,
            latency: has_load.then(|| LatencyRecord::of(outcome, over_time)),
            watts: watts.or_else(|| outcome.energy.map(|energy| energy.watts())),
            sent: has_load.then(|| {
                let mut sent = SendRecord::default();
                sent.add_lateness(&outcome.sent.record);
                sent
            }),
        }
    }

    /// Bits per second on layer 2 that came back.
    pub fn bits_per_second(&self) -> f64 {
        self.rate_pps * self.frame_len * 8.0
    }
}

impl LatencyRecord {
    fn of(outcome: &Outcome, over_time: bool) -> Self {
        let samples = outcome.samples();
        let stalls = outcome.stalls();
        let latency = Latency::of(Direction::OneWay, &samples);
        let touched = touched(&outcome.flights(), &stalls, &LOOPS, RECOVERY_NS);
        let untouched = samples
            .iter()
            .zip(&touched)
            .filter(|(_, touched)| !**touched);
        let raw = histogram(samples.iter());
        let length_ns = u64::try_from(outcome.offer.duration.as_nanos()).unwrap_or(u64::MAX);
        let clean = histogram(untouched.map(|(sample, _)| sample));
        Self {
            excluded_share: (raw.count() - clean.count()) as f64 / raw.count().max(1) as f64,
            pdv_rfc8219_ns: latency.pdv_rfc8219_ns.map(|ns| ns as f64),
            ipdv_rfc3393_ns: latency.ipdv_rfc3393.mean_absolute_ns,
            interarrival_jitter_rfc3550_ns: latency.interarrival_jitter_rfc3550_ns,
            lateness: Lateness::of(&latency.tester_lateness),
            over_time: over_time
                .then(|| OverTime::of(&samples, &stalls, outcome.offer.duration))
                .flatten(),
            ranks: Ranks::of(&samples, length_ns),
            raw,
            clean,
        }
    }

    /// Whether there was any packet.
    pub fn is_empty(&self) -> bool {
        self.raw.count() == 0
    }
}

/// Delays of samples as a histogram.
fn histogram<'a>(samples: impl Iterator<Item = &'a Sample>) -> Histogram {
    let mut histogram = Histogram::new();
    for sample in samples {
        histogram.record(sample.delay_ns().max(0).cast_unsigned());
    }
    histogram
}
