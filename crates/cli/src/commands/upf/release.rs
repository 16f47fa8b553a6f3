//! `catena upf release`: SMFs are asked to release their associations with a UPF that is to be
//! taken away, and waited for.
//!
//! The UPF asks (`crates/upf/src/release.rs`); this has it do so, and looks at its peers then.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{Node, ask, is_shard, table};
use crate::commands::{Failure, Outcome};
use crate::document;
use crate::quantity;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    node: Node,
    /// The SMF, by its Node ID or address
    #[arg(
        long,
        value_name = "SMF",
        default_value = "all",
        hide_default_value = true
    )]
    smf: String,
    /// Graceful Release Period: the SMF has so long; without it, none is said
    ///
    /// SMFs are told the next longer time that the message can say: 2 s and up to 62 s in steps of
    /// 2 s, then minutes, and so on.
    #[arg(long, value_name = "SPAN",
          value_parser = |text: &str| quantity::seconds(text, 1.0..=1_116_000.0))]
    within: Option<Duration>,
    /// Wait until the associations have ended, at most as long as SMFs have
    #[arg(long)]
    wait: bool,
}

/// Between two questions.
const POLL: Duration = Duration::from_millis(100);
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let within_s = arguments
        .within
        .map(|within| within.as_secs_f64().ceil() as u64);
    let request = json!({ "release": arguments.smf, "within_s": within_s });
    let answer = ask(&arguments.node, request)?;
    let asked = first(arguments, &answer)["asked"].clone();
    if !arguments.node.json {
        outln!("asked for the release");
        table(&asked);
    }
    let mut left = Vec::new();
    if arguments.wait {
        left = wait(arguments, &asked)?;
    }
    if arguments.node.json {
        let left = arguments.wait.then_some(&left);
        document::print(
            "catena.upf.release/1",
            &json!({ "asked": asked, "left": left }),
        )?;
    } else if arguments.wait && left.is_empty() {
        outln!("released");
    }
    if left.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    let names: Vec<&str> = left
        .iter()
        .filter_map(|one| one["node_id"].as_str())
        .collect();
    errln!("error: not released: {}", names.join(", "));
    Ok(ExitCode::FAILURE)
}

/// What the UPF says, or the first of its shards, which has the associations.
fn first<'a>(arguments: &Arguments, answer: &'a Value) -> &'a Value {
    let shards = answer.as_object().into_iter().flatten();
    let mut shards = shards.filter(|(name, _)| is_shard(&arguments.node.node, name));
    let first = shards.find(|(name, _)| name.ends_with("/0"));
    first.map_or(answer, |(_, answer)| answer)
}

/// Waits until none of those that were asked is there any more, has refused, or has begun anew;
/// those of which the time is over, or that have refused.
fn wait(arguments: &Arguments, asked: &Value) -> Result<Vec<Value>, Failure> {
    let begun = Instant::now();
    let mut told = begun;
    let is_asked = |peer: &Value| {
        let mut asked = asked.as_array().into_iter().flatten();
        asked.any(|one| one["node_id"] == peer["node_id"])
    };
    loop {
        let answer = ask(&arguments.node, json!({ "show": "peers" }))?;
        let peers = first(arguments, &answer)["peers"].as_array();
        let peers = peers.into_iter().flatten().filter(|peer| is_asked(peer));
        let left: Vec<Value> = peers.cloned().collect();
        let is_over = arguments
            .within
            .is_some_and(|within| begun.elapsed() >= within);
        let is_refused = |peer: &Value| peer["state"] == "associated";
        if is_over || left.iter().all(is_refused) {
            return Ok(left);
        }
        if !arguments.node.json && told.elapsed() >= PROGRESS {
            told = Instant::now();
            let sessions: u64 = left.iter().filter_map(|one| one["sessions"].as_u64()).sum();
            let rest = arguments
                .within
                .map(|within| within.saturating_sub(begun.elapsed()));
            let rest = rest.map_or(String::new(), |rest| format!(", {} s left", rest.as_secs()));
            errln!("{} associations, {sessions} sessions{rest}", left.len());
        }
        std::thread::sleep(POLL);
    }
}
