//! Reading typed values out of the tree, with an error that shows the accepted form.

use serde::de::DeserializeOwned;

use crate::chain::diagnostic::{Position, Report};
use crate::chain::parse::{Entry, Tree, Value};
use crate::chain::registry::nearest;

/// Most characters of a chain's, node's, group's or output's name.
const NAME_CHARS_MAX: usize = 32;

/// The entries of a map; an empty value counts as an empty map.
pub(super) fn map<'t>(report: &mut Report<'_>, tree: &'t Tree, what: &str) -> Option<&'t [Entry]> {
    match &tree.value {
        Value::Map(entries) => Some(entries),
        Value::Null => Some(&[]),
        // That has been said.
        Value::Broken => None,
        _ => {
            report.error(
                tree.at,
                format!("{what} must be a map, not {}", tree.noun()),
                "write it as key: value lines, or as { key: value }",
            );
            None
        }
    }
}

/// Reports every key that is not among `known`.
pub(super) fn known_keys(report: &mut Report<'_>, entries: &[Entry], what: &str, known: &[&str]) {
    for entry in entries {
        if !known.contains(&&*entry.key) {
            report.error(
                entry.at,
                format!("unknown key \"{}\" in {what}", entry.key),
                suggestion(&entry.key, known),
            );
        }
    }
}

/// "write x" if `name` looks like one of `known`, else all of them.
pub(super) fn suggestion(name: &str, known: &[&str]) -> String {
    match nearest(name, known.iter().copied()) {
        Some(near) => format!("write {near}"),
        None if known.is_empty() => "remove it".to_owned(),
        None if known.len() == 1 => format!("write {}", known[0]),
        None => format!("write one of {}", known.join(", ")),
    }
}

pub(super) fn entry<'t>(entries: &'t [Entry], key: &str) -> Option<&'t Entry> {
    entries.iter().find(|entry| entry.key == key)
}

/// A name as chains, nodes and groups have it.
pub(super) fn check_name(report: &mut Report<'_>, at: Position, what: &str, name: &str) -> bool {
    let fits = name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !fits {
        report.error(
            at,
            format!("\"{name}\" cannot be the name of {what}"),
            format!(
                "use 1 to {NAME_CHARS_MAX} of a to z, 0 to 9 and -, beginning with a letter or digit"
            ),
        );
    }
    fits
}

/// Text that is a name.
pub(super) fn name(report: &mut Report<'_>, tree: &Tree, what: &str) -> Option<String> {
    let text = match &tree.value {
        Value::Text(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        Value::Broken => return None,
        _ => {
            report.error(
                tree.at,
                format!("the name of {what} must be text, not {}", tree.noun()),
                "write a word like edge",
            );
            return None;
        }
    };
    check_name(report, tree.at, what, &text).then_some(text)
}

/// One of a set of words.
pub(super) fn choice<T: DeserializeOwned>(
    report: &mut Report<'_>,
    entry: &Entry,
    words: &[&str],
) -> Option<T> {
    let found = entry.tree.shown();
    let choice = words
        .contains(&&*found)
        .then(|| serde_json::from_value(found.clone().into()).ok())
        .flatten();
    if choice.is_none() {
        report.error(
            entry.tree.at,
            format!("{} cannot be \"{found}\"", entry.key),
            suggestion(&found, words),
        );
    }
    choice
}

/// A whole number within limits.
pub(super) fn integer(
    report: &mut Report<'_>,
    tree: &Tree,
    what: &str,
    limits: std::ops::RangeInclusive<u64>,
) -> Option<u64> {
    let number = match &tree.value {
        Value::Number(number) => number.as_u64(),
        _ => None,
    };
    let number = number.filter(|number| limits.contains(number));
    if number.is_none() {
        let (low, high) = limits.into_inner();
        report.error(
            tree.at,
            format!("{what} is not a whole number within {low} and {high}"),
            format!("write a number from {low} to {high}"),
        );
    }
    number
}

/// A core that this machine gives us.
pub(super) fn core(report: &mut Report<'_>, tree: &Tree, available: &[usize]) -> Option<usize> {
    let number = match &tree.value {
        Value::Number(number) => number.as_u64(),
        _ => None,
    };
    let core = number
        .and_then(|number| usize::try_from(number).ok())
        .filter(|core| available.contains(core));
    if core.is_none() {
        report.error(
            tree.at,
            format!("core {} is not available on this machine", tree.shown()),
            format!("use one of {}", ranges(available)),
        );
    }
    core
}

/// Sorted numbers in short: `0-3, 8`.
fn ranges(numbers: &[usize]) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let words = spans.iter().map(|&(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(", ")
}
