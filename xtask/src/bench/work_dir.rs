//! The directory of a benchmark's sockets and logs, gone when the benchmark is gone.
//!
//! Returning or panicking removes it by `Drop`. Ctrl-C and SIGKILL cannot run `Drop`, so a sweeper
//! process of its own group waits for the end of a pipe that only the harness holds, and removes
//! what is left then; the children that write there have died with the harness (see `child`).
//!
//! SPDX-License-Identifier: Apache-2.0

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Name of the hidden subcommand that removes a directory when its standard input ends.
pub(crate) const SWEEP: &str = "sweep";

/// Arguments of the hidden subcommand.
#[derive(clap::Args)]
pub(crate) struct SweepArguments {
    /// Directory to remove
    directory: PathBuf,
}

/// Children that die with the harness may write for a moment longer.
const SWEEP_LIMIT: Duration = Duration::from_secs(5);

/// Waits for the end of standard input, then removes the directory.
pub(crate) fn sweep(arguments: &SweepArguments) -> Result<(), Box<dyn std::error::Error>> {
    io::stdin().read_to_end(&mut Vec::new())?;
    let end = Instant::now() + SWEEP_LIMIT;
    while arguments.directory.exists() {
        let removed = std::fs::remove_dir_all(&arguments.directory);
        if Instant::now() >= end {
            return removed.map_err(Into::into);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// A private directory for sockets, logs and the peers' run-time files; removed when dropped.
///
/// The name holds the harness's process id, so that a later run can remove what a killed one left.
#[derive(Debug)]
pub(crate) struct WorkDir {
    path: PathBuf,
    sweeper: Option<Child>,
}

/// Short, because a Unix socket's path may not exceed 107 bytes.
const WORK_DIR_PREFIX: &str = "catena-bench-";

impl WorkDir {
    /// Creates the directory and removes those of runs that are gone.
    pub(crate) fn new() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        for entry in std::fs::read_dir(&parent)?.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|n| n.strip_prefix(WORK_DIR_PREFIX)) else {
                continue;
            };
            if id.parse::<u32>().is_ok() && !Path::new("/proc").join(id).exists() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let path = parent.join(format!("{WORK_DIR_PREFIX}{}", std::process::id()));
        let mut builder = std::fs::DirBuilder::new();
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(&path)?;
        let sweeper = Command::new(std::env::current_exe()?)
            .arg(SWEEP)
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        Ok(Self {
            path,
            sweeper: Some(sweeper),
        })
    }

    /// Path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
        if let Some(mut sweeper) = self.sweeper.take() {
            drop(sweeper.stdin.take());
            let _ = sweeper.wait();
        }
    }
}
