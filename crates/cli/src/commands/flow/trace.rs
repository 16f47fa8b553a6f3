//! `catena flow trace`: packets of a capture, each with key, entry, conditions and registers.

use std::path::PathBuf;
use std::process::ExitCode;

use catena_flow::efsm::to_hex;
use catena_flow::program::queue::Notice;
use catena_flow::program::run::Arrival;
use catena_flow::program::trace::{Decided, ElementTrace, NamedValue};
use catena_flow::simulate::Simulation;
use catena_port::capture::CaptureReader;

use super::super::{Failure, Outcome};
use crate::document;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// A program, or a chain that has some; - is the standard input
    file: PathBuf,
    /// A capture, pcap or pcapng
    capture: PathBuf,
    /// Which node's program, if the chain has several
    #[arg(long)]
    node: Option<String>,
    /// How many packets, at most
    #[arg(long, default_value_t = 10)]
    count: u64,
    /// Number of the input link that they come from
    #[arg(long, default_value_t = 0)]
    input: u8,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    let found = super::load_one(&args.file, args.node.as_deref())?;
    let mut simulation = Simulation::new(found.compiled.program).map_err(Failure::input)?;
    let mut reader = CaptureReader::open(&args.capture).map_err(Failure::input)?;
    let mut all = Vec::new();
    for number in 1..=args.count {
        let Some(record) = reader.next().map_err(Failure::running)? else {
            break;
        };
        let now_ns = record.timestamp_ns;
        let arrival = Arrival {
            now_ns,
            input: args.input,
        };
        simulation.expire(now_ns);
        let (passed, traces) = simulation.traced(record.data, arrival);
        let (emitted, events) = (simulation.emitted(), simulation.events());
        if args.json {
            let emitted = emitted.iter().map(
                |(output, bytes)| serde_json::json!({ "output": output, "bytes": to_hex(bytes) }),
            );
            let events = events.iter().map(
                |(event, notice)| serde_json::json!({ "event": event, "values": values(notice) }),
            );
            all.push(serde_json::json!({
                "packet": number, "now_ns": now_ns, "elements": traces, "verdict": passed.verdict,
                "copies": passed.copies, "emitted": emitted.collect::<Vec<_>>(),
                "events": events.collect::<Vec<_>>(),
            }));
            continue;
        }
        outln!(
            "packet {number} at {now_ns} ns, {} bytes: {}",
            record.data.len(),
            passed.verdict
        );
        traces.iter().for_each(show);
        for output in &passed.copies {
            outln!("  a copy  by {output}");
        }
        for (output, bytes) in &emitted {
            outln!(
                "  made    {} bytes for {output}: {}",
                bytes.len(),
                to_hex(bytes)
            );
        }
        for (event, notice) in &events {
            outln!("  told    {event}({})", values(notice).join(", "));
        }
    }
    if args.json {
        document::print(
            "catena.flow.trace/1",
            &serde_json::json!({ "packets": all }),
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

fn values(notice: &Notice) -> Vec<String> {
    let values = &notice.values[..usize::from(notice.count)];
    values.iter().map(ToString::to_string).collect()
}

fn named(values: &[NamedValue]) -> String {
    let values: Vec<String> = values
        .iter()
        .map(|one| format!("{} = {}", one.name, one.value))
        .collect();
    values.join(", ")
}

fn show(trace: &ElementTrace) {
    outln!("  {}", trace.element);
    if !trace.key.is_empty() {
        let found = if trace.found {
            "has an entry"
        } else {
            "has no entry"
        };
        outln!("    key     {}: {found}", named(&trace.key));
        outln!("    before  {}", named(&trace.before));
    }
    for Decided { condition, held } in &trace.lookups {
        outln!(
            "    table   {condition}: {}",
            if *held { "hit" } else { "miss" }
        );
    }
    for Decided { condition, held } in &trace.conditions {
        outln!(
            "    if      {condition}: {}",
            if *held { "yes" } else { "no" }
        );
    }
    match &trace.transition {
        Some(transition) => outln!("    taken   {transition}"),
        None => outln!("    taken   none"),
    }
    if !trace.after.is_empty() {
        outln!("    after   {}", named(&trace.after));
    }
    for (what, values) in [
        ("globals", &trace.globals_before),
        ("written", &trace.globals_after),
    ] {
        if !values.is_empty() {
            outln!("    {what} {}", named(values));
        }
    }
}
