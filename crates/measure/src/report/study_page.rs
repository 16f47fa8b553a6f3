//! The part of the page that a study has: figures, what each factor does, every combination.

use std::fmt::Write as _;

use super::elements::{figure, table};
use super::study_figures as figures;
use crate::compare::Verdict;
use crate::plot::{Axis, escape};
use crate::study::summary::{CellResult, Effect, MARGIN, METRICS, Metric, Spread, StudyResults};

/// A value with three digits, and its interval.
fn spread(value: &Spread) -> String {
    match value.interval {
        Some(interval) => format!(
            "{} ({} to {})",
            short(value.estimate),
            short(interval.low),
            short(interval.high)
        ),
        None => short(value.estimate),
    }
}

/// A number with three or more digits that count.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 || size == 0.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        size if size >= 0.001 => format!("{value:.4}"),
        _ => format!("{value:.1e}"),
    }
}

/// Writes the part.
pub(super) fn write(page: &mut String, results: &StudyResults) {
    let _ = writeln!(
        page,
        "<h2>Study</h2>\n<p>{} of {} trials have a result: {} combinations, measured in {} blocks, \
         each in a random order of its own.</p>",
        results.done,
        results.planned,
        results.cells.len(),
        results.blocks
    );
    let factors = results.factors.iter();
    let factors: Vec<_> = factors
        .map(|(factor, levels)| vec![factor.clone(), levels.join(", ")])
        .collect();
    table(page, &["factor", "levels"], &factors);
    bars(page, results);
    distributions(page, results);
    effects(page, &results.effects);
    probe_costs(page, results);
    cells(page, results);
}

/// Factors that have several levels, by their places.
fn varying(results: &StudyResults) -> Vec<usize> {
    (0..results.factors.len())
        .filter(|place| results.factors[*place].1.len() > 1)
        .collect()
}

