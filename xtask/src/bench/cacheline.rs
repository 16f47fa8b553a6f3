//! The cheapest hand-overs between two threads: baselines of `bench hop`.
//!
//! One 32-bit word goes back and forth: the first thread writes odd numbers, the second answers
//! each with the even number after it. A wait is a bare spin (the word's cache line moves between
//! two cores), `sched_yield`, or a futex. Each round trip is timed by the time stamp counter on
//! the first thread's core alone; half of it is one way. The median cost of reading the counter
//! twice is taken off.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::fmt;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use catena_shm::tsc::ticks_after_loads;
use rustix::thread::{CpuSet, futex, sched_getaffinity, sched_setaffinity, sched_yield};

/// How a thread waits for the word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    /// Sleeps in the kernel and is woken.
    Futex,
    /// Reads the word without pause.
    Spin,
    /// Gives up the core after each look.
    Yield,
}

impl fmt::Display for HandOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Futex => "futex",
            Self::Spin => "cache line",
            Self::Yield => "sched_yield",
        })
    }
}

/// One-way times.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HopTimes {
    pub(crate) p50_ns: f64,
    pub(crate) p99_ns: f64,
    pub(crate) p999_ns: f64,
    pub(crate) max_ns: f64,
    /// Wall time over hand-overs, to check the counter against the clock.
    pub(crate) mean_ns: f64,
    pub(crate) round_trips: u64,
}

/// Round trips between two looks at the clock.
const BATCH: u32 = 256;

/// Untimed round trips at the start.
const WARM_UP: u32 = 1024;

/// Ends the second thread. Even, so never an answer to wait for before the word wraps, which
/// takes 2^31 round trips: minutes even across cores, and runs last seconds.
const STOP: u32 = u32::MAX - 1;

/// A word alone in its cache line; 128 bytes, since some cores fetch lines in pairs.
#[repr(align(128))]
struct Line(AtomicU32);

/// The first two cores that this thread may use; twice the same where there is only one.
pub(crate) fn first_two_cores() -> io::Result<[usize; 2]> {
    let set = sched_getaffinity(None)?;
    let mut cores = (0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core));
    let first = cores
        .next()
        .ok_or_else(|| io::Error::other("no core to run on"))?;
    Ok([first, cores.next().unwrap_or(first)])
}

/// Hands the word over between `cores` for `duration`.
///
/// # Errors
///
/// A sentence when a thread cannot be pinned.
pub(crate) fn measure(
    kind: HandOver,
    cores: [usize; 2],
    duration: Duration,
) -> Result<HopTimes, String> {
    let line = Line(AtomicU32::new(0));
    let pin = |core| pin(core).map_err(|error| format!("{kind}: core {core}: {error}"));
    std::thread::scope(|scope| {
        // A thread that could not be pinned still plays its part, so that the other one ends.
        let answering = scope.spawn(|| {
            let pinned = pin(cores[1]);
            answer(kind, &line);
            pinned
        });
        let asking = scope.spawn(|| {
            let pinned = pin(cores[0]);
            let times = ask(kind, &line, duration);
            pinned.map(|()| times)
        });
        let panicked = |_| format!("{kind}: a thread panicked");
        let times = asking.join().map_err(panicked)?;
        answering.join().map_err(panicked)??;
        times
    })
}

/// Has the calling thread on one core.
pub(crate) fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

/// The first thread: asks and times until `duration` is over.
fn ask(kind: HandOver, line: &Line, duration: Duration) -> HopTimes {
    let mut word = 0;
    let mut round_trip = || {
        hand_over(kind, line, word + 1);
        word += 2;
        wait_for(kind, line, word);
    };
    for _ in 0..WARM_UP {
        round_trip();
    }
    let overhead = counter_overhead();
    let mut histogram = Histogram::default();
    let start = Instant::now();
    let start_ticks = ticks_after_loads();
    while start.elapsed() < duration {
        for _ in 0..BATCH {
            let before = ticks_after_loads();
            round_trip();
            histogram.add((ticks_after_loads() - before).saturating_sub(overhead));
        }
    }
    let ticks = ticks_after_loads() - start_ticks;
    let elapsed_ns = start.elapsed().as_nanos() as f64;
    hand_over(kind, line, STOP);
    let ns_one_way = elapsed_ns / ticks as f64 / 2.0;
    let percentile = |share| histogram.percentile(share) as f64 * ns_one_way;
    HopTimes {
        p50_ns: percentile(0.5),
        p99_ns: percentile(0.99),
        p999_ns: percentile(0.999),
        max_ns: percentile(1.0),
        mean_ns: elapsed_ns / histogram.count as f64 / 2.0,
        round_trips: histogram.count,
    }
}

