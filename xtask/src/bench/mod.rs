//! Benchmarks: Catena and its peers on the same machine, in the same command, in turn.
//!
//! A round measures each side once, own and peer alternating, so that a drift of the machine
//! meets both; the report gives medians over the rounds with intervals of 95 %, and compares both
//! sides round by round: see [`report`]. Figures of different commands are not to be compared.
//!
//! `--quick` is one round of short runs, `--brief` the least that shows that a benchmark runs:
//! see [`Extent`].
//!
//! SPDX-License-Identifier: Apache-2.0

mod aggregation;
mod cacheline;
mod chain;
pub(crate) mod child;
mod epon;
mod extent;
mod floor;
pub(crate) mod flow;
mod generator;
mod hop;
mod huge_pages;
mod install;
mod link;
pub(crate) mod machine;
mod own;
mod page;
mod pcs;
mod port;
mod quiet;
mod report;
mod running;
mod series;
mod stats;
mod testpmd;
mod truth;
pub(crate) mod upf;
mod wake_up;
pub(crate) mod work_dir;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::{Duration, Instant};

use extent::Extent;
use report::{Report, Row};
use series::Series;

/// Of a short run: seconds before the measurement and measured.
const SHORT_RUN: (f64, f64) = (0.1, 0.3);

/// How long bare loops run for one figure.
const FLOOR_SPAN: Duration = Duration::from_millis(200);

/// What to measure.
#[derive(clap::Args, Debug)]
pub(crate) struct Arguments {
    /// Benchmark
    name: Name,
    /// One short round, within a minute
    #[arg(long)]
    quick: bool,
    /// The least of each of Catena's sides, without peers: shows that it runs, and not how fast
    #[arg(long, conflicts_with = "quick")]
    brief: bool,
    /// Measure this program instead of building this repository's
    #[arg(long, value_name = "FILE")]
    catena: Option<PathBuf>,
    /// How often each side is measured in turn; 3 unless given, and fewer decide no target
    #[arg(long, value_name = "N", conflicts_with_all = ["quick", "brief"],
          value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Clone eUPF from here, an address or a folder, and measure it beside; benchmark `upf`
    #[arg(
        long,
        value_name = "SOURCE",
        default_value = "https://github.com/edgecomllc/eupf"
    )]
    eupf: String,
    /// Write the result to this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write a page with plots to this file; benchmarks `aggregation` and `epon` have one
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Arguments {
    fn rounds(&self) -> u32 {
        let usual = if self.extent().is_short() { 1 } else { 3 };
        self.rounds.unwrap_or(usual)
    }

    fn extent(&self) -> Extent {
        match (self.brief, self.quick) {
            (true, _) => Extent::Brief,
            (false, true) => Extent::Quick,
            (false, false) => Extent::Whole,
        }
    }
}

#[derive(clap::ValueEnum, Clone, Copy, Debug)]
enum Name {
    /// What packing packets into bundles gains: by packet size, by chain, and in latency by load;
    /// beside testpmd forwarders behind OVS-DPDK
    Aggregation,
    /// Rate of chains of 1 to 8 NFs by execution mode, inline beside the same NFs in a bare loop
    Chain,
    /// Latency of a 10G-EPON PHY as chained functions, by chunk size and bit error rate:
    /// containers over TCP, containers over shared memory, bare metal
    Epon,
    /// Lookups of the flow table by number of flows, hit, miss, churn and attack, beside DPDK's
    /// rte_hash
    Flow,
    /// Packets through stateful programs by number of flows, hits, misses, churn and attack, as
    /// machine code and interpreted, beside bare lookups and a rule of nftables
    FlowPrograms,
    /// Rate of the traffic generator over a link and a veth pair, beside tcpreplay and trafgen
    Generator,
    /// One-way time of a lone packet, beside a paced bare ring, a cache line, a yield and a futex
    Hop,
    /// Rate of one link by trust and packing, beside bare loops, memif and vhost-user
    Link,
    /// 10G-EPON coding on one core, by stage and whole, beside libfec
    Pcs,
    /// Packets from port to port on one core, by kind of port, beside testpmd with the same
    /// drivers, XDP redirect and a bridge; bytes copied on the way into another process
    Port,
    /// What the tools of measurement say of delays, losses, rates and differences that are known
    Truth,
    /// Packets through the UPF by number of sessions and by rules, operations on sessions through
    /// PFCP, memory, and held packets
    Upf,
    /// How late a thread runs that is woken by one on its own core, which gives way or keeps it
    WakeUp,
}

/// What each benchmark works with and adds to.
struct Session {
    extent: Extent,
    rounds: u32,
    /// Measured time of each run.
    seconds: u32,
    /// The first two cores that this process may use; twice the same where there is one.
    cores: [usize; 2],
    own: own::Own,
    testpmd: testpmd::Testpmd,
    /// Repeats short runs that were disturbed.
    quiet: quiet::Quiet,
    deadline: Option<Instant>,
    rows: Vec<Row>,
    notes: Vec<String>,
}

impl Session {
    /// Adds the range of a series to the notes.
    fn note_range(&mut self, name: &str, unit: &str, series: &Series) {
        self.notes.extend(series.note(name, unit));
    }

    /// Whether no time is left for another run.
    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Catena's time per packet and that of a bare loop that does the same work, `windows` times in
    /// turn: short runs, of which disturbed ones are repeated on both sides.
    fn beside_floor(
        &mut self,
        (what, packing): (&str, own::Packing),
        (work, slots): (floor::Work, u64),
        windows: u32,
    ) -> [Series; 2] {
        let [mut own, mut bare] = [Series::default(), Series::default()];
        for _ in 0..windows {
            if self.is_late() {
                own.push::<&str>(Err("no time was left"));
                break;
            }
            let run = || {
                self.own
                    .packed::<own::OwnRate>(what, packing, SHORT_RUN, self.cores)
            };
            own.push(self.quiet.run(run).map(|rate| rate.ns_per_packet));
            let floor = floor::rate(work, slots, FLOOR_SPAN, self.cores);
            if let Ok(floor) = &floor {
                self.quiet.count_windows(floor.windows, floor.rejected);
            }
            bare.push(floor.map(|floor| floor.ns_per_packet));
        }
        [own, bare]
    }

