//! Journals, and results of simulated trials.

use std::io::Write;

use catena_engine::chain::Mode;

use super::bias::{baselines, settings};
use super::cell::{MODE, RATE, SIZE};
use super::journal::{Journal, JournalError, latest};
use super::record::{LatencyRecord, Lateness};
use super::summary::{idle_shares, summarise, taxed};
use super::tables::csv;
use super::tests::{CROSSED, study};
use super::*;
use crate::compare::{Comparison, Verdict};
use crate::device::Baseline;
use crate::latency::steady::{Ranks, Steadiness};
use crate::probes::tax::{Measure, Tax};
use crate::report::TrialRow;
use crate::stats::Interval;
use crate::stats::histogram::Histogram;
use crate::stats::random::Random;

/// A trial whose rate is `rate_pps` at `max`, and whose delays are around `delay_ns` at a load.
pub(super) fn record(
    study: &Study,
    cell: &Cell,
    block: u32,
    rate_pps: f64,
    delay_ns: f64,
) -> Record {
    let has_load = study.level(cell, RATE) != "max";
    let mut random = Random::new(u64::from(block));
    let mut raw = Histogram::new();
    for _ in 0..20_000 {
        raw.record((delay_ns * (1.0 + 0.1 * random.unit())) as u64);
    }
    Record {
        block,
        cell: study.key(cell),
        began: "2026-11-22T00:00:00Z".to_owned(),
        command: "catena measure study".to_owned(),
        load_pps: has_load.then_some(1e4),
        attempts: vec![TrialRow {
            name: study.title(cell),
            load_pps: 1e4,
            duration_s: 0.5,
            intended: 5000,
            forwarded: 5000,
            invalid: None,
        }],
        result: Ok(Measured {
            rate_pps,
            intended: 5000,
            forwarded: 5000,
            tester_lost: 0,
            frame_len: 64.0,
            latency: has_load.then(|| LatencyRecord {
                clean: raw.clone(),
                raw,
                excluded_share: 0.0,
                pdv_rfc8219_ns: Some(delay_ns * 0.1),
                ipdv_rfc3393_ns: Some(delay_ns * 0.03),
                interarrival_jitter_rfc3550_ns: Some(delay_ns * 0.03),
                lateness: Some(Lateness {
                    p50_ns: Some(0.0),
                    p99_ns: Some(900.0),
                    max_ns: 4000.0,
                }),
                over_time: None,
                ranks: Some(Ranks {
                    first: if study.level(cell, SIZE) == "1518" {
                        9.5
                    } else {
                        0.5
                    },
                    kendall: 3.0,
                }),
            }),
            watts: Some(50.0),
            sent: None,
        }),
        blame: None,
        probe_tax: None,
        idle_shares: [("C1".to_owned(), if block == 0 { 0.5 } else { 0.3 })].into(),
        waiting: None,
        build: None,
        baselines: Vec::new(),
    }
}

/// All trials of a study in which threads are 20 % faster, take 10 % less time, and each block has
/// a luck of its own.
fn simulated(study: &Study) -> Vec<Record> {
    let cells = study.cells();
    let mut random = Random::new(7);
    let luck: Vec<f64> = (0..study.blocks)
        .map(|_| 1.0 + 0.3 * random.unit())
        .collect();
    let units = study.order().into_iter().map(|unit| {
        let cell = &cells[unit.cell];
        let is_thread = study.level(cell, MODE) == "thread";
        let (rate, delay) = if is_thread {
            (1.2e6, 9000.0)
        } else {
            (1e6, 10_000.0)
        };
        let noise = luck[unit.block as usize] * (1.0 + 0.005 * random.normal());
        record(study, cell, unit.block, rate * noise, delay * noise)
    });
    units.collect()
}

#[test]
fn trials_that_had_not_settled_are_named_combination_by_combination() {
    let study = study(CROSSED);
    let results = summarise(&study, &simulated(&study));
    for cell in &results.cells {
        let wanted = match (cell.levels[RATE].as_str(), cell.levels[SIZE].as_str()) {
            ("max", _) => None,
            (_, "1518") => Some(Steadiness::Transient),
            _ => Some(Steadiness::Steady),
        };
        assert_eq!(cell.steadiness, wanted, "{:?}", cell.levels);
    }
    let text = csv(&results);
    assert_eq!(text.matches(",TRANSIENT,").count(), 2, "{text}");
}

