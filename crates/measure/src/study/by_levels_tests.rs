//! Comparisons by levels of several factors against simulated trials whose ratios are known.

use super::by_levels::{is_by_levels, tables};
use super::cell::{MODE, RATE, SIZE};
use super::summary::{StudyResults, summarise};
use super::tables::blocks_csv;
use super::tests::study;
use super::trial_tests::record;
use super::*;
use crate::compare::Verdict;
use crate::report::{Document, html};
use crate::stats::random::Random;

const PLAIN: &str = "\
name: pairs
seed: 3
blocks: 6
factors:
  mode: [process, thread]
  size: [64, 1518]
  rate: [max, 10kpps, 20kpps]
";
const COMPARED: &str = "compare: [{ factor: mode, within: [size, rate] }]\n";

/// How many times as long threads take, where.
fn truth(size: &str, rate: &str) -> f64 {
    match (size, rate) {
        ("64", "10kpps") => 2.0,
        ("1518", "10kpps") => 0.5,
        _ => 1.0,
    }
}

fn simulated(study: &Study) -> Vec<Record> {
    let (cells, mut random) = (study.cells(), Random::new(11));
    let units = study.order().into_iter().map(|unit| {
        let cell = &cells[unit.cell];
        let of_mode = match study.level(cell, MODE) {
            "thread" => truth(study.level(cell, SIZE), study.level(cell, RATE)),
            _ => 1.0,
        };
        let luck = (1.0 + 0.1 * f64::from(unit.block)) * (1.0 + 0.005 * random.normal());
        record(
            study,
            cell,
            unit.block,
            1e6 * luck,
            10_000.0 * of_mode * luck,
        )
    });
    units.collect()
}

fn results() -> StudyResults {
    let study = study(&format!("{PLAIN}{COMPARED}"));
    summarise(&study, &simulated(&study))
}

#[test]
fn what_a_factor_does_is_told_within_each_combination_of_two_others() {
    let results = results();
    let all = tables(&results.effects);
    let [table] = all.as_slice() else {
        panic!("{all:?}");
    };
    assert_eq!((table.level, table.against), ("thread", "process"));
    assert_eq!(table.within, ["size", "rate"]);
    assert_eq!(table.metrics[..2], ["rate at max", "latency p50"]);
    let levels: Vec<_> = table
        .rows
        .iter()
        .map(|(levels, _)| levels.join(" "))
        .collect();
    let expected = [
        "64 max",
        "64 10kpps",
        "64 20kpps",
        "1518 max",
        "1518 10kpps",
        "1518 20kpps",
    ];
    assert_eq!(levels, expected);
    for (levels, found) in &table.rows {
        let is_max = levels[1] == "max";
        assert_eq!((found[0].is_some(), found[1].is_some()), (is_max, !is_max));
        let effect = found[usize::from(!is_max)].unwrap();
        let truth = truth(levels[0], levels[1]);
        assert!(
            (effect.ratio.estimate / truth - 1.0).abs() < 0.03,
            "{effect:?}"
        );
        let verdict = match truth {
            2.0 => Verdict::Higher,
            0.5 => Verdict::Lower,
            _ => Verdict::Same,
        };
        assert_eq!((effect.verdict, effect.pairs), (verdict, 6), "{effect:?}");
    }
    // Over both sizes together the two are no difference.
    let mut whole = results.effects.iter();
    let whole = whole
        .find(|one| one.factor == "mode" && one.within.is_none() && one.metric == "latency p50");
    assert_eq!(whole.unwrap().verdict, Verdict::Same);
}

/// Each further comparison makes a difference harder to show, in all of the report.
#[test]
fn they_are_corrected_together_with_all_others_and_asked_for_only() {
    let plain = study(PLAIN);
    let compared = study(&format!("{PLAIN}{COMPARED}"));
    let [few, many] = [&plain, &compared].map(|study| summarise(study, &simulated(study)).effects);
    assert!(few.iter().all(|effect| !is_by_levels(effect)));
    let added = many.iter().filter(|effect| is_by_levels(effect)).count();
    // Rates at two combinations, four values of latency at four.
    assert_eq!((many.len() - few.len(), added), (18, 18));
    let largest = |effects: &[summary::Effect]| {
        let found = effects.iter().filter(|one| one.factor == "rate");
        let all: Vec<_> = found.filter_map(|one| one.p_corrected).collect();
        all.into_iter().fold(0.0, f64::max)
    };
    assert!(largest(&many) >= largest(&few));
    // What is compared decides nothing of what is measured: a journal is of both.
    let identity = |study: &Study| serde_json::to_value(study).unwrap();
    assert_eq!(identity(&plain), identity(&compared));
}

#[test]
fn tables_stand_on_the_page_and_among_the_findings() {
    let results = results();
    let text = findings::page("pairs", &results, &[]);
    assert!(text.contains("\n## mode thread over process, by size and rate\n\n| size | rate |"));
    assert!(text.contains("\n| 64 | 10kpps |  | 2.0"), "{text}");
    let sentence = "latency p50 of mode thread over process with size 64 and rate 10kpps: x 2.0";
    let differences = text.split("\n## ").nth(1).unwrap();
    assert!(differences.starts_with("Differences") && differences.contains(sentence));
    let mut document = Document::new("pairs", "2026-11-28T00:00:00Z");
    document.study = Some(results);
    let page = html(&document);
    assert!(page.contains("<h3>mode: thread / process, by size and rate</h3>"));
    let read = Document::from_json(&document.to_json().unwrap()).unwrap();
    assert_eq!(html(&read), page);
}

#[test]
fn trials_are_told_block_by_block() {
    let study = study(PLAIN);
    let mut records = simulated(&study);
    let text = blocks_csv(&study, &records);
    let mut lines = text.lines();
    let head = lines.next();
    assert_eq!(
        head,
        Some("block,mode,size,rate,rate_pps,p50_ns,p99_ns,pdv_ns")
    );
    assert_eq!(lines.clone().count(), 12 * 6);
    for line in lines {
        let fields: Vec<_> = line.split(',').collect();
        let is_max = fields[3] == "max";
        assert_eq!(fields.len(), 8, "{line}");
        assert!(fields[4].parse::<u64>().unwrap() > 900_000, "{line}");
        assert!(
            fields[5..].iter().all(|field| field.is_empty() == is_max),
            "{line}"
        );
    }
    // A trial without a result is no row, and one with probes is none of a block.
    records[0].result = Err("disturbed".to_owned());
    records[1].block = study.blocks;
    assert_eq!(blocks_csv(&study, &records).lines().count(), 12 * 6 - 1);
}

#[test]
fn comparisons_of_no_factor_are_refused_where_they_stand() {
    let wrong = |text: &str| {
        let parsed = Study::KIND.parse(&format!("{PLAIN}compare: [{text}]\n"), "study.yaml");
        parsed.unwrap_err().to_string()
    };
    for (text, words) in [
        (
            "{ factor: colour, within: [size] }",
            "\"colour\" is no factor",
        ),
        (
            "{ factor: mode, within: [size, colour] }",
            "\"colour\" is no factor",
        ),
        (
            "{ factor: mode, within: [mode] }",
            "\"mode\" is named already",
        ),
        ("{ factor: mode, within: [] }", "within no factor"),
        ("{ factor: mode }", "within"),
    ] {
        let said = wrong(text);
        assert!(
            said.contains("study.yaml:8:") && said.contains(words),
            "{said}"
        );
    }
}
