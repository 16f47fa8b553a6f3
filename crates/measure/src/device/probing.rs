//! Probes in the device under test: what its workers note in a trial, and what that costs.

use std::time::{Duration, Instant};

use catena_engine::probe::{ProbeSettings, Tier};
use catena_engine::supervisor::Supervisor;
use catena_engine::supervisor::status::Status;

use super::{Device, DeviceError, Offer, TrialProfile};
use crate::probes::tax::{self, Measure, PAIRS, Tax, TaxError};
use crate::probes::{Collector, ProbeReport};

/// How long the supervisor waits for something to happen while nothing is followed.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same while packets are followed: pages have to be read before they are written over.
const POLL: Duration = Duration::from_millis(5);
/// Length of a slice of the comparison with and without probes, and of what is left out before it.
const SLICE: Duration = Duration::from_millis(20);
const SETTLING: Duration = Duration::from_millis(2);
/// Slices in a row without a packet after which there is none.
const EMPTY_SLICES_MAX: u32 = 50;

/// The probes of a device's trials.
#[derive(Debug, Default)]
pub(super) struct Probes {
    settings: Option<ProbeSettings>,
    running: Option<(Collector, Status)>,
    report: Option<ProbeReport>,
}

impl Probes {
    pub(super) fn begin(&mut self, supervisor: &mut Supervisor) {
        let Some(settings) = self.settings else {
            return;
        };
        let mut collector = Collector::new(supervisor.probe_map());
        for page in supervisor.probe_pages() {
            // A page that cannot be read shows as packets without an end.
            if let Ok(fd) = page.fd.try_clone() {
                let _ = collector.add(page.worker, page.epoch, fd, page.len);
            }
        }
        self.running = Some((collector, supervisor.status()));
        supervisor.probe(settings);
    }

    pub(super) const fn patience(&self) -> Duration {
        if self.running.is_some() {
            POLL
        } else {
            PATIENCE
        }
    }

    pub(super) fn poll(&mut self) {
        if let Some((collector, _)) = &mut self.running {
            collector.poll();
        }
    }

    pub(super) fn end(&mut self, supervisor: &Supervisor) {
        if let (Some((mut collector, before)), Some(settings)) =
            (self.running.take(), self.settings)
        {
            collector.poll();
            let after = supervisor.status();
            self.report = Some(ProbeReport::new(&collector, &settings, &before, &after));
        }
    }
}

impl Device {
    /// Has the workers follow packets in trials from now on; `None`: not any more.
    pub const fn set_probes(&mut self, settings: Option<ProbeSettings>) {
        self.probes.settings = settings;
    }

    /// What probes found in the last trial.
    pub const fn take_probe_report(&mut self) -> Option<ProbeReport> {
        self.probes.report.take()
    }

    /// What probes cost the throughput of this device at the highest load: one chain, with them
    /// and without, in turns.
    ///
    /// # Errors
    /// The chain failed, or nothing came through it.
    pub fn probe_tax(
        &mut self,
        profile: &TrialProfile,
        settings: ProbeSettings,
        seed: u64,
    ) -> Result<Tax, DeviceError> {
        let pairs = u32::try_from(PAIRS).unwrap_or(u32::MAX);
        let offer = Offer {
            load_pps: None,
            // It is stopped when all pairs are done.
            duration: (SLICE + SETTLING) * (20 * pairs),
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
        let tax = tax::measure(Measure::Throughput, seed, |with_probes| {
            supervisor.probe(if with_probes { settings } else { off });
            if is_interrupted.load(std::sync::atomic::Ordering::Relaxed) {
                return Err(DeviceError::Interrupted);
            }
            serve_for(&mut supervisor, SETTLING);
            let before = received(&supervisor, &receiver);
            let mut after = before;
            // Where others have all cores, a slice may pass without a packet.
            for _ in 0..EMPTY_SLICES_MAX {
                serve_for(&mut supervisor, SLICE);
                after = received(&supervisor, &receiver);
                if after.0 > before.0 {
                    break;
                }
            }
            Ok((after.0 - before.0) as f64 / (after.1 - before.1).as_secs_f64())
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

/// Packets that have left by the receiver, and when.
fn received(supervisor: &Supervisor, receiver: &str) -> (u64, Instant) {
    let status = supervisor.status();
    let mut nodes = status.nodes.iter();
    let node = nodes.find(|node| node.name == receiver);
    (node.map_or(0, |node| node.tx_packets), Instant::now())
}
