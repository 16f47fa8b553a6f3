//! `catena`: runs chains of network functions. One file per subcommand.
//!
//! Exit codes: 0 all went well; 1 something failed while running (a damaged capture, a full disk,
//! no such chain); 2 wrong arguments or a wrong chain file, nothing was started.

mod commands;
mod registry;
mod render;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Chains network functions over shared-memory links.
#[derive(Debug, Parser)]
#[command(name = "catena", version, about, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a chain file; nothing is started
    Check(commands::check::Args),
    /// Run a chain until its sources end, or until Ctrl-C
    Run(commands::run::Args),
    /// Print the status of a running chain
    Status(commands::status::Args),
    /// Stop a running chain: drained, every packet accounted for
    Stop(commands::stop::Args),
    /// List and describe network functions
    #[command(subcommand)]
    Nf(commands::nf::Command),
    /// Print the JSON Schema of chain files
    Schema,
    /// Run one worker of a chain (started by `catena run`)
    #[command(hide = true)]
    Worker(commands::worker::Args),
    /// Print a shell completion script
    Completions(commands::completions::Args),
    /// Write manual pages into a folder
    Man(commands::man::Args),
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.command {
        Command::Check(args) => commands::check::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Nf(command) => commands::nf::run(&command),
        Command::Schema => commands::schema::run(),
        Command::Worker(args) => commands::worker::run(args),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("catena: {}", failure.message);
        ExitCode::from(failure.code)
    })
}
