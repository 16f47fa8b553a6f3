//! One run of a peer: its processes, their sockets and logs, and the rate at its receiver.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use super::super::child::Guarded;
use super::super::machine::memory_info;
use super::super::series::median;
use super::super::stats::{PortSample, StatsParser};
use super::super::work_dir::WorkDir;
use super::installed::{PROGRAM, Testpmd};
use super::peer::{PeerMissing, PeerRate};

/// Memory and packet buffers of one process: 16,384 buffers of 2,176 bytes take about 40 MB, and
/// are several times what the rings of a port (1,024 slots each) can hold.
const MEMORY_MIB: u64 = 64;
/// The same on 4 KiB pages, where EAL reserves all at once and wastes the ends of pages.
const SMALL_PAGE_MEMORY_MIB: u64 = 128;
const BUFFERS: u32 = 16_384;
const HUGE_PAGE_MIB: u64 = 2;

/// Longest wait for one process to listen. Start-up takes 0.3 s on a core of its own; in a chain
/// it shares the core with the pollers that run already.
const LISTEN_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for the first packets and for late statistics, beyond the measured seconds.
const FLOW_TIMEOUT: Duration = Duration::from_secs(10);

/// One running process.
pub(super) struct Process {
    child: Guarded,
    parser: StatsParser,
}

/// One measurement: names its sockets and logs, and holds its time limit.
pub(super) struct Run {
    pub(super) peer: &'static str,
    pub(super) directory: PathBuf,
    id: u32,
    deadline: Option<Instant>,
    pub(super) huge_pages: bool,
    work_dir: Rc<WorkDir>,
    process_ids: Vec<u32>,
    /// Of every testpmd of the run.
    options: Vec<String>,
    /// Where they run, if not here.
    namespace: Option<String>,
}

impl Run {
    pub(super) fn begin(
        testpmd: &mut Testpmd,
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
        let work_dir = Rc::clone(&testpmd.work_dir);
        let directory = work_dir.path().join(id.to_string());
        std::fs::create_dir(&directory).map_err(|e| missing(e.to_string()))?;
        Ok(Self {
            peer,
            directory,
            id,
            deadline: testpmd.deadline,
            huge_pages,
            work_dir,
            process_ids: Vec::new(),
            options: Vec::new(),
            namespace: None,
        })
    }

    /// Starts every testpmd of the run with these, too.
    pub(super) fn set_options(&mut self, options: impl IntoIterator<Item = String>) {
        self.options = options.into_iter().collect();
    }

    /// Starts every testpmd of the run in a network namespace.
    pub(super) fn set_namespace(&mut self, name: &str) {
        self.namespace = Some(name.to_owned());
    }

    pub(super) fn missing(&self, reason: impl Into<String>) -> PeerMissing {
        PeerMissing {
            peer: self.peer,
            reason: reason.into(),
        }
    }

    pub(super) fn socket(&self, index: usize) -> PathBuf {
        self.directory.join(format!("{index}.sock"))
    }

    /// The earlier of now plus `limit` and the deadline of all runs.
    pub(super) fn until(&self, limit: Duration) -> Instant {
        let own = Instant::now() + limit;
        self.deadline.map_or(own, |all| all.min(own))
    }

    /// What each testpmd of this run is started with.
    fn arguments(&self, name: &str, core: usize, vdevs: &[String], mode: &[&str]) -> Vec<String> {
        let mut arguments: Vec<String> = vec![
            "--lcores".into(),
            format!("0@{core},1@{core}"),
            "--no-pci".into(),
        ];
        // Both kinds of page lie in one memfd, which is what a peer process can map. EAL takes
        // `--in-memory` for huge pages only.
        arguments.push("--single-file-segments".into());
        let (pages, memory_mib) = match self.huge_pages {
            true => ("--in-memory", MEMORY_MIB),
            false => ("--no-huge", SMALL_PAGE_MEMORY_MIB),
        };
        arguments.extend([pages, "-m", &memory_mib.to_string(), "--no-telemetry"].map(Into::into));
        let prefix = format!("catena-bench-{}-{}-{name}", std::process::id(), self.id);
        arguments.extend(["--file-prefix".into(), prefix]);
        for vdev in vdevs {
            arguments.extend(["--vdev".into(), vdev.clone()]);
        }
        arguments.push("--".into());
        arguments.extend(mode.iter().copied().map(Into::into));
        arguments.extend(self.options.iter().cloned());
        arguments.push(format!("--total-num-mbufs={BUFFERS}"));
        arguments
    }

    pub(super) fn start(
        &mut self,
        name: &str,
        core: usize,
        vdevs: &[String],
        mode: &[&str],
    ) -> Result<Process, PeerMissing> {
        let mut arguments = self.arguments(name, core, vdevs, mode);
        arguments.extend(["--auto-start", "--stats-period", "1"].map(Into::into));
        // EAL puts its run-time directory below this one instead of /var/run.
        let environment = [("RUNTIME_DIRECTORY", self.work_dir.path())];
        let log = self.directory.join(format!("{name}.log"));
        let mut words = vec![PROGRAM.to_owned()];
        if let Some(namespace) = &self.namespace {
            words = ["ip", "netns", "exec", namespace, PROGRAM]
                .map(str::to_owned)
                .into();
        }
        words.extend(arguments);
        let child = Guarded::start(&words[0], &words[1..], &environment, log)
            .map_err(|e| self.missing(format!("{name} did not start: {e}")))?;
        self.process_ids.push(child.id());
        Ok(Process {
            child,
            parser: StatsParser::default(),
        })
    }

