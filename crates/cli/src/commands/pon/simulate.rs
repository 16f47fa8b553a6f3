//! `catena pon simulate`: a PON in simulated time, the same for the same arguments.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use catena_epon::mpcp::burst_time::MAC_RATE_BPS;
use catena_epon::mpcp::ipact::{Discipline, Settings};
use catena_epon::mpcp::simulate::{self, Model, OnuScenario, Report, SECOND_PS, Scenario};
use catena_epon::mpcp::{olt, quanta_of_us};
use catena_measure::plot::{Axis, Figure, LinePlot, Series};

use super::super::{Failure, Outcome};
use crate::document;
use crate::overwrite::Overwrite;
use crate::quantity;

/// Most frames that a simulation keeps the delays of: 4 bytes each.
const SECONDS_MAX: f64 = 60.0;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// ONUs, 1 to 32
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u8).range(1..=32))]
    onus: u8,
    /// What all ONUs offer together, as a share of what the MAC can send (8.71 Gb/s)
    #[arg(long, value_name = "SHARE", default_value = "0.6", value_parser = parse_load)]
    load: f64,
    /// How frames arrive
    #[arg(long, value_enum, default_value_t = Traffic::Mixed)]
    traffic: Traffic,
    /// How much of what an ONU reports is granted
    #[arg(long, value_enum, default_value_t = Service::Limited)]
    service: Service,
    /// What the credit services add: microseconds if constant, percent if linear
    #[arg(long, value_name = "NUMBER", default_value_t = 20)]
    credit: u32,
    /// Longest cycle; a number without unit is in microseconds
    #[arg(long, value_name = "SPAN", default_value = "1ms",
          value_parser = |text: &str| quantity::whole(text, "us", 50..=1_000_000))]
    cycle: u32,
    /// Pause between bursts, 32ns (two quanta) or more; a number without unit is in nanoseconds
    #[arg(long, value_name = "SPAN", default_value = "256ns",
          value_parser = |text: &str| quantity::whole(text, "ns", 32..=100_000))]
    guard: u32,
    /// Sync pattern in front of each burst (SyncTime); a number without unit is in nanoseconds
    #[arg(long, value_name = "SPAN", default_value = "800ns",
          value_parser = |text: &str| quantity::whole(text, "ns", 16..=100_000))]
    sync: u32,
    /// Time that lasers take to turn on, and as much to turn off; a number without unit is in
    /// nanoseconds
    #[arg(long, value_name = "SPAN", default_value = "512ns",
          value_parser = |text: &str| quantity::whole(text, "ns", 0..=4080))]
    laser: u32,
    /// Distances of the first and the last ONU in metres; the others are spread between
    #[arg(long, value_name = "FROM..TO", default_value = "0..20000",
          value_parser = parse_distances)]
    distance: (u64, u64),
    /// From one discovery window to the next; a number without unit is in milliseconds
    #[arg(long, value_name = "SPAN", default_value = "100ms",
          value_parser = |text: &str| quantity::whole(text, "ms", 1..=60_000))]
    discovery: u32,
    /// Share of control frames that are lost
    #[arg(long, value_name = "SHARE", default_value = "0",
          value_parser = |text: &str| quantity::share(text, 0.0..=0.9))]
    loss: f64,
    /// Simulated time that is counted, 1ms to 60s; a number without unit is in seconds
    #[arg(long, value_name = "SPAN", default_value = "1s",
          value_parser = |text: &str| quantity::seconds(text, 0.001..=SECONDS_MAX))]
    seconds: Duration,
    /// What is simulated and not counted before it, from when all ONUs have registered on, or 5 s
    /// have passed; a number without unit is in milliseconds
    #[arg(long, value_name = "SPAN", default_value = "200ms",
          value_parser = |text: &str| quantity::whole(text, "ms", 0..=10_000))]
    warm_up: u32,
    /// Repeats a simulation
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulate each of these loads instead of one, such as 0.1,0.5,0.9
    #[arg(long, value_name = "SHARES", value_delimiter = ',', value_parser = parse_load)]
    sweep: Vec<f64>,
    /// Draw the delay over the loads of --sweep into an SVG file
    #[arg(long, value_name = "FILE", requires = "sweep")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// Print all that is known as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Traffic {
    /// At random
    Poisson,
    /// At a constant rate
    Constant,
    /// In bursts with long pauses, self-similar in sum
    Bursty,
    /// The three in turn; every fourth ONU offers four times as much, every other fourth twice
    Mixed,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Service {
    /// The limit, whatever is reported
    Fixed,
    /// What is reported, up to the limit
    Limited,
    /// What is reported
    Gated,
    /// What is reported and a constant more, up to the limit
    ConstantCredit,
    /// What is reported and a share of it more, up to the limit
    LinearCredit,
}

