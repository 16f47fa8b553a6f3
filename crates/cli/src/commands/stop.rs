//! `catena stop`: drains a running chain and ends it.

use std::process::ExitCode;

use super::Outcome;
use super::control::{Request, Target};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
}

pub(crate) fn run(args: &Args) -> Outcome {
    args.target.ask(&Request::Stop)?;
    Ok(ExitCode::SUCCESS)
}
