//! What a study found, in the words and tables of its report.

use std::time::Duration;

use catena_measure::compare::Verdict;
use catena_measure::doctor::tick_hz;
use catena_measure::latency::steady::Steadiness;
use catena_measure::probes::tax::Tax;
use catena_measure::report::Document;
use catena_measure::stats::quantile::median;
use catena_measure::study::cell::PORT;
use catena_measure::study::summary::{self, Effect, StudyResults};
use catena_measure::study::suspicion::suspicions;
use catena_measure::study::{Record, Run, Study, bias, findings, standing};

use crate::commands::Failure;
use crate::measuring::bench::Bench;
use crate::registry::registry;

/// Differences that the summary names; the table has all.
const FINDINGS_MAX: usize = 12;

/// Puts what was found into the document; gives the results.
pub(super) fn describe(
    study: &Study,
    (records, runs): (&[Record], &[Run]),
    document: &mut Document,
) -> StudyResults {
    let mut results = summary::summarise(study, records);
    let ticks = runs.last().map_or_else(tick_hz, |run| run.tick_hz);
    results.suspicions = suspicions(&results.factors, &results.cells, ticks);
    document.blame = summary::blamed(study, records);
    let of_mode = |effect: &&Effect| effect.factor == "mode" && effect.within.is_none();
    let rows = results.effects.iter().filter(of_mode).map(|effect| {
        let name = format!(
            "{} of {} over {}",
            effect.metric, effect.level, effect.against
        );
        (name, sentence(effect))
    });
    document.results.extend(rows);
    let suspect = results.suspicions.iter();
    document
        .results
        .extend(suspect.map(|one| ("SUSPICIOUS rate at max".to_owned(), one.sentence())));
    document.results.extend(unsteady(&results));
    let length = Duration::from_nanos(study.trial_ns);
    document
        .results
        .extend(standing::rows(study.blocks, length, records));
    for (level, shares) in summary::idle_shares(study, records) {
        let shares = shares.iter();
        let shares: Vec<_> = shares
            .map(|(state, share)| format!("{state} {:.1} %", share * 100.0))
            .collect();
        let row = format!("time in idle states, states {level}");
        document.environment.push((row, shares.join(", ")));
    }
    document
        .results
        .extend(probe_costs(&summary::taxed(study, records)));
    document.results.extend(silent(records));
    document.summary = format!(
        "{} trials of {} ms over {} combinations, in turns; {} have a result.",
        results.planned,
        study.trial_ns / 1_000_000,
        results.cells.len(),
        results.done
    );
    if !results.effects.is_empty() {
        document.summary += &format!(" {}", findings::sentences(&results.effects, FINDINGS_MAX));
    }
    if results.cells.iter().any(|cell| cell.latency.is_some()) {
        document.summary += " Latencies are PARTIAL after RFC 2544 and RFC 8219: see standing.";
    }
    if !results.suspicions.is_empty() {
        document.summary += &format!(
            " {} rates stay the same over factors that must matter: see SUSPICIOUS.",
            results.suspicions.len()
        );
    }
    results
}

/// Trials of older journals, which do not say how late the generator was.
fn silent(records: &[Record]) -> Option<(String, String)> {
    let (_, silent) = bias::sent(records);
    let text = format!("not known of {silent} trials at a load, which are of an older version");
    (silent > 0).then(|| ("generator's lateness".to_owned(), text))
}

/// How many combinations had not settled, if any was judged.
fn unsteady(results: &StudyResults) -> Option<(String, String)> {
    let judged = results.cells.iter().filter_map(|cell| cell.steadiness);
    let judged: Vec<_> = judged
        .filter(|found| *found != Steadiness::TooFew)
        .collect();
    let steady = judged.iter().filter(|found| **found == Steadiness::Steady);
    let text = format!(
        "{} of {} combinations at a load; the table names the others",
        steady.count(),
        judged.len()
    );
    (!judged.is_empty()).then(|| ("steady state".to_owned(), text))
}

/// What the chains are: of each kind of ports that of the first combination. What other
/// combinations change in it is in their names.
pub(super) fn describe_devices(study: &Study, bench: &mut Bench) -> Result<(), Failure> {
    let cells = study.cells();
    for (level, port) in study.levels[PORT].iter().enumerate() {
        let Some(cell) = cells.iter().find(|cell| cell[PORT] == level) else {
            continue;
        };
        let mut made = study.chain_of(cell, &registry()).map_err(Failure::input)?;
        // While it runs it is named after its process.
        "study".clone_into(&mut made.chain.name);
        let device = bench.device(made.chain)?;
        bench.describe(&device, &format!("port {}: ", port.text));
    }
    Ok(())
}

/// What the probes cost, over the combinations in which packets were followed.
fn probe_costs(taxed: &[(String, Result<Tax, String>)]) -> Vec<(String, String)> {
    let found = taxed
        .iter()
        .filter_map(|(title, tax)| Some((title, tax.as_ref().ok()?)));
    let shares: Vec<_> = found.clone().map(|(_, tax)| tax.share() * 100.0).collect();
    let most = found.max_by(|a, b| a.1.share().total_cmp(&b.1.share()));
    let mut rows = Vec::new();
    if let (Some(median), Some((title, tax))) = (median(&shares), most) {
        let (low, high) = tax.bounds();
        let text = format!(
            "median {median:+.2} % of the busy time by packet, over {} combinations; most \
             {:+.2} % ({:+.2} to {:+.2}) at {title}",
            shares.len(),
            tax.share() * 100.0,
            low * 100.0,
            high * 100.0
        );
        rows.push(("cost of the probes".to_owned(), text));
    }
    rows.extend(taxed.iter().filter_map(|(title, tax)| {
        let why = tax.as_ref().err()?;
        Some((
            "cost of the probes".to_owned(),
            format!("not found at {title}: {why}"),
        ))
    }));
    rows
}

fn sentence(effect: &Effect) -> String {
    let ratio = &effect.ratio;
    let interval = ratio.interval.map_or_else(
        || "one block, no interval".to_owned(),
        |interval| format!("{:.3} to {:.3}", interval.low, interval.high),
    );
    let verdict = match effect.verdict {
        Verdict::Higher => "higher",
        Verdict::Lower => "lower",
        Verdict::Same => "the same within the margin",
        Verdict::Inconclusive => "inconclusive",
    };
    format!("x {:.3} ({interval}), {verdict}", ratio.estimate)
}
