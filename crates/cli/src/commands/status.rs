//! `catena status`: the counters of a running chain, as its supervisor reads them when asked.

use std::process::ExitCode;

use super::Outcome;
use super::control::Target;
use crate::document;

/// Form of a status.
pub(crate) const STATUS: &str = "catena.status/1";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let status = args.target.status()?;
    if args.json {
        document::print(STATUS, &status)?;
    } else {
        out!("{}", crate::render::status(&status));
    }
    Ok(ExitCode::SUCCESS)
}
