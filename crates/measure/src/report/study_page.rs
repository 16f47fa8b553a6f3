//! The part of the page that a study has: figures, what each factor does, every combination.

use std::fmt::Write as _;

use super::elements::{Page, figure, table};
use super::study_figures as figures;
use crate::compare::Verdict;
use crate::latency::steady::{FALSE_ALARMS, Steadiness};
use crate::plot::{Axis, escape};
use crate::study::by_levels::{is_by_levels, tables};
use crate::study::summary::{CellResult, Effect, MARGIN, METRICS, Metric, Spread, StudyResults};

/// A value with three digits, and its interval, both in the unit that suits the value.
fn spread(value: &Spread, unit: &str) -> String {
    let (divisor, unit) = scale(value.estimate, unit);
    let short = |value: f64| short(value / divisor);
    let text = match value.interval {
        Some(interval) => format!(
            "{} ({} to {})",
            short(value.estimate),
            short(interval.low),
            short(interval.high)
        ),
        None => short(value.estimate),
    };
    format!("{text} {unit}").trim_end().to_owned()
}

/// By what to divide a value of a unit, and the unit that it then has.
fn scale(value: f64, unit: &str) -> (f64, &str) {
    match (unit, value.abs()) {
        ("ns", size) if size >= 1e9 => (1e9, "s"),
        ("ns", size) if size >= 1e6 => (1e6, "ms"),
        ("ns", size) if size >= 1e3 => (1e3, "us"),
        ("packets/s", size) if size >= 1e6 => (1e6, "Mpps"),
        ("packets/s", size) if size >= 1e3 => (1e3, "kpps"),
        ("packets/s", _) => (1.0, "pps"),
        ("share", _) => (0.01, "%"),
        _ => (1.0, unit),
    }
}

/// A p-value.
fn p_value(p: f64) -> String {
    if p < 0.0001 {
        "below 0.0001".to_owned()
    } else {
        format!("{p:.4}")
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

/// Writes the part; `standings` say how far latencies keep to the documents that define them.
pub(super) fn write(page: &mut Page, results: &StudyResults, standings: &[&(String, String)]) {
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
    // Beside the figures that bear the names of these documents.
    for (name, text) in standings {
        let _ = writeln!(page, "<p>{}: {}.</p>", escape(name), escape(text));
    }
    distributions(page, results);
    effects(page, &results.effects);
    by_levels(page, &results.effects);
    probe_costs(page, results);
    cells(page, results);
}

/// Factors that have several levels, by their places.
fn varying(results: &StudyResults) -> Vec<usize> {
    (0..results.factors.len())
        .filter(|place| results.factors[*place].1.len() > 1)
        .collect()
}

fn probe_costs(page: &mut Page, results: &StudyResults) {
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

fn bars(page: &mut Page, results: &StudyResults) {
    let kinds = [
        (
            "Back-pressured capacity (links), rate under overload (kernel ports)",
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
            "Gbit/s per watt at the highest load",
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

fn distributions(page: &mut Page, results: &StudyResults) {
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

fn effects(page: &mut Page, effects: &[Effect]) {
    if effects.is_empty() {
        return;
    }
    let _ = writeln!(
        page,
        "<h3>What each factor does</h3>\n<p>Ratios to the first level of the factor, over pairs of \
         trials of one block that differ in nothing else; each with its 95 % interval over blocks. \
         Verdicts come from p-values that Holm's method corrects for the number of comparisons in \
         this report ({}): the chance of any false HIGHER or LOWER among them is 5 %. \"Same\" is \
         within {} %.</p>",
        effects.len(),
        MARGIN * 100.0
    );
    let rows: Vec<_> = effects
        .iter()
        .filter(|effect| !is_by_levels(effect))
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
                effect.p_corrected.map_or_else(|| "n/a".to_owned(), p_value),
                verdict(effect.verdict).to_owned(),
                effect.pairs.to_string(),
            ]
        })
        .collect();
    let heads = [
        "what", "where", "value", "ratio", "interval", "p (Holm)", "verdict", "pairs",
    ];
    table(page, &heads, &rows);
}

/// Comparisons within levels of several factors; they are among those that are corrected together.
fn by_levels(page: &mut Page, effects: &[Effect]) {
    for found in tables(effects) {
        let _ = writeln!(
            page,
            "<h3>{}: {} / {}, by {}</h3>",
            escape(found.factor),
            escape(found.level),
            escape(found.against),
            escape(&found.within.join(" and "))
        );
        let heads: Vec<_> = found.within.iter().chain(&found.metrics).copied().collect();
        let text = |effect: &Option<&Effect>| {
            let Some(effect) = effect else {
                return String::new();
            };
            let p = effect.p_corrected.map_or_else(|| "n/a".to_owned(), p_value);
            let ratio = spread(&effect.ratio, "");
            format!("{ratio} {}, p {p}", verdict(effect.verdict))
        };
        let rows = found.rows.iter().map(|(levels, effects)| {
            let levels = levels.iter().map(|level| (*level).to_owned());
            levels.chain(effects.iter().map(text)).collect()
        });
        let rows: Vec<Vec<String>> = rows.collect();
        table(page, &heads, &rows);
    }
}

fn cells(page: &mut Page, results: &StudyResults) {
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
            value.map_or_else(String::new, |value| spread(value, metric.unit))
        });
        let mut row: Vec<_> = levels
            .chain([cell.trials.to_string()])
            .chain(values)
            .collect();
        row.push(cell.steadiness.map_or("", Steadiness::name).to_owned());
        row.push(cell.failure.clone().unwrap_or_default());
        row
    };
    page.push_str("<h3>Every combination</h3>\n<details open><summary>");
    let _ = write!(page, "{} combinations", results.cells.len());
    let judged = results.cells.iter().filter_map(|cell| cell.steadiness);
    let unsteady = judged.filter(|one| matches!(one, Steadiness::Transient | Steadiness::Drift));
    let _ = write!(
        page,
        "</summary>\n<p>{} of them had not settled, of which some {:.0} by chance: each is judged \
         with {} % false alarms.</p>\n",
        unsteady.count(),
        results.cells.len() as f64 * FALSE_ALARMS,
        FALSE_ALARMS * 100.0
    );
    let names = varies.iter().map(|place| results.factors[*place].0.clone());
    let values = metrics.iter().map(|metric| metric.name.to_owned());
    let mut heads: Vec<_> = names.chain(["trials".to_owned()]).chain(values).collect();
    heads.extend(["steady state", "no result because"].map(str::to_owned));
    let heads: Vec<_> = heads.iter().map(String::as_str).collect();
    let rows: Vec<_> = results.cells.iter().map(row).collect();
    table(page, &heads, &rows);
    page.push_str("</details>\n");
}
