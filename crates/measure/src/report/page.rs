//! The HTML page: one file with its style, its figures and its tables.

use std::fmt::Write as _;

use super::comparisons;
use super::document::{Document, LatencyResult, Throughput};
use super::elements::{Page, figure, table};
use super::figures;
use super::units::{percent, rate, time};
use super::valued;
use crate::blame::{Blame, OUTSIDE_MAX};
use crate::latency::Distribution;
use crate::plot::{css, escape};
use crate::search::preset::Standing;

/// Style of the page around the figures.
const PAGE_CSS: &str = "\
body{font:15px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;padding:0 1rem;\
color:#1b1f24;background:#fff}\
table{border-collapse:collapse;margin:1rem 0;font-size:13px}\
th,td{border:1px solid #d8dee4;padding:.25rem .6rem;text-align:left;vertical-align:top}\
td.n{text-align:right;font-variant-numeric:tabular-nums}\
th{background:#f6f8fa}pre{background:#f6f8fa;padding:.8rem;overflow-x:auto}\
.scroll{overflow-x:auto}.mark{font-weight:600;color:#a33b00}figure{margin:1rem 0}\
figcaption{font-size:13px}\
@media (prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}\
th,td{border-color:#2b323b}th,pre{background:#161b22}.mark{color:#ff8c42}}\
@media print{body{max-width:none}}";

/// The whole report as one HTML file.
pub fn html(document: &Document) -> String {
    write(document).text
}

/// The page, and its figures.
pub(super) fn write(document: &Document) -> Page {
    let title = escape(&document.title);
    let mut page = Page::default();
    // Writing to a string cannot fail.
    let _ = write!(
        page,
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<style>{PAGE_CSS}{}</style>\n</head>\n<body>\n\
         <h1>{title}</h1>\n<p>{}</p>\n<p>Began {}.</p>\n",
        css(),
        escape(&document.summary),
        escape(&document.began)
    );
    // What was found, then all values, then what they are worth.
    valued::write(&mut page, &document.values);
    throughput(&mut page, document);
    latency(&mut page, document);
    if let Some(study) = &document.study {
        super::study_page::write(&mut page, study, &document.standings());
    }
    blame(&mut page, document);
    comparisons::write(&mut page, document);
    results(&mut page, document);
    noise(&mut page, document);
    environment(&mut page, document);
    trials(&mut page, document);
    page.push_str("</body>\n</html>\n");
    page
}

fn pps(value: Option<f64>) -> String {
    value.map_or_else(|| String::from("n/a"), rate)
}

fn standing_text(standing: &Standing) -> String {
    match standing {
        Standing::Complete => String::from("COMPLETE"),
        Standing::Partial(reasons) => format!("PARTIAL: {}", reasons.join("; ")),
        Standing::Invalid(reasons) => format!("INVALID: {}", reasons.join("; ")),
    }
}

fn throughput_rows(result: &Throughput) -> impl Iterator<Item = Vec<String>> {
    result.goals.iter().map(|found| {
        let irregular = found.irregularities.iter().map(|why| format!("{why:?}"));
        let irregular: Vec<_> = irregular.collect();
        let regularity = if found.is_regular() {
            String::from("regular")
        } else {
            format!("IRREGULAR: {}", irregular.join(", "))
        };
        let goal = &found.goal;
        let times = format!(
            "{:?} / {:?} / {:?}",
            goal.final_trial_duration,
            goal.duration_sum,
            goal.initial_trial_duration()
        );
        vec![
            result.system.clone(),
            result.traffic.clone(),
            result.preset.name().to_owned(),
            percent(goal.loss_ratio),
            percent(goal.exceed_ratio),
            times,
            percent(goal.width()),
            pps(found.conditional_throughput_pps),
            pps(found.relevant_lower_bound_pps),
            pps(found.relevant_upper_bound_pps),
            regularity,
            standing_text(&result.standing),
        ]
    })
}

fn throughput(page: &mut Page, document: &Document) {
    if document.throughput.is_empty() {
        return;
    }
    page.push_str("<h2>Throughput</h2>\n");
    figure(page, figures::throughput(document));
    page.push_str(
        "<p>Rates are over all interfaces by which traffic enters. That is one, the port \
         <code>traffic</code>, so they are rates per interface too (RFC 9971 4.5.2: the factor is \
         1). Width is relative to the upper bound; effective duration is as each trial reports \
         it.</p>\n",
    );
    let rows: Vec<_> = document
        .throughput
        .iter()
        .flat_map(throughput_rows)
        .collect();
    let heads = [
        "system",
        "traffic",
        "preset",
        "loss ratio",
        "exceed ratio",
        "final / sum / initial",
        "width",
        "conditional throughput",
        "lower bound",
        "upper bound",
        "result",
        "standing",
    ];
    table(page, &heads, &rows);
}

