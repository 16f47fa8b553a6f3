//! Other YAML documents than chain files, refused in the same words: traffic profiles, studies.
//!
//! A document is one value that its own crate reads and judges; what that crate finds by path
//! becomes lines and columns here, as it does for the configuration of an NF.

use std::path::Path;

use super::config::Subject;
use crate::chain::diagnostic::{ChainErrors, Position, Report};
use crate::chain::parse;
use crate::chain::text::read_text;
use crate::config::ConfigErrors;

/// A kind of document.
#[derive(Clone, Copy)]
pub struct DocumentKind<T> {
    /// What it is called in messages: `profile`.
    pub name: &'static str,
    /// Its JSON Schema.
    pub schema: fn() -> schemars::Schema,
    /// Reads and judges it: everything that is wrong, by path.
    pub check: fn(&serde_json::Value) -> Result<T, ConfigErrors>,
}

impl<T> std::fmt::Debug for DocumentKind<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DocumentKind")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl<T> DocumentKind<T> {
    /// Reads and checks the document in a file.
    ///
    /// # Errors
    /// Everything that is wrong with it, or why it cannot be read.
    pub fn load(&self, path: &Path) -> Result<T, ChainErrors> {
        let name = path.display().to_string();
        match read_text(path) {
            Ok(text) => self.parse(&text, &name),
            Err(reason) => {
                let mut report = Report::new(&name, "");
                report.error(
                    Position::FILE,
                    format!("cannot read the {}: {reason}", self.name),
                    "name a YAML file that you may read",
                );
                Err(report.finish().expect_err("there is an error"))
            }
        }
    }

    /// Checks the text of a document; `file` names it in messages.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(&self, text: &str, file: &str) -> Result<T, ChainErrors> {
        let mut report = Report::new(file, text);
        let checked = parse::parse(text, &mut report).and_then(|tree| {
            (self.check)(&tree.to_json())
                .map_err(|errors| {
                    let subject = Subject {
                        kind: self.name,
                        schema: self.schema,
                        at: tree.at,
                        tree: &tree,
                    };
                    subject.report(&mut report, errors);
                })
                .ok()
        });
        report.finish()?;
        Ok(checked.expect("a document that is not read has errors"))
    }
}
