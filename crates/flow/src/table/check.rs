//! Whether all parts of a table agree: for tests, and for whoever doubts the memory.
//!
//! Beside packets, and not bounded per turn: it takes as long as the table is large.

use super::FlowTable;
use crate::bucket::{ALL_SLOTS, AWAY_MAX, flow_in, other_bucket, slots, slots_with};
use crate::flow::Flow;
use crate::hash::KEY_WORDS_MAX;
use crate::memory::Memory;
use crate::raw::{LEVELS, LISTS, Raw, at};

/// What does not agree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Defect {
    /// A change was not completed.
    #[error("a change was not completed")]
    Busy,
    /// An entry is not where its key leads, or is there twice.
    #[error("entry {0} is not found by its key")]
    Unreachable(usize),
    /// A slot leads to no entry.
    #[error("slot {slot} of bucket {bucket} leads to no entry")]
    Slot {
        /// The bucket.
        bucket: u32,
        /// Its slot.
        slot: u32,
    },
    /// A slot is marked as that of an entry which is spared, and is empty.
    #[error("slot {slot} of bucket {bucket} is empty and spared")]
    Spared {
        /// The bucket.
        bucket: u32,
        /// Its slot.
        slot: u32,
    },
    /// A bucket miscounts the entries that live elsewhere.
    #[error("bucket {0} miscounts the entries that live elsewhere")]
    Away(u32),
    /// An entry with a timeout is in no list, or in one whose turn comes too late.
    #[error("entry {0} is not listed in time")]
    Timer(usize),
    /// A list is broken or its level does not know of it.
    #[error("list {0} of the wheel is broken")]
    List(usize),
    /// Entries are neither in use nor free, or both.
    #[error("{live} entries in use and {free} free are not {fresh}")]
    Free {
        /// In use.
        live: u32,
        /// In the free list.
        free: u32,
        /// Ever used.
        fresh: u32,
    },
}

impl<M: Memory> FlowTable<M> {
    /// Compares all parts of the table. Needs time and memory in proportion to its capacity.
    ///
    /// # Errors
    /// The first that does not agree.
    pub fn check(&self) -> Result<(), Defect> {
        let raw = self.raw();
        if raw.get(at::BUSY) != 0 {
            return Err(Defect::Busy);
        }
        let live = self.check_entries(raw)?;
        self.check_buckets(raw)?;
        self.check_lists(raw)?;
        let (free, fresh) = (free_entries(raw), raw.fresh());
        let counted = u32::try_from(raw.get(at::LIVE)) == Ok(live);
        if !counted || free.checked_add(live) != Some(fresh) {
            return Err(Defect::Free { live, free, fresh });
        }
        Ok(())
    }

    fn check_entries(&self, raw: Raw<'_>) -> Result<u32, Defect> {
        let mut live = 0;
        for flow in (0..raw.fresh()).filter_map(Flow::new) {
            if raw.is_live(flow) {
                live += 1;
                let mut key = [0; KEY_WORDS_MAX];
                let key = &mut key[..self.geometry.key_words];
                raw.read_key(flow, key);
                if raw.find(key, self.home(key)) != Some(flow) {
                    return Err(Defect::Unreachable(flow.index()));
                }
                let is_due = raw.deadline_of(flow) != u64::MAX;
                if is_due && raw.list_of(flow).is_none() {
                    return Err(Defect::Timer(flow.index()));
                }
            }
        }
        Ok(live)
    }

    fn check_buckets(&self, raw: Raw<'_>) -> Result<(), Defect> {
        let buckets = self.geometry.buckets;
        let mut away = vec![0u64; buckets as usize];
        let mut seen = vec![false; self.geometry.capacity as usize];
        for bucket in 0..buckets {
            let line = raw.bucket(bucket).ok_or(Defect::Away(bucket))?;
            let empty = slots_with(line, 0);
            if let Some(slot) = slots(empty & raw.spared(line)).next() {
                return Err(Defect::Spared { bucket, slot });
            }
            for slot in slots(ALL_SLOTS & !empty) {
                let flow = flow_in(line, slot).filter(|flow| raw.is_live(*flow));
                let flow = flow.ok_or(Defect::Slot { bucket, slot })?;
                if std::mem::replace(&mut seen[flow.index()], true) {
                    return Err(Defect::Unreachable(flow.index()));
                }
                if raw.is_guest(bucket, slot) {
                    away[other_bucket(bucket, raw.tag_in(bucket, slot), buckets) as usize] += 1;
                }
            }
        }
        let mut all = 0..buckets;
        let wrong = all.find(|at| match raw.away(*at) {
            AWAY_MAX => false,
            counted => counted != away[*at as usize],
        });
        wrong.map_or(Ok(()), |bucket| Err(Defect::Away(bucket)))
    }

    fn check_lists(&self, raw: Raw<'_>) -> Result<(), Defect> {
        for list in 0..LEVELS * LISTS {
            let is_known = raw.get(at::LEVELS + list / LISTS) >> (list % LISTS) & 1 != 0;
            let mut next = Flow::from_low(raw.get(at::LISTS + list));
            if is_known != next.is_some() {
                return Err(Defect::List(list));
            }
            let mut previous = None;
            let mut left = self.geometry.capacity;
            while let Some(flow) = next {
                let sound = raw.list_of(flow) == Some(list) && raw.links(flow).1 == previous;
                left = left
                    .checked_sub(1)
                    .filter(|_| sound)
                    .ok_or(Defect::List(list))?;
                if !raw.is_live(flow) || !raw.is_listed_in_time(flow, list) {
                    return Err(Defect::Timer(flow.index()));
                }
                previous = next;
                next = raw.links(flow).0;
            }
        }
        Ok(())
    }
}

/// Length of the free list; more than there are entries where it is a circle or leads nowhere.
fn free_entries(raw: Raw<'_>) -> u32 {
    let mut next = Flow::from_low(raw.get(at::FREE));
    let mut count = 0;
    while let Some(flow) = next {
        count += 1;
        if count > raw.fresh() || flow.index() >= raw.fresh() as usize || raw.is_live(flow) {
            return u32::MAX;
        }
        next = raw.links(flow).0;
    }
    count
}
