//! Other work on a chain's cores: how much of a trial it took.
//!
//! Other work is that of processes which belong neither to the chain nor to the tester
//! ([`super::foreign`]). What a chain's workers and the tester do to each other is the chain's
//! own, and so are the kernel's threads and interrupts, which carry its packets. A worker that has
//! a core to itself waits in the kernel's queue while others run there; but the kernel counts as
//! waiting, too, how long a sleeping core takes to wake up, which at 20,000 sleeps a second is a
//! tenth of the time and more. So a wait counts only as far as other work ran meanwhile. Where
//! workers share cores, what other work ran on all of them counts. Both are judged against one
//! bound, which a report states. A clock that changed its speed while packets were measured is
//! named too.

use std::collections::BTreeMap;
use std::time::Duration;

use super::foreign::Foreign;
use crate::doctor::Tree;
use crate::traffic::conditions::Disturbance;

/// Share of a trial that other work may take from its workers, unless told otherwise.
pub const RIVALS_MAX: f64 = 0.02;
/// Ratio of the highest to the lowest clock frequency of a core from which on it changed.
const FREQUENCY_RATIO_MAX: f64 = 1.1;
/// What other work may run besides where it is counted in ticks of 10 ms: what that may be off by.
const TICKS_OFF: Duration = Duration::from_millis(20);

/// What other work may take on this machine where it may take the share `bound` of something, in
/// words.
pub fn rivals_text(bound: f64, of_what: &str) -> String {
    bound_text(bound, of_what, Foreign::read(&Tree::new("/"), &[]).as_ref())
}

fn bound_text(bound: f64, of_what: &str, foreign: Option<&Foreign>) -> String {
    let share = format!("{} % of {of_what}", bound * 100.0);
    match foreign {
        Some(all) if all.is_exact() => share,
        Some(_) => format!("{share} and {TICKS_OFF:?}, since the kernel tells it in ticks here"),
        None => format!("{share} and {TICKS_OFF:?}, since not all processes can be seen here"),
    }
}

/// Counts of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// Nanoseconds that each thread with a core to itself has waited for it.
    waited_ns: BTreeMap<String, u64>,
    /// Whether some threads of the chain wait for each other.
    has_sharing: bool,
    /// What other processes have run, where all can be seen.
    foreign: Option<Foreign>,
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
        let alone = held.values().filter(|threads| threads.len() == 1);
        let waited = alone.filter_map(|threads| {
            let thread = threads.first()?;
            Some((thread.clone(), waited_ns(tree, thread)?))
        });
        let stat = tree.read("/proc/stat").unwrap_or_default();
        let cores = stat.lines().filter(|line| {
            let core = line.strip_prefix("cpu");
            core.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        Self {
            waited_ns: waited.collect(),
            has_sharing,
            foreign: Foreign::read(tree, pids),
            busy: busy_ticks(&stat),
            own: pids.iter().filter_map(|pid| own_ticks(tree, *pid)).sum(),
            cores: cores.count().max(1) as u64,
        }
    }

    /// What other work did until `after`, `elapsed_ns` later, beyond the share `bound`.
    pub(super) fn judge(&self, after: &Self, elapsed_ns: u64, bound: f64) -> Vec<Disturbance> {
        if bound >= 1.0 {
            // All of a trial; what others ran may be off by a tick beyond that.
            return Vec::new();
        }
        let others_ns = self.others_ns(after);
        // Where nobody says what others ran, the wait alone.
        let waited_ns = self
            .longest_wait_ns(after)
            .min(others_ns.unwrap_or(f64::INFINITY));
        let preempted = waited_ns > elapsed_ns as f64 * bound;
        let whole = elapsed_ns as f64 * self.cores as f64;
        let contended = self.has_sharing && others_ns.is_some_and(|ns| ns > whole * bound);
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
            Some(after.saturating_sub(*before))
        });
        waits.max().unwrap_or(0) as f64
    }

    /// Time of processes outside the chain, on all cores together; `None` where the kernel does
    /// not say. Where not all processes can be seen: what ran, less what the chain did.
    fn others_ns(&self, after: &Self) -> Option<f64> {
        let seen = self.foreign.as_ref().zip(after.foreign.as_ref());
        if let Some((before, after)) = seen {
            let ns = after.since(before);
            let off_ns = if after.is_exact() { 0 } else { ticks_off_ns() };
            return Some(ns.saturating_sub(off_ns) as f64);
        }
        let all = after.busy?.saturating_sub(self.busy?);
        let ticks = all.saturating_sub(after.own.saturating_sub(self.own));
        Some((ticks * 10_000_000).saturating_sub(ticks_off_ns()) as f64)
    }
}

