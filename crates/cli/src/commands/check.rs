//! `catena check`: every error of chain files, and nothing started.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use catena_engine::chain::{Chain, ChainErrors, Checked, Mode};
use serde_json::{Value, json};

use super::{Failure, Outcome};
use crate::document;
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain files; - is the standard input
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::FilePath)]
    files: Vec<PathBuf>,
    /// Print errors and warnings as JSON
    #[arg(long)]
    json: bool,
}

/// By this name a file is the standard input.
pub(crate) const STDIN: &str = "-";
/// Longest chain file that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Loads a chain file; errors are told in full. The chain's folder becomes absolute; that of the
/// standard input is the current one.
pub(crate) fn load(file: &Path, mode: Option<Mode>) -> Result<Checked, Failure> {
    let mut checked = match file.as_os_str() == STDIN {
        true => Chain::parse(&read_stdin()?, Path::new("."), &registry(), mode),
        false => Chain::load(file, &registry(), mode),
    }
    .map_err(|errors| refusal(file, &errors))?;
    if let Ok(dir) = checked.chain.dir.canonicalize() {
        checked.chain.dir = dir;
    }
    Ok(checked)
}

fn read_stdin() -> Result<String, Failure> {
    let mut text = String::new();
    let input = std::io::stdin().lock();
    let count = input
        .take(FILE_BYTES_MAX + 1)
        .read_to_string(&mut text)
        .map_err(|error| Failure::input(format!("the standard input cannot be read: {error}")))?;
    if count as u64 > FILE_BYTES_MAX {
        let reason = format!("a chain file may have at most {FILE_BYTES_MAX} bytes");
        return Err(Failure::input(reason));
    }
    Ok(text)
}

/// A file's name for people.
pub(crate) fn name_of(file: &Path) -> String {
    match file.as_os_str() == STDIN {
        true => "the standard input".to_owned(),
        false => file.display().to_string(),
    }
}

fn refusal(file: &Path, errors: &ChainErrors) -> Failure {
    let name = name_of(file);
    let mut failure = Failure::input(format!("{errors}\n{name} is wrong; nothing was started"));
    failure.errors = document::of_file(&name, errors);
    failure
}

pub(crate) fn run(args: &Args) -> Outcome {
    let mut code = ExitCode::SUCCESS;
    let mut list = Vec::new();
    for file in &args.files {
        let loaded = load(file, None);
        if loaded.is_err() {
            code = ExitCode::from(2);
        }
        if args.json {
            list.push(as_json(file, loaded));
        } else {
            tell(file, loaded);
        }
    }
    if args.json {
        document::print("catena.check/1", &json!({ "files": list }))?;
    }
    Ok(code)
}

fn tell(file: &Path, loaded: Result<Checked, Failure>) {
    match loaded {
        Err(failure) => errln!("catena: {}", failure.message),
        Ok(checked) => {
            for warning in &checked.warnings {
                errln!("{warning}");
            }
            let (nodes, links) = (checked.chain.nodes.len(), checked.chain.links.len());
            outln!(
                "{}: chain \"{}\" is fine ({nodes} nodes, {links} links)",
                name_of(file),
                checked.chain.name
            );
        }
    }
}

fn as_json(file: &Path, loaded: Result<Checked, Failure>) -> Value {
    let name = name_of(file);
    match loaded {
        Ok(checked) => json!({
            "file": name,
            "chain": checked.chain.name,
            "nodes": checked.chain.nodes.len(),
            "links": checked.chain.links.len(),
            "errors": [],
            "warnings": checked.warnings,
        }),
        Err(failure) => {
            let errors = match failure.errors.is_empty() {
                true => vec![json!({ "file": name, "message": failure.message })],
                false => failure.errors,
            };
            json!({ "file": name, "chain": null, "errors": errors, "warnings": [] })
        }
    }
}
