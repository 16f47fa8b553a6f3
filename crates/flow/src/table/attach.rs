//! Making a table, and attaching to one that another process has left behind.
//!
//! Before any packet. The header must say the same shape; then, if the last change was complete,
//! all parts agree and nothing more is done. If a kill fell into a change, or whoever asks wants
//! certainty, buckets, wheel and free list are built anew from the entries.

use catena_shm::prefetch;

use super::FlowTable;
use crate::bucket::Home;
use crate::counters::Counter;
use crate::flow::Flow;
use crate::hash::{KEY_WORDS_MAX, KeyedHash};
use crate::memory::{HeapMemory, LINE_BYTES, Memory};
use crate::raw::{TIME_MAX, at};
use crate::shape::{Geometry, Shape, ShapeError};

/// `CATFLOW` and a NUL, as the bytes stand in memory on a little-endian machine.
const MAGIC: u64 = u64::from_le_bytes(*b"CATFLOW\0");
/// The layout of this version of the crate. Changes with the header, the hash or any part.
const VERSION: u64 = 2;
/// The oldest layout of which header and entries are the same: all else is built anew.
const ALIKE: u64 = 1;
/// Entries whose buckets are asked for at once.
const AHEAD: usize = 32;

/// Why memory holds no table that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttachError {
    /// The shape is none.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// The memory is shorter than the shape needs.
    #[error("the table needs {needed} words of memory, there are {present}")]
    TooSmall {
        /// Words that the shape needs.
        needed: usize,
        /// Words that there are.
        present: usize,
    },
    /// The memory does not begin on a cache line.
    #[error("the table's memory does not begin on a cache line")]
    Misaligned,
    /// There is no table: it was never made, or not to the end.
    #[error("there is no flow table in this memory")]
    NoTable,
    /// Another version of this crate made it.
    #[error("the flow table has layout version {0}, this program knows version {VERSION}")]
    Version(u64),
    /// It has another shape.
    #[error("the flow table in this memory has another shape or schema")]
    OtherShape,
}

/// What attaching found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attached {
    /// Whether all that leads to entries was built anew.
    pub is_rebuilt: bool,
    /// Entries in use.
    pub entries: u32,
    /// Entries that were given up, because their key was there twice. None by a kill.
    pub lost: u32,
}

impl FlowTable<HeapMemory> {
    /// Makes an empty table in memory of this process, which ends with it. Else as
    /// [`FlowTable::create`].
    ///
    /// # Errors
    /// The shape is none.
    pub fn on_heap(shape: &Shape, seed: [u64; 2], now_ns: u64) -> Result<Self, AttachError> {
        Self::create(HeapMemory::new(shape.words()?), shape, seed, now_ns)
    }
}

impl<M: Memory> FlowTable<M> {
    /// Makes an empty table in `memory`, whatever was there. `seed` are random numbers that nobody
    /// outside knows, from the kernel.
    ///
    /// Entries are not touched: whoever wants no page faults later has touched the memory.
    ///
    /// # Errors
    /// The shape is none, or the memory is too short or not aligned.
    pub fn create(
        memory: M,
        shape: &Shape,
        seed: [u64; 2],
        now_ns: u64,
    ) -> Result<Self, AttachError> {
        let table = Self::over(memory, shape, seed)?;
        let raw = table.raw();
        raw.set(at::MAGIC, 0);
        for word in at::VERSION..table.geometry.entries_at {
            raw.set(word, 0);
        }
        raw.set_wheel_tick(now_ns.min(TIME_MAX) >> table.geometry.tick_shift);
        raw.set(at::VERSION, VERSION);
        for (at, value) in identity(shape, seed) {
            raw.set(at, value);
        }
        // Last, so that a kill before leaves no table rather than half of one.
        raw.set(at::MAGIC, MAGIC);
        Ok(table)
    }

    /// Attaches to the table that another process has left in `memory`. Takes no time unless a kill
    /// fell into a change, or the clock is behind that process's, or that was of a version of this
    /// crate which wrote entries alike and what leads to them not; then as [`FlowTable::recover`].
    ///
    /// The process that wrote it must have ended, and must have been one of ours: what it says of a
    /// complete change is believed. Spoiled memory gives wrong answers, but no panic and no endless
    /// loop.
    ///
    /// # Errors
    /// Says what does not fit; the memory is unchanged then.
    pub fn attach(memory: M, shape: &Shape, now_ns: u64) -> Result<(Self, Attached), AttachError> {
        let table = Self::known(memory, shape)?;
        let raw = table.raw();
        let now_tick = now_ns.min(TIME_MAX) >> table.geometry.tick_shift;
        let is_whole = raw.get(at::BUSY) == 0 && raw.get(at::VERSION) == VERSION;
        let attached = if is_whole && raw.wheel_tick() <= now_tick {
            Attached {
                entries: table.len(),
                ..Attached::default()
            }
        } else {
            table.rebuild(now_ns)
        };
        Ok((table, attached))
    }

    /// Attaches as [`FlowTable::attach`] does, and builds all that leads to entries anew: whatever
    /// else stands in the memory, the table is sound afterwards. Takes time per entry ever used.
    ///
    /// # Errors
    /// Says what does not fit; the memory is unchanged then.
    pub fn recover(memory: M, shape: &Shape, now_ns: u64) -> Result<(Self, Attached), AttachError> {
        let table = Self::known(memory, shape)?;
        let attached = table.rebuild(now_ns);
        Ok((table, attached))
    }

