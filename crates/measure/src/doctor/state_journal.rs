//! The journal of changed P and C states: what files held before, on the disk before each change.
//!
//! One JSON value a line, in the order of change. Who changes states holds its lock; see
//! [`super::states`] for who restores.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};

use super::Tree;

/// Why states could not be set.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Another study holds them.
    #[error("another process has changed P or C states; wait for its end ({0})")]
    Busy(PathBuf),
    /// A file could not be written.
    #[error("{path}: {reason}; run as root")]
    Write {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        reason: std::io::Error,
    },
}

pub(super) fn failed(path: &Path) -> impl Fn(std::io::Error) -> StateError {
    let path = path.to_owned();
    move |reason| StateError::Write {
        path: path.clone(),
        reason,
    }
}

/// A line of the journal: a file and what it held.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Entry {
    pub(super) path: String,
    pub(super) original: String,
}

/// The old values of changed files, in the order of change; locked.
#[derive(Debug)]
pub(super) struct Journal {
    pub(super) path: PathBuf,
    file: File,
}

impl Journal {
    fn open(path: &Path) -> Result<Self, StateError> {
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).map_err(failed(folder))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // A journal names files to be written by root: nobody else may write it.
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(Self {
            path: path.to_owned(),
            file: options.open(path).map_err(failed(path))?,
        })
    }

    /// Opens and locks it.
    pub(super) fn lock(path: &Path) -> Result<Self, StateError> {
        let journal = Self::open(path)?;
        flock(&journal.file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| StateError::Busy(path.to_owned()))?;
        Ok(journal)
    }

    /// Opens it and waits for its lock.
    pub(super) fn wait_for(path: &Path) -> Result<Self, StateError> {
        let journal = Self::open(path)?;
        flock(&journal.file, FlockOperation::LockExclusive)
            .map_err(|error| failed(path)(error.into()))?;
        Ok(journal)
    }

    pub(super) fn unlock(&self) {
        // A lock that cannot be released goes with the file.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }

    /// Notes an old value; it is on the disk when this returns.
    pub(super) fn note(&mut self, entry: &Entry) -> Result<(), StateError> {
        let text =
            serde_json::to_string(entry).map_err(|error| failed(&self.path)(error.into()))?;
        let written = writeln!(self.file, "{text}").and_then(|()| self.file.sync_data());
        written.map_err(failed(&self.path))
    }

    /// The entries. A last line without its end was never followed by a change.
    pub(super) fn entries(&self) -> Result<Vec<Entry>, StateError> {
        let mut reader = BufReader::new(&self.file);
        reader
            .seek(SeekFrom::Start(0))
            .map_err(failed(&self.path))?;
        let mut entries = Vec::new();
        let mut line = String::new();
        while reader.read_line(&mut line).map_err(failed(&self.path))? > 0 {
            if line.ends_with('\n')
                && let Ok(entry) = serde_json::from_str(&line)
            {
                entries.push(entry);
            }
            line.clear();
        }
        Ok(entries)
    }

    /// Writes all old values back, the last change first, and empties the journal.
    pub(super) fn restore(&self, tree: &Tree) -> Result<(), StateError> {
        let mut first_error = None;
        for entry in self.entries()?.iter().rev() {
            let path = tree.path(&entry.path);
            if let Err(error) = std::fs::write(&path, &entry.original) {
                first_error.get_or_insert(failed(&path)(error));
            }
        }
        match first_error {
            Some(error) => Err(error),
            None => self.file.set_len(0).map_err(failed(&self.path)),
        }
    }
}