#[test]
fn the_time_in_idle_states_is_told_for_each_setting() {
    let study = study(CROSSED);
    let found = idle_shares(&study, &simulated(&study));
    let [(level, shares)] = found.as_slice() else {
        panic!("{found:?}");
    };
    assert_eq!(level, "as-is");
    assert!((shares["C1"] - (0.5 + 3.0 * 0.3) / 4.0).abs() < 1e-9);
}

#[test]
fn where_functions_run_is_compared_size_by_size() {
    let study = study(CROSSED);
    let results = summarise(&study, &simulated(&study));
    let of_size = |size: &str| {
        let within = Some(("size".to_owned(), size.to_owned()));
        let mut effects = results.effects.iter();
        effects.any(|one| one.factor == "mode" && one.within == within)
    };
    assert!(of_size("64"));
    // Threads have no cells of it.
    assert!(!of_size("1518"));
}

#[test]
fn effects_are_found_beneath_the_luck_of_blocks() {
    let study = study(CROSSED);
    let records = simulated(&study);
    let results = summarise(&study, &records);
    assert_eq!((results.planned, results.done), (48, 48));
    let effect = |factor: &str, level: &str, metric: &str| {
        let mut effects = results.effects.iter();
        let found = effects.find(|e| e.factor == factor && e.level == level && e.metric == metric);
        found
            .unwrap_or_else(|| panic!("{factor} {level} {metric}"))
            .clone()
    };
    let rate = effect("mode", "thread", "rate at max");
    assert_eq!((rate.verdict, rate.pairs), (Verdict::Higher, 4));
    assert!((rate.ratio.estimate / 1.2 - 1.0).abs() < 0.03, "{rate:?}");
    let interval = rate.ratio.interval.unwrap();
    assert!(interval.low < 1.2 && interval.high > 1.2 && interval.high - interval.low < 0.1);
    let delay = effect("mode", "thread", "latency p50");
    assert_eq!((delay.verdict, delay.pairs), (Verdict::Lower, 8));
    assert_eq!(effect("size", "1518", "rate at max").verdict, Verdict::Same);
    // The block's luck stays in the values of a cell, whose intervals are wider.
    let cell = &results.cells[0];
    let value = cell.values["rate at max"];
    let wide = value.interval.unwrap();
    assert!((wide.high - wide.low) / value.estimate > 0.05, "{value:?}");
    assert!(cell.values["Gbit/s per watt"].estimate > 0.0);
    let loaded = &results.cells[1];
    assert!(
        loaded.values.contains_key("latency p99") && !loaded.values.contains_key("rate at max")
    );
    assert_eq!(loaded.latency.as_ref().unwrap().count(), 80_000);
    let table = csv(&results);
    assert_eq!(table.lines().count(), 13);
    let columns = table.lines().next().unwrap().split(',').count();
    assert!(
        table.lines().all(|line| line.split(',').count() == columns),
        "{table}"
    );
}

#[test]
fn a_journal_gives_back_what_was_noted_and_drops_half_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.jsonl");
    let study = study(CROSSED);
    let identity = serde_json::to_value(&study).unwrap();
    let records = simulated(&study);
    let (mut journal, contents) = Journal::open(&path, &identity, "then").unwrap();
    assert!(contents.records.is_empty() && contents.began == "then");
    for record in &records[..5] {
        journal.note(record).unwrap();
    }
    let busy = Journal::open(&path, &identity, "now").unwrap_err();
    assert!(matches!(busy, JournalError::Busy(_)), "{busy}");
    drop(journal);
    let whole = std::fs::read(&path).unwrap();
    // A crash in the midst of any line loses that line alone.
    let ends: Vec<_> = whole
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(i, _)| i)
        .collect();
    for (len, kept) in [
        (ends[5], 4),
        (ends[4] + 1, 4),
        (ends[4] + 20, 4),
        (ends[1] - 1, 0),
    ] {
        std::fs::write(&path, &whole[..len]).unwrap();
        let (mut journal, contents) = Journal::open(&path, &identity, "now").unwrap();
        assert_eq!(
            (contents.records.len(), contents.began.as_str()),
            (kept, "then")
        );
        assert_eq!(contents.records, records[..kept]);
        let whole_len = whole[..len]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .unwrap()
            + 1;
        assert_eq!(contents.dropped_len, len - whole_len);
        journal.note(&records[kept]).unwrap();
        drop(journal);
        let (_, contents) = Journal::open(&path, &identity, "now").unwrap();
        assert_eq!(contents.records, records[..=kept]);
    }
    // Not even the header.
    std::fs::write(&path, &whole[..30]).unwrap();
    let (_, contents) = Journal::open(&path, &identity, "now").unwrap();
    assert_eq!((contents.dropped_len, contents.began.as_str()), (30, "now"));
}

