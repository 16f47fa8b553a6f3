//! testpmd as the one that forwards, and as the other side of one who does.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;

use super::installed::{TUNINGS, Testpmd, Tuning};
use super::peer::{PeerMissing, PeerRate};
use super::run::{Process, Run};
use super::{MemifCopy, TUNING_SECONDS, memif_vdev};

const SWAP: &str = "--forward-mode=macswap";

/// A testpmd that forwards until this is dropped.
pub(crate) struct Forwarder {
    _run: Run,
    _process: Process,
}

impl Testpmd {
    /// One core that swaps addresses between two null ports: packets per second over both ways.
    pub(crate) fn null_swap(
        &mut self,
        packet_size: usize,
        seconds: u32,
        core: usize,
    ) -> Result<PeerRate, PeerMissing> {
        let peer = "testpmd, net_null";
        let tuning = self.tuning((peer, packet_size), |testpmd, tuning| {
            testpmd.null_swap_with(peer, packet_size, TUNING_SECONDS, (core, tuning))
        });
        self.null_swap_with(peer, packet_size, seconds, (core, tuning))
    }

    fn null_swap_with(
        &mut self,
        peer: &'static str,
        packet_size: usize,
        seconds: u32,
        (core, tuning): (usize, Tuning),
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = Run::begin(self, peer, 1)?;
        run.set_options(tuning.options());
        let vdevs = [0, 1].map(|port| format!("net_null{port},size={packet_size}"));
        let process = run.start("null", core, &vdevs, &[SWAP])?;
        self.alone_over(&run, process, seconds, 2)
    }

    /// One core that swaps addresses between two memifs, whose other ends a process on the other
    /// core has: packets per second over both ways, as received there, and the tuning.
    pub(crate) fn memif_swap(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<PeerRate, PeerMissing> {
        let peer = "testpmd, net_memif";
        let tuning = self.tuning((peer, packet_size), |testpmd, tuning| {
            testpmd.memif_swap_with(peer, packet_size, TUNING_SECONDS, (cores, tuning))
        });
        self.memif_swap_with(peer, packet_size, seconds, (cores, tuning))
    }

    fn memif_swap_with(
        &mut self,
        peer: &'static str,
        packet_size: usize,
        seconds: u32,
        (cores, tuning): ([usize; 2], Tuning),
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = Run::begin(self, peer, 2)?;
        run.set_options(tuning.options());
        let sockets = [0, 1].map(|at| run.socket(at));
        let servers = memifs("server", &sockets, tuning);
        let process = run.start("forwarder", cores[0], &servers, &[SWAP])?;
        let process = run.listening(process, &sockets[0])?;
        let _forwarder = run.listening(process, &sockets[1])?;
        let other = start_other_side(&mut run, &sockets, packet_size, cores[1], tuning)?;
        self.alone_over(&run, other, seconds, 2)
    }

    /// Packets per second, over both ways, that come back from somebody who listens at two sockets
    /// of memifs with rings of 1024 and forwards between them.
    pub(crate) fn through_memifs(
        &mut self,
        sockets: &[PathBuf; 2],
        packet_size: usize,
        seconds: u32,
        core: usize,
    ) -> Result<PeerRate, PeerMissing> {
        let tuning = TUNINGS[0];
        let mut run = Run::begin(self, "other side of memifs", 1)?;
        run.set_options(tuning.options());
        let other = start_other_side(&mut run, sockets, packet_size, core, tuning)?;
        self.alone_over(&run, other, seconds, 2)
    }

    /// One core that swaps addresses between AF_XDP sockets of interfaces of a namespace.
    pub(crate) fn af_xdp(
        &mut self,
        namespace: &str,
        interfaces: [&str; 2],
        core: usize,
    ) -> Result<Forwarder, PeerMissing> {
        let mut run = Run::begin(self, "testpmd, net_af_xdp", 1)?;
        run.set_namespace(namespace);
        let vdevs = [0, 1].map(|at| format!("net_af_xdp{at},iface={}", interfaces[at]));
        let process = run.start("af_xdp", core, &vdevs, &[SWAP])?;
        let process = run.forwarding(process)?;
        Ok(Forwarder {
            _run: run,
            _process: process,
        })
    }
}

fn memifs(role: &str, sockets: &[PathBuf; 2], tuning: Tuning) -> [String; 2] {
    // The client copies what it sends and what it gets, as the server does.
    let copy = (role == "client").then_some(MemifCopy::Both);
    [0, 1].map(|at| {
        let vdev = memif_vdev(role, &sockets[at], copy, tuning);
        vdev.replacen("net_memif0", &format!("net_memif{at},id=0"), 1)
    })
}

/// Sends on both memifs and takes what comes back, in one loop.
fn start_other_side(
    run: &mut Run,
    sockets: &[PathBuf; 2],
    packet_size: usize,
    core: usize,
    tuning: Tuning,
) -> Result<Process, PeerMissing> {
    let clients = memifs("client", sockets, tuning);
    let size = format!("--txpkts={packet_size}");
    let mode = ["--forward-mode=flowgen", &size];
    run.start("other-side", core, &clients, &mode)
}
