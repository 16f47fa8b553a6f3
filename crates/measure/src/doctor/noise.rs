//! The noise floor: a loop that does nothing but read the clock, and what keeps it from doing so.
//!
//! Each core runs a thread of its own that reads the time-stamp counter and notes gaps. What a gap
//! was: of those that came with a context switch the kernel counts the switches; the rest are
//! interrupts, the firmware and the hypervisor.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use catena_shm::tsc;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::Serialize;

use super::Tree;
use crate::traffic::TickRate;
use crate::traffic::conditions::stolen_ticks;
use crate::traffic::stall_recorder::StallRecorder;

/// Gaps from here on count.
pub const GAP_MIN_NS: u64 = 1_000;
/// Classes of gaps: class `n` counts those of 2^n to 2^(n+1) microseconds.
pub const CLASS_COUNT: usize = 20;
/// Stalled share of time above which a machine is noisy.
pub const STALLED_SHARE_MAX: f64 = 0.01;
/// Longest gap above which a machine is noisy.
pub const GAP_MAX_NS: u64 = 1_000_000;

/// What one core's loop saw.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CoreNoise {
    /// The core.
    pub core: usize,
    /// How long it was watched.
    pub watched_ns: u64,
    /// Gaps of at least [`GAP_MIN_NS`].
    pub gaps: u64,
    /// Share of the time that they took.
    pub stalled_share: f64,
    /// The longest.
    pub longest_ns: u64,
    /// Gaps by length (see [`CLASS_COUNT`]).
    pub classes: [u64; CLASS_COUNT],
    /// Context switches that the thread did not ask for.
    pub switches: Option<u64>,
    /// Share of the time that the hypervisor says it took of the core, to 10 ms. What it does not
    /// say is among the stalls all the same.
    pub stolen_share: Option<f64>,
}

impl CoreNoise {
    /// Whether tails measured on this core are the machine's.
    pub fn is_noisy(&self) -> bool {
        self.stalled_share > STALLED_SHARE_MAX || self.longest_ns > GAP_MAX_NS
    }
}

/// Cores that this process may use.
pub fn cores() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU)
            .filter(|&core| set.is_set(core))
            .collect(),
        Err(_) => vec![0],
    }
}

/// Lets the calling thread run on `core` alone; says whether the kernel agreed.
pub(super) fn pin(core: usize) -> bool {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).is_ok()
}

/// Watches all of `cores` at once for `span`; `progress` is told the time gone by, some ten times
/// a second, from the calling thread.
pub fn measure(
    cores: &[usize],
    span: Duration,
    mut progress: impl FnMut(Duration),
) -> Vec<CoreNoise> {
    let rate = TickRate::measure(Duration::from_millis(10));
    let (alive, ended) = channel::<()>();
    std::thread::scope(|scope| {
        let watchers: Vec<_> = cores
            .iter()
            .map(|&core| {
                let alive = alive.clone();
                scope.spawn(move || {
                    pin(core);
                    let noise = watch(core, span, rate);
                    drop(alive);
                    noise
                })
            })
            .collect();
        drop(alive);
        let start = Instant::now();
        while ended.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout) {
            progress(start.elapsed().min(span));
        }
        let joined = watchers
            .into_iter()
            .filter_map(|watcher| watcher.join().ok());
        joined.collect()
    })
}

fn watch(core: usize, span: Duration, rate: TickRate) -> CoreNoise {
    let mut gaps = Gaps::new(rate);
    let switches_before = switches();
    let tree = Tree::new("/");
    let stolen_before = stolen_ticks(&tree, Some(core));
    let length = rate.ticks(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX));
    let start = tsc::ticks();
    loop {
        let now = tsc::ticks();
        gaps.poll(now);
        if now.saturating_sub(start) >= length {
            break;
        }
    }
    let watched_ns = rate.ns(tsc::ticks().saturating_sub(start));
    let switches = switches().zip(switches_before);
    let stolen = stolen_ticks(&tree, Some(core)).zip(stolen_before);
    let mut noise = gaps.into_noise(
        core,
        watched_ns,
        switches.map(|(after, before)| after - before),
    );
    noise.stolen_share = stolen.map(|(after, before)| {
        // Ticks of 10 ms.
        after.saturating_sub(before) as f64 * 1e7 / watched_ns.max(1) as f64
    });
    noise
}

/// Gaps by length; fed with the clock's readings.
struct Gaps {
    stalls: StallRecorder,
    classes: [u64; CLASS_COUNT],
    rate: TickRate,
}

impl Gaps {
    fn new(rate: TickRate) -> Self {
        Self {
            stalls: StallRecorder::new(rate.ticks(GAP_MIN_NS), 0),
            classes: [0; CLASS_COUNT],
            rate,
        }
    }

    #[inline]
    fn poll(&mut self, now: u64) {
        if let Some(gap) = self.stalls.poll(now) {
            let us = self.rate.ns(gap.end - gap.start) / 1000;
            let class = us.max(1).ilog2() as usize;
            self.classes[class.min(CLASS_COUNT - 1)] += 1;
        }
    }

    fn into_noise(self, core: usize, watched_ns: u64, switches: Option<u64>) -> CoreNoise {
        CoreNoise {
            core,
            watched_ns,
            gaps: self.stalls.missed(),
            stalled_share: self.rate.ns(self.stalls.stalled()) as f64 / watched_ns.max(1) as f64,
            longest_ns: self.rate.ns(self.stalls.longest()),
            classes: self.classes,
            switches,
            stolen_share: None,
        }
    }
}

/// Context switches that the calling thread did not ask for, so far.
fn switches() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/status").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"))?;
    line.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_counted_by_length() {
        let mut gaps = Gaps::new(TickRate::from_ns_per_tick(1.0));
        for now in [0, 900, 2_400, 2_500, 12_500, 13_000] {
            gaps.poll(now);
        }
        let noise = gaps.into_noise(3, 100_000, Some(1));
        assert_eq!((noise.gaps, noise.longest_ns), (2, 10_000));
        assert_eq!(noise.classes[..4], [1, 0, 0, 1]);
        assert!((noise.stalled_share - 0.115).abs() < 1e-9);
        assert!(noise.is_noisy());
    }

    #[test]
    fn every_core_is_watched_for_the_time_asked() {
        let cores = cores();
        let noise = measure(&cores[..1], Duration::from_millis(30), |_| {});
        assert_eq!(noise.len(), 1);
        assert!(noise[0].watched_ns >= 29_000_000);
        assert!(noise[0].stalled_share < 1.0);
    }
}
