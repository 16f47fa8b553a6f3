//! Chains of testpmd forwarders behind OVS-DPDK with vhost-user ports: what PA-Flow was measured
//! against.
//!
//! Every hop goes through the switch. Two set-ups, for fewer cores than pollers:
//!
//! - *one thread*: the switch's forwarding thread has one core; one testpmd thread has the other
//!   and polls the ports of all NFs and of the generator and sink in turn. Nobody waits for the
//!   scheduler. A known number of packets goes round for ever: the sink's port hands on what comes
//!   to the generator's. That gives the most packets per second without a loss, and by Little's
//!   law (packets in flight / rate) the mean time of a round at each load. It is kinder to the peer
//!   than its deployment: it pays for no second process and for no generation of packets.
//! - *processes*: a testpmd process per NF, and one that generates and receives, as it would be
//!   deployed; they poll in turn on the second core, by slices of the scheduler.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::time::Duration;

use super::installed::Testpmd;
use super::ovs::{self, Switch, from_port};
use super::peer::{PeerMissing, PeerRate};
use super::run::{Process, Run};

/// How NFs are joined.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    /// So many in a row.
    Line(usize),
    /// Two side by side; the switch itself sends packets to one or the other.
    Branch,
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(1) => f.write_str("1 NF"),
            Self::Line(length) => write!(f, "{length} NFs"),
            Self::Branch => f.write_str("branch"),
        }
    }
}

impl Shape {
    fn nfs(self) -> usize {
        match self {
            Self::Line(length) => length,
            Self::Branch => 2,
        }
    }

    /// Flows of the switch. Ports 0 and 1 are the sink's and the generator's, then each NF has one
    /// to receive and one to send.
    fn flows(self) -> Vec<(String, usize)> {
        let nfs = self.nfs();
        match self {
            Self::Line(_) => (0..=nfs)
                .map(|stop| (from_port(2 * stop + 1), 2 * (stop + 1) % (2 * nfs + 2)))
                .collect(),
            Self::Branch => {
                // The generator varies the source address (bits 8 to 15), later versions of it
                // the source port: either alone parts the packets evenly.
                let parted = [(0, 0, 2), (0, 1, 4), (1, 0, 4), (1, 1, 2)];
                let parted = parted.map(|(address, port, to)| {
                    let from = from_port(1);
                    let matched =
                        format!("{from},udp,nw_src=0.0.{address}.0/0.0.1.0,tp_src={port}/1");
                    (matched, to)
                });
                let joined = [3, 5].map(|port| (from_port(port), 0));
                parted.into_iter().chain(joined).collect()
            }
        }
    }
}

/// Packets that go round.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circulation {
    /// Million packets per second at the sink.
    pub(crate) mpps: f64,
    /// Mean time of a round, by Little's law.
    pub(crate) mean_ns: f64,
}

/// A chain in one thread, ready to be measured.
pub(crate) struct VswitchChain {
    shape: Shape,
    run: Run,
    console: Process,
    // Ended after the console.
    _switch: Switch,
}

const PEER: &str = "OVS-DPDK";

/// From the start of a round to its measurement.
const SETTLE: Duration = Duration::from_millis(100);

impl Testpmd {
    fn begin_vswitch(&mut self, processes: u64) -> Result<Run, PeerMissing> {
        let installed = ovs::require(self.work_dir.path());
        installed.map_err(|reason| PeerMissing { peer: PEER, reason })?;
        let run = Run::begin(self, PEER, processes + ovs::MEMORY_MIB / 64)?;
        if run.huge_pages {
            return Ok(run);
        }
        Err(run.missing(format!(
            "needs {} MiB of free 2 MB huge pages; set vm.nr_hugepages",
            ovs::MEMORY_MIB + processes * 64
        )))
    }

