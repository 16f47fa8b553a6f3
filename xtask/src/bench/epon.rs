//! `bench epon`: latency of a 10G-EPON PHY as chained functions, by how the functions are joined:
//! the three figures of NTT's paper (OFC 2024) in one run.
//!
//! - (b) chunks of each size go round the chain untouched: what handing over costs.
//! - (c) the same with coding: frames to line bits, and back.
//! - (d) the same by bit error rate.
//!
//! The chain is always `pktgenrcv -> epon_phy (OLT) -> l1sim -> epon_phy (ONU) -> pktgenrcv`, one
//! chunk under way, each function a worker of its own: containers joined by TCP through veth pairs
//! and a bridge, containers joined by shared memory, and bare metal, which is processes joined by
//! shared memory. Every way in turn, in each round.
//!
//! How idle workers wait decides much where cores are few: each way is tried with each policy first
//! and measured with its own best, TCP like the others.
//!
//! SPDX-License-Identifier: Apache-2.0

mod budget;
mod disturbance;
mod drawings;
mod loops;
mod namespaces;
mod rows;
mod setting;

use std::collections::BTreeMap;

use super::Session;
use super::extent::Extent;
use super::page::Drawing;
use super::series::Series;
use loops::{Found, Loops};
use setting::{KIB, Setting, Way, Work};

/// What a setting gave, over the rounds.
#[derive(Clone, Debug, Default)]
struct Point {
    p50_us: Series,
    p99_us: Series,
    clean_p99_us: Series,
    stalled_percent: Series,
    gbps: Series,
}

impl Point {
    fn push(&mut self, outcome: &Result<Found, String>) {
        let of = |member: fn(&Found) -> f64| outcome.as_ref().map(member);
        self.p50_us.push(of(|found| found.p50_us));
        self.gbps.push(of(|found| found.gbps));
        self.stalled_percent.push(of(|found| found.stalled_percent));
        let Ok(found) = outcome else { return };
        let known = |value: Option<f64>| value.ok_or("too few chunks for a p99");
        self.p99_us.push(known(found.p99_us));
        self.clean_p99_us.push(known(found.clean_p99_us));
    }
}

/// All that was measured.
#[derive(Debug, Default)]
struct Figures {
    points: Vec<(Setting, Point)>,
    /// Parts of the time of a chunk, in microseconds, by size.
    budgets: BTreeMap<u32, budget::Budget>,
}

impl Figures {
    fn point(&mut self, setting: Setting) -> &mut Point {
        let found = self.points.iter().position(|(known, _)| *known == setting);
        let at = found.unwrap_or_else(|| {
            self.points.push((setting, Point::default()));
            self.points.len() - 1
        });
        &mut self.points[at].1
    }

    fn get(&self, way: Way, work: Work, chunk: u32) -> Option<&Point> {
        let setting = Setting { way, work, chunk };
        let found = self.points.iter().find(|(known, _)| *known == setting);
        found.map(|(_, point)| point)
    }

    /// The way that stands for TCP between containers: namespaces where no engine runs.
    fn tcp(&self) -> Way {
        let is_measured = |(setting, point): &(Setting, Point)| {
            setting.way == Way::Tcp && point.p50_us.median().is_some()
        };
        match self.points.iter().any(is_measured) {
            true => Way::Tcp,
            false => Way::TcpSpaces,
        }
    }
}

/// How much is measured.
struct Plan {
    /// Sizes of (b) and (c), in bytes.
    chunks: &'static [u32],
    /// Sizes of (d).
    error_chunks: &'static [u32],
    bers: &'static [f64],
    ways: &'static [Way],
    /// Of each run, measured, in milliseconds.
    millis: u32,
}

const BRIEF: Plan = Plan {
    chunks: &[8 * KIB],
    error_chunks: &[],
    bers: &[],
    ways: &[Way::Metal],
    millis: 50,
};

const QUICK: Plan = Plan {
    chunks: &[KIB, 8 * KIB, 128 * KIB],
    error_chunks: &[8 * KIB],
    bers: &[0.0, 1e-4],
    ways: &[Way::Metal, Way::Shared, Way::Tcp, Way::TcpSpaces],
    millis: 400,
};

