//! What happens to a chain's cores and threads during a trial.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::rivals::{Frequencies, Reading};
use crate::doctor::Tree;
use crate::traffic::TickRate;
use crate::traffic::conditions::{Conditions, Disturbance};

/// Watches the threads of a chain that are held on one core.
#[derive(Debug)]
pub(super) struct Watch {
    tree: Tree,
    rate: TickRate,
    pids: Vec<u32>,
    /// By core.
    threads: BTreeMap<usize, Vec<String>>,
    before: Moment,
    frequencies: Frequencies,
    /// Share of the time that other work may take.
    rivals_max: f64,
}

/// What is read at one time.
#[derive(Debug)]
struct Moment {
    cores: BTreeMap<usize, Conditions>,
    /// Clocks and control group, where no thread is held anywhere.
    anywhere: Conditions,
    rivals: Reading,
    at: Instant,
}

impl Moment {
    fn of(tree: &Tree, threads: &BTreeMap<usize, Vec<String>>, pids: &[u32]) -> Self {
        let cores = threads
            .iter()
            .map(|(core, threads)| (*core, Conditions::read_of(tree, *core, threads)));
        Self {
            cores: cores.collect(),
            anywhere: Conditions::read_of(tree, 0, &[]),
            rivals: Reading::of(tree, threads, pids),
            at: Instant::now(),
        }
    }
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
        let rate = TickRate::measure(Duration::from_millis(10));
        let (threads, pids) = (BTreeMap::new(), pids.to_vec());
        let mut watch = Self {
            before: Moment::of(&tree, &threads, &pids),
            frequencies: Frequencies::default(),
            rate,
            pids,
            threads,
            rivals_max,
            tree,
        };
        let pids = std::mem::take(&mut watch.pids);
        watch.again(&pids);
        watch
    }

    /// Begins anew, with the threads that `pids` have by now.
    pub(super) fn again(&mut self, pids: &[u32]) {
        self.pids = pids.to_vec();
        self.pids.push(std::process::id());
        self.pids.sort_unstable();
        self.pids.dedup();
        self.threads = held_threads(&self.tree, &self.pids);
        self.before = Moment::of(&self.tree, &self.threads, &self.pids);
        self.frequencies = Frequencies::default();
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

    /// What happened since it began, each once, in a fixed order.
    pub(super) fn end(&self) -> Vec<Disturbance> {
        self.judge(&Moment::of(&self.tree, &self.threads, &self.pids))
    }

    /// The same, and begins anew with the same threads.
    pub(super) fn turn(&mut self) -> Vec<Disturbance> {
        let now = Moment::of(&self.tree, &self.threads, &self.pids);
        let found = self.judge(&now);
        self.before = now;
        self.frequencies = Frequencies::default();
        found
    }

    fn judge(&self, after: &Moment) -> Vec<Disturbance> {
        let before = &self.before;
        let mut found = Vec::new();
        for (core, conditions) in &before.cores {
            found.extend(conditions.disturbances(&after.cores[core], self.rate));
        }
        if self.threads.is_empty() {
            let all = before.anywhere.disturbances(&after.anywhere, self.rate);
            // Steal of a core on which nothing was held says little.
            found.extend(all.into_iter().filter(|what| *what != Disturbance::Steal));
        }
        let elapsed = after.at.saturating_duration_since(before.at);
        let elapsed_ns = u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        found.extend(
            before
                .rivals
                .judge(&after.rivals, elapsed_ns, self.rivals_max),
        );
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
