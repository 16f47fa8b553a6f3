//! Probes of who competes for the cores: other processes, the hypervisor, a quota; and of the
//! container engines that chains may use.

use super::finding::Finding;
use super::tree::Tree;

/// Share of a core that other work may take.
const LOAD_MAX: f64 = 0.1;
/// Share of time that the hypervisor may have taken since the start.
const STEAL_MAX: f64 = 0.001;

pub(super) fn load(tree: &Tree) -> Finding {
    let name = "load";
    let text = tree.read("/proc/loadavg").unwrap_or_default();
    let Some(load) = text
        .split(' ')
        .next()
        .and_then(|word| word.parse::<f64>().ok())
    else {
        return Finding::unsupported(name, "no /proc/loadavg");
    };
    if load > LOAD_MAX {
        let seen = format!("{load} processes ran at a time in the last minute");
        Finding::warning(
            name,
            seen,
            "end other work: ps -eo pcpu,pid,args --sort -pcpu | head",
        )
    } else {
        Finding::ok(name, "nothing else runs")
    }
}

pub(super) fn steal(tree: &Tree) -> Finding {
    let name = "steal";
    let text = tree.read("/proc/stat").unwrap_or_default();
    let ticks: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse().ok())
        .collect();
    // proc_stat(5): steal is the eighth column.
    let Some(&stolen) = ticks.get(7) else {
        return Finding::unsupported(name, "the kernel does not count it");
    };
    if !tree.has_flag("hypervisor") {
        return Finding::ok(name, "no hypervisor");
    }
    let all: u64 = ticks.iter().take(8).sum();
    let share = stolen as f64 / all.max(1) as f64;
    let seen = format!(
        "the hypervisor took {:.2} % of the time so far",
        share * 100.0
    );
    if share > STEAL_MAX {
        let repair = "use a machine with cores of its own (dedicated tenancy, pinned vCPUs)";
        Finding::warning(name, seen, repair)
    } else {
        Finding::ok(name, seen)
    }
}

pub(super) fn quota(tree: &Tree) -> Finding {
    let name = "cgroup_quota";
    let Some(groups) = tree.read("/proc/self/cgroup") else {
        return Finding::unsupported(name, "no control groups");
    };
    match groups.lines().find_map(|line| limit(tree, line)) {
        None => Finding::ok(name, "no limit of processor time"),
        Some((folder, cores)) => {
            let stat = tree.read(&format!("{folder}/cpu.stat")).unwrap_or_default();
            let throttled = stat
                .lines()
                .find_map(|line| line.strip_prefix("nr_throttled "));
            let throttled = throttled.unwrap_or("unknown");
            let seen = format!(
                "{folder} limits this process to {cores:.2} cores (held back {throttled} times)"
            );
            let repair = "start the container without --cpus, or: \
                          systemctl set-property UNIT CPUQuota=";
            Finding::warning(name, seen, repair)
        }
    }
}

/// How often this process was held back by its control groups, all levels together.
pub(crate) fn throttled_count(tree: &Tree) -> Option<u64> {
    let groups = tree.read("/proc/self/cgroup")?;
    let folders = groups.lines().filter_map(|line| folders(tree, line));
    let counts = folders
        .flat_map(|(folders, _)| folders)
        .filter_map(|folder| {
            let stat = tree.read(&format!("{folder}/cpu.stat"))?;
            let count = stat
                .lines()
                .find_map(|line| line.strip_prefix("nr_throttled "))?;
            count.parse::<u64>().ok()
        });
    Some(counts.sum())
}

/// The first limit of processor time above a process, by a line of /proc/self/cgroup.
fn limit(tree: &Tree, line: &str) -> Option<(String, f64)> {
    let (folders, is_v2) = folders(tree, line)?;
    folders.into_iter().find_map(|folder| {
        let cores = if is_v2 {
            max_v2(tree, &folder)
        } else {
            max_v1(tree, &folder)
        };
        cores.map(|cores| (folder, cores))
    })
}

/// The folders of a process's group and all above it that govern processor time, by a line of
/// /proc/self/cgroup, and whether they are of version 2.
fn folders(tree: &Tree, line: &str) -> Option<(Vec<String>, bool)> {
    let mut parts = line.splitn(3, ':');
    let (hierarchy, controllers) = (parts.next()?, parts.next()?);
    let mut path = parts.next()?.trim_end_matches('/').to_owned();
    let is_v2 = hierarchy == "0";
    if !is_v2 && !controllers.split(',').any(|name| name == "cpu") {
        return None;
    }
    let mount = if is_v2 {
        "/sys/fs/cgroup".to_owned()
    } else {
        let joined = format!("/sys/fs/cgroup/{controllers}");
        if tree.exists(&joined) {
            joined
        } else {
            "/sys/fs/cgroup/cpu".to_owned()
        }
    };
    let mut folders = vec![format!("{mount}{path}")];
    while let Some(end) = path.rfind('/') {
        path.truncate(end);
        folders.push(format!("{mount}{path}"));
    }
    Some((folders, is_v2))
}

fn max_v2(tree: &Tree, folder: &str) -> Option<f64> {
    let text = tree.read(&format!("{folder}/cpu.max"))?;
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

fn max_v1(tree: &Tree, folder: &str) -> Option<f64> {
    // -1, which is no number here, means no limit.
    let quota = tree.number(&format!("{folder}/cpu.cfs_quota_us"))?;
    let period = tree.number(&format!("{folder}/cpu.cfs_period_us"))?;
    Some(quota as f64 / period.max(1) as f64)
}

pub(super) fn engines(tree: &Tree) -> Finding {
    let name = "containers";
    let found: Vec<&str> = ["docker", "podman", "nerdctl"]
        .into_iter()
        .filter(|program| {
            let folders = ["/usr/bin", "/usr/local/bin", "/bin"];
            folders
                .iter()
                .any(|folder| tree.exists(&format!("{folder}/{program}")))
        })
        .collect();
    if found.is_empty() {
        let seen = "no docker, podman or nerdctl: chains cannot run in containers";
        Finding::warning(name, seen, "sudo apt-get install podman")
    } else {
        Finding::ok(name, found.join(", "))
    }
}