fn probe_costs(page: &mut String, results: &StudyResults) {
    let varies = varying(results);
    let rows = results.cells.iter().filter_map(|cell| {
        let tax = cell.probe_tax.as_ref()?;
        let percent = |share: f64| format!("{:+.2} %", share * 100.0);
        let (low, high) = tax.bounds();
        let ratio = &tax.comparison.ratio;
        let mut row: Vec<_> = varies
            .iter()
            .map(|place| cell.levels[*place].clone())
            .collect();
        row.extend([
            percent(tax.share()),
            format!("{} to {}", percent(low), percent(high)),
            format!("{:.0} %", ratio.confidence * 100.0),
            tax.comparison.pairs.to_string(),
        ]);
        Some(row)
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    page.push_str(
        "<h3>Cost of the probes</h3>\n<p>Busy time of all workers by packet in trials with probes, \
         over that without: one chain at the trial's load, following as many packets, in turns. \
         Rates and latencies above are of trials in which no packet was followed.</p>\n",
    );
    let names = varies
        .iter()
        .map(|place| results.factors[*place].0.as_str());
    let heads = ["cost", "interval", "confidence", "pairs"];
    let heads: Vec<_> = names.chain(heads).collect();
    table(page, &heads, &rows);
}

fn bars(page: &mut String, results: &StudyResults) {
    let kinds = [
        (
            "Throughput: rate at the highest load",
            "rate at max",
            Axis::new("packets/s").si(),
        ),
        (
            "Median latency",
            "latency p50",
            Axis::new("latency").log().nanos(),
        ),
        (
            "99th percentile of latency",
            "latency p99",
            Axis::new("latency").log().nanos(),
        ),
        (
            "PDV (RFC 8219)",
            "PDV (RFC 8219)",
            Axis::new("p99.9 less least").log().nanos(),
        ),
        (
            "Throughput per watt",
            "Gbit/s per watt",
            Axis::new("Gbit/s per watt"),
        ),
    ];
    for (title, metric, axis) in kinds {
        for found in figures::values(results, title, metric, &axis) {
            figure(page, Some(found));
        }
    }
    page.push_str(
        "<p>Whiskers are 95 % intervals over blocks. The highest load is what the chain takes \
         without loss where links block, and what comes back under overload over ports of the \
         kernel.</p>\n",
    );
}

fn distributions(page: &mut String, results: &StudyResults) {
    let percentiles = figures::percentiles(results);
    if percentiles.is_empty() {
        return;
    }
    page.push_str("<h3>Distributions of latency</h3>\n");
    for found in percentiles
        .into_iter()
        .chain(figures::distributions(results))
    {
        figure(page, Some(found));
    }
    let left_out = figures::left_out_count(results);
    if left_out > 0 {
        let _ = writeln!(
            page,
            "<p>{left_out} further distributions have no figure; their percentiles are in the \
             table, their counts in the JSON.</p>"
        );
    }
    page.push_str("<h3>Latency over time</h3>\n");
    for map in figures::over_time(results) {
        match map {
            Ok(map) => figure(page, Some(map)),
            Err(error) => {
                let _ = writeln!(page, "<p class=\"mark\">{}</p>", escape(&error));
            }
        }
    }
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Higher => "HIGHER",
        Verdict::Lower => "LOWER",
        Verdict::Same => "same",
        Verdict::Inconclusive => "inconclusive",
    }
}

fn effects(page: &mut String, effects: &[Effect]) {
    if effects.is_empty() {
        return;
    }
    let sure = effects
        .iter()
        .filter(|effect| effect.ratio.interval.is_some())
        .count();
    let _ = writeln!(
        page,
        "<h3>What each factor does</h3>\n<p>Ratios to the first level of the factor, over pairs of \
         trials of one block that differ in nothing else; 95 % intervals over blocks. \"Same\" is \
         within {} %. Of {sure} intervals some {} miss the true value by chance.</p>",
        MARGIN * 100.0,
        (sure as f64 * 0.05).ceil()
    );
    let rows: Vec<_> = effects
        .iter()
        .map(|effect| {
            let within = effect.within.as_ref();
            vec![
                format!("{}: {} / {}", effect.factor, effect.level, effect.against),
                within.map_or_else(|| "all".to_owned(), |(f, l)| format!("{f} {l}")),
                effect.metric.clone(),
                short(effect.ratio.estimate),
                effect.ratio.interval.map_or_else(
                    || "n/a".to_owned(),
                    |interval| format!("{} to {}", short(interval.low), short(interval.high)),
                ),
                verdict(effect.verdict).to_owned(),
                effect.pairs.to_string(),
            ]
        })
        .collect();
    let heads = [
        "what", "where", "value", "ratio", "interval", "verdict", "pairs",
    ];
    table(page, &heads, &rows);
}

fn cells(page: &mut String, results: &StudyResults) {
    let varies = varying(results);
    let has = |metric: &&Metric| {
        let mut cells = results.cells.iter();
        cells.any(|cell| cell.values.contains_key(metric.name))
    };
    let metrics: Vec<_> = METRICS.iter().filter(has).collect();
    let row = |cell: &CellResult| {
        let levels = varies.iter().map(|place| cell.levels[*place].clone());
        let values = metrics.iter().map(|metric| {
            let value = cell.values.get(metric.name);
            value.map_or_else(String::new, spread)
        });
        let mut row: Vec<_> = levels
            .chain([cell.trials.to_string()])
            .chain(values)
            .collect();
        row.push(cell.failure.clone().unwrap_or_default());
        row
    };
    page.push_str("<h3>Every combination</h3>\n<details open><summary>");
    let _ = write!(page, "{} combinations", results.cells.len());
    page.push_str("</summary>\n");
    let names = varies.iter().map(|place| results.factors[*place].0.clone());
    let units = metrics
        .iter()
        .map(|metric| format!("{} ({})", metric.name, metric.unit));
    let mut heads: Vec<_> = names.chain(["trials".to_owned()]).chain(units).collect();
    heads.push("no result because".to_owned());
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let rows: Vec<_> = results.cells.iter().map(row).collect();
    table(page, &heads, &rows);
    page.push_str("</details>\n");
}
