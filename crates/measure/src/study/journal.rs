//! The journal of a study: every trial, on the disk before the next one begins.
//!
//! One JSON value a line. The first line says which study this is; each further one is a
//! [`Record`], or a [`Run`] of the command that measures: one before its first trial, and again
//! with the noise floor behind its last. With them a report that is drawn from the journal is the
//! one that was written first. Lines are only ever appended, each in one write that is
//! synchronised, so that after a crash at most the last line is half there; it is dropped with a
//! word. Who writes holds a lock.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::record::Record;
use super::run::Run;

/// Version of the form of journals; goes up when a reader of the old form would err.
pub const SCHEMA: &str = "catena.measure.study/2";
/// Versions that are read, and gone on with: the first has no runs.
const READ: [&str; 2] = ["catena.measure.study/1", SCHEMA];

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`SCHEMA`].
    pub schema: String,
    /// When the study began, RFC 3339.
    pub began: String,
    /// The study with everything that decides what is measured.
    pub study: Value,
}

/// A line with a run.
#[derive(Debug, Serialize, Deserialize)]
struct RunLine {
    run: Run,
}

/// Why a journal cannot be gone on with.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The disk, or permissions.
    #[error("{path}: {reason}; make the folder writable, or give another --out")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// Somebody writes it.
    #[error("{0}: another study writes it; wait for its end, or give another --out")]
    Busy(PathBuf),
    /// It is of another study.
    #[error(
        "{path} is of another study ({differs} differ); give another --out, or move that folder \
         away"
    )]
    Differs {
        /// The file.
        path: PathBuf,
        /// Which parts.
        differs: String,
    },
    /// A line that was written whole and is not of this form.
    #[error(
        "{path}:{line}: {reason}; restore the file, or remove that line: its trial is repeated"
    )]
    Line {
        /// The file.
        path: PathBuf,
        /// Number of the line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
}

/// A journal that is open for writing.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: File,
}

/// What was in it.
#[derive(Debug, PartialEq)]
pub struct Contents {
    /// When the study began.
    pub began: String,
    /// Trials that were run, in that order.
    pub records: Vec<Record>,
    /// Runs of the command that measured them; those of older versions are not in the journal.
    pub runs: Vec<Run>,
    /// Bytes of a last line that was not written whole, and is gone now.
    pub dropped_len: usize,
}

impl Journal {
    /// Opens the journal of `study`, or makes it, with `now` as its beginning.
    ///
    /// # Errors
    /// See [`JournalError`]; the file is left as it was.
    pub fn open(path: &Path, study: &Value, now: &str) -> Result<(Self, Contents), JournalError> {
        let failed = |reason| JournalError::File {
            path: path.to_owned(),
            reason,
        };
        let mut options = OpenOptions::new();
        let file = options.read(true).append(true).create(true).open(path);
        let mut journal = Self {
            file: file.map_err(failed)?,
            path: path.to_owned(),
        };
        flock(&journal.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| JournalError::Busy(path.to_owned()))?;
        let mut text = Vec::new();
        journal.file.read_to_end(&mut text).map_err(failed)?;
        let whole_len = text
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |last| last + 1);
        let contents = journal.contents(&text[..whole_len], study)?;
        let dropped_len = text.len() - whole_len;
        if dropped_len > 0 {
            journal.file.set_len(whole_len as u64).map_err(failed)?;
            journal.file.seek(SeekFrom::End(0)).map_err(failed)?;
        }
        let contents = match contents {
            Some(contents) => Contents {
                dropped_len,
                ..contents
            },
            None => {
                journal.append(&Header {
                    schema: SCHEMA.to_owned(),
                    began: now.to_owned(),
                    study: study.clone(),
                })?;
                Contents {
                    began: now.to_owned(),
                    records: Vec::new(),
                    runs: Vec::new(),
                    dropped_len,
                }
            }
        };
        Ok((journal, contents))
    }

    /// What stands in it; `None` if there is not even a header.
    fn contents(&self, text: &[u8], study: &Value) -> Result<Option<Contents>, JournalError> {
        let wrong = |line: usize, reason: String| JournalError::Line {
            path: self.path.clone(),
            line,
            reason,
        };
        let mut lines = text.split_inclusive(|byte| *byte == b'\n');
        let Some(first) = lines.next() else {
            return Ok(None);
        };
        let header: Header = serde_json::from_slice(first)
            .map_err(|error| wrong(1, format!("this is no journal of a study: {error}")))?;
        if !READ.contains(&header.schema.as_str()) {
            let reason = format!("its form is \"{}\", this reads \"{SCHEMA}\"", header.schema);
            return Err(wrong(1, reason));
        }
        let differs = differences(&header.study, study);
        if !differs.is_empty() {
            return Err(JournalError::Differs {
                path: self.path.clone(),
                differs: differs.join(", "),
            });
        }
        let mut contents = Contents {
            began: header.began,
            records: Vec::new(),
            runs: Vec::new(),
            dropped_len: 0,
        };
        for (line, number) in lines.zip(2..) {
            match serde_json::from_slice(line) {
                Ok(record) => contents.records.push(record),
                Err(error) => match serde_json::from_slice(line) {
                    Ok(RunLine { run }) => run.join(&mut contents.runs),
                    Err(_) => return Err(wrong(number, format!("this is no trial: {error}"))),
                },
            }
        }
        Ok(Some(contents))
    }

    /// Notes a trial; it is on the disk when this returns.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn note(&mut self, record: &Record) -> Result<(), JournalError> {
        self.append(record)
    }

    /// Notes a run of the command, when it begins and again when it ends.
    ///
    /// # Errors
    /// The disk is full or gone.
    pub fn note_run(&mut self, run: &Run) -> Result<(), JournalError> {
        self.append(&RunLine { run: run.clone() })
    }

    fn append(&mut self, line: &impl Serialize) -> Result<(), JournalError> {
        let failed = |reason| JournalError::File {
            path: self.path.clone(),
            reason,
        };
        let mut text = serde_json::to_vec(line).map_err(|error| failed(error.into()))?;
        text.push(b'\n');
        let written = self
            .file
            .write_all(&text)
            .and_then(|()| self.file.sync_data());
        written.map_err(failed)
    }
}

/// Names of the parts in which two studies differ.
fn differences(one: &Value, other: &Value) -> Vec<String> {
    let (Value::Object(one), Value::Object(other)) = (one, other) else {
        return vec!["all".to_owned()];
    };
    let names: std::collections::BTreeSet<_> = one.keys().chain(other.keys()).collect();
    let differ = names
        .into_iter()
        .filter(|name| one.get(*name) != other.get(*name));
    differ.cloned().collect()
}

/// The record of each trial: the last that gave a result, else the last.
pub fn latest(records: &[Record]) -> BTreeMap<(u32, BTreeMap<String, String>), &Record> {
    let mut latest: BTreeMap<_, &Record> = BTreeMap::new();
    for record in records {
        let key = (record.block, record.cell.clone());
        let has_result = latest.get(&key).is_some_and(|found| found.result.is_ok());
        if record.result.is_ok() || !has_result {
            latest.insert(key, record);
        }
    }
    latest
}
