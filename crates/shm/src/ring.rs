//! The ring: one producer, one consumer, 16-byte descriptors, each side writing only its own
//! memory.
//!
//! Second and third step of a hop: [`Producer::push`] publishes a burst, [`Consumer::pull`] takes
//! what has arrived, and [`Consumer::commit`] gives the slots back when the burst has been dealt
//! with.
//!
//! | call | side | writes | makes visible |
//! |---|---|---|---|
//! | `Producer::push`   | producer | slots     | the burst, all at once |
//! | `Producer::settle` | producer | `settled` | to the undertaker: sends up to here belong to
//! finished turns |
//! | `Consumer::pull`   | consumer | `read`    | to the undertaker: slots up to here are in hand |
//! | `Consumer::commit` | consumer | `tail`    | slots up to here are free again |
//!
//! **Publishing.** A slot is valid when its sequence word carries the lap that the consumer
//! expects, so the flag lies in the descriptor's own cache line and a lone packet costs one line.
//! In a burst, the slots behind the first are written first and the first one last, with Release:
//! the consumer, which looks at that slot, sees nothing of the burst or all of it. One publish per
//! burst.
//!
//! **Bundles.** A descriptor that carries n packets takes up n indices: it lies in the slot of the
//! first, and the slots of the others are passed over by both sides. So every cursor counts
//! packets, and a link holds no more packets in bundles than it would hold singly. A slot that is
//! passed over keeps what was written there laps ago; before publishing, the producer makes sure
//! that the slot behind the burst, which is where the consumer looks next, cannot pass for a new
//! one.
//!
//! **Depth 1.** A ring of one slot is the update-flag protocol of NTT, OFC 2024: the producer may
//! write only after the consumer has committed, that is, after it has finished with the chunk.
//!
//! **Recovery.** `read`, `tail` and `settled` are what another process needs to say exactly what a
//! killed worker held (see `reclaim` in the engine): in hand is `[tail, read)`, and sent by the
//! unfinished turn is what is published from `settled` on. A worker's turn must commit its tails
//! before it settles its heads; the other order could free a buffer twice.
//!
//! **Forbidden**, and why: pulling beyond a slot whose sequence does not match (later slots may be
//! left from a dead producer); reading a slot again after the check (the peer may rewrite it);
//! trusting `tail` beyond `[last seen, head]` (a hostile peer would make the producer overwrite
//! live slots); two producers or two consumers on one ring.

mod estate;
mod inlet;

pub use estate::{estate_of_producer, packets_in, published_between, published_since};
pub use inlet::Inlet;

use crate::descriptor::Descriptor;
use crate::sync::{AtomicU64, Ordering};

/// Most slots a ring may have.
pub const SLOT_COUNT_MAX: u32 = 1 << 20;

/// One slot; four share a cache line.
#[derive(Debug)]
#[repr(C, align(16))]
pub struct Slot {
    word0: AtomicU64,
    word1: AtomicU64,
}

impl Slot {
    /// The words as they are now: for whoever inspects a ring without taking part in it.
    pub fn words(&self) -> [u64; 2] {
        let (word0, word1) = (&self.word0, &self.word1);
        [word0.load(Ordering::Acquire), word1.load(Ordering::Relaxed)]
    }

    /// A slot that no consumer takes for valid.
    pub fn empty() -> Self {
        Self {
            word0: AtomicU64::new(0),
            word1: AtomicU64::new(0),
        }
    }
}

/// Where a ring's words live: two sealed regions in production, the heap in models and tests.
pub trait RingMemory {
    /// Number of slots, a power of two.
    fn slot_count(&self) -> u32;
    /// Slot `position`, below `slot_count`. Written by the producer.
    fn slot(&self, position: u32) -> &Slot;
    /// Written by the producer at the end of a turn; read by the undertaker.
    fn settled(&self) -> &AtomicU64;
    /// Written by the consumer; pairs with [`Producer::room`].
    fn tail(&self) -> &AtomicU64;
    /// Written by the consumer before it acts on a burst; read by the undertaker.
    fn read(&self) -> &AtomicU64;
}

/// The sequence of the slot for `index` on a ring of `2^log2` slots: its lap, with the top bit set
/// so that zeroed memory is never valid.
#[expect(clippy::cast_possible_truncation, reason = "takes 15 bits of the lap")]
fn sequence(index: u64, log2: u32) -> u16 {
    0x8000 | ((index >> log2) as u16 & 0x7fff)
}

fn position(index: u64, slot_count: u32) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "masked to the slot count")]
    let position = (index & u64::from(slot_count - 1)) as u32;
    position
}

fn log2_of(slot_count: u32) -> u32 {
    assert!(
        slot_count.is_power_of_two() && slot_count <= SLOT_COUNT_MAX,
        "a ring has a power of two of slots, at most {SLOT_COUNT_MAX}"
    );
    slot_count.trailing_zeros()
}

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

/// The consumer's side.
#[derive(Debug)]
pub struct Consumer<M> {
    memory: M,
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

/// No honest cursor gets here: 2^62 packets take a century at 1 Gpps.
pub const INDEX_MAX: u64 = 1 << 62;

#[cfg(test)]
mod tests;
