//! Eviction: who gives way when a table is full.
//!
//! Beside insertion, on the path of a flow's first packet. Candidates are the entries in the new
//! key's own bucket, so that the slot that becomes free is one that it can have, and the cost does
//! not grow with the table.
//!
//! Where a policy spares entries, as those of connections that are whole, a flood of new keys would
//! read all entries of its buckets for each, only to find that none may give way. So who is spared
//! is marked in the bucket's line, and not asked again: a refusal then reads two lines. A mark is a
//! hint that may be missing, and is never wrong: it ends with its entry and where this is moved,
//! whoever changes an entry so that it may give way takes it away before
//! ([`FlowTable::unspare`]), and all end with the policy ([`FlowTable::set_sparing`]).

use catena_shm::prefetch;

use super::FlowTable;
use super::expire::Timeouts;
use super::insert::{Inserted, Made, Refusal};
use crate::bucket::{ALL_SLOTS, ERA_MAX, Home, flow_in, slots, slots_with};
use crate::counters::Counter;
use crate::flow::{Entry, Flow};
use crate::hash::KEY_WORDS_MAX;
use crate::memory::Memory;
use crate::raw::{TIME_MAX, at};

/// Who gives way to a new flow when a table is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Nobody: the new flow is refused.
    None,
    /// Whoever has been idle the longest.
    OldestIdle,
    /// Whoever has the lowest value in this word of its state.
    Lowest(usize),
    /// Whoever has the highest value in this word of its state.
    Highest(usize),
}

impl Eviction {
    /// The entry with the lowest score gives way; one without a score never does.
    fn score(self, entry: &Entry<'_>) -> Option<u64> {
        match self {
            Self::None => None,
            Self::OldestIdle => Some(entry.used_ns()),
            Self::Lowest(word) => Some(entry.state(word)),
            Self::Highest(word) => Some(!entry.state(word)),
        }
    }
}

