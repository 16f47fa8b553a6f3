//! `bench aggregation`: what packing packets into bundles gains and costs, three experiments beside
//! each other and beside testpmd forwarders behind OVS-DPDK (see `testpmd/vswitch`).
//!
//! 1. Rate by packet size: one link between two processes, and two NFs in processes; packing off,
//!    on the first and last link only, and everywhere.
//! 2. Rate of 1, 2 and 4 NFs in processes and of a branch, the same modes.
//! 3. Latency by load, off and auto, with the share of packets that travelled in bundles. The
//!    source stamps the time at which a packet was due; at saturation, where nothing is due, the
//!    time at which it was written.
//!
//! Own side: the source and the first half of the NFs on the first core, the rest on the second.
//! Both sides use the same two cores in the same run.
//!
//! SPDX-License-Identifier: Apache-2.0

mod drawings;
mod measure;
mod rows;

use std::collections::BTreeMap;
use std::fmt;

use super::Session;
use super::own::{OwnError, OwnLoaded, Packing, Trust};
use super::page::Drawing;
use super::series::Series;
use super::testpmd::Shape;

/// What one setting gave, over the rounds.
#[derive(Clone, Debug, Default)]
struct Point {
    mpps: Series,
    ns_per_packet: Series,
    p50_ns: Series,
    p99_ns: Series,
    mean_ns: Series,
    bundled_share: Series,
    packets_per_bundle: Series,
}

impl Point {
    fn push(&mut self, outcome: Result<OwnLoaded, OwnError>) {
        let of = |member: fn(&OwnLoaded) -> f64| outcome.as_ref().map(member);
        self.mpps.push(of(|run| run.mpps));
        self.ns_per_packet.push(of(|run| run.ns_per_packet));
        let loaded = outcome.as_ref().ok();
        let optional = [
            (&mut self.p50_ns, loaded.and_then(|run| run.p50_ns)),
            (&mut self.p99_ns, loaded.and_then(|run| run.p99_ns)),
            (&mut self.mean_ns, loaded.and_then(|run| run.mean_ns)),
            (
                &mut self.bundled_share,
                loaded.and_then(|run| run.bundled_share),
            ),
            (
                &mut self.packets_per_bundle,
                loaded.and_then(|run| run.packets_per_bundle),
            ),
        ];
        for (series, value) in optional {
            match (value, &outcome) {
                (Some(value), _) => series.push(Ok::<_, String>(value)),
                (None, Err(error)) => series.push(Err(error)),
                (None, Ok(_)) => {}
            }
        }
    }
}

/// What carries the load whose latency is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Path {
    /// One link, a core for each side.
    Hop,
    /// Two NFs in processes.
    Chain,
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Hop => "one hop",
            Self::Chain => "2 NFs",
        })
    }
}

/// Packets per second that a source offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Load {
    /// So many.
    Rate(u32),
    /// As many as fit.
    Full,
}

/// What a chain of the peer gave.
#[derive(Clone, Debug, Default)]
struct SwitchPoint {
    mpps: Series,
    mean_ns: Series,
}

/// All that was measured.
#[derive(Debug, Default)]
struct Figures {
    /// One link, by packet size, trust and packing.
    hops: BTreeMap<(usize, Trust, Packing), Point>,
    /// NFs in processes, by shape, packet size and packing.
    chains: BTreeMap<(Shape, usize, Packing), Point>,
    latencies: BTreeMap<(Path, Packing, Load), Point>,
    /// One link, bursts of one packet.
    singles: BTreeMap<Packing, Point>,
    /// A lone packet's hop.
    lone: BTreeMap<Packing, Series>,
    /// The best rate of the peer, all NFs in one thread.
    switch: BTreeMap<(Shape, usize), Series>,
    /// Two NFs of the peer in one thread, 64 B, by packets in flight per port.
    switch_loads: BTreeMap<usize, SwitchPoint>,
    /// NFs of the peer in processes, 64 B.
    switch_processes: BTreeMap<usize, Series>,
}

/// How much is measured.
struct Plan {
    sizes: &'static [usize],
    shapes: &'static [Shape],
    paths: &'static [Path],
    /// Packets per second.
    rates: &'static [u32],
    /// Of each own run, before the measurement and measured.
    seconds: (f64, f64),
    /// Of each of the peer's rounds, measured.
    switch_seconds: f64,
    /// Packets per port that circulate, tried for the best rate.
    bursts: &'static [usize],
    /// The same, for the latency at each.
    load_bursts: &'static [usize],
    /// Chains of the peer in processes.
    process_lengths: &'static [usize],
}

const SMALL: usize = 64;
const TWO: Shape = Shape::Line(2);

const QUICK: Plan = Plan {
    sizes: &[64, 1500],
    shapes: &[Shape::Line(1), Shape::Line(4), Shape::Branch],
    paths: &[Path::Chain],
    rates: &[100_000, 1_000_000],
    seconds: (0.25, 0.5),
    switch_seconds: 0.4,
    bursts: &[32, 512],
    load_bursts: &[1, 16],
    process_lengths: &[2],
};

const WHOLE: Plan = Plan {
    sizes: &[64, 128, 256, 512, 1024, 1500],
    shapes: &[Shape::Line(1), Shape::Line(4), Shape::Branch],
    paths: &[Path::Hop, Path::Chain],
    rates: &[
        100_000, 200_000, 500_000, 1_000_000, 2_000_000, 4_000_000, 7_000_000, 10_000_000,
        14_000_000, 20_000_000, 28_000_000, 40_000_000, 60_000_000,
    ],
    seconds: (0.5, 1.5),
    switch_seconds: 1.0,
    bursts: &[32, 64, 256, 512],
    load_bursts: &[1, 2, 4, 8, 16, 32],
    process_lengths: &[1, 2, 4],
};

/// Measures, adds the rows, and gives the plots.
pub(super) fn run(session: &mut Session) -> Vec<Drawing> {
    let plan = if session.extent.is_short() {
        QUICK
    } else {
        WHOLE
    };
    let mut figures = Figures::default();
    for round in 0..session.rounds {
        measure::round(session, &plan, &mut figures, round);
    }
    rows::add(session, &figures);
    session.notes.extend(NOTES.map(str::to_owned));
    drawings::draw(&figures)
}

const NOTES: [&str; 4] = [
    "own chains: source, NFs and sink are a process each; source and the first half of the NFs on \
     the first core, the rest on the second",
    "OVS-DPDK: the switch's forwarding thread has the first core; NFs, generator and sink are one \
     testpmd thread on the second, through which a fixed number of packets circulates; the best of \
     several numbers counts; no packet is generated or lost, and no two pollers share a core",
    "OVS-DPDK in processes: the same, but each NF, and generator with sink, a testpmd process; those \
     share the second core by scheduler slices; the mean rate at the sink",
    "OVS-DPDK latency is the mean of a round from generator to sink, from the packets in flight and \
     their rate (Little's law)",
];
