//! Who kept a chunk for how long: stalls of the machine told from the chain's own time.
//!
//! Behind its header a chunk carries at which turn it was last handed on, and how much of its time
//! so far were stalls. Each function times one stretch of a chunk's way: from the turn in which the
//! function before it handed the chunk on to the turn in which it takes it, the other's work and
//! the wait between. It has a usual length, the median of the last ones. What takes ten times as
//! long, and 5 µs, is a stall by the rule of all poll loops ([`threshold`]): the kernel or the
//! hypervisor ran something else. What is beyond the usual is added to the chunk, so that its
//! sender knows, across processes, containers and TCP.
//!
//! Times are those that the engine gives to a turn, so that no function reads a clock; all workers
//! of a chain have the same one. Functions that share a turn see no time pass.
//!
//! ```text
//!  32             40              48              52          64
//!  | handed ns    | stalled ns    | least ns      | 0          |
//! ```
//!
//! `least` is 5 µs; 0 if the sender does not want to know.

use catena_measure::latency::stall::threshold;

use crate::chunk::HEADER_LEN;

/// Where these fields begin in a chunk.
const START: usize = 32;
/// Stretches of which the median is the usual one.
const RECENT: usize = 32;
/// Shorter stretches are no stalls.
pub(crate) const LEAST_NS: u64 = 5_000;

/// The usual length of a stretch of a chunk's way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Usual {
    recent: [u64; RECENT],
    next: usize,
    /// None before there were enough.
    median: Option<u64>,
}

impl Usual {
    /// Notes a stretch; gives what of it is a stall.
    #[inline]
    pub(crate) fn judge(&mut self, stretch: u64, least: u64) -> u64 {
        self.recent[self.next] = stretch;
        self.next += 1;
        let stalled = match self.median {
            Some(median) if stretch > threshold(median, least) => stretch - median,
            _ => 0,
        };
        if self.next == RECENT {
            self.next = 0;
            let mut recent = self.recent;
            let (_, median, _) = recent.select_nth_unstable(RECENT / 2);
            self.median = Some(*median);
        }
        stalled
    }
}

/// A chunk in a function's hands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Held {
    /// Nanoseconds of its time so far that were stalls.
    pub(crate) stalled_ns: u64,
}

/// What a function knows of the chunks that went through its hands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Custody {
    waits: Usual,
    stalls: u64,
    stalled_ns: u64,
}

fn word(chunk: &[u8], at: usize) -> Option<u64> {
    let octets = chunk.get(at..at + 8)?;
    Some(u64::from_le_bytes(octets.try_into().ok()?))
}

/// A sender hands a chunk on for the first time: at `handed_ns` of the engine's clock, after it was
/// late by a stall of so many nanoseconds.
///
/// # Panics
/// If `chunk` is shorter than a header.
pub(crate) fn begin(chunk: &mut [u8], handed_ns: u64, stalled_ns: u64) {
    chunk[START..HEADER_LEN].fill(0);
    chunk[START..START + 8].copy_from_slice(&handed_ns.to_le_bytes());
    chunk[START + 8..START + 16].copy_from_slice(&stalled_ns.to_le_bytes());
    chunk[START + 16..START + 24].copy_from_slice(&LEAST_NS.to_le_bytes());
}

impl Custody {
    /// Takes a chunk in a turn at `now_ns`; none if nobody wants to know, or it is no chunk.
    #[inline]
    pub(crate) fn take(&mut self, chunk: &[u8], now_ns: u64) -> Option<Held> {
        let (handed, stalled) = (word(chunk, START)?, word(chunk, START + 8)?);
        // Its upper half is zero.
        let least = word(chunk, START + 16)?;
        if least == 0 {
            return None;
        }
        let wait = self.waits.judge(now_ns.saturating_sub(handed), least);
        self.stalls += u64::from(wait > 0);
        self.stalled_ns = self.stalled_ns.saturating_add(wait);
        Some(Held {
            stalled_ns: stalled.saturating_add(wait),
        })
    }

    /// Hands it on in a turn at `now_ns`.
    #[inline]
    pub(crate) fn hand_on(held: Held, chunk: &mut [u8], now_ns: u64) {
        if let Some(fields) = chunk.get_mut(START..START + 16) {
            fields[..8].copy_from_slice(&now_ns.to_le_bytes());
            fields[8..].copy_from_slice(&held.stalled_ns.to_le_bytes());
        }
    }

