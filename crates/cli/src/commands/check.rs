//! `catena check`: every error of a chain file, and nothing started.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_engine::chain::{Chain, Checked, Mode};
use catena_engine::placement::place;
use serde::Serialize;

use super::{Failure, Outcome};
use crate::registry::registry;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Chain file
    file: PathBuf,
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
    let placed = match args.placement {
        true => Some(placed(&checked.chain, args.cores)?),
        false => None,
    };
    if args.json {
        let mut answer = serde_json::json!({
            "chain": checked.chain.name,
            "errors": [],
            "warnings": checked.warnings,
        });
        if let Some(placed) = placed {
            answer["placement"] = serde_json::to_value(placed).map_err(Failure::running)?;
        }
        outln!("{answer}");
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
        if let Some(placed) = placed {
            out!("{}", table(&placed));
        }
    }
    Ok(ExitCode::SUCCESS)
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