fn parse_load(text: &str) -> Result<f64, String> {
    quantity::share(text, 0.0..=10.0)
}

fn parse_distances(text: &str) -> Result<(u64, u64), String> {
    let parsed = text.split_once("..").and_then(|(from, to)| {
        let (from, to) = (from.parse().ok()?, to.parse().ok()?);
        (from <= to && to <= 20_000).then_some((from, to))
    });
    parsed.ok_or_else(|| "distances are two numbers up to 20000, as in 0..20000".to_owned())
}

impl Args {
    fn scenario(&self, load: f64) -> Scenario {
        let count = usize::from(self.onus);
        let weights: Vec<u32> = (0..count).map(|onu| self.weight(onu)).collect();
        let sum: u32 = weights.iter().sum();
        let (near, far) = self.distance;
        let onu = |(index, weight): (usize, &u32)| OnuScenario {
            distance_m: near + (far - near) * index as u64 / (count as u64 - 1).max(1),
            load_bps: load * MAC_RATE_BPS * f64::from(*weight) / f64::from(sum),
            traffic: self.model(index),
            ..OnuScenario::default()
        };
        let warm_up_ps = u64::from(self.warm_up) * (SECOND_PS / 1000);
        // Fits: at most 4080 ns.
        let laser = self.laser.div_ceil(16) as u8;
        Scenario {
            olt: olt::Params {
                guard: self.guard.div_ceil(16),
                // Fits: at most 100 us.
                sync_time: self.sync.div_ceil(16) as u16,
                laser_max: laser,
                discovery_period: quanta_of_us(u64::from(self.discovery) * 1000),
                dba: Settings {
                    discipline: self.discipline(),
                    // Fits: at most a second.
                    cycle_max: quanta_of_us(self.cycle.into()) as u32,
                    shares: Vec::new(),
                },
                ..olt::Params::default()
            },
            onus: weights.iter().enumerate().map(onu).collect(),
            duration_ps: warm_up_ps + (self.seconds.as_secs_f64() * SECOND_PS as f64) as u64,
            warm_up_ps,
            awaits_all: true,
            laser,
            loss: self.loss,
            seed: self.seed,
            ..Scenario::default()
        }
    }

    fn weight(&self, onu: usize) -> u32 {
        match self.traffic {
            Traffic::Mixed => [4, 2, 1, 1][onu % 4],
            _ => 1,
        }
    }

    fn model(&self, onu: usize) -> Model {
        match self.traffic {
            Traffic::Poisson => Model::Poisson,
            Traffic::Constant => Model::Constant,
            Traffic::Bursty => Model::Bursty,
            Traffic::Mixed => [Model::Bursty, Model::Poisson, Model::Constant][onu % 3],
        }
    }

    fn discipline(&self) -> Discipline {
        match self.service {
            Service::Fixed => Discipline::Fixed,
            Service::Limited => Discipline::Limited,
            Service::Gated => Discipline::Gated,
            Service::ConstantCredit => {
                let quanta = quanta_of_us(self.credit.into());
                Discipline::ConstantCredit(u32::try_from(quanta).unwrap_or(u32::MAX))
            }
            Service::LinearCredit => Discipline::LinearCredit(self.credit),
        }
    }
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(plot) = &args.plot {
        args.overwrite.check(plot)?;
    }
    let loads = match args.sweep.is_empty() {
        true => vec![args.load],
        false => args.sweep.clone(),
    };
    let mut reports = Vec::new();
    for load in loads {
        let report = simulate::run(&args.scenario(load))
            .map_err(|error| Failure::input(format!("--cycle {}us: {error}", args.cycle)))?;
        reports.push(report);
    }
    if let Some(path) = &args.plot {
        std::fs::write(path, plot(&reports).to_svg())
            .map_err(|error| Failure::running(format!("{}: {error}", path.display())))?;
    }
    match (&reports[..], args.json) {
        (_, true) => document::print("catena.pon/1", &serde_json::json!({ "loads": reports }))?,
        ([report], false) if args.sweep.is_empty() => print_one(report, args.warm_up),
        (_, false) => print_sweep(&reports),
    }
    Ok(ExitCode::SUCCESS)
}

