//! Runs of the loop: the chain file of a setting, and what its `pktgenrcv` says at the end.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use catena_measure::stats::quantile::is_enough;
use serde_json::Value;

use super::disturbance::Watch;
use super::namespaces::Namespaces;
use super::setting::{KIB, Setting, Way, Work};
use crate::bench::child::Guarded;
use crate::bench::own::Own;
use crate::bench::work_dir::WorkDir;

/// Start and end of a run, beyond what is measured; containers take longest.
const PATIENCE: Duration = Duration::from_secs(30);
/// Policies of waiting that are tried.
const WAITS: [&str; 3] = ["auto", "yield", "sleep"];
/// Environment: the image whose binary is measured in containers.
const IMAGE_VARIABLE: &str = "CATENA_BENCH_IMAGE";
const ENGINES: [&str; 2] = ["podman", "docker"];
/// The functions, in the order of the loop; the first is a port.
const NODES: [&str; 4] = ["loop", "olt", "fibre", "onu"];

/// What a run found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Found {
    pub(super) p50_us: f64,
    /// Of all chunks; none of too few.
    pub(super) p99_us: Option<f64>,
    /// Of those that no stall of the machine touched; none of too few.
    pub(super) clean_p99_us: Option<f64>,
    /// Share of the others, in percent.
    pub(super) stalled_percent: f64,
    /// Line bits per second.
    pub(super) gbps: f64,
}

/// Where a loop runs, if not one function to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placement {
    Apart(Way),
    /// All in one thread.
    Inline,
}

/// Everything that runs of the loop need.
pub(super) struct Loops {
    binary: Result<PathBuf, String>,
    work_dir: Rc<WorkDir>,
    millis: u32,
    image: String,
    /// The engine that has the image.
    engine: Result<&'static str, String>,
    namespaces: Result<Namespaces, String>,
    waits: BTreeMap<Way, &'static str>,
    choices: Vec<String>,
    /// Runs, and those that something else disturbed.
    runs: (u32, u32),
}

impl Loops {
    pub(super) fn new(own: &Own, millis: u32) -> Self {
        let binary = own.binary().map(PathBuf::from);
        let image = std::env::var(IMAGE_VARIABLE).unwrap_or_else(|_| "catena-worker".to_owned());
        Self {
            binary: binary.map_err(|error| error.to_string()),
            work_dir: own.work_dir(),
            millis,
            engine: engine(&image),
            image,
            namespaces: Namespaces::new(NODES.len()),
            waits: BTreeMap::new(),
            choices: Vec::new(),
            runs: (0, 0),
        }
    }

    /// Whether this way can be measured here.
    pub(super) fn has(&self, way: Way) -> bool {
        match way {
            Way::Shared | Way::Tcp => self.engine.is_ok(),
            Way::TcpSpaces => self.namespaces.is_ok(),
            Way::Metal | Way::MetalFlag | Way::TcpMetal => true,
        }
    }

    /// What cannot be measured here, and what can.
    pub(super) fn obstacles(&self) -> Vec<String> {
        let engine = match &self.engine {
            Ok(engine) => format!("containers: {engine}, image {}", self.image),
            Err(reason) => format!("no containers, so they are not measured: {reason}"),
        };
        let namespaces = self
            .namespaces
            .as_ref()
            .err()
            .map(|reason| format!("no network namespaces, so they are not measured: {reason}"));
        std::iter::once(engine).chain(namespaces).collect()
    }

