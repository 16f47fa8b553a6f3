//! `bench upf`: packets through the UPF, operations on its sessions, its memory.
//!
//! One thread, the UPF without ports and links: frames in buffers of a pool, each made outside the
//! time that counts. Beside it a bare loop that does what cannot be left out. A figure of packets
//! is the fastest of 8 slices of a round, and the median over rounds. A hop and operations by an
//! SMF's UDP socket go through a chain with ports, links and workers, by the binary (`hop`,
//! `socket`).
//!
//! SPDX-License-Identifier: Apache-2.0

mod eupf;
mod flood;
mod floor;
mod hop;
mod operations;
mod paging;
mod scale;
mod smf;
pub(crate) mod socket;
mod traffic;

use std::time::Duration;

use catena_shm::tsc;

use super::extent::Extent;
use super::own::Own;
use super::report::{Row, Target};
use super::series::Series;
use super::testpmd::{PeerMissing, PeerRate};
use super::truth::binary::Binary;
use eupf::Eupf;
use flood::Flood;
use floor::Floor;
use operations::Operation;
use smf::{Request, Rules, Smf};
use traffic::{Pattern, Traffic, Way};

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
const RULES: [Rules; 3] = [Rules::Plain, Rules::Metered, Rules::Filtered];
/// Sessions of which IPv6 is measured, with the rules that have a target.
const V6_AT: u32 = 1_000;
/// Bytes of users' packets beside 64, measured with the most rules.
const LENGTHS: [usize; 2] = [512, 1450];
const LENGTHS_AT: u32 = 100_000;
const OPERATIONS: [Operation; 4] = [
    Operation::Establish,
    Operation::Of(Request::Modify),
    Operation::Of(Request::Query),
    Operation::Of(Request::Delete),
];
const PAGED: u32 = 100_000;
/// Sessions that stay while others come and go.
const SESSIONS: u32 = 100_000;
/// 24 GiB for 16.64 M sessions.
const SESSION_BYTES_MAX: f64 = 1_549.0;
/// Most of the tail of a hop at half load, in us.
const HOP_US_MAX: f64 = 50.0;
/// Most of the tail beside a flood, over that without one.
const FLOODED_RATIO_MAX: f64 = 2.0;
/// Bytes of testpmd's frames.
pub(super) const PEER_FRAME_LEN: usize = 64;
const CALIBRATION: Duration = Duration::from_millis(50);

/// One kind of packets through one UPF.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Case {
    rules: Rules,
    sessions: u32,
    way: Way,
    pattern: Pattern,
    bytes: usize,
}

impl Case {
    fn all(rules: Rules, sessions: u32) -> Vec<Self> {
        let mut all = Vec::new();
        let case = |way, pattern, bytes| Self {
            rules,
            sessions,
            way,
            pattern,
            bytes,
        };
        for way in Way::BOTH {
            for pattern in Pattern::BOTH {
                all.push(case(way, pattern, 64));
            }
        }
        if (rules, sessions) == (Rules::Filtered, LENGTHS_AT) {
            for way in Way::BOTH {
                all.extend(LENGTHS.map(|bytes| case(way, Pattern::Uniform, bytes)));
            }
        }
        all
    }

    /// Whether it is of those that have targets.
    fn is_largest(&self) -> bool {
        self.sessions == 1_000_000 && self.pattern == Pattern::Uniform
    }

    fn name(&self) -> String {
        let of = match self.sessions {
            1_000_000.. => format!("{} M", self.sessions / 1_000_000),
            _ => format!("{} k", self.sessions / 1_000),
        };
        let (way, rules) = (self.way.name(), self.rules.name());
        let (pattern, bytes) = (self.pattern.name(), self.bytes);
        format!("{way}, {rules}, {of} sessions, {pattern}, {bytes} B")
    }
}

/// What is measured besides packets.
#[derive(Default)]
struct Beside {
    rates: [Series; OPERATIONS.len()],
    medians: [Series; OPERATIONS.len()],
    tails: [Series; OPERATIONS.len()],
    lost: [Series; OPERATIONS.len()],
    notes: Vec<String>,
    index_bytes: Series,
    index_ns: Series,
    filled_bytes: Series,
    filled_rate: Series,
    filled_ns: Series,
    hold_ns: Series,
    flush_ns: Series,
    unreported: Series,
    unflushed: Series,
}

