//! `catena probe`: follows packets through a running chain, and says which component takes the
//! time. It maps the workers' pages for reading; the chain's supervisor is asked for them, no more.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::probe::{ProbeSettings, Tier};
use catena_engine::supervisor::status::Status;
use catena_measure::probes::journey::Journeys;
use catena_measure::probes::tax::{self, Measure, Tax};
use catena_measure::probes::{Collector, ProbeReport, chrome, pcapng};

use super::control::{Answer, Request, ask, ask_for_memory, status_in, unexpected};
use super::target::Target;
use super::{Failure, Outcome};
use crate::document;
use crate::measuring::probe_text;
use crate::overwrite::Overwrite;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// 0: sums per node, which are always counted; 1: packets at random gaps; 2: every packet
    #[arg(long, value_name = "TIER", default_value_t = 1,
          value_parser = clap::value_parser!(u8).range(0..=2))]
    tier: u8,
    /// Packets from one followed to the next, on average
    #[arg(long, value_name = "PACKETS", default_value_t = DEFAULT_GAP,
          value_parser = clap::value_parser!(u32).range(1..))]
    gap: u32,
    /// For how long, 10ms to 3600s; a number without unit is in seconds
    #[arg(long, value_name = "SPAN", default_value = "5s",
          value_parser = |text: &str| quantity::seconds(text, 0.01..=3600.0))]
    seconds: Duration,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
    /// Write journeys as a trace for Perfetto or chrome://tracing
    #[arg(long, value_name = "FILE")]
    chrome: Option<PathBuf>,
    /// Write visits as a pcapng file: times, and components as comments
    #[arg(long, value_name = "FILE")]
    pcapng: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Leave out the two seconds that find what the probes cost
    #[arg(long)]
    no_tax: bool,
}

/// Rare enough to cost less than 2 % of what a chain at its highest load forwards (ADR 15), often
/// enough for a p99, which needs 1000 journeys, within 5 s at a million packets/s.
pub(crate) const DEFAULT_GAP: u32 = 4096;
/// Between two readings of the pages: a page holds what tier 2 writes in four times that.
const POLL: Duration = Duration::from_millis(10);
/// How long packets under way may take to arrive after tracing has ended: workers follow them for
/// as long.
const REST: Duration = Duration::from_millis(100);
/// Length of a slice of the comparison with and without probes.
const SLICE: Duration = Duration::from_millis(10);
/// Slices in a row without a packet after which there is none.
const EMPTY_SLICES_MAX: u32 = 50;

pub(crate) fn run(args: &Args) -> Outcome {
    for file in args.chrome.iter().chain(&args.pcapng) {
        args.overwrite.check(file)?;
    }
    let chain = args.target.name()?;
    let tier = match args.tier {
        0 => Tier::Sums,
        1 => Tier::Sampled,
        _ => Tier::Full,
    };
    let settings = ProbeSettings {
        tier,
        gap: args.gap,
        duration_ns: u64::try_from(args.seconds.as_nanos()).unwrap_or(u64::MAX),
        marks: (0, 0),
    };
    let mut collector = begin(&chain)?;
    let before = status(&chain)?;
    set(&chain, settings)?;
    let after = watch(&chain, &mut collector, args.seconds)?;
    let mut report = ProbeReport::new(&collector, &settings, &before, &after);
    export(args, &collector)?;
    let mut why_no_tax = None;
    if !args.no_tax && tier > Tier::Sums {
        match tax_of(&chain, settings) {
            Ok(tax) => report.tax = Some(tax),
            Err(why) => why_no_tax = Some(why),
        }
    }
    if args.json {
        document::print_whole(&report)?;
    } else {
        out!("{}", probe_text::report(&report));
    }
    if let Some(why) = why_no_tax {
        errln!("cost of the probes: not found: {why}");
    }
    Ok(ExitCode::SUCCESS)
}

fn status(chain: &str) -> Result<Status, Failure> {
    status_in(ask(chain, &Request::Status)?)
}

