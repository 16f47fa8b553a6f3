//! `catena keeper`: keeps what a successor of a chain's supervisor needs. Started by `catena run`
//! for a chain that may outlive it (`run.orphan`).

use std::process::ExitCode;

use catena_engine::supervisor::keeper::keep;

use super::worker::inherited;
use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain, to be seen in process lists
    #[arg(long)]
    label: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let label = args.label.as_deref().unwrap_or("keeper");
    keep(inherited()?).map_err(|error| Failure::running(format!("{label}: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