/// What is measured of hops through a chain, by pattern; and of tails beside floods.
#[derive(Default)]
struct Hops {
    calm: [Series; Flood::ALL.len()],
    flooded: [Series; Flood::ALL.len()],
    flood_lost: [Series; Flood::ALL.len()],
    rates: [Series; Pattern::BOTH.len()],
    medians: [Series; Pattern::BOTH.len()],
    tails: [Series; Pattern::BOTH.len()],
    untouched: [Series; Pattern::BOTH.len()],
    lost: [Series; Pattern::BOTH.len()],
}

fn measure_hops(into: &mut Hops, own: &Own, extent: Extent) {
    let binary = own.binary().map_err(|error| error.to_string());
    let binary = binary.map(|path| Binary::new(path, own.work_dir().path().to_owned()));
    for (at, pattern) in Pattern::BOTH.into_iter().enumerate() {
        let found = binary.as_ref().map_err(Clone::clone);
        let found = found.and_then(|binary| hop::measure(binary, pattern, extent));
        let of = |value: fn(&hop::Hop) -> f64| found.as_ref().map(value);
        into.rates[at].push(of(|hop| hop.rate));
        into.medians[at].push(of(|hop| hop.latency_us[0]));
        into.tails[at].push(of(|hop| hop.latency_us[2]));
        into.lost[at].push(of(|hop| hop.lost));
        let untouched = found.as_ref().map_err(Clone::clone);
        let missing = "disturbed: too few packets that no stall of the tester touched";
        into.untouched[at].push(untouched.and_then(|hop| hop.untouched_us.ok_or(missing.into())));
    }
    // Half of what the chain took just now.
    let rates = &into.rates[0];
    let rate = rates.of_round(rates.rounds() - 1).map(|rate| rate / 2.0);
    for (at, flood) in Flood::ALL.into_iter().enumerate() {
        let measured = |is_calm| {
            let binary = binary.as_ref().map_err(Clone::clone)?;
            let rate = rate.ok_or("the chain's rate is not known")?;
            flood::measure(binary, (flood, is_calm), rate, extent)
        };
        let [calm, flooded] = [true, false].map(measured);
        let tail = |hop: &hop::Hop| hop.latency_us[1];
        into.calm[at].push(calm.as_ref().map(tail));
        into.flooded[at].push(flooded.as_ref().map(tail));
        into.flood_lost[at].push(flooded.as_ref().map(|hop| hop.lost));
    }
}

fn flood_rows(hops: &Hops) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, flood) in Flood::ALL.into_iter().enumerate() {
        let of = format!("hop beside {} k/s {}", flood::RATE_KPPS, flood.name());
        let peer = Some(("one a second", &hops.calm[at]));
        let target = Some(Target::RatioAtMost(FLOODED_RATIO_MAX));
        let metric = format!("{of}: latency at half load, p99");
        rows.push(Row::new(metric, "us", &hops.flooded[at], peer, target));
        let none = Some(Target::AtMost(0.0));
        let metric = format!("{of}: packets lost");
        rows.push(Row::new(
            metric,
            "packets",
            &hops.flood_lost[at],
            None,
            none,
        ));
    }
    rows
}

fn hop_rows(hops: &Hops, extent: Extent) -> Vec<Row> {
    let mut rows = Vec::new();
    let sessions = hop::sessions(extent);
    for (at, pattern) in Pattern::BOTH.into_iter().enumerate() {
        let mut row = |what: &str, unit, series: &[Series; Pattern::BOTH.len()], target| {
            let metric = format!(
                "hop, uplink, {sessions} sessions, {}: {what}",
                pattern.name()
            );
            rows.push(Row::new(metric, unit, &series[at], None, target));
        };
        row("rate that the chain takes", "M/s", &hops.rates, None);
        row("latency at half of it, median", "us", &hops.medians, None);
        let target = Some(Target::AtMost(HOP_US_MAX));
        row("latency at half of it, p99.9", "us", &hops.tails, target);
        let what = "latency at half of it, p99.9 of packets that no stall of the tester touched";
        row(what, "us", &hops.untouched, target);
        let none = Some(Target::AtMost(0.0));
        row("packets lost at half of it", "packets", &hops.lost, none);
    }
    rows
}

/// Results by case: the UPF's, the floor's, the UPF's without looking ahead, and the UPF's where
/// each packet is its session's first.
type Packets = Vec<(Case, [Series; 4])>;

fn series_of(packets: &mut Packets, case: Case) -> &mut [Series; 4] {
    let at = packets.iter().position(|(known, _)| *known == case);
    let at = at.unwrap_or_else(|| {
        packets.push((case, Default::default()));
        packets.len() - 1
    });
    &mut packets[at].1
}

