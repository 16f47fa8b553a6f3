//! A YAML document of another kind than a chain, whose values know their line and column.
//!
//! For the tools of crates that have documents of their own (programs, say): the same limits, the
//! same messages as chain files. Control path only.

use super::diagnostic::{ChainErrors, Diagnostic, Position, Report};
use super::parse::{self, Tree};

/// A parsed document and what has been found about it so far.
#[derive(Debug)]
pub struct Located<'a> {
    tree: Tree,
    report: Report<'a>,
}

impl<'a> Located<'a> {
    /// Parses the text of a file of this name.
    ///
    /// # Errors
    /// What is wrong with it as YAML.
    pub fn parse(file: &str, text: &'a str) -> Result<Self, ChainErrors> {
        let mut report = Report::new(file, text);
        match parse::parse(text, &mut report) {
            Some(tree) => Ok(Self { tree, report }),
            None => Err(report.finish().err().unwrap_or_else(|| ChainErrors {
                errors: Vec::new(),
                warnings: Vec::new(),
            })),
        }
    }

    /// The document as JSON.
    pub fn json(&self) -> serde_json::Value {
        self.tree.to_json()
    }

    /// Where the value at `path` (as in `rules[2].src`) stands, or its nearest parent; `offset`
    /// characters to the right if it is text on one line.
    pub fn place(&self, path: &str, offset: usize) -> Position {
        match self.tree.locate(path) {
            Some(at) => at.right(offset),
            None => self.tree.at,
        }
    }

    /// Something that must be changed.
    pub fn error(&mut self, path: &str, offset: usize, message: &str, repair: &str) {
        self.report.error(self.place(path, offset), message, repair);
    }

    /// Something to look at.
    pub fn warning(&mut self, path: &str, offset: usize, message: &str, repair: &str) {
        self.report
            .warning(self.place(path, offset), message, repair);
    }

    /// Whether something must be changed.
    pub fn has_errors(&self) -> bool {
        self.report.error_count() > 0
    }

    /// The warnings, or all that was found.
    ///
    /// # Errors
    /// If something must be changed.
    pub fn finish(self) -> Result<Vec<Diagnostic>, ChainErrors> {
        self.report.finish()
    }
}
