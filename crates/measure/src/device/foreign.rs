//! What processes that belong neither to a chain nor to its tester have run.
//!
//! Added up over all of them, with what their children had run that are gone: a compiler that came
//! and went stands in the account of whoever waited for it. The kernel's own threads are left out;
//! they carry the chain's packets. The scheduler accounts the time of each thread that lives to the
//! nanosecond (`schedstat`; up to its last tick for one that runs now), that of a process with its
//! threads that ended, and of children that were waited for, in ticks of 10 ms; the busy time of
//! cores is a sample by the kernel's tick, off by tens of milliseconds a second.

use std::collections::{BTreeMap, BTreeSet};

use crate::doctor::Tree;

/// Flag of the kernel's threads (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;
/// Nanoseconds of a tick, in which proc_pid_stat(5) counts.
const TICK_NS: u64 = 10_000_000;
/// Ticks that the growth of a process's time may be off by: it is two numbers, each rounded down.
const ROUNDING_NS: u64 = 2 * TICK_NS;

/// A process as proc_pid_stat(5) and its threads' schedstat have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Process {
    parent: u32,
    is_kernel: bool,
    /// Ticks that it ran, with threads that ended.
    ticks: u64,
    /// Ticks that children ran for which it has waited.
    ticks_of_children: u64,
    thread_count: u64,
    /// When it began: another process may get its number.
    began: u64,
    /// Nanoseconds that each of its threads ran that live; none where the kernel does not say.
    threads: BTreeMap<u32, u64>,
}

/// Nanoseconds that a process ran: of its threads that live, or in ticks where the kernel does not
/// say that of threads.
pub(super) fn ran_ns(tree: &Tree, pid: u32) -> Option<u64> {
    let name = pid.to_string();
    let process = Process::read(tree, &name)?.with_threads(tree, &name);
    Some(match process.threads.is_empty() {
        true => process.ticks * TICK_NS,
        false => process.threads.values().sum(),
    })
}

impl Process {
    fn read(tree: &Tree, pid: &str) -> Option<Self> {
        let text = tree.read(&format!("/proc/{pid}/stat"))?;
        // Its name may hold anything, so counted from the end of it.
        let (_, rest) = text.rsplit_once(')')?;
        let columns: Vec<&str> = rest.split_whitespace().take(20).collect();
        let number = |at: usize| columns.get(at)?.parse::<u64>().ok();
        let sum = |range: std::ops::Range<usize>| range.map(|at| number(at).unwrap_or(0)).sum();
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            is_kernel: number(6)? & KERNEL_THREAD != 0,
            ticks: sum(11..13),
            ticks_of_children: sum(13..15),
            thread_count: number(17).unwrap_or(1),
            began: number(19).unwrap_or(0),
            threads: BTreeMap::new(),
        })
    }

    /// The same with what its threads ran.
    fn with_threads(mut self, tree: &Tree, pid: &str) -> Self {
        let ran = |folder: &str| {
            let text = tree.read(&format!("{folder}/schedstat"))?;
            text.split_whitespace().next()?.parse::<u64>().ok()
        };
        if self.thread_count <= 1 {
            let id = pid.parse().unwrap_or(0);
            self.threads
                .extend(ran(&format!("/proc/{pid}")).map(|ns| (id, ns)));
            return self;
        }
        let tasks = format!("/proc/{pid}/task");
        let threads = tree.numbered(&tasks, "").into_iter();
        self.threads = threads
            .filter_map(|id| Some((id.parse().ok()?, ran(&format!("{tasks}/{id}"))?)))
            .collect();
        self
    }

    /// Nanoseconds that it ran since `before`, without its children.
    fn since(&self, before: &Self) -> u64 {
        let in_ticks = self.ticks.saturating_sub(before.ticks) * TICK_NS;
        if self.threads.is_empty() {
            return in_ticks;
        }
        let of_threads = self.threads.iter().map(|(id, ns)| {
            let earlier = before.threads.get(id).copied().unwrap_or(0);
            ns.saturating_sub(earlier)
        });
        let mut earlier = before.threads.keys();
        let rounding = if earlier.all(|id| self.threads.contains_key(id)) {
            ROUNDING_NS
        } else {
            // What the one that ended ran stands in ticks alone.
            0
        };
        of_threads
            .sum::<u64>()
            .max(in_ticks.saturating_sub(rounding))
    }
}