    /// Tries each policy of waiting on small and large chunks, and keeps the one with the lowest
    /// sum of medians.
    pub(super) fn choose_wait(&mut self, way: Way) {
        let mut best: Option<(f64, &'static str)> = None;
        let mut said = Vec::new();
        for wait in WAITS {
            self.waits.insert(way, wait);
            let mut median = |work, chunk| {
                let setting = Setting { way, work, chunk };
                self.run(setting).map(|found| found.p50_us)
            };
            let both = median(Work::Raw, 8 * KIB)
                .and_then(|small| Ok((small, median(Work::Coding(0.0), 128 * KIB)?)));
            match both {
                Ok((small, large)) => {
                    said.push(format!("{wait} {small:.1} and {large:.0} us"));
                    if best.is_none_or(|(sum, _)| small + large < sum) {
                        best = Some((small + large, wait));
                    }
                }
                Err(reason) => said.push(format!("{wait}: {reason}")),
            }
        }
        let wait = best.map_or("auto", |(_, wait)| wait);
        self.waits.insert(way, wait);
        self.choices.push(format!(
            "{way} waits by `{wait}`; tried with 8 KiB uncoded and 128 KiB coded: {}",
            said.join(", ")
        ));
    }

    /// How each way waits.
    pub(super) fn choices(&mut self) -> Vec<String> {
        std::mem::take(&mut self.choices)
    }

    /// What is to be said at the end.
    pub(super) fn remarks(&self) -> String {
        let (all, disturbed) = self.runs;
        format!(
            "disturbed: in {disturbed} of {all} runs the hypervisor took processor time away, or \
             processes outside the chain had more than 1 % of it"
        )
    }

    /// Runs the loop of a setting.
    pub(super) fn run(&mut self, setting: Setting) -> Result<Found, String> {
        self.start(Placement::Apart(setting.way), setting.work, setting.chunk)
    }

    /// Runs the loop in one thread.
    pub(super) fn run_inline(&mut self, work: Work, chunk: u32) -> Result<Found, String> {
        self.start(Placement::Inline, work, chunk)
    }

    fn start(&mut self, placement: Placement, work: Work, chunk: u32) -> Result<Found, String> {
        let binary = self.binary.clone()?;
        let text = self.chain_file(placement, work, chunk);
        let file = self.work_dir.path().join("epon.yaml");
        std::fs::write(&file, text).map_err(|error| format!("{}: {error}", file.display()))?;
        let log = self.work_dir.path().join("epon.log");
        let mut environment = vec![("CATENA_RUNTIME_DIR", self.work_dir.path())];
        if let Ok(engine) = &self.engine {
            environment.push(("CATENA_CONTAINER_ENGINE", engine.as_ref()));
        }
        let arguments = ["run".as_ref(), "--json".as_ref(), file.as_os_str()];
        let mut child = Guarded::start(&binary, arguments, &environment, log.clone())
            .map_err(|error| error.to_string())?;
        let deadline = Instant::now() + PATIENCE;
        while child.ended().is_none() && Instant::now() < deadline {
            let said = std::fs::read_to_string(&log).unwrap_or_default();
            if said.contains(" is running") {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let watch = Watch::begin();
        // The end, where workers stop, is no part of what is measured.
        std::thread::sleep(Duration::from_millis(u64::from(self.millis) * 9 / 10));
        let is_clean = watch.is_clean();
        let mut text = String::new();
        while let Some((_, line)) = child.next_line(deadline) {
            text += &line;
        }
        match child.wait(deadline) {
            None => return Err("the loop did not end in time".to_owned()),
            Some(status) if !status.success() => {
                return Err(format!("{status}: {}", child.error_tail()));
            }
            Some(_) => {}
        }
        self.runs.0 += 1;
        self.runs.1 += u32::from(!is_clean);
        parse(&text)
    }

    fn chain_file(&self, placement: Placement, work: Work, chunk: u32) -> String {
        let (mode, wait) = match placement {
            Placement::Inline => ("inline", "auto"),
            Placement::Apart(way) => {
                let is_contained = matches!(way, Way::Shared | Way::Tcp);
                let mode = if is_contained { "container" } else { "process" };
                (mode, self.waits.get(&way).copied().unwrap_or("auto"))
            }
        };
        let netns = |node: usize| match (placement, &self.namespaces) {
            (Placement::Apart(Way::TcpSpaces), Ok(spaces)) => {
                format!(", netns: {}", spaces.name(node))
            }
            _ => String::new(),
        };
        let protocol = match placement {
            Placement::Apart(way) if way.is_tcp() => "tcp",
            Placement::Apart(Way::MetalFlag) => "flag",
            _ => "ring",
        };
        let (payload, pcs, line) = match work {
            Work::Raw => ("raw", ", pcs: false", String::new()),
            Work::Coding(0.0) => ("frames", "", String::new()),
            Work::Coding(ber) => ("frames", "", format!(", ber: {ber:e}")),
        };
        let millis = self.millis;
        let port = format!(
            "{{ chunk: {chunk}B, payload: {payload}, verify: false, duration: {millis}ms, \
             warm_up: 20 }}"
        );
        let [loop_, olt, fibre, onu] = NODES;
        let phy =
            |role, direction| format!("type: epon_phy, role: {role}, direction: {direction}{pcs}");
        let links: String = (0..NODES.len())
            .map(|at| {
                let (from, to) = (NODES[at], NODES[(at + 1) % NODES.len()]);
                format!("  - {{ link: {from} -> {to}, protocol: {protocol} }}\n")
            })
            .collect();
        let links = match placement {
            Placement::Inline => format!("  - {loop_} -> {olt} -> {fibre} -> {onu} -> {loop_}\n"),
            Placement::Apart(_) => links,
        };
        format!(
            "name: epon\nports:\n  {loop_}: {{ pktgenrcv: {port}{} }}\nnfs:\n  \
             {olt}: {{ {}{} }}\n  {fibre}: {{ type: l1sim{line}{} }}\n  {onu}: {{ {}{} }}\n\
             links:\n{links}run: {{ mode: {mode}, wait: {wait}, image: {} }}\n",
            netns(0),
            phy("olt", "transmit"),
            netns(1),
            netns(2),
            phy("onu", "receive"),
            netns(3),
            self.image,
        )
    }
}

/// The first engine that has the image.
fn engine(image: &str) -> Result<&'static str, String> {
    let mut reasons = Vec::new();
    for engine in ENGINES {
        let found = Command::new(engine)
            .args(["image", "inspect", image])
            .stdin(Stdio::null())
            .output();
        match found {
            Ok(output) if output.status.success() => return Ok(engine),
            Ok(output) => {
                let text = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                reasons.push(format!("{engine}: {text}"));
            }
            Err(error) => reasons.push(format!("{engine}: {error}")),
        }
    }
    Err(format!(
        "{}; install podman or docker, and run `cargo xtask image`",
        reasons.join("; ")
    ))
}

/// What the final counters say.
fn parse(text: &str) -> Result<Found, String> {
    let status: Value =
        serde_json::from_str(text).map_err(|error| format!("result not understood: {error}"))?;
    let nodes = status["nodes"].as_array().ok_or("no nodes in the result")?;
    let node = nodes.iter().find(|node| node["name"] == NODES[0]);
    let counters = &node.ok_or("no loop in the result")?["counters"];
    let number = |name: &str| {
        let value = counters[name].as_u64();
        value.ok_or_else(|| format!("the loop does not say {name}"))
    };
    let (sent, back) = (number("chunks")?, number("chunks_returned")?);
    let wrong = number("chunks_lost")? + number("frames_lost")? + number("frames_corrupted")?;
    if wrong > 0 {
        return Err(format!(
            "{wrong} chunks or frames were lost or wrong; {back} of {sent} chunks came back"
        ));
    }
    let us = |name: &str| number(name).map(|ns| ns as f64 / 1e3);
    let measured = number("chunks_measured")?;
    // A short run on a slow machine: quantiles of so few samples are not said.
    if !is_enough(measured, 0.5) {
        return Err(format!("too few chunks for a p50: {measured}"));
    }
    Ok(Found {
        p50_us: us("latency_ns_p50")?,
        p99_us: us("latency_ns_p99").ok(),
        clean_p99_us: us("clean_latency_ns_p99").ok(),
        stalled_percent: number("chunks_stalled")? as f64 * 100.0 / measured.max(1) as f64,
        gbps: number("line_bps")? as f64 / 1e9,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_is_read_and_losses_are_no_result() {
        let result = |lost: u32| {
            format!(
                r#"{{"nodes":[{{"name":"olt"}},{{"name":"loop","counters":{{"chunks":9,
                "chunks_returned":9,"chunks_lost":{lost},"frames_lost":0,"frames_corrupted":0,
                "latency_ns_p50":29500,"latency_ns_p99":510000,"clean_latency_ns_p99":51000,
                "chunks_measured":80,"chunks_stalled":20,"line_bps":2000000000}}}}]}}"#
            )
        };
        let found = parse(&result(0)).unwrap();
        let figures = (found.p50_us, found.p99_us, found.clean_p99_us, found.gbps);
        assert_eq!(figures, (29.5, Some(510.0), Some(51.0), 2.0));
        assert!((found.stalled_percent - 25.0).abs() < 1e-9);
        assert!(parse(&result(1)).unwrap_err().contains("lost"));
        let silent = result(0).replace("\"latency_ns_p50\":29500,", "");
        assert!(parse(&silent).unwrap_err().contains("does not say"));
        let few = silent.replace("\"chunks_measured\":80", "\"chunks_measured\":8");
        assert!(parse(&few).unwrap_err().contains("too few chunks"));
        assert!(parse("{}").is_err() && parse("").is_err());
    }
}
