//! `catena list`: the chains that run, of this user and in this runtime folder. All are asked at
//! once, and one that is silent is shown as such.

use std::process::ExitCode;

use catena_engine::supervisor::status::Status;

use super::Outcome;
use super::control::{AskError, orphans, statuses};
use crate::document;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let (mut answered, mut silent): (Vec<Status>, Vec<(String, AskError)>) = Default::default();
    for (name, status) in statuses() {
        match status {
            Ok(status) => answered.push(status),
            Err(why) => silent.push((name, why)),
        }
    }
    let statuses = answered;
    let orphans = orphans();
    if args.json {
        let list = statuses.iter().map(as_json);
        let without = orphans.iter().map(|(name, left)| {
            serde_json::json!({ "chain": name, "pid": null, "left_s": left.as_secs() })
        });
        let without_answer = silent.iter().map(|(name, why)| {
            serde_json::json!({ "chain": name, "pid": null, "silent": why.to_string() })
        });
        let list: Vec<_> = list.chain(without_answer).chain(without).collect();
        document::print("catena.chains/1", &serde_json::json!({ "chains": list }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !statuses.is_empty() {
        out!("{}", crate::render::chains(&statuses));
    } else if orphans.is_empty() && silent.is_empty() {
        outln!("no chain is running");
    }
    for (name, why) in silent {
        outln!("{name}: it {why}; its supervisor is stopped, or busy with a change");
    }
    for (name, left) in orphans {
        outln!(
            "{name}: without a supervisor, for another {} s; take it over with `catena run FILE \
             --adopt`, or end it with `catena stop {name}`",
            left.as_secs()
        );
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
