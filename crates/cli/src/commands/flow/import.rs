//! `catena flow import`: a program in FlowBlaze's XL as a program of ours.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain;
use catena_flow::efsm::xl;

use super::super::{Failure, Outcome};
use crate::document;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// An XL program; files that it imports are looked for beside it
    file: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let name = args.file.display().to_string();
    let text =
        chain::read_text(&args.file).map_err(|error| Failure::input(format!("{name}: {error}")))?;
    let folder = args.file.parent().map(PathBuf::from).unwrap_or_default();
    let read = |file: &str| chain::read_text(&folder.join(file));
    // JSON is YAML, so what is printed can stand in a file.
    document::print_whole(&xl::import(&name, &text, read).map_err(Failure::input)?)?;
    Ok(ExitCode::SUCCESS)
}
