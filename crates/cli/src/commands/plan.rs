//! `catena plan`: what would change if a running chain became what a file says. Nothing changes.
//!
//! The file is checked here first, so that its errors are shown with their lines. The chain says
//! the rest: it knows what control requests have changed, and makes the same checks as for
//! `catena apply`.

use std::path::PathBuf;
use std::process::ExitCode;

use super::control::{Answer, Request, Source, Wish, unexpected};
use super::target::Target;
use super::{Failure, Outcome};
use crate::completion;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file, as the chain is to be; - is the standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Name of the running chain; the file's if left out
    #[arg(add = completion::chains())]
    chain: Option<String>,
    /// As if nothing were kept of what `catena nf control` has changed
    #[arg(long)]
    discard: bool,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let checked = super::check::load(&args.file, None)?;
    let new = checked.chain;
    let file = super::check::name_of(&args.file);
    let name = args.chain.clone().unwrap_or_else(|| new.name.clone());
    if name != new.name {
        return Err(Failure::input(format!(
            "{file} is of chain \"{}\", not \"{name}\"; a running chain keeps its name",
            new.name
        )));
    }
    let target = Target {
        chain: Some(name.clone()),
    };
    let wish = Wish {
        source: Source {
            text: checked.text,
            dir: new.dir.clone(),
            mode: None,
        },
        discards: args.discard,
    };
    match target.ask(&Request::Plan(wish))? {
        Answer::Planned(planned) => {
            super::apply::print(&name, &file, &planned, args.json)?;
            match &planned.refusal {
                None => Ok(ExitCode::SUCCESS),
                Some(why) => Err(Failure::running(format!("apply would refuse this: {why}"))),
            }
        }
        other => Err(unexpected(&other)),
    }
}