fn plot(reports: &[Report]) -> LinePlot {
    let points = |delay: fn(&Report) -> f64| {
        let points = reports
            .iter()
            .filter(|report| report.delay.count > 0)
            .map(|report| (report.offered_load, delay(report)));
        points.collect::<Vec<_>>()
    };
    let loads = Axis::new("offered load (share of 8.71 Gb/s)");
    LinePlot::new("Upstream delay", loads, Axis::new("delay (us)").log())
        .series(Series::new("mean", points(|report| report.delay.mean_us)).with_points())
        .series(Series::new("p99", points(|report| report.delay.p99_us)).with_points())
}

/// A time in microseconds, as wide as its column; nothing where no frame had one.
fn us(time: f64, width: usize) -> String {
    match time.is_nan() {
        true => format!("{:>width$}", "-"),
        false => format!("{time:width$.1}"),
    }
}

fn print_sweep(reports: &[Report]) {
    outln!("  load  utilisation  mean us   p50 us   p99 us    max us  cycle us  dropped");
    for report in reports {
        let dropped: u64 = report.onus.iter().map(|onu| onu.dropped_frames).sum();
        outln!(
            "{:6.3}  {:11.3}  {}  {}  {}  {}  {:8.1}  {dropped:7}",
            report.offered_load,
            report.utilisation,
            us(report.delay.mean_us, 7),
            us(report.delay.p50_us, 7),
            us(report.delay.p99_us, 7),
            us(report.delay.max_us, 8),
            report.cycle_mean_us,
        );
    }
}

fn print_one(report: &Report, warm_up_ms: u32) {
    outln!(
        "  onu      km  llid  rtt tq  offered Mb/s  carried Mb/s  mean us   p50 us   p99 us  drops"
    );
    for onu in &report.onus {
        let llid = onu.llid.map_or("-".to_owned(), |llid| llid.to_string());
        let rtt = onu.rtt_quanta.map_or("-".to_owned(), |rtt| rtt.to_string());
        outln!(
            "{:5}  {:6.1}  {llid:>4}  {rtt:>6}  {:12.1}  {:12.1}  {}  {}  {}  {:5}",
            onu.onu,
            onu.distance_m as f64 / 1e3,
            onu.offered_bps / 1e6,
            onu.delivered_bps / 1e6,
            us(onu.delay.mean_us, 7),
            us(onu.delay.p50_us, 7),
            us(onu.delay.p99_us, 7),
            onu.dropped_frames,
        );
    }
    outln!();
    outln!(
        "load {:.3}, utilisation {:.3} of 8.71 Gb/s; {:.1} % of the line granted",
        report.offered_load,
        report.utilisation,
        report.granted_share * 100.0
    );
    outln!(
        "delay mean {} us, p50 {} us, p99 {} us, max {} us over {} frames",
        us(report.delay.mean_us, 0),
        us(report.delay.p50_us, 0),
        us(report.delay.p99_us, 0),
        us(report.delay.max_us, 0),
        report.delay.count
    );
    outln!(
        "counted: {:.1} ms behind a warm-up of {:.1} ms, {} ms of it with all ONUs registered",
        report.seconds * 1e3 - report.warm_up_ms,
        report.warm_up_ms,
        warm_up_ms
    );
    outln!(
        "{} ONUs registered in {} windows, {} requests collided; mean cycle {:.1} us",
        report.registered,
        report.windows,
        report.requests_hit,
        report.cycle_mean_us
    );
    outln!(
        "{} grants, {} reports, {} missed; {} bursts overlapped, {} outside their slot; seed {}",
        report.grants,
        report.reports,
        report.reports_missed,
        report.frame_bursts_hit,
        report.bursts_outside_slot,
        report.seed
    );
}
