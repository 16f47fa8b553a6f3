//! What else can be read of a chain file that has syntax errors, so that one does not hide others.
//!
//! A YAML parser cannot go on behind an error. But a chain file has sections, which begin in the
//! first column, and these have entries, which are lines indented alike: the smallest of them that
//! holds the error is left out, and the rest is read. What was left out stands in the tree as
//! [`Value::Broken`], of which nothing is known but that it is there. Where leaving out sections
//! does not help, nothing more is looked at, and the report says so. So it is with limits, and with
//! anchors: what they stand for may have been left out. At most [`READINGS_MAX`] readings, of
//! [`BYTES_READ_MAX`] bytes.

use super::diagnostic::{Position, Report};
use super::parse::{
    Entry, FILE_BYTES_MAX, Raw, Tree, Value, read, report_syntax, report_too_long, tree,
};

/// Times that a file is read, at most.
const READINGS_MAX: usize = 128;
/// Bytes that are read in all, at most: what a person may wait for.
const BYTES_READ_MAX: usize = 8 * FILE_BYTES_MAX;
/// Entries in front of an error that are tried: one of them may have begun what was not closed.
const ENTRIES_TRIED_MAX: usize = 12;

/// A section or an entry of one, by its lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    section: usize,
    entry: Option<usize>,
}

/// Lines of a block, from the first to behind the last.
type Lines = std::ops::Range<usize>;

/// A section of the file.
#[derive(Debug)]
struct Section {
    key: String,
    lines: Lines,
    /// Its entries, with their keys; a list's have none.
    entries: Vec<(Option<String>, Lines)>,
}

/// Parses the text of a chain file as far as that can be; errors go into `report`.
pub(super) fn parse(text: &str, report: &mut Report<'_>) -> Option<Tree> {
    if report_too_long(text, report) {
        return None;
    }
    let error = match read(text) {
        Ok(raw) => return Some(tree(raw, report)),
        Err(error) => error,
    };
    let mut salvage = Salvage::of(text);
    let raw = salvage.go_on(error, report)?;
    let mut whole = tree(raw, report);
    salvage.put_back(&mut whole);
    Some(whole)
}

struct Salvage<'t> {
    lines: Vec<&'t str>,
    sections: Vec<Section>,
    left_out: Vec<Part>,
    readings: usize,
    readings_max: usize,
}

/// A syntax error: where it is, and the parser's words.
type Syntax = (Position, String);

impl<'t> Salvage<'t> {
    /// Of a text that has been read once.
    fn of(text: &'t str) -> Self {
        Self {
            lines: text.split_inclusive('\n').collect(),
            sections: sections(text),
            left_out: Vec::new(),
            readings: 1,
            readings_max: READINGS_MAX.min(BYTES_READ_MAX / text.len().max(1)),
        }
    }

    /// Leaves out what holds errors until the rest can be read; reports each.
    fn go_on(
        &mut self,
        mut error: Syntax,
        report: &mut Report<'_>,
    ) -> Option<serde_saphyr::Spanned<Raw>> {
        loop {
            let is_about_all = ["budget", "limit", "Documents", "anchor", "alias"];
            let found = match is_about_all.iter().any(|word| error.1.contains(word)) {
                true => None,
                false => self.without(&error),
            };
            match found {
                Some((part, result)) => {
                    report_syntax(report, error.0, &error.1, "");
                    self.left_out.push(part);
                    match result {
                        Ok(raw) => return Some(raw),
                        Err(next) => error = next,
                    }
                }
                None => {
                    let rest = "; nothing behind this was looked at";
                    report_syntax(report, error.0, &error.1, rest);
                    return None;
                }
            }
        }
    }

    /// What to leave out so that the error is gone, and what is read then.
    fn without(
        &mut self,
        (at, _): &Syntax,
    ) -> Option<(Part, Result<serde_saphyr::Spanned<Raw>, Syntax>)> {
        let line = (at.line as usize).checked_sub(1)?;
        // What was not closed shows further on: the part without which most can be read had it.
        let mut best = None;
        let mut farthest = 0;
        for part in self.candidates(line) {
            if self.readings >= self.readings_max {
                break;
            }
            self.readings += 1;
            self.left_out.push(part);
            let result = read(&self.text());
            self.left_out.pop();
            if result.is_ok() {
                return Some((part, result));
            }
            let next = result.as_ref().err();
            let reached = next.map_or(0, |(next, _)| next.line as usize);
            let end = self.lines_of(part).end.max(line + 1);
            if reached > end.max(farthest) {
                farthest = reached;
                best = Some((part, result));
            }
        }
        best
    }

    /// Entries up to the line of an error, the nearest first; their section; those before it.
    fn candidates(&self, line: usize) -> Vec<Part> {
        let begun = |lines: &Lines| lines.start <= line;
        let sections = self.sections.iter().enumerate();
        let before = sections.filter(|(_, section)| begun(&section.lines)).rev();
        let mut parts = Vec::new();
        for (number, section) in before {
            if parts.is_empty() {
                let entries = section.entries.iter().enumerate().rev();
                let near = entries.filter(|(_, (_, lines))| begun(lines));
                parts.extend(near.take(ENTRIES_TRIED_MAX).map(|(entry, _)| Part {
                    section: number,
                    entry: Some(entry),
                }));
            }
            parts.push(Part {
                section: number,
                entry: None,
            });
        }
        parts.retain(|part| !self.is_left_out(*part));
        parts
    }

    fn is_left_out(&self, part: Part) -> bool {
        let whole = Part {
            entry: None,
            ..part
        };
        self.left_out.contains(&part) || self.left_out.contains(&whole)
    }

