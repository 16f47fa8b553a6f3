//! `catena measure render`: a report's document as page and tables, as this version draws them.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_measure::report::Document;

use super::Folder;
use crate::commands::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Document of a report: its report.json
    document: PathBuf,
    #[command(flatten)]
    folder: Folder,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let wrong = |why: String| Failure::input(format!("{}: {why}", args.document.display()));
    let text = std::fs::read_to_string(&args.document).map_err(|error| wrong(error.to_string()))?;
    let document = Document::from_json(&text).map_err(|error| wrong(error.to_string()))?;
    let output = args.folder.create()?;
    output.write(&document)?;
    outln!("report: {}", output.page().display());
    Ok(ExitCode::SUCCESS)
}
