//! Catena as the one that forwards: a chain of two ports and `macswap`, in one worker.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::super::child::Guarded;

/// Longest wait until all workers run.
const START_TIMEOUT: Duration = Duration::from_secs(20);
const NAME: &str = "ports";

/// Where the chain's nodes run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// `left` to `right`, in one loop on a core.
    OneWay { core: usize },
    /// Both ways, in one loop on a core.
    BothWays { core: usize },
    /// `left` to `right` through an NF in a process of its own.
    Isolated,
}

/// The chain file.
pub(super) fn text(left: &str, right: &str, shape: Shape) -> String {
    let nodes = |core: usize| format!("run: {{ mode: inline, wait: spin, cores: [{core}] }}\n");
    let head = format!("name: {NAME}\nports:\n  left: {left}\n  right: {right}\n");
    let swap = "nfs:\n  swap: { type: macswap }\n";
    let back = "  back: { type: macswap }\n";
    let to_right = "links:\n  - left -> swap -> right\n";
    match shape {
        Shape::OneWay { core } => head + swap + to_right + &nodes(core),
        Shape::BothWays { core } => {
            head + swap + back + to_right + "  - right -> back -> left\n" + &nodes(core)
        }
        Shape::Isolated => {
            head + swap
                + "links:\n  - { link: left -> swap, aggregate: off }\n  \
                   - { link: swap -> right, aggregate: off }\nrun: { mode: process }\n"
        }
    }
}

/// A running chain; it ends when this is dropped.
pub(super) struct Chain {
    binary: PathBuf,
    folder: PathBuf,
    child: Guarded,
}

impl Chain {
    /// Starts the chain of that file, within `words` of a namespace; returns when all of it runs.
    pub(super) fn start(
        binary: PathBuf,
        folder: PathBuf,
        text: &str,
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
    pub(super) fn status(&self) -> Result<Value, String> {
        let output = Command::new(&self.binary)
            .args(["status", NAME, "--json"])
            .env("CATENA_RUNTIME_DIR", &self.folder)
            .output()
            .map_err(|error| format!("catena status: {error}"))?;
        serde_json::from_slice(&output.stdout).map_err(|error| format!("catena status: {error}"))
    }

    /// Mpps that the ports send, over so many seconds.
    pub(super) fn rate(&self, seconds: u32) -> Result<f64, String> {
        let (before, start) = (sent(&self.status()?), Instant::now());
        std::thread::sleep(Duration::from_secs(seconds.into()));
        let (after, elapsed) = (sent(&self.status()?), start.elapsed());
        if after == before {
            return Err("catena: nothing was sent".to_owned());
        }
        Ok((after - before) as f64 / elapsed.as_secs_f64() / 1e6)
    }
}

/// Packets that ports have sent.
pub(super) fn sent(status: &Value) -> u64 {
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let ports = nodes.filter(|node| node["name"] == "left" || node["name"] == "right");
    ports.filter_map(|port| port["tx_packets"].as_u64()).sum()
}

/// Bytes that Catena has copied: ports where a packet does not lie in their pool, links where they
/// pack packets.
pub(super) fn copied(status: &Value) -> u64 {
    let nodes = status["nodes"].as_array().into_iter().flatten();
    let ports = nodes.filter_map(|node| node["counters"]["copied_bytes"].as_u64());
    let links = status["links"].as_array().into_iter().flatten();
    let packed = links.filter_map(|link| link["packed_bytes"].as_u64());
    ports.chain(packed).sum()
}