    /// Starts a chain whose NFs share one thread with generator and sink.
    pub(crate) fn vswitch_chain(
        &mut self,
        shape: Shape,
        cores: [usize; 2],
    ) -> Result<VswitchChain, PeerMissing> {
        let mut run = self.begin_vswitch(1)?;
        let ports = 2 * shape.nfs() + 2;
        let switch = Switch::start(&run, ports, cores[0], cores[1])?;
        switch
            .set_flows(&shape.flows())
            .map_err(|reason| run.missing(reason))?;
        let vdevs: Vec<String> = (0..ports).map(|port| switch.guest(port, port)).collect();
        let mode = ["--forward-mode=mac", "--txonly-multi-flow"];
        let mut console = run.start_console("nfs", cores[1], &vdevs, &mode)?;
        // An answer means that all ports are up here; then the switch must have noticed.
        run.ask(&mut console, 0)?;
        switch.wait_for_peers(&run)?;
        Ok(VswitchChain {
            shape,
            run,
            console,
            _switch: switch,
        })
    }

    /// A chain of `length` NFs in processes of their own; the mean rate at the sink.
    pub(crate) fn vswitch_processes(
        &mut self,
        length: usize,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<PeerRate, PeerMissing> {
        let mut run = self.begin_vswitch(length as u64 + 1)?;
        let switch = Switch::start(&run, 2 * length + 1, cores[0], cores[1])?;
        // Port 0 is the generator's and the sink's; NF n has ports 2n - 1 and 2n.
        let flows: Vec<_> = (0..=length)
            .map(|stop| (from_port(2 * stop), (2 * stop + 1) % (2 * length + 1)))
            .collect();
        let set = switch.set_flows(&flows);
        set.map_err(|reason| run.missing(reason))?;
        let mut forwarders = Vec::new();
        for nf in 1..=length {
            let vdevs = [switch.guest(0, 2 * nf - 1), switch.guest(1, 2 * nf)];
            let name = format!("nf{nf}");
            forwarders.push(run.start(&name, cores[1], &vdevs, &["--forward-mode=mac"])?);
        }
        let size = format!("--txpkts={packet_size}");
        let mode = [
            "--forward-mode=flowgen",
            "--port-topology=loop",
            "--flowgen-flows=1",
            &size,
        ];
        let sink = run.start("generator", cores[1], &[switch.guest(0, 0)], &mode)?;
        run.mean_rate(sink, seconds)
    }
}

impl VswitchChain {
    /// Lets `burst` packets per port go round, and measures for `span`.
    pub(crate) fn circulate(
        &mut self,
        packet_size: usize,
        burst: usize,
        span: Duration,
    ) -> Result<Circulation, PeerMissing> {
        let Self { run, console, .. } = self;
        let commands = [
            "stop".to_owned(),
            format!("set txpkts {packet_size}"),
            format!("set burst {burst}"),
            "clear port stats all".to_owned(),
            // Each port sends a burst; those of ports that only receive are dropped by the switch.
            "start tx_first 1".to_owned(),
        ];
        run.say(console, &commands)?;
        run.ask(console, 0)?;
        std::thread::sleep(SETTLE);
        run.ask(console, 0)?;
        std::thread::sleep(span);
        let rate = run.ask(console, 0)?.rx_pps as f64;
        if rate == 0.0 {
            return Err(run.missing("the packets that went round were lost"));
        }
        if self.shape == Shape::Branch {
            for port in [2, 4] {
                if run.ask(console, port)?.rx_packets <= burst as u64 {
                    return Err(run.missing("all packets took one branch"));
                }
            }
        }
        let in_flight = (self.shape.nfs() + 1) * burst;
        Ok(Circulation {
            mpps: rate / 1e6,
            mean_ns: in_flight as f64 / rate * 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_of_a_line_visit_every_nf_and_come_back() {
        let flows: Vec<_> = Shape::Line(2).flows();
        let expected = [("in_port=2", 2), ("in_port=4", 4), ("in_port=6", 0)];
        assert_eq!(flows, expected.map(|(from, to)| (from.to_owned(), to)));
    }
}
