//! The paper's three figures, and the budget.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_measure::plot::{Axis, Figure, LinePlot, Series as Line};

use super::super::page::Drawing;
use super::super::series::Series;
use super::Figures;
use super::setting::{KIB, Way, Work};

/// Bit error rate 0 has no place on a logarithmic axis: it is drawn here.
const NO_ERRORS: f64 = 1e-7;

/// Draws what was measured.
pub(super) fn draw(figures: &Figures) -> Vec<Drawing> {
    let mut all = vec![
        by_chunk(figures, Work::Raw),
        by_chunk(figures, Work::Coding(0.0)),
    ];
    let mut chunks: Vec<u32> = figures
        .points
        .iter()
        .filter(|(setting, _)| matches!(setting.work, Work::Coding(ber) if ber > 0.0))
        .map(|(setting, _)| setting.chunk)
        .collect();
    chunks.sort_unstable();
    chunks.dedup();
    all.push(by_errors(figures, &chunks));
    all
}

/// Medians as a line, ranges over the rounds as its band; microseconds become nanoseconds.
fn line(name: String, points: Vec<(f64, &Series)>) -> Line {
    let points: Vec<_> = points
        .into_iter()
        .filter_map(|(x, series)| {
            let series = series.scaled(1e3);
            Some((x, series.median()?, series.range()?))
        })
        .collect();
    let middle = points.iter().map(|(x, y, _)| (*x, *y)).collect();
    let band = points.iter().map(|(x, _, (low, high))| (*x, *low, *high));
    Line::new(name, middle)
        .with_points()
        .with_band(band.collect())
}

fn by_chunk(figures: &Figures, work: Work) -> Drawing {
    let title = match work {
        Work::Raw => "(b) Latency by chunk size, without coding",
        Work::Coding(_) => "(c) Latency by chunk size, with coding",
    };
    let x = Axis::new("chunk size (KiB)").log();
    let mut plot = LinePlot::new(title, x, Axis::new("latency, median").nanos().log());
    for way in Way::ALL {
        let points: Vec<_> = figures
            .points
            .iter()
            .filter(|(setting, _)| setting.way == way && setting.work == work)
            .map(|(setting, point)| (f64::from(setting.chunk / KIB), &point.p50_us))
            .collect();
        if !points.is_empty() {
            plot = plot.series(line(way.to_string(), points));
        }
    }
    Drawing {
        svg: plot.fragment(),
        caption:
            "A lone chunk round the loop pktgenrcv, epon_phy, l1sim, epon_phy, pktgenrcv: four \
                  hand-overs. Lines are medians over the rounds of the median, bands their ranges."
                .to_owned(),
    }
}

fn by_errors(figures: &Figures, chunks: &[u32]) -> Drawing {
    let x = Axis::new("bit error rate (leftmost: none)").log();
    let y = Axis::new("latency, median").nanos().log();
    let mut plot = LinePlot::new("(d) Latency by bit error rate", x, y);
    for way in [Way::Shared, Way::Metal, figures.tcp()] {
        for chunk in chunks {
            let mut points: Vec<_> = figures
                .points
                .iter()
                .filter(|(setting, _)| setting.way == way && setting.chunk == *chunk)
                .filter_map(|(setting, point)| match setting.work {
                    Work::Raw => None,
                    Work::Coding(ber) => Some((ber.max(NO_ERRORS), &point.p50_us)),
                })
                .collect();
            points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
            if points.len() > 1 {
                plot = plot.series(line(format!("{} KiB, {way}", chunk / KIB), points));
            }
        }
    }
    Drawing {
        svg: plot.fragment(),
        caption: "The same loop with coding; a decoder works more the more octets are wrong."
            .to_owned(),
    }
}
