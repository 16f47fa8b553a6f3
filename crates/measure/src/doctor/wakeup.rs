//! How late a sleeping core answers: what idle states really cost.
//!
//! Tables of idle states say how long the processor takes to leave one; a hypervisor that gives the
//! core away while it idles is in no table. So a thread on each core sleeps until set times and
//! notes how much later it runs. One core after the other, so that the others idle as well.

use std::num::NonZeroU64;
use std::time::Duration;

use rustix::thread::{clock_nanosleep_absolute, set_current_timer_slack};
use rustix::time::{ClockId, Timespec, clock_gettime};
use serde::Serialize;

use super::noise::pin;
use crate::stats::quantile::{quantile, rank};

/// How long each sleep is: long enough for a core to go to its deepest idle state.
const SLEEP_NS: i64 = 1_000_000;
/// Sleeps of each core.
const SLEEPS: usize = 300;
/// Median lateness above which sleeping workers show in latencies.
pub const LATE_MAX_NS: u64 = 10_000;

/// How late sleeps of one core ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Wakeups {
    /// The core.
    pub core: usize,
    /// Sleeps.
    pub count: usize,
    /// Median lateness.
    pub p50_ns: u64,
    /// 90th percentile.
    pub p90_ns: u64,
    /// 99th percentile, if there were enough sleeps.
    pub p99_ns: Option<u64>,
    /// Longest.
    pub longest_ns: u64,
}

impl Wakeups {
    /// Of lateness values in any order.
    fn of(core: usize, mut late_ns: Vec<u64>) -> Option<Self> {
        late_ns.sort_unstable();
        let at = |q| late_ns.get(rank(late_ns.len(), q)).copied();
        Some(Self {
            core,
            count: late_ns.len(),
            p50_ns: at(0.5)?,
            p90_ns: at(0.9)?,
            p99_ns: quantile(&late_ns, 0.99),
            longest_ns: late_ns.last().copied()?,
        })
    }

    /// Whether sleeping shows in latencies.
    pub const fn is_late(&self) -> bool {
        self.p50_ns > LATE_MAX_NS
    }
}

fn ns_of(time: Timespec) -> i64 {
    time.tv_sec.saturating_mul(1_000_000_000) + time.tv_nsec
}

fn time_of(ns: i64) -> Timespec {
    Timespec {
        tv_sec: ns / 1_000_000_000,
        tv_nsec: ns % 1_000_000_000,
    }
}

/// Lateness of the sleeps of the calling thread.
fn sleep_and_see() -> Vec<u64> {
    // Else the kernel may delay it by 50 us on purpose.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
    let mut late = Vec::with_capacity(SLEEPS);
    for _ in 0..SLEEPS {
        let wanted = ns_of(clock_gettime(ClockId::Monotonic)) + SLEEP_NS;
        if clock_nanosleep_absolute(ClockId::Monotonic, &time_of(wanted)).is_err() {
            // A signal ended it early: it says nothing.
            continue;
        }
        let woke = ns_of(clock_gettime(ClockId::Monotonic));
        late.push(u64::try_from(woke - wanted).unwrap_or(0));
    }
    late
}

/// How long [`measure`] takes for so many cores, if nothing is late.
pub fn span(cores: usize) -> Duration {
    Duration::from_nanos(SLEEP_NS.unsigned_abs())
        * u32::try_from(SLEEPS * cores).unwrap_or(u32::MAX)
}

/// Lets each of `cores` sleep in turn; those to which no thread can be bound are left out.
pub fn measure(cores: &[usize]) -> Vec<Wakeups> {
    let of_core = |core: &usize| {
        let core = *core;
        let sleeper = std::thread::spawn(move || {
            pin(core)
                .then(sleep_and_see)
                .and_then(|late| Wakeups::of(core, late))
        });
        sleeper.join().ok().flatten()
    };
    cores.iter().filter_map(of_core).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_that_wakes_late_is_named() {
        let quick = Wakeups::of(1, (0..1000).map(|n| 3000 + n).collect()).unwrap();
        assert_eq!((quick.p50_ns, quick.p99_ns), (3499, Some(3989)));
        assert!(!quick.is_late());
        let late = Wakeups::of(1, vec![51_000; 300]).unwrap();
        assert!(late.is_late() && late.p99_ns.is_none());
        assert_eq!(Wakeups::of(1, Vec::new()), None);
    }

    #[test]
    fn sleeps_are_measured_and_never_end_early() {
        let core = super::super::noise::cores()[0];
        let found = measure(&[core]);
        assert_eq!(found[0].core, core);
        assert!(found[0].count > SLEEPS / 2 && found[0].longest_ns >= found[0].p50_ns);
        assert_eq!(span(2), Duration::from_millis(600));
    }
}