    fn lines_of(&self, part: Part) -> Lines {
        let section = &self.sections[part.section];
        match part.entry {
            Some(entry) => section.entries[entry].1.clone(),
            None => section.lines.clone(),
        }
    }

    /// The text, with empty lines for what is left out.
    fn text(&self) -> String {
        let mut is_out = vec![false; self.lines.len()];
        for part in &self.left_out {
            is_out[self.lines_of(*part)].fill(true);
        }
        let lines = self.lines.iter().zip(is_out);
        lines
            .map(|(line, is_out)| if is_out { "\n" } else { line })
            .collect()
    }

    /// Says in the tree what is there and was left out.
    fn put_back(&self, whole: &mut Tree) {
        if matches!(whole.value, Value::Null) {
            whole.value = Value::Map(Vec::new());
            whole.at = Position { line: 1, column: 1 };
        }
        let Value::Map(sections) = &mut whole.value else {
            return;
        };
        for (number, section) in self.sections.iter().enumerate() {
            let out = |entry| {
                let section = number;
                self.is_left_out(Part { section, entry })
            };
            let entries = section.entries.iter().enumerate();
            let lost = entries.filter(|(entry, _)| out(Some(*entry)));
            let lost: Vec<&(Option<String>, Lines)> = lost.map(|(_, lost)| lost).collect();
            if lost.is_empty() && !out(None) {
                continue;
            }
            let at = section.lines.start;
            let place = match sections.iter().position(|one| one.key == section.key) {
                Some(place) => place,
                None => {
                    sections.push(broken(&section.key, at));
                    sections.len() - 1
                }
            };
            fill(&mut sections[place].tree, &lost);
        }
    }
}

/// Adds to a section what was lost of it; if that has no names, nothing is known of all of it.
fn fill(section: &mut Tree, lost: &[&(Option<String>, Lines)]) {
    let names: Option<Vec<Entry>> = lost
        .iter()
        .map(|(key, lines)| Some(broken(key.as_ref()?, lines.start)))
        .collect();
    match (&mut section.value, names) {
        (Value::Map(entries), Some(names)) => entries.extend(names),
        (Value::List(items), _) => items.push(Tree {
            at: section.at,
            value: Value::Broken,
        }),
        (value, Some(names)) if !names.is_empty() => *value = Value::Map(names),
        (value, _) => *value = Value::Broken,
    }
}

fn broken(key: &str, line: usize) -> Entry {
    let at = Position {
        line: u32::try_from(line + 1).unwrap_or(u32::MAX),
        column: 1,
    };
    Entry {
        key: key.to_owned(),
        at,
        tree: Tree {
            at,
            value: Value::Broken,
        },
    }
}

/// The sections of a text: keys in the first column, and what stands beneath each.
fn sections(text: &str) -> Vec<Section> {
    let lines: Vec<&str> = text.lines().collect();
    let is_key = |line: &str| key_of(line).is_some_and(|_| !line.starts_with([' ', '\t', '-']));
    let starts = (0..lines.len()).filter(|line| is_key(lines[*line]));
    let starts: Vec<usize> = starts.collect();
    let ends = starts.iter().skip(1).copied().chain([lines.len()]);
    let blocks = starts.iter().zip(ends);
    blocks
        .filter_map(|(start, end)| {
            Some(Section {
                key: key_of(lines[*start])?,
                lines: *start..end,
                entries: entries(&lines, start + 1..end),
            })
        })
        .collect()
}

/// The entries of a section: lines that are indented as its first one is.
fn entries(lines: &[&str], within: Lines) -> Vec<(Option<String>, Lines)> {
    let is_text = |line: &str| !matches!(line.trim_start().chars().next(), None | Some('#'));
    let indent = |line: &str| line.len() - line.trim_start().len();
    let mut texts = within.clone().filter(|line| is_text(lines[*line]));
    let Some(depth) = texts.next().map(|line| indent(lines[line])) else {
        return Vec::new();
    };
    // Whatever is indented by a tab belongs to what stands above.
    let has_tab = |line: &str| line[..indent(line)].contains('\t');
    let begins = |line: &usize| {
        let line = lines[*line];
        is_text(line) && !has_tab(line) && indent(line) <= depth
    };
    let starts: Vec<usize> = within.clone().filter(begins).collect();
    let ends = starts.iter().skip(1).copied().chain([within.end]);
    let blocks = starts.iter().zip(ends);
    blocks
        .map(|(start, end)| {
            let line = lines[*start].trim_start();
            let key = (!line.starts_with('-')).then(|| key_of(line)).flatten();
            (key, *start..end)
        })
        .collect()
}

/// The key that a line begins with.
fn key_of(line: &str) -> Option<String> {
    let (key, _) = line.split_once(':')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (!key.is_empty() && key.chars().all(is_word)).then(|| key.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with as many errors as lines: reading it again and again has an end.
    #[test]
    fn a_large_file_is_read_only_as_often_as_that_takes_a_moment() {
        for lines in [200, 80_000] {
            let text = format!("nfs:\n{}", "  x: ]\n".repeat(lines));
            let mut report = Report::new("chain.yaml", &text);
            let mut salvage = Salvage::of(&text);
            let error = read(&text).err().unwrap();
            assert!(salvage.go_on(error, &mut report).is_none());
            let bytes = salvage.readings * text.len();
            assert!(bytes <= BYTES_READ_MAX, "{} readings", salvage.readings);
            assert!(salvage.readings > 5 && report.error_count() > 1);
        }
    }
}
