//! `catena completions`: a completion script for the user's shell.

use std::process::ExitCode;

use clap::CommandFactory;

use super::Outcome;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell
    shell: clap_complete::Shell,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut command = crate::Cli::command();
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "catena", &mut script);
    out!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
