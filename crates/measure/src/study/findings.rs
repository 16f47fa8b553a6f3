//! What a study says in words, made of the table of its comparisons alone.
//!
//! A sentence says "higher" or "lower" where the corrected p-value does, and nowhere else: what the
//! table does not show, the words cannot.

use super::summary::{Effect, StudyResults};
use crate::compare::Verdict;
use crate::report::STANDING;

/// The comparisons with a difference, the surest first.
fn differences(effects: &[Effect]) -> Vec<&Effect> {
    let differs = |effect: &&Effect| matches!(effect.verdict, Verdict::Higher | Verdict::Lower);
    let mut found: Vec<_> = effects.iter().filter(differs).collect();
    let p = |effect: &Effect| effect.p_corrected.unwrap_or(1.0);
    found.sort_by(|a, b| p(a).total_cmp(&p(b)));
    found
}

fn of_verdict(effects: &[Effect], verdict: Verdict) -> Vec<&Effect> {
    let has = |effect: &&Effect| effect.verdict == verdict;
    effects.iter().filter(has).collect()
}

/// How many comparisons showed a difference, none, and neither.
fn counts(effects: &[Effect]) -> String {
    let count = differences(effects).len();
    let same = of_verdict(effects, Verdict::Same).len();
    format!(
        "Of {} comparisons, corrected for their number, {count} show a difference, {same} show \
         that there is none of 5 % or more, and {} show neither.",
        effects.len(),
        effects.len() - count - same
    )
}

/// What a study's comparisons say together, for a summary: differences first, at most `most` of
/// them, and how many comparisons showed none.
pub fn sentences(effects: &[Effect], most: usize) -> String {
    let mut text = counts(effects);
    let found = differences(effects);
    for effect in found.iter().take(most) {
        text += &format!(" {}.", effect.sentence());
    }
    if found.len() > most {
        text += &format!(" The other {} stand in the table.", found.len() - most);
    }
    text
}

/// All of it as a page of Markdown, to be quoted from. `standings` says how far latencies keep to
/// the documents that they are named after; it stands before them, so that none is quoted without
/// it.
pub fn page(title: &str, results: &StudyResults, standings: &[&(String, String)]) -> String {
    let effects = results.effects.as_slice();
    let mut text = format!(
        "# {title}: what was found\n\nMade of the table of comparisons in `report.json` alone. A \
         ratio stands with its interval of 95 %; whether there is a difference is decided by the \
         p-value that is corrected for the number of comparisons (Holm), so that an interval \
         without 1 alone decides nothing.\n\n{} of {} trials have a result. {}\n",
        results.done,
        results.planned,
        counts(effects)
    );
    if !standings.is_empty() {
        text += "\n## Standing\n\n";
        for (name, standing) in standings {
            text += &format!("- {}: {standing}\n", name.trim_start_matches(STANDING));
        }
    }
    for (heading, found) in [
        ("Differences", differences(effects)),
        ("None of 5 % or more", of_verdict(effects, Verdict::Same)),
        ("Not shown", of_verdict(effects, Verdict::Inconclusive)),
    ] {
        if found.is_empty() {
            continue;
        }
        text += &format!("\n## {heading}\n\n");
        for effect in found {
            text += &format!("- {}\n", effect.sentence());
        }
    }
    if !results.suspicions.is_empty() {
        text += "\n## Suspicious\n\n";
        for one in &results.suspicions {
            text += &format!("- {}\n", one.sentence());
        }
    }
    text
}
