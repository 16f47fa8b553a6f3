//! Which figures a study has.
//!
//! One colour stands for one mode in all of them. What else varies makes places along the axis of
//! the bars, and a figure of its own for each distribution of delays; there are at most
//! [`CONTEXTS_MAX`] of those, since a page of hundreds says nothing. The values of all combinations
//! are in the table.

use crate::plot::{Axis, Bar, BarPlot, Drawing, Figure, HeatMap, LinePlot, Series, Shade};
use crate::study::cell::{FACTORS, MODE, PORT};
use crate::study::summary::{CellResult, Spread, StudyResults};

/// Most figures of one kind.
const CONTEXTS_MAX: usize = 6;
/// Most points of a line.
const POINTS_MAX: usize = 300;
/// Most places along the axis of one figure of bars.
const PLACES_MAX: usize = 16;

/// Factors, but for `left_out`, that vary among these combinations.
fn varying(cells: &[&CellResult], left_out: &[usize]) -> Vec<usize> {
    let varies = |place: &usize| {
        let levels = cells.iter().map(|cell| cell.levels.get(*place));
        let first = levels.clone().next();
        !left_out.contains(place) && levels.into_iter().any(|level| Some(level) != first)
    };
    (0..FACTORS.len()).filter(varies).collect()
}

/// Levels of some factors in words.
fn words(cell: &CellResult, places: &[usize]) -> String {
    let words = places.iter().filter_map(|place| {
        let level = cell.levels.get(*place)?;
        let name = match FACTORS[*place] {
            "size" => format!("{level} B"),
            "nfs" => format!("{level} NF"),
            "rate" | "port" | "mode" | "states" => level.clone(),
            factor => format!("{factor} {level}"),
        };
        Some(name)
    });
    words.collect::<Vec<_>>().join(", ")
}

fn mode_of(cell: &CellResult) -> &str {
    cell.levels.get(MODE).map_or("", String::as_str)
}

fn distinct(values: impl Iterator<Item = String>) -> Vec<String> {
    let mut distinct = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}

fn bar(spread: &Spread) -> Bar {
    match spread.interval {
        Some(interval) => Bar::with_interval(spread.estimate, interval.low, interval.high),
        None => Bar::new(spread.estimate),
    }
}

/// A value by mode with intervals: rates as bars, a figure for each kind of port, which differ too
/// much for one axis; times as dots on a logarithmic axis.
pub(super) fn values(
    results: &StudyResults,
    title: &str,
    metric: &str,
    axis: &Axis,
) -> Vec<Drawing> {
    let is_rate = metric.starts_with("rate");
    let ports = results
        .factors
        .get(PORT)
        .map(|(_, levels)| levels.as_slice());
    match ports {
        Some(ports) if is_rate && ports.len() > 1 => ports
            .iter()
            .flat_map(|port| {
                let title = format!("{title}, {port}");
                figures_of(results, (&title, metric), axis, Some(port))
            })
            .collect(),
        _ => figures_of(results, (title, metric), axis, None),
    }
}

/// Figures of a value, several where there are many places along the axis.
fn figures_of(
    results: &StudyResults,
    (title, metric): (&str, &str),
    axis: &Axis,
    port: Option<&str>,
) -> Vec<Drawing> {
    let has = |cell: &&CellResult| {
        let is_here = port.is_none_or(|port| cell.levels.get(PORT).is_some_and(|one| one == port));
        is_here && cell.values.contains_key(metric)
    };
    let cells: Vec<_> = results.cells.iter().filter(has).collect();
    let varying = varying(&cells, &[MODE]);
    let place = |cell: &CellResult| words(cell, &varying);
    let places = distinct(cells.iter().map(|cell| place(cell)));
    let modes = distinct(cells.iter().map(|cell| mode_of(cell).to_owned()));
    let parts = places.chunks(PLACES_MAX).enumerate();
    let figures = parts.map(|(number, places)| {
        let title = if number > 0 {
            format!("{title} (continued)")
        } else {
            title.to_owned()
        };
        let mut plot = BarPlot::new(title, axis.clone(), places.iter().map(String::as_str));
        if axis.is_log() {
            plot = plot.dots();
        }
        for mode in &modes {
            let bars = places.iter().map(|wanted| {
                let mut found = cells.iter();
                let is = |cell: &&&CellResult| mode_of(cell) == mode && place(cell) == *wanted;
                found
                    .find(is)
                    .and_then(|cell| cell.values.get(metric))
                    .map(bar)
            });
            plot = plot.group(mode, bars.collect());
        }
        plot.drawing()
    });
    figures.collect()
}

