//! `catena status`: the counters of a running chain.

use std::process::ExitCode;

use super::Outcome;
use super::control::Target;

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
        super::print_json(&status)?;
    } else if args.shards {
        out!("{}", crate::render::status(&status));
    } else {
        out!("{}", crate::render::status(&status.by_name_in_file()));
    }
    Ok(ExitCode::SUCCESS)
}
