//! Buffers on their way home: lanes published, taken from and waited for, turn by turn.
//!
//! Behind [`Pools::release`], which notes on a lane what is not owned here.

use catena_shm::bell::{self, WaitWord};

use super::{Place, Pools};

impl Pools {
    /// Publishes what [`Pools::free`] put on the lanes. Once per turn, before tails are committed,
    /// when all packets of pools that are not owned here have been given on.
    pub fn publish_returns(&mut self) {
        self.snapshots.forget();
        for lane in &mut self.lanes {
            if !lane.pending.is_empty() {
                lane.publish();
            }
        }
    }

    /// Whether buffers wait to be published on a lane (its ring was full).
    pub fn has_pending_returns(&self) -> bool {
        self.lanes.iter().any(|lane| !lane.pending.is_empty())
    }

    /// Whether buffers were returned since owners were last looked after.
    pub fn has_news(&self) -> bool {
        self.lanes.iter().any(|lane| lane.published)
    }

    /// Wakes owners that wait for buffers. After `full_fence`.
    pub fn wake_owners(&mut self) {
        for lane in &mut self.lanes {
            if std::mem::take(&mut lane.published) {
                let ring = lane.producer.memory();
                if ring.consumer.bell().is_waiting() {
                    ring.producer.bell().ring();
                    bell::wake(ring.producer.bell().rung);
                }
            }
        }
    }

    /// Whether some pool owned here has no free buffer.
    pub fn is_starved(&self) -> bool {
        self.own.iter().any(|pool| pool.free_count() == 0)
    }

    /// Before sleeping: asks those who return buffers to ring, if buffers are wanted.
    pub fn prepare_to_sleep(&self, words: &mut Vec<WaitWord>) {
        if self.is_starved() {
            for home in &self.homes {
                let ring = home.inlet.ring();
                ring.consumer.bell().set_waiting(true);
                let peer = ring.producer.bell();
                words.push(WaitWord::new(peer.rung, peer.rung()));
            }
        }
    }

    /// After sleeping.
    pub fn after_sleep(&self) {
        for home in &self.homes {
            home.inlet.ring().consumer.bell().set_waiting(false);
        }
    }

    /// Takes home what peers have returned. First thing in a turn. Gives the number of buffers.
    pub fn take_returns(&mut self) -> usize {
        let Self {
            homes,
            own,
            places,
            scratch,
            violations,
            ..
        } = self;
        let mut count = 0;
        for home in homes {
            scratch.clear();
            home.inlet.pull(256, scratch);
            for descriptor in scratch.iter() {
                let place = places.get(usize::from(descriptor.pool));
                if let (Some(Place::Own(index)), Some((group, mask))) =
                    (place, descriptor.returned_slots())
                {
                    let own = &mut own[usize::from(*index)];
                    let taken = own.take_home_slots(group, mask, &home.links);
                    *violations += u64::from(taken.is_err());
                    home.violations += u64::from(taken.is_err());
                    count += mask.count_ones() as usize;
                    continue;
                }
                let (Some(Place::Own(index)), Some(indices)) = (place, descriptor.returned())
                else {
                    *violations += 1;
                    home.violations += 1;
                    continue;
                };
                for buffer_index in indices {
                    let taken = own[usize::from(*index)].take_home(buffer_index, &home.links);
                    *violations += u64::from(taken.is_err());
                    home.violations += u64::from(taken.is_err());
                    count += 1;
                }
            }
        }
        count
    }

    /// Commits the home lanes and settles the return lanes: part of the end of a turn.
    pub fn commit_home_lanes(&mut self) {
        for home in &mut self.homes {
            home.inlet.commit();
            home.follow();
        }
    }

    /// Settles the return lanes: the very end of a turn.
    pub fn settle_return_lanes(&mut self) {
        for lane in &mut self.lanes {
            lane.producer.settle();
        }
    }
}
