//! Words of a table's memory by what they mean. All loads and stores of a table go through here.
//!
//! Under every operation on a table. An offset is used only if the word is there: a load from
//! nowhere gives 0 and a store to nowhere does nothing, so that memory which somebody else spoiled
//! gives wrong answers, never a panic.
//!
//! Stores are made with release ordering. What matters is their order for whoever attaches after a
//! kill: with it, memory always holds all stores up to some moment and none after. On x86-64 they
//! are plain stores.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::counters::{COUNTERS, Counter};
use crate::flow::Flow;
use crate::shape::{Geometry, HEADER_WORDS, LINE_WORDS, TIMER_WORDS};
pub(crate) use crate::stamp::{LIVE, TIME_MAX};

/// Words of the header.
pub(crate) mod at {
    /// Line 0: who wrote this, in which shape.
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const VERSION: usize = 1;
    pub(crate) const DIGEST: usize = 2;
    pub(crate) const WIDTHS: usize = 3;
    pub(crate) const CAPACITY: usize = 4;
    pub(crate) const TICK_NS: usize = 5;
    pub(crate) const SEED: usize = 6;
    /// Line 1: what every change writes.
    ///
    /// Not 0 while links between parts are being changed.
    pub(crate) const BUSY: usize = 8;
    /// First free entry, plus 1.
    pub(crate) const FREE: usize = 9;
    /// Entries from here on have never been used.
    pub(crate) const FRESH: usize = 10;
    pub(crate) const LIVE: usize = 11;
    /// The tick up to which the wheel has turned.
    pub(crate) const WHEEL: usize = 12;
    /// Number of the policy by which entries are spared; 0: nobody is marked.
    pub(crate) const SPARING: usize = 13;
    /// Marks in buckets count that are of this era.
    pub(crate) const ERA: usize = 14;
    /// Lines 2 and 3.
    pub(crate) const COUNTERS: usize = 16;
    /// Lines 4 and 5: one word per level of the wheel, one bit per list that is not empty.
    pub(crate) const LEVELS: usize = 32;
    /// First entry of each list, plus 1.
    pub(crate) const LISTS: usize = 48;
}

/// Levels of the timer wheel: 60 bits of ticks.
pub(crate) const LEVELS: usize = 10;
/// Lists of a level.
pub(crate) const LISTS: usize = 64;

const _: () = {
    assert!(at::COUNTERS + COUNTERS <= at::LEVELS);
    assert!(at::LEVELS + LEVELS <= at::LISTS);
    assert!(at::LISTS + LEVELS * LISTS <= HEADER_WORDS);
    assert!(HEADER_WORDS.is_multiple_of(LINE_WORDS));
};

/// A table's memory with its geometry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) words: &'a [AtomicU64],
    pub(crate) geometry: Geometry,
}

/// Every store to a table's memory.
#[inline(always)]
pub(crate) fn store(word: &AtomicU64, value: u64) {
    #[cfg(test)]
    crate::tests::kill::before_store();
    // Pairs with nothing while this process lives: see the head of this file.
    word.store(value, Ordering::Release);
}

impl<'a> Raw<'a> {
    #[inline(always)]
    pub(crate) fn get(self, at: usize) -> u64 {
        self.words
            .get(at)
            .map_or(0, |word| word.load(Ordering::Relaxed))
    }

    #[inline(always)]
    pub(crate) fn set(self, at: usize, value: u64) {
        if let Some(word) = self.words.get(at) {
            store(word, value);
        }
    }

    #[inline]
    pub(crate) fn count(self, counter: Counter, by: u64) {
        if by != 0 {
            let at = at::COUNTERS + counter as usize;
            self.set(at, self.get(at).wrapping_add(by));
        }
    }

    /// From here on, links between parts may disagree.
    #[inline]
    pub(crate) fn begin(self) {
        self.set(at::BUSY, 1);
    }

    /// All parts agree again.
    #[inline]
    pub(crate) fn end(self) {
        self.set(at::BUSY, 0);
    }

    #[inline(always)]
    pub(crate) fn entry_at(self, flow: Flow) -> usize {
        self.geometry.entries_at + flow.index() * self.geometry.stride
    }

