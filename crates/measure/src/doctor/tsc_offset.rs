//! How far apart the time-stamp counters of two cores are: bounds, not an estimate.
//!
//! One core asks and notes its counter before and after, the other answers with its own: the answer
//! lies between the two, so that each exchange bounds the offset from both sides (Cristian,
//! "Probabilistic clock synchronization", 1989). The best bounds of many exchanges hold.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use catena_shm::tsc;
use serde::Serialize;

use super::noise::pin;

/// Exchanges between two cores.
const EXCHANGE_COUNT: u64 = 20_000;
/// Longest time for them, on a machine where the two threads share a core.
const TIME_MAX: Duration = Duration::from_secs(1);

/// Bounds of the offset of one core's counter to another's, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TscOffset {
    /// The core asked.
    pub core: usize,
    /// The core asking.
    pub to: usize,
    /// Least offset.
    pub least: i64,
    /// Most offset.
    pub most: i64,
    /// Exchanges made.
    pub exchanges: u64,
}

impl TscOffset {
    /// No exchange yet: any offset.
    const fn unknown(core: usize, to: usize) -> Self {
        Self {
            core,
            to,
            least: i64::MIN,
            most: i64::MAX,
            exchanges: 0,
        }
    }

    /// Narrows the bounds by an exchange: asked at `before`, answered with `answer`, known at
    /// `after`.
    const fn exchange(&mut self, before: u64, answer: u64, after: u64) {
        let least = answer.wrapping_sub(after).cast_signed();
        let most = answer.wrapping_sub(before).cast_signed();
        if least > self.least {
            self.least = least;
        }
        if most < self.most {
            self.most = most;
        }
        self.exchanges += 1;
    }

    /// Whether no exchange contradicts equal counters.
    pub const fn may_be_zero(&self) -> bool {
        self.least <= 0 && self.most >= 0
    }
}

/// Measures the offset of `core` to `to`; `None` where the threads cannot be pinned to them, or
/// the two never ran at a time.
pub fn measure(core: usize, to: usize) -> Option<TscOffset> {
    // Question and answer: the number of the exchange, and the counter; each is written by one
    // side only. 0 is no question, and u64::MAX the end.
    let (question, answered, answer) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let answering = scope.spawn(|| {
            if !pin(core) {
                answered.store(u64::MAX, Ordering::Release);
                return;
            }
            let mut last = 0;
            loop {
                // Acquire: pairs with the asking side's Release, so that the counter is read after
                // the question was put.
                let now = question.load(Ordering::Acquire);
                if now == u64::MAX {
                    return;
                }
                if now != last {
                    last = now;
                    answer.store(tsc::ticks_after_loads(), Ordering::Relaxed);
                    // Release: pairs with the asking side's Acquire; the answer is seen with it.
                    answered.store(now, Ordering::Release);
                }
                std::hint::spin_loop();
            }
        });
        let asking = scope.spawn(|| {
            let is_pinned = pin(to);
            let offset = is_pinned.then(|| ask(core, to, &question, &answered, &answer));
            question.store(u64::MAX, Ordering::Release);
            offset
        });
        let offset = asking.join().ok().flatten();
        let _ = answering.join();
        offset.filter(|offset| offset.exchanges > 0)
    })
}

fn ask(
    core: usize,
    to: usize,
    question: &AtomicU64,
    answered: &AtomicU64,
    answer: &AtomicU64,
) -> TscOffset {
    let mut offset = TscOffset::unknown(core, to);
    let start = Instant::now();
    for number in 1..=EXCHANGE_COUNT {
        let before = tsc::ticks_after_loads();
        question.store(number, Ordering::Release);
        let mut spins = 0_u32;
        loop {
            let seen = answered.load(Ordering::Acquire);
            if seen == number {
                break;
            }
            spins += 1;
            let is_over = spins.is_multiple_of(1024) && start.elapsed() > TIME_MAX;
            if seen == u64::MAX || is_over {
                return offset;
            }
            std::hint::spin_loop();
        }
        let after = tsc::ticks_after_loads();
        offset.exchange(before, answer.load(Ordering::Relaxed), after);
    }
    offset
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exchanges_narrow_the_bounds_around_the_truth() {
        let mut offset = TscOffset::unknown(1, 0);
        // The other counter is 1000 ahead; there and back take 40 to 400.
        for (there, back) in [(200, 200), (30, 150), (180, 10), (20, 20)] {
            let before = 5_000;
            offset.exchange(before, before + there + 1000, before + there + back);
        }
        assert_eq!((offset.least, offset.most), (990, 1020));
        assert!(!offset.may_be_zero());
    }

    #[test]
    fn cores_of_this_machine_are_bounded() {
        let cores = super::super::noise::cores();
        let [one, other, ..] = cores.as_slice() else {
            println!("SKIP cores_of_this_machine_are_bounded: one core only");
            return;
        };
        let Some(offset) = measure(*other, *one) else {
            println!("SKIP cores_of_this_machine_are_bounded: threads cannot be pinned");
            return;
        };
        assert!(offset.least <= offset.most, "{offset:?}");
    }
}
