//! DPDK's `dpdk-testpmd` as a peer: memif, vhost-user, a memif chain and a bare forwarding core.
//!
//! Each peer is a set of polling processes, started from the receiving end back to the generator,
//! since a connecting end fails at once when nobody listens. A rate is read from the receiver
//! while traffic flows: its first interval with packets is start-up and is left out, and the
//! processes are killed before any of them stops by itself, so no interval is cut short.
//!
//! `--in-memory` keeps huge pages in memfds, so that nothing is left on a hugetlbfs and none need
//! be mounted; with too few huge pages free the peers run on 4 KiB pages, which a note says.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::child::{Guarded, WorkDir};
use super::machine::memory_info;
use super::stats::{PortSample, StatsParser};

/// The program, and the packages that hold it and its drivers on Debian and Ubuntu.
const PROGRAM: &str = "dpdk-testpmd";
const PACKAGES: [&str; 2] = ["dpdk", "dpdk-dev"];

/// Memory and packet buffers of one process: 16,384 buffers of 2,176 bytes take about 40 MB, and
/// are several times what the rings of a port (1,024 slots each) can hold.
const MEMORY_MIB: u64 = 64;
const BUFFERS: u32 = 16_384;
const HUGE_PAGE_MIB: u64 = 2;

/// Longest wait for one process to listen. Start-up takes 0.3 s on a core of its own; in a chain
/// it shares the core with the pollers that run already.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the first packets and for late statistics, beyond the measured seconds.
const FLOW_TIMEOUT: Duration = Duration::from_secs(10);

/// A peer's received rate.
#[derive(Clone, Debug)]
pub(crate) struct PeerRate {
    /// Million packets per second.
    pub(crate) mpps: f64,
}

/// Why a peer gave no rate.
#[derive(Clone, Debug)]
pub(crate) struct PeerMissing {
    pub(crate) peer: &'static str,
    pub(crate) reason: String,
}

impl fmt::Display for PeerMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.peer, self.reason)
    }
}

impl std::error::Error for PeerMissing {}

/// Who copies a packet that crosses a memif.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemifCopy {
    /// The receiver alone: the sender's buffers lie in the shared region (`zero-copy=yes`).
    Receiver,
    /// Sender and receiver each copy once.
    Both,
}

/// Starts testpmd peers; holds the directory of their sockets and logs.
#[derive(Debug)]
pub(crate) struct Testpmd {
    work_dir: Rc<WorkDir>,
    /// No run may last beyond this time.
    deadline: Option<Instant>,
    installed: Result<(), String>,
    runs: u32,
    notes: Vec<String>,
}

/// One running process.
struct Process {
    child: Guarded,
    parser: StatsParser,
}

impl Testpmd {
    /// Finds testpmd, installing it where that is allowed.
    pub(crate) fn new(work_dir: Rc<WorkDir>) -> Self {
        let installed = super::install::require(PROGRAM, &PACKAGES, work_dir.path());
        Self {
            work_dir,
            deadline: None,
            installed,
            runs: 0,
            notes: Vec::new(),
        }
    }

    /// Sets the time by which all runs must have ended.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// What a reader must know about the set-up.
    pub(crate) fn take_notes(&mut self) -> Vec<String> {
        std::mem::take(&mut self.notes)
    }

    /// One memif between two processes, one core each; the receiver's median rate.
    pub(crate) fn memif(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
        copy: MemifCopy,
    ) -> Result<PeerRate, PeerMissing> {
        let run = Run::begin(self, "memif", 2)?;
        let socket = run.socket(0);
        let server = memif_vdev(0, "server", &socket, None);
        let sink = run.start("sink", cores[0], &[server], &["--forward-mode=rxonly"])?;
        let sink = run.listening(sink, &socket)?;
        let client = memif_vdev(0, "client", &socket, Some(copy));
        let _generator = run.start_generator(cores[1], client, packet_size)?;
        run.median_rate(sink, seconds)
    }

