//! `bench flow-programs`: packets through stateful programs, as machine code and interpreted,
//! beside bare lookups and rules of the kernel's.
//!
//! All sides take turns, window by window, over the same flows. A figure is the median of a
//! round's undisturbed windows, and the median over rounds.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::Path;
use std::time::{Duration, Instant};

use catena_shm::tsc;

use super::super::extent::Extent;
use super::super::huge_pages::HugePages;
use super::super::quiet::Quiet;
use super::super::report::{Row, Target};
use super::super::series::Series;
use super::bare::Bare;
use super::samples::Sample;
use super::traffic::{Engine, Traffic, WINDOW, Work};
use super::windows::Windows;
use super::words;
use super::{dnat, nftables};

/// Numbers of flows, and the programs that are measured with them.
const SIZES: [(u32, &[Sample]); 4] = [
    (1_000, &SHIPPED),
    (100_000, &SHIPPED),
    (1_000_000, &Sample::ALL),
    (10_000_000, &SHIPPED),
];
/// Where targets are.
const USUAL: u32 = 1_000_000;
/// Programs of chains that ship.
const SHIPPED: [Sample; 3] = [Sample::Policer, Sample::Balancer, Sample::Offload];
/// Works, bytes of their frames, and how they are called. What leaves flows behind comes last.
const CASES: [(Work, usize, &str); 9] = [
    (Work::Hits, 64, "hits"),
    (Work::Hits, 512, "hits, 512 B"),
    (Work::Hits, 1024, "hits, 1024 B"),
    (Work::Back, 64, "hits, the way back"),
    (Work::AttackBegins, 64, "full, random keys, the first"),
    (Work::Attack, 64, "full, random keys"),
    (Work::Misses, 64, "misses"),
    (Work::Churn(100), 64, "1 % new flows"),
    (Work::Churn(10), 64, "10 % new flows"),
];
const HITS: usize = 0;
const ATTACK: usize = 5;
/// Windows of each side in a round.
const WINDOWS: u32 = 9;
/// Pages of 2 MB for the largest tables, the floor's among them.
const HUGE_PAGES: u64 = 2200;
const CALIBRATION: Duration = Duration::from_millis(50);

/// What is measured of one kind of packets: cycles of a packet.
#[derive(Default)]
struct Measured {
    compiled: Series,
    interpreted: Series,
    floor: Series,
}

/// A program with so many flows.
struct Subject {
    sample: Sample,
    flows: u32,
    measured: [Measured; CASES.len()],
    /// Nanoseconds of a packet of the kernel's, where it has a program like this one.
    kernel: Option<Series>,
    is_huge: bool,
}

impl Subject {
    fn name(&self, case: usize) -> String {
        let (sample, what, flows) = (self.sample.name(), CASES[case].2, words(self.flows));
        format!("{sample}, {what}, {flows} flows")
    }
}

fn has(sample: Sample, work: Work) -> bool {
    work != Work::Back || sample.has_two_ways()
}

/// One round of one kind of packets: a window of each side in turn.
fn round(
    traffic: &mut Traffic,
    floor: &mut Bare,
    (work, bytes): (Work, usize),
    (into, quiet): (&mut Measured, &mut Quiet),
    (ns_per_tick, windows): (f64, u32),
) {
    let mut sides = [(); 3].map(|()| Windows::default());
    for _ in 0..windows {
        let [compiled, interpreted, bare] = &mut sides;
        let note = |windows: &mut Windows, measured: Result<Vec<(u8, u64)>, String>| match measured
        {
            Ok(bursts) => windows.note(bursts, WINDOW, ns_per_tick),
            Err(error) => windows.fail(error),
        };
        note(compiled, traffic.window(Engine::Compiled, work, bytes));
        note(
            interpreted,
            traffic.window(Engine::Interpreted, work, bytes),
        );
        note(bare, traffic.floor(floor, bytes));
    }
    let all = [&mut into.compiled, &mut into.interpreted, &mut into.floor];
    for (side, series) in sides.into_iter().zip(all) {
        let (windows, rejected) = side.add_to(series);
        quiet.count_windows(windows, rejected);
    }
}

