//! `catena upf smf`: a scenario, in simulated time or over UDP against any UPF.

use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use catena_port::capture::{CaptureFormat, CaptureWriter};
use catena_upf::smf::scenario::Scenario;
use catena_upf::smf::simulation::Simulation;
use catena_upf::smf::{RECORD_COUNT_MAX, sockets};
use serde_json::{Value, json};

use super::line;
use crate::commands::{Failure, Outcome};
use crate::document;
use crate::overwrite::Overwrite;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The scenario, such as chains/upf/scenarios/first.yaml
    scenario: PathBuf,
    /// Play it over UDP, against the UPF with this address of N4
    #[arg(long, value_name = "ADDRESS")]
    n4: Option<IpAddr>,
    /// The UPF's address of N3, instead of the scenario's
    #[arg(long, value_name = "ADDRESS", requires = "n4")]
    n3: Option<IpAddr>,
    /// This machine's address as the SMF, instead of the scenario's
    #[arg(long, value_name = "ADDRESS", requires = "n4")]
    smf: Option<IpAddr>,
    /// This machine's address as the gNB, instead of the scenario's
    #[arg(long, value_name = "ADDRESS", requires = "n4")]
    ran: Option<IpAddr>,
    /// This machine's address as the host of the data network, instead of the scenario's
    #[arg(long, value_name = "ADDRESS", requires = "n4")]
    host: Option<Ipv4Addr>,
    /// Write the frames of both directions to this file: pcap, or pcapng by its name
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    overwrite: Overwrite,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// What was played.
struct Played {
    steps: usize,
    simulated_seconds: Option<f64>,
    counters: Value,
}

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.scenario;
    let fault = |what: String| Failure::input(format!("{}: {what}", path.display()));
    if let Some(file) = &arguments.write {
        arguments.overwrite.check(file)?;
    }
    let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
    let mut scenario = Scenario::parse(&text).map_err(fault)?;
    let played = match arguments.n4 {
        None => simulate(arguments, scenario)?,
        Some(n4) => {
            scenario.n4 = n4;
            scenario.n3 = arguments.n3.unwrap_or(scenario.n3);
            scenario.smf = arguments.smf.unwrap_or(scenario.smf);
            scenario.ran = arguments.ran.unwrap_or(scenario.ran);
            scenario.host = arguments.host.unwrap_or(scenario.host);
            over_udp(arguments, scenario)?
        }
    };
    if arguments.json {
        let document = json!({
            "steps": played.steps,
            "simulated_seconds": played.simulated_seconds,
            "counters": played.counters,
        });
        document::print("catena.upf.smf/1", &document)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn went_wrong(path: &Path, what: &str) -> Failure {
    Failure::running(format!("{}: {what}", path.display()))
}

fn simulate(arguments: &Arguments, scenario: Scenario) -> Result<Played, Failure> {
    let path = &arguments.scenario;
    let fault = |what: String| Failure::input(format!("{}: {what}", path.display()));
    let mut simulation = Simulation::new(scenario).map_err(fault)?;
    let outcome = simulation.play();
    // What led to a fault is worth looking at too.
    write(arguments, simulation.recorded())?;
    let outcome = outcome.map_err(|what| went_wrong(path, &what))?;
    let seconds = outcome.time_ns as f64 / 1e9;
    if !arguments.json {
        outln!(
            "{} steps as expected, {seconds} simulated seconds",
            outcome.steps
        );
        outln!("{}", line(&counted(&outcome.counters)));
    }
    Ok(Played {
        steps: outcome.steps,
        simulated_seconds: Some(seconds),
        counters: outcome.counters,
    })
}

fn over_udp(arguments: &Arguments, scenario: Scenario) -> Result<Played, Failure> {
    let began = Instant::now();
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let sequence = since.map_or(0, |since| since.subsec_nanos());
    let clock = || u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let (player, played) = sockets::play(scenario, sequence, clock);
    write(arguments, player.recorded())?;
    played.map_err(|what| went_wrong(&arguments.scenario, &what))?;
    let steps = player.steps();
    if !arguments.json {
        let seconds = began.elapsed().as_secs_f64();
        outln!("{steps} steps as expected, {seconds:.1} seconds");
    }
    Ok(Played {
        steps,
        simulated_seconds: None,
        counters: json!({}),
    })
}

/// Writes what was recorded to the file asked for.
fn write(arguments: &Arguments, frames: &[(u64, Vec<u8>)]) -> Result<(), Failure> {
    let Some(file) = &arguments.write else {
        return Ok(());
    };
    let fault = |error: catena_port::capture::CaptureError| Failure::running(error.to_string());
    let mut writer = CaptureWriter::create(file, CaptureFormat::from_path(file)).map_err(fault)?;
    for (at_ns, frame) in frames {
        let len = u32::try_from(frame.len()).unwrap_or(u32::MAX);
        writer.write(*at_ns, frame, len).map_err(fault)?;
    }
    writer.finish().map_err(fault)?;
    if frames.len() == RECORD_COUNT_MAX {
        errln!(
            "{}: the first {RECORD_COUNT_MAX} frames only",
            file.display()
        );
    }
    Ok(())
}

/// The counters that are not 0.
fn counted(counters: &Value) -> Value {
    let counters = counters.as_object().into_iter().flatten();
    let counted = counters.filter(|(_, value)| value.as_u64() != Some(0));
    Value::Object(
        counted
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect(),
    )
}
