//! What waits in a ring: counted, given up where the link is `drop_head`, and waited for.
//!
//! At the ends of a turn and around sleep, never for a packet that is pulled.

use catena_shm::bell::{self, WaitWord};
use catena_shm::sync::Ordering;

use super::RxLink;
use crate::chain::{Overflow, Trust};
use crate::pools::Pools;

impl RxLink {
    /// Counts what waits, before anything is pulled in this turn, for so many random moments since
    /// the turn before; `slept` if the worker has slept meanwhile, which it does over empty links.
    /// Known from cursors: no slot is looked at, and what the sender's unfinished turn has
    /// published is not seen yet.
    pub fn count_waiting(&mut self, moments: u64, slept: bool) {
        let waiting = self.waiting();
        let halves = if slept {
            0
        } else {
            // What was left behind has waited all the time; as many have come as were taken.
            2 * waiting - self.left_behind.map_or(waiting, |taken| taken.min(waiting))
        };
        self.occupancy.halves += halves * moments;
        self.occupancy.samples += moments;
        self.left_behind = None;
    }

    /// Packets that wait, by what the sender says of its finished turns: at most a lap.
    fn waiting(&self) -> u64 {
        let consumer = self.inlet.consumer();
        let slots = u64::from(consumer.slot_count());
        let read = consumer.read_index();
        consumer.published().saturating_sub(read).min(slots)
    }

    /// Makes room for what is new, if the link is `drop_head`; to be called in every turn, also
    /// when nothing can be pulled.
    #[inline]
    pub fn shed(&mut self, pools: &mut Pools) {
        if self.overflow == Overflow::DropHead {
            self.discard_stale(pools);
        }
    }

    /// `drop_head`: when the sender is three quarters of a ring ahead, the oldest half is
    /// discarded.
    fn discard_stale(&mut self, pools: &mut Pools) {
        let consumer = self.inlet.consumer();
        let slots = u64::from(consumer.slot_count());
        let read = consumer.read_index();
        let waiting = self.waiting();
        if waiting * 4 < slots * 3 || consumer.tail_index() != read {
            return;
        }
        let discard = saturating_usize(slots / 2);
        self.descriptors.clear();
        let count = self.inlet.pull(discard, &mut self.descriptors);
        self.counters.packets += count as u64;
        self.counters.discarded += count as u64;
        self.dropped[0].1 += count as u64;
        if self.trust != Trust::Copy {
            self.counters.violations += pools.discard(&self.descriptors);
        }
        self.descriptors.clear();
    }

    /// Tells the sender whether a link further on is congested. Part of the end of a turn, before
    /// [`RxLink::wake_peer`].
    pub fn set_congested(&mut self, congested: bool) {
        let word = self.inlet.ring().consumer.congested();
        if (word.load(Ordering::Relaxed) != 0) != congested {
            word.store(u32::from(congested), Ordering::Relaxed);
            self.committed = true;
        }
    }

    /// Whether the sender may be waiting for what was committed since it was last looked after.
    pub fn has_news(&self) -> bool {
        self.committed
    }

    /// Wakes the sender if it waits for room. After [`bell::full_fence`].
    pub fn wake_peer(&mut self) {
        if std::mem::take(&mut self.committed) {
            let ring = self.inlet.ring();
            if ring.producer.bell().is_waiting() {
                ring.consumer.bell().ring();
                bell::wake(ring.consumer.bell().rung);
            }
        }
    }

    /// Whether the sender sleeps until there is room.
    #[cfg(test)]
    pub fn is_sender_waiting(&self) -> bool {
        self.inlet.ring().producer.bell().is_waiting()
    }

    /// Before sleeping: asks the sender to ring.
    pub fn prepare_to_sleep(&self, words: &mut Vec<WaitWord>) {
        let ring = self.inlet.ring();
        ring.consumer.bell().set_waiting(true);
        let peer = ring.producer.bell();
        words.push(WaitWord::new(peer.rung, peer.rung()));
    }

    /// After sleeping.
    pub fn after_sleep(&self) {
        self.inlet.ring().consumer.bell().set_waiting(false);
    }
}

fn saturating_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
