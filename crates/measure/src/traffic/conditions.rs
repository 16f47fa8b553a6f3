//! What can make a trial worthless though nothing was lost: read before it and after it.
//!
//! A trial with a disturbance says nothing and is repeated by whoever asked for it, at most a set
//! number of times. Read from files under a root and from the clocks; off the data path.

use catena_shm::tsc;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

use super::tick_rate::TickRate;
use crate::doctor::Tree;

/// Disagreement of the time-stamp counter and the kernel's raw clock, in parts of a million.
const DRIFT_MAX_PPM: f64 = 50.0;
/// What reading the two clocks one after the other may cost, and a stall between the readings.
const READING_NS: f64 = 50_000.0;
/// Largest step of the wall clock against the raw one beyond the drift above.
const STEP_MAX_NS: f64 = 1_000_000.0;
/// Largest share of the trial that the hypervisor may take.
const STEAL_MAX: f64 = 0.01;

/// Why a trial is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// The counter and the kernel's clocks went apart.
    ClockStep,
    /// The loop moved to another core.
    Migration,
    /// The hypervisor took the core for more than 1 % of the time; of all cores together where no
    /// thread is held on one.
    Steal,
    /// The processor slowed down for heat, or a control group held the process back.
    Throttling,
    /// Other work ran on a worker's core for more than the stated share of the time.
    Preemption,
    /// Other processes used more than the stated share of all cores, where workers share cores.
    Contention,
    /// The clock frequency of a worker's core changed by more than a tenth.
    Frequency,
}

/// The conditions of the calling thread at one time.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    ticks: u64,
    raw_ns: u64,
    wall_ns: u64,
    core: usize,
    migrations: Option<u64>,
    /// Ticks of 1/100 s that the hypervisor took of the core.
    stolen: Option<u64>,
    throttled: u64,
}

fn clock_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(time.tv_sec).unwrap_or(0) * 1_000_000_000
        + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Ticks of 1/100 s that the hypervisor took of a core so far, or of all together.
pub(crate) fn stolen_ticks(tree: &Tree, core: Option<usize>) -> Option<u64> {
    let stat = tree.read("/proc/stat")?;
    let line = core.map_or_else(|| "cpu ".to_owned(), |core| format!("cpu{core} "));
    // proc_stat(5): steal is the eighth column.
    stat.lines().find_map(|found| {
        let columns = found.strip_prefix(&line)?;
        columns.split_whitespace().nth(7)?.parse().ok()
    })
}

/// How often a core slowed down for heat.
fn heat_count(tree: &Tree, core: usize) -> u64 {
    let folder = format!("/sys/devices/system/cpu/cpu{core}/thermal_throttle");
    tree.number(&format!("{folder}/core_throttle_count"))
        .unwrap_or(0)
}

impl Conditions {
    /// Reads the clocks, and the files of `tree`.
    pub fn read(tree: &Tree) -> Self {
        let core = rustix::thread::sched_getcpu();
        Self {
            ticks: tsc::ticks(),
            raw_ns: clock_ns(ClockId::MonotonicRaw),
            wall_ns: clock_ns(ClockId::Realtime),
            ..Self::of_files(tree, core)
        }
    }

    /// Reads the clocks, and the files of `tree` for a core and for threads that are held on it;
    /// `threads` are their folders below `/proc`.
    pub fn read_of(tree: &Tree, core: usize, threads: &[String]) -> Self {
        let migrations = threads.iter().map(|thread| {
            let count = tree.field(&format!("{thread}/sched"), "se.nr_migrations");
            count.and_then(|count| count.parse::<u64>().ok())
        });
        Self {
            ticks: tsc::ticks(),
            raw_ns: clock_ns(ClockId::MonotonicRaw),
            wall_ns: clock_ns(ClockId::Realtime),
            migrations: migrations.sum(),
            ..Self::of_files(tree, core)
        }
    }

    /// Reads the clocks, and the files of `tree` for threads that are held nowhere and may run on
    /// any of `cores`: what the hypervisor took of all cores may be theirs.
    pub(crate) fn read_anywhere(tree: &Tree, cores: &[usize]) -> Self {
        let heat = cores.iter().map(|core| heat_count(tree, *core));
        Self {
            ticks: tsc::ticks(),
            raw_ns: clock_ns(ClockId::MonotonicRaw),
            wall_ns: clock_ns(ClockId::Realtime),
            stolen: stolen_ticks(tree, None),
            throttled: heat.sum::<u64>() + crate::doctor::throttled_count(tree).unwrap_or(0),
            ..Self::default()
        }
    }

