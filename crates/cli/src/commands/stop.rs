//! `catena stop`: drains a running chain and ends it; returns when nothing of it is left.

use std::process::ExitCode;

use super::Outcome;
use super::control::{Request, Target, status_in};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print the final counters as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let status = status_in(args.target.ask(&Request::Stop)?)?;
    if args.json {
        crate::document::print(super::status::STATUS, &status)?;
    }
    Ok(ExitCode::SUCCESS)
}
