//! The free list of a pool: slabs of 64 neighbouring buffers, each with a mask of those at home.
//!
//! Between the pool's owner and its buffers. A burst takes neighbours from one slab and they come
//! home together, so that a word stands for what would else be 64 entries. Slabs that come home
//! from others go to the back: what came last is hot in the other core, and what was away longest
//! is cheapest to write. Buffers that the owner frees itself are hot here and go to the front.
//! Slabs that would make the round longer than a core's cache are spare until nothing else is left.

use std::collections::VecDeque;

/// Buffers per slab.
pub(super) const SLAB: u32 = 64;

/// How many buffers ahead a buffer's first cache line is fetched for writing: as many as a core
/// keeps under way at once.
const FETCH_AHEAD: u32 = 12;

/// Buffers that are at home.
///
/// A slab waits, or is spare, exactly while buffers of it are noted in `home`; those of the slab
/// that is being handed out have been taken out of it.
#[derive(Debug)]
pub(super) struct FreeSlabs {
    /// Of each slab: its buffers that are at home and not being handed out.
    home: Box<[u64]>,
    /// Slabs with such buffers, in the order in which they are used.
    waiting: VecDeque<u32>,
    /// More of them, used when none waits; the last first.
    spare: Vec<u32>,
    /// The slab that is being handed out, and what is left of it.
    slab: u32,
    left: u64,
    /// The slab that is being fetched, this one or the next, and what of it is not yet.
    fetched_slab: u32,
    to_fetch: u64,
    /// Buffers fetched and not handed out yet, at most [`FETCH_AHEAD`].
    fetched: u32,
    count: u32,
}

impl FreeSlabs {
    /// None of so many buffers is at home.
    pub(super) fn new(buffer_count: u32) -> Self {
        let slabs = buffer_count.div_ceil(SLAB) as usize;
        Self {
            home: vec![0; slabs].into(),
            waiting: VecDeque::with_capacity(slabs),
            spare: Vec::new(),
            slab: 0,
            left: 0,
            fetched_slab: 0,
            to_fetch: 0,
            fetched: 0,
            count: 0,
        }
    }

    /// Buffers at home.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// The next buffer; `fetch` is given those that will follow it soon, each once.
    #[inline(always)]
    pub(super) fn take(&mut self, mut fetch: impl FnMut(u32)) -> Option<u32> {
        if self.left == 0 && !self.begin_slab() {
            return None;
        }
        let buffer = self.slab * SLAB + self.left.trailing_zeros();
        self.left &= self.left - 1;
        self.count -= 1;
        self.fetched = self.fetched.saturating_sub(1);
        while self.fetched < FETCH_AHEAD && (self.to_fetch != 0 || self.look_further()) {
            fetch(self.fetched_slab * SLAB + self.to_fetch.trailing_zeros());
            self.to_fetch &= self.to_fetch - 1;
            self.fetched += 1;
        }
        Some(buffer)
    }

    /// Goes on to the slab that waits first.
    fn begin_slab(&mut self) -> bool {
        let Some(next) = self.waiting.pop_front().or_else(|| self.spare.pop()) else {
            return false;
        };
        self.slab = next;
        self.left = std::mem::take(&mut self.home[next as usize]);
        if self.fetched_slab != next || self.fetched == 0 {
            self.fetched_slab = next;
            // It is too late for the first.
            self.to_fetch = self.left & (self.left - 1);
            self.fetched = 0;
        }
        true
    }

    /// Goes on to fetch the slab that waits first; not the one behind it.
    fn look_further(&mut self) -> bool {
        if self.fetched_slab != self.slab {
            return false;
        }
        let next = self.waiting.front().or(self.spare.last()).copied();
        let Some(next) = next.filter(|next| *next != self.slab) else {
            return false;
        };
        self.fetched_slab = next;
        self.to_fetch = self.home[next as usize];
        true
    }

    /// Buffers of a slab, one at least, which others had: they are used again after all that are at
    /// home now.
    #[inline]
    pub(super) fn put_back(&mut self, slab: u32, mask: u64) {
        if self.note(slab, mask) {
            self.waiting.push_back(slab);
        }
    }