/// The second thread: answers each odd number with the even one after it.
fn answer(kind: HandOver, line: &Line) {
    let mut word = 1;
    while wait_for(kind, line, word) {
        hand_over(kind, line, word + 1);
        word += 2;
    }
}

/// Writes the word and wakes the other side. Release: pairs with the load in `wait_for`.
fn hand_over(kind: HandOver, line: &Line, word: u32) {
    line.0.store(word, Ordering::Release);
    if kind == HandOver::Futex {
        // Nobody waiting is no error, and there is no other here.
        let _ = futex::wake(&line.0, futex::Flags::PRIVATE, 1);
    }
}

/// Waits until the other side has written `word`; false when it wrote `STOP` instead.
fn wait_for(kind: HandOver, line: &Line, word: u32) -> bool {
    loop {
        // Acquire: pairs with the store in `hand_over`.
        let seen = line.0.load(Ordering::Acquire);
        if seen == word {
            return true;
        }
        if seen == STOP {
            return false;
        }
        match kind {
            // No pause instruction: it takes up to 140 cycles, more than the hand-over itself.
            HandOver::Spin => {}
            HandOver::Yield => sched_yield(),
            // Returns at once when the word has changed; an interruption leads to another look.
            HandOver::Futex => {
                let _ = futex::wait(&line.0, futex::Flags::PRIVATE, seen, None);
            }
        }
    }
}

/// Counts by tick; the rare long times are kept one by one.
struct Histogram {
    ticks: Vec<u32>,
    beyond: Vec<u64>,
    count: u64,
}

/// About 30 us at 2 GHz: holds all but interrupted round trips.
const HISTOGRAM_TICKS: usize = 1 << 16;

impl Default for Histogram {
    fn default() -> Self {
        Self {
            ticks: vec![0; HISTOGRAM_TICKS],
            beyond: Vec::new(),
            count: 0,
        }
    }
}

impl Histogram {
    fn add(&mut self, ticks: u64) {
        self.count += 1;
        match usize::try_from(ticks)
            .ok()
            .and_then(|at| self.ticks.get_mut(at))
        {
            Some(count) => *count += 1,
            None => self.beyond.push(ticks),
        }
    }

    /// The smallest time that at least `share` of all times do not exceed; 0 when empty.
    fn percentile(&self, share: f64) -> u64 {
        let rank = ((self.count as f64 * share).ceil() as u64).clamp(1, self.count.max(1));
        let mut seen = 0;
        for (ticks, count) in self.ticks.iter().enumerate() {
            seen += u64::from(*count);
            if seen >= rank {
                return ticks as u64;
            }
        }
        let mut beyond = self.beyond.clone();
        beyond.sort_unstable();
        usize::try_from(rank - seen - 1)
            .ok()
            .and_then(|at| beyond.get(at))
            .copied()
            .unwrap_or(0)
    }
}

/// Median ticks between two reads of the counter.
fn counter_overhead() -> u64 {
    let mut histogram = Histogram::default();
    for _ in 0..1001 {
        let before = ticks_after_loads();
        histogram.add(ticks_after_loads() - before);
    }
    histogram.percentile(0.5)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_reach_into_the_long_times() {
        let mut histogram = Histogram::default();
        for _ in 0..98 {
            histogram.add(100);
        }
        histogram.add(1_000_000);
        histogram.add(2_000_000);
        assert_eq!(histogram.percentile(0.5), 100);
        assert_eq!(histogram.percentile(0.98), 100);
        assert_eq!(histogram.percentile(0.99), 1_000_000);
        assert_eq!(histogram.percentile(1.0), 2_000_000);
    }

    #[test]
    fn each_hand_over_ends_on_one_core() {
        let core = first_two_cores().expect("a core to run on")[0];
        for kind in [HandOver::Yield, HandOver::Futex] {
            let times = measure(kind, [core, core], Duration::from_millis(5)).expect("pinned");
            assert!(times.round_trips > 0 && times.p50_ns > 0.0 && times.max_ns >= times.p99_ns);
        }
    }
}
