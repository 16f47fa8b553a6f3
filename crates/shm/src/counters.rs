//! Counter blocks that any process can read.
//!
//! Beside a packet's life: a worker counts in private memory and stores the sums here once per
//! turn; `status`, `top` and Prometheus read them and cost the data path nothing. Each word is
//! written by one worker only; a reader sees each word whole, and a turn's words within
//! microseconds of another.
#![allow(unsafe_code, reason = "references to atomics in a region")]

use std::os::fd::{BorrowedFd, OwnedFd};

use crate::region::{Region, RegionError, Sharing};
use crate::sync::{AtomicU64, Ordering};

/// A block of 64-bit counters, written by the worker that made it.
#[derive(Debug)]
pub struct Counters {
    region: Region,
    word_count: usize,
}

impl Counters {
    /// Makes a block of `word_count` zeros.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn create(word_count: usize) -> Result<Self, RegionError> {
        let region = Region::create("catena-counters", word_count.max(1) * 8, Sharing::ReadOnly)?;
        region.prefault();
        Ok(Self { region, word_count })
    }

    /// Maps a worker's block for reading.
    ///
    /// # Errors
    /// What was wrong with the memory.
    pub fn attach(fd: OwnedFd, len: usize, word_count: usize) -> Result<Self, RegionError> {
        let region = Region::attach(fd, len, Sharing::ReadOnly)?;
        if word_count * 8 > region.len() {
            return Err(RegionError::WrongSize {
                has: region.len() as u64,
                announced: word_count as u64 * 8,
            });
        }
        Ok(Self { region, word_count })
    }

    /// Closes the descriptor of the memory, once readers have it.
    pub fn close_descriptor(&mut self) {
        self.region.close_descriptor();
    }

    /// The memory, for readers, and its size, before it is closed.
    pub fn memory(&self) -> (BorrowedFd<'_>, usize) {
        (self.region.fd(), self.region.len())
    }

    /// Number of words.
    pub fn word_count(&self) -> usize {
        self.word_count
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.word_count, "counter outside its block");
        // SAFETY: within the region, checked above and at creation; atomics may be shared.
        unsafe { self.region.at::<AtomicU64>(index * 8).as_ref() }
    }

    /// Stores `values` from word `first` on. The maker only.
    ///
    /// # Panics
    /// If the block is a reader's or too short.
    pub fn store(&self, first: usize, values: &[u64]) {
        assert!(
            self.region.is_writable(),
            "a reader's counters cannot be written"
        );
        for (index, value) in values.iter().enumerate() {
            self.word(first + index).store(*value, Ordering::Relaxed);
        }
    }

    /// The word at `index`.
    pub fn load(&self, index: usize) -> u64 {
        self.word(index).load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_maker_stores_readers_load() {
        let ours = Counters::create(600).unwrap();
        let (fd, len) = ours.memory();
        let theirs = Counters::attach(fd.try_clone_to_owned().unwrap(), len, 600).unwrap();
        ours.store(598, &[7, 8]);
        assert_eq!(
            (theirs.load(598), theirs.load(599), theirs.load(0)),
            (7, 8, 0)
        );
    }

    #[test]
    fn a_block_shorter_than_announced_is_refused() {
        let ours = Counters::create(8).unwrap();
        let (fd, len) = ours.memory();
        assert!(Counters::attach(fd.try_clone_to_owned().unwrap(), len, 10_000).is_err());
    }
}
