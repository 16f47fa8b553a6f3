//! DPDK's `dpdk-testpmd` as a peer: memif, vhost-user and a bare forwarding core.
//!
//! Each peer is a set of polling processes, started from the receiving end back to the generator,
//! since a connecting end fails at once when nobody listens. A rate is read from the receiver
//! while traffic flows: its first interval with packets is start-up and is left out, and the
//! processes are killed before any of them stops by itself, so no interval is cut short.
//!
//! A peer is measured at its best: on huge pages, which are made for the command where that is
//! allowed, and with the burst and ring size of [`TUNINGS`] that give it most in a short run before
//! its first. `--in-memory` keeps huge pages in memfds, so that nothing is left on a hugetlbfs and
//! none need be mounted; with too few huge pages the peers run on 4 KiB pages, which a note says.
//!
//! SPDX-License-Identifier: Apache-2.0

mod forward;
mod installed;
mod ovs;
mod peer;
mod run;
mod vswitch;

use std::path::Path;
use std::time::Instant;

pub(crate) use installed::Testpmd;
use installed::{Disturbance, TUNINGS, Tuning};
pub(crate) use peer::{PeerMissing, PeerRate};
use run::{Process, Run};
pub(crate) use vswitch::Shape;

/// Measured seconds of each tuning that is tried.
const TUNING_SECONDS: u32 = 1;

/// A process that polls alone on its core and gets less than this share of it was disturbed.
const UNDISTURBED_SHARE: f64 = 0.95;

/// Who copies a packet that crosses a memif.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemifCopy {
    /// The receiver alone: the sender's buffers lie in the shared region (`zero-copy=yes`).
    Receiver,
    /// Sender and receiver each copy once.
    Both,
}

impl Testpmd {
    /// The tuning that gives a peer most: found by a short run of each, the first time.
    fn tuning(
        &mut self,
        key: (&'static str, usize),
        mut run: impl FnMut(&mut Self, Tuning) -> Result<PeerRate, PeerMissing>,
    ) -> Tuning {
        if self.deadline.is_some() {
            return TUNINGS[0];
        }
        if let Some(known) = self.tunings.get(&key) {
            return *known;
        }
        let mut best = (0.0, TUNINGS[0]);
        for tuning in TUNINGS {
            if let Ok(rate) = run(self, tuning)
                && rate.mpps > best.0
            {
                best = (rate.mpps, tuning);
            }
        }
        let ((peer, size), (mpps, tuning)) = (key, best);
        self.notes.push(format!(
            "{peer}, {size} B: best of {} tunings with bursts of {} and rings of {} \
             ({mpps:.1} Mpps in a short run)",
            TUNINGS.len(),
            tuning.burst,
            1 << tuning.log2_ring
        ));
        self.tunings.insert(key, tuning);
        tuning
    }

    /// Sets the time by which all runs must have ended.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// What a reader must know about the set-up.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        let mut notes = std::mem::take(&mut self.notes);
        for (peer, d) in std::mem::take(&mut self.disturbances) {
            if d.disturbed > 0 {
                notes.push(format!(
                    "{peer}: other work took up to {:.0} % of a core in {} of {} runs",
                    100.0 * (1.0 - d.least_share),
                    d.disturbed,
                    d.runs
                ));
            }
        }
        notes
    }

    /// Keeps the least share of its core that a process of the run had.
    fn record_share(&mut self, peer: &'static str, share: f64) {
        let new = Disturbance {
            least_share: 1.0,
            ..Disturbance::default()
        };
        let disturbance = self.disturbances.entry(peer).or_insert(new);
        disturbance.runs += 1;
        disturbance.disturbed += u32::from(share < UNDISTURBED_SHARE);
        disturbance.least_share = disturbance.least_share.min(share);
    }

    /// Measures the median rate of a run whose processes have a core each.
    fn alone(&mut self, run: &Run, sink: Process, seconds: u32) -> Result<PeerRate, PeerMissing> {
        self.alone_over(run, sink, seconds, 1)
    }

