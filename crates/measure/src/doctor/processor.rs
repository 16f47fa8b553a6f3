//! Probes of the processor: frequency, idle states, hardware threads, time-stamp counter.

use super::{Finding, Tree};

/// Idle states that take longer to leave than this, in microseconds, show in latencies.
const EXIT_LATENCY_MAX_US: u64 = 10;
const GOVERNOR: &str = "scaling_governor";

pub(super) fn cpufreq(tree: &Tree) -> Finding {
    let name = "cpufreq";
    let governors: Vec<String> = tree
        .processors()
        .iter()
        .filter_map(|cpu| tree.read(&format!("{cpu}/cpufreq/{GOVERNOR}")))
        .collect();
    let Some(first) = governors.first() else {
        let seen = "no frequency scaling: the firmware or the hypervisor sets the clock";
        return Finding::unsupported(name, seen);
    };
    let driver = tree.read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver");
    let driver = driver.unwrap_or_else(|| "unknown driver".to_owned());
    match governors.iter().find(|governor| *governor != "performance") {
        None => Finding::ok(name, format!("governor {first} everywhere ({driver})")),
        Some(other) => Finding::warning(
            name,
            format!("governor {other} ({driver}): the clock follows the load"),
            "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/scaling_governor",
        ),
    }
}

pub(super) fn turbo(tree: &Tree) -> Finding {
    let name = "turbo";
    let (intel, generic) = (
        "/sys/devices/system/cpu/intel_pstate/no_turbo",
        "/sys/devices/system/cpu/cpufreq/boost",
    );
    let (is_on, path, off) = match (tree.number(intel), tree.number(generic)) {
        (Some(no_turbo), _) => (no_turbo == 0, intel, 1),
        (None, Some(boost)) => (boost != 0, generic, 0),
        (None, None) => return Finding::unsupported(name, "no switch for it"),
    };
    if is_on {
        let seen = "on: the clock depends on how many cores are busy and how warm they are";
        Finding::warning(name, seen, format!("echo {off} | sudo tee {path}"))
    } else {
        Finding::ok(name, "off")
    }
}

pub(super) fn cpuidle(tree: &Tree) -> Finding {
    let name = "cpuidle";
    let mut deepest: Option<(u64, String)> = None;
    let mut count = 0;
    for cpu in tree.processors() {
        let folder = format!("{cpu}/cpuidle");
        for state in tree.numbered(&folder, "state") {
            count += 1;
            let file = |name: &str| format!("{folder}/{state}/{name}");
            if tree.number(&file("disable")) == Some(1) {
                continue;
            }
            let latency = tree.number(&file("latency")).unwrap_or(0);
            if deepest.as_ref().is_none_or(|(most, _)| latency > *most) {
                let called = tree.read(&file("name")).unwrap_or(state);
                deepest = Some((latency, called));
            }
        }
    }
    match deepest {
        None if count == 0 => {
            let seen = "no idle states: the hypervisor idles the core, unseen from here";
            Finding::unsupported(name, seen)
        }
        Some((latency, state)) if latency > EXIT_LATENCY_MAX_US => Finding::warning(
            name,
            format!("{state} takes {latency} us to leave: idle cores answer late"),
            format!("sudo cpupower idle-set -D {EXIT_LATENCY_MAX_US}"),
        ),
        Some((latency, state)) => {
            // A hypervisor that idles the core is in no table: see the wake-up test.
            let seen = format!(
                "deepest state in use: {state}, {latency} us to leave by the kernel's table"
            );
            Finding::ok(name, seen)
        }
        None => Finding::ok(name, "every state is disabled"),
    }
}

pub(super) fn dma_latency(tree: &Tree) -> Finding {
    let (name, path) = ("cpu_dma_latency", "/dev/cpu_dma_latency");
    if !tree.exists(path) {
        return Finding::unsupported(name, "no /dev/cpu_dma_latency");
    }
    let folder = "/sys/devices/system/cpu/cpu0/cpuidle";
    if tree.numbered(folder, "state").is_empty() {
        let seen = "/dev/cpu_dma_latency is there, but without cpuidle it has no effect";
        return Finding::unsupported(name, seen);
    }
    let opens = std::fs::OpenOptions::new()
        .write(true)
        .open(tree.path(path));
    match opens {
        Ok(_) => Finding::ok(name, "idle states can be held off while measuring"),
        Err(error) => Finding::warning(
            name,
            format!("{path} does not open: {error}"),
            "run as root, or: sudo chmod o+w /dev/cpu_dma_latency",
        ),
    }
}

pub(super) fn smt(tree: &Tree) -> Finding {
    let name = "smt";
    let control = tree.read("/sys/devices/system/cpu/smt/control");
    let is_active = tree.number("/sys/devices/system/cpu/smt/active");
    match (control.as_deref(), is_active) {
        (Some("on"), Some(1)) => Finding::warning(
            name,
            "on: two threads share each core, and slow each other down",
            "echo off | sudo tee /sys/devices/system/cpu/smt/control",
        ),
        (Some("off" | "forceoff"), _) => Finding::ok(name, "off"),
        (Some("on"), _) => Finding::ok(name, "one thread per core"),
        (_, Some(1)) => {
            let seen = "two threads share each core, and this machine cannot switch that off";
            Finding::warning(name, seen, "use one thread of each core: --cores 0,2")
        }
        _ => {
            let seen = "not to be seen from here: a hypervisor may put two processors on a core";
            Finding::unsupported(name, seen)
        }
    }
}

pub(super) fn tsc(tree: &Tree) -> Finding {
    let name = "tsc";
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let source = tree.read(source).unwrap_or_default();
    let missing: Vec<&str> = ["constant_tsc", "nonstop_tsc"]
        .into_iter()
        .filter(|flag| !tree.has_flag(flag))
        .collect();
    if missing.is_empty() && ["tsc", "kvm-clock"].contains(&source.as_str()) {
        return Finding::ok(name, format!("invariant; the kernel's clock is {source}"));
    }
    let seen = match missing.as_slice() {
        [] => format!("the kernel does not trust the counter: its clock is {source}"),
        missing => format!("the counter lacks {}", missing.join(" and ")),
    };
    let repair = "measure on another machine, or with clock_gettime (automatic; +16 ns a read)";
    Finding::warning(name, seen, repair)
}

/// Counters of cycles and instructions that user space may read, for probes.
pub(super) fn counters(tree: &Tree) -> Finding {
    let name = "counters";
    let folder = "/sys/bus/event_source/devices";
    // Processors of two kinds of cores have a folder for each.
    let found = ["cpu", "cpu_core"].map(|kind| format!("{folder}/{kind}"));
    let Some(folder) = found.iter().find(|folder| tree.exists(folder)) else {
        let seen = "no counters of cycles and instructions: probes tell times only";
        return Finding::unsupported(name, seen);
    };
    let paranoid = tree.read("/proc/sys/kernel/perf_event_paranoid");
    let paranoid = paranoid.and_then(|level| level.parse::<i32>().ok());
    match (tree.number(&format!("{folder}/rdpmc")), paranoid) {
        (Some(0) | None, _) => Finding::warning(
            name,
            "user space may not read cycles and instructions (rdpmc): probes tell times only",
            format!("echo 1 | sudo tee {folder}/rdpmc"),
        ),
        (_, Some(level @ 3..)) => Finding::warning(
            name,
            format!(
                "perf_event_paranoid is {level}: only root may count, and probes tell times only"
            ),
            "sudo sysctl kernel.perf_event_paranoid=2",
        ),
        _ => Finding::ok(name, "user space reads cycles and instructions (rdpmc)"),
    }
}
