//! `catena upf`: what a running UPF knows, and a scripted SMF.

mod release;
mod smf;
mod trace;

use std::process::ExitCode;

use serde_json::{Value, json};

use super::control::{Answer, Request, unexpected};
use super::target::Target;
use super::{Failure, Outcome};
use crate::document;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List sessions: UE addresses, packets, bytes, drops
    Sessions {
        #[command(flatten)]
        node: Node,
        /// Slot from which to list; an answer with more says the next one
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Print one session with its rules and usage
    Session {
        #[command(flatten)]
        node: Node,
        /// The UPF's SEID of the session, as `catena upf sessions` lists it
        #[arg(long)]
        seid: u64,
    },
    /// List associations with SMFs
    Peers(Node),
    /// Print how full pools of UE addresses and sessions are
    Pools(Node),
    /// Count reports to SMFs and held packets
    Reports(Node),
    /// Ask SMFs to release their associations, before the UPF is taken away
    ///
    /// An SMF with the feature EPFAR gets all usage first: sessions end one after the other, each
    /// with a last report. New sessions of these SMFs are refused from now on, until the
    /// association was set up anew, or the SMF has refused the release.
    Release(release::Arguments),
    /// Follow one session: each packet and message, and what became of it
    ///
    /// The UPF notes them from now on, until the session or this command ends. Of what does not fit
    /// into its memory between two looks, 4096 records or 1 MiB, the number is told.
    Trace(trace::Arguments),
    /// Play a scenario: SMF, gNB and data network by a script
    ///
    /// Without --n4 the UPF is one of its own, in simulated time. With it, any UPF: messages and
    /// tunnels go over UDP, from addresses of this machine.
    Smf(smf::Arguments),
}

/// A UPF in a running chain.
#[derive(Debug, clap::Args)]
pub(crate) struct Node {
    #[command(flatten)]
    target: Target,
    /// Name of the UPF in the chain
    #[arg(long, default_value = "upf")]
    node: String,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Sessions { node, from } => {
            let answer = ask(node, json!({ "show": "sessions", "from": from }))?;
            show(node, "sessions", &answer, |answer| {
                outln!("sessions: {}", answer["count"]);
                table(&answer["sessions"]);
            })
        }
        Command::Session { node, seid } => {
            let answer = ask(node, json!({ "show": "session", "seid": seid }))?;
            show(node, "session", &answer, |answer| {
                for kind in ["pdrs", "fars", "qers", "urrs"] {
                    outln!("{kind}");
                    table(&answer[kind]);
                }
                if answer["drops"]
                    .as_object()
                    .is_some_and(|drops| !drops.is_empty())
                {
                    outln!("drops: {}", line(&answer["drops"]));
                }
            })
        }
        Command::Peers(node) => {
            let answer = ask(node, json!({ "show": "peers" }))?;
            show(node, "peers", &answer, |answer| {
                table(&answer["peers"]);
                for kind in ["paths", "path_qos"] {
                    let rows = answer[kind].as_array();
                    if rows.is_some_and(|rows| !rows.is_empty()) {
                        outln!("{kind}");
                        table(&answer[kind]);
                    }
                }
            })
        }
        Command::Pools(node) => {
            let answer = ask(node, json!({ "show": "pools" }))?;
            show(node, "pools", &answer, |answer| {
                table(&answer["pools"]);
                outln!("sessions: {}", line(&answer["sessions"]));
            })
        }
        Command::Reports(node) => {
            let answer = ask(node, json!({ "show": "reports" }))?;
            show(node, "reports", &answer, |answer| {
                outln!("{}", line(answer));
            })
        }
        Command::Release(arguments) => release::run(arguments),
        Command::Trace(arguments) => trace::run(arguments),
        Command::Smf(arguments) => smf::run(arguments),
    }
}

fn ask(node: &Node, request: Value) -> Result<Value, Failure> {
    let request = Request::Control {
        node: node.node.clone(),
        request,
    };
    match node.target.ask(&request)? {
        Answer::Control(answer) => Ok(answer),
        other => Err(unexpected(&other)),
    }
}

fn show(node: &Node, what: &str, answer: &Value, text: impl Fn(&Value)) -> Outcome {
    if node.json {
        document::print(&format!("catena.upf.{what}/1"), answer)?;
        return Ok(ExitCode::SUCCESS);
    }
    let shards = answer.as_object().into_iter().flatten();
    let mut shards = shards
        .filter(|(name, _)| is_shard(&node.node, name))
        .peekable();
    if shards.peek().is_none() {
        text(answer);
        return Ok(ExitCode::SUCCESS);
    }
    // One that has nothing to do with the question has no answer.
    for (name, answer) in shards.filter(|(_, answer)| !answer.is_null()) {
        outln!("{name}");
        text(answer);
    }
    Ok(ExitCode::SUCCESS)
}

/// Whether an answer by this name is that of a shard of the node, as `upf/0`.
fn is_shard(node: &str, name: &str) -> bool {
    let shard = name
        .strip_prefix(node)
        .and_then(|rest| rest.strip_prefix('/'));
    shard.is_some_and(|shard| shard.parse::<u16>().is_ok())
}

/// An object as one line: `name value, name value`.
fn line(value: &Value) -> String {
    let Some(fields) = value.as_object() else {
        return value.to_string();
    };
    let fields = fields.iter().filter(|(_, value)| !value.is_null());
    let words = fields.map(|(name, value)| match value {
        Value::String(text) => format!("{name} {text}"),
        Value::Object(_) => format!("{name} ({})", line(value)),
        other => format!("{name} {other}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn table(rows: &Value) {
    for row in rows.as_array().into_iter().flatten() {
        outln!("  {}", line(row));
    }
}
