//! What a study's trials say of the tester and of how they were run: its own baselines, how workers
//! waited, and by which builds.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;
use crate::device::{Baseline, Extremes};
use crate::traffic::send_record::SendRecord;

/// The tester's own trials of all blocks, and the results that these are held against.
pub fn baselines(records: &[Record]) -> (Vec<Baseline>, Extremes) {
    let own = records.iter().flat_map(|record| record.baselines.clone());
    let mut extremes = Extremes::default();
    let measured = records.iter();
    for found in measured.filter_map(|record| record.result.as_ref().ok()) {
        match &found.latency {
            None => extremes.add_rate(found.rate_pps),
            Some(latency) => {
                if let Some(ns) = latency.raw.quantile(0.5) {
                    extremes.add_median(ns as f64);
                }
            }
        }
    }
    (own.collect(), extremes)
}

/// What the generator sent in all trials at a load, by how late, and what the device held back; and
/// how many trials do not say it.
pub fn sent(records: &[Record]) -> (SendRecord, usize) {
    let (mut all, mut silent) = (SendRecord::default(), 0);
    let measured = records.iter();
    let measured = measured.filter_map(|record| record.result.as_ref().ok());
    for found in measured.filter(|found| found.latency.is_some()) {
        match &found.sent {
            Some(sent) => all.add_lateness(sent),
            None => silent += 1,
        }
    }
    (all, silent)
}

/// How the workers of each mode waited, and how the programs were built that ran the trials.
pub fn settings(records: &[Record]) -> Vec<(String, String)> {
    let mut waiting: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for record in records {
        let mode = record.cell.get("mode").map_or("any", String::as_str);
        if let Some(text) = &record.waiting {
            waiting.entry(mode).or_default().push(text);
        }
    }
    let mut rows: Vec<_> = waiting
        .into_iter()
        .map(|(mode, texts)| (format!("wait policy, mode {mode}"), condensed(&texts)))
        .collect();
    if rows.is_empty() {
        let why = "not known: no trial in the journal says it";
        rows.push(("wait policy".to_owned(), why.to_owned()));
    }
    let builds = records.iter().filter_map(|record| record.build.as_deref());
    let builds: BTreeSet<_> = builds.collect();
    let text = if builds.is_empty() {
        "not known: no trial in the journal says it".to_owned()
    } else {
        builds.into_iter().collect::<Vec<_>>().join("; or ")
    };
    rows.push(("build of the trials".to_owned(), text));
    rows
}

/// A number in a text, with how it was written.
type Written<'a> = (f64, &'a str);

/// Texts that differ in numbers only as one, with the least and the greatest of each number.
fn condensed(texts: &[&str]) -> String {
    let mut forms: BTreeMap<Vec<&str>, Vec<[Written<'_>; 2]>> = BTreeMap::new();
    for text in texts {
        let (words, numbers) = apart(text);
        let ranges = forms
            .entry(words)
            .or_insert_with(|| numbers.iter().map(|number| [*number; 2]).collect());
        for ([least, most], number) in ranges.iter_mut().zip(numbers) {
            if number.0 < least.0 {
                *least = number;
            }
            if number.0 > most.0 {
                *most = number;
            }
        }
    }
    let written = forms.into_iter().map(|(words, ranges)| {
        let ranges = ranges.into_iter().map(|[least, most]| {
            if least.1 == most.1 {
                least.1.to_owned()
            } else {
                format!("{} to {}", least.1, most.1)
            }
        });
        // One word more than numbers.
        let mut ranges = ranges.chain([String::new()]);
        let parts = words.into_iter().map(|word| {
            let number = ranges.next().unwrap_or_default();
            format!("{word}{number}")
        });
        parts.collect::<String>()
    });
    written.collect::<Vec<_>>().join("; or ")
}

/// A text as the words around its numbers, and the numbers: one fewer than words.
fn apart(text: &str) -> (Vec<&str>, Vec<Written<'_>>) {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (word, from) = rest.split_at(start);
        let end = from.find(|c: char| !c.is_ascii_digit() && c != '.');
        let number = from[..end.unwrap_or(from.len())].trim_end_matches('.');
        words.push(word);
        numbers.push((number.parse().unwrap_or(0.0), number));
        rest = &from[number.len()..];
    }
    words.push(rest);
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_differ_in_numbers_are_one() {
        let spins = [
            "spin 101 us, yield 2x (wake 1.5 us)",
            "spin 20 us, yield 2x (wake 25.05 us)",
            "spin 99 us, yield 2x (wake 3 us)",
            "sleep",
        ];
        assert_eq!(
            condensed(&spins),
            "sleep; or spin 20 to 101 us, yield 2x (wake 1.5 to 25.05 us)"
        );
        for same in ["", "7", "no number", "at 1.05.", "1.2.3", "é 007 ü"] {
            assert_eq!(condensed(&[same, same]), same);
        }
        assert_eq!(condensed(&[]), "");
    }
}
