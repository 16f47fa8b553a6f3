//! The flow table: made or attached to once, then used by one thread for each burst and turn.
//!
//! Entries are the truth, all else is found anew from them: an entry whose stamp says that somebody
//! lives there has a key, state and timeouts. Buckets lead from a key to its entry, the wheel from
//! a time to it, the free list to those that are left. [`attach`] builds these three again where a
//! kill has left them in between.

pub(crate) mod attach;
pub(crate) mod check;
pub(crate) mod evict;
pub(crate) mod expire;
pub(crate) mod insert;
pub(crate) mod lookup;
pub(crate) mod walk;

use std::sync::atomic::AtomicU64;

use crate::bucket::{Home, flow_in, has_sent_away, slots, slots_with};
use crate::counters::{Counter, Counters};
use crate::flow::{Entry, Flow};
use crate::hash::{KEY_WORDS_MAX, KeyedHash};
use crate::memory::Memory;
use crate::raw::{LIVE, Raw, TIME_MAX, at};
use crate::shape::{Geometry, Shape};

/// A bounded table of flows in memory `M`.
///
/// All methods take time as nanoseconds of one clock that does not run backwards; below 2⁶³.
/// Where it does run backwards, entries end later, none sooner. Keys are slices of exactly as many
/// words as the shape says; a key of another length is never found and never inserted.
#[derive(Debug)]
pub struct FlowTable<M> {
    memory: M,
    shape: Shape,
    geometry: Geometry,
    hash: KeyedHash,
}

impl<M: Memory> FlowTable<M> {
    #[inline(always)]
    pub(crate) fn raw(&self) -> Raw<'_> {
        Raw {
            words: self.memory.words(),
            geometry: self.geometry,
        }
    }

    /// What the table holds and how much of it.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The memory, for whoever wants to pass it on.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Entries in use.
    pub fn len(&self) -> u32 {
        let live = self.raw().get(at::LIVE);
        u32::try_from(live).map_or(self.shape.capacity, |live| live.min(self.shape.capacity))
    }

    /// Whether no entry is in use.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether every entry is in use: an insertion would be refused.
    pub fn is_full(&self) -> bool {
        self.len() >= self.shape.capacity
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        let raw = self.raw();
        Counters::read(|counter| raw.get(at::COUNTERS + counter as usize))
    }

    /// The entry of a key. Touches and counts nothing: for control and tests; packets are looked up
    /// by [`FlowTable::lookup`].
    pub fn find(&self, key: &[u64]) -> Option<Flow> {
        self.is_key(key)
            .then(|| self.raw().find(key, self.home(key)))
            .flatten()
    }

    /// A view of an entry; none if nobody lives there.
    #[inline]
    pub fn entry(&self, flow: Flow) -> Option<Entry<'_>> {
        let entry = self.raw().view(flow);
        entry.is_live().then_some(entry)
    }

    /// A word of an entry's state; 0 beyond its width.
    #[inline]
    pub fn state(&self, flow: Flow, word: usize) -> u64 {
        self.raw().view(flow).state(word)
    }

    /// Writes a word of an entry's state; `false`, and nothing, beyond its width. Where entries are
    /// spared, [`FlowTable::unspare`] may have to come before.
    #[inline]
    pub fn set_state(&mut self, flow: Flow, word: usize, value: u64) -> bool {
        self.raw().view(flow).set_state(word, value)
    }

    /// All words of an entry's state, as they stand in the table: for programs that use several.
    /// Empty beyond the capacity. Written as by [`FlowTable::set_state`].
    #[inline]
    pub fn state_words(&mut self, flow: Flow) -> &[AtomicU64] {
        let words = self.raw().entry(flow);
        words.get(self.geometry.key_words + 1..).unwrap_or_default()
    }

    /// Marks an entry as used now, as a lookup does.
    #[inline]
    pub fn touch(&mut self, flow: Flow, now_ns: u64) {
        let raw = self.raw();
        if raw.is_live(flow) {
            raw.set_stamp(flow, stamp(now_ns));
        }
    }

    /// Removes an entry; whether there was one.
    pub fn remove(&mut self, flow: Flow) -> bool {
        self.end(flow, Counter::Removed)
    }

    fn end(&mut self, flow: Flow, counter: Counter) -> bool {
        let raw = self.raw();
        let is_live = raw.is_live(flow);
        if is_live {
            let mut key = [0; KEY_WORDS_MAX];
            let key = &mut key[..self.geometry.key_words];
            raw.read_key(flow, key);
            raw.begin();
            raw.clear(flow, self.home(key));
            raw.count(counter, 1);
            raw.end();
        }
        is_live
    }

    fn is_key(&self, key: &[u64]) -> bool {
        key.len() == self.geometry.key_words
    }

    #[inline]
    pub(crate) fn home(&self, key: &[u64]) -> Home {
        Home::new(self.hash.hash(key), self.geometry.buckets)
    }
}

/// The stamp of an entry that is used now.
#[inline(always)]
fn stamp(now_ns: u64) -> u64 {
    LIVE | now_ns.min(TIME_MAX)
}

impl<'a> Raw<'a> {
    #[inline]
    fn view(self, flow: Flow) -> Entry<'a> {
        Entry {
            words: self.entry(flow),
            key_words: self.geometry.key_words,
        }
    }

    /// The entry of a key in either of its buckets.
    fn find(self, key: &[u64], home: Home) -> Option<Flow> {
        let line = self.bucket(home.bucket)?;
        let flow = slots(slots_with(line, home.tag))
            .filter_map(|slot| flow_in(line, slot))
            .find(|flow| self.has_key(*flow, key));
        if flow.is_some() || !has_sent_away(line) {
            return flow;
        }
        let line = self.bucket(home.other(self.geometry.buckets))?;
        slots(slots_with(line, home.tag))
            .filter_map(|slot| flow_in(line, slot))
            .find(|flow| self.has_key(*flow, key))
    }

    /// Ends an entry: first the entry itself, then what leads to it. The caller is between
    /// [`Raw::begin`] and [`Raw::end`].
    fn clear(self, flow: Flow, home: Home) {
        self.set_stamp(flow, 0);
        if let Some((bucket, slot)) = self.slot_of(home, flow) {
            self.vacate(bucket, slot);
        }
        self.unschedule(flow);
        self.give_free(flow);
        self.set(at::LIVE, self.get(at::LIVE).saturating_sub(1));
    }
}