const fn ticks_off_ns() -> u64 {
    TICKS_OFF.as_millis() as u64 * 1_000_000
}

/// How long a thread, by its folder, has waited for a core (proc_pid_schedstat).
fn waited_ns(tree: &Tree, thread: &str) -> Option<u64> {
    let text = tree.read(&format!("{thread}/schedstat"))?;
    text.split_whitespace().nth(1)?.parse().ok()
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

/// The clock frequency of the cores that some threads had over time.
#[derive(Clone, Debug, Default)]
pub(super) struct Frequencies(BTreeMap<String, (u64, u64)>);

impl Frequencies {
    /// Notes the frequency of the core that the threads called `of` have, if the kernel tells it.
    pub(super) fn sample(&mut self, tree: &Tree, of: &str, core: usize) {
        let path = format!("/sys/devices/system/cpu/cpu{core}/cpufreq/scaling_cur_freq");
        if let Some(khz) = tree.number(&path) {
            let range = self.0.entry(of.to_owned()).or_insert((khz, khz));
            *range = (range.0.min(khz), range.1.max(khz));
        }
    }

    /// Whether that of some changed.
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
        assert_eq!(before.judge(&hogged, SECOND / 4, 1.0), [], "whatever ran");
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
        // The two on core 1 waited for each other half of the time, the one on core 0 for the core
        // itself.
        assert_eq!(judge(&read(500_000_000, 500_000_000, 300)), []);
        // Half a core is somebody else's.
        assert_eq!(judge(&read(0, 0, 350)), [Disturbance::Contention]);
        assert_eq!(
            judge(&read(500_000_000, 0, 350)),
            [Disturbance::Preemption, Disturbance::Contention]
        );
    }

    /// A machine of two cores, with a stranger, and a chain of a supervisor, of a worker alone on
    /// core 0, and of two on core 1.
    struct Machine {
        root: tempfile::TempDir,
        is_sharing: bool,
    }

    impl Machine {
        fn new(is_sharing: bool) -> Self {
            let root = tempfile::tempdir().unwrap();
            write(root.path(), "proc/2/comm", "kthreadd\n");
            Self { root, is_sharing }
        }

        /// The counts once the worker alone has waited, and each kind of process has run.
        fn read(&self, waited_ms: u64, own: u64, kernel: u64, foreign: u64) -> Reading {
            let root = self.root.path();
            let mut held = BTreeMap::from([(0, vec!["/proc/7/task/8".to_owned()])]);
            if self.is_sharing {
                let threads = ["/proc/8/task/9", "/proc/9/task/10"].map(str::to_owned);
                held.insert(1, threads.to_vec());
            }
            for thread in held.values().flatten() {
                let text = format!("5 {} 9\n", waited_ms * 1_000_000);
                write(root, &format!("{}/schedstat", &thread[1..]), &text);
            }
            for (pid, flags, ticks) in [
                (14, 0x0020_0000, kernel),
                (7, 0, own),
                (8, 0, own),
                (9, 0, own),
                (50, 0, foreign),
            ] {
                let text = format!("{pid} (a) S 1 1 1 1 1 {flags} 1 1 1 1 {ticks} 0 0 0 0\n");
                write(root, &format!("proc/{pid}/stat"), &text);
            }
            // The tick's sample has it that more ran than all of them did.
            let all = 2 * (own * 3 + kernel + foreign);
            let stat = format!("cpu  {all} 0 0 0 0 0 0 0 0 0\ncpu0 1 0\ncpu1 1 0\n");
            write(root, "proc/stat", &stat);
            Reading::of(&Tree::new(root), &held, &[7, 8, 9])
        }
    }

    /// Three workers on two cores, or one alone, which sleep between packets: they wait for each
    /// other, for the kernel and for cores that wake up, and nobody else ran.
    #[test]
    fn a_chain_is_no_rival_of_itself_and_a_hog_is() {
        for is_sharing in [true, false] {
            let machine = Machine::new(is_sharing);
            let before = machine.read(0, 0, 0, 0);
            let judge = |after: &Reading| before.judge(after, SECOND, RIVALS_MAX);
            assert_eq!(judge(&machine.read(400, 60, 30, 0)), [], "{is_sharing}");
            // A shell's prompt, now and then.
            assert_eq!(judge(&machine.read(400, 60, 30, 3)), [], "{is_sharing}");
            let contended = is_sharing.then_some(Disturbance::Contention);
            let preempted = Some(Disturbance::Preemption);
            let both: Vec<_> = preempted.into_iter().chain(contended).collect();
            assert_eq!(judge(&machine.read(400, 40, 30, 50)), both);
            // A hog on the other core takes nothing from a worker alone.
            let beside = judge(&machine.read(5, 40, 30, 50));
            assert_eq!(beside, contended.into_iter().collect::<Vec<_>>());
        }
    }

    /// Milliseconds count where the kernel tells them, in short trials no less than in long ones.
    #[test]
    fn other_work_of_milliseconds_is_named() {
        let machine = Machine::new(false);
        let root = machine.root.path().to_owned();
        let read = |waited_ms: u64, ran_ms: u64| {
            write(
                &root,
                "proc/50/schedstat",
                &format!("{}000000 0 1\n", 7_000 + ran_ms),
            );
            machine.read(waited_ms, 0, 0, 700)
        };
        let before = read(0, 0);
        let trial = |ms: u64, waited_ms: u64, ran_ms: u64| {
            before.judge(&read(waited_ms, ran_ms), ms * 1_000_000, RIVALS_MAX)
        };
        assert_eq!(trial(300, 100, 15), [Disturbance::Preemption]);
        assert_eq!(trial(300, 15, 15), [Disturbance::Preemption]);
        assert_eq!(trial(300, 100, 3), []);
        assert_eq!(trial(300, 3, 15), []);
        assert_eq!(trial(50, 2, 2), [Disturbance::Preemption]);
        assert_eq!(trial(50, 1, 1), []);
    }

    #[test]
    fn a_report_says_what_other_work_may_take() {
        let machine = Machine::new(false);
        let tree = Tree::new(machine.root.path());
        let text = || bound_text(RIVALS_MAX, "a trial", Foreign::read(&tree, &[7]).as_ref());
        machine.read(0, 0, 0, 1);
        assert!(text().starts_with("2 % of a trial and 20ms, since the kernel"));
        write(tree.root(), "proc/50/schedstat", "7000 0 1\n");
        assert_eq!(text(), "2 % of a trial");
        write(tree.root(), "proc/2/comm", "sh\n");
        assert!(text().starts_with("2 % of a trial and 20ms, since not all processes"));
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
        found.sample(&tree, "1", 1);
        for (khz, expected) in [
            (2_000_000, None),
            (2_100_000, None),
            (3_000_000, Some(Disturbance::Frequency)),
        ] {
            let path = "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq";
            write(root.path(), path, &format!("{khz}\n"));
            found.sample(&tree, "1", 1);
            assert_eq!(found.judge(), expected);
        }
    }
}
