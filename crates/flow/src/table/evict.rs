//! Eviction: who gives way when a table is full.
//!
//! Beside insertion, on the path of a flow's first packet. Candidates are the entries in the new
//! key's own bucket, so that the slot that becomes free is one that it can have, and the cost does
//! not grow with the table.

use catena_shm::prefetch;

use super::FlowTable;
use super::expire::Timeouts;
use super::insert::{Inserted, Refusal};
use crate::bucket::{ALL_SLOTS, flow_in, slots, slots_with};
use crate::counters::Counter;
use crate::flow::{Entry, Flow};
use crate::memory::Memory;
use crate::raw::TIME_MAX;

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
        let first = self.insert(key, timeouts, now_ns);
        if !matches!(first, Err(Refusal::Full | Refusal::Crowded)) {
            return first;
        }
        let Some(victim) = self.victim(key, now_ns, score) else {
            return first;
        };
        evicted(victim, self.raw().view(victim));
        self.end(victim, Counter::Evicted);
        self.insert(key, timeouts, now_ns)
    }

    /// Asks for the memory of those of whom one may give way to a key, and of their timers: for
    /// whoever has other work to do before it inserts the key.
    pub fn prefetch_candidates(&self, key: &[u64]) {
        let raw = self.raw();
        for flow in self.candidates(key) {
            if let (Some(entry), Some(timer)) = (raw.entry(flow).first(), raw.timer_word(flow)) {
                prefetch::line(entry);
                prefetch::line(timer);
            }
        }
    }

    /// Asks for the timers beside that of whoever was idle longest of those: they are linked to
    /// each other when it gives way. For a key whose candidates were asked for some time before.
    pub fn prefetch_neighbours(&self, key: &[u64]) {
        let raw = self.raw();
        let oldest = self.candidates(key).min_by_key(|flow| raw.stamp(*flow));
        let links = oldest.map_or((None, None), |flow| raw.links(flow));
        for flow in [links.0, links.1].into_iter().flatten() {
            if let Some(timer) = raw.timer_word(flow) {
                prefetch::line(timer);
            }
        }
    }

    /// Entries in a key's first bucket.
    fn candidates(&self, key: &[u64]) -> impl Iterator<Item = Flow> {
        let bucket = self.is_key(key).then(|| self.home(key).bucket);
        let line = bucket.and_then(|bucket| self.raw().bucket(bucket));
        let taken = line.map_or(0, |line| ALL_SLOTS & !slots_with(line, 0));
        slots(taken).filter_map(move |slot| flow_in(line?, slot))
    }

    /// The entry that would give way to a key: of those in its first bucket, or if none there may,
    /// in its other one, the one with the lowest score. What was used at this very instant is no
    /// candidate, so that handles of the burst in hand stay good.
    pub fn victim(
        &self,
        key: &[u64],
        now_ns: u64,
        mut score: impl FnMut(&Entry<'_>) -> Option<u64>,
    ) -> Option<Flow> {
        if !self.is_key(key) {
            return None;
        }
        let (raw, home) = (self.raw(), self.home(key));
        let now_ns = now_ns.min(TIME_MAX);
        let buckets = [home.bucket, home.other(self.geometry.buckets)];
        buckets.into_iter().find_map(|bucket| {
            let line = raw.bucket(bucket)?;
            let taken = ALL_SLOTS & !slots_with(line, 0);
            let candidates = slots(taken).filter_map(|slot| flow_in(line, slot));
            for flow in candidates.clone() {
                if let Some(word) = raw.entry(flow).first() {
                    prefetch::line(word);
                }
            }
            candidates
                .filter_map(|flow| {
                    let entry = raw.view(flow);
                    let may_go = entry.is_live() && entry.used_ns() < now_ns;
                    may_go
                        .then(|| score(&entry))
                        .flatten()
                        .map(|score| (score, flow))
                })
                .min()
                .map(|(_, flow)| flow)
        })
    }
}