    fn over(memory: M, shape: &Shape, seed: [u64; 2]) -> Result<Self, AttachError> {
        let geometry = Geometry::new(shape)?;
        let words = memory.words();
        if words.len() < geometry.words {
            return Err(AttachError::TooSmall {
                needed: geometry.words,
                present: words.len(),
            });
        }
        if words.as_ptr().align_offset(LINE_BYTES) != 0 {
            return Err(AttachError::Misaligned);
        }
        Ok(Self {
            memory,
            shape: *shape,
            geometry,
            hash: KeyedHash::new(seed),
        })
    }

    /// After a check of the header.
    fn known(memory: M, shape: &Shape) -> Result<Self, AttachError> {
        let table = Self::over(memory, shape, [0; 2])?;
        let raw = table.raw();
        if raw.get(at::MAGIC) != MAGIC {
            return Err(AttachError::NoTable);
        }
        if !(ALIKE..=VERSION).contains(&raw.get(at::VERSION)) {
            return Err(AttachError::Version(raw.get(at::VERSION)));
        }
        let seed = [raw.get(at::SEED), raw.get(at::SEED + 1)];
        if identity(shape, seed)
            .iter()
            .any(|(at, value)| raw.get(*at) != *value)
        {
            return Err(AttachError::OtherShape);
        }
        let hash = KeyedHash::new(seed);
        Ok(Self { hash, ..table })
    }

    /// Builds buckets, wheel and free list from the entries.
    fn rebuild(&self, now_ns: u64) -> Attached {
        let (raw, now_ns) = (self.raw(), now_ns.min(TIME_MAX));
        raw.begin();
        raw.set(at::VERSION, VERSION);
        let fresh = raw.fresh();
        raw.set(at::FRESH, u64::from(fresh));
        raw.set(at::FREE, 0);
        raw.set(at::LIVE, 0);
        raw.clear_wheel();
        raw.set_wheel_tick(raw.wheel_tick().min(now_ns >> self.geometry.tick_shift));
        for word in self.geometry.buckets_at..self.geometry.entries_at {
            raw.set(word, 0);
        }
        let mut attached = Attached {
            is_rebuilt: true,
            ..Attached::default()
        };
        // From the last to the first, so that the free list gives low numbers first.
        for end in (1..=fresh).rev().step_by(AHEAD) {
            self.rebuild_some(end.saturating_sub(AHEAD as u32)..end, now_ns, &mut attached);
        }
        raw.set(at::LIVE, u64::from(attached.entries));
        raw.count(Counter::Lost, u64::from(attached.lost));
        raw.end();
        attached
    }

    fn rebuild_some(&self, range: std::ops::Range<u32>, now_ns: u64, attached: &mut Attached) {
        let raw = self.raw();
        let mut homes = [Home::default(); AHEAD];
        for (flow, home) in range.clone().rev().filter_map(Flow::new).zip(&mut homes) {
            let mut key = [0; KEY_WORDS_MAX];
            let key = &mut key[..self.geometry.key_words];
            raw.read_key(flow, key);
            *home = self.home(key);
            if let Some(line) = raw.bucket(home.bucket) {
                prefetch::line(&line[0]);
            }
        }
        for (flow, home) in range.rev().filter_map(Flow::new).zip(&homes) {
            raw.set_list(flow, None);
            if !raw.is_live(flow) {
                raw.set_stamp(flow, 0);
                raw.give_free(flow);
            } else if self.link(flow, *home, now_ns) {
                attached.entries += 1;
            } else {
                raw.set_stamp(flow, 0);
                raw.give_free(flow);
                attached.lost += 1;
            }
        }
    }

    /// Leads to an entry from its bucket and the wheel; `false` if its key is there already, or no
    /// bucket has room.
    fn link(&self, flow: Flow, home: Home, now_ns: u64) -> bool {
        let raw = self.raw();
        let mut key = [0; KEY_WORDS_MAX];
        let key = &mut key[..self.geometry.key_words];
        raw.read_key(flow, key);
        if raw.find(key, home).is_some() {
            return false;
        }
        let Some((bucket, slot)) = raw.make_room(home) else {
            return false;
        };
        raw.occupy(home, bucket, slot, flow);
        // A stamp from the future would keep the entry for ever.
        let used_ns = (raw.stamp(flow) & TIME_MAX).min(now_ns);
        raw.set_stamp(flow, super::stamp(used_ns));
        raw.schedule(flow, raw.deadline_of(flow));
        true
    }
}

/// Words of the header that do not change while a table lives, but the version.
fn identity(shape: &Shape, seed: [u64; 2]) -> [(usize, u64); 6] {
    [
        (at::DIGEST, shape.digest()),
        (
            at::WIDTHS,
            u64::from(shape.key_words) << 32 | u64::from(shape.state_words),
        ),
        (at::CAPACITY, u64::from(shape.capacity)),
        (at::TICK_NS, shape.tick_ns),
        (at::SEED, seed[0]),
        (at::SEED + 1, seed[1]),
    ]
}