    /// Starts a testpmd that forwards and tells statistics when it is told to.
    pub(super) fn start_console(
        &mut self,
        name: &str,
        core: usize,
        vdevs: &[String],
        mode: &[&str],
    ) -> Result<Process, PeerMissing> {
        // Into a pipe, testpmd would print only when a buffer is full.
        let mut arguments = vec!["--output=L".to_owned(), PROGRAM.to_owned()];
        arguments.extend(self.arguments(name, core, vdevs, mode));
        arguments.push("--interactive".to_owned());
        let environment = [("RUNTIME_DIRECTORY", self.work_dir.path())];
        let log = self.directory.join(format!("{name}.log"));
        let child = Guarded::start_with_input("stdbuf", arguments, &environment, log)
            .map_err(|e| self.missing(format!("{name} did not start: {e}")))?;
        self.process_ids.push(child.id());
        Ok(Process {
            child,
            parser: StatsParser::default(),
        })
    }

    /// Gives commands to a testpmd that takes them.
    pub(super) fn say(
        &self,
        console: &mut Process,
        commands: &[impl AsRef<str>],
    ) -> Result<(), PeerMissing> {
        for command in commands {
            let said = console.child.say(command.as_ref());
            said.map_err(|error| {
                let cause = console.child.error_tail();
                self.missing(format!("takes no commands ({error}): {cause}"))
            })?;
        }
        Ok(())
    }

    /// The statistics of a port of a testpmd that takes commands, at the end of those before.
    pub(super) fn ask(&self, console: &mut Process, port: u32) -> Result<PortSample, PeerMissing> {
        let deadline = self.until(FLOW_TIMEOUT);
        self.say(console, &[format!("show port stats {port}")])?;
        let (_, sample) = self.next_sample_of(console, port, deadline)?;
        Ok(sample)
    }

    pub(super) fn start_generator(
        &mut self,
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
    pub(super) fn listening(
        &self,
        mut process: Process,
        socket: &Path,
    ) -> Result<Process, PeerMissing> {
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

    /// Waits until a testpmd forwards, whether packets come or not.
    pub(super) fn forwarding(&self, mut process: Process) -> Result<Process, PeerMissing> {
        let deadline = self.until(LISTEN_TIMEOUT);
        self.next_sample(&mut process, deadline)?;
        Ok(process)
    }

    /// Median of the rate of the first so many ports over `seconds` intervals after the first with
    /// packets, and the least share of a core that any process of the run had meanwhile.
    pub(super) fn median_rate(
        &self,
        mut sink: Process,
        seconds: u32,
        ports: u32,
    ) -> Result<(PeerRate, f64), PeerMissing> {
        let deadline = self.until(FLOW_TIMEOUT + Duration::from_secs(seconds.into()));
        self.first_packets(&mut sink, deadline)?;
        let (start, before) = (Instant::now(), self.cpu_seconds());
        let mut rates = Vec::new();
        for _ in 0..seconds {
            let mut packets = 0;
            for port in 0..ports {
                let (_, sample) = self.next_sample_of(&mut sink, port, deadline)?;
                packets += sample.rx_pps;
            }
            rates.push(packets as f64 / 1e6);
        }
        let (elapsed, after) = (start.elapsed().as_secs_f64(), self.cpu_seconds());
        let shares = before.iter().zip(&after).map(|(b, a)| (a - b) / elapsed);
        let share = shares.fold(1.0, f64::min);
        let mpps = median(&rates).ok_or_else(|| self.missing("no interval"))?;
        Ok((PeerRate { mpps }, share))
    }

    /// Core time of each process so far.
    fn cpu_seconds(&self) -> Vec<f64> {
        let ticks_per_second = rustix::param::clock_ticks_per_second() as f64;
        let seconds = |id: &u32| {
            let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            // proc_pid_stat(5): the name, in brackets, may hold blanks; after it utime and stime
            // are the twelfth and thirteenth fields.
            let fields = text.rsplit_once(')')?.1.split_whitespace();
            let ticks = fields.skip(11).take(2).map(|t| t.parse().unwrap_or(0.0));
            Some(ticks.sum::<f64>() / ticks_per_second)
        };
        self.process_ids
            .iter()
            .map(|id| seconds(id).unwrap_or(0.0))
            .collect()
    }

    /// Packets at port 0 over the time between the first interval with packets and the last.
    pub(super) fn mean_rate(
        &self,
        mut sink: Process,
        seconds: u32,
    ) -> Result<PeerRate, PeerMissing> {
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
        self.next_sample_of(process, 0, deadline)
    }

    fn next_sample_of(
        &self,
        process: &mut Process,
        port: u32,
        deadline: Instant,
    ) -> Result<(Instant, PortSample), PeerMissing> {
        while let Some((at, line)) = process.child.next_line(deadline) {
            match process.parser.push(&line) {
                Some(sample) if sample.port == port => return Ok((at, sample)),
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