    /// vhost-user with a packed ring: receiver is the host's end, sender the guest's.
    pub(crate) fn vhost_user(
        &mut self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<PeerRate, PeerMissing> {
        let run = Run::begin(self, "vhost-user", 2)?;
        let socket = run.socket(0);
        let host = format!("net_vhost0,iface={},queues=1", socket.display());
        let sink = run.start("sink", cores[0], &[host], &["--forward-mode=rxonly"])?;
        let sink = run.listening(sink, &socket)?;
        let guest = format!(
            "net_virtio_user0,path={},queues=1,packed_vq=1,mrg_rxbuf=0,in_order=1",
            socket.display()
        );
        let _generator = run.start_generator(cores[1], guest, packet_size)?;
        run.median_rate(sink, seconds)
    }

    /// `length` forwarders in a row between a generator and a sink, each a process that polls,
    /// dealt round-robin over `cores`; the mean rate at the sink.
    ///
    /// Pollers that share a core take turns by scheduler slices, so packets arrive in bursts and
    /// whole intervals may be empty: a median over intervals would mislead.
    pub(crate) fn memif_chain(
        &mut self,
        length: usize,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<PeerRate, PeerMissing> {
        let run = Run::begin(self, "memif chain", length as u64 + 2)?;
        let core = |place: usize| cores[place % cores.len()];
        let socket = run.socket(length);
        let server = memif_vdev(0, "server", &socket, None);
        let sink = run.start(
            "sink",
            core(length + 1),
            &[server],
            &["--forward-mode=rxonly"],
        )?;
        let sink = run.listening(sink, &socket)?;
        let mut forwarders = Vec::new();
        for index in (0..length).rev() {
            let upstream = run.socket(index);
            let vdevs = [
                memif_vdev(0, "server", &upstream, None),
                memif_vdev(
                    1,
                    "client",
                    &run.socket(index + 1),
                    Some(MemifCopy::Receiver),
                ),
            ];
            let name = format!("nf{index}");
            let nf = run.start(&name, core(index + 1), &vdevs, &["--forward-mode=mac"])?;
            forwarders.push(run.listening(nf, &upstream)?);
        }
        let client = memif_vdev(0, "client", &run.socket(0), Some(MemifCopy::Receiver));
        let _generator = run.start_generator(core(0), client, packet_size)?;
        run.mean_rate(sink, seconds)
    }

    /// One core that forwards between two null ports (no link, no copy): packets per second over
    /// both directions. The most that any testpmd figure here could reach.
    pub(crate) fn null_forwarding(
        &mut self,
        packet_size: usize,
        seconds: u32,
        core: usize,
    ) -> Result<PeerRate, PeerMissing> {
        let run = Run::begin(self, "null ports", 1)?;
        let vdevs = [0, 1].map(|port| format!("net_null{port},size={packet_size}"));
        let process = run.start("null", core, &vdevs, &["--forward-mode=mac"])?;
        let per_port = run.median_rate(process, seconds)?;
        Ok(PeerRate {
            mpps: per_port.mpps * 2.0,
        })
    }
}

/// One measurement: names its sockets and logs, and holds its time limit.
struct Run<'a> {
    peer: &'static str,
    directory: PathBuf,
    id: u32,
    deadline: Option<Instant>,
    huge_pages: bool,
    work_dir: &'a Path,
}

impl<'a> Run<'a> {
    fn begin(
        testpmd: &'a mut Testpmd,
        peer: &'static str,
        processes: u64,
    ) -> Result<Self, PeerMissing> {
        let missing = |reason: String| PeerMissing { peer, reason };
        testpmd.installed.clone().map_err(missing)?;
        testpmd.runs += 1;
        let id = testpmd.runs;
        let wanted = processes * MEMORY_MIB / HUGE_PAGE_MIB;
        let free = memory_info("HugePages_Free").unwrap_or(0);
        let huge_pages =
            memory_info("Hugepagesize") == Some(HUGE_PAGE_MIB * 1024) && free >= wanted;
        if !huge_pages {
            let note = format!(
                "{peer}: on 4 KiB pages, since fewer than {wanted} free huge pages of 2 MB were \
                 found ({free}); set vm.nr_hugepages for the peer's best figure"
            );
            if !testpmd.notes.contains(&note) {
                testpmd.notes.push(note);
            }
        }
        let work_dir = testpmd.work_dir.path();
        let directory = work_dir.join(id.to_string());
        std::fs::create_dir(&directory).map_err(|e| missing(e.to_string()))?;
        Ok(Self {
            peer,
            directory,
            id,
            deadline: testpmd.deadline,
            huge_pages,
            work_dir,
        })
    }

    fn missing(&self, reason: impl Into<String>) -> PeerMissing {
        PeerMissing {
            peer: self.peer,
            reason: reason.into(),
        }
    }

    fn socket(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{index}.sock"))
    }

    /// The earlier of now plus `limit` and the deadline of all runs.
    fn until(&self, limit: Duration) -> Instant {
        let own = Instant::now() + limit;
        self.deadline.map_or(own, |all| all.min(own))
    }

    fn start(
        &self,
        name: &str,
        core: usize,
        vdevs: &[String],
        mode: &[&str],
    ) -> Result<Process, PeerMissing> {
        let mut arguments: Vec<String> = vec![
            "--lcores".into(),
            format!("0@{core},1@{core}"),
            "--no-pci".into(),
        ];
        // Both kinds of page lie in a few memfds, which is what a peer process can map.
        arguments.extend(["--in-memory", "--single-file-segments"].map(Into::into));
        if !self.huge_pages {
            arguments.push("--no-huge".into());
        }
        arguments.extend(["-m".into(), MEMORY_MIB.to_string(), "--no-telemetry".into()]);
        let prefix = format!("catena-bench-{}-{}-{name}", std::process::id(), self.id);
        arguments.extend(["--file-prefix".into(), prefix]);
        for vdev in vdevs {
            arguments.extend(["--vdev".into(), vdev.clone()]);
        }
        arguments.push("--".into());
        arguments.extend(mode.iter().copied().map(Into::into));
        arguments.extend(["--auto-start", "--stats-period", "1"].map(Into::into));
        arguments.push(format!("--total-num-mbufs={BUFFERS}"));
        // EAL puts its run-time directory below this one instead of /var/run.
        let environment = [("RUNTIME_DIRECTORY", self.work_dir)];
        let log = self.directory.join(format!("{name}.log"));
        let child = Guarded::start(PROGRAM, arguments, &environment, log)
            .map_err(|e| self.missing(format!("{name} did not start: {e}")))?;
        Ok(Process {
            child,
            parser: StatsParser::default(),
        })
    }

