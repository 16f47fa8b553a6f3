//! The receiving side of a ring: third step of a hop. See [`super`] for the protocol.

use super::slot::{RingMemory, log2_of, position, sequence};
use crate::descriptor::Descriptor;
use crate::sync::Ordering;

/// The consumer's side.
#[derive(Debug)]
pub struct Consumer<M> {
    pub(super) memory: M,
    slot_count: u32,
    log2: u32,
    read: u64,
    tail: u64,
}

impl<M: RingMemory> Consumer<M> {
    /// A consumer whose first descriptor has free-running index `start` (0 for a new ring).
    ///
    /// # Panics
    /// If the memory's slot count is not a power of two within the limit.
    pub fn new(memory: M, start: u64) -> Self {
        let slot_count = memory.slot_count();
        memory.tail().store(start, Ordering::Relaxed);
        memory.read().store(start, Ordering::Relaxed);
        Self {
            slot_count,
            log2: log2_of(slot_count),
            memory,
            read: start,
            tail: start,
        }
    }

    /// Number of slots.
    pub fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// What the producer says it has published in finished turns: a hint for congestion only.
    pub fn published(&self) -> u64 {
        self.memory.settled().load(Ordering::Relaxed)
    }

    /// The next descriptor, which stays in the ring. The peer may change it before it is pulled.
    pub fn peek_next(&self) -> Option<Descriptor> {
        let lap_end = self.tail + u64::from(self.slot_count);
        if self.read < lap_end {
            self.peek(self.read)
        } else {
            None
        }
    }

    /// Index of the next descriptor to be pulled.
    pub fn read_index(&self) -> u64 {
        self.read
    }

    /// Index of the first descriptor not yet committed.
    pub fn tail_index(&self) -> u64 {
        self.tail
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    fn peek(&self, index: u64) -> Option<Descriptor> {
        let slot = self.memory.slot(position(index, self.slot_count));
        // Acquire pairs with the Release store in `Producer::push`.
        let word0 = slot.word0.load(Ordering::Acquire);
        if Descriptor::sequence_of(word0) != sequence(index, self.log2) {
            return None;
        }
        Some(Descriptor::from_words(
            word0,
            slot.word1.load(Ordering::Relaxed),
        ))
    }

    /// Whether a descriptor waits.
    pub fn has_next(&self) -> bool {
        self.peek_next().is_some()
    }

    /// Takes descriptors of up to `max` packets into `into`, and says how many packets. They stay
    /// in hand, and their slots stay taken, until [`Consumer::commit`].
    pub fn pull(&mut self, max: usize, into: &mut Vec<Descriptor>) -> usize {
        let count = self.peek_burst(max, into);
        self.take(count);
        count
    }

    /// Copies descriptors of up to `max` packets into `into` and leaves them in the ring; says how
    /// many packets.
    pub fn peek_burst(&self, max: usize, into: &mut Vec<Descriptor>) -> usize {
        // A slot may be pulled once per commit: never further than one lap beyond the tail.
        let max = max.min((self.tail + u64::from(self.slot_count) - self.read) as usize);
        let mut count = 0;
        while count < max {
            let Some(descriptor) = self.peek(self.read + count as u64) else {
                break;
            };
            let span = descriptor.span() as usize;
            if span > max - count {
                break;
            }
            into.push(descriptor);
            count += span;
        }
        count
    }

    /// Shows the descriptors of up to `max` packets to `each`, as long as it says that it has made
    /// use of them, and leaves them in the ring; says how many packets it has. What it makes of
    /// them is to have no effect before [`Consumer::take`]. In one loop with what becomes of a
    /// descriptor, the next slot is on its way meanwhile.
    #[inline]
    pub fn peek_each(&self, max: usize, mut each: impl FnMut(&Descriptor) -> bool) -> usize {
        // As in `peek_burst`.
        let max = max.min((self.tail + u64::from(self.slot_count) - self.read) as usize);
        let mut count = 0;
        while count < max
            && let Some(descriptor) = self.peek(self.read + count as u64)
        {
            let span = descriptor.span() as usize;
            if span > max - count || !each(&descriptor) {
                break;
            }
            count += span;
        }
        count
    }

    /// Takes `count` packets, which are the whole of one or more of the descriptors that
    /// [`Consumer::peek_burst`] has just given. To be called before anything is published that
    /// follows from them.
    pub fn take(&mut self, count: usize) {
        if count > 0 {
            self.read += count as u64;
            // Ordered before everything the worker publishes from these packets by the Release
            // stores there; the undertaker reads it with Acquire.
            self.memory.read().store(self.read, Ordering::Release);
        }
    }

    /// Gives back the slots of everything pulled: it has been sent on, returned or copied.
    pub fn commit(&mut self) -> bool {
        if self.tail == self.read {
            return false;
        }
        self.tail = self.read;
        // Release pairs with the Acquire load in `Producer::room`.
        self.memory.tail().store(self.tail, Ordering::Release);
        true
    }
}
