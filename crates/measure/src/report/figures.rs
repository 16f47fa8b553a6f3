//! Which figures a document has: behind a measurement, from its results to plots.

use super::document::{Document, LatencyResult, Throughput};
use super::over_time::OverTime;
use crate::blame::{Blame, Share};
use crate::plot::{Axis, Bar, BarPlot, Drawing, Figure, HeatMap, LinePlot, Series, Shade};

/// Values in the order of their first appearance.
fn distinct<'a>(values: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn bar(result: &Throughput) -> Option<Bar> {
    let value = result.goals.first()?.conditional_throughput_pps?;
    let interval = result
        .interval
        .map(|interval| (interval.low, interval.high));
    Some(Bar { value, interval })
}

/// Conditional throughput of the first goal, with intervals.
pub(super) fn throughput(document: &Document) -> Option<Drawing> {
    let results = &document.throughput;
    if results.is_empty() {
        return None;
    }
    let traffics = distinct(results.iter().map(|result| result.traffic.as_str()));
    let axis = Axis::new("conditional throughput (packets/s)").si();
    let mut plot = BarPlot::new("Throughput", axis, traffics.iter().copied());
    for system in distinct(results.iter().map(|result| result.system.as_str())) {
        let bars = traffics.iter().map(|traffic| {
            let mut of_system = results.iter().filter(|result| result.system == system);
            of_system
                .find(|result| result.traffic == *traffic)
                .and_then(bar)
        });
        plot = plot.group(system, bars.collect());
    }
    Some(plot.drawing())
}

/// Delay by percentile, as far as samples allow.
pub(super) fn percentiles(document: &Document) -> Option<Drawing> {
    let results = &document.latency;
    if results.is_empty() {
        return None;
    }
    let mut plot = LinePlot::new(
        "Latency by percentile",
        Axis::new("percentile").nines(),
        Axis::new("latency from intended sending").log().nanos(),
    );
    for result in results {
        let series = Series::new(&result.name, result.histogram.percentiles()).steps();
        let band = result.intervals_ns.iter();
        let band = band.map(|(q, interval)| (*q, interval.low, interval.high));
        plot = plot.series(series.with_band(band.collect()));
    }
    // Beyond this, what the tester held up alone may make up the tail.
    let excluded = results
        .iter()
        .filter_map(|result| result.attribution.as_ref());
    let excluded = excluded.map(|attribution| attribution.excluded_share);
    let share = excluded.fold(0.0, f64::max);
    if share > 0.0 {
        plot = plot.shade(Shade {
            from: 1.0 - share,
            to: 1.0 - 1e-9,
            label: String::from("more packets held up by the tester than lie beyond"),
        });
    }
    Some(plot.drawing())
}

/// Cumulative distributions of delay.
pub(super) fn distributions(document: &Document) -> Option<Drawing> {
    if document.latency.is_empty() {
        return None;
    }
    let mut plot = LinePlot::new(
        "Latency distribution",
        Axis::new("latency from intended sending").log().nanos(),
        Axis::new("packets at or below").percent().fixed(0.0, 1.0),
    );
    for result in &document.latency {
        plot = plot.series(Series::new(&result.name, result.histogram.cdf()).steps());
    }
    Some(plot.drawing())
}

/// Delay over time; what does not fit together is left out, with a word.
pub(super) fn over_time(result: &LatencyResult) -> Option<Result<Drawing, String>> {
    let OverTime {
        time_edges_s,
        delay_edges_ns,
        counts,
        stalls_s,
    } = result.over_time.as_ref()?;
    let map = HeatMap::new(
        format!("Latency over time: {}", result.name),
        (Axis::new("time (s)"), time_edges_s.clone()),
        (Axis::new("latency").log().nanos(), delay_edges_ns.clone()),
        counts.clone(),
    );
    let shaded = map.map(|map| {
        let shades = stalls_s.iter().map(|(from, to)| Shade {
            from: *from,
            to: *to,
            label: String::from("stall"),
        });
        shades.fold(map.unit("packets"), HeatMap::shade)
    });
    Some(
        shaded
            .map(|map| map.drawing())
            .map_err(|error| error.to_string()),
    )
}

/// Where the mean residence goes.
pub(super) fn blame(tables: &[(String, Blame)]) -> Option<Drawing> {
    if tables.is_empty() {
        return None;
    }
    let names = tables.iter().map(|(name, _)| name.as_str());
    let axis = Axis::new("mean residence").nanos();
    let mut plot = BarPlot::new("Where the time goes", axis, names).stacked();
    let shares = tables.iter().flat_map(|(_, blame)| &blame.shares);
    for component in distinct(shares.map(|share| share.component.as_str())) {
        let parts = tables.iter().map(|(_, blame)| {
            let mut shares = blame.shares.iter();
            let share: Option<&Share> = shares.find(|share| share.component == component);
            share.map(|share| Bar::new(share.mean_ns))
        });
        plot = plot.group(component, parts.collect());
    }
    Some(plot.drawing())
}