/// All rounds of a program with so many flows; they are made once.
fn measure(
    subject: &mut Subject,
    (rounds, work_dir): (u32, &Path),
    quiet: &mut Quiet,
    how: (f64, u32),
) {
    let (sample, flows) = (subject.sample, subject.flows);
    let both = Traffic::new(sample, flows)
        .and_then(|traffic| Bare::new(sample, flows).map(|floor| (traffic, floor)));
    let (mut traffic, mut floor) = match both {
        Ok(both) => both,
        Err(error) => {
            let measured = subject.measured.iter_mut();
            measured.for_each(|one| one.compiled.push(Err(&error)));
            return;
        }
    };
    subject.is_huge = traffic.is_huge;
    eprintln!("{}, {} flows", sample.name(), words(flows));
    let has_peer = sample == Sample::Balancer && flows <= dnat::FLOWS_MAX;
    let mut kernel = has_peer.then(|| dnat::Peer::start(flows, work_dir));
    for (case, measured) in subject.measured.iter_mut().enumerate() {
        let (work, bytes, _) = CASES[case];
        let rounds = if has(sample, work) { rounds } else { 0 };
        for _ in 0..rounds {
            let what = (work, bytes);
            round(&mut traffic, &mut floor, what, (measured, quiet), how);
            if case == HITS {
                kernel.iter_mut().for_each(dnat::Peer::round);
            }
        }
        // What follows need not share the machine's memory with the kernel's connections.
        if case == HITS {
            subject.kernel = kernel.take().map(dnat::Peer::finish);
        }
    }
}

/// Rates a core must reach with a million flows.
fn least_rate(sample: Sample) -> f64 {
    match sample {
        Sample::Policer | Sample::States => 12.0,
        Sample::Balancer | Sample::RoundRobin => 8.0,
        Sample::Offload | Sample::Passive => 6.0,
    }
}

fn rows_of(subject: &Subject, ns_per_tick: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (case, (work, ..)) in CASES.iter().enumerate() {
        if !has(subject.sample, *work) {
            continue;
        }
        let measured = &subject.measured[case];
        let rate = |cycles: &Series| cycles.inverse(1000.0 / ns_per_tick);
        let (own, metric) = (rate(&measured.compiled), subject.name(case));
        let has_target = case == HITS && subject.flows == USUAL;
        let target = has_target.then(|| Target::AtLeast(least_rate(subject.sample)));
        let floor = rate(&measured.floor);
        let floor = Some(("bare lookups", &floor));
        rows.push(Row::new(&*metric, "M/s", &own, floor, target));
        let is_longest = subject.sample == Sample::Balancer;
        let target = (has_target && is_longest).then_some(Target::RatioAtLeast(4.0));
        let interpreted = rate(&measured.interpreted);
        let peer = Some(("interpreter", &interpreted));
        rows.push(Row::new(&*metric, "M/s", &own, peer, target));
        let peer = Some(("bare lookups", &measured.floor));
        let metric = format!("{metric}: of a packet");
        rows.push(Row::new(metric, "cycles", &measured.compiled, peer, None));
        if let Some(kernel) = subject.kernel.as_ref().filter(|_| case == HITS) {
            let name = subject.name(case);
            let metric = format!("{name}: of a packet, beside a rule of the kernel's");
            let own = measured.compiled.scaled(ns_per_tick);
            let peer = Some(("nftables' DNAT alone", kernel));
            rows.push(Row::new(metric, "ns", &own, peer, None));
        }
        if case == ATTACK {
            let hits = rate(&subject.measured[HITS].compiled);
            let metric = format!("{}: beside hits", subject.name(case));
            let peer = Some(("itself, hits", &hits));
            let target = Some(Target::RatioAtLeast(0.5));
            rows.push(Row::new(metric, "M/s", &own, peer, target));
        }
    }
    rows
}

/// Hits with most flows beside those with few.
fn scaling(subjects: &[Subject], ns_per_tick: f64) -> Vec<Row> {
    let hits = |sample: Sample, flows: u32| {
        let mut all = subjects.iter();
        let found = all.find(|one| one.sample == sample && one.flows == flows)?;
        let cycles = &found.measured[HITS].compiled;
        Some(cycles.inverse(1000.0 / ns_per_tick))
    };
    let row = |sample: Sample| {
        let (few, most) = (hits(sample, 100_000)?, hits(sample, 10_000_000)?);
        let metric = format!("{}, hits, 10 M flows beside 100 k", sample.name());
        let few = Some(("itself, 100 k", &few));
        Some(Row::new(
            metric,
            "M/s",
            &most,
            few,
            Some(Target::RatioAtLeast(0.6)),
        ))
    };
    SHIPPED.into_iter().filter_map(row).collect()
}

/// Bytes that a program remembers of a flow, over all its elements.
fn state_row(sample: Sample) -> Row {
    let bytes = sample.program(1000, false).map(|program| {
        let flows = program.elements.iter().filter_map(|one| one.flows.as_ref());
        let words: u32 = flows.map(|flows| flows.shape.state_words).sum();
        f64::from(words * 8)
    });
    let metric = format!("{}: state of a flow", sample.name());
    Row::known(metric, "B", bytes, Target::AtMost(32.0))
}

