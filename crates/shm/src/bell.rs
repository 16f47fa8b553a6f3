//! Sleeping without losing a wake-up, on words that the other side cannot write.
//!
//! Between two turns: a worker that found nothing to do sleeps until a neighbour gives it work.
//! Each ring end has two words, written by its owner only:
//!
//! | word | written by | read by | meaning |
//! |---|---|---|---|
//! | `waiting` | the sleeper, on its own end | the waker | ring me when you have done something |
//! | `rung`    | the waker, on its own end | the sleeper | counts the rings; the futex word |
//!
//! The sleeper: set `waiting`, note the neighbours' `rung`, full fence, look for work once more,
//! sleep while no `rung` has changed. The waker: publish, full fence, read `waiting`, and if set,
//! count up its own `rung` and wake. The two fences make it impossible that the sleeper misses the
//! work *and* the waker misses the flag; and a ring between the sleeper's last look and its sleep
//! changes the futex word, so that the kernel does not put it to sleep. The word a sleeper waits on
//! is its neighbour's, mapped read-only, so a waker needs no write access to the sleeper's memory.
#![allow(unsafe_code, reason = "futex system calls")]

use std::time::Duration;

use crate::sync::{AtomicU32, Ordering, fence};

/// The two words of one ring end.
#[derive(Clone, Copy, Debug)]
pub struct Bell<'a> {
    /// Set by this end's owner while it sleeps.
    pub waiting: &'a AtomicU32,
    /// Counted up by this end's owner when it wakes the other side.
    pub rung: &'a AtomicU32,
}

impl Bell<'_> {
    /// Says that this end's owner is about to sleep, or no longer sleeps.
    pub fn set_waiting(&self, waiting: bool) {
        self.waiting.store(u32::from(waiting), Ordering::Relaxed);
    }

    /// Whether this end's owner asked to be woken. Only meaningful after [`full_fence`].
    pub fn is_waiting(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) != 0
    }

    /// Counts a ring; the caller then wakes the sleepers with [`wake`].
    pub fn ring(&self) {
        // Only this end's owner writes the word, so load and store need not be one step. Release
        // pairs with the Acquire load of the sleeper, who then sees the work.
        let rung = self.rung.load(Ordering::Relaxed).wrapping_add(1);
        self.rung.store(rung, Ordering::Release);
    }

    /// The count a sleeper notes before its last look for work.
    pub fn rung(&self) -> u32 {
        self.rung.load(Ordering::Acquire)
    }
}

/// Orders "published" before "is it waiting?" in the waker, and "waiting" before "is there work?"
/// in the sleeper. Once per turn, not per ring.
pub fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Most words one sleeper can wait on (the kernel's limit for `futex_waitv`).
pub const WORDS_MAX: usize = 128;

/// Wakes whoever sleeps on `word`.
#[cfg(not(loom))]
pub fn wake(word: &AtomicU32) {
    // SAFETY: FUTEX_WAKE reads no user memory beyond the address of a live atomic.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            std::ptr::from_ref(word),
            libc::FUTEX_WAKE,
            i32::MAX,
        );
    }
}

/// One word to sleep on, laid out as the kernel's `struct futex_waitv`.
#[cfg(not(loom))]
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct WaitWord {
    expected: u64,
    address: u64,
    flags: u32,
    reserved: u32,
}

#[cfg(not(loom))]
impl WaitWord {
    const SIZE_U32: u32 = 2;

    /// Sleeps while `word` holds `expected`.
    pub fn new(word: &AtomicU32, expected: u32) -> Self {
        Self {
            expected: expected.into(),
            address: std::ptr::from_ref(word) as u64,
            flags: Self::SIZE_U32,
            reserved: 0,
        }
    }
}

/// Sleeps until one of the words has changed or is woken, or `timeout` has passed. Returns also for
/// signals; the caller looks for work in any case. More than [`WORDS_MAX`] words: the rest is left
/// to the timeout, which is therefore always finite.
#[cfg(not(loom))]
pub fn sleep(words: &[WaitWord], timeout: Duration) {
    let words = &words[..words.len().min(WORDS_MAX)];
    let deadline = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let nanos = deadline.tv_nsec + i64::from(timeout.subsec_nanos());
    let seconds = deadline.tv_sec
        + i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX / 4)
        + nanos / 1_000_000_000;
    let deadline = [seconds, nanos % 1_000_000_000];
    // SAFETY: the kernel reads `words`, whose addresses are live atomics of mappings that the
    // caller keeps, and the deadline; it writes nothing.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex_waitv,
            words.as_ptr(),
            words.len(),
            0,
            deadline.as_ptr(),
            libc::CLOCK_MONOTONIC,
        )
    };
    if result < 0 && is_refused(&std::io::Error::last_os_error()) {
        sleep_on_first(words, timeout.min(LOOK_AGAIN));
    }
}

/// Longest sleep where only one word can be waited on: work announced by another waits so long.
#[cfg(not(loom))]
const LOOK_AGAIN: Duration = Duration::from_micros(250);

/// Whether the kernel lets this process wait on several words at once. A system call filter older
/// than `futex_waitv` (that of podman 4.3, say) does not, nor does a kernel before 5.16; sleepers
/// then look again every 250 microseconds.
#[cfg(not(loom))]
pub fn can_wait_on_several() -> bool {
    // SAFETY: with no words the kernel reads nothing; it refuses the count.
    let result = unsafe { libc::syscall(libc::SYS_futex_waitv, 0, 0, 0, 0, libc::CLOCK_MONOTONIC) };
    result >= 0 || !is_refused(&std::io::Error::last_os_error())
}