fn measure_packets(packets: &mut Packets, extent: Extent, time: Duration) {
    for sessions in SIZES.into_iter().filter(|sessions| extent.fills(*sessions)) {
        let mut floor = Floor::new(sessions);
        let floors = Pattern::BOTH.map(|pattern| floor.rate(pattern, time));
        drop(floor);
        let v6 = (sessions == V6_AT).then_some(Rules::MeteredV6);
        for rules in RULES.into_iter().chain(v6) {
            let smf = Smf::new(rules, sessions).and_then(|mut smf| {
                smf.fill(sessions)?;
                Ok(smf)
            });
            let mut smf = match smf {
                Ok(smf) => smf,
                Err(error) => {
                    for case in Case::all(rules, sessions) {
                        series_of(packets, case)[0].push::<&str>(Err(&error));
                    }
                    continue;
                }
            };
            let mut traffic = Traffic::new(&mut smf);
            let firsts = Way::BOTH.map(|way| (way, traffic.first(way)));
            for case in Case::all(rules, sessions) {
                let what = (case.way, case.pattern, case.bytes);
                let rate = traffic.rate(what, time);
                traffic.looks_ahead = false;
                let alone_rate = case.is_largest().then(|| traffic.rate(what, time));
                traffic.looks_ahead = true;
                let [own, floor, alone, first] = series_of(packets, case);
                own.push(rate);
                if case.is_largest() {
                    let mut firsts = firsts.iter();
                    let found = firsts.find(|(way, _)| *way == case.way);
                    found
                        .into_iter()
                        .for_each(|(_, rate)| first.push(rate.clone()));
                }
                alone_rate.into_iter().for_each(|rate| alone.push(rate));
                let at = usize::from(case.pattern == Pattern::Zipf);
                floor.push(Ok::<_, String>(floors[at]));
            }
        }
    }
}

fn measure_operations(into: &mut Beside, time: Duration) {
    let mut smf = operations::upf(SESSIONS);
    for (at, operation) in OPERATIONS.into_iter().enumerate() {
        let measured = match &mut smf {
            Ok(smf) => operations::measure(smf, operation, SESSIONS as usize, time),
            Err(error) => Err(error.clone()),
        };
        match measured {
            Ok(measured) => {
                let [median, tail] = measured.latency_us;
                into.rates[at].push(Ok::<_, String>(measured.rate));
                into.medians[at].push(Ok::<_, String>(median));
                into.tails[at].push(Ok::<_, String>(tail));
                into.lost[at].push(Ok::<_, String>(measured.lost as f64));
                let (name, packets) = (operation.name(), measured.packets);
                into.notes.push(format!("{name}: {packets} packets among"));
            }
            Err(error) => into.rates[at].push::<&str>(Err(&error)),
        }
    }
}

fn measure_scale(into: &mut Beside, extent: Extent, time: Duration) {
    match scale::index(scale::MOST, time) {
        Ok(found) => {
            into.index_bytes.push(Ok::<_, String>(found.bytes));
            into.index_ns.push(Ok::<_, String>(found.ns));
        }
        Err(error) => into.index_ns.push::<&str>(Err(&error)),
    }
    // Establishing all of them takes minutes.
    let most = if extent.is_short() {
        2_000_000
    } else {
        scale::MOST
    };
    match scale::sessions(most, time) {
        Ok(filled) => {
            into.filled_bytes.push(Ok::<_, String>(filled.bytes));
            into.filled_rate.push(Ok::<_, String>(filled.rate));
            into.filled_ns.push(Ok::<_, String>(filled.packet_ns));
            let (sessions, gib) = (
                filled.sessions,
                f64::from(filled.sessions) * filled.bytes / 1_073_741_824.0,
            );
            let note = format!("filled: {sessions} sessions in {gib:.2} GiB");
            into.notes.push(note);
        }
        Err(error) => into.filled_ns.push::<&str>(Err(&error)),
    }
}

fn measure_paging(into: &mut Beside) {
    match paging::measure(PAGED) {
        Ok(paged) => {
            let missing = |count: usize| PAGED as f64 - count as f64;
            into.hold_ns.push(Ok::<_, String>(paged.hold_ns));
            into.flush_ns.push(Ok::<_, String>(paged.flush_ns));
            into.unreported
                .push(Ok::<_, String>(missing(paged.reports)));
            into.unflushed.push(Ok::<_, String>(missing(paged.flushed)));
        }
        Err(error) => into.hold_ns.push::<&str>(Err(&error)),
    }
}

