//! `catena flow explain`: a program in words, from its file, for who wrote it or has to run it.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_flow::efsm::explain::explain;

use super::super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some; - is the standard input
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    for found in super::load(&args.file)? {
        if !found.node.is_empty() {
            outln!("node {}", found.node);
        }
        let program = &found.compiled.program;
        out!("{}", explain(program));
        match catena_flow::nf::machine_code(program) {
            Ok(_) => outln!("runs as machine code, unless its node says engine: interpreter"),
            Err(why) => outln!("runs interpreted: {why}"),
        }
    }
    Ok(ExitCode::SUCCESS)
}
