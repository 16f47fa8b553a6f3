//! Looking up a burst: the work of every packet.
//!
//! In passes over 64 keys: hash and ask for the bucket's line; compare tags and ask for
//! the entry's line (or, rarely, the other bucket's); compare the key and stamp the entry. Each
//! pass asks for the memory that the next one needs, so that the misses of many keys overlap.

use std::sync::atomic::{AtomicU64, Ordering};

use catena_shm::prefetch;

use super::{FlowTable, stamp};
use crate::bucket::{Home, first_slot, flow_in, has_sent_away, slots_with};
use crate::counters::Counter;
use crate::flow::Flow;
use crate::hash::KeyedHash;
use crate::memory::Memory;
use crate::raw::{LIVE, Raw, store};
use crate::shape::LINE_WORDS;

/// Most keys in one call of [`FlowTable::lookup`].
pub const BURST_MAX: usize = 256;
/// Keys in a pass: more than the lines that a core fetches at once. `elsewhere` has a bit for each.
const PASS: usize = 64;

impl<M: Memory> FlowTable<M> {
    /// Looks up a burst of keys, one after the other in `keys`, and marks the entries that it finds
    /// as used now. `found` gets one answer per key; its length says how many keys there are, at
    /// most [`BURST_MAX`]. Gives the number of keys found.
    ///
    /// What an entry's timeout has passed is found until [`FlowTable::expire`] has come to it; used
    /// again before that, it lives on.
    ///
    /// If `keys` is not exactly as long as that many keys, or the burst is too long, nothing is
    /// found.
    pub fn lookup(&mut self, keys: &[u64], now_ns: u64, found: &mut [Option<Flow>]) -> usize {
        let Some(hits) = self.look_up(keys, Some(stamp(now_ns)), found) else {
            return 0;
        };
        let raw = self.raw();
        raw.count(Counter::Lookups, found.len() as u64);
        raw.count(Counter::Hits, hits as u64);
        hits
    }

    /// As [`FlowTable::lookup`], where entries stay as they are and nothing is counted: for tables
    /// whose entries have no timeouts. A line that is only read need not be written back.
    pub fn peek(&self, keys: &[u64], found: &mut [Option<Flow>]) -> usize {
        self.look_up(keys, None, found).unwrap_or(0)
    }

    /// The number of keys found; none if there are more or fewer keys than there may be.
    fn look_up(
        &self,
        keys: &[u64],
        stamp: Option<u64>,
        found: &mut [Option<Flow>],
    ) -> Option<usize> {
        if keys.len() != found.len() * self.geometry.key_words || found.len() > BURST_MAX {
            found.fill(None);
            return None;
        }
        let (raw, hash) = (self.raw(), &self.hash);
        Some(match self.geometry.key_words {
            1 => lookup::<1>(raw, hash, keys, stamp, found),
            2 => lookup::<2>(raw, hash, keys, stamp, found),
            3 => lookup::<3>(raw, hash, keys, stamp, found),
            4 => lookup::<4>(raw, hash, keys, stamp, found),
            5 => lookup::<5>(raw, hash, keys, stamp, found),
            6 => lookup::<6>(raw, hash, keys, stamp, found),
            7 => lookup::<7>(raw, hash, keys, stamp, found),
            _ => lookup::<8>(raw, hash, keys, stamp, found),
        })
    }
}

/// The parts of a table that lookups read, each checked once for its end.
#[derive(Clone, Copy)]
struct Parts<'a> {
    raw: Raw<'a>,
    buckets: &'a [[AtomicU64; LINE_WORDS]],
    entries: &'a [AtomicU64],
    /// What entries that are found are marked with, if they are.
    stamp: Option<u64>,
}

