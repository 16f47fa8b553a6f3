//! `catena check`: every error of chain files, and nothing started.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use catena_engine::chain::{Chain, ChainErrors, Checked, Mode};
use catena_engine::placement::place;
use serde::Serialize;
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
    /// Print which worker runs what, each shard by itself
    #[arg(long)]
    placement: bool,
    /// With --placement: as on a machine with so many cores
    #[arg(long, value_name = "COUNT", requires = "placement")]
    cores: Option<usize>,
}

/// By this name a file is the standard input.
pub(crate) const STDIN: &str = "-";
/// Longest chain file that is read from there.
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

/// The text on the standard input.
pub(crate) fn read_stdin() -> Result<String, Failure> {
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
        let loaded = load(file, None).and_then(|checked| {
            let placed = args.placement.then(|| placed(&checked.chain, args.cores));
            Ok((checked, placed.transpose()?))
        });
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

fn tell(file: &Path, loaded: Result<(Checked, Option<Vec<Placed>>), Failure>) {
    match loaded {
        Err(failure) => errln!("catena: {}", failure.message),
        Ok((checked, placed)) => {
            for warning in &checked.warnings {
                errln!("{warning}");
            }
            let (nodes, links) = (checked.chain.nodes.len(), checked.chain.links.len());
            outln!(
                "{}: chain \"{}\" is fine ({nodes} nodes, {links} links)",
                name_of(file),
                checked.chain.name
            );
            if let Some(placed) = placed {
                out!("{}", table(&placed));
            }
        }
    }
}

fn as_json(file: &Path, loaded: Result<(Checked, Option<Vec<Placed>>), Failure>) -> Value {
    let name = name_of(file);
    match loaded {
        Ok((checked, placed)) => {
            let mut about = json!({
                "file": name,
                "chain": checked.chain.name,
                "nodes": checked.chain.nodes.len(),
                "links": checked.chain.links.len(),
                "errors": [],
                "warnings": checked.warnings,
            });
            if let Some(placed) = placed {
                about["placement"] = json!(placed);
            }
            about
        }
        Err(failure) => {
            let errors = match failure.errors.is_empty() {
                true => vec![json!({ "file": name, "message": failure.message })],
                false => failure.errors,
            };
            json!({ "file": name, "chain": null, "errors": errors, "warnings": [] })
        }
    }
}

/// A worker as it would be started.
#[derive(Debug, Serialize)]
struct Placed {
    worker: String,
    mode: Mode,
    /// The core that it is pinned to, unless `catena run` is told `--no-pin`.
    core: Option<usize>,
    nodes: Vec<String>,
    pools: usize,
    links_in: usize,
    links_out: usize,
}

fn placed(chain: &Chain, cores: Option<usize>) -> Result<Vec<Placed>, Failure> {
    let placement = place(chain).map_err(|error| Failure::input(error.sentence()))?;
    let here = std::thread::available_parallelism().map_or(1, usize::from);
    let cores = match cores {
        None if !chain.run.cores.is_empty() => chain.run.cores.clone(),
        count => (0..count.unwrap_or(here)).collect(),
    };
    let workers = placement.workers.iter().enumerate();
    let workers = workers.map(|(index, worker)| Placed {
        worker: worker.name.clone(),
        mode: worker.mode,
        core: worker
            .core
            .or_else(|| placement.core_of(chain, index, &cores)),
        nodes: worker
            .nodes
            .iter()
            .map(|node| chain.nodes[*node].name.clone())
            .collect(),
        pools: count(&placement.pools, |pool| pool.owner == index),
        links_in: count(&placement.rings, |ring| ring.to == index),
        links_out: count(&placement.rings, |ring| ring.from == index),
    });
    Ok(workers.collect())
}

fn count<T>(all: &[T], is: impl Fn(&T) -> bool) -> usize {
    all.iter().filter(|one| is(one)).count()
}

fn table(placed: &[Placed]) -> String {
    let rows = placed.iter().map(|worker| {
        vec![
            worker.worker.clone(),
            format!("{:?}", worker.mode).to_lowercase(),
            worker
                .core
                .map_or_else(|| "-".to_owned(), |core| core.to_string()),
            worker.pools.to_string(),
            worker.links_in.to_string(),
            worker.links_out.to_string(),
            worker.nodes.join(", "),
        ]
    });
    let mut text = String::from("\n");
    let titles = [
        "WORKER",
        "MODE",
        "CORE",
        "POOLS",
        "LINKS IN",
        "LINKS OUT",
        "NODES",
    ];
    crate::render::table(&mut text, &titles, rows);
    text
}