    /// Buffers of a slab, one at least, which the owner had: they are used again soon.
    #[inline]
    pub(super) fn put_front(&mut self, slab: u32, mask: u64) {
        if self.note(slab, mask) {
            self.waiting.push_front(slab);
        }
    }

    /// Buffers of a slab, one at least, that are used only when nothing else is left, and then
    /// before those that were put there earlier.
    pub(super) fn put_spare(&mut self, slab: u32, mask: u64) {
        if self.note(slab, mask) {
            self.spare.push(slab);
        }
    }

    /// Whether the slab has to begin to wait.
    #[inline]
    fn note(&mut self, slab: u32, mask: u64) -> bool {
        let home = &mut self.home[slab as usize];
        debug_assert!(mask != 0 && *home & mask == 0, "freed twice, or nothing");
        let before = *home;
        *home |= mask;
        self.count += mask.count_ones();
        before == 0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Whatever comes and goes: every buffer is at home or out, and none twice.
        #[test]
        fn every_buffer_is_handed_out_once(
            steps in prop::collection::vec((0_u8..5, 1_usize..90), 1..200),
        ) {
            const BUFFERS: u32 = 300;
            let mut free = FreeSlabs::new(BUFFERS);
            let mut out: Vec<u32> = (0..BUFFERS).collect();
            for (step, count) in steps {
                if step == 0 {
                    for _ in 0..count {
                        let taken = free.take(|ahead| assert!(ahead < BUFFERS));
                        prop_assert_eq!(taken.is_none(), out.len() == BUFFERS as usize);
                        out.extend(taken);
                    }
                } else {
                    let at = count % out.len().max(1);
                    for buffer in out.drain(..at) {
                        let (slab, mask) = (buffer / SLAB, 1 << (buffer % SLAB));
                        match step {
                            1 => free.put_front(slab, mask),
                            2 => free.put_spare(slab, mask),
                            _ => free.put_back(slab, mask),
                        }
                    }
                }
                prop_assert_eq!(free.count() as usize + out.len(), BUFFERS as usize);
            }
            out.extend(std::iter::from_fn(|| free.take(|_| ())));
            out.sort_unstable();
            prop_assert!(out.into_iter().eq(0..BUFFERS));
        }
    }

    fn taken(free: &mut FreeSlabs, count: usize) -> Vec<u32> {
        std::iter::from_fn(|| free.take(|_| ()))
            .take(count)
            .collect()
    }

    #[test]
    fn what_was_away_longest_goes_first_and_what_is_hot_here_before_it() {
        let mut free = FreeSlabs::new(4 * SLAB);
        for slab in 0..4 {
            free.put_back(slab, u64::MAX);
        }
        assert_eq!(taken(&mut free, 192), (0..192).collect::<Vec<_>>());
        free.put_back(1, u64::MAX);
        free.put_back(0, 0b101);
        free.put_front(2, 0b10);
        assert_eq!(taken(&mut free, 1), [129]);
        let rest: Vec<u32> = (192..256).chain(64..128).chain([0, 2]).collect();
        assert_eq!(taken(&mut free, 999), rest);
    }

    #[test]
    fn what_is_spare_waits_until_nothing_else_is_left() {
        let mut free = FreeSlabs::new(3 * SLAB);
        free.put_spare(2, 0b1);
        free.put_spare(1, 0b11);
        free.put_back(0, 0b1);
        assert_eq!(taken(&mut free, 1), [0]);
        free.put_back(0, 0b1);
        assert_eq!(taken(&mut free, 3), [0, 64, 65]);
        // What comes home to a slab that is still spare waits there with it.
        free.put_back(2, 0b10);
        assert_eq!(taken(&mut free, 9), [128, 129]);
    }

    #[test]
    fn buffers_are_fetched_before_they_are_handed_out() {
        let mut free = FreeSlabs::new(4 * SLAB);
        for slab in 0..4 {
            free.put_back(slab, u64::MAX);
        }
        let mut fetched = Vec::new();
        for buffer in 0..256_u32 {
            assert_eq!(free.take(|ahead| fetched.push(ahead)), Some(buffer));
            let most = (buffer + 1 + FETCH_AHEAD).min(256) as usize;
            assert_eq!(fetched.len(), most - 1);
        }
        assert_eq!(fetched, (1..256).collect::<Vec<_>>());
    }
}