fn lookup<const K: usize>(
    raw: Raw<'_>,
    hash: &KeyedHash,
    keys: &[u64],
    stamp: Option<u64>,
    found: &mut [Option<Flow>],
) -> usize {
    let geometry = raw.geometry;
    let part = |from: usize, to: usize| raw.words.get(from..to).unwrap_or_default();
    let parts = Parts {
        raw,
        buckets: part(geometry.buckets_at, geometry.entries_at).as_chunks().0,
        entries: part(geometry.entries_at, geometry.timers_at),
        stamp,
    };
    let (keys, _) = keys.as_chunks::<K>();
    keys.chunks(PASS)
        .zip(found.chunks_mut(PASS))
        .map(|(keys, found)| parts.pass(hash, keys, found))
        .sum()
}

impl Parts<'_> {
    /// Up to [`PASS`] keys.
    #[inline(always)]
    fn pass<const K: usize>(
        self,
        hash: &KeyedHash,
        keys: &[[u64; K]],
        found: &mut [Option<Flow>],
    ) -> usize {
        let count = self.raw.geometry.buckets;
        let mut homes = [Home::default(); PASS];
        for (key, home) in keys.iter().zip(&mut homes) {
            *home = Home::new(hash.hash_words(key), count);
            if let Some(line) = self.buckets.get(home.bucket as usize) {
                prefetch::line(line);
            }
        }
        let mut elsewhere = 0u64;
        for (at, (home, found)) in homes.iter().zip(found.iter_mut()).enumerate() {
            let Some(line) = self.buckets.get(home.bucket as usize) else {
                *found = None;
                continue;
            };
            *found = self.first_with(line, home.tag);
            if found.is_none() && has_sent_away(line) {
                elsewhere |= 1 << at;
                if let Some(line) = self.buckets.get(home.other(count) as usize) {
                    prefetch::line(line);
                }
            }
        }
        while elsewhere != 0 {
            let at = elsewhere.trailing_zeros() as usize;
            elsewhere &= elsewhere - 1;
            let home = homes[at % PASS];
            let line = self.buckets.get(home.other(count) as usize);
            if let (Some(line), Some(found)) = (line, found.get_mut(at)) {
                *found = self.first_with(line, home.tag);
            }
        }
        let mut hits = 0;
        for ((key, home), found) in keys.iter().zip(&homes).zip(found.iter_mut()) {
            let Some(flow) = *found else {
                continue;
            };
            if !self.is_used(flow, key) {
                // Another key with this tag stands before it, or in place of it.
                *found = self.raw.find(key, *home);
                let Some(flow) = *found else {
                    continue;
                };
                if let Some(stamp) = self.stamp {
                    self.raw.set_stamp(flow, stamp);
                }
            }
            hits += 1;
        }
        hits
    }

    /// The entry in the first slot with a tag, its lines on the way.
    #[inline(always)]
    fn first_with(self, line: &[AtomicU64; LINE_WORDS], tag: u16) -> Option<Flow> {
        let slots = slots_with(line, tag);
        if slots == 0 {
            return None;
        }
        let flow = flow_in(line, first_slot(slots))?;
        let stride = self.raw.geometry.stride;
        let at = flow.index() * stride;
        if let Some(word) = self.entries.get(at) {
            prefetch::line(word);
        }
        // State behind the first line is used next.
        let mut next = LINE_WORDS;
        while next < stride {
            if let Some(word) = self.entries.get(at + next) {
                prefetch::line(word);
            }
            next += LINE_WORDS;
        }
        Some(flow)
    }

    /// Whether an entry has this key; it is marked then.
    #[inline(always)]
    fn is_used<const K: usize>(self, flow: Flow, key: &[u64; K]) -> bool {
        let entry = self.entries.get(flow.index() * self.raw.geometry.stride..);
        let Some((found, rest)) = entry.and_then(|entry| entry.split_first_chunk::<K>()) else {
            return false;
        };
        let Some(stamp) = rest.first() else {
            return false;
        };
        let differs = key.iter().zip(found).fold(0, |differs, (one, other)| {
            differs | (one ^ other.load(Ordering::Relaxed))
        });
        let is_it = differs == 0 && stamp.load(Ordering::Relaxed) & LIVE != 0;
        if let Some(now) = self.stamp.filter(|_| is_it) {
            store(stamp, now);
        }
        is_it
    }
}
