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
