//! Comparisons on the page: how far B is from A, as a figure and a table, and what probes cost.

use super::document::Document;
use super::elements::{Page, figure, table};
use super::units::percent;
use crate::compare::Comparison;
use crate::plot::{Axis, Bar, BarPlot, Drawing, Figure};

fn row(name: &str, comparison: &Comparison) -> Vec<String> {
    let ratio = &comparison.ratio;
    vec![
        name.to_owned(),
        format!("{:.4}", ratio.estimate),
        format!("{:.4} to {:.4}", ratio.low, ratio.high),
        percent(ratio.confidence),
        format!("{:?}", comparison.verdict).to_uppercase(),
        comparison.pairs.to_string(),
        percent(comparison.detectable),
    ]
}

/// Differences with their intervals; no difference is the axis.
fn drawing(document: &Document) -> Option<Drawing> {
    let found = &document.comparisons;
    if found.is_empty() {
        return None;
    }
    let axis = Axis::new("B over A less 1").percent();
    let names = found.iter().map(|(name, _)| name.as_str());
    let bars = found.iter().map(|(_, comparison)| {
        let ratio = &comparison.ratio;
        let (low, high) = (ratio.low - 1.0, ratio.high - 1.0);
        Some(Bar::with_interval(ratio.estimate - 1.0, low, high))
    });
    let plot = BarPlot::new("Difference", axis, names).dots();
    Some(plot.group("B over A", bars.collect()).drawing())
}

/// Whether a study says itself what its probes cost.
fn has_costs(document: &Document) -> bool {
    let cells = document.study.iter().flat_map(|study| &study.cells);
    cells.into_iter().any(|cell| cell.probe_tax.is_some())
}

/// Adds them, if there are any; of probes whose cost nobody knows the page says so.
pub(super) fn write(page: &mut Page, document: &Document) {
    let found = document.comparisons.iter();
    let mut rows: Vec<_> = found.map(|(name, found)| row(name, found)).collect();
    let tax = document.probe_tax.as_ref();
    rows.extend(tax.map(|tax| row("with probes over without", tax)));
    let is_unknown = tax.is_none() && !document.blame.is_empty() && !has_costs(document);
    if rows.is_empty() && !is_unknown {
        return;
    }
    page.push_str("<h2>Comparisons</h2>\n");
    figure(page, drawing(document));
    if is_unknown {
        page.push_str("<p class=\"mark\">The cost of the probes was not measured.</p>\n");
    }
    if !rows.is_empty() {
        let heads = [
            "comparison",
            "ratio",
            "interval",
            "confidence",
            "verdict",
            "pairs",
            "detectable",
        ];
        table(page, &heads, &rows);
    }
}
