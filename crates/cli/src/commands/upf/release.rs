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

/// Between two questions: each has the UPF look at all its sessions.
const POLL: Duration = Duration::from_secs(1);

pub(super) fn run(arguments: &Arguments) -> Outcome {
    let within_s = arguments
        .within
        .map(|within| within.as_secs_f64().ceil() as u64);
    let request = json!({ "release": arguments.smf, "within_s": within_s });
    let answer = ask(&arguments.node, request)?;
    let asked = shards(arguments, &answer)[0]["asked"].clone();
    let is_any = asked.as_array().is_some_and(|asked| !asked.is_empty());
    if !arguments.node.json {
        match is_any {
            true => outln!("asked for the release"),
            false => outln!("nobody is associated"),
        }
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
    } else if arguments.wait && is_any && left.is_empty() {
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

/// What each shard of the UPF says, the first one first; or the UPF, if it has none.
fn shards<'a>(arguments: &Arguments, answer: &'a Value) -> Vec<&'a Value> {
    let all = answer.as_object().into_iter().flatten();
    let all = all.filter(|(name, _)| is_shard(&arguments.node.node, name));
    let mut all: Vec<_> = all.collect();
    all.sort_by_key(|(name, _)| !name.ends_with("/0"));
    match all.is_empty() {
        true => vec![answer],
        false => all.into_iter().map(|(_, answer)| answer).collect(),
    }
}

/// What the UPF says of associations: as its first shard has them, with the sessions of all.
fn peers(arguments: &Arguments, answer: &Value) -> Vec<Value> {
    let all = shards(arguments, answer);
    let of = |shard: &Value| shard["peers"].as_array().cloned().unwrap_or_default();
    let mut peers = all.first().map_or_else(Vec::new, |first| of(first));
    for other in all.iter().skip(1).flat_map(|shard| of(shard)) {
        let mut same = peers.iter_mut();
        if let Some(peer) = same.find(|peer| peer["node_id"] == other["node_id"]) {
            let sessions = [&peer["sessions"], &other["sessions"]];
            let sum: u64 = sessions.iter().filter_map(|count| count.as_u64()).sum();
            peer["sessions"] = sum.into();
        }
    }
    peers
}

/// Waits until none of those that were asked is there any more, has refused, or has begun anew;
/// those of which the time is over, or that have refused.
fn wait(arguments: &Arguments, asked: &Value) -> Result<Vec<Value>, Failure> {
    let begun = Instant::now();
    let is_asked = |peer: &Value| {
        let mut asked = asked.as_array().into_iter().flatten();
        asked.any(|one| one["node_id"] == peer["node_id"])
    };
    loop {
        let answer = ask(&arguments.node, json!({ "show": "peers" }))?;
        let mut left = peers(arguments, &answer);
        left.retain(|peer| is_asked(peer));
        let is_over = arguments
            .within
            .is_some_and(|within| begun.elapsed() >= within);
        let is_refused = |peer: &Value| peer["state"] == "associated";
        if is_over || left.iter().all(is_refused) {
            return Ok(left);
        }
        if !arguments.node.json {
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

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    #[test]
    fn sessions_are_those_of_all_shards() {
        let arguments = Line::parse_from(["release", "--wait"]).arguments;
        let peer = |sessions: u64| json!({ "node_id": "10.4.0.2", "sessions": sessions });
        let one = json!({ "peers": [peer(3)] });
        assert_eq!(peers(&arguments, &one), [peer(3)]);
        let all = json!({
            "upf/1": { "peers": [peer(4), { "node_id": "10.4.0.9", "sessions": 1 }] },
            "upf/0": { "peers": [peer(3)] }, "other": { "peers": [peer(8)] },
        });
        assert_eq!(peers(&arguments, &all), [peer(7)]);
        let asked = json!({ "upf/1": null, "upf/0": { "asked": [7] } });
        assert_eq!(shards(&arguments, &asked)[0]["asked"][0], 7);
    }
}
