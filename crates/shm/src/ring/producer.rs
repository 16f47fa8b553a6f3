//! The sending side of a ring: second step of a hop. See [`super`] for the protocol.

use super::slot::{RingMemory, log2_of, position, sequence};
use crate::descriptor::Descriptor;
use crate::sync::Ordering;

/// The producer's side.
#[derive(Debug)]
pub struct Producer<M> {
    memory: M,
    slot_count: u32,
    log2: u32,
    head: u64,
    settled: u64,
    tail_seen: u64,
    violations: u64,
    /// Whether a descriptor of several packets was ever published.
    passes_over: bool,
}

impl<M: RingMemory> Producer<M> {
    /// A producer whose first descriptor has free-running index `start` (0 for a new ring).
    ///
    /// # Panics
    /// If the memory's slot count is not a power of two within the limit.
    pub fn new(memory: M, start: u64) -> Self {
        let slot_count = memory.slot_count();
        memory.settled().store(start, Ordering::Relaxed);
        Self {
            slot_count,
            log2: log2_of(slot_count),
            memory,
            head: start,
            settled: start,
            tail_seen: start,
            violations: 0,
            passes_over: false,
        }
    }

    /// Other memory for the same producer: the consumer has been replaced, the slots are kept.
    pub fn replace_memory(&mut self, replace: impl FnOnce(M) -> M)
    where
        M: Clone,
    {
        self.memory = replace(self.memory.clone());
    }

    /// Number of slots.
    pub fn slot_count(&self) -> u32 {
        self.slot_count
    }

    /// Index of the next descriptor: how many were ever published.
    pub fn head(&self) -> u64 {
        self.head
    }

    /// The consumer's tail as last seen: everything below it has been given back.
    pub fn tail_seen(&self) -> u64 {
        self.tail_seen
    }

    /// Times the consumer's tail was impossible (a hostile or broken peer).
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// The memory.
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// Free slots known without touching the consumer's memory, or, if those are fewer than
    /// `wanted`, after one look at it.
    pub fn room(&mut self, wanted: u32) -> u32 {
        let known = self.known_room();
        if known >= wanted {
            known
        } else {
            self.refresh()
        }
    }

    fn known_room(&self) -> u32 {
        // Not more than one lap per turn, so that the undertaker can read all of an unfinished
        // turn.
        #[expect(clippy::cast_possible_truncation, reason = "at most slot_count in use")]
        let used = (self.head - self.tail_seen.min(self.settled)) as u32;
        self.slot_count - used
    }

    fn refresh(&mut self) -> u32 {
        // Acquire pairs with the Release store in `Consumer::commit`: the slots below it, and the
        // buffers they named, are no longer read by the consumer.
        let tail = self.memory.tail().load(Ordering::Acquire);
        // A tail behind the one last seen changes nothing: it is that of a consumer which still
        // drains this producer's predecessor.
        if tail > self.head {
            self.violations += 1;
        } else if tail > self.tail_seen {
            self.tail_seen = tail;
        }
        self.known_room()
    }

    /// Slots in use as far as is known without touching the consumer's memory; never too few.
    pub fn used_at_most(&self) -> u32 {
        self.slot_count - self.known_room()
    }

    /// Publishes as many of `descriptors`, each of one packet, as there is room for, in order, and
    /// says how many.
    pub fn push(&mut self, descriptors: impl ExactSizeIterator<Item = Descriptor>) -> u32 {
        let packets = u32::try_from(descriptors.len()).unwrap_or(u32::MAX);
        self.push_packets(packets, descriptors)
    }

    /// Publishes as many of `descriptors`, which carry `packets` in all, as there is room for, in
    /// order, and says how many packets that were. Never half a descriptor.
    #[inline]
    pub fn push_packets(
        &mut self,
        packets: u32,
        descriptors: impl Iterator<Item = Descriptor>,
    ) -> u32 {
        let mut left = self.room(packets);
        let mut index = self.head;
        let mut first = None;
        for descriptor in descriptors {
            let span = descriptor.span();
            if span > left {
                break;
            }
            left -= span;
            let word0 = descriptor.word0(sequence(index, self.log2));
            let slot = self.memory.slot(position(index, self.slot_count));
            slot.word1.store(descriptor.word1(), Ordering::Relaxed);
            if first.is_none() {
                first = Some((slot, word0));
            } else {
                // Relaxed: ordered by the Release store of the first slot below.
                slot.word0.store(word0, Ordering::Relaxed);
            }
            index += u64::from(span);
            self.passes_over |= span > 1;
        }
        if let Some((slot, word0)) = first {
            if self.passes_over {
                self.lay_ghost(index);
            }
            // Release pairs with the Acquire load in `Consumer::pull`: it publishes the burst and
            // the packet bytes that were written before.
            slot.word0.store(word0, Ordering::Release);
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most a lap")]
        let published = (index - self.head) as u32;
        self.head = index;
        published
    }

    /// Makes sure that the slot for `index`, where the consumer looks after this burst, does not
    /// hold a descriptor that was passed over for a whole number of sequence cycles. Such a slot is
    /// live for nobody, so it may be written.
    fn lay_ghost(&self, index: u64) {
        let slot = self.memory.slot(position(index, self.slot_count));
        let word0 = slot.word0.load(Ordering::Relaxed);
        if Descriptor::sequence_of(word0) == sequence(index, self.log2) {
            // Relaxed: ordered by the Release store of the burst's first slot.
            slot.word0.store(0, Ordering::Relaxed);
        }
    }

    /// Ends a turn: what was pushed so far belongs to a finished turn. To be called after the tails
    /// of all links into the same worker have been committed.
    pub fn settle(&mut self) {
        // Release pairs with the undertaker's Acquire load.
        if self.settled != self.head {
            self.settled = self.head;
            self.memory.settled().store(self.head, Ordering::Release);
        }
    }
}
