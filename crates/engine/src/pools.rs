//! A worker's pools: those it owns, those it only sees, and the way home for the latter.
//!
//! First and last step of a packet's life. Ports and copying NFs get buffers by [`Pools::alloc`];
//! descriptors from links become packets by [`Pools::packet`]; whoever is done with a packet calls
//! [`Pools::free`], which puts it on the free list of a pool owned here, or on the lane that leads
//! home. Lanes are published once per turn.

use catena_shm::bell::{self, WaitWord};
use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, PoolOwner, PoolView, Violation};
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd};

use crate::drop_reason::DropReason;
use crate::link::Inlet;
use crate::packet::Packet;

/// Most pools a chain may have: a descriptor names its pool by a small number.
pub const POOL_COUNT_MAX: usize = 64;

/// The way home to one owner, for buffers that ended here.
#[derive(Debug)]
pub struct ReturnLane {
    /// Index of the owner.
    pub to: usize,
    /// The ring that leads to it. It has a slot for every buffer of the owner's pools, so it
    /// is never full while both sides follow the protocol.
    pub producer: Producer<MappedRing>,
    /// The owner's pools.
    pub pools: Vec<u8>,
    pending: Vec<Descriptor>,
    published: bool,
    suspicion: Suspicion,
}

impl ReturnLane {
    /// A lane for buffers of `pools`, all owned by the consumer of `producer`.
    pub fn new(to: usize, producer: Producer<MappedRing>, pools: Vec<u8>) -> Self {
        Self {
            to,
            producer,
            pools,
            pending: Vec::with_capacity(1024),
            published: false,
            suspicion: Suspicion::default(),
        }
    }

    /// Notes a buffer to be returned; up to three share a descriptor.
    #[inline]
    fn give_back(&mut self, pool: u8, buffer_index: u32) {
        let extended = self
            .pending
            .last_mut()
            .is_some_and(|last| last.add_return(pool, buffer_index));
        if !extended {
            self.pending
                .push(Descriptor::returning(pool, &[buffer_index]));
        }
    }

    /// Publishes what is pending. Only a peer that does not take its buffers home leaves a rest.
    fn publish(&mut self) {
        let sent = self.producer.push(self.pending.iter().copied()) as usize;
        self.published |= sent > 0;
        self.pending.drain(..sent);
    }

    /// Violations of the owner, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.producer.violations())
    }

    /// The owner has been replaced: from now on its cursor is read from `consumer`.
    pub fn replace_consumer(&mut self, consumer: RingEnd) {
        self.producer
            .replace_memory(|ring| MappedRing::new(ring.producer, consumer));
        self.suspicion.forgive(self.producer.violations());
        // What was published meanwhile looked for a sleeper in the old one's memory.
        self.published = true;
    }
}

/// Where buffers come home to this worker's pools.
#[derive(Debug)]
pub struct HomeLane {
    /// Index of the worker that returns by it.
    pub from: usize,
    /// The ring by which it returns buffers.
    pub inlet: Inlet,
    /// Links over which that peer can have come to hold them.
    pub links: LinkSet,
    /// Returns that no honest peer would send.
    pub violations: u64,
    suspicion: Suspicion,
}

impl HomeLane {
    /// A lane from worker `from`, which can have come to hold buffers over `links`.
    pub fn new(from: usize, inlet: Inlet, links: LinkSet) -> Self {
        Self {
            from,
            inlet,
            links,
            violations: 0,
            suspicion: Suspicion::default(),
        }
    }

    /// The worker that returns has been replaced by one that publishes from `start` on.
    pub fn replace_producer(&mut self, producer: RingEnd, start: u64) {
        let ring = MappedRing::new(producer, self.inlet.ring().consumer.clone());
        self.inlet.replace_producer(ring, start);
        self.follow();
    }

    fn follow(&mut self) {
        if self.inlet.has_followed() {
            self.suspicion.forgive(self.violations);
        }
    }

    /// Violations of the returning worker, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.violations)
    }
}

/// How many impossible things a neighbour has written. A few can be the last words of one that was
/// killed; more than [`VIOLATION_LIMIT`] are no accident, and are reported once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspicion {
    forgiven: u64,
    is_reported: bool,
}

