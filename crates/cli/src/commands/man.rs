//! `catena man`: manual pages, one per subcommand, made of the options and of what `manual` adds.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Failure, Outcome};
use crate::manual;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write into
    #[arg(value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let failed =
        |error: std::io::Error| Failure::running(format!("{}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    let mut command = manual::with_examples(crate::Cli::command());
    command.build();
    write(&command, "", &args.folder).map_err(failed)?;
    Ok(ExitCode::SUCCESS)
}

/// Writes the page of a verb and those of all below it.
fn write(command: &clap::Command, words: &str, folder: &Path) -> std::io::Result<()> {
    let name = format!("catena {words}").trim().replace(' ', "-");
    std::fs::write(
        folder.join(format!("{name}.1")),
        manual::page(command, words)?,
    )?;
    let inner = command.get_subcommands();
    for inner in inner.filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        let words = format!("{words} {}", inner.get_name());
        write(inner, words.trim(), folder)?;
    }
    Ok(())
}
