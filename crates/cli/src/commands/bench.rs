//! `catena bench`: Catena's own side of the benchmarks (`cargo xtask bench` puts peers beside it).
//!
//! Each prints one JSON line. The chain is an ordinary one, run by the ordinary supervisor; only
//! its ports are made for measuring (see `bench`).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Mode};
use catena_engine::supervisor::runtime_dir::default_root;
use catena_engine::supervisor::status::Status;
use catena_engine::supervisor::{Options, Supervisor};
use serde_json::{Map, Value, json};

use super::{Failure, Outcome};
use crate::bench::chains::{ChainText, Links, Shape};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Packets per second over one link between two processes
    Link {
        /// shared, ro or copy
        #[arg(long, default_value = "shared")]
        trust: String,
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        common: Common,
    },
    /// Stamped packets per second of the `traffic` port, over a link or out of an interface
    Generator {
        /// Send out of this interface instead of over a link
        #[arg(long)]
        interface: Option<String>,
        /// Number of flows
        #[arg(long, default_value_t = 1)]
        flows: u32,
        /// Let the kernel cut runs of one flow into packets; for interfaces without offload of it
        #[arg(long)]
        segment: bool,
        #[command(flatten)]
        common: Common,
    },
    /// One-way latency of a lone packet over one link between two processes
    Hop {
        #[command(flatten)]
        common: Common,
    },
    /// Packets per second through a chain of macswap NFs
    Chain {
        /// inline, thread or process
        #[arg(long, default_value = "process")]
        mode: String,
        /// Number of NFs in a line
        #[arg(long, default_value_t = 1)]
        length: usize,
        /// How they are joined
        #[arg(long, value_enum, default_value = "line")]
        shape: Shape,
        /// `aggregate` of the links between NFs, if not that of the others
        #[arg(long, value_name = "CHOICE")]
        inner: Option<String>,
        #[command(flatten)]
        load: Load,
        #[command(flatten)]
        common: Common,
    },
}

fn parse_size(text: &str) -> Result<usize, String> {
    let size = crate::quantity::size(text, 1..=1 << 20)?;
    usize::try_from(size).map_err(|error| error.to_string())
}

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Bytes per packet
    #[arg(long, value_name = "SIZE", default_value = "64B", value_parser = parse_size)]
    size: usize,
    /// How long to measure
    #[arg(long, value_name = "SPAN", default_value = "2s",
          value_parser = |text: &str| crate::quantity::seconds(text, 0.0..=1e6))]
    seconds: Duration,
    /// How long to run before, so that caches and pools are as they will be
    #[arg(long, value_name = "SPAN", default_value = "500ms",
          value_parser = |text: &str| crate::quantity::seconds(text, 0.0..=1e6))]
    warm_up: Duration,
    /// Cores of the two sides
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<usize>,
    /// Packets in a burst; left to the chain file's default if absent
    #[arg(long)]
    burst: Option<u16>,
    /// Slots of links; left to the chain file's default if absent
    #[arg(long)]
    slots: Option<u32>,
    /// How idle workers wait
    #[arg(long, default_value = "auto")]
    wait: String,
    /// `aggregate` of links: auto, off or on; left to the chain file's default if absent
    #[arg(long, value_name = "CHOICE")]
    aggregate: Option<String>,
    /// The result is always one JSON line; accepted for consistency
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub(crate) struct Load {
    /// Packets per second, stamped with the time they are due; as many as fit if absent
    #[arg(long, value_name = "PPS")]
    rate: Option<f64>,
    /// Stamp packets also without a rate, and report latencies
    #[arg(long)]
    latency: bool,
}

impl Load {
    fn has_stamps(self) -> bool {
        self.latency || self.rate.is_some()
    }
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Link {
            trust,
            load,
            common,
        } => {
            let mut chain = chain_text(common, *load)?;
            chain.links.trust = Some(trust.clone());
            measure(common, *load, &chain.line(0), "process", "link")
        }
        Command::Generator {
            interface,
            flows,
            segment,
            common,
        } => {
            let chain = generator(common, interface.as_deref(), *flows, *segment)?;
            let mode = if interface.is_some() {
                "inline"
            } else {
                "process"
            };
            measure(common, Load::default(), &chain, mode, "generator")
        }
        Command::Hop { common } => hop(common),
        Command::Chain {
            mode,
            length,
            shape,
            inner,
            load,
            common,
        } => {
            let mut chain = chain_text(common, *load)?;
            if mode == "inline" {
                chain.cores = None;
            }
            if inner.is_some() {
                chain.links.inner.clone_from(inner);
            }
            let text = match shape {
                Shape::Line => chain.line(*length),
                Shape::Branch => {
                    chain.source += ", kinds: 2";
                    chain.branch()
                }
            };
            measure(common, *load, &text, mode, "chain")
        }
    }
}

