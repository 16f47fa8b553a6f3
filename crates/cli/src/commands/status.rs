//! `catena status`: the counters of a running chain.

use std::process::ExitCode;

use super::control::{Answer, Request, Target};
use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let Answer::Status(status) = args.target.ask(&Request::Status)? else {
        return Err(Failure::running("the chain gave an unexpected answer"));
    };
    if args.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&status).map_err(Failure::running)?
        );
    } else {
        print!("{}", crate::render::status(&status));
    }
    Ok(ExitCode::SUCCESS)
}
