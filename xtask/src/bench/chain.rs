//! `bench chain`: the end-to-end rate of chains of 1, 2, 4 and 8 NFs at 64 bytes, by mode.
//!
//! - `inline`: time per packet over the number of NFs as a line: what each further NF costs, beside
//!   the same NF in a bare loop over packets that are written and read in full, and what is there
//!   without any. One testpmd core between two null ports, which also hands each packet through one
//!   forwarder, stands beside a single NF.
//! - `thread` and `process`: rates; eight processes must reach 1 Mpps. Pollers that share two cores
//!   by slices of the scheduler are no peer: processes of others stand in `bench aggregation`.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::Session;
use super::floor;
use super::own::{Mode, OwnRate, Packing};
use super::report::{Row, Target};
use super::series::Series;
use super::{FLOOR_SPAN, SHORT_RUN};

const PACKET_SIZE: usize = 64;
/// Short inline runs of a length in a round.
const SHORT_RUNS: u32 = 3;
/// What the engine may add to an NF, and what a chain may take without any.
const NF_BUDGET_NS: f64 = 0.7;
const FIXED_BUDGET_NS: f64 = 10.0;

struct Figures {
    length: usize,
    /// Nanoseconds per packet.
    inline: Series,
    thread: Series,
    process: Series,
    /// Nanoseconds per packet of the bare loop.
    bare: Series,
}

/// Measures and adds the rows.
pub(super) fn run(session: &mut Session) {
    let lengths: &[usize] = if session.extent.is_short() {
        &[1, 8]
    } else {
        &[1, 2, 4, 8]
    };
    let mut all: Vec<Figures> = lengths.iter().copied().map(Figures::new).collect();
    // Nanoseconds per packet.
    let mut null = Series::default();
    for round in 0..session.rounds {
        for figures in &mut all {
            session.progress(round, &format!("chains of {}", figures.length));
            measure(session, figures);
        }
        let rate = session
            .testpmd
            .null_forwarding(PACKET_SIZE, session.seconds, session.cores[0]);
        null.push(rate.map(|rate| 1000.0 / rate.mpps));
    }
    for figures in &all {
        add_rows(session, figures, &null);
    }
    session.note_range("testpmd null to null, 64 B", "ns per packet", &null);
    add_lines(session, &all);
}

impl Figures {
    fn new(length: usize) -> Self {
        let [inline, thread, process, bare] = std::array::from_fn(|_| Series::default());
        Self {
            length,
            inline,
            thread,
            process,
            bare,
        }
    }
}

/// Own side and peer in turn, once.
fn measure(session: &mut Session, figures: &mut Figures) {
    let (length, seconds, cores) = (figures.length, session.seconds, session.cores);
    let own = |mode| session.own.chain(mode, length, PACKET_SIZE, seconds, cores);
    figures
        .process
        .push(own(Mode::Process).map(|rate| rate.mpps));
    figures.thread.push(own(Mode::Thread).map(|rate| rate.mpps));
    let what = format!("chain --mode inline --length {length} --size {PACKET_SIZE}");
    let [mut inline, mut bare] = [Series::default(), Series::default()];
    for _ in 0..SHORT_RUNS {
        let run = || {
            let Session { own, cores, .. } = &*session;
            own.packed::<OwnRate>(&what, Packing::Off, SHORT_RUN, *cores)
        };
        let mut quiet = session.quiet;
        let outcome = quiet.run(run);
        inline.push(outcome.map(|rate| rate.ns_per_packet));
        bare.push(quiet.run(|| floor::inline(length, FLOOR_SPAN, cores[0])));
        session.quiet = quiet;
    }
    figures.inline.push_median(inline);
    figures.bare.push_median(bare);
}

/// Adds the lines through the times of all lengths, one for each round.
fn add_lines(session: &mut Session, all: &[Figures]) {
    // Value at 0, then the slope.
    let lines = |series: fn(&Figures) -> &Series| {
        let mut both = [Series::default(), Series::default()];
        let rounds = all.first().map_or(0, |figures| series(figures).rounds());
        for round in 0..rounds {
            let points = all.iter().filter_map(|figures| {
                let time = series(figures).of_round(round)?;
                Some((figures.length as f64, time))
            });
            let line = line_through(&points.collect::<Vec<_>>());
            let line = line.ok_or("inline chains of one length only");
            both[0].push(line.map(|line| line.0));
            both[1].push(line.map(|line| line.1));
        }
        both
    };
    let [fixed, slope] = lines(|figures| &figures.inline);
    let [bare_fixed, bare_slope] = lines(|figures| &figures.bare);
    session.rows.extend([
        Row::new(
            "inline, per further NF, 64 B",
            "ns",
            &slope,
            Some(("bare loop", &bare_slope)),
            Some(Target::AbovePeerAtMost(NF_BUDGET_NS)),
        ),
        Row::new(
            "inline, without an NF, 64 B",
            "ns",
            &fixed,
            Some(("bare loop", &bare_fixed)),
            Some(Target::AtMost(FIXED_BUDGET_NS)),
        ),
    ]);
}

/// Value at 0 and slope of the line of least squares; none with fewer than two places.
fn line_through(points: &[(f64, f64)]) -> Option<(f64, f64)> {
    let count = points.len() as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|p| p.0), mean(|p| p.1));
    let spread: f64 = points.iter().map(|p| (p.0 - x) * (p.0 - x)).sum();
    let both: f64 = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum();
    (spread > 0.0).then(|| (y - x * both / spread, both / spread))
}

fn add_rows(session: &mut Session, figures: &Figures, null: &Series) {
    let length = figures.length;
    let name = |mode: Mode| format!("chain of {length} {mode}, {PACKET_SIZE} B");
    let null = (length == 1).then_some(("testpmd null to null", null));
    let process_target = (length == 8).then_some(Target::AtLeast(1.0));
    let bare = Some(("bare loop", &figures.bare));
    session.rows.extend([
        Row::new(name(Mode::Inline), "ns", &figures.inline, bare, None),
        Row::new(name(Mode::Inline), "ns", &figures.inline, null, None),
        Row::new(name(Mode::Thread), "Mpps", &figures.thread, None, None),
        Row::new(
            name(Mode::Process),
            "Mpps",
            &figures.process,
            None,
            process_target,
        ),
    ]);
    session.note_range(&name(Mode::Inline), "ns per packet", &figures.inline);
    session.note_range(&name(Mode::Thread), "Mpps", &figures.thread);
    session.note_range(&name(Mode::Process), "Mpps", &figures.process);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_a_slope_and_a_value_at_0() {
        let points = [(1.0, 12.0), (2.0, 15.0), (4.0, 21.0), (8.0, 33.0)];
        assert_eq!(line_through(&points), Some((9.0, 3.0)));
        assert_eq!(line_through(&points[..1]), None);
    }
}