/// Cells with delays, by what they share but for their mode.
fn contexts(results: &StudyResults) -> Vec<(String, Vec<&CellResult>)> {
    let mut contexts: Vec<(String, Vec<&CellResult>)> = Vec::new();
    let cells = results.cells.iter();
    let cells: Vec<_> = cells.filter(|cell| cell.latency.is_some()).collect();
    let varying = varying(&cells, &[MODE]);
    for cell in cells {
        let name = words(cell, &varying);
        match contexts.iter_mut().find(|(known, _)| *known == name) {
            Some((_, cells)) => cells.push(cell),
            None => contexts.push((name, vec![cell])),
        }
    }
    contexts
}

/// How many distributions have no figure.
pub(super) fn left_out_count(results: &StudyResults) -> usize {
    contexts(results).len().saturating_sub(CONTEXTS_MAX)
}

/// Some of the contexts, spread evenly over all.
fn chosen<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let count = all.len();
    if count <= most {
        return all;
    }
    let is_chosen = |index: usize| index * most / count != (index + 1) * most / count;
    let chosen = all.into_iter().enumerate();
    chosen
        .filter(|(index, _)| is_chosen(*index))
        .map(|(_, item)| item)
        .collect()
}

/// Evenly chosen points of a line, the first and the last among them: more than there are pixels
/// only make the page larger.
fn thinned(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let count = points.len();
    if count <= POINTS_MAX {
        return points;
    }
    let last = count - 1;
    let index = |number: usize| number * last / (POINTS_MAX - 1);
    (0..POINTS_MAX)
        .map(|number| points[index(number)])
        .collect()
}

fn titled(what: &str, context: &str) -> String {
    if context.is_empty() {
        what.to_owned()
    } else {
        format!("{what}: {context}")
    }
}

/// Delay by percentile, a line for each mode.
pub(super) fn percentiles(results: &StudyResults) -> Vec<Drawing> {
    let figures = chosen(contexts(results), CONTEXTS_MAX).into_iter();
    let figures = figures.map(|(context, cells)| {
        let mut plot = LinePlot::new(
            titled("Latency by percentile", &context),
            Axis::new("percentile").nines(),
            Axis::new("latency from intended sending").log().nanos(),
        );
        for cell in &cells {
            let points = cell.latency.as_ref().map(|found| found.percentiles());
            let points = thinned(points.unwrap_or_default());
            plot = plot.series(Series::new(mode_of(cell), points).steps());
        }
        // Beyond this, what the tester held up alone may make up the tail.
        let touched = cells
            .iter()
            .filter_map(|cell| cell.values.get("touched by stalls"));
        let share = touched.map(|spread| spread.estimate).fold(0.0, f64::max);
        if share > 0.0 && share < 1.0 {
            plot = plot.shade(Shade {
                from: 1.0 - share,
                to: 1.0 - 1e-9,
                label: String::from("more packets held up by the tester than lie beyond"),
            });
        }
        plot.drawing()
    });
    figures.collect()
}

/// Cumulative distributions of delay, a line for each mode.
pub(super) fn distributions(results: &StudyResults) -> Vec<Drawing> {
    let figures = chosen(contexts(results), CONTEXTS_MAX).into_iter();
    let figures = figures.map(|(context, cells)| {
        let mut plot = LinePlot::new(
            titled("Latency distribution", &context),
            Axis::new("latency from intended sending").log().nanos(),
            Axis::new("packets at or below").percent().fixed(0.0, 1.0),
        );
        for cell in cells {
            let points = cell.latency.as_ref().map(|found| found.cdf());
            let points = thinned(points.unwrap_or_default());
            plot = plot.series(Series::new(mode_of(cell), points).steps());
        }
        plot.drawing()
    });
    figures.collect()
}

/// Delay over time in the first trial of the combinations that have such a map.
pub(super) fn over_time(results: &StudyResults) -> Vec<Result<Drawing, String>> {
    let cells = results.cells.iter();
    let cells: Vec<_> = cells.filter(|cell| cell.over_time.is_some()).collect();
    let varying = varying(&cells, &[]);
    let maps = cells.into_iter().filter_map(|cell| {
        let over_time = cell.over_time.as_ref()?;
        let name = words(cell, &varying);
        let map = HeatMap::new(
            titled("Latency over time", &name),
            (Axis::new("time (s)"), over_time.time_edges_s.clone()),
            (
                Axis::new("latency").log().nanos(),
                over_time.delay_edges_ns.clone(),
            ),
            over_time.counts.clone(),
        );
        Some(map.map_err(|error| error.to_string()).map(|map| {
            let stalls = over_time.stalls_s.iter();
            let shades = stalls.map(|(from, to)| Shade {
                from: *from,
                to: *to,
                label: String::from("stall"),
            });
            shades.fold(map.unit("packets"), HeatMap::shade).drawing()
        }))
    });
    maps.collect()
}
