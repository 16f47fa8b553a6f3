//! `catena nf`: what network functions there are, what each takes, and requests to running ones.

use std::io::Read;
use std::process::ExitCode;

use catena_engine::nf::{Access, Inputs, NfKind, NfPlan};
use catena_engine::shard::Sharding;

use serde_json::json;

use super::control::{Answer, Request, unexpected};
use super::target::Target;
use super::{Failure, Outcome, kinds};
use crate::completion;
use crate::document;
use crate::registry::registry;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// List network functions
    List {
        /// As JSON
        #[arg(long)]
        json: bool,
    },
    /// Describe one network function and its settings
    Describe {
        /// Its type
        #[arg(add = completion::nf_types())]
        name: String,
        /// As JSON, with the schema of its settings
        #[arg(long)]
        json: bool,
    },
    /// Send a request to a network function of a running chain and print its answer, as JSON
    Control {
        /// Name of the chain
        #[arg(add = completion::chains())]
        chain: String,
        /// Name of the network function in the chain
        #[arg(add = completion::nodes())]
        node: String,
        /// The request, such as '{"show": "counts"}', or - to read it from the standard input
        #[arg(value_name = "JSON")]
        request: String,
    },
}

pub(crate) fn run(command: &Command) -> Outcome {
    let registry = registry();
    match command {
        Command::List { json: true } => {
            let list: Vec<_> = registry.nfs.iter().map(|kind| as_json(kind)).collect();
            document::print("catena.nfs/1", &serde_json::json!({ "nfs": list }))?;
        }
        Command::List { json: false } => {
            for kind in &registry.nfs {
                outln!("{:<12} {}", kind.name, kind.summary);
            }
        }
        Command::Describe { name, json } => {
            let names = registry.nfs.iter().map(|kind| kind.name);
            let kind = registry
                .nf(name)
                .ok_or_else(|| kinds::unknown("network function", name, names))?;
            if *json {
                document::print("catena.nf/1", &as_json(kind))?;
            } else {
                describe(kind);
            }
        }
        Command::Control {
            chain,
            node,
            request,
        } => control(chain, node, &read_request(request)?)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A request as it was written; one that no command line holds comes by the standard input.
fn read_request(text: &str) -> Result<serde_json::Value, Failure> {
    let mut read = String::new();
    let text = if text == "-" {
        let input = std::io::stdin().lock();
        let mut input = input.take(super::control::TEXT_BYTES_MAX as u64 + 1);
        let count = input.read_to_string(&mut read).map_err(Failure::input)?;
        if count > super::control::TEXT_BYTES_MAX {
            let most = super::control::TEXT_BYTES_MAX;
            let reason = format!("a request may have at most {most} bytes");
            return Err(Failure::input(reason));
        }
        read.as_str()
    } else {
        text
    };
    kinds::parse_json(text).map_err(Failure::input)
}

fn control(chain: &str, node: &str, request: &serde_json::Value) -> Result<(), Failure> {
    let target = Target {
        chain: Some(chain.to_owned()),
    };
    let request = Request::Control {
        node: node.to_owned(),
        request: request.clone(),
    };
    match target.ask(&request)? {
        Answer::Control(answer) => document::print_whole(&answer),
        other => Err(unexpected(&other)),
    }
}

fn as_json(kind: &NfKind) -> serde_json::Value {
    let plan = kind.example_plan().unwrap_or_default();
    let requests = plan.requests.iter().map(|(example, what)| {
        let kept = is_kept(kind, &plan, example);
        json!({ "example": example, "does": what, "kept": kept })
    });
    let requests: Vec<_> = requests.collect();
    serde_json::json!({
        "name": kind.name,
        "summary": kind.summary,
        "writes_packets": plan.access == Access::Write,
        "takes_many_inputs": plan.inputs == Inputs::Many,
        "example": kind.example,
        "drop_reasons": plan.drop_reasons,
        "counters": plan.counters,
        "requests": requests,
        "settings": (kind.schema)(),
    })
}

/// Whether what a request changes is kept with the chain.
fn is_kept(kind: &NfKind, plan: &NfPlan, example: &str) -> bool {
    let (Some(amend), Ok(mut config), Ok(request)) = (
        plan.amends.0,
        serde_json::from_str(kind.example),
        serde_json::from_str(example),
    ) else {
        return false;
    };
    matches!(&*amend(&mut config, &[request]), [Ok(Some(_))])
}

/// Prints what can be asked of a running one.
fn print_requests(kind: &NfKind, plan: &NfPlan) {
    let requests = &plan.requests;
    if requests.is_empty() {
        outln!("\nIt answers no control requests.");
        return;
    }
    outln!("\nControl requests (catena nf control CHAIN NODE REQUEST):");
    for (example, what) in requests {
        let kept = match is_kept(kind, plan, example) {
            true => "; kept with the chain",
            false => "",
        };
        outln!("  '{example}'\n      {what}{kept}");
    }
}

fn describe(kind: &NfKind) {
    outln!("{}: {}", kind.name, kind.summary);
    let plan = kind.example_plan().unwrap_or_default();
    let access = match plan.access {
        Access::Read => "only reads packets",
        Access::Write => "changes packets (not on ro links)",
    };
    let inputs = match plan.inputs {
        Inputs::One => "one input",
        Inputs::Many => "one or more inputs",
        Inputs::Ending => "one or more inputs, at which packets end",
    };
    outln!("{access}; {inputs}");
    match &plan.sharding {
        Sharding::No(why) => outln!("cannot be sharded: {why}"),
        Sharding::Any => outln!("can be sharded by any key"),
        Sharding::By(_) => outln!("can be sharded, by one key"),
        Sharding::Own(_) => outln!("can be sharded, by a key of its own"),
    }
    if plan.cuts_segments {
        outln!("cuts packets into segments that are still to be cut (segments: carry)");
    } else if plan.carries_segments {
        outln!("takes packets that are still to be cut into segments (segments: carry)");
    }
    for (what, names) in [("drops as", &plan.drop_reasons), ("counts", &plan.counters)] {
        if !names.is_empty() {
            outln!("{what} {}", names.join(", "));
        }
    }
    outln!("example (this is planned of it): {}", kind.example);
    kinds::print_settings(&(kind.schema)());
    print_requests(kind, &plan);
    outln!("\nThe reference is docs/reference/nfs.md; `--json` prints the schema.");
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_engine::nf_bench::NfBench;

    #[test]
    fn every_request_that_is_described_is_answered_and_the_others_are_refused() {
        let mut count = 0;
        for kind in &registry().nfs {
            let config = serde_json::from_str(kind.example).unwrap();
            let plan = kind.example_plan().unwrap();
            let outputs: Vec<&str> = plan.outputs.iter().map(String::as_str).collect();
            let mut bench = NfBench::new(kind, &config, &outputs).unwrap();
            for (example, _) in &plan.requests {
                let request = serde_json::from_str(example).unwrap();
                let answer = bench.control(&request);
                assert!(answer.is_ok(), "{} {example}: {answer:?}", kind.name);
                count += 1;
            }
            let refusal = bench.control(&json!({ "no such": "request" })).unwrap_err();
            let takes_none = refusal == "this NF takes no control requests";
            let is_described = !plan.requests.is_empty();
            assert_eq!(is_described, !takes_none, "{}: {refusal}", kind.name);
        }
        assert!(count > 8, "{count}");
    }
}
