//! The table: every setting beside what it is to be compared with, the targets, and the budget.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::super::Session;
use super::super::report::{Row, Target};
use super::super::series::Series;
use super::setting::{KIB, Way, Work};
use super::{Figures, Point};

const US: &str = "us";
/// The paper's latency of a chunk of 128 kB, over shared memory, in microseconds.
const PAPER_US: f64 = 408.0;

/// Adds the rows, and the ranges over rounds as notes.
pub(super) fn add(session: &mut Session, figures: &Figures) {
    let mut table = Table { session, figures };
    table.by_chunk(Work::Raw);
    table.by_chunk(Work::Coding(0.0));
    table.flatness();
    table.whole_chain();
    table.by_errors();
    table.budgets();
}

/// What a setting is called.
fn metric(way: Way, work: Work, chunk: u32) -> String {
    let size = chunk / KIB;
    match work {
        Work::Raw => format!("(b) {size} KiB uncoded, {way}"),
        Work::Coding(0.0) => format!("(c) {size} KiB coded, {way}"),
        Work::Coding(ber) => format!("(d) {size} KiB coded, BER {ber:e}, {way}"),
    }
}

/// How many times faster than TCP containers shared-memory containers must be.
fn target_over_tcp(work: Work, chunk: u32) -> Option<f64> {
    match (work, chunk / KIB) {
        (Work::Raw, 128) => Some(10.0),
        (Work::Coding(0.0), 8) => Some(3.0),
        (Work::Coding(0.0), 128) => Some(1.4),
        _ => None,
    }
}

struct Table<'a> {
    session: &'a mut Session,
    figures: &'a Figures,
}

impl Table<'_> {
    fn row(
        &mut self,
        metric: String,
        unit: &'static str,
        own: &Series,
        peer: Option<(String, Series)>,
        target: Option<Target>,
    ) {
        self.session.notes.extend(own.note(&metric, unit));
        let peer = peer.as_ref().map(|(name, series)| (name.as_str(), series));
        let row = Row::new(metric, unit, own, peer, target);
        self.session.rows.push(row);
    }

    fn p50(&self, way: Way, work: Work, chunk: u32) -> Option<Series> {
        self.figures
            .get(way, work, chunk)
            .map(|point| point.p50_us.clone())
    }

    /// Each way at each size: TCP beside shared-memory containers, these beside bare metal.
    fn by_chunk(&mut self, work: Work) {
        let settings = self.figures.points.iter().map(|(setting, _)| *setting);
        let settings: Vec<_> = settings.filter(|setting| setting.work == work).collect();
        for setting in settings {
            let (way, chunk) = (setting.way, setting.chunk);
            let Some(own) = self.p50(way, work, chunk) else {
                continue;
            };
            let peer = match way {
                Way::Metal => None,
                Way::Shared | Way::MetalFlag => Some(Way::Metal),
                _ => Some(Way::Shared),
            };
            let peer = peer.and_then(|way| Some((way.to_string(), self.p50(way, work, chunk)?)));
            let is_containers = way == Way::Shared && work == Work::Raw;
            let target = if way == self.figures.tcp() {
                target_over_tcp(work, chunk).map(Target::RatioAtLeast)
            } else {
                is_containers.then_some(Target::RatioAtMost(1.05))
            };
            self.row(metric(way, work, chunk), US, &own, peer, target);
        }
    }

    /// Handing over 128 KiB beside handing over 1 KiB.
    fn flatness(&mut self) {
        for way in [Way::Metal, Way::Shared, self.figures.tcp()] {
            let small = self.p50(way, Work::Raw, KIB);
            let (Some(small), Some(large)) = (small, self.p50(way, Work::Raw, 128 * KIB)) else {
                continue;
            };
            let target = (!way.is_tcp()).then_some(Target::RatioAtMost(1.1));
            let name = format!("(b) flatness: 128 KiB beside 1 KiB uncoded, {way}");
            self.row(name, US, &large, Some(("1 KiB".to_owned(), small)), target);
        }
    }

    /// The whole chain at 8 KiB and at 128 KiB: median, tail, rate.
    fn whole_chain(&mut self) {
        for way in [Way::Metal, Way::Shared] {
            let work = Work::Coding(0.0);
            let found = self.figures.get(way, work, 8 * KIB).cloned();
            let Some(Point {
                p50_us,
                p99_us,
                clean_p99_us,
                stalled_percent,
                gbps,
            }) = found
            else {
                continue;
            };
            let name = metric(way, work, 8 * KIB);
            let row = |what: &str| format!("{name}: {what}");
            self.row(row("p50"), US, &p50_us, None, Some(Target::AtMost(30.0)));
            let target = Some(Target::AtMost(60.0));
            let raw = Some(("raw p99".to_owned(), p99_us));
            self.row(row("clean p99"), US, &clean_p99_us, raw, target);
            let share = row("chunks that the machine stalled");
            self.row(share, "%", &stalled_percent, None, None);
            self.row(row("sustained line rate"), "Gb/s", &gbps, None, None);
            if let Some(large) = self.p50(way, work, 128 * KIB) {
                let name = metric(way, work, 128 * KIB) + ": below the paper";
                let target = Some(Target::AtMost(PAPER_US));
                self.row(name, US, &large, None, target);
            }
        }
    }

    /// Latency with bit errors beside that without.
    fn by_errors(&mut self) {
        let settings = self.figures.points.iter().map(|(setting, _)| *setting);
        let settings: Vec<_> = settings
            .filter(|setting| matches!(setting.work, Work::Coding(ber) if ber > 0.0))
            .collect();
        for setting in settings {
            let (way, work, chunk) = (setting.way, setting.work, setting.chunk);
            let Some(own) = self.p50(way, work, chunk) else {
                continue;
            };
            let without = self.p50(way, Work::Coding(0.0), chunk);
            let peer = without.map(|series| ("BER 0".to_owned(), series));
            let target = (work == Work::Coding(1e-4)).then_some(Target::RatioAtMost(1.1));
            self.row(metric(way, work, chunk), US, &own, peer, target);
        }
    }

    /// Parts of a coded chunk's time.
    fn budgets(&mut self) {
        let figures = self.figures;
        for (chunk, budget) in &figures.budgets {
            let name = |what: &str| format!("budget, {} KiB: {what}", chunk / KIB);
            let parts = [
                ("transmit, alone", &budget.transmit),
                ("receive, alone", &budget.receive),
                ("receive at BER 1e-4, alone", &budget.receive_errors),
                ("whole loop in one thread, coded", &budget.inline),
                (
                    "whole loop in one thread, coded, BER 1e-4",
                    &budget.inline_errors,
                ),
                ("whole loop in one thread, uncoded", &budget.inline_raw),
                ("whole loop in processes, uncoded", &budget.metal_raw),
                ("whole loop in processes, coded", &budget.metal),
            ];
            for (what, series) in parts {
                self.row(name(what), US, series, None, None);
            }
            self.session.notes.extend(budget.sentence(*chunk));
        }
    }
}
