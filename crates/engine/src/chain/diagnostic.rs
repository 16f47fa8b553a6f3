//! What is wrong with a chain file: where, what, and what to write instead.
//!
//! A `Report` collects everything that the steps of checking find, in any order; what comes out is
//! sorted by position, so that the same file always gives the same text.

use std::fmt;
use std::sync::Arc;

use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};

use super::values::printed;

/// A place in a file: line and column in characters, both counted from 1. Line 0 is the whole file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position {
    /// Line.
    pub line: u32,
    /// Column.
    pub column: u32,
}

impl Position {
    /// No line in particular.
    pub const FILE: Self = Self { line: 0, column: 0 };

    /// The place `chars` characters to the right.
    #[must_use]
    pub fn right(self, chars: usize) -> Self {
        let chars = u32::try_from(chars).unwrap_or(u32::MAX);
        Self {
            column: self.column.saturating_add(chars),
            ..self
        }
    }
}

/// Whether the chain can run all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// It cannot.
    Error,
    /// It can, but does not do all that the file says, or less than its writer may expect.
    Warning,
}

/// One finding about a chain file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Where.
    pub at: Position,
    /// How bad.
    pub severity: Severity,
    /// What is wrong.
    pub message: String,
    /// What to write instead.
    pub repair: String,
    file: Arc<str>,
    source: Option<Excerpt>,
}

/// The part of a source line around a place, and how many characters stand before that place.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Excerpt {
    text: String,
    indent: usize,
}

/// Most characters of an excerpt: a line of a hostile file may have a million.
const EXCERPT_CHARS_MAX: usize = 100;

impl Excerpt {
    fn of(line: &str, at: Position) -> Self {
        let caret = (at.column as usize).saturating_sub(1);
        let start = caret.saturating_sub(EXCERPT_CHARS_MAX * 3 / 4);
        let shown = line.chars().skip(start).take(EXCERPT_CHARS_MAX);
        // One for one, so that the caret stands below its place.
        let plain = |c: char| printed(c).eq([c]);
        let text: String = shown.map(|c| if plain(c) { c } else { ' ' }).collect();
        Self {
            text: text.trim_end().to_owned(),
            indent: caret - start,
        }
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if self.at != Position::FILE {
            write!(f, ":{}:{}", self.at.line, self.at.column)?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(f, ": {severity}: {}", self.message)?;
        if let Some(Excerpt { text, indent }) = &self.source {
            let number = self.at.line.to_string();
            let margin = number.len();
            writeln!(f, "  {number} | {text}")?;
            writeln!(f, "  {:margin$} | {:indent$}^", "", "")?;
        }
        writeln!(f, "  repair: {}", self.repair)
    }
}

impl Serialize for Diagnostic {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("Diagnostic", 4)?;
        object.serialize_field("line", &self.at.line)?;
        object.serialize_field("column", &self.at.column)?;
        object.serialize_field("message", &self.message)?;
        object.serialize_field("repair", &self.repair)?;
        object.end()
    }
}

/// Why a chain file is refused: everything that is wrong with it, in the file's order; never empty.
///
/// As text it is for people, with source lines; serialised it is a list of
/// `{line, column, message, repair}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChainErrors {
    /// The errors.
    pub errors: Vec<Diagnostic>,
    /// What else was found.
    pub warnings: Vec<Diagnostic>,
}

impl fmt::Display for ChainErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.errors.iter().try_for_each(|error| error.fmt(f))
    }
}

impl std::error::Error for ChainErrors {}

impl Serialize for ChainErrors {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.errors.serialize(serializer)
    }
}

/// Most characters of a message or repair: it may quote a value of the file.
const SENTENCE_CHARS_MAX: usize = 400;

/// What may be shown of a sentence: not too long, and without what a file would tell a terminal.
fn shown(sentence: &str) -> String {
    let mut chars = sentence.chars().flat_map(printed);
    let mut shown: String = chars.by_ref().take(SENTENCE_CHARS_MAX).collect();
    if chars.next().is_some() {
        shown.push_str("...");
    }
    shown
}

/// Most findings about one file: nobody reads more, and a hostile file may hold a million.
const FOUND_COUNT_MAX: usize = 200;

/// Collects findings about one file.
#[derive(Debug)]
pub(super) struct Report<'a> {
    file: Arc<str>,
    lines: Vec<&'a str>,
    found: Vec<Diagnostic>,
}

impl<'a> Report<'a> {
    pub(super) fn new(file: &str, text: &'a str) -> Self {
        Self {
            file: file.chars().flat_map(printed).collect::<String>().into(),
            lines: text.lines().collect(),
            found: Vec::new(),
        }
    }

    /// The line that `at` lies on.
    pub(super) fn line(&self, at: Position) -> Option<&'a str> {
        let index = (at.line as usize).checked_sub(1)?;
        self.lines.get(index).copied()
    }

    /// The first tab on the line of `at` or below: parsers name a place near it. `at` if there is
    /// none.
    pub(super) fn first_tab(&self, at: Position) -> Position {
        let skipped = (at.line as usize).saturating_sub(1);
        let lines = self.lines.iter().zip(1..).skip(skipped);
        let tab = |(line, number): (&&str, u32)| {
            let column = line.chars().position(|c| c == '\t')?;
            let start = Position {
                line: number,
                column: 1,
            };
            Some(start.right(column))
        };
        lines.filter_map(tab).next().unwrap_or(at)
    }

    pub(super) fn error(
        &mut self,
        at: Position,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        self.add(Severity::Error, at, message.into(), repair.into());
    }

    pub(super) fn warning(
        &mut self,
        at: Position,
        message: impl Into<String>,
        repair: impl Into<String>,
    ) {
        self.add(Severity::Warning, at, message.into(), repair.into());
    }

    fn add(&mut self, severity: Severity, at: Position, message: String, repair: String) {
        if self.found.len() > FOUND_COUNT_MAX {
            return;
        }
        let (at, message, repair) = if self.found.len() == FOUND_COUNT_MAX {
            let message = format!("there is more to find than these {FOUND_COUNT_MAX}");
            (Position::FILE, message, "repair these first".to_owned())
        } else {
            (at, message, repair)
        };
        let source = self.line(at).map(|line| Excerpt::of(line, at));
        let (message, repair) = (shown(&message), shown(&repair));
        self.found.push(Diagnostic {
            at,
            severity,
            message,
            repair,
            file: Arc::clone(&self.file),
            source,
        });
    }

    pub(super) fn error_count(&self) -> usize {
        let is_error = |found: &&Diagnostic| found.severity == Severity::Error;
        self.found.iter().filter(is_error).count()
    }

    /// The warnings, or all that is wrong.
    pub(super) fn finish(mut self) -> Result<Vec<Diagnostic>, ChainErrors> {
        self.found.sort_by(|a, b| {
            let key = |d: &Diagnostic| (d.at, d.severity);
            key(a).cmp(&key(b)).then_with(|| a.message.cmp(&b.message))
        });
        self.found.dedup();
        let (errors, warnings): (Vec<_>, Vec<_>) = self
            .found
            .into_iter()
            .partition(|found| found.severity == Severity::Error);
        if errors.is_empty() {
            Ok(warnings)
        } else {
            Err(ChainErrors { errors, warnings })
        }
    }
}
