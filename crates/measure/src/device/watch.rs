//! What happens to a chain's cores and threads during a trial.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::rivals::{Frequencies, Reading};
use crate::doctor::{Tree, noise};
use crate::traffic::TickRate;
use crate::traffic::conditions::{Conditions, Disturbance};

/// Watches the threads of a chain that are held on one core, or where there is none, all cores that
/// they may have.
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
    /// Of all cores, where no thread is held on one.
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
            anywhere: Conditions::read_anywhere(tree, &noise::cores()),
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

/// Threads of processes that run now, except the calling one, and the core of each
/// (proc_pid_stat(5)). Of those that sleep, the core may have another clock when they wake up.
fn running_threads(tree: &Tree, pids: &[u32]) -> Vec<(String, usize)> {
    let caller = rustix::thread::gettid().as_raw_nonzero().to_string();
    let threads = pids.iter().flat_map(|pid| {
        let tasks = format!("/proc/{pid}/task");
        let all = tree.numbered(&tasks, "").into_iter();
        all.filter(|id| *id != caller)
            .map(move |id| format!("{tasks}/{id}"))
    });
    let running = threads.filter_map(|thread| {
        let text = tree.read(&format!("{thread}/stat"))?;
        let (_, rest) = text.rsplit_once(')')?;
        let mut columns = rest.split_whitespace();
        let is_running = columns.next()? == "R";
        let core = columns.nth(35)?.parse().ok()?;
        is_running.then_some((thread, core))
    });
    running.collect()
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

    /// Notes the clock frequency of the cores, while packets are measured: of those on which
    /// threads are held, or where there is none, of those on which threads run now.
    pub(super) fn sample(&mut self) {
        for core in self.threads.keys() {
            self.frequencies
                .sample(&self.tree, &core.to_string(), *core);
        }
        if self.threads.is_empty() {
            for (thread, core) in running_threads(&self.tree, &self.pids) {
                self.frequencies.sample(&self.tree, &thread, core);
            }
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
            found.extend(before.anywhere.disturbances(&after.anywhere, self.rate));
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

    /// In one loop, or without cores of their own: any core may have been theirs.
    #[test]
    fn steal_is_named_where_no_thread_is_held() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/7/task/7/status", "Cpus_allowed_list:\t0-3\n");
        let stat = |stolen: u64| {
            let idle = "cpu0 1 1 1 1 1 1 1 0 0 0\n";
            format!("cpu  1 1 1 1 1 1 1 {stolen} 0 0\n{idle}cpu3 1 1 1 1 1 1 1 {stolen} 0 0\n")
        };
        write(root, "proc/stat", &stat(10));
        let watch = Watch::begin(Tree::new(root), &[7], 1.0);
        assert_eq!(watch.thread_count(), 0);
        assert!(!watch.end().contains(&Disturbance::Steal));
        write(root, "proc/stat", &stat(1_000_000));
        assert!(watch.end().contains(&Disturbance::Steal));
    }

    #[test]
    fn a_clock_that_changes_under_a_thread_that_is_not_held_is_named() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        write(root, "proc/7/task/7/status", "Cpus_allowed_list:\t0-3\n");
        let clock = |core: usize, khz: u32| {
            let path = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
            write(root, &path, &format!("{khz}\n"));
        };
        let on = |id: u32, state: &str, core: usize| {
            let text = format!("{id} (a) b) {state}{} {core} 0 0\n", " 1".repeat(35));
            write(root, &format!("proc/7/task/{id}/stat"), &text);
        };
        let mut watch = Watch::begin(Tree::new(root), &[7], 1.0);
        let mut is_named = |cores: [u32; 3], state: &str| {
            on(7, "R", 1);
            on(8, state, 2);
            for (core, khz) in cores.into_iter().enumerate() {
                clock(core, khz);
            }
            watch.sample();
            watch.end().contains(&Disturbance::Frequency)
        };
        assert!(!is_named([3_000_000, 3_000_000, 3_000_000], "S"));
        // Cores that nobody has may sleep; one on which a thread sleeps, too.
        assert!(!is_named([800_000, 2_900_000, 800_000], "S"));
        assert!(!is_named([800_000, 3_000_000, 800_000], "R"));
        assert!(is_named([800_000, 3_000_000, 900_000], "R"));
        let mut watch = Watch::begin(Tree::new(root), &[7], 1.0);
        watch.sample();
        on(7, "R", 2);
        watch.sample();
        assert!(watch.end().contains(&Disturbance::Frequency), "it moved");
    }
}
