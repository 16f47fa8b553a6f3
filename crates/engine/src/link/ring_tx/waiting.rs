//! How the sender on a ring waits for room, and wakes who waits for packets.
//!
//! At the end of a turn and around sleep, never for a packet.

use catena_shm::bell::{self, WaitWord};
use catena_shm::sync::Ordering;

use super::TxLink;
use crate::chain::Overflow;

impl TxLink {
    /// Whether the chain's entry should take nothing in: on a link that blocks, more than three
    /// quarters are taken (until it is less than one quarter) of the slots or of the staging area,
    /// or a link further on says so. Links that drop do not press back: their sender chose loss
    /// over waiting.
    pub fn is_congested(&mut self) -> bool {
        if self.overflow != Overflow::Block || self.peer_down {
            return false;
        }
        let quarters = if self.congested { 1 } else { 3 };
        if self.is_fuller_than(quarters) {
            self.producer.room(u32::MAX);
        }
        self.congested = self.producer.slot_count() >= 4 && self.is_fuller_than(quarters);
        let peer = self
            .producer
            .memory()
            .consumer
            .congested()
            .load(Ordering::Relaxed)
            != 0;
        // Asks to be woken when this changes, should the worker go to sleep meanwhile.
        self.blocked |= self.congested || peer;
        self.congested || peer
    }

    /// Whether more than so many quarters of the slots, or of the staging area, may be taken.
    fn is_fuller_than(&mut self, quarters: u32) -> bool {
        let slots = self.producer.used_at_most() > self.producer.slot_count() / 4 * quarters;
        let tail = self.producer.tail_seen();
        let bytes = self.staging.as_mut().is_some_and(|staging| {
            staging.release(tail);
            staging.is_fuller_than(quarters)
        });
        slots || bytes
    }

    /// Whether something was published since the receiver was last looked after.
    pub fn has_news(&self) -> bool {
        self.published
    }

    /// Wakes the receiver if it sleeps and there is something for it. After [`bell::full_fence`].
    pub fn wake_peer(&mut self) {
        if std::mem::take(&mut self.published) {
            let ring = self.producer.memory();
            if ring.consumer.bell().is_waiting() {
                self.counters.wakes += 1;
                ring.producer.bell().ring();
                bell::wake(ring.producer.bell().rung);
            }
        }
    }

    /// Before sleeping: asks the receiver to ring when it has made room, if this side needs room.
    pub fn prepare_to_sleep(&mut self, words: &mut Vec<WaitWord>) {
        if self.was_blocked {
            self.is_armed = true;
            let ring = self.producer.memory();
            ring.producer.bell().set_waiting(true);
            let peer = ring.consumer.bell();
            words.push(WaitWord::new(peer.rung, peer.rung()));
        }
    }

    /// Whether the last turn needed room, and the receiver was not asked to ring before it.
    pub fn lacks_bell(&self) -> bool {
        self.was_blocked && !self.is_armed
    }

    /// After sleeping.
    pub fn after_sleep(&mut self) {
        if std::mem::take(&mut self.is_armed) {
            self.producer.memory().producer.bell().set_waiting(false);
        }
    }
}
