//! DPDK's rte_hash as a peer: builds a C program against Debian's `libdpdk-dev` and runs it.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use super::super::child::Guarded;
use super::super::install;

const SOURCE: &str = include_str!("rte_hash.c");
/// One small plug-in, so that DPDK does not load all of its drivers.
const PLUGIN: &str = "librte_mempool_ring.so";
const LIMIT: Duration = Duration::from_secs(120);

/// The program, or why there is none.
#[derive(Debug)]
pub(super) struct RteHash(Result<PathBuf, String>);

/// What one run printed.
#[derive(Clone, Debug)]
pub(super) struct Rates(Vec<(String, f64)>);

impl Rates {
    /// Millions of keys per second in a workload.
    pub(super) fn of(&self, work: &str) -> Result<f64, String> {
        let found = self.0.iter().find(|(name, _)| name == work);
        let (_, rate) = found.ok_or_else(|| format!("rte_hash: said nothing of {work}"))?;
        Ok(rate / 1e6)
    }
}

impl RteHash {
    /// Builds it, installing the library where that is allowed.
    pub(super) fn build(work_dir: &Path) -> Self {
        Self(build(work_dir))
    }

    /// Runs all workloads with so many flows, for so long each.
    pub(super) fn rates(&self, flows: u32, time: Duration, is_huge: bool) -> Result<Rates, String> {
        let program = self.0.as_ref().map_err(Clone::clone)?;
        // Keys, buckets and free list of a power of two of flows, and room to spare.
        let memory_mib = 256 + u64::from(flows.next_power_of_two()) * 64 / (1 << 20);
        let mut arguments: Vec<String> = ["--no-pci", "--no-shconf", "--no-telemetry", "-l", "0"]
            .map(str::to_owned)
            .into();
        arguments.extend(["--log-level=error", "-d", PLUGIN, "-m"].map(str::to_owned));
        arguments.push(memory_mib.to_string());
        arguments.push(if is_huge { "--in-memory" } else { "--no-huge" }.to_owned());
        arguments.extend(["--".to_owned(), flows.to_string()]);
        arguments.push(time.as_millis().to_string());
        let log = program.with_extension("log");
        let mut child = Guarded::start(program, arguments, &[], log)
            .map_err(|error| format!("rte_hash: {error}"))?;
        let deadline = Instant::now() + LIMIT;
        let mut rates = Vec::new();
        while let Some((_, line)) = child.next_line(deadline) {
            if let Some((name, rate)) = line.split_once(' ')
                && let Ok(rate) = rate.parse()
            {
                rates.push((name.to_owned(), rate));
            }
        }
        match child.wait(deadline) {
            Some(status) if status.success() => Ok(Rates(rates)),
            Some(status) => Err(format!("rte_hash: {status}: {}", child.error_tail())),
            None => Err("rte_hash: took too long".to_owned()),
        }
    }
}

fn build(work_dir: &Path) -> Result<PathBuf, String> {
    let by_hand = "run: apt-get install libdpdk-dev gcc pkg-config";
    install::require_file(
        "dpdk/rte_hash.h",
        &["libdpdk-dev", "gcc", "pkg-config"],
        work_dir,
    )?;
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libdpdk"])
        .output();
    let flags = asked.map_err(|error| format!("rte_hash: pkg-config: {error}; {by_hand}"))?;
    let (source, program) = (work_dir.join("rte_hash.c"), work_dir.join("rte_hash"));
    std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let output = Command::new("cc")
        .args(["-O3", "-march=native", "-o"])
        .args([&program, &source])
        .args(String::from_utf8_lossy(&flags.stdout).split_whitespace())
        .output();
    match output {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let error = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(format!("rte_hash: {error}; {by_hand}"))
        }
        Err(error) => Err(format!("rte_hash: cc: {error}; {by_hand}")),
    }
}
