//! `catena flow explain`: a program in words, from its file, for who wrote it or has to run it.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_flow::efsm::explain::explain;

use super::super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    for found in super::load(&args.file)? {
        if !found.node.is_empty() {
            outln!("node {}", found.node);
        }
        out!("{}", explain(&found.compiled.program));
    }
    Ok(ExitCode::SUCCESS)
}