#[cfg(not(loom))]
fn is_refused(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM))
}

#[cfg(not(loom))]
fn sleep_on_first(words: &[WaitWord], timeout: Duration) {
    let unchanging = AtomicU32::new(0);
    let nothing = WaitWord::new(&unchanging, 0);
    let first = words.first().unwrap_or(&nothing);
    let timeout = libc::timespec {
        tv_sec: 0,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    // SAFETY: as for `futex_waitv`: the address is that of a live atomic, and nothing is written.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            first.address,
            libc::FUTEX_WAIT,
            first.expected,
            std::ptr::from_ref(&timeout),
        );
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::time::Instant;

    #[test]
    fn a_changed_word_does_not_sleep() {
        let word = AtomicU32::new(1);
        let start = Instant::now();
        sleep(&[WaitWord::new(&word, 0)], Duration::from_secs(20));
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn sleep_ends_at_the_timeout() {
        let word = AtomicU32::new(0);
        let start = Instant::now();
        sleep(&[WaitWord::new(&word, 0)], Duration::from_millis(20));
        assert!(start.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn where_one_word_is_all_sleep_is_short() {
        let (quiet, changed) = (AtomicU32::new(0), AtomicU32::new(1));
        let start = Instant::now();
        for _ in 0..20 {
            sleep_on_first(&[WaitWord::new(&quiet, 0)], LOOK_AGAIN);
        }
        assert!(start.elapsed() >= LOOK_AGAIN * 20);
        sleep_on_first(&[WaitWord::new(&changed, 0)], LOOK_AGAIN);
        sleep_on_first(&[], LOOK_AGAIN);
        assert!(start.elapsed() < Duration::from_secs(10));
    }

    #[test]
    fn ten_thousand_hand_overs_lose_no_wake_up() {
        let words: Arc<[AtomicU32; 4]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
        let work = Arc::new(AtomicU32::new(0));
        let (their_words, their_work) = (words.clone(), work.clone());
        let sleeper = std::thread::spawn(move || {
            let own = Bell {
                waiting: &their_words[0],
                rung: &their_words[1],
            };
            let peer = Bell {
                waiting: &their_words[2],
                rung: &their_words[3],
            };
            let start = Instant::now();
            let mut done = 0;
            while done < 10_000 {
                own.set_waiting(true);
                let rung = peer.rung();
                full_fence();
                if their_work.load(Ordering::Acquire) == done {
                    sleep(&[WaitWord::new(peer.rung, rung)], Duration::from_secs(60));
                }
                own.set_waiting(false);
                done = their_work.load(Ordering::Acquire);
            }
            assert!(
                start.elapsed() < Duration::from_secs(50),
                "a wake-up was lost"
            );
        });
        let own = Bell {
            waiting: &words[2],
            rung: &words[3],
        };
        let peer = Bell {
            waiting: &words[0],
            rung: &words[1],
        };
        for _ in 0..10_000 {
            work.fetch_add(1, Ordering::Release);
            full_fence();
            if peer.is_waiting() {
                own.ring();
                wake(own.rung);
            }
        }
        sleeper.join().unwrap();
    }
}

#[cfg(all(test, loom))]
mod models {
    use super::*;
    use loom::sync::{Arc, Condvar, Mutex};

    /// The kernel's part: compares and sleeps in one step, as the futex's bucket lock makes it.
    #[derive(Default)]
    struct Futex {
        asleep: Mutex<bool>,
        changed: Condvar,
    }

    /// Whatever the order, the sleeper gets to see the work: either it finds it in its last look,
    /// or the waker finds it waiting.
    #[test]
    fn loom_no_wake_up_is_lost() {
        loom::model(|| {
            let words: Arc<[AtomicU32; 3]> = Arc::new(std::array::from_fn(|_| AtomicU32::new(0)));
            let work = Arc::new(AtomicU32::new(0));
            let futex = Arc::new(Futex::default());
            let (their_words, their_work, their_futex) =
                (words.clone(), work.clone(), futex.clone());
            let waker = loom::thread::spawn(move || {
                let own = Bell {
                    waiting: &their_words[2],
                    rung: &their_words[1],
                };
                let sleeper = Bell {
                    waiting: &their_words[0],
                    rung: &their_words[2],
                };
                their_work.store(1, Ordering::Release);
                full_fence();
                if sleeper.is_waiting() {
                    own.ring();
                    let _bucket = their_futex.asleep.lock().unwrap();
                    their_futex.changed.notify_all();
                }
            });
            let own = Bell {
                waiting: &words[0],
                rung: &words[2],
            };
            own.set_waiting(true);
            let rung = words[1].load(Ordering::Acquire);
            full_fence();
            if work.load(Ordering::Acquire) == 0 {
                let mut bucket = futex.asleep.lock().unwrap();
                // A lost wake-up would leave this thread waiting for ever: loom reports a deadlock.
                while words[1].load(Ordering::Acquire) == rung {
                    *bucket = true;
                    bucket = futex.changed.wait(bucket).unwrap();
                }
            }
            assert_eq!(work.load(Ordering::Acquire), 1);
            waker.join().unwrap();
        });
    }
}