    /// The same, over the first so many ports of the process.
    fn alone_over(
        &mut self,
        run: &Run,
        sink: Process,
        seconds: u32,
        ports: u32,
    ) -> Result<PeerRate, PeerMissing> {
        let (rate, share) = run.median_rate(sink, seconds, ports)?;
        self.record_share(run.peer, share);
        Ok(rate)
    }

    /// One memif between two processes, one core each; the receiver's median rate at the best
    /// tuning.
    pub(crate) fn memif(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
        copy: MemifCopy,
    ) -> Result<PeerRate, PeerMissing> {
        let key = match copy {
            MemifCopy::Receiver => ("memif zero-copy", packet_size),
            MemifCopy::Both => ("memif", packet_size),
        };
        let tuning = self.tuning(key, |testpmd, tuning| {
            testpmd.memif_with(packet_size, TUNING_SECONDS, cores, (copy, tuning))
        });
        self.memif_with(packet_size, seconds, cores, (copy, tuning))
    }

    fn memif_with(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
        (copy, tuning): (MemifCopy, Tuning),
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = Run::begin(self, "memif", 2)?;
        run.set_options(tuning.options());
        let socket = run.socket(0);
        let server = memif_vdev("server", &socket, None, tuning);
        let sink = run.start("sink", cores[0], &[server], &["--forward-mode=rxonly"])?;
        let sink = run.listening(sink, &socket)?;
        let client = memif_vdev("client", &socket, Some(copy), tuning);
        let _generator = run.start_generator(cores[1], client, packet_size)?;
        self.alone(&run, sink, seconds)
    }

    /// vhost-user with a packed ring: receiver is the host's end, sender the guest's; at the best
    /// tuning.
    pub(crate) fn vhost_user(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<PeerRate, PeerMissing> {
        let tuning = self.tuning(("vhost-user", packet_size), |testpmd, tuning| {
            testpmd.vhost_user_with(packet_size, TUNING_SECONDS, cores, tuning)
        });
        self.vhost_user_with(packet_size, seconds, cores, tuning)
    }

    fn vhost_user_with(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
        tuning: Tuning,
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = Run::begin(self, "vhost-user", 2)?;
        run.set_options(tuning.options());
        let socket = run.socket(0);
        let host = format!("net_vhost0,iface={},queues=1", socket.display());
        let sink = run.start("sink", cores[0], &[host], &["--forward-mode=rxonly"])?;
        let sink = run.listening(sink, &socket)?;
        let guest = format!(
            "net_virtio_user0,path={},queues=1,packed_vq=1,mrg_rxbuf=0,in_order=1,queue_size={}",
            socket.display(),
            1 << tuning.log2_ring
        );
        let _generator = run.start_generator(cores[1], guest, packet_size)?;
        self.alone(&run, sink, seconds)
    }

    /// One core that forwards between two null ports (no link, no copy): packets per second over
    /// both directions. The most that any testpmd figure here could reach.
    pub(crate) fn null_forwarding(
        &mut self,
        packet_size: usize,
        seconds: u32,
        core: usize,
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = Run::begin(self, "null ports", 1)?;
        let vdevs = [0, 1].map(|port| format!("net_null{port},size={packet_size}"));
        let process = run.start("null", core, &vdevs, &["--forward-mode=mac"])?;
        let per_port = self.alone(&run, process, seconds)?;
        Ok(PeerRate {
            mpps: per_port.mpps * 2.0,
        })
    }
}

/// The `--vdev` argument of one end of a memif.
fn memif_vdev(role: &str, socket: &Path, copy: Option<MemifCopy>, tuning: Tuning) -> String {
    let zero_copy = match copy {
        Some(MemifCopy::Receiver) => ",zero-copy=yes",
        Some(MemifCopy::Both) | None => "",
    };
    let (socket, rsize) = (socket.display(), tuning.log2_ring);
    format!("net_memif0,role={role},socket={socket},socket-abstract=no,rsize={rsize}{zero_copy}")
}