    /// Says on standard error what is being measured.
    fn progress(&self, round: u32, what: &str) {
        eprintln!("round {}/{}: {what}", round + 1, self.rounds);
    }
}

/// Runs one benchmark, prints its report and writes it to the file asked for.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Box<dyn Error>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .ok_or("no repository root")?;
    let started = machine::now_rfc3339();
    let command: Vec<String> = std::iter::once("cargo xtask".to_owned())
        .chain(std::env::args().skip(1))
        .collect();
    let has_page = matches!(arguments.name, Name::Aggregation | Name::Epon);
    if arguments.html.is_some() && !has_page {
        return Err("--html: only the benchmarks `aggregation` and `epon` draw a page".into());
    }
    let work_dir = Rc::new(work_dir::WorkDir::new()?);
    let machine = machine::Machine::probe();
    let extent = arguments.extent();
    if extent == Extent::Brief {
        install::leave_peers_out();
    }
    if let Name::Flow | Name::FlowPrograms | Name::Pcs | Name::Upf | Name::WakeUp = arguments.name {
        let rounds = arguments.rounds();
        let (bench, (results, mut notes)) = match arguments.name {
            Name::Flow => ("flow", flow::run(rounds, extent, work_dir.path())),
            Name::FlowPrograms => {
                let measured = flow::programs::run(rounds, extent, work_dir.path());
                ("flow-programs", measured)
            }
            Name::Upf => {
                let own = match &arguments.catena {
                    Some(binary) => own::Own::given(binary, Rc::clone(&work_dir)),
                    None => own::Own::build(root, Rc::clone(&work_dir)),
                };
                let mut testpmd = testpmd::Testpmd::new(Rc::clone(&work_dir));
                let core = cacheline::first_two_cores()?[0];
                let peer = |seconds| testpmd.null_forwarding(upf::PEER_FRAME_LEN, seconds, core);
                ("upf", upf::run(rounds, extent, &own, &arguments.eupf, peer))
            }
            Name::WakeUp => ("wake-up", wake_up::run(rounds, extent)),
            _ => ("pcs", pcs::run(rounds, extent, work_dir.path())),
        };
        notes.insert(0, machine::background_load());
        return publish(
            arguments,
            Report {
                bench: bench.to_owned(),
                machine,
                kernel: machine::kernel(),
                commit: machine::commit(root),
                command: command.join(" "),
                started,
                quick: extent.is_short(),
                results,
                notes,
            },
            &[],
        );
    }
    let mut session = Session {
        extent,
        rounds: arguments.rounds(),
        seconds: extent.seconds(),
        cores: cacheline::first_two_cores()?,
        own: match &arguments.catena {
            Some(binary) => own::Own::given(binary, Rc::clone(&work_dir)),
            None => own::Own::build(root, Rc::clone(&work_dir)),
        },
        testpmd: testpmd::Testpmd::new(work_dir),
        quiet: quiet::Quiet::default(),
        deadline: None,
        rows: Vec::new(),
        notes: vec![machine::background_load()],
    };
    let deadline = extent.limit().map(|limit| Instant::now() + limit);
    session.own.set_deadline(deadline);
    session.testpmd.set_deadline(deadline);
    session.deadline = deadline;
    if session.cores[0] == session.cores[1] {
        session
            .notes
            .push("one core only: both ends of each link share it".to_owned());
    }
    let mut figures = Vec::new();
    let bench = match arguments.name {
        Name::Aggregation => {
            figures = aggregation::run(&mut session);
            "aggregation"
        }
        Name::Chain => {
            chain::run(&mut session);
            "chain"
        }
        Name::Epon => {
            figures = epon::run(&mut session);
            "epon"
        }
        Name::Generator => {
            generator::run(&mut session);
            "generator"
        }
        Name::Hop => {
            hop::run(&mut session);
            "hop"
        }
        Name::Link => {
            link::run(&mut session);
            "link"
        }
        Name::Port => {
            port::run(&mut session);
            "port"
        }
        Name::Truth => {
            truth::run(&mut session);
            "truth"
        }
        Name::Flow | Name::FlowPrograms | Name::Pcs | Name::Upf | Name::WakeUp => {
            unreachable!("handled above")
        }
    };
    let mut notes = session.notes;
    notes.extend(session.quiet.notes());
    notes.extend(session.testpmd.take_notes());
    let report = Report {
        bench: bench.to_owned(),
        machine,
        kernel: machine::kernel(),
        commit: machine::commit(root),
        command: command.join(" "),
        started,
        quick: extent.is_short(),
        results: session.rows,
        notes,
    };
    let verdict = match arguments.name {
        Name::Truth => truth::verdict(&report.results, extent),
        _ => Ok(()),
    };
    publish(arguments, report, &figures)?;
    Ok(verdict?)
}

/// Prints a report, and writes it to the file asked for.
fn publish(
    arguments: &Arguments,
    report: Report,
    figures: &[page::Drawing],
) -> Result<(), Box<dyn Error>> {
    report.print(&mut std::io::stdout().lock())?;
    if let Some(path) = &arguments.json {
        let mut text = serde_json::to_string_pretty(&report)?;
        text.push('\n');
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    if let Some(path) = &arguments.html {
        let text = page::write(&report, figures);
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    Ok(())
}