/// Violations of one neighbour on one link or lane after which it is detached.
pub const VIOLATION_LIMIT: u64 = 64;

impl Suspicion {
    /// How many of `count`, the violations so far, are this neighbour's, if that is to be reported
    /// now.
    pub fn due(&mut self, count: u64) -> Option<u64> {
        let theirs = count.saturating_sub(self.forgiven);
        let due = !self.is_reported && theirs >= VIOLATION_LIMIT;
        self.is_reported |= due;
        due.then_some(theirs)
    }

    /// The neighbour was replaced: what its predecessor did, `count` violations, is not its fault.
    pub fn forgive(&mut self, count: u64) {
        *self = Self {
            forgiven: count,
            is_reported: false,
        };
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Unknown,
    Own(u8),
    Lane(u8),
}

/// A worker's pools.
#[derive(Debug)]
pub struct Pools {
    own: Vec<PoolOwner>,
    views: Vec<Option<PoolView>>,
    places: [Place; POOL_COUNT_MAX],
    lanes: Vec<ReturnLane>,
    homes: Vec<HomeLane>,
    scratch: Vec<Descriptor>,
    violations: u64,
}

impl Pools {
    /// The pools this worker owns; size classes in any order.
    pub fn new(mut own: Vec<PoolOwner>) -> Self {
        own.sort_by_key(|pool| pool.geometry().packet_len_max());
        let mut pools = Self {
            views: (0..POOL_COUNT_MAX).map(|_| None).collect(),
            places: [Place::Unknown; POOL_COUNT_MAX],
            lanes: Vec::new(),
            homes: Vec::new(),
            scratch: Vec::with_capacity(1024),
            violations: 0,
            own,
        };
        for (index, pool) in pools.own.iter().enumerate() {
            let id = usize::from(pool.id());
            pools.views[id] = Some(pool.view());
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most POOL_COUNT_MAX pools"
            )]
            let index = index as u8;
            pools.places[id] = Place::Own(index);
        }
        pools
    }

    /// Adds a pool owned here.
    pub fn add_owner(&mut self, owner: PoolOwner) {
        self.own.push(owner);
        self.own
            .sort_by_key(|pool| pool.geometry().packet_len_max());
        for (index, pool) in self.own.iter().enumerate() {
            self.views[usize::from(pool.id())] = Some(pool.view());
            #[expect(
                clippy::cast_possible_truncation,
                reason = "at most POOL_COUNT_MAX pools"
            )]
            let index = index as u8;
            self.places[usize::from(pool.id())] = Place::Own(index);
        }
    }

    /// The pools that buffers are returned to by the lane to worker `to`.
    pub fn set_lane_pools(&mut self, to: usize, pools: Vec<u8>) {
        if let Some(index) = self.lanes.iter().position(|lane| lane.to == to) {
            for pool in &pools {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "at most one lane per worker"
                )]
                let lane = index as u8;
                self.places[usize::from(*pool)] = Place::Lane(lane);
            }
            self.lanes[index].pools = pools;
        }
    }

    /// Adds the view of a pool that another worker owns.
    pub fn add_view(&mut self, view: PoolView) {
        let id = usize::from(view.id());
        if id < POOL_COUNT_MAX {
            self.views[id] = Some(view);
        }
    }

    /// Adds the way home to another worker's pools, or replaces it when that worker is new.
    pub fn add_return_lane(&mut self, lane: ReturnLane) {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "at most one lane per worker"
        )]
        let index = self.lanes.len() as u8;
        for pool in &lane.pools {
            self.places[usize::from(*pool)] = Place::Lane(index);
        }
        self.lanes.push(lane);
    }

    /// Adds a ring by which a peer returns buffers of pools owned here.
    pub fn add_home_lane(&mut self, lane: HomeLane) {
        self.homes.push(lane);
    }

    /// Lanes by which this worker returns buffers.
    pub fn return_lanes_mut(&mut self) -> &mut Vec<ReturnLane> {
        &mut self.lanes
    }

    /// Lanes by which buffers come home.
    pub fn home_lanes_mut(&mut self) -> &mut Vec<HomeLane> {
        &mut self.homes
    }

    /// Pools owned here, smallest buffers first.
    pub fn own(&self) -> &[PoolOwner] {
        &self.own
    }

    /// Pools owned here, smallest buffers first.
    pub fn own_mut(&mut self) -> &mut [PoolOwner] {
        &mut self.own
    }

    /// Descriptors and returns refused because no honest peer would send them.
    pub fn violations(&self) -> u64 {
        self.violations
    }

    /// Largest packet that can be allocated here.
    pub fn packet_len_max(&self) -> usize {
        self.own
            .last()
            .map_or(0, |pool| pool.geometry().packet_len_max())
    }

    /// A packet of `len` undefined bytes, from the smallest buffers that hold it, or the next size
    /// if those are all in use.
    ///
    /// # Errors
    /// [`DropReason::TooLarge`] or [`DropReason::NoBuffer`]; nothing is counted here.
    #[inline]
    pub fn alloc(&mut self, len: usize) -> Result<Packet, DropReason> {
        let fits = |pool: &PoolOwner| len <= pool.geometry().packet_len_max();
        let Some(first) = self.own.iter().position(fits) else {
            return Err(DropReason::TooLarge);
        };
        if let Some(packet) = self.own[first].alloc(len) {
            return Ok(packet);
        }
        let next = self.own.get_mut(first + 1);
        next.and_then(|pool| pool.alloc(len))
            .ok_or(DropReason::NoBuffer)
    }

    /// Whether [`Pools::alloc`] would succeed.
    #[inline]
    pub fn has_buffer(&self, len: usize) -> bool {
        let mut fitting = self
            .own
            .iter()
            .filter(|pool| len <= pool.geometry().packet_len_max());
        fitting.by_ref().take(2).any(|pool| pool.free_count() > 0)
    }

    /// A packet with the same bytes and tag.
    ///
    /// # Errors
    /// As [`Pools::alloc`].
    pub fn copy_of(&mut self, packet: &Packet) -> Result<Packet, DropReason> {
        let mut copy = self.alloc(packet.len())?;
        copy.bytes_mut().copy_from_slice(packet.bytes());
        copy.set_tag(packet.tag());
        Ok(copy)
    }

    /// The packet that a descriptor from link number `link` names.
    ///
    /// # Errors
    /// [`Violation`], counted, if no honest peer would have sent it. The packet's buffer, if there
    /// is one, is not touched.
    #[inline(always)]
    pub fn packet(&mut self, descriptor: &Descriptor) -> Result<Packet, Violation> {
        let packet = self.checked_packet(descriptor);
        self.violations += u64::from(packet.is_err());
        packet
    }

    #[inline(always)]
    fn checked_packet(&mut self, descriptor: &Descriptor) -> Result<Packet, Violation> {
        let id = usize::from(descriptor.pool);
        let view = self
            .views
            .get(id)
            .and_then(Option::as_ref)
            .ok_or(Violation)?;
        let packet = view.packet(descriptor)?;
        if let Place::Own(index) = self.places[id] {
            // A buffer of our own that went round: it must be out, or the peer made it up.
            self.own[usize::from(index)].arrive(packet.buffer_index(), &LinkSet::ALL)?;
        }
        Ok(packet)
    }

    /// Notes that `packet` leaves by link number `link`. To be called after it was published, in
    /// the same turn.
    #[inline]
    pub fn send_out(&mut self, pool: u8, buffer_index: u32, link: u8) {
        if let Place::Own(index) = self.places[usize::from(pool)] {
            self.own[usize::from(index)].send_out(buffer_index, link);
        }
    }

    /// Whether packets of `pool` are owned here.
    #[inline]
    pub fn owns(&self, pool: u8) -> bool {
        matches!(self.places[usize::from(pool)], Place::Own(_))
    }

    /// Ends a packet's life here: its buffer goes home.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        match self.places[usize::from(packet.pool())] {
            Place::Own(index) => self.own[usize::from(index)].free(packet),
            Place::Lane(lane) => {
                self.lanes[usize::from(lane)].give_back(packet.pool(), packet.buffer_index());
            }
            Place::Unknown => debug_assert!(false, "a packet of no known pool"),
        }
    }

    /// Publishes what [`Pools::free`] put on the lanes. Once per turn, before tails are committed.
    pub fn publish_returns(&mut self) {
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

    /// Takes home buffers that the dead worker `from` held, on the supervisor's word. One that is
    /// not out by a link which leads to that worker is none of it: a hostile worker's memory lied.
    pub fn reclaim(&mut self, from: usize, pool: u8, buffers: &[u32]) {
        let home = self.homes.iter().find(|home| home.from == from);
        let (Some(home), Some(Place::Own(index))) = (home, self.places.get(usize::from(pool)))
        else {
            return;
        };
        for buffer in buffers {
            let taken = self.own[usize::from(*index)].take_home(*buffer, &home.links);
            self.violations += u64::from(taken.is_err());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_violations_are_forgiven_and_many_are_reported_once() {
        let mut suspicion = Suspicion::default();
        assert_eq!(suspicion.due(VIOLATION_LIMIT - 1), None);
        assert_eq!(suspicion.due(VIOLATION_LIMIT), Some(VIOLATION_LIMIT));
        assert_eq!(suspicion.due(9 * VIOLATION_LIMIT), None);
        suspicion.forgive(9 * VIOLATION_LIMIT);
        assert_eq!(suspicion.due(9 * VIOLATION_LIMIT + 1), None);
        assert_eq!(suspicion.due(10 * VIOLATION_LIMIT), Some(VIOLATION_LIMIT));
    }
    use catena_shm::pool::PoolGeometry;
    use catena_shm::region::Sharing;
    use catena_shm::ring_memory::{RingGeometry, Side};

    fn owner(id: u8, log2_stride: u8, buffer_count: u32) -> PoolOwner {
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom: 64,
            frames: false,
        };
        PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
    }

    #[test]
    fn the_smallest_fitting_size_is_used_then_the_next() {
        let mut pools = Pools::new(vec![owner(2, 11, 4), owner(1, 7, 2), owner(3, 18, 1)]);
        let small: Vec<_> = (0..3).map(|_| pools.alloc(60).unwrap()).collect();
        assert_eq!(
            small.iter().map(Packet::pool).collect::<Vec<_>>(),
            [1, 1, 2]
        );
        assert_eq!(pools.alloc(131_072).unwrap().pool(), 3);
        assert_eq!(pools.alloc(131_072).unwrap_err(), DropReason::NoBuffer);
        assert_eq!(pools.alloc(1 << 18).unwrap_err(), DropReason::TooLarge);
    }

    #[test]
    fn buffers_freed_elsewhere_come_home() {
        let mut ours = Pools::new(vec![owner(1, 7, 8)]);
        let mut theirs = Pools::new(vec![]);
        theirs.add_view(ours.own()[0].view());
        let geometry = RingGeometry {
            slot_count: 16,
            staging_bytes: 0,
        };
        let ring = MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        );
        theirs.add_return_lane(ReturnLane::new(0, Producer::new(ring.clone(), 0), vec![1]));
        let mut links = LinkSet::default();
        links.insert(4);
        ours.add_home_lane(HomeLane::new(1, Inlet::new(ring, 0), links));
        for _ in 0..20 {
            let packets: Vec<_> = (0..8).map(|_| ours.alloc(64).unwrap()).collect();
            for packet in packets {
                let descriptor = packet.descriptor();
                ours.send_out(1, packet.buffer_index(), 4);
                let theirs_now = theirs.packet(&descriptor).unwrap();
                theirs.free(theirs_now);
            }
            assert!(ours.alloc(64).is_err());
            theirs.publish_returns();
            theirs.settle_return_lanes();
            assert_eq!(ours.take_returns(), 8);
            ours.commit_home_lanes();
            assert_eq!(
                (ours.own()[0].free_count(), ours.own()[0].out_count()),
                (8, 0)
            );
        }
        assert_eq!(ours.violations(), 0);
    }
}
