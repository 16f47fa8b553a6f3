//! `catena check`: every error of a chain file, and nothing started.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain::{Chain, Checked, Mode};

use super::{Failure, Outcome};
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file
    file: PathBuf,
    /// Print errors and warnings as JSON
    #[arg(long)]
    json: bool,
}

/// Loads a chain file; errors are printed in full. The chain's folder becomes absolute.
pub(crate) fn load(
    file: &std::path::Path,
    json: bool,
    mode: Option<Mode>,
) -> Result<Checked, Failure> {
    let checked = Chain::load(file, &registry(), mode);
    let mut checked = checked.map_err(|errors| {
        if json && let Ok(text) = serde_json::to_string_pretty(&errors) {
            outln!("{text}");
            return Failure::input(format!("{} is wrong; nothing was started", file.display()));
        }
        Failure::input(format!(
            "{errors}\n{} is wrong; nothing was started",
            file.display()
        ))
    })?;
    if let Ok(dir) = checked.chain.dir.canonicalize() {
        checked.chain.dir = dir;
    }
    Ok(checked)
}

pub(crate) fn run(args: &Args) -> Outcome {
    let checked = load(&args.file, args.json, None)?;
    if args.json {
        outln!(
            "{}",
            serde_json::json!({
                "chain": checked.chain.name,
                "errors": [],
                "warnings": checked.warnings,
            })
        );
    } else {
        for warning in &checked.warnings {
            errln!("{warning}");
        }
        let (nodes, links) = (checked.chain.nodes.len(), checked.chain.links.len());
        outln!(
            "{}: chain \"{}\" is fine ({nodes} nodes, {links} links)",
            args.file.display(),
            checked.chain.name
        );
    }
    Ok(ExitCode::SUCCESS)
}
