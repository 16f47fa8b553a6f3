//! `catena flow test`: packets and times in, and what is expected of a program, as files say.
//!
//! All files are read before any runs. Each begins with no flows, and runs twice: interpreted, and
//! as machine code where the program becomes such; both must be as expected.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use catena_flow::packet_test::{Failure as Failed, Plan};
use catena_flow::program::ir::Program;
use catena_flow::program::run::Compiled;
use catena_flow::simulate::Simulation;
use serde_json::{Value, json};

use super::super::{Failure, Outcome};
use crate::document;
use crate::measuring::progress::Progress;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some; - is the standard input
    file: PathBuf,
    /// Test files
    #[arg(required = true)]
    tests: Vec<PathBuf>,
    /// Which node's program, if the chain has several
    #[arg(long)]
    node: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

/// Packets between two looks at how far a file has come.
const PACKETS_PER_LOOK: u64 = 1 << 17;

pub(crate) fn run(args: &Args) -> Outcome {
    let program = super::load_one(&args.file, args.node.as_deref())?
        .compiled
        .program;
    let mut texts = Vec::new();
    for file in &args.tests {
        texts.push((file.display().to_string(), super::read(file)?));
    }
    let plans = plans(&texts, &program)?;
    let (mut failed, mut steps, mut documents) = (0, 0, Vec::new());
    for (name, plan) in &plans {
        let found = run_file(name, plan, &program)?;
        failed += found.len();
        steps += plan.step_count();
        if args.json {
            documents.push(document(name, plan, &found));
        } else {
            tell(name, plan, &found);
        }
    }
    if args.json {
        let body = json!({ "files": documents, "failed": failed });
        document::print("catena.flow.test/1", &body)?;
    }
    if failed > 0 {
        return Err(Failure::running(format!(
            "{failed} expectations of {steps} steps failed"
        )));
    }
    Ok(ExitCode::SUCCESS)
}

/// All files as tests of the program, or all that is wrong with them.
fn plans<'a>(
    texts: &'a [(String, String)],
    program: &Program,
) -> Result<Vec<(&'a str, Plan<'a>)>, Failure> {
    let (mut plans, mut wrong, mut told) = (Vec::new(), Vec::new(), String::new());
    for (name, text) in texts {
        match Plan::read(name, text, program) {
            Ok(plan) => plans.push((&**name, plan)),
            Err(errors) => {
                told += &format!("{errors}\n");
                wrong.extend(document::of_file(name, &errors));
            }
        }
    }
    if told.is_empty() {
        return Ok(plans);
    }
    Err(Failure {
        errors: wrong,
        ..Failure::input(format!("{told}no test was run"))
    })
}

/// What failed, and which way of running it.
type Found = (&'static str, Failed);

/// Runs a file both ways. What fails alike in both is told once.
fn run_file(name: &str, plan: &Plan<'_>, program: &Program) -> Result<Vec<Found>, Failure> {
    let interpreted = run_once(name, plan, program, None)?;
    let compiled = match catena_flow::nf::machine_code(program) {
        Ok(code) => run_once(name, plan, program, Some(code))?,
        Err(_) => Vec::new(),
    };
    let differing: Vec<Failed> = compiled
        .into_iter()
        .filter(|one| !interpreted.contains(one))
        .collect();
    let interpreted = interpreted.into_iter().map(|one| ("interpreter", one));
    Ok(interpreted
        .chain(differing.into_iter().map(|one| ("jit", one)))
        .collect())
}

fn run_once(
    name: &str,
    plan: &Plan<'_>,
    program: &Program,
    code: Option<Box<dyn Compiled>>,
) -> Result<Vec<Failed>, Failure> {
    let mut simulation = Simulation::with(program.clone(), code).map_err(Failure::input)?;
    let (mut progress, mut sent, of) = (Progress::new(), 0, plan.packet_count());
    let is_long = of > PACKETS_PER_LOOK;
    let found = plan.run(&mut simulation, || {
        sent += 1;
        if is_long && sent % PACKETS_PER_LOOK == 0 {
            let text = format!("{name}: {sent} of {of} packets");
            progress.show(&text, sent as f64 / of as f64);
        }
    });
    if is_long {
        progress.clear();
    }
    Ok(found)
}

fn tell(name: &str, plan: &Plan<'_>, found: &[Found]) {
    for (engine, one) in found {
        let other = match *engine {
            "jit" => " (as machine code, and not interpreted)",
            _ => "",
        };
        outln!("{name}:{}:{}: {one}{other}", one.line, one.column);
    }
    let count = plan.step_count();
    match found.len() {
        0 => outln!("{name}: {count} steps are as expected"),
        failed => outln!("{name}: {failed} expectations of {count} steps failed"),
    }
}

fn document(name: &str, plan: &Plan<'_>, found: &[Found]) -> Value {
    let failures = found.iter().map(|(engine, one)| {
        let mut failure = serde_json::to_value(one).unwrap_or_default();
        failure["engine"] = (*engine).into();
        failure
    });
    json!({
        "file": Path::new(name),
        "steps": plan.step_count(),
        "packets": plan.packet_count(),
        "failures": failures.collect::<Vec<_>>(),
    })
}
