//! `catena plan`: what would change if a running chain became what a file says. Nothing changes.
//!
//! The chain tells the text it was started from; both texts are checked here and compared. Then the
//! chain is asked whether it could become so now, by the same checks as `catena apply` makes.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain::{Chain, Plan, diff};
use catena_engine::supervisor::states::fates;

use super::control::{Answer, Request, Source, unexpected};
use super::target::Target;
use super::{Failure, Outcome};
use crate::completion;
use crate::document;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file, as the chain is to be; - is the standard input
    #[arg(value_hint = clap::ValueHint::FilePath)]
    file: PathBuf,
    /// Name of the running chain; the file's if left out
    #[arg(add = completion::chains())]
    chain: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let checked = super::check::load(&args.file, None)?;
    let new = checked.chain;
    let name = args.chain.clone().unwrap_or_else(|| new.name.clone());
    if name != new.name {
        return Err(Failure::input(format!(
            "{} is of chain \"{}\", not \"{name}\"; a running chain keeps its name",
            super::check::name_of(&args.file),
            new.name
        )));
    }
    let target = Target {
        chain: Some(name.clone()),
    };
    let source = match target.ask(&Request::Chain)? {
        Answer::Chain(source) => source,
        other => return Err(unexpected(&other)),
    };
    // The new file gets the mode that was given when the chain was started.
    let new = match source.mode {
        Some(_) => {
            Chain::parse(&checked.text, &new.dir, &registry(), source.mode)
                .map_err(Failure::input)?
                .chain
        }
        None => new,
    };
    let (plan, fates) = plan(&source, &new)?;
    if args.json {
        let body = serde_json::json!({ "chain": name, "actions": plan.actions });
        document::print("catena.plan/1", &body)?;
    } else if plan.is_empty() {
        outln!(
            "nothing to do: chain \"{name}\" is as {} says",
            super::check::name_of(&args.file)
        );
    } else {
        out!("{plan}");
        for line in fates {
            outln!("{line}");
        }
    }
    let source = Source {
        text: checked.text,
        dir: new.dir.clone(),
        mode: None,
    };
    match target.ask(&Request::Plan(source))? {
        Answer::Planned(None) => Ok(ExitCode::SUCCESS),
        Answer::Planned(Some(why)) => {
            Err(Failure::running(format!("apply would refuse this: {why}")))
        }
        other => Err(unexpected(&other)),
    }
}

/// What turns the chain that runs into `new`, and what becomes of memory that outlives its NFs.
fn plan(source: &Source, new: &Chain) -> Result<(Plan, Vec<String>), Failure> {
    let old = Chain::parse(&source.text, &source.dir, &registry(), source.mode)
        .map_err(|errors| {
            Failure::running(format!(
                "the running chain's file is wrong for this version of catena:\n{errors}"
            ))
        })?
        .chain;
    Ok((diff(&old, new), fates(&old, new)))
}
