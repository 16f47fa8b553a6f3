//! What a device spends on packets: the time that its workers had on cores, and asleep.
//!
//! Around a trial, from the supervisor's status and from the kernel (proc_pid_schedstat(5), and by
//! ticks where it has none). Of workers that are processes of their own and have no port of the
//! tester: what is in one process with it cannot be told apart. A worker that polls spends its core
//! whether packets come or not; that it gives way to others, or sleeps, is what it saves.

use std::ops::{AddAssign, Range};
use std::time::Instant;

use catena_engine::supervisor::Supervisor;
use catena_engine::supervisor::status::Status;

use super::foreign::ran_ns;
use crate::doctor::Tree;

/// Time of a device's workers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spent {
    /// How many workers.
    pub workers: usize,
    /// Nanoseconds that they ran on cores.
    pub ran_ns: f64,
    /// Nanoseconds that they slept.
    pub slept_ns: f64,
    /// Nanoseconds that passed, for each of them.
    pub passed_ns: f64,
}

impl AddAssign for Spent {
    fn add_assign(&mut self, other: Self) {
        self.workers = self.workers.max(other.workers);
        self.ran_ns += other.ran_ns;
        self.slept_ns += other.slept_ns;
        self.passed_ns += other.passed_ns;
    }
}

impl Spent {
    /// Share of the time in which they slept.
    pub fn slept_share(&self) -> Option<f64> {
        (self.passed_ns > 0.0).then(|| self.slept_ns / self.passed_ns)
    }

    /// Share of the time in which they ran.
    pub fn ran_share(&self) -> Option<f64> {
        (self.passed_ns > 0.0).then(|| self.ran_ns / self.passed_ns)
    }
}

/// What is looked at once when a trial's packets begin to count, and once when most of them have
/// come.
#[derive(Debug)]
pub(super) struct Books {
    tree: Tree,
    /// Nodes of the tester.
    tester: Vec<String>,
    began: Option<(Instant, Ledger)>,
    spent: Option<Spent>,
}

/// Share of a trial behind which it is looked at again: at its end, which is known from outside and
/// late, workers may be gone.
const LOOKED_AT: f64 = 0.8;

impl Books {
    /// For a device with these nodes of the tester.
    pub(super) fn of(tester: impl Iterator<Item = String>) -> Self {
        Self {
            tree: Tree::new("/"),
            tester: tester.collect(),
            began: None,
            spent: None,
        }
    }

    /// Looks, if it is time to: packets count in this span.
    pub(super) fn look(&mut self, supervisor: &Supervisor, counts: Range<Instant>) {
        let now = Instant::now();
        if self.began.is_none() && now >= counts.start {
            self.began = Some((now, self.read(supervisor)));
            return;
        }
        let span = counts.end.saturating_duration_since(counts.start);
        let is_over = now >= counts.start + span.mul_f64(LOOKED_AT);
        if is_over {
            self.close(supervisor);
        }
    }

    /// Looks for the last time, unless that has been done: a trial may end before it is expected
    /// to, seen from outside.
    pub(super) fn close(&mut self, supervisor: &Supervisor) {
        let Some((began, ledger)) = self.began.as_ref().filter(|_| self.spent.is_none()) else {
            return;
        };
        let passed = began.elapsed();
        let found = ledger.until(&self.read(supervisor), passed.as_secs_f64() * 1e9);
        self.spent = Some(found.unwrap_or_default());
    }

    fn read(&self, supervisor: &Supervisor) -> Ledger {
        Ledger::read(&self.tree, &supervisor.status(), &self.tester)
    }

    /// What was spent; none if it cannot be told.
    pub(super) fn spent(&self) -> Option<Spent> {
        self.spent.filter(|spent| spent.workers > 0)
    }
}

/// What each worker had done at one time.
#[derive(Clone, Debug, Default)]
struct Ledger {
    /// Process, nanoseconds it ran, and nanoseconds it slept.
    workers: Vec<(u32, u64, f64)>,
}

impl Ledger {
    /// Of the workers without nodes of these names.
    fn read(tree: &Tree, status: &Status, tester: &[String]) -> Self {
        let hosts = status.nodes.iter();
        let hosts = hosts.filter(|node| tester.contains(&node.name));
        let hosts: Vec<&str> = hosts.map(|node| &*node.worker).collect();
        let workers = status.workers.iter();
        let workers = workers.filter(|worker| !hosts.contains(&&*worker.name));
        let read = workers.filter_map(|worker| {
            let pid = worker.pid.filter(|pid| *pid != std::process::id())?;
            Some((pid, ran_ns(tree, pid)?, worker.sleep_s * 1e9))
        });
        Self {
            workers: read.collect(),
        }
    }

    /// What was done from then until now; none if workers have been replaced, or there are none.
    fn until(&self, now: &Self, passed_ns: f64) -> Option<Spent> {
        let pids = |ledger: &Self| -> Vec<u32> {
            let workers = ledger.workers.iter();
            workers.map(|(pid, ..)| *pid).collect()
        };
        if self.workers.is_empty() || pids(self) != pids(now) {
            return None;
        }
        let mut spent = Spent {
            workers: self.workers.len(),
            passed_ns: passed_ns * self.workers.len() as f64,
            ..Spent::default()
        };
        for ((_, ran, slept), (_, ran_now, slept_now)) in self.workers.iter().zip(&now.workers) {
            spent.ran_ns += ran_now.saturating_sub(*ran) as f64;
            spent.slept_ns += (slept_now - slept).max(0.0);
        }
        Some(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger(workers: &[(u32, u64, f64)]) -> Ledger {
        Ledger {
            workers: workers.to_vec(),
        }
    }

    #[test]
    fn what_is_spent_lies_between_two_looks_at_the_same_workers() {
        let before = ledger(&[(7, 100, 50.0), (8, 1000, 0.0)]);
        let after = ledger(&[(7, 400, 750.0), (8, 2000, 0.0)]);
        let spent = before.until(&after, 1000.0).unwrap();
        assert_eq!((spent.workers, spent.ran_ns), (2, 1300.0));
        assert_eq!(spent.slept_share(), Some(0.35));
        assert_eq!(spent.ran_share(), Some(0.65));
        let mut all = spent;
        all += spent;
        assert_eq!((all.workers, all.slept_share()), (2, Some(0.35)));
        // Another process has its place.
        assert_eq!(
            before.until(&ledger(&[(7, 400, 0.0), (9, 0, 0.0)]), 1.0),
            None
        );
        assert_eq!(ledger(&[]).until(&ledger(&[]), 1.0), None);
        assert_eq!(Spent::default().slept_share(), None);
    }
}
