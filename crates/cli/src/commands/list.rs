//! `catena list`: the chains that run, of this user and in this runtime folder.

use std::process::ExitCode;

use catena_engine::supervisor::status::Status;

use super::Outcome;
use super::control::{Request, ask, running_chains, status_in};
use crate::document;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    // A chain that ends meanwhile is not running.
    let statuses = running_chains()
        .into_iter()
        .filter_map(|name| ask(&name, &Request::Status).and_then(status_in).ok());
    let statuses: Vec<Status> = statuses.collect();
    if args.json {
        let list: Vec<_> = statuses.iter().map(as_json).collect();
        document::print("catena.chains/1", &serde_json::json!({ "chains": list }))?;
    } else if statuses.is_empty() {
        outln!("no chain is running");
    } else {
        out!("{}", crate::render::chains(&statuses));
    }
    Ok(ExitCode::SUCCESS)
}

fn as_json(status: &Status) -> serde_json::Value {
    serde_json::json!({
        "chain": status.chain,
        "pid": status.pid,
        "uptime_s": status.uptime_s,
        "workers": status.workers.len(),
        "nodes": status.nodes.len(),
        "links": status.links.len(),
        "deaths": status.deaths,
    })
}
