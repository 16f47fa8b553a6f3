//! `bench wake-up`: how late a thread runs that was woken by one on the same core.
//!
//! Two threads of one core. One wakes the other by a futex, then stays awake for a time, as a
//! paced generator does in front of its next packet, and wakes it again; once it gives the core
//! away behind the wake-up, once it keeps it. The other works for a while and sleeps. With what
//! slices both have asked for ([`ask_for_slices`]), the table tells what the kernel grants of them.
//! [ADR 7](../../../docs/adr/0007-waiting-is-chosen-by-measuring.md) needs the answer.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catena_shm::schedule::ask_for_slices;
use rustix::thread::{futex, sched_yield};

use super::cacheline::{first_two_cores, pin};
use super::extent::Extent;
use super::report::Row;
use super::series::Series;

/// How long the one that wakes stays awake.
const AWAKE: [Duration; 4] = [
    Duration::from_micros(50),
    Duration::from_micros(200),
    Duration::from_millis(1),
    Duration::from_millis(6),
];
/// Slices that both ask for; the usual ones without a number.
const SLICES: [Option<Duration>; 3] = [
    None,
    Some(Duration::from_micros(100)),
    Some(Duration::from_micros(300)),
];
/// How long the one that is woken works.
const WORK: Duration = Duration::from_micros(100);
/// Wake-ups of a run: a few in a hundred are late.
const WAKE_UPS: usize = 400;
const WAKE_UPS_BRIEF: usize = 20;

/// Says to the one that sleeps that it is over.
const STOP: u32 = u32::MAX;

/// What both threads share.
struct Shared {
    /// Counts wake-ups; the sleeper sleeps on it.
    word: AtomicU32,
    /// When the last one was, in nanoseconds since `epoch`.
    woken_ns: AtomicU64,
    epoch: Instant,
}

impl Shared {
    fn now_ns(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// The store before the wake-up pairs with the load in [`Self::sleep`].
    fn wake(&self, word: u32) {
        self.woken_ns.store(self.now_ns(), Ordering::Relaxed);
        self.word.store(word, Ordering::Release);
        // Nobody asleep is no error: it sees the word before it sleeps.
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
    }

    /// Sleeps until the word is another than `seen`, and gives it.
    fn sleep(&self, seen: u32) -> u32 {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word != seen {
                return word;
            }
            let _ = futex::wait(&self.word, futex::Flags::PRIVATE, seen, None);
        }
    }
}

/// Lateness in microseconds that 99 of 100 wake-ups do not exceed.
fn p99_us(
    core: usize,
    (awake, slices): (Duration, Option<Duration>),
    gives_way: bool,
    wake_ups: usize,
) -> Result<f64, String> {
    let shared = Shared {
        word: AtomicU32::new(0),
        woken_ns: AtomicU64::new(0),
        epoch: Instant::now(),
    };
    let settle = || {
        let pinned = pin(core).map_err(|error| format!("core {core}: {error}"));
        match ask_for_slices(slices) {
            true => pinned,
            false => Err("threads of a real-time policy have no slices".to_owned()),
        }
    };
    std::thread::scope(|scope| {
        // One that could not be settled plays its part, so that the other ends.
        let sleeper = scope.spawn(|| {
            let (settled, mut late) = (settle(), Vec::with_capacity(wake_ups));
            let mut seen = 0;
            loop {
                seen = shared.sleep(seen);
                late.push(shared.now_ns() - shared.woken_ns.load(Ordering::Relaxed));
                if seen == STOP {
                    return settled.map(|()| late);
                }
                stay_awake(WORK);
            }
        });
        let waker = scope.spawn(|| {
            let settled = settle();
            for word in (1..STOP).take(wake_ups) {
                shared.wake(word);
                if gives_way {
                    sched_yield();
                }
                stay_awake(awake);
            }
            shared.wake(STOP);
            settled
        });
        let panicked = |_| "a thread panicked".to_owned();
        waker.join().map_err(panicked)??;
        let mut late = sleeper.join().map_err(panicked)??;
        late.sort_unstable();
        // Fewer than were asked for: the sleeper worked while it was woken again.
        let at = (late.len() * 99 / 100).min(late.len().saturating_sub(1));
        let p99_ns = late.get(at).ok_or("it was never woken")?;
        Ok(*p99_ns as f64 / 1e3)
    })
}

fn stay_awake(span: Duration) {
    let start = Instant::now();
    while start.elapsed() < span {
        std::hint::spin_loop();
    }
}

/// One row for each time awake and each slice.
pub(super) fn run(rounds: u32, extent: Extent) -> (Vec<Row>, Vec<String>) {
    let wake_ups = match extent {
        Extent::Brief => WAKE_UPS_BRIEF,
        _ => WAKE_UPS,
    };
    let core = first_two_cores().map_err(|error| error.to_string());
    let core = core.map(|[first, second]| if first == second { first } else { second });
    let cases = SLICES.map(|slices| AWAKE.map(|awake| (awake, slices)));
    let mut measured: Vec<_> = cases
        .concat()
        .into_iter()
        .map(|case| (case, [Series::default(), Series::default()]))
        .collect();
    for round in 0..rounds {
        eprintln!("round {}/{rounds}: wake-ups", round + 1);
        for (case, [giving, keeping]) in &mut measured {
            let late = |gives_way| p99_us(core.clone()?, *case, gives_way, wake_ups);
            giving.push(late(true));
            keeping.push(late(false));
        }
    }
    let rows = measured.iter().map(|((awake, slices), [giving, keeping])| {
        let slices = slices.map_or("the usual slices".to_owned(), |slice| {
            format!("slices of {slice:?}")
        });
        let name = format!(
            "woken thread late, p99: waker gives way, then is awake for {awake:?}, {slices}"
        );
        Row::new(
            name,
            "us",
            giving,
            Some(("waker that keeps the core", keeping)),
            None,
        )
    });
    let notes = vec![format!(
        "both threads on core {}, the woken one works for {WORK:?}",
        core.as_ref().map_or(0, |core| *core)
    )];
    (rows.collect(), notes)
}
