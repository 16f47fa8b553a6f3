//! `catena flow test`: packets and times in, verdicts and bytes out, as a file says.
//!
//! ```yaml
//! steps:
//!   - { at: 1ms, packet: "0200...", expect: out }         # leaves by the output `out`
//!   - { at: 2ms, packet: "0200...", expect: "!red" }      # dropped as `red`
//!   - { at: 3ms, packet: "0200...", expect: out, bytes: "0200..." }
//!   - { at: 9s, emits: 1 }                                # time passes; the program made a packet
//! ```

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::units::Span;
use catena_flow::program::run::Arrival;
use catena_flow::simulate::Simulation;
use serde::Deserialize;

use super::super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some
    file: PathBuf,
    /// The test file
    tests: PathBuf,
    /// Which node's program, if the chain has several
    #[arg(long)]
    node: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    steps: Vec<Step>,
}

/// One packet, or an instant.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    at: Span,
    #[serde(default)]
    input: u8,
    packet: Option<String>,
    expect: Option<String>,
    bytes: Option<String>,
    emits: Option<usize>,
    /// How often, at the same time.
    #[serde(default = "once")]
    times: u32,
}

fn once() -> u32 {
    1
}

pub(crate) fn run(args: &Args) -> Outcome {
    let found = super::load_one(&args.file, args.node.as_deref())?;
    let mut simulation = Simulation::new(found.compiled.program).map_err(Failure::input)?;
    let name = args.tests.display();
    let text = std::fs::read_to_string(&args.tests)
        .map_err(|error| Failure::input(format!("{name}: {error}")))?;
    let located = catena_engine::chain::document::Located::parse(&name.to_string(), &text)
        .map_err(Failure::input)?;
    let steps: Steps = catena_engine::config::parse_config(&located.json()).map_err(|errors| {
        let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
        Failure::input(format!("{name}: {}", lines.join("; ")))
    })?;
    let mut failed = 0;
    for (number, step) in steps.steps.iter().enumerate() {
        for fault in check(&mut simulation, step)? {
            failed += 1;
            outln!("{name}: steps[{number}]: {fault}");
        }
    }
    let count = steps.steps.len();
    if failed > 0 {
        return Err(Failure::running(format!(
            "{failed} expectations of {count} steps failed"
        )));
    }
    outln!("{name}: {count} steps are as expected");
    Ok(ExitCode::SUCCESS)
}

/// What is not as the step expects.
fn check(simulation: &mut Simulation, step: &Step) -> Result<Vec<String>, Failure> {
    let mut faults = Vec::new();
    let now_ns = step.at.ns;
    simulation.expire(now_ns);
    if let Some(packet) = &step.packet {
        let bytes = hex(packet)?;
        for _ in 0..step.times {
            let arrival = Arrival {
                now_ns,
                input: step.input,
            };
            let passed = simulation.packet(&bytes, arrival);
            if let Some(expected) = step.expect.as_ref().filter(|one| **one != passed.verdict) {
                faults.push(format!("{}, expected {expected}", passed.verdict));
            }
            if let Some(expected) = &step.bytes
                && hex(expected)? != passed.bytes
            {
                let found: String = passed
                    .bytes
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect();
                faults.push(format!("other bytes: {found}"));
            }
        }
    }
    let emitted = simulation.emitted().len();
    if step.emits.is_some_and(|expected| expected != emitted) {
        faults.push(format!("{emitted} packets were made"));
    }
    Ok(faults)
}

fn hex(text: &str) -> Result<Vec<u8>, Failure> {
    catena_flow::efsm::hex(text)
        .ok_or_else(|| Failure::input("a packet is written in pairs of hexadecimal digits"))
}
