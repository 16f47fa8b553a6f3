//! `catena man`: manual pages, one per subcommand, made of the options and of what `manual` adds.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::CommandFactory;

use super::{Failure, Outcome};
use crate::manual;
use crate::overwrite::Overwrite;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Folder to write into
    #[arg(value_hint = clap::ValueHint::DirPath)]
    folder: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let failed =
        |error: std::io::Error| Failure::running(format!("{}: {error}", args.folder.display()));
    std::fs::create_dir_all(&args.folder).map_err(failed)?;
    let mut command = manual::with_examples(crate::Cli::command());
    command.build();
    let mut pages = Vec::new();
    page(&command, "", &mut pages).map_err(failed)?;
    for (name, _) in &pages {
        args.overwrite.check(&args.folder.join(name))?;
    }
    for (name, text) in pages {
        std::fs::write(args.folder.join(name), text).map_err(failed)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The page of a verb and those of all below it, by their files' names.
fn page(
    command: &clap::Command,
    words: &str,
    pages: &mut Vec<(String, Vec<u8>)>,
) -> std::io::Result<()> {
    let name = format!("catena {words}").trim().replace(' ', "-");
    pages.push((format!("{name}.1"), manual::page(command, words)?));
    let inner = command.get_subcommands();
    for inner in inner.filter(|inner| !inner.is_hide_set() && inner.get_name() != "help") {
        let words = format!("{words} {}", inner.get_name());
        page(inner, words.trim(), pages)?;
    }
    Ok(())
}
