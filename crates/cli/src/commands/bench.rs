//! `catena bench`: Catena's own side of the benchmarks (`cargo xtask bench` puts peers beside it).
//!
//! Each prints one JSON line. The chain is an ordinary one, run by the ordinary supervisor; only
//! its ports are made for measuring (see `bench`).

use std::process::ExitCode;
use std::time::{Duration, Instant};

use catena_engine::chain::{Chain, Mode};
use catena_engine::supervisor::runtime_dir::default_root;
use catena_engine::supervisor::{Options, Supervisor};

use super::{Failure, Outcome};

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Packets per second over one link between two processes
    Link {
        /// shared, ro or copy
        #[arg(long, default_value = "shared")]
        trust: String,
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
        /// Number of NFs
        #[arg(long, default_value_t = 1)]
        length: usize,
        #[command(flatten)]
        common: Common,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct Common {
    /// Bytes per packet
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// How long to measure
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Cores of the two sides
    #[arg(long, value_delimiter = ',', default_values_t = [0, 1])]
    cores: Vec<usize>,
    /// Packets in a burst
    #[arg(long, default_value_t = 64)]
    burst: u16,
    /// Slots of links
    #[arg(long, default_value_t = 512)]
    slots: u32,
    /// How idle workers wait
    #[arg(long, default_value = "auto")]
    wait: String,
    /// The result is always one JSON line; accepted for consistency
    #[arg(long)]
    json: bool,
}

/// Before the measurement, so that caches and pools are as they will be.
const WARM_UP: Duration = Duration::from_millis(500);

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Link { trust, common } => {
            let [from, to] = sides(common)?;
            let chain = format!(
                "ports:\n  source: {{ bench-source: {{ size: {} }}, core: {from} }}\n  \
                 sink: {{ bench-sink: {{}}, core: {to} }}\n\
                 links:\n  - {{ link: source -> sink, trust: {trust}, slots: {} }}\n",
                common.size, common.slots
            );
            throughput(common, &chain, "process", "link")
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
            throughput(common, &chain, mode, "generator")
        }
        Command::Hop { common } => hop(common),
        Command::Chain {
            mode,
            length,
            common,
        } => throughput(common, &macswaps(common, mode, *length)?, mode, "chain"),
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
    // Profiles count the FCS; every other size here does not.
    let frame_len = common.size + catena_measure::profile::FCS_LEN;
    Ok(format!(
        "ports:\n  source: {{ traffic: {{ profile: {{ sizes: {frame_len}, \
         flows: {{ count: {flows} }} }} }}, core: {from} }}\n  sink: {sink} }}\n\
         links:\n  - {{ link: source -> sink, slots: {} }}\n",
        common.slots
    ))
}

/// A chain of `length` NFs. Neighbours are spread over the cores in contiguous runs.
fn macswaps(common: &Common, mode: &str, length: usize) -> Result<String, Failure> {
    let [from, to] = sides(common)?;
    let is_inline = mode == "inline";
    let core = |n: usize| {
        if is_inline || 2 * n <= length {
            from
        } else {
            to
        }
    };
    let pin = |n: usize| {
        if is_inline {
            String::new()
        } else {
            format!(", core: {}", core(n))
        }
    };
    let mut chain = format!(
        "ports:\n  source: {{ bench-source: {{ size: {} }}, core: {from} }}\n  \
         sink: {{ bench-sink: {{}}, core: {} }}\nnfs:\n",
        common.size,
        if is_inline { from } else { to }
    );
    let mut way = "source".to_owned();
    for n in 1..=length {
        chain += &format!("  swap{n}: {{ type: macswap{} }}\n", pin(n));
        way += &format!(" -> swap{n}");
    }
    if length == 0 {
        chain = chain.replace("nfs:\n", "");
    }
    Ok(format!(
        "{chain}links:\n  - {{ link: {way} -> sink, slots: {} }}\n",
        common.slots
    ))
}

fn start(common: &Common, chain: &str, mode: &str, name: &str) -> Result<Supervisor, Failure> {
    let text = format!(
        "name: bench-{name}-{}\n{chain}run: {{ mode: {mode}, wait: {}, burst: {} }}\n",
        std::process::id(),
        common.wait,
        common.burst,
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

#[expect(clippy::cast_precision_loss, reason = "rates for people")]
fn throughput(common: &Common, chain: &str, mode: &str, name: &str) -> Outcome {
    let mut supervisor = start(common, chain, mode, name)?;
    serve_for(&mut supervisor, WARM_UP);
    let arrived = |supervisor: &Supervisor| {
        let status = supervisor.status();
        status
            .nodes
            .iter()
            .find(|node| node.name == "sink")
            .map_or(0, |node| node.tx_packets)
    };
    let (before, since) = (arrived(&supervisor), Instant::now());
    serve_for(&mut supervisor, Duration::from_secs_f64(common.seconds));
    let (after, elapsed) = (arrived(&supervisor), since.elapsed());
    let wait = supervisor.wait_policy().describe();
    let rate = (after - before) as f64 / elapsed.as_secs_f64();
    supervisor.drain();
    let drain_end = Instant::now() + Duration::from_secs(2);
    while !supervisor.is_empty() && Instant::now() < drain_end {
        supervisor.step(Duration::from_millis(2), &[]);
    }
    supervisor.stop(Duration::from_secs(10));
    let status = supervisor.status();
    println!(
        "{}",
        serde_json::json!({
            "mpps": rate / 1e6,
            "ns_per_packet": if rate > 0.0 { 1e9 / rate } else { f64::INFINITY },
            "wait": wait,
            "in_flight_at_end": status.buffers.in_flight,
        })
    );
    Ok(ExitCode::SUCCESS)
}

fn hop(common: &Common) -> Outcome {
    let [from, to] = sides(common)?;
    let chain = format!(
        "ports:\n  source: {{ bench-source: {{ size: {}, gap_ns: 20000 }}, core: {from} }}\n  \
         sink: {{ bench-sink: {{ latency: true }}, core: {to}{} }}\n\
         links:\n  - {{ link: source -> sink, trust: shared, slots: {} }}\n",
        common.size,
        // Two ports on one core would share a worker: the hop would be no hop.
        if from == to { ", group: sink" } else { "" },
        common.slots
    );
    let mut supervisor = start(common, &chain, "process", "hop")?;
    serve_for(&mut supervisor, Duration::from_secs_f64(common.seconds));
    supervisor.stop(Duration::from_secs(10));
    let status = supervisor.status();
    let sink = status.nodes.iter().find(|node| node.name == "sink");
    let of = |name: &str| {
        sink.and_then(|node| node.report.get(name))
            .copied()
            .unwrap_or(0)
    };
    println!(
        "{}",
        serde_json::json!({
            "p50_ns": of("p50_ns"),
            "p99_ns": of("p99_ns"),
            "samples": of("samples"),
            "wait": supervisor.wait_policy().describe(),
        })
    );
    Ok(ExitCode::SUCCESS)
}
