//! Catena's own side of each benchmark: the release binary as a child process.
//!
//! Each measurement is one command that runs for the given seconds, prints one JSON line as the
//! last line of standard output, and exits with 0:
//!
//! | Command                                                                              | Line |
//! |--------------------------------------------------------------------------------------|------|
//! | `catena bench link --trust TRUST --size B --seconds N --cores A,B --json`             | rate |
//! | `catena bench hop --seconds N --cores A,B --json` (one core: `--cores A,A`)           | hop  |
//! | `catena bench generator --size B --seconds N --cores A,B --json`                      | rate |
//! | `catena bench chain --mode MODE --length L --size B --seconds N --cores A,B --json`   | rate |
//!
//! `link` and `chain` take `--aggregate`, `--rate` and `--latency` too, `chain` also `--inner` and
//! `--shape`; then a rate may have the members of [`OwnLoaded`].
//!
//! A rate is `{"mpps":F,"ns_per_packet":F}`: packets received at the far end, in millions per
//! second, and its inverse as the whole chain takes it. A hop is `{"p50_ns":F,"p99_ns":F}`, one
//! way. Further members are allowed. A command that is missing, fails, or prints no such line
//! gives an error that names it; the benchmark then reports that row as not measured.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::child::Guarded;
use super::work_dir::WorkDir;

/// Start, calibration and end of one command, beyond the measured seconds.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);

/// How two ends of a link trust each other; the names are those of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Trust {
    /// Nothing is shared but the ring.
    Copy,
    /// Zero-copy; the receiver's mapping is read-only.
    Ro,
    /// Zero-copy; both ends write.
    Shared,
}

impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Copy => "copy",
            Self::Ro => "ro",
            Self::Shared => "shared",
        })
    }
}

/// Where the NFs of a chain run; the names are those of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// All in one thread.
    Inline,
    /// A process each.
    Process,
    /// A thread each.
    Thread,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Inline => "inline",
            Self::Process => "process",
            Self::Thread => "thread",
        })
    }
}

/// A rate that the binary reports.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) struct OwnRate {
    pub(crate) mpps: f64,
    pub(crate) ns_per_packet: f64,
}

/// A rate with what else a loaded chain tells of itself.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) struct OwnLoaded {
    /// Received, in millions per second.
    pub(crate) mpps: f64,
    pub(crate) ns_per_packet: f64,
    /// From when a packet was due, or written where no rate is set, to the sink.
    pub(crate) p50_ns: Option<f64>,
    pub(crate) p99_ns: Option<f64>,
    pub(crate) mean_ns: Option<f64>,
    /// Share of packets that crossed links in bundles.
    pub(crate) bundled_share: Option<f64>,
    pub(crate) packets_per_bundle: Option<f64>,
}

/// Which links of a chain may pack packets into bundles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Packing {
    /// None.
    Off,
    /// The first and the last, where they find it worth it.
    Io,
    /// All, where they find it worth it.
    Auto,
    /// All, whenever two packets are in hand.
    On,
}

impl Packing {
    fn arguments(self) -> &'static str {
        match self {
            Self::Off => " --aggregate off",
            Self::Io => " --aggregate auto --inner off",
            Self::Auto => " --aggregate auto",
            Self::On => " --aggregate on",
        }
    }
}

impl fmt::Display for Packing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Io => "I/O only",
            Self::Auto => "auto",
            Self::On => "on",
        })
    }
}

/// A one-way hop time that the binary reports.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub(crate) struct OwnHop {
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
}

/// Why Catena gave no figure.
#[derive(Clone, Debug)]
pub(crate) struct OwnError {
    command: String,
    reason: String,
}

impl OwnError {
    /// A failure of `command`.
    pub(crate) fn new(command: impl Into<String>, reason: impl Into<String>) -> Self {
        Self {
            command: command.into(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for OwnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.command, self.reason)
    }
}

impl std::error::Error for OwnError {}

/// The built binary, and the limits under which it runs.
#[derive(Debug)]
pub(crate) struct Own {
    binary: PathBuf,
    built: Result<(), OwnError>,
    deadline: Option<Instant>,
    work_dir: Rc<WorkDir>,
}

impl Own {
    /// Builds the release binary of the repository at `root`.
    pub(crate) fn build(root: &Path, work_dir: Rc<WorkDir>) -> Self {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| root.join("target"), |directory| root.join(directory));
        let status = Command::new(cargo)
            .current_dir(root)
            .args(["build", "--release", "--quiet"])
            .status();
        let built = match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(status.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let built = built.map_err(|reason| OwnError {
            command: "cargo build --release".to_owned(),
            reason,
        });
        let binary = target.join("release/catena");
        Self {
            binary,
            built,
            deadline: None,
            work_dir,
        }
    }

