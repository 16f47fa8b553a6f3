//! `catena flow graph`: the states of an element as a picture.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_flow::efsm::graph::graph;

use super::super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some; - is the standard input
    file: PathBuf,
    /// Which node's program, if the chain has several
    #[arg(long)]
    node: Option<String>,
    /// Which element, if the program has several
    #[arg(long)]
    element: Option<String>,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let found = super::load_one(&args.file, args.node.as_deref())?;
    let elements = &found.document.elements;
    let chosen = match &args.element {
        Some(name) => elements.iter().find(|one| one.name == *name),
        None => elements.first().filter(|_| elements.len() == 1),
    };
    let Some(element) = chosen else {
        let names: Vec<&str> = elements.iter().map(|one| &*one.name).collect();
        let names = names.join(", ");
        return Err(Failure::input(format!(
            "which element? name one by --element: {names}"
        )));
    };
    out!("{}", graph(element));
    Ok(ExitCode::SUCCESS)
}
