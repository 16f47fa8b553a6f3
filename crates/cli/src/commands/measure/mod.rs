//! `catena measure`: one file per verb; what they share is how the device and the report are named.

pub(crate) mod compare;
pub(crate) mod cost;
mod headline;
pub(crate) mod latency;
pub(crate) mod render;
pub(crate) mod search;
pub(crate) mod study;

use std::path::{Path, PathBuf};
use std::time::Duration;

use catena_engine::chain::{Chain, Mode};
use catena_engine::units::Rate;
use catena_measure::device::{RIVALS_MAX, TrialProfile};

use super::{Failure, Outcome};
use crate::measuring::bench::{Bench, TrialSetting};
use crate::measuring::output::Output;
use crate::measuring::row::row;
use crate::overwrite::Overwrite;
use crate::quantity;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Find the throughput of a chain: MLRsearch, MRR, back-to-back or soak
    Search(search::Args),
    /// Measure a chain's latency and its variation at one load
    Latency(latency::Args),
    /// Measure what packets cost at steps of a load: core time, cycles, energy, sleep
    Cost(cost::Args),
    /// Say whether chain B differs from chain A, by trials in turns
    Compare(compare::Args),
    /// Cross factors (mode, ports, size, load, states and so on) and say what each of them does
    Study(study::Args),
    /// Write the page and the tables of a report's document (report.json) again
    Render(render::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Search(args) => search::run(args),
        Command::Latency(args) => latency::run(args),
        Command::Cost(args) => cost::run(args),
        Command::Compare(args) => compare::run(args),
        Command::Study(args) => study::run(args),
        Command::Render(args) => render::run(args),
    }
}

/// The device under test.
#[derive(Debug, clap::Args)]
pub(crate) struct Under {
    /// Traffic profile
    profile: PathBuf,
    /// Chain file with one port `traffic` and one port `receiver`
    #[arg(long, value_name = "FILE", conflicts_with = "nf")]
    chain: Option<PathBuf>,
    /// Without --chain: network functions in a row between the two ports
    #[arg(long, value_name = "TYPE", num_args = 1..)]
    nf: Vec<String>,
    /// Run nodes that name no mode in this one: inline, thread, process, container
    #[arg(long, value_name = "MODE", value_parser = super::run::parse_mode)]
    mode: Option<Mode>,
}

/// Where results go.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Folder {
    /// Folder for report.html, report.json and trials.csv
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

impl Folder {
    /// Makes it, if no other report lies in it.
    fn create(&self) -> Result<Output, Failure> {
        self.overwrite.check_folder(&self.out, REPORT_FILES)?;
        Output::create(&self.out)
    }
}

/// Files of a report by which an older one is known.
const REPORT_FILES: &[&str] = &["report.json", "report.html", "trials.csv"];

/// What counts.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Common {
    /// Repeat a trial that does not count (clock step, migration, steal, throttling, other work on
    /// its cores, generator too slow) at most so often
    #[arg(long, value_name = "TIMES", default_value_t = 5)]
    repeats: u32,
    /// Send for so long before each trial, for nothing to count
    #[arg(long, value_name = "SPAN", default_value = "100ms", value_parser = quantity::span)]
    warmup: Duration,
    /// Other work may take this share of a trial's time from its workers; beyond, the trial does
    /// not count
    #[arg(long, value_name = "SHARE", default_value_t = RIVALS_MAX,
          value_parser = |text: &str| quantity::share(text, 0.0..=1.0))]
    rivals: f64,
    /// How long to watch the machine's noise floor before and after; 0s leaves it out
    #[arg(long, value_name = "SPAN", default_value = "1s", value_parser = quantity::span)]
    noise: Duration,
    /// Power that a wattmeter shows under load, for Gbit/s per watt; without it, RAPL's where the
    /// machine has it
    #[arg(long, value_name = "WATTS", value_parser = parse_watts)]
    watts: Option<f64>,
    /// Print the report as JSON
    #[arg(long)]
    json: bool,
}

impl Common {
    fn begin(&self, title: &str, output: Output) -> Result<Bench, Failure> {
        let setting = TrialSetting {
            repeats: self.repeats,
            warmup: self.warmup,
            rivals_max: self.rivals,
            noise: self.noise,
            watts: self.watts,
        };
        Bench::begin(title, output, setting)
    }
}

impl Under {
    /// The profile, whose load a measurement must be able to set.
    fn profile(&self) -> Result<TrialProfile, Failure> {
        load_profile(&self.profile)
    }

    /// The chain.
    fn chain(&self) -> Result<Chain, Failure> {
        match &self.chain {
            Some(file) => load_chain(file, self.mode),
            None => row(&self.nf, self.mode),
        }
    }
}

/// The load that is given, or else the profile's own, in packets per second; `what` is measured.
fn load_of(given: Option<Rate>, profile: &TrialProfile, what: &str) -> Result<f64, Failure> {
    match given {
        Some(load) => pps(load, profile),
        None => profile.own_pps().ok_or_else(|| {
            Failure::input(format!("{what}: give --rate, or a rate in the profile"))
        }),
    }
}

fn load_profile(file: &Path) -> Result<TrialProfile, Failure> {
    let profile = TrialProfile::load(file).map_err(|errors| {
        let file = file.display();
        Failure::input(format!("{errors}\n{file} is wrong; nothing was started"))
    })?;
    match profile.fixed_load() {
        None => Ok(profile),
        Some(why) => Err(Failure::input(format!(
            "{}: {why}; a measurement sets the load itself, so give constant, poisson or bursts",
            file.display()
        ))),
    }
}

fn load_chain(file: &Path, mode: Option<Mode>) -> Result<Chain, Failure> {
    let checked = super::check::load(file, mode)?;
    for warning in &checked.warnings {
        errln!("{warning}");
    }
    Ok(checked.chain)
}

/// Power above zero.
fn parse_watts(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('W').parse::<f64>() {
        Ok(watts) if watts > 0.0 && watts.is_finite() => Ok(watts),
        _ => Err("give watts above 0, like 87.5".to_owned()),
    }
}

/// A number above zero.
fn parse_count(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("give a number from 1 on".to_owned()),
        Ok(count) => Ok(count),
    }
}

/// Packets per second of a rate for a profile.
fn pps(rate: Rate, profile: &TrialProfile) -> Result<f64, Failure> {
    let pps = profile.profile().packets_per_second(rate);
    match profile.line_pps() {
        Some(line) if pps > line * 1.000_001 => Err(Failure::input(format!(
            "{pps:.0} packets/s are more than the profile's line carries ({line:.0}); give less"
        ))),
        _ => Ok(pps),
    }
}