const WHOLE: Plan = Plan {
    chunks: &[
        KIB,
        2 * KIB,
        4 * KIB,
        8 * KIB,
        16 * KIB,
        32 * KIB,
        64 * KIB,
        128 * KIB,
    ],
    error_chunks: &[KIB, 8 * KIB, 32 * KIB, 128 * KIB],
    bers: &[0.0, 1e-6, 1e-5, 1e-4, 5e-4, 1e-3],
    ways: &Way::ALL,
    millis: 800,
};

/// The ways of which (d) is measured.
const ERROR_WAYS: [Way; 4] = [Way::Metal, Way::Shared, Way::Tcp, Way::TcpSpaces];

impl Plan {
    /// Every setting, in the order of measurement: those that are compared follow each other.
    fn settings(&self) -> Vec<Setting> {
        let mut all = Vec::new();
        let mut add = |ways: &[Way], work, chunk| {
            let settings = ways.iter().map(|way| Setting {
                way: *way,
                work,
                chunk,
            });
            all.extend(settings);
        };
        for chunk in self.chunks {
            add(self.ways, Work::Raw, *chunk);
            add(self.ways, Work::Coding(0.0), *chunk);
        }
        for chunk in self.error_chunks {
            for ber in self.bers.iter().filter(|ber| **ber > 0.0) {
                let ways = ERROR_WAYS.iter().filter(|way| self.ways.contains(way));
                let ways: Vec<Way> = ways.copied().collect();
                add(&ways, Work::Coding(*ber), *chunk);
            }
        }
        all
    }
}

/// Measures, adds the rows, and gives the plots.
pub(super) fn run(session: &mut Session) -> Vec<Drawing> {
    let plan = match session.extent {
        Extent::Brief => BRIEF,
        Extent::Quick => QUICK,
        Extent::Whole => WHOLE,
    };
    let mut loops = Loops::new(&session.own, plan.millis);
    session.notes.extend(loops.obstacles());
    let mut figures = Figures::default();
    let ways: Vec<Way> = plan
        .ways
        .iter()
        .copied()
        .filter(|way| loops.has(*way))
        .collect();
    for way in &ways {
        eprintln!("choosing how to wait: {way}");
        loops.choose_wait(*way);
    }
    session.notes.extend(loops.choices());
    let settings: Vec<Setting> = plan.settings();
    for round in 0..session.rounds {
        for setting in settings
            .iter()
            .filter(|setting| ways.contains(&setting.way))
        {
            if session.is_late() {
                break;
            }
            let (way, chunk) = (setting.way, setting.chunk / KIB);
            session.progress(round, &format!("{way}, {chunk} KiB, {:?}", setting.work));
            let outcome = loops.run(*setting);
            figures.point(*setting).push(&outcome);
        }
        for chunk in [8 * KIB, 128 * KIB] {
            if !session.is_late() {
                session.progress(round, &format!("parts of a chunk of {} KiB", chunk / KIB));
                let budget = figures.budgets.entry(chunk).or_default();
                budget.measure(&mut loops, chunk);
            }
        }
    }
    session.notes.push(loops.remarks());
    rows::add(session, &figures);
    session.notes.extend(NOTES.map(str::to_owned));
    drawings::draw(&figures)
}

const NOTES: [&str; 4] = [
    "every function is a worker of its own; one chunk is under way at a time, so latency is that of \
     a lone chunk round the whole loop and the rate is chunk size over latency",
    "p50 and p99 of a run are medians over the rounds; raw p99 is of all chunks, clean p99 of those \
     that no step held up ten times as long as usual and 5 us (docs/reference/epon.md, pktgenrcv)",
    "TCP: one connection per link, TCP_NODELAY, one system call per burst, sockets polled or slept on \
     by epoll, no copies but the kernel's",
    "the paper's figures, on an A100: 0.408 ms at 128 kB by shared memory, 1.56 ms by TCP",
];