fn set(chain: &str, settings: ProbeSettings) -> Result<(), Failure> {
    match ask(chain, &Request::Probe(settings))? {
        Answer::Probing => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// A collector that reads every worker's page.
fn begin(chain: &str) -> Result<Collector, Failure> {
    let (map, lives) = map(chain)?;
    let mut collector = Collector::new(map);
    add_pages(chain, &mut collector, &lives)?;
    Ok(collector)
}

type Map = catena_engine::supervisor::probing::ProbeMap;

fn map(chain: &str) -> Result<(Map, Vec<(usize, u32)>), Failure> {
    match ask(chain, &Request::ProbeMap)? {
        Answer::ProbeMap(map, lives) => Ok((*map, lives)),
        other => Err(unexpected(&other)),
    }
}

/// Reads pages of workers that are new.
fn add_pages(
    chain: &str,
    collector: &mut Collector,
    lives: &[(usize, u32)],
) -> Result<(), Failure> {
    for (worker, epoch) in lives {
        if collector.reads(*worker, *epoch) {
            continue;
        }
        let (answer, fds) = ask_for_memory(chain, &Request::ProbePage { worker: *worker })?;
        let (Answer::ProbePage { epoch, len }, Some(fd)) = (&answer, fds.into_iter().next()) else {
            return Err(unexpected(&answer));
        };
        collector
            .add(*worker, *epoch, fd, *len)
            .map_err(Failure::running)?;
    }
    Ok(())
}

/// Collects until the time has passed and what was under way has arrived; gives the status at the
/// end of the time. A worker that is restarted meanwhile has another page.
fn watch(chain: &str, collector: &mut Collector, span: Duration) -> Result<Status, Failure> {
    let end = Instant::now() + span;
    let mut look_again = Instant::now() + Duration::from_secs(1);
    while Instant::now() < end {
        std::thread::sleep(POLL.min(end.saturating_duration_since(Instant::now())));
        collector.poll();
        if Instant::now() > look_again {
            look_again += Duration::from_secs(1);
            add_pages(chain, collector, &map(chain)?.1)?;
        }
    }
    let after = status(chain)?;
    let rest = Instant::now() + REST;
    while Instant::now() < rest {
        collector.poll();
        std::thread::sleep(POLL);
    }
    collector.poll();
    Ok(after)
}

fn export(args: &Args, collector: &Collector) -> Result<(), Failure> {
    if args.chrome.is_none() && args.pcapng.is_none() {
        return Ok(());
    }
    let journeys = Journeys::of(collector.map(), collector.visits.clone()).whole;
    let write = |path: &Path, bytes: &[u8]| {
        std::fs::write(path, bytes)
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))
    };
    if let Some(path) = &args.chrome {
        write(path, chrome::trace(collector.map(), &journeys).as_bytes())?;
    }
    if let Some(path) = &args.pcapng {
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let wall = i64::try_from(wall.map_or(0, |wall| wall.as_nanos())).unwrap_or(0);
        let chain = i64::try_from(catena_shm::tsc::kernel_ns()).unwrap_or(0);
        write(
            path,
            &pcapng::file(collector.map(), &journeys, wall - chain),
        )?;
    }
    Ok(())
}

/// What the probes cost this chain now, by turning them on and off.
fn tax_of(chain: &str, settings: ProbeSettings) -> Result<Tax, String> {
    let off = ProbeSettings {
        tier: Tier::Sums,
        ..settings
    };
    let on = ProbeSettings {
        duration_ns: u64::try_from(SLICE.as_nanos() * 100).unwrap_or(u64::MAX),
        ..settings
    };
    let seed = u64::from(std::process::id());
    let tax = tax::measure(Measure::BusyTimePerPacket, seed, |with_probes| {
        set(chain, if with_probes { on } else { off })?;
        let before = busy(&status(chain)?);
        let mut after = before;
        // Rare packets need longer slices.
        for _ in 0..EMPTY_SLICES_MAX {
            std::thread::sleep(SLICE);
            after = busy(&status(chain)?);
            if after.1 > before.1 {
                break;
            }
        }
        Ok((after.0 - before.0) / (after.1 - before.1))
    });
    let _ = set(chain, off);
    tax.map_err(|error: tax::TaxError<Failure>| match error {
        tax::TaxError::Slice(failure) => failure.message,
        tax::TaxError::Compare(_) => "no packet came from the world in some slice".to_owned(),
    })
}

/// Busy seconds of all workers, and packets from the world.
fn busy(status: &Status) -> (f64, f64) {
    let busy = status.workers.iter().map(|worker| worker.busy_s).sum();
    let ports = status.nodes.iter().filter(|node| node.kind == "port");
    let packets: u64 = ports.map(|port| port.rx_packets).sum();
    (busy, packets as f64)
}
