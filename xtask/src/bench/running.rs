//! A chain that a benchmark runs by the binary, and asks how it does.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::child::Guarded;

/// Longest wait until all workers run.
const START_TIMEOUT: Duration = Duration::from_secs(20);

/// A running chain; it ends when this is dropped.
pub(crate) struct Running {
    binary: PathBuf,
    folder: PathBuf,
    name: String,
    child: Guarded,
}

impl Running {
    /// Starts the chain of this name and text, within `words` of a namespace; returns when all of
    /// it runs.
    pub(crate) fn start(
        binary: PathBuf,
        folder: PathBuf,
        (name, text): (&str, &str),
        enter: impl FnOnce(Vec<String>) -> Vec<String>,
    ) -> Result<Self, String> {
        let file = folder.join("chain.yaml");
        std::fs::write(&file, text).map_err(|error| error.to_string())?;
        let command = [
            binary.display().to_string(),
            "run".into(),
            "--quiet".into(),
            file.display().to_string(),
        ];
        let words = enter(command.into());
        let log = folder.join("chain.log");
        let environment = [("CATENA_RUNTIME_DIR", folder.as_path())];
        let child = Guarded::start(&words[0], &words[1..], &environment, log)
            .map_err(|error| format!("catena run: {error}"))?;
        let mut chain = Self {
            binary,
            folder,
            name: name.to_owned(),
            child,
        };
        let deadline = Instant::now() + START_TIMEOUT;
        loop {
            if let Some(status) = chain.child.ended() {
                let cause = chain.child.error_tail();
                return Err(format!("catena run: {status}: {cause}"));
            }
            let runs = |status: &Value| {
                let mut workers = status["workers"].as_array()?.iter();
                Some(workers.all(|worker| worker["state"] == "running"))
            };
            if chain.status().ok().as_ref().and_then(runs) == Some(true) {
                return Ok(chain);
            }
            if Instant::now() >= deadline {
                return Err("catena run: it did not run in time".to_owned());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// What `catena status` says.
    pub(crate) fn status(&self) -> Result<Value, String> {
        let output = Command::new(&self.binary)
            .args(["status", &self.name, "--json"])
            .env("CATENA_RUNTIME_DIR", &self.folder)
            .output()
            .map_err(|error| format!("catena status: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|error| format!("catena status: {error}"))
    }
}