    fn of_files(tree: &Tree, core: usize) -> Self {
        let stolen = stolen_ticks(tree, Some(core));
        let held_back = crate::doctor::throttled_count(tree);
        Self {
            core,
            migrations: tree
                .field("/proc/thread-self/sched", "se.nr_migrations")
                .and_then(|count| count.parse().ok()),
            stolen,
            throttled: heat_count(tree, core) + held_back.unwrap_or(0),
            ..Self::default()
        }
    }

    /// What happened from `self` to `after`, in a fixed order.
    pub fn disturbances(&self, after: &Self, rate: TickRate) -> Vec<Disturbance> {
        let raw_ns = after.raw_ns.saturating_sub(self.raw_ns) as f64;
        let ticks_ns = rate.ns(after.ticks.saturating_sub(self.ticks)) as f64;
        let wall_ns = after.wall_ns as f64 - self.wall_ns as f64;
        let drift = raw_ns * DRIFT_MAX_PPM / 1e6 + READING_NS;
        let stepped = (ticks_ns - raw_ns).abs() > drift
            // Network time may slew the wall clock by 500 ppm.
            || (wall_ns - raw_ns).abs() > raw_ns * 500.0 / 1e6 + STEP_MAX_NS;
        let moved = self.core != after.core || self.migrations != after.migrations;
        let stolen = after
            .stolen
            .unwrap_or(0)
            .saturating_sub(self.stolen.unwrap_or(0));
        // A tick is 10 ms; one may have been nearly full before.
        let stolen_ns = stolen.saturating_sub(1) as f64 * 1e7;
        let found = [
            (stepped, Disturbance::ClockStep),
            (moved, Disturbance::Migration),
            (stolen_ns > raw_ns * STEAL_MAX, Disturbance::Steal),
            (after.throttled > self.throttled, Disturbance::Throttling),
        ];
        let is = found.into_iter().filter(|(happened, _)| *happened);
        is.map(|(_, disturbance)| disturbance).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Disturbance::{ClockStep, Migration, Steal, Throttling};

    const SECOND: u64 = 1_000_000_000;

    fn after(change: impl FnOnce(&mut Conditions)) -> Vec<Disturbance> {
        let before = Conditions::default();
        let mut after = Conditions {
            ticks: SECOND,
            raw_ns: SECOND,
            wall_ns: SECOND,
            ..Conditions::default()
        };
        change(&mut after);
        before.disturbances(&after, TickRate::from_ns_per_tick(1.0))
    }

    #[test]
    fn each_disturbance_has_its_name() {
        assert_eq!(after(|_| {}), []);
        assert_eq!(after(|after| after.ticks += 90_000), []);
        assert_eq!(after(|after| after.ticks += 200_000), [ClockStep]);
        assert_eq!(after(|after| after.wall_ns -= 5_000_000), [ClockStep]);
        assert_eq!(after(|after| after.core = 1), [Migration]);
        assert_eq!(after(|after| after.migrations = Some(1)), [Migration]);
        assert_eq!(after(|after| after.stolen = Some(2)), []);
        assert_eq!(after(|after| after.stolen = Some(3)), [Steal]);
        assert_eq!(after(|after| after.throttled = 1), [Throttling]);
    }

    #[test]
    fn counts_are_those_of_the_core() {
        let dir = tempfile::tempdir().unwrap();
        for (path, text) in [
            (
                "proc/stat",
                "cpu  9 9 9 9 9 9 9 99 0\ncpu1 1 1 1 1 1 1 1 42 0\n",
            ),
            (
                "proc/thread-self/sched",
                "a (1, #threads: 1)\nse.nr_migrations   :   7\n",
            ),
            ("proc/self/cgroup", "0::/a/b"),
            ("sys/fs/cgroup/a/cpu.stat", "usage_usec 5\nnr_throttled 3\n"),
            ("sys/fs/cgroup/a/b/cpu.stat", "nr_throttled 2\n"),
            (
                "sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count",
                "10\n",
            ),
        ] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let found = Conditions::of_files(&Tree::new(dir.path()), 1);
        assert_eq!((found.stolen, found.migrations), (Some(42), Some(7)));
        assert_eq!(found.throttled, 15);
        let anywhere = Conditions::read_anywhere(&Tree::new(dir.path()), &[0, 1]);
        assert_eq!((anywhere.stolen, anywhere.throttled), (Some(99), 15));
        let here = Conditions::read(&Tree::new("/"));
        assert!(here.raw_ns > 0 && here.ticks > 0);
    }
}