fn nanos(value: Option<f64>) -> String {
    value.map_or_else(|| String::from("n/a"), time)
}

fn whole(value: Option<i64>) -> String {
    nanos(value.map(|value| value as f64))
}

fn count(value: Option<f64>) -> String {
    value.map_or_else(|| String::from("n/a"), |value| format!("{value:.0}"))
}

fn distribution_row(name: &str, kind: &str, distribution: &Distribution) -> Vec<String> {
    let quantiles = [0.5, 0.9, 0.99, 0.999, 0.9999];
    let head = [
        name.to_owned(),
        kind.to_owned(),
        distribution.count.to_string(),
        whole(distribution.min_ns),
        nanos(distribution.mean_ns),
    ];
    let quantiles = quantiles.map(|q| whole(distribution.quantile(q)));
    let tail = [whole(distribution.max_ns), nanos(distribution.deviation_ns)];
    head.into_iter().chain(quantiles).chain(tail).collect()
}

fn latency_rows(result: &LatencyResult) -> Vec<Vec<String>> {
    let (name, latency) = (result.name.as_str(), &result.latency);
    let mut rows = vec![
        distribution_row(name, "from intended sending", &latency.delay),
        distribution_row(
            name,
            "from when the tester was ready",
            &latency.delay_from_sent,
        ),
        distribution_row(name, "tester lateness", &latency.tester_lateness),
        distribution_row(name, "IPDV (RFC 3393)", &latency.ipdv_rfc3393.signed),
        distribution_row(name, "PDV (RFC 5481)", &latency.pdv_rfc5481),
    ];
    if let Some(attribution) = &result.attribution {
        rows.extend([
            distribution_row(name, "raw", &attribution.raw),
            distribution_row(name, "clean", &attribution.clean),
            distribution_row(name, "stalled", &attribution.stalled),
            distribution_row(name, "net of stalls", &attribution.net),
        ]);
    }
    rows
}

fn named_row(result: &LatencyResult) -> Vec<String> {
    let latency = &result.latency;
    let excluded = result.attribution.as_ref();
    vec![
        result.name.clone(),
        format!("{:?}", latency.direction),
        nanos(latency.delay.mean_ns),
        whole(latency.delay.quantile(0.5)),
        whole(latency.delay.quantile(0.999)),
        whole(latency.pdv_rfc8219_ns),
        nanos(latency.ipdv_rfc3393.mean_absolute_ns),
        nanos(latency.interarrival_jitter_rfc3550_ns),
        excluded.map_or_else(|| String::from("n/a"), |a| percent(a.excluded_share)),
    ]
}

fn interval_rows(result: &LatencyResult) -> impl Iterator<Item = Vec<String>> {
    result.intervals_ns.iter().map(|(q, interval)| {
        let percentile = format!("{:.4}", q * 100.0);
        let percentile = percentile.trim_end_matches('0').trim_end_matches('.');
        vec![
            result.name.clone(),
            format!("p{percentile}"),
            time(interval.estimate),
            format!("{} to {}", time(interval.low), time(interval.high)),
            percent(interval.confidence),
        ]
    })
}

fn latency(page: &mut Page, document: &Document) {
    if document.latency.is_empty() {
        return;
    }
    page.push_str("<h2>Latency</h2>\n");
    figure(page, figures::percentiles(document));
    figure(page, figures::distributions(document));
    for result in &document.latency {
        match figures::over_time(result) {
            Some(Err(error)) => {
                let _ = writeln!(page, "<p class=\"mark\">{}</p>", escape(&error));
            }
            Some(Ok(map)) => figure(page, Some(map)),
            None => {}
        }
    }
    page.push_str("<p>A percentile has a value only with at least ten samples beyond it.</p>\n");
    let heads = [
        "measured",
        "direction",
        "mean (after RFC 2544)",
        "typical: median (RFC 8219)",
        "worst case: p99.9 (RFC 8219)",
        "PDV: p99.9 - min (RFC 8219)",
        "mean |IPDV| (RFC 3393)",
        "interarrival jitter (RFC 3550)",
        "packets touched by stalls",
    ];
    let rows: Vec<_> = document.latency.iter().map(named_row).collect();
    table(page, &heads, &rows);
    let rows: Vec<_> = document.latency.iter().flat_map(interval_rows).collect();
    if !rows.is_empty() {
        let heads = [
            "measured",
            "percentile",
            "estimate",
            "interval",
            "confidence",
        ];
        table(page, &heads, &rows);
    }
    let heads = [
        "measured",
        "what",
        "count",
        "min",
        "mean",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "p99.99",
        "max",
        "deviation",
    ];
    let rows: Vec<_> = document.latency.iter().flat_map(latency_rows).collect();
    table(page, &heads, &rows);
}

