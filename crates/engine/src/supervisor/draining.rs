//! Draining: nothing more is taken in, and what is inside goes on until nothing is left.
//!
//! A worker says once that its NFs hold nothing. One that has said so may be sent more by a
//! neighbour that still held something, so its word alone is no proof. They are asked in rounds:
//! the chain is empty when all have said so in a round in which no packet passed any link.

use std::collections::BTreeMap;

use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::instance::Instance;
use crate::supervisor::memory::rings;
use crate::supervisor::rounds::Draining;

impl Supervisor {
    /// Takes nothing more in; packets inside go on.
    pub fn drain(&mut self) {
        if !self.is_draining() {
            self.ask_whether_drained();
        }
    }

    /// Whether nothing more is taken in.
    pub fn is_draining(&self) -> bool {
        self.drain_round != 0
    }

    /// Whether a worker has said, in the round that is under way, that it takes nothing in and
    /// holds nothing. What was asked in an earlier one says nothing of what has passed since.
    pub(super) fn is_drained(&self, instance: &Instance) -> bool {
        self.is_draining() && instance.drained == self.drain_round
    }

    /// Asks once more where all have said that they hold nothing, and something has passed since
    /// they were asked.
    pub(super) fn ask_again(&mut self) {
        if !self.is_draining() || !self.stores_packets() || !self.is_still() {
            return;
        }
        if let Draining::Done = self.draining {
            return;
        }
        let passed = self.passed();
        if matches!(&self.draining, Draining::Round(Some(before)) if *before == passed) {
            self.draining = Draining::Done;
            return;
        }
        self.draining = Draining::Round(Some(passed));
        self.ask_whether_drained();
    }

    /// A round begins: what was said in earlier ones counts no more.
    fn ask_whether_drained(&mut self) {
        self.next_request += 1;
        self.drain_round = self.next_request;
        let round = self.drain_round;
        for worker in 0..self.instances.len() {
            self.tell(worker, &ToWorker::Drain { round });
        }
    }

    /// Whether it is certain that no NF holds a packet.
    pub(super) fn holds_nothing(&self) -> bool {
        !self.is_draining() || !self.stores_packets() || matches!(self.draining, Draining::Done)
    }

    /// Packets that were taken from each link so far.
    fn passed(&self) -> BTreeMap<usize, u64> {
        let all = rings(&self.placement).into_iter();
        let links = all.filter_map(|ring| {
            let mapped = self.memory.ring(&ring, None)?;
            Some((ring.link?, mapped.tail().load(Ordering::Acquire)))
        });
        let over_tcp = self.placement.rings.iter();
        let over_tcp = over_tcp.filter(|ring| ring.tcp.is_some());
        let over_tcp = over_tcp.map(|ring| (ring.link, self.counted(ring).1.packets));
        links.chain(over_tcp).collect()
    }
}
