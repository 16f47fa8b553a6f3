//! Whether other work took core time from a run, and running it again if so.
//!
//! A short run of another program can be judged from outside only: of all core time that was not
//! idle while it ran, steal by the host included, what was neither its own nor the harness's went
//! to others. Both sides of a comparison are judged alike.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::Instant;

use super::machine::busy_seconds;

/// A run from which others took more than this share of the cores is disturbed.
const DISTURBED_SHARE: f64 = 0.05;
/// How often a run is repeated at most.
const ATTEMPTS: u32 = 4;

/// Runs counted over a benchmark.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Quiet {
    runs: u32,
    rejected: u32,
    kept_disturbed: u32,
    /// Windows of bare loops, which judge themselves.
    windows: usize,
    windows_rejected: usize,
}

impl Quiet {
    /// Gives the first outcome of `run` that was not disturbed; if all were, the least disturbed.
    /// A failure is not repeated.
    pub(crate) fn run<T, E>(&mut self, mut run: impl FnMut() -> Result<T, E>) -> Result<T, E> {
        let mut best: Option<(f64, T)> = None;
        for _ in 0..ATTEMPTS {
            let watch = Watch::begin();
            let outcome = run()?;
            let share = watch.and_then(Watch::others_share).unwrap_or(0.0);
            self.runs += 1;
            if share <= DISTURBED_SHARE {
                return Ok(outcome);
            }
            self.rejected += 1;
            if best.as_ref().is_none_or(|(least, _)| share < *least) {
                best = Some((share, outcome));
            }
        }
        self.kept_disturbed += 1;
        match best {
            Some((_, outcome)) => Ok(outcome),
            None => run(),
        }
    }

    /// Counts windows of bare loops, and those of them that did not count.
    pub(crate) fn count_windows(&mut self, windows: usize, rejected: usize) {
        self.windows += windows;
        self.windows_rejected += rejected;
    }

    /// What a reader must know.
    pub(crate) fn notes(&self) -> Vec<String> {
        let windows = (self.windows_rejected > 0).then(|| {
            format!(
                "{} of {} windows of bare loops were disturbed and do not count",
                self.windows_rejected, self.windows
            )
        });
        let runs = (self.rejected > 0).then(|| {
            format!(
                "{} of {} short runs were rejected because others took more than {:.0} % of the \
                 cores; {} figures are of the least disturbed run",
                self.rejected,
                self.runs,
                100.0 * DISTURBED_SHARE,
                self.kept_disturbed
            )
        });
        windows.into_iter().chain(runs).collect()
    }
}

struct Watch {
    at: Instant,
    all: f64,
    ours: f64,
}

impl Watch {
    fn begin() -> Option<Self> {
        Some(Self {
            at: Instant::now(),
            all: busy_seconds()?,
            ours: our_seconds()?,
        })
    }

    /// Share of all cores' time that went to others.
    fn others_share(self) -> Option<f64> {
        let cores = std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64);
        let all = busy_seconds()? - self.all;
        let ours = our_seconds()? - self.ours;
        Some((all - ours) / (self.at.elapsed().as_secs_f64() * cores))
    }
}

/// Core time of this process and of the children that have ended.
fn our_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // proc_pid_stat(5): the name, in brackets, may hold blanks; after it utime, stime, cutime and
    // cstime are the fields from the twelfth on.
    let fields = text.rsplit_once(')')?.1.split_whitespace();
    let ticks: Vec<u64> = fields
        .skip(11)
        .take(4)
        .filter_map(|field| field.parse().ok())
        .collect();
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    (ticks.len() == 4).then(|| ticks.iter().sum::<u64>() as f64 / per_second)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_core_time_is_counted() {
        let before = our_seconds().expect("proc is there");
        let until = Instant::now() + std::time::Duration::from_millis(60);
        while Instant::now() < until {}
        assert!(our_seconds().expect("proc is there") > before);
    }

    #[test]
    fn a_failure_is_told_at_once() {
        let mut quiet = Quiet::default();
        let mut calls = 0;
        let failed: Result<(), &str> = quiet.run(|| {
            calls += 1;
            Err("no")
        });
        assert_eq!((failed, calls), (Err("no"), 1));
        assert!(quiet.notes().is_empty());
    }
}