fn sides(common: &Common) -> Result<[usize; 2], Failure> {
    match common.cores.as_slice() {
        [one] => Ok([*one, *one]),
        [from, to] => Ok([*from, *to]),
        _ => Err(Failure::input("--cores takes one or two cores, as in 0,1")),
    }
}

/// A profile's packets as fast as there is room, over a link to a receiver or out of an interface.
fn generator(
    common: &Common,
    interface: Option<&str>,
    flows: u32,
    segment: bool,
) -> Result<String, Failure> {
    let [from, to] = sides(common)?;
    let sink = match interface {
        Some(interface) => format!(
            "{{ packet_socket: {{ interface: {interface}, bypass_qdisc: {}, segment: {segment} }}",
            !segment
        ),
        None => format!("{{ receiver: {{ samples: 65536 }}, core: {to}"),
    };
    let slots = common
        .slots
        .map_or_else(String::new, |n| format!(", slots: {n}"));
    // Profiles count the FCS; every other size here does not.
    let frame_len = common.size + catena_measure::profile::FCS_LEN;
    Ok(format!(
        "ports:\n  source: {{ traffic: {{ profile: {{ sizes: {frame_len}, \
         flows: {{ count: {flows} }} }} }}, core: {from} }}\n  sink: {sink} }}\n\
         links:\n  - {{ link: source -> sink{slots} }}\n"
    ))
}

fn chain_text(common: &Common, load: Load) -> Result<ChainText, Failure> {
    let mut source = format!("size: {}", common.size);
    match load.rate {
        Some(rate) => source += &format!(", rate: {rate}"),
        None if load.latency => source += ", stamp: true",
        None => {}
    }
    let sink = if load.has_stamps() {
        format!(
            "latency: true, skip_ms: {:.0}",
            common.warm_up.as_secs_f64() * 1e3
        )
    } else {
        String::new()
    };
    Ok(ChainText {
        source,
        sink,
        cores: Some(sides(common)?),
        sink_apart: false,
        links: Links {
            slots: common.slots,
            trust: None,
            outer: common.aggregate.clone(),
            inner: common.aggregate.clone(),
        },
    })
}

fn start(common: &Common, chain: &str, mode: &str, name: &str) -> Result<Supervisor, Failure> {
    let burst = common
        .burst
        .map_or_else(String::new, |n| format!(", burst: {n}"));
    let text = format!(
        "name: bench-{name}-{}\n{chain}run: {{ mode: {mode}, wait: {}{burst} }}\n",
        std::process::id(),
        common.wait,
    );
    let registry = crate::bench::registry();
    let checked = Chain::parse(&text, std::path::Path::new("."), &registry, None)
        .map_err(|errors| Failure::input(errors.to_string()))?;
    let options = Options {
        registry,
        program: std::env::current_exe().map_err(Failure::running)?,
        runtime_root: default_root(),
        pin: checked.chain.run.mode != Mode::Inline,
    };
    Supervisor::start(checked.chain, options).map_err(Failure::running)
}

fn serve_for(supervisor: &mut Supervisor, span: Duration) {
    let end = Instant::now() + span;
    while let Some(left) = end.checked_duration_since(Instant::now()) {
        supervisor.step(left.max(Duration::from_millis(1)), &[]);
    }
}

/// What the two ports of a benchmark counted by a moment.
#[derive(Clone, Copy)]
struct Passed {
    at: Instant,
    sent: u64,
    arrived: u64,
}

impl Passed {
    fn now(supervisor: &Supervisor) -> Self {
        let status = supervisor.status();
        let node = |name: &str| status.nodes.iter().find(|node| node.name == name);
        Self {
            at: Instant::now(),
            sent: node("source").map_or(0, |node| node.rx_packets),
            arrived: node("sink").map_or(0, |node| node.tx_packets),
        }
    }
}

