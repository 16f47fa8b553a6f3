//! Who kept a chunk for how long: stalls of the machine told from the chain's own time.
//!
//! Behind its header a chunk carries when it was last handed on, and how much of its time so far
//! were stalls. Each function times two stretches of a chunk's way: the wait from the last
//! hand-over until it takes the chunk, and its own work. Both have a usual length, the median of
//! the last ones. What takes ten times as long, and 5 µs, is a stall by the rule of all poll loops
//! ([`threshold`]): the kernel or the hypervisor ran something else. What is beyond the usual is
//! added to the chunk, so that its sender knows, across processes, containers and TCP.
//!
//! ```text
//!  32             40              48              52          64
//!  | handed ticks | stalled ticks | least ticks   | 0          |
//! ```
//!
//! `least` is 5 µs in the sender's ticks; 0 if it does not want to know.

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
    taken: u64,
    least: u64,
    /// Ticks of its time so far that were stalls.
    pub(crate) stalled: u64,
}

/// What a function knows of the chunks that went through its hands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Custody {
    waits: Usual,
    work: Usual,
    stalls: u64,
    stalled_ns: u64,
}

fn word(chunk: &[u8], at: usize) -> Option<u64> {
    let octets = chunk.get(at..at + 8)?;
    Some(u64::from_le_bytes(octets.try_into().ok()?))
}

/// A sender hands a chunk on for the first time: at tick `handed`, after it was late by a stall of
/// so many ticks. `least` are [`LEAST_NS`] in ticks.
///
/// # Panics
/// If `chunk` is shorter than a header.
pub(crate) fn begin(chunk: &mut [u8], handed: u64, stalled: u64, least: u64) {
    chunk[START..HEADER_LEN].fill(0);
    chunk[START..START + 8].copy_from_slice(&handed.to_le_bytes());
    chunk[START + 8..START + 16].copy_from_slice(&stalled.to_le_bytes());
    let least = u32::try_from(least).unwrap_or(u32::MAX);
    chunk[START + 16..START + 20].copy_from_slice(&least.to_le_bytes());
}

impl Custody {
    /// Takes a chunk at tick `now`; none if nobody wants to know, or it is no chunk.
    #[inline]
    pub(crate) fn take(&mut self, chunk: &[u8], now: u64) -> Option<Held> {
        let (handed, stalled) = (word(chunk, START)?, word(chunk, START + 8)?);
        // Its upper half is zero.
        let least = word(chunk, START + 16)?;
        if least == 0 {
            return None;
        }
        let wait = self.waits.judge(now.saturating_sub(handed), least);
        self.note(wait, least);
        Some(Held {
            taken: now,
            least,
            stalled: stalled.saturating_add(wait),
        })
    }

    /// Hands it on at tick `now`.
    #[inline]
    pub(crate) fn hand_on(&mut self, held: Held, chunk: &mut [u8], now: u64) {
        let work = self.work.judge(now.saturating_sub(held.taken), held.least);
        self.note(work, held.least);
        if let Some(fields) = chunk.get_mut(START..START + 16) {
            let stalled = held.stalled.saturating_add(work);
            fields[..8].copy_from_slice(&now.to_le_bytes());
            fields[8..].copy_from_slice(&stalled.to_le_bytes());
        }
    }

    #[inline]
    fn note(&mut self, ticks: u64, least: u64) {
        if ticks > 0 {
            self.stalls += 1;
            let ns = u128::from(ticks) * u128::from(LEAST_NS) / u128::from(least);
            let ns = u64::try_from(ns).unwrap_or(u64::MAX);
            self.stalled_ns = self.stalled_ns.saturating_add(ns);
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

    /// 1 tick is 1 ns.
    const LEAST: u64 = LEAST_NS;

    fn chunk(handed: u64, stalled: u64) -> [u8; HEADER_LEN] {
        let mut chunk = [7; HEADER_LEN];
        begin(&mut chunk, handed, stalled, LEAST);
        chunk
    }

    fn stalled(chunk: &[u8]) -> u64 {
        word(chunk, START + 8).unwrap()
    }

    /// A function whose usual wait and work are known.
    fn settled(wait: u64, work: u64) -> Custody {
        let mut custody = Custody::default();
        for round in 0..RECENT as u64 {
            let now = 1_000_000 * round;
            let mut chunk = chunk(now, 0);
            let held = custody.take(&chunk, now + wait).unwrap();
            custody.hand_on(held, &mut chunk, now + wait + work);
            assert_eq!(stalled(&chunk), 0, "nothing is judged by so few");
        }
        custody
    }

    #[test]
    fn what_is_beyond_the_usual_is_added_to_the_chunk() {
        let mut custody = settled(300, 6000);
        let mut first = chunk(100, 40);
        // Within ten times the usual, and within 5 µs.
        let held = custody.take(&first, 100 + 5000).unwrap();
        custody.hand_on(held, &mut first, 5100 + 60_000);
        assert_eq!((stalled(&first), custody.stalls), (40, 0));
        // Beyond it: the usual is the chain's own.
        let mut second = chunk(100, 40);
        let held = custody.take(&second, 100 + 8000).unwrap();
        assert_eq!(held.stalled, 40 + 7700);
        custody.hand_on(held, &mut second, 8100 + 100_000);
        assert_eq!(stalled(&second), 40 + 7700 + 94_000);
        assert_eq!(word(&second, START), Some(108_100));
        let counts = [("stalls", 2), ("stalled_ns", 7700 + 94_000)];
        assert_eq!(custody.report(), counts);
        assert_eq!(second[..START], [7; START], "the header is the others'");
    }

    #[test]
    fn a_chain_that_becomes_slower_has_no_stalls_for_long() {
        let mut custody = settled(300, 1000);
        let mut last = [0; HEADER_LEN];
        for round in 0..3 * RECENT as u64 {
            last = chunk(1_000_000 * round, 0);
            let held = custody.take(&last, 1_000_000 * round + 300).unwrap();
            custody.hand_on(held, &mut last, 1_000_000 * round + 50_300);
        }
        assert_eq!(stalled(&last), 0);
    }

    #[test]
    fn who_does_not_ask_gets_his_chunk_as_it_was() {
        let mut custody = Custody::default();
        assert!(custody.take(&[0; HEADER_LEN], 1 << 40).is_none());
        assert!(custody.take(&[1; START], 5).is_none());
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
                    custody.hand_on(held, &mut bytes, now ^ 1);
                }
            }
        }
    }
}
