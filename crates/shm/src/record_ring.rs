//! Records of probes: a ring that one worker writes and anybody may read, and that never waits.
//!
//! Beside a packet's life: a worker that is asked to notes when a packet passed its nodes. It
//! overwrites the oldest records, so a reader that is slow, dead or hostile costs it nothing; the
//! reader counts what it was too slow for.
//!
//! | word | written | says |
//! |---|---|---|
//! | `begun` | before a record is written | records below `begun - capacity` are being overwritten |
//! | `head` | after it is written | records below it are whole |
//! | slots | between the two | |
//!
//! A reader takes `head`, copies what lies below it, then looks at `begun`: what may have been
//! overwritten meanwhile is thrown away and counted. It maps the region read-only, copies each word
//! once, and believes nothing: cursors that run backwards, or further than memory allows, cost it
//! records and no more.
#![allow(unsafe_code, reason = "references to atomics in a region")]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use crate::prefetch;
use crate::region::{Region, RegionError, Sharing};
use crate::sync::{AtomicU64, Ordering, fence};

/// Words of a record.
pub const RECORD_WORDS: usize = 4;
/// One record; what its words mean is its writer's and reader's business.
pub type Record = [u64; RECORD_WORDS];
/// Records that a worker's ring holds: a fifteenth of a second at a million a second.
pub const RECORD_CAPACITY: usize = 1 << 16;

/// Bytes in front of the slots: the two cursors, in a cache line of their own.
const HEADER_BYTES: usize = 64;
/// How many records ahead of the one being written are fetched: by then a line has come.
const AHEAD: u64 = 8;
const BEGUN: usize = 0;
const HEAD: usize = 8;

/// Where a ring's words live: a sealed region in production, the heap in models.
pub trait RecordMemory {
    /// Number of slots, a power of two.
    fn capacity(&self) -> usize;
    /// Written before a record.
    fn begun(&self) -> &AtomicU64;
    /// Written after a record.
    fn head(&self) -> &AtomicU64;
    /// Word `word` of slot `slot`, both below their counts.
    fn word(&self, slot: usize, word: usize) -> &AtomicU64;
    /// Starts to fetch a slot that will be written soon.
    fn prefetch(&self, _slot: usize) {}
}

/// A ring's memory in a region.
#[derive(Clone, Debug)]
pub struct RecordPage {
    region: Arc<Region>,
}

impl RecordPage {
    /// Makes a page of [`RECORD_CAPACITY`] empty slots. Its memory is taken from the machine only
    /// when it is used, or by [`RecordPage::prefault`].
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn create() -> Result<Self, RegionError> {
        let region = Region::create("catena-records", Self::bytes(), Sharing::ReadOnly)?;
        Ok(Self {
            region: Arc::new(region),
        })
    }

    /// Maps a worker's page for reading.
    ///
    /// # Errors
    /// What was wrong with the memory.
    pub fn attach(fd: OwnedFd, len: usize) -> Result<Self, RegionError> {
        let region = Region::attach(fd, len, Sharing::ReadOnly)?;
        if len < Self::bytes() {
            return Err(RegionError::WrongSize {
                has: len as u64,
                announced: Self::bytes() as u64,
            });
        }
        Ok(Self {
            region: Arc::new(region),
        })
    }

    /// Bytes of a page.
    pub const fn bytes() -> usize {
        HEADER_BYTES + RECORD_CAPACITY * RECORD_WORDS * 8
    }

    /// Closes the descriptor of the memory, once readers have it, if nothing else refers to it.
    pub fn close_descriptor(&mut self) {
        if let Some(region) = Arc::get_mut(&mut self.region) {
            region.close_descriptor();
        }
    }

    /// The memory, for readers, and its size, before it is closed.
    pub fn memory(&self) -> (BorrowedFd<'_>, usize) {
        (self.region.fd(), self.region.len())
    }

    /// Touches the memory, so that the writer meets no page fault.
    pub fn prefault(&self) {
        self.region.prefault();
    }

    fn at(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `Region::at` checks that the word lies in the mapping, which lives as long as
        // `self`; atomics may be shared.
        unsafe { self.region.at::<AtomicU64>(offset).as_ref() }
    }
}