    /// A program that is there already.
    pub(crate) fn given(binary: &Path, work_dir: Rc<WorkDir>) -> Self {
        Self {
            binary: binary.to_owned(),
            built: Ok(()),
            deadline: None,
            work_dir,
        }
    }

    /// Sets the time by which all runs must have ended.
    pub(crate) fn set_deadline(&mut self, deadline: Option<Instant>) {
        self.deadline = deadline;
    }

    /// The rate of one link between two processes, one core each, packet by packet.
    pub(crate) fn link(
        &self,
        trust: Trust,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<OwnRate, OwnError> {
        self.run(
            &format!("link --trust {trust} --size {packet_size} --aggregate off"),
            seconds.into(),
            cores,
        )
    }

    /// The one-way time of a lone packet's hop between two processes on `cores`.
    pub(crate) fn hop(&self, seconds: u32, cores: [usize; 2]) -> Result<OwnHop, OwnError> {
        self.run("hop", seconds.into(), cores)
    }

    /// The end-to-end rate of `length` NFs.
    pub(crate) fn chain(
        &self,
        mode: Mode,
        length: usize,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<OwnRate, OwnError> {
        let what = format!("chain --mode {mode} --length {length} --size {packet_size}");
        self.run(&what, seconds.into(), cores)
    }

    /// A link, chain or hop by its further arguments, with packing as given; so many seconds
    /// unmeasured, then measured.
    pub(crate) fn packed<T: DeserializeOwned>(
        &self,
        what: &str,
        packing: Packing,
        (warm_up, seconds): (f64, f64),
        cores: [usize; 2],
    ) -> Result<T, OwnError> {
        let key = packing.arguments();
        self.run(&format!("{what}{key} --warm-up {warm_up}"), seconds, cores)
    }

    /// Rate of the traffic generator over a link to a receiver.
    pub(crate) fn generator(
        &self,
        packet_size: usize,
        seconds: u32,
        cores: [usize; 2],
    ) -> Result<OwnRate, OwnError> {
        let what = format!("generator --size {packet_size} --burst 128");
        self.run(&what, seconds.into(), cores)
    }

    /// The program, for runs that are measured from outside.
    pub(crate) fn binary(&self) -> Result<&Path, OwnError> {
        self.built.clone().map(|()| self.binary.as_path())
    }

    /// Where logs and the files of a run go.
    pub(crate) fn work_dir(&self) -> Rc<WorkDir> {
        Rc::clone(&self.work_dir)
    }

    fn run<T: DeserializeOwned>(
        &self,
        what: &str,
        seconds: f64,
        cores: [usize; 2],
    ) -> Result<T, OwnError> {
        self.built.clone()?;
        let [a, b] = cores;
        let arguments = format!("bench {what} --seconds {seconds} --cores {a},{b} --json");
        let failed = |reason: String| OwnError {
            command: format!("catena {arguments}"),
            reason,
        };
        let limit = Instant::now() + COMMAND_TIMEOUT + Duration::from_secs_f64(seconds);
        let deadline = self.deadline.map_or(limit, |all| all.min(limit));
        let log = self.work_dir.path().join("catena.log");
        let mut child = Guarded::start(&self.binary, arguments.split(' '), &[], log)
            .map_err(|error| failed(error.to_string()))?;
        let mut last = String::new();
        while let Some((_, line)) = child.next_line(deadline) {
            if !line.trim().is_empty() {
                last = line;
            }
        }
        match child.wait(deadline) {
            None => Err(failed("did not end within the time limit".to_owned())),
            Some(status) if !status.success() => {
                Err(failed(format!("{status}: {}", child.error_tail())))
            }
            Some(_) => parse_line(&last).map_err(failed),
        }
    }
}

/// Reads the result line.
fn parse_line<T: DeserializeOwned>(line: &str) -> Result<T, String> {
    if line.is_empty() {
        return Err("printed no result line; is the subcommand there?".to_owned());
    }
    serde_json::from_str(line).map_err(|error| format!("result line not understood: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_line_may_hold_further_members() {
        let line = r#"{"mpps":98.5,"ns_per_packet":10.15,"drops":0}"#;
        assert_eq!(
            parse_line(line),
            Ok(OwnRate {
                mpps: 98.5,
                ns_per_packet: 10.15
            })
        );
    }

    #[test]
    fn silence_and_foreign_lines_are_errors() {
        assert!(parse_line::<OwnHop>("").is_err());
        assert!(parse_line::<OwnHop>("Hello").is_err());
        assert!(parse_line::<OwnHop>(r#"{"p50_ns":1.0}"#).is_err());
    }
}