/// How long programs take to be made into machine code, for the notes.
fn compile_times() -> Vec<String> {
    let time = |sample: Sample| {
        let program = sample.program(1000, false)?;
        let started = Instant::now();
        catena_jit::compile(&program)?;
        let ms = started.elapsed().as_secs_f64() * 1000.0;
        Ok::<_, String>(format!("{} is compiled in {ms:.1} ms", sample.name()))
    };
    Sample::ALL
        .into_iter()
        .filter_map(|sample| time(sample).ok())
        .collect()
}

fn notes(subjects: &[Subject], ns_per_tick: f64) -> Vec<String> {
    let mut notes: Vec<String> = [
        "one thread, bursts of 64, packets in a pool's buffers: parsing, key, lookup, code, \
         storing; no ports and no links",
        "policer, balancer and offload are the programs of chains/flow-*.yaml (the policer with an \
         interval of 10 us, so that packets pass); policer as states, round-robin balancer and \
         passive offload those of crates/flow/programs",
        "64 B with the FCS; offload: 82 B, uplink to the edge, and 64 B from the edge on the way \
         back; balancers: from clients, and from servers on the way back",
        "bare lookups: the same packets, two addresses of each looked up in a table of the \
         program's shape, nothing else; always of flows that are there",
        "misses: a balancer drops them, an offload sends them to the core, and a policer makes a \
         flow of each, in the place of an old one",
        "full, random keys: each packet asks for an entry, under the program's own policy, behind as \
         many such packets as there are flows; the first: behind a change of the policy, so that \
         flows which are spared are not marked yet",
        "cycles are of the time stamp counter; new flows replace the oldest of their bucket",
        "not beside the kernel: the offload, since no rule of its opens and closes tunnels",
    ]
    .map(str::to_owned)
    .into();
    let small: Vec<_> = subjects.iter().filter(|one| !one.is_huge).collect();
    if let Some(one) = small.first() {
        let (name, flows) = (one.sample.name(), words(one.flows));
        let count = small.len();
        notes.push(format!(
            "the tables of {count} of {} subjects lie on pages of 4 KiB, the first that of \
             {name} with {flows} flows",
            subjects.len()
        ));
    }
    notes.extend(compile_times());
    for subject in subjects {
        for (case, measured) in subject.measured.iter().enumerate() {
            let rate = measured.compiled.inverse(1000.0 / ns_per_tick);
            notes.extend(rate.note(&subject.name(case), "M/s"));
        }
    }
    notes
}

/// Measures; gives rows and notes.
pub(in super::super) fn run(
    rounds: u32,
    extent: Extent,
    work_dir: &Path,
) -> (Vec<Row>, Vec<String>) {
    let _huge_pages = (extent != Extent::Brief).then(|| HugePages::reserve(HUGE_PAGES));
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let windows = if extent == Extent::Brief { 1 } else { WINDOWS };
    let mut quiet = Quiet::default();
    let mut subjects = Vec::new();
    for (flows, samples) in SIZES {
        // To make the most flows takes longer than a quick run may.
        if !extent.fills(flows) || extent.is_short() && flows > USUAL {
            continue;
        }
        for sample in samples {
            let mut subject = Subject {
                sample: *sample,
                flows,
                measured: Default::default(),
                kernel: None,
                is_huge: false,
            };
            let how = (ns_per_tick, windows);
            measure(&mut subject, (rounds, work_dir), &mut quiet, how);
            subjects.push(subject);
        }
    }
    let mut rows = Vec::new();
    for subject in &subjects {
        rows.extend(rows_of(subject, ns_per_tick));
    }
    rows.extend(scaling(&subjects, ns_per_tick));
    rows.extend(Sample::ALL.map(state_row));
    let usual = |one: &&Subject| (one.sample, one.flows) == (Sample::Policer, USUAL);
    let policer = subjects.iter().find(usual);
    let policer = policer.map(|one| &one.measured[HITS].compiled);
    let policer = policer.map(|cycles| cycles.scaled(ns_per_tick));
    rows.extend(policer.map(|own| {
        let kernel = nftables::measure(USUAL, rounds, work_dir);
        let peer = Some(("nftables' rule alone", &kernel));
        let metric = "policer, hits, 1 M flows: of a packet, beside a rule of the kernel's";
        Row::new(metric, "ns", &own, peer, None)
    }));
    let mut notes = notes(&subjects, ns_per_tick);
    notes.extend(quiet.notes());
    notes.extend(nftables::NOTES.map(str::to_owned));
    notes.extend(dnat::NOTES.map(str::to_owned));
    notes.push(dnat::ipvs_note());
    (rows, notes)
}
