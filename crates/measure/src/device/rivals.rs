//! Other work on a chain's cores: how much of a trial it took.
//!
//! A worker that has a core to itself waits in the kernel's queue while others run there; the
//! kernel counts that time. Workers that share a core wait for each other as well, held there or
//! not, and only what processes outside the chain ran can be told: on all cores, without the
//! kernel's own interrupts, which are work for the chain's ports. Both are judged against one
//! bound, which a report states. A clock that changed its speed while packets were measured is
//! named too.

use std::collections::BTreeMap;

use crate::doctor::Tree;
use crate::traffic::conditions::Disturbance;

/// Share of a trial that other work may take from its workers, unless told otherwise.
pub const RIVALS_MAX: f64 = 0.02;
/// Ratio of the highest to the lowest clock frequency of a core from which on it changed.
const FREQUENCY_RATIO_MAX: f64 = 1.1;
/// Ticks of processor time, 10 ms each, that counting in ticks may be off by.
const TICKS_OFF: u64 = 2;

/// Counts of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Nanoseconds that each thread with a core to itself has waited for it, and those for which
    /// the kernel's thread for interrupts has run there: it carries packets of the chain's ports.
    waited_ns: BTreeMap<String, (u64, u64)>,
    /// Whether some threads of the chain wait for each other.
    has_sharing: bool,
    /// Ticks that all cores have run processes.
    busy: Option<u64>,
    /// Ticks that the chain's processes have run.
    own: u64,
    cores: u64,
}

impl Reading {
    /// Of held threads by core, named by their folders below `/proc`, and of all processes of a
    /// chain.
    pub(super) fn of(tree: &Tree, held: &BTreeMap<usize, Vec<String>>, pids: &[u32]) -> Self {
        let has_sharing = held.is_empty() || held.values().any(|threads| threads.len() > 1);
        let packets = packet_threads(tree);
        let alone = held.iter().filter(|(_, threads)| threads.len() == 1);
        let waited = alone.filter_map(|(core, threads)| {
            let thread = threads.first()?;
            let packets = packets.get(core);
            let packets_ns = packets.and_then(|thread| schedstat(tree, thread, 0));
            let waited_ns = schedstat(tree, thread, 1)?;
            Some((thread.clone(), (waited_ns, packets_ns.unwrap_or(0))))
        });
        let stat = tree.read("/proc/stat").unwrap_or_default();
        let cores = stat.lines().filter(|line| {
            let core = line.strip_prefix("cpu");
            core.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        Self {
            waited_ns: waited.collect(),
            has_sharing,
            busy: busy_ticks(&stat),
            own: pids.iter().filter_map(|pid| own_ticks(tree, *pid)).sum(),
            cores: cores.count().max(1) as u64,
        }
    }

    /// What other work did until `after`, `elapsed_ns` later, beyond the share `bound`.
    pub(super) fn judge(&self, after: &Self, elapsed_ns: u64, bound: f64) -> Vec<Disturbance> {
        let preempted = self.longest_wait_ns(after) > elapsed_ns as f64 * bound;
        let whole = elapsed_ns as f64 * self.cores as f64;
        let contended = self.has_sharing && self.others_ns(after) > whole * bound;
        let found = [
            (preempted, Disturbance::Preemption),
            (contended, Disturbance::Contention),
        ];
        let is = found.into_iter().filter(|(happened, _)| *happened);
        is.map(|(_, disturbance)| disturbance).collect()
    }

    fn longest_wait_ns(&self, after: &Self) -> f64 {
        let waits = self.waited_ns.iter().filter_map(|(thread, before)| {
            let after = after.waited_ns.get(thread)?;
            let for_packets = after.1.saturating_sub(before.1);
            Some(after.0.saturating_sub(before.0).saturating_sub(for_packets))
        });
        waits.max().unwrap_or(0) as f64
    }

    /// Time of processes outside the chain, on all cores together; 0 where the kernel does not say.
    fn others_ns(&self, after: &Self) -> f64 {
        let all = after.busy.zip(self.busy);
        let all = all.map_or(0, |(after, before)| after.saturating_sub(before));
        let own = after.own.saturating_sub(self.own);
        all.saturating_sub(own).saturating_sub(TICKS_OFF) as f64 * 1e7
    }
}

/// A thread's counts, by its folder: time run, time waited to run, number of runs
/// (proc_pid_schedstat).
fn schedstat(tree: &Tree, thread: &str, column: usize) -> Option<u64> {
    let text = tree.read(&format!("{thread}/schedstat"))?;
    text.split_whitespace().nth(column)?.parse().ok()
}

/// The kernel's thread for interrupts of each core, by its folder; those that can be seen from
/// here.
fn packet_threads(tree: &Tree) -> BTreeMap<usize, String> {
    let all = tree.numbered("/proc", "").into_iter();
    let found = all.filter_map(|pid| {
        let folder = format!("/proc/{pid}");
        let name = tree.read(&format!("{folder}/comm"))?;
        let core = name.strip_prefix("ksoftirqd/")?.parse().ok()?;
        Some((core, folder))
    });
    found.collect()
}

/// Ticks in which cores ran processes: user, nice, system (proc_stat(5)). What the kernel does in
/// interrupts of both kinds is nobody's: for ports of the kernel it carries the chain's own
/// packets.
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let columns: Vec<u64> = line
        .split_whitespace()
        .map_while(|column| column.parse().ok())
        .collect();
    let work = [0, 1, 2].map(|at| columns.get(at).copied());
    work.into_iter().sum()
}

/// Ticks that a process has run; the name before them may hold anything, so counted from its end.
fn own_ticks(tree: &Tree, pid: u32) -> Option<u64> {
    let text = tree.read(&format!("/proc/{pid}/stat"))?;
    let (_, rest) = text.rsplit_once(')')?;
    let mut columns = rest.split_whitespace().skip(11);
    let user: u64 = columns.next()?.parse().ok()?;
    let system: u64 = columns.next()?.parse().ok()?;
    Some(user + system)
}

/// The clock frequency of some cores over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Frequencies(BTreeMap<usize, (u64, u64)>);

impl Frequencies {
    /// Notes the frequency of a core, where the kernel tells it.
    pub(super) fn sample(&mut self, tree: &Tree, core: usize) {
        let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
        if let Some(khz) = tree.number(&path) {
            let range = self.0.entry(core).or_insert((khz, khz));
            *range = (range.0.min(khz), range.1.max(khz));
        }
    }