/// Runs a chain and prints what arrived, what was sent, how it was packed, and latencies if there
/// are stamps.
#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn measure(common: &Common, load: Load, chain: &str, mode: &str, name: &str) -> Outcome {
    let mut supervisor = start(common, chain, mode, name)?;
    serve_for(&mut supervisor, common.warm_up);
    let before = Passed::now(&supervisor);
    serve_for(&mut supervisor, common.seconds);
    let after = Passed::now(&supervisor);
    let loaded = supervisor.status();
    let wait = supervisor.wait_policy().describe();
    let elapsed = (after.at - before.at).as_secs_f64();
    let rate = (after.arrived - before.arrived) as f64 / elapsed;
    let sent = (after.sent - before.sent) as f64 / elapsed;
    supervisor.drain();
    let drain_end = Instant::now() + Duration::from_secs(2);
    while !supervisor.is_empty() && Instant::now() < drain_end {
        supervisor.step(Duration::from_millis(2), &[]);
    }
    supervisor.stop(Duration::from_secs(10));
    let status = supervisor.status();
    let mut line = json!({
        "mpps": rate / 1e6,
        "ns_per_packet": if rate > 0.0 { 1e9 / rate } else { f64::INFINITY },
        "sent_mpps": sent / 1e6,
        "wait": wait,
        "in_flight_at_end": status.buffers.in_flight,
    });
    if let Value::Object(line) = &mut line {
        let links = serde_json::to_value(&loaded.links).map_err(Failure::running)?;
        line.extend(packing(&links));
        if load.has_stamps() {
            line.extend(latencies(&status));
        }
    }
    outln!("{line}");
    Ok(ExitCode::SUCCESS)
}

/// What the sink counted, latencies included.
fn latencies(status: &Status) -> Map<String, Value> {
    let sink = status.nodes.iter().find(|node| node.name == "sink");
    let counters = sink.map(|node| node.counters.clone());
    counters
        .unwrap_or_default()
        .into_iter()
        .map(|(name, value)| (name, value.into()))
        .collect()
}

/// How many of the packets on all links travelled in bundles, and how many a bundle held.
///
/// A status without counters of bundles gives no members.
#[expect(clippy::cast_precision_loss, reason = "ratios for people")]
fn packing(links: &Value) -> Map<String, Value> {
    let links = links.as_array().map_or(&[][..], Vec::as_slice);
    let sum = |key: &str| {
        let values = links
            .iter()
            .map(|link| link.pointer(key).and_then(Value::as_u64));
        values.sum::<Option<u64>>()
    };
    let mut members = Map::new();
    let counted = (
        sum("/tx_packets"),
        sum("/aggregation/bundles"),
        sum("/aggregation/bundled_packets"),
    );
    if let (Some(packets), Some(bundles), Some(bundled)) = counted {
        let ratio = |part: u64, whole: u64| json!(part as f64 / whole.max(1) as f64);
        members.insert("bundled_share".to_owned(), ratio(bundled, packets));
        members.insert("packets_per_bundle".to_owned(), ratio(bundled, bundles));
    }
    members
}

/// Between lone packets.
const HOP_GAP_NS: u32 = 20_000;

fn hop(common: &Common) -> Outcome {
    let [from, to] = sides(common)?;
    let lone = Load {
        rate: None,
        latency: false,
    };
    let mut chain = chain_text(common, lone)?;
    chain.source += &format!(", gap_ns: {HOP_GAP_NS}");
    chain.sink = "latency: true".to_owned();
    chain.links.trust = Some("shared".to_owned());
    // Two ports on one core would share a worker: the hop would be no hop.
    chain.sink_apart = from == to;
    let mut supervisor = start(common, &chain.line(0), "process", "hop")?;
    serve_for(&mut supervisor, common.seconds);
    supervisor.stop(Duration::from_secs(10));
    let mut line = latencies(&supervisor.status());
    let wait = supervisor.wait_policy().describe();
    line.insert("wait".to_owned(), wait.into());
    outln!("{}", Value::Object(line));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_is_told_over_all_links() {
        let links = json!([
            { "tx_packets": 100, "aggregation": { "bundles": 2, "bundled_packets": 60 } },
            { "tx_packets": 100, "aggregation": { "bundles": 0, "bundled_packets": 0 } },
        ]);
        let told = Value::Object(packing(&links));
        assert_eq!(
            told,
            json!({ "bundled_share": 0.3, "packets_per_bundle": 30.0 })
        );
    }

    #[test]
    fn links_that_count_no_bundles_tell_nothing() {
        assert!(packing(&json!([{ "tx_packets": 100 }])).is_empty());
    }
}
