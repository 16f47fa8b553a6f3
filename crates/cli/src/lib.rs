//! `catena`: runs chains of network functions. One file per subcommand.
//!
//! The command is [`main`]. A crate that has NFs of its own calls [`main_with`] instead, and its
//! binary is the whole command with these NFs beside ours, in every mode: workers are processes of
//! the binary that started them. `examples/own-nf` is such a crate.
//!
//! `--json` of every verb prints one object, in the shape of `document`.
//!
//! Exit codes: 0 all went well; 1 something failed while running (a damaged capture, a full disk,
//! no such chain, line bits that were not received whole); 2 wrong arguments, a wrong chain file,
//! or a port or NF that cannot begin, nothing was started.

#[macro_use]
mod output;

mod bench;
mod commands;
mod completion;
mod document;
mod line;
mod manual;
mod measuring;
mod metrics;
mod notes;
mod overwrite;
mod quantity;
#[cfg(test)]
mod reference;
mod registry;
mod render;
#[cfg(test)]
mod sample;
mod seats;
mod service;
mod snapshots;
mod top;
mod written;

use std::process::ExitCode;

use catena_engine::nf::NfKind;
use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};

/// Chains network functions over shared-memory links.
#[derive(Debug, Parser)]
#[command(name = "catena", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check chain files; nothing is started
    Check(commands::check::Args),
    /// Run a chain until its sources end, or until Ctrl-C
    Run(commands::run::Args),
    /// List running chains
    List(commands::list::Args),
    /// Print the status of a running chain
    Status(commands::status::Args),
    /// Watch a running chain: rates, links, drops and workers
    Top(commands::top::Args),
    /// Follow packets through a running chain: which component takes the time
    Probe(commands::probe::Args),
    /// Say what would change if a running chain became what a file says
    Plan(commands::plan::Args),
    /// Make a running chain what a file says, losing no packet on links that stay
    Apply(commands::apply::Args),
    /// Print a running chain as a chain file, with what control requests have changed
    Export(commands::export::Args),
    /// Stop a running chain: drained, every packet accounted for
    Stop(commands::stop::Args),
    /// List, describe and control network functions
    #[command(subcommand)]
    Nf(commands::nf::Command),
    /// List and describe ports and their wrappers
    #[command(subcommand)]
    Port(commands::port::Command),
    /// 10G-EPON line bits in files: encode captures, decode, inspect
    #[command(subcommand)]
    Pcs(commands::pcs::Command),
    /// Passive optical networks in simulated time
    #[command(subcommand)]
    Pon(commands::pon::Command),
    /// 5G user plane functions: sessions, peers, pools, reports; a scripted SMF
    #[command(subcommand)]
    Upf(commands::upf::Command),
    /// Stateful flow programs: check, explain, test, trace, draw
    #[command(subcommand)]
    Flow(commands::flow::Command),
    /// Print the JSON Schema of chain files, flow programs, traffic profiles or studies
    Schema(commands::schema::Args),
    /// Say what this machine is and lacks as a place to measure
    Doctor(commands::doctor::Args),
    /// Measure chains: throughput, latency, comparisons, studies; with a report
    #[command(subcommand)]
    Measure(commands::measure::Command),
    /// Run one worker of a chain (started by `catena run`)
    #[command(hide = true)]
    Worker(commands::worker::Args),
    /// Keep what a successor of a supervisor needs (started by `catena run`)
    #[command(hide = true)]
    Keeper(commands::keeper::Args),
    /// Measure this side of a benchmark (see `cargo xtask bench`)
    #[command(subcommand)]
    Bench(commands::bench::Command),
    /// Print a shell completion script
    Completions(commands::completions::Args),
    /// Write manual pages into a folder
    Man(commands::man::Args),
}

/// Runs the command by the arguments of this process; gives its exit code.
pub fn main() -> ExitCode {
    main_with(&[])
}

/// Runs the command as [`main`] does, with NFs of these kinds beside our own. To be called once, as
/// all that a binary's `main` does: workers are this binary, started again with other arguments.
///
/// Ends with exit code 2 if a kind's name or plan breaks the rules of
/// [`NfPlan::check`](catena_engine::nf::NfPlan::check), or a name is taken.
pub fn main_with(kinds: &[&'static NfKind]) -> ExitCode {
    #[cfg(feature = "jit")]
    catena_flow::nf::set_compiler(catena_jit::compile);
    if let Err(fault) = registry::add(kinds) {
        errln!("catena: {fault}");
        return ExitCode::from(2);
    }
    clap_complete::CompleteEnv::with_factory(Cli::command)
        .var(commands::completions::VARIABLE)
        .complete();
    let (cli, wants_json) = match parsed() {
        Ok(parsed) => parsed,
        Err(error) => return refused(&error),
    };
    let result = match cli.command {
        Command::Check(args) => commands::check::run(&args),
        Command::Run(args) => commands::run::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Top(args) => commands::top::run(&args),
        Command::Probe(args) => commands::probe::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Apply(args) => commands::apply::run(&args),
        Command::Export(args) => commands::export::run(&args),
        Command::Stop(args) => commands::stop::run(&args),
        Command::Nf(command) => commands::nf::run(&command),
        Command::Port(command) => commands::port::run(&command),
        Command::Pcs(command) => commands::pcs::run(&command),
        Command::Pon(command) => commands::pon::run(&command),
        Command::Upf(command) => commands::upf::run(&command),
        Command::Flow(command) => commands::flow::run(&command),
        Command::Schema(args) => commands::schema::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Measure(command) => commands::measure::run(&command),
        Command::Worker(args) => commands::worker::run(args),
        Command::Keeper(args) => commands::keeper::run(&args),
        Command::Bench(command) => commands::bench::run(&command),
        Command::Completions(args) => commands::completions::run(&args),
        Command::Man(args) => commands::man::run(&args),
    };
    result.unwrap_or_else(|failure| {
        if wants_json {
            document::print_failure(&failure);
        }
        errln!("catena: {}", failure.message);
        ExitCode::from(failure.code)
    })
}

/// The command line, and whether it asks for JSON.
fn parsed() -> Result<(Cli, bool), clap::Error> {
    let matches = manual::with_examples(Cli::command()).try_get_matches()?;
    Ok((Cli::from_arg_matches(&matches)?, wants_json(&matches)))
}

fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten();
    let inner = matches.subcommand().map(|(_, inner)| wants_json(inner));
    here == Some(&true) || inner == Some(true)
}

/// Arguments that are wrong, or help that was asked for.
fn refused(error: &clap::Error) -> ExitCode {
    let code = error.exit_code();
    if code != 0 && std::env::args_os().any(|arg| arg == "--json") {
        document::print_failure(&commands::Failure::input(error.to_string().trim()));
    }
    // Whoever closed the stream does not want to know.
    let _ = error.print();
    ExitCode::from(u8::try_from(code).unwrap_or(2))
}