    /// Whether that of some core changed.
    pub(super) fn judge(&self) -> Option<Disturbance> {
        let mut ranges = self.0.values();
        let has_changed =
            ranges.any(|(low, high)| *high as f64 > *low as f64 * FREQUENCY_RATIO_MAX);
        has_changed.then_some(Disturbance::Frequency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn write(root: &std::path::Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_hog_on_a_held_worker_s_core_is_named_and_a_quiet_one_is_not() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let held = BTreeMap::from([(3, vec!["/proc/7/task/8".to_owned()])]);
        let read = |waited_ns: u64| {
            write(
                root.path(),
                "proc/7/task/8/schedstat",
                &format!("5 {waited_ns} 9\n"),
            );
            Reading::of(&tree, &held, &[7])
        };
        let before = read(1000);
        assert_eq!(before.judge(&read(1000), SECOND, RIVALS_MAX), []);
        assert_eq!(before.judge(&read(19_000_000), SECOND, RIVALS_MAX), []);
        // Half of the core.
        let hogged = read(500_000_000);
        let found = before.judge(&hogged, SECOND, RIVALS_MAX);
        assert_eq!(found, [Disturbance::Preemption]);
        assert_eq!(before.judge(&hogged, SECOND, 1.0), []);
    }

    #[test]
    fn a_worker_that_waits_for_its_neighbour_in_the_chain_has_no_rival() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let thread = |tid: u32| format!("/proc/7/task/{tid}");
        let held = BTreeMap::from([(0, vec![thread(8)]), (1, vec![thread(9), thread(10)])]);
        let read = |alone_ns: u64, shared_ns: u64, all: u64| {
            for (tid, waited_ns) in [(8, alone_ns), (9, shared_ns), (10, shared_ns)] {
                let text = format!("5 {waited_ns} 9\n");
                write(root.path(), &format!("proc/7/task/{tid}/schedstat"), &text);
            }
            // The chain runs all the time; interrupts carry its packets.
            let stat = format!("cpu  {all} 0 0 900 5 {all} {all} 0 0 0\ncpu0 1 0\ncpu1 1 0\n");
            write(root.path(), "proc/stat", &stat);
            let of_process = format!("7 (a) S 1 1 1 1 1 1 1 1 1 1 {} 0 0 0\n", all.min(300));
            write(root.path(), "proc/7/stat", &of_process);
            Reading::of(&tree, &held, &[7])
        };
        let before = read(0, 0, 100);
        let judge = |after: &Reading| before.judge(after, SECOND, RIVALS_MAX);
        // The two on core 1 waited for each other half of the time.
        assert_eq!(judge(&read(0, 500_000_000, 300)), []);
        assert_eq!(judge(&read(500_000_000, 0, 300)), [Disturbance::Preemption]);
        // Half a core is somebody else's.
        assert_eq!(judge(&read(0, 0, 350)), [Disturbance::Contention]);
    }

    #[test]
    fn a_wait_for_the_kernel_that_carries_packets_is_none_for_a_rival() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let held = BTreeMap::from([(3, vec!["/proc/7/task/8".to_owned()])]);
        write(root.path(), "proc/14/comm", "ksoftirqd/3\n");
        write(root.path(), "proc/15/comm", "ksoftirqd/4\n");
        let read = |waited_ns: u64, here_ns: u64, elsewhere_ns: u64| {
            for (thread, text) in [
                ("7/task/8", format!("5 {waited_ns} 9\n")),
                ("14", format!("{here_ns} 0 9\n")),
                ("15", format!("{elsewhere_ns} 0 9\n")),
            ] {
                write(root.path(), &format!("proc/{thread}/schedstat"), &text);
            }
            Reading::of(&tree, &held, &[7])
        };
        let before = read(0, 0, 0);
        let judge = |after: &Reading| before.judge(after, SECOND, RIVALS_MAX);
        assert_eq!(judge(&read(300_000_000, 290_000_000, 0)), []);
        let beside = read(300_000_000, 0, 290_000_000);
        assert_eq!(judge(&beside), [Disturbance::Preemption]);
    }