fn packet_rows(packets: &Packets, ns_per_tick: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, [own, floor, alone, first]) in packets {
        let is_largest = case.is_largest();
        let target = match case.rules {
            Rules::Metered if is_largest => Some(Target::AtLeast(10.0)),
            _ => None,
        };
        let peer = Some(("bare loop", floor));
        rows.push(Row::new(case.name(), "M/s", own, peer, target));
        let cycles = |series: &Series| series.inverse(1000.0 / ns_per_tick);
        let (own_cycles, floor) = (cycles(own), cycles(floor));
        let metric = format!("{}: of a packet", case.name());
        let peer = Some(("bare loop", &floor));
        rows.push(Row::new(metric, "cycles", &own_cycles, peer, None));
        if is_largest {
            let metric = format!("{}: a burst's sessions fetched ahead", case.name());
            let peer = Some(("itself, one by one", alone));
            rows.push(Row::new(metric, "M/s", own, peer, None));
            let metric = format!("{}: the first packet of each", case.name());
            rows.push(Row::new(metric, "M/s", first, None, None));
        }
        if case.rules == Rules::Filtered && is_largest {
            let metered = Case {
                rules: Rules::Metered,
                ..*case
            };
            let metered = packets.iter().find(|(known, _)| *known == metered);
            let peer = metered.map(|(_, [metered, ..])| ("itself, no filters", metered));
            let metric = format!("{}: beside none", case.name());
            let target = Some(Target::RatioAtLeast(0.8));
            rows.push(Row::new(metric, "M/s", own, peer, target));
        }
    }
    rows
}

/// What others give, as far as they are there.
#[derive(Default)]
struct Peers {
    testpmd: Series,
    /// By rules.
    eupf: [Series; RULES.len()],
    notes: Vec<String>,
}

fn measure_eupf(into: &mut Peers, eupf: &Eupf, time: Duration) {
    for (at, rules) in RULES.into_iter().enumerate() {
        let found = eupf.measure(rules, time);
        into.notes
            .extend(found.iter().map(|found| found.note(rules)));
        into.eupf[at].push(found.map(|found| found.rate));
    }
}

/// Beside a core that only passes packets on, and beside a UPF of another kind.
fn peer_rows(packets: &Packets, peers: &Peers) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut row = |(case, [own, ..]): &(Case, [Series; 4]), beside, name, peer| {
        let metric = format!("{}: beside {beside}", case.name());
        rows.push(Row::new(metric, "M/s", own, Some((name, peer)), None));
    };
    for measured in packets {
        let (case, _) = measured;
        if case.is_largest() && case.rules == Rules::Metered {
            row(measured, "no rules", "testpmd, null ports", &peers.testpmd);
        }
        let is_fewest = case.sessions == SIZES[0] && case.pattern == Pattern::Uniform;
        let at = RULES.iter().position(|rules| *rules == case.rules);
        if let Some(at) = at.filter(|_| is_fewest) {
            row(measured, "XDP", "eUPF, one session", &peers.eupf[at]);
        }
    }
    rows
}

fn other_rows(beside: &Beside) -> Vec<Row> {
    let mut rows = Vec::new();
    for (at, operation) in OPERATIONS.iter().enumerate() {
        let name = operation.name();
        let target = match operation {
            Operation::Establish => Some(Target::AtLeast(100.0)),
            Operation::Of(_) => None,
        };
        let mut row = |what: &str, unit, series: &[Series; OPERATIONS.len()], target| {
            let metric = format!("{name}: {what}");
            rows.push(Row::new(metric, unit, &series[at], None, target));
        };
        row("rate", "k/s", &beside.rates, target);
        row(
            "latency with 64 outstanding, median",
            "us",
            &beside.medians,
            None,
        );
        row(
            "latency with 64 outstanding, p99.9",
            "us",
            &beside.tails,
            None,
        );
        row(
            "packets lost",
            "packets",
            &beside.lost,
            Some(Target::AtMost(0.0)),
        );
    }
    let mut row = |metric: &str, unit, series: &Series, target| {
        rows.push(Row::new(metric, unit, series, None, target));
    };
    row(
        "index of 16.64 M sessions: of each",
        "B",
        &beside.index_bytes,
        None,
    );
    row(
        "index of 16.64 M sessions: a lone lookup",
        "ns",
        &beside.index_ns,
        None,
    );
    let target = Some(Target::AtMost(SESSION_BYTES_MAX));
    row(
        "filled, PDR, FAR: of each session",
        "B",
        &beside.filled_bytes,
        target,
    );
    row(
        "filled: establishments, with their making",
        "k/s",
        &beside.filled_rate,
        None,
    );
    row("filled: an uplink packet", "ns", &beside.filled_ns, None);
    row(
        "100 k UEs paged: a packet is held and reported",
        "ns",
        &beside.hold_ns,
        None,
    );
    row(
        "100 k UEs paged: a session is changed, its packet leaves",
        "ns",
        &beside.flush_ns,
        None,
    );
    let none = Some(Target::AtMost(0.0));
    row(
        "100 k UEs paged: reports missing",
        "reports",
        &beside.unreported,
        none,
    );
    row(
        "100 k UEs paged: packets missing",
        "packets",
        &beside.unflushed,
        none,
    );
    rows
}