impl<M: Memory> FlowTable<M> {
    /// Like [`FlowTable::insert`]; where the table is full, another entry gives way. `evicted` is
    /// shown that entry while it is still there.
    ///
    /// # Errors
    /// Says why it is refused: also if no candidate may be evicted.
    pub fn insert_evicting(
        &mut self,
        key: &[u64],
        timeouts: Timeouts,
        now_ns: u64,
        eviction: Eviction,
        evicted: impl FnOnce(Flow, Entry<'_>),
    ) -> Result<Inserted, Refusal> {
        let score = |entry: &Entry<'_>| eviction.score(entry);
        self.insert_choosing(key, timeouts, now_ns, score, evicted)
    }

    /// Like [`FlowTable::insert_evicting`], with a policy of the caller's own: of the candidates,
    /// the one to which `score` gives the lowest value is evicted, and one without a value never.
    ///
    /// # Errors
    /// Says why it is refused: also if no candidate may be evicted.
    pub fn insert_choosing(
        &mut self,
        key: &[u64],
        timeouts: Timeouts,
        now_ns: u64,
        score: impl FnMut(&Entry<'_>) -> Option<u64>,
        evicted: impl FnOnce(Flow, Entry<'_>),
    ) -> Result<Inserted, Refusal> {
        self.insert_by(key, (timeouts, now_ns), false, score, evicted)
    }

    /// Like [`FlowTable::insert_choosing`], by the policy of which [`FlowTable::set_sparing`] knows
    /// the number: to whom `score` gives no value is not asked again, until
    /// [`FlowTable::unspare`]. Whether it gives one depends on the entry's state alone.
    ///
    /// # Errors
    /// Says why it is refused: also if no candidate may be evicted.
    pub fn insert_sparing(
        &mut self,
        key: &[u64],
        timeouts: Timeouts,
        now_ns: u64,
        score: impl FnMut(&Entry<'_>) -> Option<u64>,
        evicted: impl FnOnce(Flow, Entry<'_>),
    ) -> Result<Inserted, Refusal> {
        let spares = self.raw().get(at::SPARING) != 0;
        self.insert_by(key, (timeouts, now_ns), spares, score, evicted)
    }

    fn insert_by(
        &mut self,
        key: &[u64],
        (timeouts, now_ns): (Timeouts, u64),
        spares: bool,
        score: impl FnMut(&Entry<'_>) -> Option<u64>,
        evicted: impl FnOnce(Flow, Entry<'_>),
    ) -> Result<Inserted, Refusal> {
        if !self.is_key(key) {
            return Err(Refusal::Width);
        }
        let home = self.home(key);
        if let Some(flow) = self.raw().find(key, home) {
            return Ok(Inserted::Present(flow));
        }
        let made = Made::now(key, timeouts, now_ns);
        self.make(home, &made).or_else(|refusal| {
            let victim = self.victim_at(home, now_ns, spares, score);
            let victim = victim.ok_or(refusal)?;
            evicted(victim, self.raw().view(victim));
            self.end(victim, Counter::Evicted);
            self.make(home, &made)
        })
    }

    /// Says by which policy entries are spared from now on: any number that is another one where
    /// the policy of [`FlowTable::insert_sparing`] is; 0: by none, nobody is marked. Who attaches
    /// to a table says it again: with the same number all marks stay.
    pub fn set_sparing(&mut self, policy: u64) {
        let raw = self.raw();
        if raw.get(at::SPARING) == policy {
            return;
        }
        match raw.get(at::ERA) {
            era if era < ERA_MAX => raw.set(at::ERA, era + 1),
            _ => {
                // A kill in between leaves nobody who believes what is left of them.
                raw.set(at::SPARING, 0);
                raw.unspare_all();
                raw.set(at::ERA, 1);
            }
        }
        raw.set(at::SPARING, policy);
    }

    /// Before an entry is changed so that it may give way by a policy that has spared it: it is
    /// asked again by [`FlowTable::insert_sparing`]. What has been inserted since needs none of it.
    pub fn unspare(&mut self, flow: Flow) {
        self.unspare_entry(flow);
    }

    pub(super) fn unspare_entry(&self, flow: Flow) {
        let raw = self.raw();
        if raw.get(at::SPARING) == 0 || !raw.is_live(flow) {
            return;
        }
        let mut key = [0; KEY_WORDS_MAX];
        let key = &mut key[..self.geometry.key_words];
        raw.read_key(flow, key);
        if let Some((bucket, slot)) = raw.slot_of(self.home(key), flow) {
            raw.unspare(bucket, slot);
        }
    }

    /// Asks for the memory of those of whom one may give way to a key, and of their timers: for
    /// whoever has other work to do before it inserts the key. Where all in its first bucket are
    /// spared, for the other bucket.
    pub fn prefetch_candidates(&self, key: &[u64]) {
        if !self.is_key(key) {
            return;
        }
        let home = self.home(key);
        if self.prefetch_entries(home.bucket) {
            return;
        }
        let other = home.other(self.geometry.buckets);
        if let Some([word, ..]) = self.raw().bucket(other) {
            prefetch::line(word);
        }
    }

    /// Asks for the timers beside that of whoever was idle longest of those: they are linked to
    /// each other when it gives way. For a key whose candidates were asked for some time before.
    /// Where these are in its other bucket, for what [`FlowTable::prefetch_candidates`] asks for.
    pub fn prefetch_neighbours(&self, key: &[u64]) {
        if !self.is_key(key) {
            return;
        }
        let (raw, home) = (self.raw(), self.home(key));
        let candidates = self.candidates(home.bucket);
        let Some(oldest) = candidates.min_by_key(|flow| raw.stamp(*flow)) else {
            self.prefetch_entries(home.other(self.geometry.buckets));
            return;
        };
        let links = raw.links(oldest);
        for flow in [links.0, links.1].into_iter().flatten() {
            if let Some(timer) = raw.timer_word(flow) {
                prefetch::line(timer);
            }
        }
    }

    /// Whether there is a candidate in a bucket.
    fn prefetch_entries(&self, bucket: u32) -> bool {
        let raw = self.raw();
        let mut is_any = false;
        for flow in self.candidates(bucket) {
            is_any = true;
            if let (Some(entry), Some(timer)) = (raw.entry(flow).first(), raw.timer_word(flow)) {
                prefetch::line(entry);
                prefetch::line(timer);
            }
        }
        is_any
    }

    /// Entries in a bucket that are not spared.
    fn candidates(&self, bucket: u32) -> impl Iterator<Item = Flow> {
        let raw = self.raw();
        let line = raw.bucket(bucket);
        let asked = line.map_or(0, |line| {
            ALL_SLOTS & !slots_with(line, 0) & !raw.spared(line)
        });
        slots(asked).filter_map(move |slot| flow_in(line?, slot))
    }

    /// The entry that would give way to a key: of those in its first bucket, or if none there may,
    /// in its other one, the one with the lowest score. What was used at this very instant is no
    /// candidate, so that handles of the burst in hand stay good. All are asked, spared or not.
    pub fn victim(
        &self,
        key: &[u64],
        now_ns: u64,
        score: impl FnMut(&Entry<'_>) -> Option<u64>,
    ) -> Option<Flow> {
        let home = self.is_key(key).then(|| self.home(key));
        home.and_then(|home| self.victim_at(home, now_ns, false, score))
    }

    fn victim_at(
        &self,
        home: Home,
        now_ns: u64,
        spares: bool,
        mut score: impl FnMut(&Entry<'_>) -> Option<u64>,
    ) -> Option<Flow> {
        let raw = self.raw();
        let now_ns = now_ns.min(TIME_MAX);
        let buckets = [home.bucket, home.other(self.geometry.buckets)];
        buckets.into_iter().find_map(|bucket| {
            let line = raw.bucket(bucket)?;
            let spared = if spares { raw.spared(line) } else { 0 };
            let asked = slots(ALL_SLOTS & !slots_with(line, 0) & !spared);
            let asked = asked.filter_map(|slot| Some((slot, flow_in(line, slot)?)));
            for (_, flow) in asked.clone() {
                if let Some(word) = raw.entry(flow).first() {
                    prefetch::line(word);
                }
            }
            let mut lowest = None;
            for (slot, flow) in asked {
                let entry = raw.view(flow);
                if !entry.is_live() || entry.used_ns() >= now_ns {
                    continue;
                }
                match score(&entry) {
                    Some(score) => {
                        let one = (score, flow);
                        lowest = Some(lowest.map_or(one, |lowest: (u64, Flow)| lowest.min(one)));
                    }
                    None if spares => raw.spare(bucket, slot),
                    None => {}
                }
            }
            lowest.map(|(_, flow)| flow)
        })
    }
}
