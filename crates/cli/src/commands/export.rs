//! `catena export`: a running chain as a chain file, with what control requests have changed of it.
//!
//! The chain says from which text it was started, or changed last, and what of its NFs is another
//! now. Only those NFs are written anew here; all else, comments too, stays as it was written.

use std::process::ExitCode;

use serde_json::Value;

use super::control::{Amended, Answer, Request, unexpected};
use super::target::Target;
use super::{Failure, Outcome};
use crate::document;
use crate::written::with_nodes;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    target: Target,
    /// As JSON: the text, and what is another than in the file
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (source, drift) = match args.target.ask(&Request::Drift)? {
        Answer::Drift(source, drift) => (source, drift),
        other => return Err(unexpected(&other)),
    };
    let nodes: Vec<(&str, &Value, &Value)> = drift
        .iter()
        .map(|(name, written, runs)| (name.as_str(), written, runs))
        .collect();
    let text = with_nodes(&source.text, &nodes).map_err(Failure::running)?;
    if args.json {
        let amended: Vec<Amended> = drift.into_iter().map(Amended::of).collect();
        let body = serde_json::json!({
            "dir": source.dir,
            "mode": source.mode,
            "text": text,
            "amended": amended,
        });
        document::print("catena.export/1", &body)?;
    } else {
        out!("{text}");
    }
    Ok(ExitCode::SUCCESS)
}
