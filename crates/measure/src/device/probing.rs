//! Probes in the device under test: what its workers note in a trial, and what that costs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catena_engine::probe::{ProbeSettings, Tier};
use catena_engine::supervisor::Supervisor;

use super::offer::Offer;
use super::profile::TrialProfile;
use super::under_test::{Device, DeviceError};
use crate::probes::ProbeReport;
use crate::probes::tax::{self, Measure, Tax, TaxError};

/// Length of a slice of the comparison with and without probes, and of what is left out before it.
const SLICE: Duration = Duration::from_millis(10);
const SETTLING: Duration = Duration::from_millis(2);
/// How long the first packet may take; containers take a second or two.
const FIRST: Duration = Duration::from_secs(20);
/// Slices in a row without a packet after which there is none.
const EMPTY_SLICES_MAX: u32 = 50;

impl Device {
    /// Has the workers follow packets in trials from now on; `None`: not any more.
    pub const fn set_probes(&mut self, settings: Option<ProbeSettings>) {
        self.probes.settings = settings;
    }

    /// What probes found in the last trial.
    pub const fn take_probe_report(&mut self) -> Option<ProbeReport> {
        self.probes.report.take()
    }

    /// What probes cost this device: one chain, with them and without, in turns. At the highest
    /// load that is throughput; at `load_pps`, where probes take none, the busy time of all workers
    /// by packet.
    ///
    /// # Errors
    /// The chain failed, or nothing came through it.
    pub fn probe_tax(
        &mut self,
        profile: &TrialProfile,
        settings: ProbeSettings,
        load_pps: Option<f64>,
        seed: u64,
    ) -> Result<Tax, DeviceError> {
        let measure = match load_pps {
            None => Measure::Throughput,
            Some(_) => Measure::BusyTimePerPacket,
        };
        let pairs = u32::try_from(measure.pairs()).unwrap_or(u32::MAX);
        let offer = Offer {
            load_pps,
            warmup: Duration::ZERO,
            // It is stopped when all pairs are done.
            duration: FIRST + (SLICE + SETTLING) * (20 * pairs),
            packet_count: None,
            samples: 1,
        };
        let mut supervisor = self.start(profile, &offer)?;
        let off = ProbeSettings {
            tier: Tier::Sums,
            ..settings
        };
        let receiver = self.chain.nodes[self.receiver].name.clone();
        let is_interrupted = self.setting.is_interrupted.clone();
        let first = Instant::now() + FIRST;
        while Moment::of(&supervisor, &receiver).received == 0 && Instant::now() < first {
            if supervisor.is_finished() || is_interrupted.load(Ordering::Relaxed) {
                break;
            }
            serve_for(&mut supervisor, SLICE);
        }
        let tax = tax::measure(measure, seed, |with_probes| {
            supervisor.probe(if with_probes { settings } else { off });
            if is_interrupted.load(Ordering::Relaxed) {
                return Err(DeviceError::Interrupted);
            }
            serve_for(&mut supervisor, SETTLING);
            let before = Moment::of(&supervisor, &receiver);
            let mut after = before;
            // Where others have all cores, a slice may pass without a packet.
            for _ in 0..EMPTY_SLICES_MAX {
                serve_for(&mut supervisor, SLICE);
                after = Moment::of(&supervisor, &receiver);
                if after.received > before.received {
                    break;
                }
            }
            Ok(after.since(&before, measure))
        });
        supervisor.stop(Duration::from_secs(5));
        tax.map_err(|error| match error {
            TaxError::Slice(error) => error,
            TaxError::Compare(error) => self.failed(format!("cost of probes: {error}")),
        })
    }
}

fn serve_for(supervisor: &mut Supervisor, span: Duration) {
    let end = Instant::now() + span;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        supervisor.step(left, &[]);
    }
}

/// Where a chain stands.
#[derive(Clone, Copy)]
struct Moment {
    /// Packets that have left by the receiver.
    received: u64,
    /// Time of all workers in turns that moved packets, in seconds.
    busy_s: f64,
    at: Instant,
}

impl Moment {
    fn of(supervisor: &Supervisor, receiver: &str) -> Self {
        let status = supervisor.status();
        let mut nodes = status.nodes.iter();
        let node = nodes.find(|node| node.name == receiver);
        Self {
            received: node.map_or(0, |node| node.tx_packets),
            busy_s: status.workers.iter().map(|worker| worker.busy_s).sum(),
            at: Instant::now(),
        }
    }

    /// What a slice since `earlier` says; no number if nothing came through.
    fn since(&self, earlier: &Self, measure: Measure) -> f64 {
        let packets = (self.received - earlier.received) as f64;
        match measure {
            Measure::Throughput => packets / (self.at - earlier.at).as_secs_f64(),
            Measure::BusyTimePerPacket => (self.busy_s - earlier.busy_s) / packets,
        }
    }
}
