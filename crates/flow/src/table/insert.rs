//! Insertion: what the first packet of a flow costs.
//!
//! The entry goes into the key's first bucket, else its other one, else room is made: buckets
//! that entries of these two could move to are looked at, nearest first, until one has an empty
//! slot, and at most [`LOOKED_AT_MAX`] of them. Then the moves are made from the empty slot back.

use super::expire::Timeouts;
use super::{FlowTable, stamp};
use crate::bucket::{ALL_SLOTS, Home, other_bucket, slots};
use crate::counters::Counter;
use crate::flow::{Flow, Record};
use crate::memory::Memory;
use crate::raw::{Raw, TIME_MAX, at};
use crate::shape::SLOTS;
use crate::wheel::deadline_ns;

/// Most buckets that one insertion looks at.
const LOOKED_AT_MAX: usize = 64;

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// A new entry, its state all zeros.
    New(Flow),
    /// The key was there already: nothing has changed, its timeouts included.
    Present(Flow),
}

impl Inserted {
    /// The entry, new or not.
    pub fn flow(self) -> Flow {
        match self {
            Self::New(flow) | Self::Present(flow) => flow,
        }
    }
}

/// Why a key was not inserted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// All entries are in use.
    #[error("the flow table is full")]
    Full,
    /// There are free entries, but no bucket within reach has room. With random seeds this does not
    /// happen in practice: a bucket has 10 slots, of which 7 are in use when a table is full.
    #[error("no bucket within reach has room")]
    Crowded,
    /// The key has another number of words than the table's.
    #[error("the key's width is not the table's")]
    Width,
}

/// A bucket that was looked at: how one comes here.
#[derive(Clone, Copy, Debug)]
struct Step {
    bucket: u32,
    /// Place of the bucket from which an entry would move here, and its slot there; none for the
    /// two buckets of the key.
    from: Option<(u8, u8)>,
}

/// What an entry is made of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made<'a> {
    key: &'a [u64],
    /// Words that are not given become 0.
    state: &'a [u64],
    used_ns: u64,
    idle_ns: u64,
    hard_ns: u64,
}

impl<'a> Made<'a> {
    /// Used now, with a state of zeros.
    pub(super) fn now(key: &'a [u64], timeouts: Timeouts, now_ns: u64) -> Self {
        Self {
            key,
            state: &[],
            used_ns: now_ns,
            idle_ns: timeouts.idle_ns,
            hard_ns: timeouts.hard_at(now_ns),
        }
    }
}

impl<M: Memory> FlowTable<M> {
    /// Makes an entry for a key that has none, used now, with a state of zeros.
    ///
    /// # Errors
    /// Says why it is refused; nothing has changed then.
    pub fn insert(
        &mut self,
        key: &[u64],
        timeouts: Timeouts,
        now_ns: u64,
    ) -> Result<Inserted, Refusal> {
        self.insert_made(&Made::now(key, timeouts, now_ns))
    }

    /// Makes an entry from a copy: of a snapshot, or from another shard. When it was used last and
    /// when it ends are as the copy says, but not used later than now.
    ///
    /// # Errors
    /// Says why it is refused; nothing has changed then.
    pub fn insert_record(&mut self, record: &Record, now_ns: u64) -> Result<Inserted, Refusal> {
        let (keys, states) = (record.key_words as usize, record.state_words as usize);
        match (record.key.get(..keys), record.state.get(..states)) {
            (Some(key), Some(state)) if states == self.geometry.state_words => {
                self.insert_made(&Made {
                    key,
                    state,
                    used_ns: record.used_ns.min(now_ns),
                    idle_ns: record.idle_ns,
                    hard_ns: record.hard_ns,
                })
            }
            _ => Err(Refusal::Width),
        }
    }

    fn insert_made(&mut self, made: &Made<'_>) -> Result<Inserted, Refusal> {
        if !self.is_key(made.key) {
            return Err(Refusal::Width);
        }
        let home = self.home(made.key);
        match self.raw().find(made.key, home) {
            Some(flow) => Ok(Inserted::Present(flow)),
            None => self.make(home, made),
        }
    }

