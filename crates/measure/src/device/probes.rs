//! The probes of a device's trials: begun with a trial, read while it runs, reported behind it.

use std::time::Duration;

use catena_engine::probe::ProbeSettings;
use catena_engine::supervisor::Supervisor;
use catena_engine::supervisor::status::Status;

use crate::probes::{Collector, ProbeReport};

/// How long the supervisor waits for something to happen while nothing is followed.
const PATIENCE: Duration = Duration::from_millis(20);
/// The same while packets are followed: pages have to be read before they are written over.
const POLL: Duration = Duration::from_millis(5);

/// The probes of a device's trials.
#[derive(Debug, Default)]
pub(super) struct Probes {
    pub(super) settings: Option<ProbeSettings>,
    pub(super) running: Option<(Collector, Status)>,
    pub(super) report: Option<ProbeReport>,
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