    #[test]
    fn where_no_worker_is_held_the_work_of_others_counts() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let read = |all: u64, own: u64| {
            let stat = format!("cpu  {all} 0 0 900 5 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\nintr 5\n");
            write(root.path(), "proc/stat", &stat);
            let of_process = format!("7 (a) b) S 1 1 1 1 1 1 1 1 1 1 {own} 3 0 0\n");
            write(root.path(), "proc/7/stat", &of_process);
            Reading::of(&tree, &BTreeMap::new(), &[7, 9])
        };
        let before = read(100, 10);
        // Both cores run nothing but the chain.
        assert_eq!(before.judge(&read(300, 208), SECOND, RIVALS_MAX), []);
        // A quarter of both is somebody else's.
        let hogged = read(300, 160);
        let found = before.judge(&hogged, SECOND, RIVALS_MAX);
        assert_eq!(found, [Disturbance::Contention]);
    }

    #[test]
    fn a_clock_that_changes_speed_is_named() {
        let root = tempfile::tempdir().unwrap();
        let tree = Tree::new(root.path());
        let mut found = Frequencies::default();
        found.sample(&tree, 1);
        for (khz, expected) in [
            (2_000_000, None),
            (2_100_000, None),
            (3_000_000, Some(Disturbance::Frequency)),
        ] {
            let path = "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq";
            write(root.path(), path, &format!("{khz}\n"));
            found.sample(&tree, 1);
            assert_eq!(found.judge(), expected);
        }
    }
}
