//! `bench hop`: the one-way time of a lone packet from one process to the next.
//!
//! Across cores the measure is a bare ring at the same pace, whose packets are written and read in
//! full (see [`super::floor`]). A cache line that two threads hand over without a pause stands
//! beside it, but is no floor: its read and its request for ownership overlap. On one core the
//! hand-over needs the scheduler: `sched_yield` and a futex are the baselines, and the target is
//! 4 us.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::Duration;

use super::cacheline::{self, HandOver, HopTimes};
use super::floor;
use super::own::{OwnHop, Packing};
use super::report::{Row, Target};
use super::series::Series;
use super::{SHORT_RUN, Session};

/// Short runs of the link and of the bare ring in a round.
const SHORT_RUNS: u32 = 4;

/// Medians and 99th percentiles by round.
#[derive(Default)]
struct Percentiles {
    p50: Series,
    p99: Series,
}

impl Percentiles {
    fn push<E: std::fmt::Display + Clone>(&mut self, outcome: Result<(f64, f64), E>) {
        self.p50.push(outcome.clone().map(|(p50, _)| p50));
        self.p99.push(outcome.map(|(_, p99)| p99));
    }

    /// Adds a round of several short runs.
    fn push_median(&mut self, runs: Self) {
        self.p50.push_median(runs.p50);
        self.p99.push_median(runs.p99);
    }
}

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let [first, second] = session.cores;
    let one_core = [first, first];
    let seconds = session.seconds;
    let mut own_across = Percentiles::default();
    let mut own_one = Percentiles::default();
    let mut ring = Percentiles::default();
    let mut line = Percentiles::default();
    let mut yielding = Percentiles::default();
    let mut futex = Percentiles::default();
    for round in 0..session.rounds {
        session.progress(round, "hops");
        let mut quiet = session.quiet;
        let own = |cores| {
            session
                .own
                .hop(seconds, cores)
                .map(|hop| (hop.p50_ns, hop.p99_ns))
        };
        let mut notes = Vec::new();
        let mut bare = |kind, cores: [usize; 2]| {
            let times = cacheline::measure(kind, cores, Duration::from_secs(seconds.into()));
            times.map(|times| {
                notes.push(tail_note(round, kind, &times));
                (times.p50_ns, times.p99_ns)
            })
        };
        let [mut own_runs, mut ring_runs] = [(); 2].map(|()| Percentiles::default());
        for _ in 0..SHORT_RUNS {
            let run = || {
                let Session { own, .. } = &*session;
                own.packed::<OwnHop>("hop", Packing::Off, SHORT_RUN, [first, second])
            };
            let hop = quiet.run(run);
            own_runs.push(hop.map(|hop| (hop.p50_ns, hop.p99_ns)));
            let span = Duration::from_secs_f64(SHORT_RUN.1);
            ring_runs.push(quiet.run(|| floor::hop(span, [first, second])));
        }
        own_across.push_median(own_runs);
        ring.push_median(ring_runs);
        line.push(match first == second {
            false => bare(HandOver::Spin, [first, second]),
            true => Err("cache line: this machine lends one core only".to_owned()),
        });
        own_one.push(own(one_core));
        yielding.push(bare(HandOver::Yield, one_core));
        futex.push(bare(HandOver::Futex, one_core));
        session.notes.extend(notes);
        session.quiet = quiet;
    }
    let rows = [
        (
            "hop across cores, p50",
            &own_across.p50,
            "paced bare ring",
            &ring.p50,
            Some(Target::RatioAtMost(1.15)),
        ),
        (
            "hop across cores, p99",
            &own_across.p99,
            "paced bare ring",
            &ring.p99,
            None,
        ),
        (
            "hop across cores, p50",
            &own_across.p50,
            "cache line",
            &line.p50,
            None,
        ),
        (
            "hop across cores, p99",
            &own_across.p99,
            "cache line",
            &line.p99,
            None,
        ),
        (
            "hop on one core, p50",
            &own_one.p50,
            "sched_yield",
            &yielding.p50,
            Some(Target::AtMost(4000.0)),
        ),
        (
            "hop on one core, p99",
            &own_one.p99,
            "sched_yield",
            &yielding.p99,
            None,
        ),
        (
            "hop on one core, p50",
            &own_one.p50,
            "futex",
            &futex.p50,
            Some(Target::AtMost(4000.0)),
        ),
        (
            "hop on one core, p99",
            &own_one.p99,
            "futex",
            &futex.p99,
            None,
        ),
    ];
    for (metric, own, name, peer, target) in rows {
        session
            .rows
            .push(Row::new(metric, "ns", own, Some((name, peer)), target));
    }
    let ranges = [
        ("hop across cores, p50", &own_across.p50),
        ("hop on one core, p50", &own_one.p50),
        ("paced bare ring, p50", &ring.p50),
        ("cache line, p50", &line.p50),
        ("sched_yield, p50", &yielding.p50),
        ("futex, p50", &futex.p50),
    ];
    for (name, series) in ranges {
        session.note_range(name, "ns", series);
    }
}

fn tail_note(round: u32, kind: HandOver, times: &HopTimes) -> String {
    format!(
        "round {}, {kind}: {} round trips, mean {:.0}, p99.9 {:.0}, max {:.0} ns one way",
        round + 1,
        times.round_trips,
        times.mean_ns,
        times.p999_ns,
        times.max_ns
    )
}