/// Measures; gives rows and notes. `testpmd` forwards for so many seconds between ports that are
/// none, on one core: what DPDK gives before there is any rule. eUPF is cloned from where
/// `eupf_source` says.
pub(super) fn run(
    rounds: u32,
    extent: Extent,
    own: &Own,
    eupf_source: &str,
    mut testpmd: impl FnMut(u32) -> Result<PeerRate, PeerMissing>,
) -> (Vec<Row>, Vec<String>) {
    let time = extent.slice(80, 200);
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let (mut packets, mut beside) = (Packets::new(), Beside::default());
    let (mut hops, mut peers) = (Hops::default(), Peers::default());
    let mut by_sockets = socket::Found::default();
    let eupf = Eupf::build(eupf_source, own.work_dir().path());
    for round in 0..rounds {
        let progress = |what| eprintln!("round {}/{rounds}: {what}", round + 1);
        progress("packets");
        measure_packets(&mut packets, extent, time);
        progress("eUPF");
        measure_eupf(&mut peers, &eupf, time);
        if extent != Extent::Brief {
            progress("testpmd");
            let rate = testpmd(extent.seconds()).map(|rate| rate.mpps);
            peers.testpmd.push(rate);
        }
        progress("operations");
        measure_operations(&mut beside, 4 * time);
        progress("operations by sockets");
        let folder = own.work_dir().path().join("socket");
        match std::fs::create_dir_all(&folder).map(|()| own.binary()) {
            Ok(Ok(binary)) => by_sockets.measure(binary, &folder, 10 * time),
            Ok(Err(error)) => by_sockets.fail(&error.to_string()),
            Err(error) => by_sockets.fail(&error.to_string()),
        }
        progress("hops");
        measure_hops(&mut hops, own, extent);
        if extent == Extent::Brief {
            continue;
        }
        progress("paging");
        measure_paging(&mut beside);
        progress("memory");
        measure_scale(&mut beside, extent, time);
    }
    let mut notes = vec![
        "packets and operations: one thread, bursts of 64, frames in memory; no ports and no links"
            .to_owned(),
        "bytes are of the user's packet; Ethernet, and a tunnel where there is one, come on top"
            .to_owned(),
        "operations: messages as frames through the data path, a packet of a session behind each; \
         their rate leaves packets out, their latency has them in"
            .to_owned(),
        "paging: on the engine's bench, which copies each packet in and out".to_owned(),
        "hops: frames of 128 B in a chain whose ports have one core and whose UPF has another; \
         from when a packet was due, the tester's lateness in it"
            .to_owned(),
        "cycles are of the time stamp counter".to_owned(),
        "testpmd forwards frames of 64 B between two null ports on one core (mac): no rules, and \
         no copy of a packet"
            .to_owned(),
        "floods: packets of strangers, no two of 4,096 alike, into the same link as all others; \
         none of them but one a second for the other side of the comparison"
            .to_owned(),
        "eUPF's XDP program by the kernel's test run: one session, uplink and downlink in turn, \
         always the same packet in the nearest cache; the faster of its builds. It has a QER and \
         two URRs whatever the rules, its rate is above what it meters, and it has one filter \
         where ours have three. Neither side has ports"
            .to_owned(),
    ];
    notes.append(&mut beside.notes);
    notes.append(&mut by_sockets.notes);
    notes.append(&mut peers.notes);
    notes.dedup();
    for (case, [own, ..]) in &packets {
        notes.extend(own.note(&case.name(), "M/s"));
    }
    let mut rows = packet_rows(&packets, ns_per_tick);
    rows.extend(peer_rows(&packets, &peers));
    rows.extend(other_rows(&beside));
    rows.extend(by_sockets.rows());
    rows.extend(hop_rows(&hops, extent));
    rows.extend(flood_rows(&hops));
    (rows, notes)
}
