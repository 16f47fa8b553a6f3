//! The plots of the three experiments.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_measure::plot::{Axis, Bar, BarPlot, Figure, LinePlot, Series as Line};

use super::super::own::{Packing, Trust};
use super::super::page::Drawing;
use super::super::series::Series;
use super::super::testpmd::Shape;
use super::{Figures, Load, Path, Point, SMALL, TWO};

/// Draws what was measured.
pub(super) fn draw(figures: &Figures) -> Vec<Drawing> {
    vec![
        hops_by_size(figures),
        chains_by_size(figures),
        by_chain(figures),
        latency(figures, Path::Hop),
        latency(figures, Path::Chain),
        shares(figures),
    ]
}

/// Medians as a line, ranges over the rounds as its band.
fn line<'a>(name: &str, points: impl Iterator<Item = (f64, &'a Series)>) -> Line {
    let points: Vec<_> = points
        .filter_map(|(x, series)| Some((x, series.median()?, series.range()?)))
        .collect();
    let middle = points.iter().map(|(x, y, _)| (*x, *y)).collect();
    let band = points.iter().map(|(x, _, (low, high))| (*x, *low, *high));
    Line::new(name, middle)
        .with_points()
        .with_band(band.collect())
}

fn size_axis() -> Axis {
    Axis::new("packet size (bytes)")
}

fn rate_axis() -> Axis {
    Axis::new("packets per second").si().from_zero()
}

/// The same in packets per second.
fn per_second(series: &Series) -> Series {
    series.scaled(1e6)
}

fn hops_by_size(figures: &Figures) -> Drawing {
    let mut plot = LinePlot::new("One hop: rate by packet size", size_axis(), rate_axis());
    for packing in [Packing::Off, Packing::Auto] {
        let points: Vec<_> = figures
            .hops
            .iter()
            .filter(|((_, trust, of), _)| (*trust, *of) == (Trust::Shared, packing))
            .map(|((size, ..), point)| (*size as f64, per_second(&point.mpps)))
            .collect();
        let points = points.iter().map(|(x, series)| (*x, series));
        plot = plot.series(line(&format!("aggregate: {packing}"), points));
    }
    Drawing {
        svg: plot.fragment(),
        caption: "One shared link between two processes, a core for each. Lines are medians over \
                  the rounds, bands their ranges. Packets above 512 bytes are not packed."
            .to_owned(),
    }
}

fn chains_by_size(figures: &Figures) -> Drawing {
    let mut plot = LinePlot::new("2 NFs: rate by packet size", size_axis(), rate_axis());
    for packing in [Packing::Off, Packing::Io, Packing::Auto] {
        let points: Vec<_> = figures
            .chains
            .iter()
            .filter(|((shape, _, of), _)| (*shape, *of) == (TWO, packing))
            .map(|((_, size, _), point)| (*size as f64, per_second(&point.mpps)))
            .collect();
        let points = points.iter().map(|(x, series)| (*x, series));
        plot = plot.series(line(mode_name(packing), points));
    }
    let points: Vec<_> = figures
        .switch
        .iter()
        .filter(|((shape, _), _)| *shape == TWO)
        .map(|((_, size), series)| (*size as f64, per_second(series)))
        .collect();
    let points = points.iter().map(|(x, series)| (*x, series));
    plot = plot.series(line("OVS-DPDK, one thread", points));
    Drawing {
        svg: plot.fragment(),
        caption: "Source, two macswap NFs and sink in processes on two cores, beside two testpmd \
                  forwarders behind OVS-DPDK on the same cores."
            .to_owned(),
    }
}

fn mode_name(packing: Packing) -> &'static str {
    match packing {
        Packing::Off => "no aggregation",
        Packing::Io => "at the I/O only",
        Packing::Auto => "with NF support",
        Packing::On => "forced",
    }
}