#[test]
fn journals_of_others_and_damaged_ones_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("study.jsonl");
    let mut study = study(CROSSED);
    let identity = serde_json::to_value(&study).unwrap();
    let (mut journal, _) = Journal::open(&path, &identity, "then").unwrap();
    journal.note(&simulated(&study)[0]).unwrap();
    drop(journal);
    study.blocks = 9;
    let other = serde_json::to_value(&study).unwrap();
    let refused = Journal::open(&path, &other, "now").unwrap_err().to_string();
    assert!(refused.contains("(blocks differ)"), "{refused}");
    let mut file = std::fs::OpenOptions::new()
        .append(true)
        .open(&path)
        .unwrap();
    file.write_all(b"{\"block\": 1}\n").unwrap();
    let before = std::fs::read(&path).unwrap();
    let refused = Journal::open(&path, &identity, "now")
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("study.jsonl:3:") && refused.contains("remove that line"),
        "{refused}"
    );
    assert_eq!(std::fs::read(&path).unwrap(), before);
    std::fs::write(&path, "hello\n").unwrap();
    let refused = Journal::open(&path, &identity, "now")
        .unwrap_err()
        .to_string();
    assert!(refused.contains("no journal of a study"), "{refused}");
}

/// Older journals lack what newer ones have beside a result, and are read all the same.
#[test]
fn records_of_older_journals_load_and_new_ones_keep_what_they_say() {
    let study = study(CROSSED);
    let old = simulated(&study).remove(0);
    let text = serde_json::to_string(&old).unwrap();
    for field in ["waiting", "build", "baselines"] {
        assert!(!text.contains(&format!("\"{field}\"")), "{field}");
    }
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), old);
    let rows = settings(std::slice::from_ref(&old));
    assert!(rows.iter().all(|(_, value)| value.starts_with("not known")));
    let new = Record {
        waiting: Some("sleep".to_owned()),
        build: Some("profile release".to_owned()),
        baselines: vec![Baseline::new(Mode::Process, None, Err("why".to_owned()))],
        ..old
    };
    let text = serde_json::to_string(&new).unwrap();
    assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), new);
    let rows = settings(std::slice::from_ref(&new));
    let mode = &new.cell["mode"];
    assert_eq!(
        rows[0],
        (format!("wait policy, mode {mode}"), "sleep".to_owned())
    );
    assert_eq!(rows[1].1, "profile release");
    assert_eq!(baselines(&[new.clone(), new]).0.len(), 2);
}

#[test]
fn a_later_result_replaces_a_failure_and_no_failure_a_result() {
    let study = study(CROSSED);
    let good = simulated(&study).remove(0);
    let failed = Record {
        result: Err("disturbed: Steal".to_owned()),
        ..good.clone()
    };
    for records in [
        [failed.clone(), good.clone()],
        [good.clone(), failed.clone()],
    ] {
        let latest = latest(&records);
        assert_eq!(latest.len(), 1);
        assert!(latest.values().all(|record| record.result.is_ok()));
    }
    let results = summarise(&study, std::slice::from_ref(&failed));
    let told = results.cells.iter().filter(|cell| cell.failure.is_some());
    assert_eq!((told.count(), results.done), (1, 0));
    // A trial with probes is none of the repetitions, but says what they cost.
    let tax = tax();
    let probed = Record {
        block: study.blocks,
        probe_tax: Some(Ok(tax)),
        ..good
    };
    let results = summarise(&study, std::slice::from_ref(&probed));
    assert_eq!(results.done, 0);
    let costs = results.cells.iter().filter_map(|cell| cell.probe_tax);
    assert_eq!(costs.collect::<Vec<_>>(), [tax]);
    assert!(
        csv(&results).contains(",0.25,0.125,0.5,"),
        "{}",
        csv(&results)
    );
    let title = study.title(&study.cells()[study.order()[0].cell]);
    assert_eq!(taxed(&study, &[probed]), [(title, Ok(tax))]);
}

/// Probes that cost a quarter of the busy time.
fn tax() -> Tax {
    let ratio = Interval {
        estimate: 1.25,
        low: 1.125,
        high: 1.5,
        confidence: 0.95,
    };
    Tax {
        measure: Measure::BusyTimePerPacket,
        comparison: Comparison {
            ratio,
            verdict: Verdict::Higher,
            pairs: 100,
            detectable: 0.01,
        },
    }
}
