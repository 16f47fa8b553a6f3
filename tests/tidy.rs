//! A unit test of the repository: what reviewers would otherwise have to say again and again.
//!
//! Each check takes the repository's text files and gives findings; each finding says how to repair
//! it. Beside each check stands a test that feeds it a bad sample, so that a check which finds
//! nothing is known to have looked. It belongs to `crates/cli`, whose manifest names this file.

#[path = "tidy/absent.rs"]
mod absent;
#[path = "tidy/crates.rs"]
mod crates;
#[path = "tidy/documents.rs"]
mod documents;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/promises.rs"]
mod promises;
#[path = "tidy/sources.rs"]
mod sources;
#[path = "tidy/trials.rs"]
mod trials;

use std::fmt;
use std::path::{Path, PathBuf};

/// A text file of the repository.
pub(crate) struct File {
    /// Path from the root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is(&self, extension: &str) -> bool {
        self.path.ends_with(extension)
    }
}

/// Something to be repaired.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1; 0 for the file as a whole.
    pub(crate) line: usize,
    /// What is wrong, and what to do.
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.message),
            line => write!(f, "{}:{line}: {}", self.path, self.message),
        }
    }
}

/// A finding at a line counted from 0.
pub(crate) fn at(file: &File, index: usize, message: impl Into<String>) -> Finding {
    Finding {
        path: file.path.clone(),
        line: index + 1,
        message: message.into(),
    }
}

/// A finding that concerns a whole file, or one that is missing.
pub(crate) fn whole(path: &str, message: impl Into<String>) -> Finding {
    Finding {
        path: path.to_owned(),
        line: 0,
        message: message.into(),
    }
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Folders that hold nothing a person wrote.
const NOT_OURS: &[&str] = &[".git", "target", "corpus", "artifacts", "node_modules"];
const TEXT_ENDINGS: &[&str] = &[
    ".rs",
    ".md",
    ".toml",
    ".yaml",
    ".yml",
    ".sh",
    ".py",
    ".json",
    "/test",
    "/run",
    "/Dockerfile",
];

/// Every text file of the repository.
pub(crate) fn repository() -> Vec<File> {
    let mut files = Vec::new();
    let mut open = vec![root()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = entry.path();
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                if !NOT_OURS.contains(&name.as_str()) {
                    open.push(path);
                }
                continue;
            }
            let relative = path.strip_prefix(root()).unwrap();
            let relative = relative.to_string_lossy().into_owned();
            let rooted = format!("/{relative}");
            if TEXT_ENDINGS.iter().any(|ending| rooted.ends_with(ending))
                && let Ok(text) = std::fs::read_to_string(&path)
            {
                files.push(File {
                    path: relative,
                    text,
                });
            }
        }
    }
    files.sort_by(|one, other| one.path.cmp(&other.path));
    assert!(files.len() > 100, "the repository was not found");
    files
}

/// Fails with everything that was found.
pub(crate) fn report(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} to repair:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

/// A file for a check's own test.
#[cfg(test)]
pub(crate) fn sample(path: &str, text: &str) -> File {
    File {
        path: path.to_owned(),
        text: text.to_owned(),
    }
}
