//! What processes that belong neither to a chain nor to its tester have run.
//!
//! Added up over all of them, with what their children had run that are gone: a compiler that came
//! and went stands in the account of whoever waited for it. The kernel's own threads are left out;
//! they carry the chain's packets. The scheduler accounts a process's time to the nanosecond, while
//! the busy time of cores is a sample by the kernel's tick, off by tens of milliseconds a second.

use std::collections::BTreeSet;

use crate::doctor::Tree;

/// Flag of the kernel's threads (include/linux/sched.h).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// A process as proc_pid_stat(5) has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    parent: u32,
    is_kernel: bool,
    /// Ticks of 10 ms that it ran, and that children ran for which it has waited.
    ticks: u64,
}

impl Process {
    fn read(tree: &Tree, pid: &str) -> Option<Self> {
        let text = tree.read(&format!("/proc/{pid}/stat"))?;
        // Its name may hold anything, so counted from the end of it.
        let (_, rest) = text.rsplit_once(')')?;
        let columns: Vec<&str> = rest.split_whitespace().take(15).collect();
        let number = |at: usize| columns.get(at)?.parse::<u64>().ok();
        let ticks = (11..15).map(|at| number(at).unwrap_or(0));
        Some(Self {
            parent: u32::try_from(number(1)?).ok()?,
            is_kernel: number(6)? & KERNEL_THREAD != 0,
            ticks: ticks.sum(),
        })
    }
}

/// Ticks that all processes have run except `own`, their children, and the kernel's threads; `None`
/// where not all processes can be seen, as in a container.
pub(super) fn ticks(tree: &Tree, own: &[u32]) -> Option<u64> {
    let first = tree.read("/proc/2/comm")?;
    if first.trim_end() != "kthreadd" {
        return None;
    }
    let own: BTreeSet<u32> = own.iter().copied().collect();
    let all = tree.numbered("/proc", "").into_iter();
    let foreign = all.filter_map(|pid| {
        let process = Process::read(tree, &pid)?;
        let is_own = own.contains(&pid.parse().ok()?) || own.contains(&process.parent);
        (!is_own && !process.is_kernel).then_some(process.ticks)
    });
    Some(foreign.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &std::path::Path, pid: u32, parent: u32, flags: u64, ticks: [u64; 4]) {
        let folder = root.join(format!("proc/{pid}"));
        std::fs::create_dir_all(&folder).unwrap();
        let [user, system, by_children, in_children] = ticks;
        let text = format!(
            "{pid} (a) b) R {parent} 1 1 0 -1 {flags} 1 2 3 4 {user} {system} {by_children} \
             {in_children} 20 0 1 0 99\n"
        );
        std::fs::write(folder.join("stat"), text).unwrap();
    }

    #[test]
    fn own_processes_their_children_and_the_kernel_are_no_strangers() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        write(root.path(), 2, 0, KERNEL_THREAD, [0, 700, 0, 0]);
        assert_eq!(ticks(&tree, &[]), None, "another process may be number 2");
        std::fs::write(root.path().join("proc/2/comm"), "kthreadd\n").unwrap();
        write(root.path(), 14, 2, KERNEL_THREAD | 0x40, [0, 300, 0, 0]);
        write(root.path(), 50, 1, 0x40_0000, [10, 5, 3, 2]);
        write(root.path(), 60, 50, 0, [100, 0, 0, 0]);
        write(root.path(), 61, 60, 0, [100, 0, 0, 0]);
        assert_eq!(ticks(&tree, &[60]), Some(20));
        assert_eq!(ticks(&tree, &[60, 50]), Some(0));
        assert_eq!(ticks(&tree, &[]), Some(220));
        // A child that is gone stands in its parent's account.
        std::fs::remove_dir_all(root.path().join("proc/61")).unwrap();
        write(root.path(), 60, 50, 0, [100, 0, 100, 0]);
        assert_eq!(ticks(&tree, &[]), Some(220));
    }

    /// On this machine: what this process runs is a stranger's to others and not to itself.
    #[test]
    fn a_process_that_runs_is_seen() {
        let tree = Tree::new("/");
        let Some(before) = ticks(&tree, &[]) else {
            // A container, whose processes are numbered anew.
            assert_ne!(tree.read("/proc/2/comm").as_deref(), Some("kthreadd\n"));
            return;
        };
        let own = std::process::id().to_string();
        let of_own = || Process::read(&tree, &own).unwrap().ticks;
        let until = of_own() + 5;
        while of_own() < until {
            std::hint::spin_loop();
        }
        assert!(ticks(&tree, &[]).unwrap() >= before + 5);
    }
}