/// What all processes had run at one moment except a chain's, their children, and the kernel's
/// threads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Foreign {
    /// By number and beginning.
    processes: BTreeMap<(u32, u64), Process>,
}

impl Foreign {
    /// Of all but `own` and their children; `None` where not all processes can be seen, as in a
    /// container.
    pub(super) fn read(tree: &Tree, own: &[u32]) -> Option<Self> {
        let first = tree.read("/proc/2/comm")?;
        if first.trim_end() != "kthreadd" {
            return None;
        }
        let own: BTreeSet<u32> = own.iter().copied().collect();
        let all = tree.numbered("/proc", "").into_iter();
        let processes = all.filter_map(|name| {
            let process = Process::read(tree, &name)?;
            let pid = name.parse().ok()?;
            let is_own = own.contains(&pid) || own.contains(&process.parent);
            (!is_own && !process.is_kernel)
                .then(|| ((pid, process.began), process.with_threads(tree, &name)))
        });
        Some(Self {
            processes: processes.collect(),
        })
    }

    /// Whether the kernel tells the time of threads to the nanosecond.
    pub(super) fn is_exact(&self) -> bool {
        let mut threads = self.processes.values().flat_map(|one| one.threads.values());
        threads.any(|ns| *ns > 0)
    }

    /// Nanoseconds that they ran since `before`.
    pub(super) fn since(&self, before: &Self) -> u64 {
        let nothing = Process::default();
        let living = self.processes.iter().map(|(id, process)| {
            let earlier = before.processes.get(id).unwrap_or(&nothing);
            process.since(earlier)
        });
        let of_children = |all: &Self| {
            let ticks = all.processes.values().map(|one| one.ticks_of_children);
            ticks.sum::<u64>() * TICK_NS
        };
        let gone = before.processes.iter();
        let gone = gone.filter(|(id, _)| !self.processes.contains_key(id));
        // What they had run before stands in their parents' accounts by now.
        let known: u64 = gone.map(|(_, process)| process.since(&nothing)).sum();
        let ended = of_children(self).saturating_sub(of_children(before) + known);
        living.sum::<u64>() + ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &std::path::Path, pid: u32, parent: u32, flags: u64, ticks: [u64; 4]) {
        let folder = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let [user, system, by_children, in_children] = ticks;
        let threads = std::fs::read_dir(folder.join("task")).map_or(1, Iterator::count);
        let text = format!(
            "{pid} (a) b) R {parent} 1 1 0 -1 {flags} 1 2 3 4 {user} {system} {by_children} \
             {in_children} 20 0 {threads} 0 99\n"
        );
        std::fs::write(folder.join("stat"), text).unwrap();
    }