    /// Counters by name.
    pub(crate) fn report(&self) -> [(&'static str, u64); 2] {
        [("stalls", self.stalls), ("stalled_ns", self.stalled_ns)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chunk(handed: u64, stalled: u64) -> [u8; HEADER_LEN] {
        let mut chunk = [7; HEADER_LEN];
        begin(&mut chunk, handed, stalled);
        chunk
    }

    fn stalled(chunk: &[u8]) -> u64 {
        word(chunk, START + 8).unwrap()
    }

    /// A function whose usual wait is known.
    fn settled(wait: u64) -> Custody {
        let mut custody = Custody::default();
        for round in 0..RECENT as u64 {
            let now = 1_000_000 * round;
            let mut chunk = chunk(now, 0);
            let held = custody.take(&chunk, now + wait).unwrap();
            Custody::hand_on(held, &mut chunk, now + wait);
            assert_eq!(stalled(&chunk), 0, "nothing is judged by so few");
        }
        custody
    }

    #[test]
    fn what_is_beyond_the_usual_is_added_to_the_chunk() {
        let mut custody = settled(300);
        let mut first = chunk(100, 40);
        // Within 5 µs.
        let held = custody.take(&first, 100 + 5000).unwrap();
        Custody::hand_on(held, &mut first, 5100);
        assert_eq!((stalled(&first), custody.stalls), (40, 0));
        let mut beyond = settled(300);
        let held = beyond.take(&chunk(100, 40), 100 + 5001).unwrap();
        assert_eq!(held.stalled_ns, 40 + 4701);
        // Beyond it: the usual is the chain's own.
        let mut second = chunk(100, 40);
        let held = custody.take(&second, 100 + 8000).unwrap();
        assert_eq!(held.stalled_ns, 40 + 7700);
        Custody::hand_on(held, &mut second, 8100);
        assert_eq!(stalled(&second), 40 + 7700);
        assert_eq!(word(&second, START), Some(8100));
        let counts = [("stalls", 1), ("stalled_ns", 7700)];
        assert_eq!(custody.report(), counts);
        assert_eq!(second[..START], [7; START], "the header is the others'");
    }

    #[test]
    fn nothing_is_a_stall_before_the_usual_is_known() {
        let mut usual = Usual::default();
        let before: Vec<u64> = (0..31).map(|_| usual.judge(300, LEAST_NS)).collect();
        assert_eq!(before, [0; 31]);
        assert_eq!(usual.judge(100_000, LEAST_NS), 0);
        assert_eq!(usual.judge(100_000, LEAST_NS), 99_700);
    }

    #[test]
    fn a_chain_that_becomes_slower_has_no_stalls_for_long() {
        let mut custody = settled(300);
        let mut last = [0; HEADER_LEN];
        for round in 0..3 * RECENT as u64 {
            last = chunk(1_000_000 * round, 0);
            let held = custody.take(&last, 1_000_000 * round + 50_300).unwrap();
            Custody::hand_on(held, &mut last, 1_000_000 * round + 50_300);
        }
        assert_eq!(stalled(&last), 0);
    }

    #[test]
    fn who_does_not_ask_gets_his_chunk_as_it_was() {
        let mut custody = Custody::default();
        assert!(custody.take(&[0; HEADER_LEN], 1 << 40).is_none());
        assert!(custody.take(&[1; START], 5).is_none());
    }

    #[test]
    fn fields_lie_where_the_layout_says() {
        let chunk = chunk(0x0102_0304_0506_0708, 9);
        assert_eq!(chunk.len(), 64);
        assert_eq!(chunk[32..40], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(chunk[40..48], [9, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(chunk[48..56], 5_000_u64.to_le_bytes());
    }

    proptest! {
        /// A peer may write anything.
        #[test]
        fn any_fields_are_taken_and_handed_on(
            mut bytes in prop::collection::vec(any::<u8>(), 0..2 * HEADER_LEN),
            moments in prop::collection::vec(any::<u64>(), 2..2 * RECENT),
        ) {
            let mut custody = Custody::default();
            for now in moments {
                if let Some(held) = custody.take(&bytes, now) {
                    Custody::hand_on(held, &mut bytes, now ^ 1);
                }
            }
        }
    }
}
