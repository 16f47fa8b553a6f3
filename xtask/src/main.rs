//! Repository chores: `cargo xtask bench NAME` measures Catena beside its peers;
//! `cargo xtask image` builds the image of workers in containers.
//!
//! This binary ships with the repository, not with Catena; nothing depends on it.
//!
//! SPDX-License-Identifier: Apache-2.0

mod bench;
mod image;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Repository chores of Catena.
#[derive(Parser)]
#[command(name = "cargo xtask", version, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure Catena and its peers in turn, in one command
    Bench(bench::Arguments),
    /// Build the image of workers in containers
    Image(image::Arguments),
    /// Run a command that dies with the process which started it
    #[command(name = bench::child::GUARD, hide = true)]
    Guard(bench::child::GuardArguments),
    /// Remove a directory when standard input ends
    #[command(name = bench::work_dir::SWEEP, hide = true)]
    Sweep(bench::work_dir::SweepArguments),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
        Command::Image(arguments) => image::run(&arguments),
        Command::Guard(arguments) => bench::child::guard(&arguments),
        Command::Sweep(arguments) => bench::work_dir::sweep(&arguments),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