    /// What a thread ran, in microseconds; process and thread are the same where there is one.
    fn run(root: &std::path::Path, folder: &str, us: u64) {
        let folder = root.join("proc").join(folder);
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("schedstat"), format!("{us}000 5 6\n")).unwrap();
    }

    /// A machine without processes but the kernel's.
    fn machine() -> (tempfile::TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        write(root.path(), 2, 0, KERNEL_THREAD, [0, 700, 0, 0]);
        std::fs::write(root.path().join("proc/2/comm"), "kthreadd\n").unwrap();
        (root, tree)
    }

    #[test]
    fn own_processes_their_children_and_the_kernel_are_no_strangers() {
        let (root, tree) = machine();
        let before = Foreign::read(&tree, &[]).unwrap();
        let ticks = |own: &[u32]| Foreign::read(&tree, own).unwrap().since(&before) / TICK_NS;
        write(root.path(), 14, 2, KERNEL_THREAD | 0x40, [0, 300, 0, 0]);
        write(root.path(), 50, 1, 0x40_0000, [10, 5, 3, 2]);
        write(root.path(), 60, 50, 0, [100, 0, 0, 0]);
        write(root.path(), 61, 60, 0, [100, 0, 0, 0]);
        assert_eq!(ticks(&[60]), 20);
        assert_eq!(ticks(&[60, 50]), 0);
        assert_eq!(ticks(&[]), 220);
        // A child that is gone stands in its parent's account.
        std::fs::remove_dir_all(root.path().join("proc/61")).unwrap();
        write(root.path(), 60, 50, 0, [100, 0, 100, 0]);
        assert_eq!(ticks(&[]), 220);
        assert!(!Foreign::read(&tree, &[]).unwrap().is_exact());
        std::fs::write(root.path().join("proc/2/comm"), "bash\n").unwrap();
        assert_eq!(
            Foreign::read(&tree, &[]),
            None,
            "another process is number 2"
        );
    }

    /// Milliseconds of a stranger count long before a tick of 10 ms is full.
    #[test]
    fn time_counts_to_the_nanosecond_where_the_kernel_tells_it() {
        let (root, tree) = machine();
        let root = root.path();
        run(root, "50", 1_009_000);
        write(root, 50, 1, 0, [60, 40, 0, 0]);
        let before = Foreign::read(&tree, &[]).unwrap();
        assert!(before.is_exact());
        let ran_us = || Foreign::read(&tree, &[]).unwrap().since(&before) / 1000;
        assert_eq!(ran_us(), 0);
        // Both of its numbers may become a tick more at once.
        run(root, "50", 1_010_500);
        write(root, 50, 1, 0, [61, 41, 0, 0]);
        assert_eq!(ran_us(), 1_500);
        // Another process with the number of one that ended.
        write(root, 50, 1, 0, [0; 4]);
        let stat = root.join("proc/50/stat");
        let text = std::fs::read_to_string(&stat).unwrap();
        std::fs::write(stat, text.replace(" 99", " 100")).unwrap();
        run(root, "50", 4_000);
        write(root, 1, 0, 0, [0, 0, 102, 0]);
        assert_eq!(ran_us(), 4_000 + 1_020_000 - 1_009_000);
    }

    #[test]
    fn a_thread_that_ended_stands_in_the_account_of_its_process() {
        let (root, tree) = machine();
        let root = root.path();
        for (id, us) in [(50, 100_000), (51, 300_000), (52, 7_000)] {
            run(root, &format!("50/task/{id}"), us);
        }
        write(root, 50, 1, 0, [40, 0, 0, 0]);
        let before = Foreign::read(&tree, &[]).unwrap();
        let ran_us = || Foreign::read(&tree, &[]).unwrap().since(&before) / 1000;
        run(root, "50/task/52", 9_000);
        run(root, "50/task/53", 1_000);
        write(root, 50, 1, 0, [41, 0, 0, 0]);
        assert_eq!(ran_us(), 3_000);
        // It ran 95 ms more before.
        std::fs::remove_dir_all(root.join("proc/50/task/51")).unwrap();
        write(root, 50, 1, 0, [50, 0, 0, 0]);
        assert_eq!(ran_us(), 100_000);
    }

    /// What a child ran before counts once, whether it lives or is gone.
    #[test]
    fn a_child_that_was_waited_for_adds_what_it_ran_meanwhile() {
        let (root, tree) = machine();
        let root = root.path();
        run(root, "50", 5_000);
        run(root, "60", 207_000);
        write(root, 50, 1, 0, [0, 0, 3, 0]);
        write(root, 60, 50, 0, [20, 0, 0, 0]);
        let before = Foreign::read(&tree, &[]).unwrap();
        let ran_us = || Foreign::read(&tree, &[]).unwrap().since(&before) / 1000;
        std::fs::remove_dir_all(root.join("proc/60")).unwrap();
        for (ticks, us) in [(23, 0), (24, 3_000), (29, 53_000)] {
            write(root, 50, 1, 0, [0, 0, ticks, 0]);
            assert_eq!(ran_us(), us, "{ticks}");
        }
        // It came and went, with children of its own.
        write(root, 50, 1, 0, [0, 0, 53, 11]);
        assert_eq!(ran_us(), 403_000);
    }

    /// On this machine: what this process runs is a stranger's to others and not to itself.
    #[test]
    fn a_process_that_runs_is_seen() {
        let tree = Tree::new("/");
        let Some(before) = Foreign::read(&tree, &[]) else {
            // A container, whose processes are numbered anew.
            assert_ne!(tree.read("/proc/2/comm").as_deref(), Some("kthreadd\n"));
            return;
        };
        let own = std::process::id().to_string();
        let of_own = || Process::read(&tree, &own).unwrap().ticks;
        let until = of_own() + 7;
        while of_own() < until {
            std::hint::spin_loop();
        }
        let ran = Foreign::read(&tree, &[]).unwrap().since(&before);
        assert!(ran >= 5 * TICK_NS, "{ran}");
    }
}
