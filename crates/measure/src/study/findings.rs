//! What a study says in words, made of the table of its comparisons alone.
//!
//! A sentence says "higher" or "lower" where the corrected p-value does, and nowhere else: what the
//! table does not show, the words cannot.

use super::by_levels::{ByLevels, is_by_levels, tables};
use super::summary::{Effect, StudyResults};
use crate::compare::Verdict;
use crate::report::STANDING;

/// The comparisons with a difference, the surest first; those within levels of several factors
/// behind the others.
fn differences(effects: &[Effect]) -> Vec<&Effect> {
    let differs = |effect: &&Effect| matches!(effect.verdict, Verdict::Higher | Verdict::Lower);
    let mut found: Vec<_> = effects.iter().filter(differs).collect();
    let p = |effect: &Effect| effect.p_corrected.unwrap_or(1.0);
    found.sort_by(|a, b| {
        let is_part = is_by_levels(a).cmp(&is_by_levels(b));
        is_part.then(p(a).total_cmp(&p(b)))
    });
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

/// A table of comparisons within levels of several factors.
fn by_levels(table: &ByLevels<'_>) -> String {
    let mut text = format!(
        "\n## {} {} over {}, by {}\n\n",
        table.factor,
        table.level,
        table.against,
        table.within.join(" and ")
    );
    let heads = table.within.iter().chain(&table.metrics);
    let heads: Vec<_> = heads.copied().collect();
    text += &format!("| {} |\n", heads.join(" | "));
    text += &format!("|{}\n", "---|".repeat(heads.len()));
    for (levels, found) in &table.rows {
        let found = found.iter().map(|effect| match effect {
            Some(effect) => format!("{}, {}", effect.ratio_text(), effect.verdict_text()),
            None => String::new(),
        });
        let levels = levels.iter().map(|level| (*level).to_owned());
        let row: Vec<_> = levels.chain(found).collect();
        text += &format!("| {} |\n", row.join(" | "));
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
    // Those within levels of several factors that are no differences stand in their tables alone.
    let of_verdict = |verdict| {
        let mut found = of_verdict(effects, verdict);
        found.retain(|effect| !is_by_levels(effect));
        found
    };
    for (heading, found) in [
        ("Differences", differences(effects)),
        ("None of 5 % or more", of_verdict(Verdict::Same)),
        ("Not shown", of_verdict(Verdict::Inconclusive)),
    ] {
        if found.is_empty() {
            continue;
        }
        text += &format!("\n## {heading}\n\n");
        for effect in found {
            text += &format!("- {}\n", effect.sentence());
        }
    }
    for table in tables(effects) {
        text += &by_levels(&table);
    }
    if !results.suspicions.is_empty() {
        text += "\n## Suspicious\n\n";
        for one in &results.suspicions {
            text += &format!("- {}\n", one.sentence());
        }
    }
    text
}
