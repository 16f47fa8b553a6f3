//! What each subscriber has: its blocks of ports, and how many sessions.
//!
//! Asked by `translator` when a session begins or ends. Found anew from the sessions after a kill,
//! so it lies in memory of the process. Limit: [`BLOCK_COUNT_MAX`] blocks of one.

use super::config::BLOCK_COUNT_MAX;
use crate::hash::random_seed;
use crate::{Flow, FlowTable, HeapMemory, Inserted, Shape, Timeouts};

/// Words of an entry: counts, then blocks, two in each.
const STATE_WORDS: u32 = 1 + BLOCK_COUNT_MAX as u32 / 2;

/// Blocks of a subscriber, in the order in which it got them.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Blocks {
    numbers: [u32; BLOCK_COUNT_MAX],
    count: usize,
}

impl Blocks {
    pub(super) fn all(&self) -> &[u32] {
        &self.numbers[..self.count]
    }
}

/// All that have a session.
#[derive(Debug)]
pub(super) struct Subscribers(FlowTable<HeapMemory>);

impl Subscribers {
    pub(super) fn new(capacity: u32) -> Option<Self> {
        let shape = Shape::new(1, STATE_WORDS, capacity);
        let table = FlowTable::on_heap(&shape, random_seed(), 0);
        table.ok().map(Self)
    }

    pub(super) fn len(&self) -> u32 {
        self.0.len()
    }

    pub(super) fn find(&self, address: u32) -> Option<Flow> {
        self.0.find(&[address.into()])
    }

    /// The one with this address, new if it was not there; none if there are too many.
    pub(super) fn make(&mut self, address: u32) -> Option<Flow> {
        match self.0.insert(&[address.into()], Timeouts::NONE, 0) {
            Ok(Inserted::New(flow) | Inserted::Present(flow)) => Some(flow),
            Err(_) => None,
        }
    }

    pub(super) fn remove(&mut self, flow: Flow) {
        self.0.remove(flow);
    }

    pub(super) fn sessions(&self, flow: Flow) -> u32 {
        self.0.state(flow, 0) as u32
    }

    pub(super) fn set_sessions(&mut self, flow: Flow, count: u32) {
        let word = self.0.state(flow, 0) >> 32 << 32 | u64::from(count);
        self.0.set_state(flow, 0, word);
    }

    pub(super) fn blocks(&self, flow: Flow) -> Blocks {
        let count = (self.0.state(flow, 0) >> 32) as usize;
        let number = |at: usize| (self.0.state(flow, 1 + at / 2) >> (at % 2 * 32)) as u32;
        Blocks {
            numbers: std::array::from_fn(number),
            count: count.min(BLOCK_COUNT_MAX),
        }
    }

    fn set_blocks(&mut self, flow: Flow, blocks: &Blocks) {
        for (at, pair) in blocks.numbers.chunks_exact(2).enumerate() {
            let word = u64::from(pair[1]) << 32 | u64::from(pair[0]);
            self.0.set_state(flow, 1 + at, word);
        }
        let word = (blocks.count as u64) << 32 | u64::from(self.sessions(flow));
        self.0.set_state(flow, 0, word);
    }

    /// Whether there was room for one more.
    pub(super) fn add_block(&mut self, flow: Flow, block: u32) -> bool {
        let mut blocks = self.blocks(flow);
        let Some(place) = blocks.numbers.get_mut(blocks.count) else {
            return false;
        };
        *place = block;
        blocks.count += 1;
        self.set_blocks(flow, &blocks);
        true
    }

    pub(super) fn remove_block(&mut self, flow: Flow, block: u32) {
        let mut blocks = self.blocks(flow);
        if let Some(at) = blocks.all().iter().position(|one| *one == block) {
            blocks.numbers[at..].rotate_left(1);
            blocks.count -= 1;
            self.set_blocks(flow, &blocks);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_stay_in_order_when_one_goes() {
        let mut all = Subscribers::new(2).unwrap();
        let one = all.make(7).unwrap();
        assert_eq!(all.make(7), Some(one));
        for block in 10..18 {
            assert!(all.add_block(one, block));
        }
        assert!(!all.add_block(one, 18));
        all.set_sessions(one, 5);
        all.remove_block(one, 12);
        all.remove_block(one, 99);
        assert_eq!(all.blocks(one).all(), [10, 11, 13, 14, 15, 16, 17]);
        assert_eq!(all.sessions(one), 5);
        all.make(8).unwrap();
        assert_eq!(all.make(9), None);
        all.remove(one);
        let new = all.make(9).unwrap();
        assert_eq!((all.blocks(new).all().len(), all.sessions(new)), (0, 0));
    }
}
