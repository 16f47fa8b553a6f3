//! `catena stop`: drains a running chain and ends it; returns when nothing of it is left. What did
//! not drain is told by name, and is a failure. A chain that has no supervisor is killed: there is
//! nobody who could drain it.

use std::process::ExitCode;

use catena_engine::supervisor::adoption::kill_orphan;
use catena_engine::supervisor::runtime_dir::default_root;

use super::control::{Request, status_in};
use super::target::Target;
use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// Print the final counters as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if let Some(name) = &args.target.chain
        && kill_orphan(&default_root(), name)
    {
        errln!(
            "catena: chain \"{name}\" had no supervisor; its workers were killed, and their \
             packets are not accounted for"
        );
        return Ok(ExitCode::SUCCESS);
    }
    let status = status_in(args.target.ask(&Request::Stop)?)?;
    if args.json {
        crate::document::print(super::status::STATUS, &status)?;
    }
    match status.remains().as_slice() {
        [] => Ok(ExitCode::SUCCESS),
        remains => Err(Failure::running(format!(
            "chain \"{}\" has ended, and has not drained:\n{}",
            status.chain,
            remains.join("\n")
        ))),
    }
}
