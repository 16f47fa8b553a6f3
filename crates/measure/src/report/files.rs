//! The parts of a report as files of their own: figures as SVG, and their data as CSV.

use super::document::Document;
use super::page::write;
use crate::csv::quoted;
use crate::plot::{Drawing, standalone};

/// Every figure of the page, in its order: an SVG document that stands alone, and its data as CSV.
pub fn figures(document: &Document) -> Vec<(String, String)> {
    let files = |drawing: Drawing| (standalone(&drawing.fragment), drawing.data);
    write(document).drawings.into_iter().map(files).collect()
}

/// All distributions of delay as CSV (RFC 4180), finer than figures show them: for each bucket of
/// each distribution its least value and how many packets are in it; `None` without latencies.
pub fn latency_csv(document: &Document) -> Option<String> {
    if document.latency.is_empty() {
        return None;
    }
    let mut text = String::from("name,from_ns,to_ns,packets\n");
    for result in &document.latency {
        let name = quoted(&result.name);
        for (from, to, count) in result.histogram.buckets() {
            text.push_str(&format!("{name},{from},{to},{count}\n"));
        }
    }
    Some(text)
}

/// Nanoseconds in the unit that people read them in.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns.abs() {
        large if large >= 999_500_000.0 => (ns / 1e9, "s"),
        large if large >= 999_500.0 => (ns / 1e6, "ms"),
        large if large >= 999.5 => (ns / 1e3, "us"),
        _ => return format!("{ns:.0} ns"),
    };
    // Three digits that count.
    match value.abs() {
        large if large >= 99.95 => format!("{value:.0} {unit}"),
        large if large >= 9.995 => format!("{value:.1} {unit}"),
        _ => format!("{value:.2} {unit}"),
    }
}

/// Packets per second in the unit that people read them in, with four digits that count: searches
/// tell rates half a percent apart.
pub fn rate(pps: f64) -> String {
    let (value, unit) = match pps.abs() {
        large if large >= 999_950.0 => (pps / 1e6, "Mpps"),
        large if large >= 999.95 => (pps / 1e3, "kpps"),
        _ => (pps, "pps"),
    };
    match value.abs() {
        large if large >= 999.95 || (large >= 99.995 && unit == "pps") => {
            format!("{value:.0} {unit}")
        }
        large if large >= 99.995 => format!("{value:.1} {unit}"),
        large if large >= 9.9995 => format!("{value:.2} {unit}"),
        0.0 => format!("0 {unit}"),
        _ => format!("{value:.3} {unit}"),
    }
}
