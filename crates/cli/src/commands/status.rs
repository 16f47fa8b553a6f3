//! `catena status`: the counters of a running chain.

use std::process::ExitCode;

use super::Outcome;
use super::control::Target;

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
        super::print_json(&status)?;
    } else {
        out!("{}", crate::render::status(&status));
    }
    Ok(ExitCode::SUCCESS)
}