    /// The words of an entry: key, stamp, state. Empty if it lies nowhere.
    #[inline(always)]
    pub(crate) fn entry(self, flow: Flow) -> &'a [AtomicU64] {
        let geometry = self.geometry;
        let at = self.entry_at(flow);
        let len = geometry.key_words + 1 + geometry.state_words;
        if flow.index() >= geometry.capacity as usize {
            return &[];
        }
        self.words.get(at..at + len).unwrap_or_default()
    }

    /// The stamp; 0 if nobody lives there.
    #[inline(always)]
    pub(crate) fn stamp(self, flow: Flow) -> u64 {
        if flow.index() >= self.geometry.capacity as usize {
            return 0;
        }
        self.get(self.entry_at(flow) + self.geometry.key_words)
    }

    #[inline(always)]
    pub(crate) fn set_stamp(self, flow: Flow, stamp: u64) {
        self.set(self.entry_at(flow) + self.geometry.key_words, stamp);
    }

    #[inline(always)]
    pub(crate) fn is_live(self, flow: Flow) -> bool {
        self.stamp(flow) & LIVE != 0
    }

    /// Copies a key out; words beyond the table's width are left as they are.
    pub(crate) fn read_key(self, flow: Flow, key: &mut [u64]) {
        for (out, word) in key.iter_mut().zip(self.entry(flow)) {
            *out = word.load(Ordering::Relaxed);
        }
    }

    pub(crate) fn has_key(self, flow: Flow, key: &[u64]) -> bool {
        let entry = self.entry(flow);
        entry.len() > key.len()
            && self.is_live(flow)
            && key
                .iter()
                .zip(entry)
                .all(|(one, other)| *one == other.load(Ordering::Relaxed))
    }

    #[inline]
    fn timer(self, flow: Flow) -> usize {
        self.geometry.timers_at + flow.index() * TIMER_WORDS
    }

    /// The first word of an entry's timer.
    pub(crate) fn timer_word(self, flow: Flow) -> Option<&'a AtomicU64> {
        self.words.get(self.timer(flow))
    }

    /// Next and previous in the list that holds the entry.
    pub(crate) fn links(self, flow: Flow) -> (Option<Flow>, Option<Flow>) {
        let links = self.get(self.timer(flow));
        (Flow::from_low(links >> 32), Flow::from_low(links))
    }

    pub(crate) fn set_links(self, flow: Flow, next: Option<Flow>, previous: Option<Flow>) {
        self.set(self.timer(flow), number(next) << 32 | number(previous));
    }

    /// Nanoseconds without use after which the entry ends; 0: however long.
    pub(crate) fn idle_ns(self, flow: Flow) -> u64 {
        self.get(self.timer(flow) + 1)
    }

    /// The time at which the entry ends in any case; `u64::MAX`: never.
    pub(crate) fn hard_ns(self, flow: Flow) -> u64 {
        self.get(self.timer(flow) + 2)
    }

    pub(crate) fn set_timeouts(self, flow: Flow, idle_ns: u64, hard_ns: u64) {
        self.set(self.timer(flow) + 1, idle_ns);
        self.set(self.timer(flow) + 2, hard_ns);
    }

    /// The list of the wheel that holds the entry, if one does.
    pub(crate) fn list_of(self, flow: Flow) -> Option<usize> {
        let list = usize::try_from(self.get(self.timer(flow) + 3)).ok()?;
        list.checked_sub(1).filter(|list| *list < LEVELS * LISTS)
    }

    pub(crate) fn set_list(self, flow: Flow, list: Option<usize>) {
        self.set(self.timer(flow) + 3, list.map_or(0, |list| list as u64 + 1));
    }

    /// Entries that have ever been used, as far as the header can be believed.
    pub(crate) fn fresh(self) -> u32 {
        let capacity = self.geometry.capacity;
        u32::try_from(self.get(at::FRESH)).map_or(capacity, |fresh| fresh.min(capacity))
    }

    /// Takes a free entry. The caller is between [`Raw::begin`] and [`Raw::end`].
    pub(crate) fn take_free(self) -> Option<Flow> {
        let first = Flow::from_low(self.get(at::FREE))
            .filter(|flow| flow.index() < self.fresh() as usize && !self.is_live(*flow));
        if let Some(flow) = first {
            self.set(at::FREE, number(self.links(flow).0));
            return Some(flow);
        }
        let fresh = self.fresh();
        if fresh >= self.geometry.capacity {
            return None;
        }
        self.set(at::FRESH, u64::from(fresh) + 1);
        Flow::new(fresh)
    }

    pub(crate) fn has_free(self) -> bool {
        self.get(at::FREE) != 0 || self.fresh() < self.geometry.capacity
    }

    /// Gives an entry back. The caller is between [`Raw::begin`] and [`Raw::end`].
    pub(crate) fn give_free(self, flow: Flow) {
        self.set_links(flow, Flow::from_low(self.get(at::FREE)), None);
        self.set(at::FREE, number(Some(flow)));
    }
}

/// An entry's number plus 1, 0 for none: how links are written.
#[inline(always)]
pub(crate) fn number(flow: Option<Flow>) -> u64 {
    flow.map_or(0, |flow| flow.index() as u64 + 1)
}
