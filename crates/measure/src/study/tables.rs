//! A study's values as CSV (RFC 4180): by combination, and by trial.

use super::Study;
use super::cell::FACTORS;
use super::journal::latest;
use super::record::{Measured, Record};
use super::summary::{METRICS, StudyResults};
use crate::csv::quoted;
use crate::latency::steady;
use crate::probes::tax::Tax;

/// The values of all combinations as CSV (RFC 4180), with a line of names first.
pub fn csv(results: &StudyResults) -> String {
    let mut head: Vec<_> = results
        .factors
        .iter()
        .map(|(factor, _)| factor.clone())
        .collect();
    head.push("trials".to_owned());
    for metric in &METRICS {
        let name = format!("{} ({})", metric.name, metric.unit);
        head.extend([name.clone(), format!("{name} low"), format!("{name} high")]);
    }
    head.extend(["", " low", " high"].map(|end| format!("cost of probes (share){end}")));
    head.extend(["steady state", "failure"].map(str::to_owned));
    let rows = results.cells.iter().map(|cell| {
        let mut row = cell.levels.clone();
        row.push(cell.trials.to_string());
        let write = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
        for metric in &METRICS {
            let value = cell.values.get(metric.name);
            let interval = value.and_then(|value| value.interval);
            row.push(write(value.map(|value| value.estimate)));
            row.push(write(interval.map(|interval| interval.low)));
            row.push(write(interval.map(|interval| interval.high)));
        }
        let (tax, bounds) = (
            cell.probe_tax.as_ref(),
            cell.probe_tax.map(|tax| tax.bounds()),
        );
        row.push(write(tax.map(Tax::share)));
        row.push(write(bounds.map(|bounds| bounds.0)));
        row.push(write(bounds.map(|bounds| bounds.1)));
        row.push(
            cell.steadiness
                .map_or("", steady::Steadiness::name)
                .to_owned(),
        );
        row.push(cell.failure.clone().unwrap_or_default());
        row
    });
    let lines = std::iter::once(head.clone()).chain(rows);
    let lines = lines.map(|row| {
        let fields: Vec<_> = row.iter().map(|field| quoted(field)).collect();
        fields.join(",") + "\n"
    });
    lines.collect()
}

/// Rate, median, p99 and PDV of a trial; an empty field where it has none.
fn fields_of_trial(found: &Measured) -> [String; 4] {
    let latency = found.latency.as_ref();
    let quantile = |q| Some(latency?.raw.quantile(q)? as f64);
    let pdv = latency.and_then(|latency| latency.pdv_rfc8219_ns);
    [Some(found.rate_pps), quantile(0.5), quantile(0.99), pdv]
        .map(|value| value.map_or_else(String::new, |value| format!("{value:.0}")))
}

/// What each trial with a result told, by block, for statistics of others: its block from 1, its
/// level of each factor that has several, its rate and its latency.
pub fn blocks_csv(study: &Study, records: &[Record]) -> String {
    let places = (0..FACTORS.len()).filter(|place| study.levels[*place].len() > 1);
    let places: Vec<_> = places.collect();
    let mut text = String::from("block,");
    for place in &places {
        text += &format!("{},", FACTORS[*place]);
    }
    text += "rate_pps,p50_ns,p99_ns,pdv_ns\n";
    let (cells, latest) = (study.cells(), latest(records));
    for block in 0..study.blocks {
        for cell in &cells {
            let record = latest.get(&(block, study.key(cell)));
            let Some(Ok(found)) = record.map(|record| &record.result) else {
                continue;
            };
            let levels = places.iter().map(|place| quoted(study.level(cell, *place)));
            let mut row = vec![(block + 1).to_string()];
            row.extend(levels.chain(fields_of_trial(found)));
            text += &(row.join(",") + "\n");
        }
    }
    text
}
