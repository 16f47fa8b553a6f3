//! `catena status`: the counters of a running chain, as its supervisor reads them when asked.

use std::process::ExitCode;

use super::Outcome;
use super::target::Target;
use crate::document;

/// Form of a status.
pub(crate) const STATUS: &str = "catena.status/1";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// As JSON, every shard by itself
    #[arg(long)]
    json: bool,
    /// Every shard by itself, and not their sums
    #[arg(long)]
    shards: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let status = args.target.status()?;
    if args.json {
        document::print(STATUS, &status)?;
    } else if args.shards {
        out!("{}", crate::render::status(&status));
    } else {
        out!("{}", crate::render::status(&status.by_name_in_file()));
    }
    Ok(ExitCode::SUCCESS)
}