fn blame_rows(
    (name, blame): &(String, Blame),
    has_counts: bool,
) -> impl Iterator<Item = Vec<String>> {
    blame.shares.iter().map(move |share| {
        let optional = |value: Option<f64>| value.map_or_else(|| String::from("n/a"), percent);
        let mut row = vec![
            name.clone(),
            share.component.clone(),
            time(share.mean_ns),
            percent(share.of_mean),
            optional(share.of_p99),
            optional(share.of_variance),
        ];
        if has_counts {
            row.extend([count(share.cycles), count(share.instructions)]);
        }
        row
    })
}

fn blame(page: &mut Page, document: &Document) {
    if document.blame.is_empty() {
        return;
    }
    page.push_str("<h2>Blame</h2>\n");
    figure(page, figures::blame(&document.blame));
    let mut heads = vec![
        "measured",
        "component",
        "mean",
        "share of mean",
        "share of p99",
        "share of variance",
    ];
    let has_counts = document.blame.iter().any(|(_, blame)| blame.has_counts());
    if has_counts {
        heads.extend(["cycles", "instructions"]);
    }
    let rows = document.blame.iter();
    let rows: Vec<_> = rows
        .flat_map(|found| blame_rows(found, has_counts))
        .collect();
    table(page, &heads, &rows);
    for (name, blame) in &document.blame {
        let verdict = if blame.closes() {
            "within the limit of 1 %"
        } else {
            "MORE THAN 1 %: do not trust these shares"
        };
        let _ = writeln!(
            page,
            "<p>{}: {} traces; components differ from residence by {}, {verdict}.</p>",
            escape(name),
            blame.traces,
            percent(blame.closure_error)
        );
        if let Some(outside) = blame.outside().filter(|share| share.abs() > OUTSIDE_MAX) {
            let _ = writeln!(
                page,
                "<p>{} of the measured latency lie OUTSIDE the probes: before the first node, \
                 behind the last, or in what wraps a port.</p>",
                percent(outside)
            );
        }
    }
}

fn noise(page: &mut Page, document: &Document) {
    if document.noise.is_empty() {
        return;
    }
    page.push_str("<h2>Noise floor</h2>\n");
    let rows: Vec<_> = document
        .noise
        .iter()
        .map(|(name, bracket)| {
            vec![
                name.clone(),
                percent(bracket.before.lost_share),
                percent(bracket.after.lost_share),
                bracket.before.stalls.count().to_string(),
                bracket.after.stalls.count().to_string(),
                time(bracket.before.longest.max(bracket.after.longest) as f64),
                String::from(if bracket.is_noisy {
                    "NOISY: repeat"
                } else {
                    "steady"
                }),
            ]
        })
        .collect();
    let heads = [
        "trial",
        "lost before",
        "lost after",
        "stalls before",
        "stalls after",
        "longest",
        "verdict",
    ];
    table(page, &heads, &rows);
}

fn results(page: &mut Page, document: &Document) {
    if document.results.is_empty() {
        return;
    }
    page.push_str("<h2>Results</h2>\n");
    let rows = document.results.iter();
    let rows: Vec<_> = rows
        .map(|(name, value)| vec![name.clone(), value.clone()])
        .collect();
    table(page, &["what", "value"], &rows);
}

fn environment(page: &mut Page, document: &Document) {
    page.push_str("<h2>Environment</h2>\n");
    let pairs = |pairs: &[(String, String)]| -> Vec<Vec<String>> {
        let pairs = pairs.iter();
        pairs
            .map(|(name, value)| vec![name.clone(), value.clone()])
            .collect()
    };
    table(page, &["what", "value"], &pairs(&document.environment));
    if !document.unsupported.is_empty() {
        page.push_str("<h3>Not supported here</h3>\n");
        table(page, &["what", "why"], &pairs(&document.unsupported));
    }
    page.push_str("<h2>Commands</h2>\n<pre>");
    for command in &document.commands {
        let _ = writeln!(page, "{}", escape(command));
    }
    page.push_str("</pre>\n");
}

fn trials(page: &mut Page, document: &Document) {
    if document.trials.is_empty() {
        return;
    }
    page.push_str("<h2>Every trial</h2>\n<details><summary>");
    let _ = write!(page, "{} trials", document.trials.len());
    page.push_str("</summary>\n");
    let rows: Vec<_> = document
        .trials
        .iter()
        .map(|trial| {
            let lost = trial.intended.saturating_sub(trial.forwarded);
            vec![
                trial.name.clone(),
                rate(trial.load_pps),
                format!("{:.3}", trial.duration_s),
                trial.intended.to_string(),
                trial.forwarded.to_string(),
                percent(lost as f64 / trial.intended.max(1) as f64),
                trial.invalid.clone().unwrap_or_default(),
            ]
        })
        .collect();
    let heads = [
        "of",
        "load",
        "duration (s)",
        "intended",
        "forwarded",
        "loss",
        "invalid because",
    ];
    table(page, &heads, &rows);
    page.push_str("</details>\n");
}