    /// Makes an entry; `home` is its key's, of which there is none.
    pub(super) fn make(&mut self, home: Home, made: &Made<'_>) -> Result<Inserted, Refusal> {
        let raw = self.raw();
        if !raw.has_free() {
            raw.count(Counter::Full, 1);
            return Err(Refusal::Full);
        }
        raw.begin();
        let placed = raw.make_room(home).ok_or(Refusal::Crowded);
        let placed = placed.and_then(|place| Ok((place, raw.take_free().ok_or(Refusal::Full)?)));
        match &placed {
            Ok(((bucket, slot), flow)) => {
                raw.write_entry(*flow, made.key, made.state);
                raw.set_timeouts(*flow, made.idle_ns, made.hard_ns);
                // From here on the entry is there, whatever happens.
                raw.set_stamp(*flow, stamp(made.used_ns));
                raw.occupy(home, *bucket, *slot, *flow);
                let used_ns = made.used_ns.min(TIME_MAX);
                raw.schedule(*flow, deadline_ns(used_ns, made.idle_ns, made.hard_ns));
                raw.set(at::LIVE, raw.get(at::LIVE).saturating_add(1));
                raw.count(Counter::Inserts, 1);
            }
            Err(Refusal::Crowded) => raw.count(Counter::Crowded, 1),
            Err(_) => raw.count(Counter::Full, 1),
        }
        raw.end();
        placed.map(|(_, flow)| Inserted::New(flow))
    }
}

impl Raw<'_> {
    /// Key and state; words of state that are not given become 0.
    fn write_entry(self, flow: Flow, key: &[u64], state: &[u64]) {
        let at = self.entry_at(flow);
        for (word, value) in key.iter().enumerate() {
            self.set(at + word, *value);
        }
        for word in 0..self.geometry.state_words {
            let value = state.get(word).copied().unwrap_or(0);
            self.set(at + self.geometry.key_words + 1 + word, value);
        }
    }

    /// An empty slot for a key, made by moving others if need be. The caller is between
    /// [`Raw::begin`] and [`Raw::end`].
    pub(super) fn make_room(self, home: Home) -> Option<(u32, u32)> {
        let buckets = self.geometry.buckets;
        let roots = [home.bucket, home.other(buckets)];
        if let Some(place) = roots
            .into_iter()
            .find_map(|bucket| Some((bucket, self.empty_slot(bucket)?)))
        {
            return Some(place);
        }
        let root = |bucket| Step { bucket, from: None };
        let mut steps = [root(roots[0]); LOOKED_AT_MAX];
        steps[1] = root(roots[1]);
        let mut count = if roots[0] == roots[1] { 1 } else { 2 };
        let mut at = 0;
        while at < count {
            let bucket = steps[at].bucket;
            for slot in slots(ALL_SLOTS) {
                let to = other_bucket(bucket, self.tag_in(bucket, slot), buckets);
                // Each bucket once, so that the moves of a way do not touch the same slot twice.
                if steps[..count].iter().any(|step| step.bucket == to) {
                    continue;
                }
                if let Some(empty) = self.empty_slot(to) {
                    return Some(self.move_along(&steps, at, slot, (to, empty)));
                }
                if count < LOOKED_AT_MAX {
                    steps[count] = Step {
                        bucket: to,
                        from: Some((at as u8, slot as u8)),
                    };
                    count += 1;
                }
            }
            at += 1;
        }
        None
    }

    /// Moves entries from an empty slot back to one of the first two buckets.
    fn move_along(
        self,
        steps: &[Step; LOOKED_AT_MAX],
        mut at: usize,
        mut slot: u32,
        mut empty: (u32, u32),
    ) -> (u32, u32) {
        for _ in 0..LOOKED_AT_MAX {
            let step = steps[at];
            self.move_slot(step.bucket, slot, empty.0, empty.1);
            self.count(Counter::Moves, 1);
            empty = (step.bucket, slot);
            let Some((from, from_slot)) = step.from else {
                break;
            };
            (at, slot) = (usize::from(from), u32::from(from_slot));
        }
        empty
    }
}

const _: () = assert!(LOOKED_AT_MAX < u8::MAX as usize);
const _: () = assert!(SLOTS < u8::MAX as usize);
