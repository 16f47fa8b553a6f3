//! A consumer whose producer may be replaced while it runs.
//!
//! What the old producer published is taken first, up to the index from which on the new one
//! publishes; then the new one's memory is used. Each producer has memory of its own, so the two
//! never write the same slot, and half a burst behind the old one's last slot is never looked at.

use std::collections::VecDeque;

use super::consumer::Consumer;
use super::slot::RingMemory;
use crate::descriptor::Descriptor;

/// The consumer's side, with the producers that will take over.
#[derive(Debug)]
pub struct Inlet<M> {
    consumer: Consumer<M>,
    /// The ring with each producer that takes over, and the index from which on that publishes.
    successors: VecDeque<(M, u64)>,
    followed: bool,
}

impl<M: RingMemory> Inlet<M> {
    /// Takes from `ring`, starting at free-running index `start`.
    pub fn new(ring: M, start: u64) -> Self {
        Self {
            consumer: Consumer::new(ring, start),
            successors: VecDeque::new(),
            followed: false,
        }
    }

    /// The producer has been replaced by one that publishes from `start` on; `ring` joins it with
    /// this consumer.
    pub fn replace_producer(&mut self, ring: M, start: u64) {
        self.successors.push_back((ring, start));
        self.follow_successors();
    }

    fn follow_successors(&mut self) {
        while let Some((_, start)) = self.successors.front()
            && self.consumer.tail_index() >= *start
            && let Some((ring, _)) = self.successors.pop_front()
        {
            self.consumer.memory = ring;
            self.followed = true;
        }
    }

    /// Whether another producer's memory is in use since this was last asked.
    pub fn has_followed(&mut self) -> bool {
        std::mem::take(&mut self.followed)
    }

    /// How many descriptors may be taken before the first successor's begin. Slots behind the old
    /// producer's last one may hold half a burst.
    fn until_successor(&self) -> usize {
        self.successors.front().map_or(usize::MAX, |(_, start)| {
            usize::try_from(start.saturating_sub(self.consumer.read_index())).unwrap_or(usize::MAX)
        })
    }

    /// Takes up to `max` descriptors; they stay in hand until [`Inlet::commit`].
    pub fn pull(&mut self, max: usize, into: &mut Vec<Descriptor>) -> usize {
        let max = max.min(self.until_successor());
        self.consumer.pull(max, into)
    }

    /// Copies up to `max` descriptors into `into` and leaves them in the ring; says how many.
    pub fn peek_burst(&self, max: usize, into: &mut Vec<Descriptor>) -> usize {
        self.consumer
            .peek_burst(max.min(self.until_successor()), into)
    }

    /// Shows up to `max` descriptors to `each`: see [`Consumer::peek_each`].
    #[inline]
    pub fn peek_each(&self, max: usize, each: impl FnMut(&Descriptor) -> bool) -> usize {
        self.consumer
            .peek_each(max.min(self.until_successor()), each)
    }

    /// Takes `count` of the descriptors that [`Inlet::peek_burst`] has just given.
    pub fn take(&mut self, count: usize) {
        self.consumer.take(count);
    }

    /// The next descriptor, which stays in the ring.
    pub fn peek_next(&self) -> Option<Descriptor> {
        if self.until_successor() == 0 {
            return None;
        }
        self.consumer.peek_next()
    }

    /// Gives back the slots of everything pulled; says whether there was anything.
    pub fn commit(&mut self) -> bool {
        let committed = self.consumer.commit();
        if !self.successors.is_empty() {
            self.follow_successors();
        }
        committed
    }

    /// Whether a descriptor waits.
    pub fn has_next(&self) -> bool {
        self.peek_next().is_some()
    }

    /// The ring's memory.
    pub fn ring(&self) -> &M {
        self.consumer.memory()
    }

    /// The consumer.
    pub fn consumer(&self) -> &Consumer<M> {
        &self.consumer
    }
}
