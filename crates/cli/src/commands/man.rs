//! `catena man`: manual pages, one per subcommand.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Failure, Outcome};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write into
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let failed =
        |error: std::io::Error| Failure::running(format!("{}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(crate::Cli::command(), &args.folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}
