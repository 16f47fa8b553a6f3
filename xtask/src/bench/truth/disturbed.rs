//! Known disturbances: NFs that freeze, and cores that others use.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use super::super::child::Guarded;
use super::super::extent::Extent;
use super::binary::{Binary, SWAP, chain, number};
use super::{Case, NO_TRIAL};

/// Load of devices that freeze.
const LOAD_PPS: f64 = 20_000.0;
/// What the links and the buffer at the entry hold, and a burst or two on the way.
const BUFFERED: f64 = 64.0 + 2.0 * 64.0 + 256.0;
/// How long a device freezes.
const FROZEN: Duration = Duration::from_millis(300);
/// How long after its worker is there a device is frozen: the chain has started by then, and the
/// warm-up of 100 ms is over. A supervisor does not answer while it measures.
const BEGUN: Duration = Duration::from_millis(1500);
/// How long a worker may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a freeze showed as.
struct Freeze {
    /// Packets that were due meanwhile.
    due: f64,
    document: Value,
}

/// Stops the worker of `swap` in the midst of a trial; gives how long it stood still.
fn freeze(chain: &str) -> Option<Duration> {
    let label = format!("{chain}/swap");
    let deadline = Instant::now() + PATIENCE;
    let worker = loop {
        match worker(&label) {
            Some(worker) => break worker,
            None if Instant::now() > deadline => return None,
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    std::thread::sleep(BEGUN);
    kill_process(worker, Signal::STOP).ok()?;
    let stopped = Instant::now();
    std::thread::sleep(FROZEN);
    let frozen = stopped.elapsed();
    kill_process(worker, Signal::CONT).ok()?;
    Some(frozen)
}

/// The process of the worker with a label.
fn worker(label: &str) -> Option<Pid> {
    let mut processes = std::fs::read_dir("/proc").ok()?.flatten();
    processes.find_map(|process| {
        let id = process.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(process.path().join("cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        let is_worker = words.any(|word| word == label.as_bytes());
        Pid::from_raw(id).filter(|_| is_worker)
    })
}

fn measure(binary: &Binary, overflow: &str) -> Result<Freeze, String> {
    let name = format!("frozen-{}", std::process::id());
    let text = format!(
        "name: {name}\nports:\n  in: {{ traffic: {{ profile: {{}}, entry: 64 }} }}\n  \
         out: {{ receiver: {{}} }}\nnfs: {{ {SWAP} }}\nlinks:\n  \
         - {{ link: in -> swap -> out, slots: 64, overflow: {overflow} }}\n"
    );
    let arguments = "latency --rate 20kpps --trial 4s --trials 1 --rivals 1 --repeats 0";
    let mut frozen = None;
    let document = binary.of_chain_while(&text, arguments, || {
        frozen = freeze(&name);
    })?;
    let frozen = frozen.ok_or("no worker was found to stop")?;
    // Of a trial that does not count nothing is said, which is not that it lost nothing.
    if number(&document, "packets of trials that count")? == 0.0 {
        return Err(NO_TRIAL.to_owned());
    }
    Ok(Freeze {
        due: frozen.as_secs_f64() * LOAD_PPS,
        document,
    })
}

/// A freeze under each kind of overflow: what was due meanwhile and found no room is lost, whatever
/// waits on the way; what waited is the device's latency, and the tester is not late.
pub(super) fn freezes(binary: &Binary, extent: Extent) -> Vec<Case> {
    let mut cases = Vec::new();
    let kinds: &[&str] = if extent == Extent::Brief {
        &["block"]
    } else {
        &["drop_tail", "block"]
    };
    for overflow in kinds {
        let found = measure(binary, overflow);
        let case = |what: &str, unit, truth, said, right| Case {
            name: format!("freeze of {} ms, {overflow}: {what}", FROZEN.as_millis()),
            unit,
            truth,
            said,
            right,
        };
        let (due, lost, longest, late) = match &found {
            Ok(found) => (
                found.due,
                number(&found.document, "lost"),
                longest_ms(&found.document, "delay_from_sent"),
                longest_ms(&found.document, "tester_lateness"),
            ),
            Err(error) => {
                let none = || Err(error.clone());
                (FROZEN.as_secs_f64() * LOAD_PPS, none(), none(), none())
            }
        };
        // On a busy machine the generator may be late itself: what it sends after the freeze is not
        // lost.
        let least = if extent == Extent::Brief {
            0.5 * due
        } else {
            due - BUFFERED
        };
        let right = (least, due * 1.05);
        cases.push(case("packets lost", "packets", due, lost, right).at_least(extent));
        let ms = due / LOAD_PPS * 1e3;
        // The first packet that waits was taken a moment after the worker stopped.
        let least = if extent == Extent::Brief { 0.5 } else { 0.9 };
        let right = (least * ms, ms + 40.0);
        let what = "longest latency of the device";
        cases.push(case(what, "ms", ms, longest, right).at_least(extent));
        if extent != Extent::Brief {
            let what = "longest lateness of the generator";
            cases.push(case(what, "ms", 0.0, late, (0.0, 0.2 * ms)));
        }
    }
    cases
}

fn longest_ms(document: &Value, which: &str) -> Result<f64, String> {
    let longest = document["latency"][0]["latency"][which]["max_ns"].as_f64();
    let longest = longest.ok_or_else(|| "no packet came back".to_owned())?;
    Ok(longest / 1e6)
}

/// Causes that other work on the tester's cores shows as.
const OTHERS: [&str; 2] = ["Preemption", "Contention"];

/// A hog on every core: trials do not count, by that cause.
pub(super) fn hogs(binary: &Binary, extent: Extent, cores: [usize; 2]) -> Vec<Case> {
    let hogs = cores.map(|core| {
        let script = format!("taskset -cp {core} $$ >/dev/null; while :; do :; done");
        Guarded::start("sh", ["-c".to_owned(), script], &[], binary.log("hog.log"))
    });
    let text = chain("truth", SWAP, "swap", "");
    let arguments = "latency --rate 20kpps --trial 300ms --trials 1 --repeats 2";
    let document = match hogs.iter().all(Result::is_ok) {
        true => binary.of_chain(&text, arguments),
        false => Err("no hog started".to_owned()),
    };
    let beside = compared(binary, &text);
    drop(hogs);
    let document = || document.as_ref().map_err(Clone::clone);
    let case = |what: &str, said| Case {
        name: format!("latency beside a hog on each core: {what}"),
        unit: "of 3",
        truth: 3.0,
        said,
        right: (3.0, 3.0),
    };
    let all = document().and_then(|found| number(found, "trials that do not count"));
    let is_others = |trial: &&Value| {
        let why = trial["invalid"].as_str().unwrap_or_default();
        OTHERS.iter().any(|cause| why.contains(cause))
    };
    let by_cause = document().map(|found| {
        let trials = found["trials"].as_array().into_iter().flatten();
        trials.filter(is_others).count() as f64
    });
    let mut by_cause = case("of those, by other work on the cores", by_cause);
    if extent == Extent::Brief {
        // On a busy machine the generator may be too slow, which is said instead.
        by_cause.right.0 = 1.0;
    }
    let mut cases = vec![case("trials that do not count", all), by_cause];
    cases.push(Case {
        name: "compare --together beside a hog on each core: verdicts".to_owned(),
        unit: "",
        truth: 0.0,
        said: beside,
        right: (0.0, 0.0),
    });
    if extent != Extent::Brief {
        cases.push(alone(binary));
    }
    cases
}

/// Verdicts on two equal chains in slices; none may be given where others run beside, by cause.
fn compared(binary: &Binary, text: &str) -> Result<f64, String> {
    let (a, b) = (binary.write("a.yaml", text)?, binary.write("b.yaml", text)?);
    let how = "--together --pairs 200 --repeats 0";
    let mut all = vec!["compare".to_owned(), a, b];
    all.extend(how.split(' ').map(str::to_owned));
    let document = binary.measure(&all)?;
    let verdicts = document["comparisons"].as_array().map_or(0, Vec::len);
    let summary = document["summary"].as_str().unwrap_or_default();
    let is_told = OTHERS.iter().any(|cause| summary.contains(cause));
    match (verdicts, is_told) {
        (0, false) => Err(format!("no verdict for another reason: {summary}")),
        (verdicts, _) => Ok(verdicts as f64),
    }
}

/// Three workers on two cores, which sleep between packets and wait for each other: nobody else
/// runs. On a machine that others use this is not so.
fn alone(binary: &Binary) -> Case {
    let text = chain("truth", SWAP, "swap", "");
    let arguments = "latency --mode process --rate 20kpps --trial 300ms --trials 5 --repeats 0";
    let document = binary.of_chain(&text, arguments);
    Case {
        name: "latency of three workers on two cores: trials that do not count".to_owned(),
        unit: "of 5",
        truth: 0.0,
        said: document.and_then(|found| number(&found, "trials that do not count")),
        right: (0.0, 0.0),
    }
}