fn by_chain(figures: &Figures) -> Drawing {
    let shapes = [Shape::Line(1), TWO, Shape::Line(4), Shape::Branch];
    let axis = Axis::new("packets per second").si();
    let mut plot = BarPlot::new(
        "Chains at 64 B",
        axis,
        shapes.map(|shape| shape.to_string()),
    );
    let bar = |series: &Series| {
        let series = per_second(series);
        let (low, high) = series.range()?;
        let median = series.median()?;
        // One round has no range.
        Some(match low < high {
            true => Bar::with_interval(median, low, high),
            false => Bar::new(median),
        })
    };
    for packing in [Packing::Off, Packing::Io, Packing::Auto] {
        let point = |shape| figures.chains.get(&(shape, SMALL, packing));
        let bars = shapes.map(|shape| point(shape).and_then(|point| bar(&point.mpps)));
        plot = plot.group(mode_name(packing), bars.to_vec());
    }
    let of = |shape| figures.switch.get(&(shape, SMALL)).and_then(bar);
    plot = plot.group("OVS-DPDK, one thread", shapes.map(of).to_vec());
    let of = |shape| match shape {
        Shape::Line(length) => figures.switch_processes.get(&length).and_then(bar),
        Shape::Branch => None,
    };
    plot = plot.group("OVS-DPDK, processes", shapes.map(of).to_vec());
    Drawing {
        svg: plot.fragment(),
        caption: "NFs in processes; whiskers are ranges over the rounds. The branch has a \
                  classifier, two NFs side by side and a merge; behind OVS-DPDK the switch itself \
                  parts and joins. With one NF, the first and last link are all there are."
            .to_owned(),
    }
}

/// One of the series of a point.
type Part = fn(&Point) -> &Series;

/// Points of one path and packing, by what arrived per second.
fn by_load(figures: &Figures, path: Path, packing: Packing, of: Part) -> Vec<(f64, &Series)> {
    let points = figures.latencies.iter();
    let points =
        points.filter(|((of_path, of_packing, _), _)| (*of_path, *of_packing) == (path, packing));
    points
        .filter_map(|((.., load), point)| {
            let x = match load {
                Load::Rate(rate) => f64::from(*rate),
                Load::Full => point.mpps.median()? * 1e6,
            };
            Some((x, of(point)))
        })
        .collect()
}

fn latency(figures: &Figures, path: Path) -> Drawing {
    let x = Axis::new("load (packets per second)").si().log();
    let y = Axis::new("latency").nanos().log();
    let mut plot = LinePlot::new(format!("Latency by load: {path}, 64 B"), x, y);
    for packing in [Packing::Off, Packing::Auto] {
        let parts: [(&str, Part); 2] = [
            ("p50", |point| &point.p50_ns),
            ("p99", |point| &point.p99_ns),
        ];
        for (name, of) in parts {
            let points = by_load(figures, path, packing, of);
            plot = plot.series(line(&format!("{name}, {packing}"), points.into_iter()));
        }
    }
    if path == Path::Chain {
        let points = figures.switch_loads.values().filter_map(|point| {
            let x = point.mpps.median()? * 1e6;
            Some((x, &point.mean_ns))
        });
        plot = plot.series(line("mean, OVS-DPDK, one thread", points));
    }
    Drawing {
        svg: plot.fragment(),
        caption:
            "From the time a packet was due at the source to the sink; the last point of each \
                  line is saturation, where packets are stamped when they are written. OVS-DPDK: \
                  mean of a round, from the packets in flight and their rate."
                .to_owned(),
    }
}

fn shares(figures: &Figures) -> Drawing {
    let x = Axis::new("load (packets per second)").si().log();
    let y = Axis::new("packets in bundles").percent().fixed(0.0, 1.0);
    let mut plot = LinePlot::new("Share of packets in bundles by load, 64 B", x, y);
    for path in [Path::Hop, Path::Chain] {
        let points = by_load(figures, path, Packing::Auto, |point| &point.bundled_share);
        plot = plot.series(line(&format!("{path}, auto"), points.into_iter()));
    }
    Drawing {
        svg: plot.fragment(),
        caption: "Of all crossings of links, those of packets in bundles. A packet that finds no \
                  other waiting travels plain."
            .to_owned(),
    }
}
