//! What happens to a chain's cores and threads during a trial.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::rivals::{Frequencies, Reading};
use crate::doctor::Tree;
use crate::traffic::TickRate;
use crate::traffic::conditions::{Conditions, Disturbance};

/// Threads that are held on one core, by core, with the conditions at the beginning.
#[derive(Debug)]
pub(super) struct Watch {
    tree: Tree,
    rate: TickRate,
    threads: BTreeMap<usize, Vec<String>>,
    before: BTreeMap<usize, Conditions>,
    /// Clocks and control group, where no thread is held anywhere.
    anywhere: Conditions,
    pids: Vec<u32>,
    began: Instant,
    rivals: Reading,
    frequencies: Frequencies,
    /// Share of the time that other work may take.
    rivals_max: f64,
}

/// Threads of processes that may run on one core only, by that core. Others may move as the
/// scheduler likes.
fn held_threads(tree: &Tree, pids: &[u32]) -> BTreeMap<usize, Vec<String>> {
    let mut threads: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for pid in pids {
        let tasks = format!("/proc/{pid}/task");
        let Ok(entries) = std::fs::read_dir(tree.path(&tasks)) else {
            continue;
        };
        for entry in entries.flatten() {
            let thread = format!("{tasks}/{}", entry.file_name().to_string_lossy());
            let allowed = tree.field(&format!("{thread}/status"), "Cpus_allowed_list");
            let core = allowed.and_then(|list| list.trim().parse::<usize>().ok());
            if let Some(core) = core {
                threads.entry(core).or_default().push(thread);
            }
        }
    }
    threads
}

impl Watch {
    /// Looks at the threads of `pids` and of this process; other work may take a share of
    /// `rivals_max` from them.
    pub(super) fn begin(tree: Tree, pids: &[u32], rivals_max: f64) -> Self {
        let mut all = pids.to_vec();
        all.push(std::process::id());
        all.sort_unstable();
        all.dedup();
        let threads = held_threads(&tree, &all);
        let before = threads
            .iter()
            .map(|(core, threads)| (*core, Conditions::read_of(&tree, *core, threads)));
        Self {
            rate: TickRate::measure(Duration::from_millis(10)),
            before: before.collect(),
            anywhere: Conditions::read_of(&tree, 0, &[]),
            rivals: Reading::of(&tree, &threads, &all),
            pids: all,
            began: Instant::now(),
            frequencies: Frequencies::default(),
            rivals_max,
            threads,
            tree,
        }
    }

    /// Notes the clock frequency of the cores, while packets are measured.
    pub(super) fn sample(&mut self) {
        for core in self.threads.keys() {
            self.frequencies.sample(&self.tree, *core);
        }
    }

    /// How many threads are held on one core.
    pub(super) fn thread_count(&self) -> usize {
        self.threads.values().map(Vec::len).sum()
    }

    /// What happened since, each once, in a fixed order.
    pub(super) fn end(&self) -> Vec<Disturbance> {
        let mut found = Vec::new();
        for (core, threads) in &self.threads {
            let after = Conditions::read_of(&self.tree, *core, threads);
            found.extend(self.before[core].disturbances(&after, self.rate));
        }
        if self.threads.is_empty() {
            let after = Conditions::read_of(&self.tree, 0, &[]);
            let all = self.anywhere.disturbances(&after, self.rate);
            // Steal of a core on which nothing was held says little.
            found.extend(all.into_iter().filter(|what| *what != Disturbance::Steal));
        }
        let rivals = Reading::of(&self.tree, &self.threads, &self.pids);
        let elapsed_ns = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        found.extend(self.rivals.judge(&rivals, elapsed_ns, self.rivals_max));
        found.extend(self.frequencies.judge());
        found.sort_unstable();
        found.dedup();
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn threads_that_are_held_on_a_core_and_then_move_are_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/7/task/7/status", "Cpus_allowed_list:\t3\n");
        write(root, "proc/7/task/7/sched", "se.nr_migrations : 4\n");
        write(root, "proc/7/task/8/status", "Cpus_allowed_list:\t0-3\n");
        write(root, "proc/7/task/8/sched", "se.nr_migrations : 4\n");
        let watch = Watch::begin(Tree::new(root), &[7], 1.0);
        assert_eq!(watch.thread_count(), 1);
        assert!(!watch.end().contains(&Disturbance::Migration));
        write(root, "proc/7/task/8/sched", "se.nr_migrations : 5\n");
        assert!(!watch.end().contains(&Disturbance::Migration));
        write(root, "proc/7/task/7/sched", "se.nr_migrations : 5\n");
        assert!(watch.end().contains(&Disturbance::Migration));
    }

    #[test]
    fn steal_of_the_cores_of_a_chain_is_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/7/task/7/status", "Cpus_allowed_list:\t3\n");
        let stat = |stolen: u64| format!("cpu3 1 1 1 1 1 1 1 {stolen} 0 0\n");
        write(root, "proc/stat", &stat(10));
        let watch = Watch::begin(Tree::new(root), &[7, 9], 1.0);
        assert!(!watch.end().contains(&Disturbance::Steal));
        write(root, "proc/stat", &stat(1_000_000));
        assert!(watch.end().contains(&Disturbance::Steal));
    }
}
