//! `catena flow`: stateful programs without a chain that runs.

mod check;
mod explain;
mod graph;
mod import;
mod test;
mod trace;

use std::path::Path;

use catena_engine::chain;
use catena_flow::efsm::source::{self, Found};

use super::check::{STDIN, name_of, read_stdin};
use super::{Failure, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Check the programs of a file: errors and warnings with their lines
    Check(check::Args),
    /// Say what a program remembers, what it costs and what it does
    Explain(explain::Args),
    /// Run packets and times of test files through a program
    Test(test::Args),
    /// Follow the packets of a capture through a program
    Trace(trace::Args),
    /// Make a program of one in FlowBlaze's XL
    Import(import::Args),
    /// Draw the states of a program's elements as SVG
    Graph(graph::Args),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Check(args) => check::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Test(args) => test::run(args),
        Command::Trace(args) => trace::run(args),
        Command::Import(args) => import::run(args),
        Command::Graph(args) => graph::run(args),
    }
}

/// A file's text, or the standard input's.
fn read(file: &Path) -> Result<String, Failure> {
    if file.as_os_str() == STDIN {
        return read_stdin();
    }
    chain::read_text(file).map_err(|error| Failure::input(format!("{}: {error}", file.display())))
}

/// The programs of a file, with warnings printed.
fn load(file: &Path) -> Result<Vec<Found>, Failure> {
    let text = read(file)?;
    let name = name_of(file);
    let loaded = source::load(&name, &text);
    let (found, warnings) =
        loaded.map_err(|errors| Failure::input(format!("{errors}\n{name} is wrong")))?;
    for warning in warnings {
        errln!("{warning}");
    }
    Ok(found)
}

/// The one program of a file, or that of the node which is named.
fn load_one(file: &Path, node: Option<&str>) -> Result<Found, Failure> {
    let mut found = load(file)?;
    let names: Vec<String> = found.iter().map(|one| one.node.clone()).collect();
    let at = match node {
        Some(node) => names.iter().position(|name| name == node),
        None if found.len() == 1 => Some(0),
        None => None,
    };
    match at {
        Some(at) => Ok(found.swap_remove(at)),
        None => Err(Failure::input(format!(
            "which program? name one by --node: {}",
            names.join(", ")
        ))),
    }
}
