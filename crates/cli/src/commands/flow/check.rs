//! `catena flow check`: every error and warning of the programs of a file.

use std::path::PathBuf;
use std::process::ExitCode;

use super::super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    for found in super::load(&args.file)? {
        let elements = found.compiled.program.elements.len();
        let node = if found.node.is_empty() {
            "program"
        } else {
            &found.node
        };
        outln!(
            "{}: {node} is fine ({elements} elements)",
            args.file.display()
        );
    }
    Ok(ExitCode::SUCCESS)
}