    fn start_generator(
        &self,
        core: usize,
        vdev: String,
        packet_size: usize,
    ) -> Result<Process, PeerMissing> {
        let size = format!("--txpkts={packet_size}");
        self.start(
            "generator",
            core,
            &[vdev],
            &["--forward-mode=txonly", &size],
        )
    }

    /// Waits until the process listens on `socket`.
    fn listening(&self, mut process: Process, socket: &Path) -> Result<Process, PeerMissing> {
        let deadline = self.until(LISTEN_TIMEOUT);
        while !is_listening(socket) {
            if let Some(status) = process.child.ended() {
                let cause = process.child.error_tail();
                return Err(self.missing(format!("ended at start ({status}): {cause}")));
            }
            if Instant::now() >= deadline {
                return Err(self.missing("did not listen in time"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(process)
    }

    /// Median of port 0's rate over `seconds` intervals after the first with packets.
    fn median_rate(&self, mut sink: Process, seconds: u32) -> Result<PeerRate, PeerMissing> {
        let deadline = self.until(FLOW_TIMEOUT + Duration::from_secs(seconds.into()));
        self.first_packets(&mut sink, deadline)?;
        let mut rates = Vec::new();
        for _ in 0..seconds {
            let (_, sample) = self.next_sample(&mut sink, deadline)?;
            rates.push(sample.rx_pps as f64 / 1e6);
        }
        let mpps = super::series::median(&rates).ok_or_else(|| self.missing("no interval"))?;
        Ok(PeerRate { mpps })
    }

    /// Packets at port 0 over the time between the first interval with packets and the last.
    fn mean_rate(&self, mut sink: Process, seconds: u32) -> Result<PeerRate, PeerMissing> {
        let deadline = self.until(FLOW_TIMEOUT + Duration::from_secs(seconds.into()));
        let (start, first) = self.first_packets(&mut sink, deadline)?;
        let window = Duration::from_secs(seconds.into());
        loop {
            let (at, sample) = self.next_sample(&mut sink, deadline)?;
            let elapsed = at.duration_since(start);
            // Statistics come every second, give or take a scheduler slice.
            if elapsed + Duration::from_millis(200) >= window {
                let packets = sample.rx_packets.saturating_sub(first.rx_packets);
                return Ok(PeerRate {
                    mpps: packets as f64 / elapsed.as_secs_f64() / 1e6,
                });
            }
        }
    }

    fn first_packets(
        &self,
        sink: &mut Process,
        deadline: Instant,
    ) -> Result<(Instant, PortSample), PeerMissing> {
        loop {
            let (at, sample) = self.next_sample(sink, deadline)?;
            if sample.rx_packets > 0 {
                return Ok((at, sample));
            }
        }
    }

    /// The next statistics of port 0.
    fn next_sample(
        &self,
        process: &mut Process,
        deadline: Instant,
    ) -> Result<(Instant, PortSample), PeerMissing> {
        while let Some((at, line)) = process.child.next_line(deadline) {
            match process.parser.push(&line) {
                Some(sample) if sample.port == 0 => return Ok((at, sample)),
                _ => {}
            }
        }
        Err(match process.child.ended() {
            Some(status) => self.missing(format!(
                "ended early ({status}): {}",
                process.child.error_tail()
            )),
            None => self.missing("no packets within the time limit"),
        })
    }
}

/// Whether some process listens on the Unix socket, by the kernel's table: a trial connection
/// would count as the peer.
fn is_listening(socket: &Path) -> bool {
    /// `__SO_ACCEPTCON` (net.h): the flag of a listening socket.
    const ACCEPTS: u32 = 0x1_0000;
    let (Some(path), Ok(table)) = (socket.to_str(), std::fs::read_to_string("/proc/net/unix"))
    else {
        return false;
    };
    table
        .lines()
        .filter(|line| line.ends_with(path))
        .any(|line| {
            let flags = line.split_whitespace().nth(3);
            flags
                .and_then(|f| u32::from_str_radix(f, 16).ok())
                .is_some_and(|f| f & ACCEPTS != 0)
        })
}

/// The `--vdev` argument of one end of a memif.
fn memif_vdev(port: u32, role: &str, socket: &Path, copy: Option<MemifCopy>) -> String {
    let zero_copy = match copy {
        Some(MemifCopy::Receiver) => ",zero-copy=yes",
        Some(MemifCopy::Both) | None => "",
    };
    let socket = socket.display();
    format!("net_memif{port},role={role},socket={socket},socket-abstract=no{zero_copy}")
}
