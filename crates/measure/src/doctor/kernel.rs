//! Probes of the kernel as a place to measure: what a reader of results has to know of it.

use rustix::time::{ClockId, clock_getres};

use super::finding::Finding;
use super::tree::Tree;

/// What the kernel was started with: all before `--`, as what follows is init's.
pub(super) fn command_line(tree: &Tree) -> Finding {
    let name = "kernel command line";
    match tree.read("/proc/cmdline") {
        Some(line) => {
            let kernel = line.split_once(" -- ").map_or(&*line, |(kernel, _)| kernel);
            Finding::ok(name, kernel)
        }
        None => Finding::unsupported(name, "no /proc/cmdline"),
    }
}

/// Which faults of the processor the kernel works around: that costs time at every entry into it.
pub(super) fn mitigations(tree: &Tree) -> Finding {
    let name = "mitigations";
    let folder = "/sys/devices/system/cpu/vulnerabilities";
    let entries = std::fs::read_dir(tree.path(folder)).into_iter().flatten();
    let mut found: Vec<String> = entries
        .flatten()
        .filter_map(|entry| {
            let fault = entry.file_name().to_str()?.to_owned();
            let state = tree.read(&format!("{folder}/{fault}"))?;
            (state != "Not affected").then(|| format!("{fault}: {state}"))
        })
        .collect();
    found.sort();
    if !tree.exists(folder) {
        return Finding::unsupported(name, "the kernel does not say");
    }
    let seen = if found.is_empty() {
        "not affected by any known fault".to_owned()
    } else {
        found.join("; ")
    };
    Finding::ok(name, seen)
}

/// How the kernel may interrupt itself, by its version or its switch.
pub(super) fn preemption(tree: &Tree) -> Finding {
    let name = "preemption";
    let switch = tree.read("/sys/kernel/debug/sched/preempt");
    let chosen = switch.as_deref().and_then(|modes| {
        let (_, rest) = modes.split_once('(')?;
        rest.split_once(')').map(|(mode, _)| mode.to_owned())
    });
    let version = tree.read("/proc/sys/kernel/version").unwrap_or_default();
    let mut words = version.split_whitespace();
    let built = words.find(|word| word.starts_with("PREEMPT"));
    match (chosen, built) {
        (Some(mode), _) => Finding::ok(name, mode),
        (None, Some(built)) => Finding::ok(name, format!("built with {built}")),
        (None, None) if version.is_empty() => Finding::unsupported(name, "the kernel does not say"),
        (None, None) => Finding::ok(name, "none or voluntary: the version names no PREEMPT"),
    }
}

/// Ticks of the kernel in a second, by the step of its coarse clock.
pub fn tick_hz() -> Option<f64> {
    let ns = clock_getres(ClockId::MonotonicCoarse).tv_nsec;
    (ns > 0).then(|| 1e9 / ns as f64)
}

/// How often the kernel ticks: sleeps and time slices are multiples of that. The coarse clock steps
/// once in a tick, so its resolution is a tick.
pub(super) fn tick() -> Finding {
    tick_of(clock_getres(ClockId::MonotonicCoarse).tv_nsec)
}

fn tick_of(resolution_ns: i64) -> Finding {
    let name = "kernel tick";
    match u64::try_from(resolution_ns) {
        Ok(ns @ 1..) => {
            let hz = 1_000_000_000.0 / ns as f64;
            Finding::ok(name, format!("{hz:.0} Hz"))
        }
        _ => Finding::unsupported(name, "the coarse clock has no resolution"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, Tree) {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let tree = Tree::new(dir.path());
        (dir, tree)
    }

    #[test]
    fn what_the_kernel_says_is_told() {
        let faults = "sys/devices/system/cpu/vulnerabilities";
        let (_dir, tree) = tree(&[
            ("proc/cmdline", "ro quiet mitigations=auto -- --of-init\n"),
            (&format!("{faults}/meltdown"), "Not affected\n"),
            (&format!("{faults}/spectre_v2"), "Mitigation: Retpolines\n"),
            ("proc/sys/kernel/version", "#1 SMP PREEMPT_DYNAMIC Tue\n"),
        ]);
        assert_eq!(command_line(&tree).seen, "ro quiet mitigations=auto");
        assert_eq!(
            mitigations(&tree).seen,
            "spectre_v2: Mitigation: Retpolines"
        );
        assert_eq!(preemption(&tree).seen, "built with PREEMPT_DYNAMIC");
        assert_eq!(tick_of(4_000_000).seen, "250 Hz");
        assert_eq!(tick().verdict, Verdict::Ok);
    }

    #[test]
    fn a_switch_says_which_mode_is_in_force_and_silence_is_no_finding() {
        let path = "sys/kernel/debug/sched/preempt";
        let (_dir, tree_with) = tree(&[(path, "none (voluntary) full\n")]);
        assert_eq!(preemption(&tree_with).seen, "voluntary");
        let (_dir, empty) = tree(&[]);
        for finding in [
            command_line(&empty),
            mitigations(&empty),
            preemption(&empty),
        ] {
            assert_eq!(finding.verdict, Verdict::Unsupported, "{finding:?}");
        }
    }
}
