//! `catena completions`: a completion script for the user's shell.

use std::process::ExitCode;

use clap_complete::env::{Bash, Elvish, EnvCompleter, Fish, Powershell, Zsh};

use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Shell
    shell: clap_complete::Shell,
}

/// Variable by which a script asks this binary.
pub(crate) const VARIABLE: &str = "CATENA_COMPLETE";

pub(crate) fn run(args: &Args) -> Outcome {
    let shell: &dyn EnvCompleter = match args.shell {
        clap_complete::Shell::Bash => &Bash,
        clap_complete::Shell::Elvish => &Elvish,
        clap_complete::Shell::Fish => &Fish,
        clap_complete::Shell::PowerShell => &Powershell,
        clap_complete::Shell::Zsh => &Zsh,
        other => return Err(Failure::input(format!("no completion for {other} yet"))),
    };
    let mut script = Vec::new();
    // By name, so that the script works wherever the binary lies and whenever it is replaced.
    shell
        .write_registration(VARIABLE, "catena", "catena", "catena", &mut script)
        .map_err(Failure::running)?;
    out!("{}", String::from_utf8_lossy(&script));
    Ok(ExitCode::SUCCESS)
}
