//! Where a table lies: words that outlive the process which writes them.
//!
//! Beside a packet's life: whoever starts an NF makes or keeps this memory and gives it to a
//! [`FlowTable`](crate::FlowTable), which stores offsets in it and never an address.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use catena_shm::anonymous::AnonymousWords;
use catena_shm::region::Region;
use catena_shm::state::StateWords;

/// Bytes of a cache line; a table's memory begins on one.
pub const LINE_BYTES: usize = 64;

/// Memory for one table: 64-bit words at an address that does not change, beginning on a line of 64
/// bytes.
///
/// Words are atomics because a supervisor may read them while an NF writes. One process writes; a
/// second writer breaks the table's promises but cannot make it panic or loop.
pub trait Memory {
    /// The words. Called once per operation; must be cheap and give the same words each time.
    fn words(&self) -> &[AtomicU64];
}

impl Memory for [AtomicU64] {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        self
    }
}

impl<M: Memory + ?Sized> Memory for &M {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

impl<M: Memory + ?Sized> Memory for Arc<M> {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        (**self).words()
    }
}

/// Shared memory. A read-only mapping has no words, so no table can be made or attached there.
impl Memory for Region {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        Self::words(self)
    }
}

/// Memory of an NF, which the supervisor keeps.
impl Memory for StateWords {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        Self::words(self)
    }
}

/// Memory of this process, for tests and for tables that need not outlive it; on huge pages, where
/// there are some, if it is large.
#[derive(Debug)]
pub struct HeapMemory(Heap);

#[derive(Debug)]
enum Heap {
    Small {
        words: Vec<AtomicU64>,
        start: usize,
        len: usize,
    },
    Large(AnonymousWords),
}

/// From so many words on huge pages are asked for: of two of them.
const LARGE_WORDS: usize = (4 << 20) / size_of::<AtomicU64>();

impl HeapMemory {
    /// `len` words of zero, all touched.
    pub fn new(len: usize) -> Self {
        let large = (len >= LARGE_WORDS).then(|| AnonymousWords::new(len).ok());
        if let Some(large) = large.flatten() {
            return Self(Heap::Large(large));
        }
        let slack = LINE_BYTES / size_of::<AtomicU64>();
        let words: Vec<AtomicU64> = (0..len + slack).map(|_| AtomicU64::new(0)).collect();
        let start = words.as_ptr().align_offset(LINE_BYTES).min(slack);
        Self(Heap::Small { words, start, len })
    }
}

impl Memory for HeapMemory {
    #[inline(always)]
    fn words(&self) -> &[AtomicU64] {
        match &self.0 {
            Heap::Small { words, start, len } => &words[*start..][..*len],
            Heap::Large(words) => words.words(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_shm::region::Sharing;

    #[test]
    fn heap_memory_begins_on_a_line() {
        for len in [0, 1, 9, 1000, LARGE_WORDS + 1] {
            let memory = HeapMemory::new(len);
            assert_eq!(memory.words().len(), len);
            assert_eq!(memory.words().as_ptr().align_offset(LINE_BYTES), 0);
        }
    }

    #[test]
    fn a_region_gives_its_words_to_writers_only() {
        let region = Region::create("test", 4096, Sharing::ReadOnly).expect("a region");
        assert_eq!(Memory::words(&region).len(), 512);
        let fd = region.fd().try_clone_to_owned().expect("a descriptor");
        let reader = Region::attach(fd, 4096, Sharing::ReadOnly).expect("a mapping");
        assert!(Memory::words(&reader).is_empty());
    }
}