impl RecordMemory for RecordPage {
    fn capacity(&self) -> usize {
        RECORD_CAPACITY
    }
    fn begun(&self) -> &AtomicU64 {
        self.at(BEGUN)
    }
    fn head(&self) -> &AtomicU64 {
        self.at(HEAD)
    }
    #[inline]
    fn word(&self, slot: usize, word: usize) -> &AtomicU64 {
        self.at(HEADER_BYTES + (slot * RECORD_WORDS + word) * 8)
    }
    #[inline]
    fn prefetch(&self, slot: usize) {
        let offset = HEADER_BYTES + slot * RECORD_WORDS * 8;
        prefetch::for_writing(self.region.at::<u8>(offset));
    }
}

/// The worker's side.
#[derive(Debug)]
pub struct RecordWriter<M> {
    memory: M,
    head: u64,
}

impl<M: RecordMemory> RecordWriter<M> {
    /// The writer of an empty ring.
    ///
    /// # Panics
    /// If the capacity is no power of two.
    pub fn new(memory: M) -> Self {
        assert!(memory.capacity().is_power_of_two(), "slots are masked");
        Self { memory, head: 0 }
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Writes a record over the oldest one.
    #[inline]
    pub fn push(&mut self, record: Record) {
        let slot = slot_of(self.head, self.memory.capacity());
        self.head += 1;
        self.memory.begun().store(self.head, Ordering::Relaxed);
        // Release pairs with the Acquire fence in `RecordReader::read`: whoever sees a word of this
        // record sees that it was begun.
        fence(Ordering::Release);
        for (word, value) in record.into_iter().enumerate() {
            self.memory.word(slot, word).store(value, Ordering::Relaxed);
        }
        self.memory
            .prefetch(slot_of(self.head + AHEAD, self.memory.capacity()));
        // Release pairs with the Acquire load of `head` in `RecordReader::read`.
        self.memory.head().store(self.head, Ordering::Release);
    }
}

/// A reader's side.
#[derive(Debug)]
pub struct RecordReader<M> {
    memory: M,
    next: u64,
    lost: u64,
    violations: u64,
}

impl<M: RecordMemory> RecordReader<M> {
    /// A reader of what is written from now on.
    pub fn from_now(memory: M) -> Self {
        let next = memory.head().load(Ordering::Acquire);
        Self {
            memory,
            next,
            lost: 0,
            violations: 0,
        }
    }

    /// Records that were overwritten before they were read.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// Times the cursors were impossible: the writer is hostile or broken.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Takes what has been written since the last call, oldest first, at most a whole ring; says
    /// how many records.
    pub fn read(&mut self, into: &mut Vec<Record>) -> usize {
        let capacity = self.memory.capacity() as u64;
        // Acquire pairs with the Release store in `RecordWriter::push`: records below are whole,
        // or overwritten by later ones.
        let head = self.memory.head().load(Ordering::Acquire);
        if head < self.next {
            self.violations += 1;
            self.next = head;
            return 0;
        }
        let first = self.next.max(head.saturating_sub(capacity));
        let already = into.len();
        for index in first..head {
            let slot = slot_of(index, self.memory.capacity());
            into.push(std::array::from_fn(|word| {
                self.memory.word(slot, word).load(Ordering::Relaxed)
            }));
        }
        // Acquire pairs with the Release fence in `RecordWriter::push`: a word of a later record
        // can have been copied only if `begun` below says so.
        fence(Ordering::Acquire);
        let begun = self.memory.begun().load(Ordering::Relaxed);
        self.violations += u64::from(begun < head);
        let whole = begun.saturating_sub(capacity).clamp(first, head);
        #[expect(clippy::cast_possible_truncation, reason = "at most the capacity")]
        into.drain(already..already + (whole - first) as usize);
        self.lost = self.lost.saturating_add(whole - self.next);
        self.next = head;
        into.len() - already
    }
}

#[expect(clippy::cast_possible_truncation, reason = "masked to the capacity")]
fn slot_of(index: u64, capacity: usize) -> usize {
    index as usize & (capacity - 1)
}

#[cfg(test)]
#[path = "record_ring_tests.rs"]
mod tests;
