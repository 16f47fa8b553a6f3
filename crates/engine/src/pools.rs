//! A worker's pools: those it owns, those it only sees, and the way home for the latter.
//!
//! First and last step of a packet's life. Ports and copying NFs get buffers by [`Pools::alloc`];
//! descriptors from links become packets by [`Pools::look_at`]; whoever is done with a packet calls
//! [`Pools::free`], which puts it on the free list of a pool owned here, or on the lane that leads
//! home. Lanes are published once per turn.

mod audit;
mod bundles;
mod lanes;
mod returns;
mod sought;

pub use lanes::{HomeLane, ReturnLane, Suspicion, VIOLATION_LIMIT};
use sought::Search;

use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{LinkSet, PoolOwner, PoolView, SOUGHT, UnitRun};
use catena_shm::snapshots::{Refused, Snapshots};

use crate::drop_reason::DropReason;
use crate::packet::Packet;

/// Most pools a chain may have: a descriptor names its pool by a small number.
#[doc(inline)]
pub use catena_shm::descriptor::POOL_COUNT_MAX;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Unknown,
    Own(u8),
    Lane(u16),
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
    /// Copies of packets of pools that this worker may only read, of this turn.
    snapshots: Snapshots,
    violations: u64,
    search: Search,
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
            snapshots: Snapshots::default(),
            violations: 0,
            search: Search::default(),
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
    pub fn set_lane_pools(&mut self, to: usize, pools: Vec<u16>) {
        if let Some(index) = self.lanes.iter().rposition(|lane| lane.to == to) {
            for pool in &pools {
                #[expect(
                    clippy::cast_possible_truncation,
                    reason = "at most one lane per worker"
                )]
                let lane = index as u16;
                self.places[usize::from(*pool)] = Place::Lane(lane);
            }
            self.lanes[index].pools = pools;
        }
    }

    /// Adds the view of a pool that another worker owns.
    pub fn add_view(&mut self, view: PoolView) {
        let id = usize::from(view.id());
        if !view.is_writable() {
            self.snapshots.make_room_for(view.buffer_bytes());
        }
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
        let index = self.lanes.len() as u16;
        for pool in &lane.pools {
            self.places[usize::from(*pool)] = Place::Lane(index);
        }
        self.lanes.push(lane);
    }

    /// Adds a ring by which a peer returns buffers of pools owned here.
    pub fn add_home_lane(&mut self, lane: HomeLane) {
        self.homes.push(lane);
    }

    /// The lane by which buffers return to worker `to`: the last that came, if one went before, by
    /// which nothing returns any more.
    pub fn return_lane_mut(&mut self, to: usize) -> Option<&mut ReturnLane> {
        self.lanes.iter_mut().rfind(|lane| lane.to == to)
    }

    /// The lane by which worker `from` returns buffers: the last that came, if one went before, on
    /// which some may still lie.
    pub fn home_lane_mut(&mut self, from: usize) -> Option<&mut HomeLane> {
        self.homes.iter_mut().rfind(|lane| lane.from == from)
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
        let refused = self.lanes.iter().map(|lane| lane.refused);
        self.violations + refused.sum::<u64>()
    }

    /// Counts descriptors that were refused.
    pub(crate) fn count_violations(&mut self, count: u64) {
        self.violations += count;
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
        self.alloc_like(len, 0)
    }

    /// As [`Pools::alloc`], from buffers of 2^`log2` bytes or more, so that the packet can grow as
    /// it could in a buffer of that size; if none are so large here, from the largest.
    ///
    /// # Errors
    /// As [`Pools::alloc`].
    #[inline]
    pub fn alloc_like(&mut self, len: usize, log2: u8) -> Result<Packet, DropReason> {
        let largest = self
            .own
            .last()
            .map_or(0, |pool| pool.geometry().log2_stride);
        let log2 = log2.min(largest);
        let fits = |pool: &PoolOwner| {
            let geometry = pool.geometry();
            len <= geometry.packet_len_max() && geometry.log2_stride >= log2
        };
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

    /// Up to `count` packets of `len` undefined bytes, given to `fill` one after the other, from
    /// the smallest buffers that hold them, then from the next size. Gives how many there were.
    #[inline]
    pub fn alloc_each(&mut self, count: usize, len: usize, mut fill: impl FnMut(Packet)) -> usize {
        let fits = |pool: &PoolOwner| len <= pool.geometry().packet_len_max();
        let first = self.own.iter().position(fits).unwrap_or(self.own.len());
        let mut left = count;
        for pool in self.own.iter_mut().skip(first).take(2) {
            left -= pool.alloc_each(left, len, &mut fill);
        }
        count - left
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

    /// A packet with the same bytes, tag and [`Packet::offload`]. Probes follow the original only.
    ///
    /// # Errors
    /// As [`Pools::alloc`].
    pub fn copy_of(&mut self, packet: &Packet) -> Result<Packet, DropReason> {
        let copy = self.alloc(packet.len())?;
        Ok(filled(copy, packet))
    }

    /// As [`Pools::copy_of`], in a buffer in which it can grow as the original can.
    ///
    /// # Errors
    /// As [`Pools::alloc`].
    pub fn copy_like(&mut self, packet: &Packet) -> Result<Packet, DropReason> {
        let copy = self.alloc_like(packet.len(), packet.buffer_log2())?;
        Ok(filled(copy, packet))
    }

    /// The packet that a descriptor from a link names, without a word of it in any account:
    /// [`Pools::has_seen_all`] is to follow, and once the descriptor has been taken
    /// [`Pools::arrived`]. Says whether the pool is owned here. The packet of a pool that may only
    /// be read here lies in a copy, until the turn ends.
    ///
    /// # Errors
    /// [`Refused`] if no honest peer would have sent it, or no more copies can be made in this
    /// turn. The packet's buffer, if there is one, is not touched.
    #[inline(always)]
    pub fn look_at(&mut self, descriptor: &Descriptor) -> Result<(Packet, bool), Refused> {
        let id = usize::from(descriptor.pool);
        let view = self.views.get(id).and_then(Option::as_ref);
        let view = view.ok_or(Refused::Violation)?;
        let packet = if view.is_writable() {
            view.packet(descriptor)?
        } else {
            view.copied(descriptor, &mut self.snapshots)?
        };
        Ok((packet, matches!(self.places[id], Place::Own(_))))
    }

    /// After the last descriptor of a burst: what lies in copies is there now.
    #[inline]
    pub fn has_seen_all(&mut self) {
        self.snapshots.fill();
    }

    /// Notes that packets made by [`Pools::look_at`], those from `first` on, are in hand, and takes
    /// out those of own pools that cannot have come: gives their number.
    pub fn arrived(&mut self, packets: &mut Vec<Packet>, first: usize) -> u64 {
        let (own, places) = (&mut self.own, &self.places);
        let (mut index, mut bad) = (0, 0);
        packets.retain(|packet| {
            index += 1;
            let Place::Own(place) = places[usize::from(packet.pool())] else {
                return true;
            };
            if index <= first {
                return true;
            }
            let own = &mut own[usize::from(place)];
            let arrived = if packet.is_bundled() {
                own.arrive_slots(packet.buffer_index(), 1 << packet.slot(), &LinkSet::ALL)
            } else {
                own.arrive(packet.buffer_index(), &LinkSet::ALL)
            };
            bad += u64::from(arrived.is_err());
            arrived.is_ok()
        });
        self.violations += bad;
        bad
    }

    /// As [`Pools::send_out`], for packets that `descriptors` name.
    #[inline]
    pub fn send_out_described(&mut self, descriptors: &[Descriptor], link: u8) {
        if self.own.is_empty() {
            return;
        }
        for descriptor in descriptors {
            if let Place::Own(index) = self.places[usize::from(descriptor.pool)] {
                self.own[usize::from(index)].send_out_described(descriptor, link);
            }
        }
    }

    /// Notes that `packets` leave by link number `link`. To be called after they were published, in
    /// the same turn.
    #[inline]
    pub fn send_out(&mut self, packets: &[Packet], link: u8) {
        if self.own.is_empty() {
            return;
        }
        let mut rest = packets;
        while let Some(run) = UnitRun::at_start_of(rest) {
            if let Place::Own(index) = self.places[usize::from(run.pool)] {
                self.own[usize::from(index)].send_out_slots(run.group, run.mask, link);
            }
            rest = &rest[run.count..];
        }
    }

    /// Whether packets of `pool` are owned here.
    #[inline]
    pub fn owns(&self, pool: u16) -> bool {
        matches!(self.places[usize::from(pool)], Place::Own(_))
    }

    /// Ends a packet's life here: its buffer goes home.
    #[inline]
    pub fn free(&mut self, packet: Packet) {
        self.release(std::slice::from_ref(&packet));
    }

    /// Ends the life of several packets.
    #[inline]
    pub fn free_all(&mut self, packets: impl Iterator<Item = Packet>) {
        for packet in packets {
            self.free(packet);
        }
    }

    /// Ends the life of packets whose handles the caller forgets.
    #[inline]
    pub fn release(&mut self, packets: &[Packet]) {
        let mut rest = packets;
        while let Some(run) = UnitRun::at_start_of(rest) {
            self.release_slots(run.pool, run.group, run.mask);
            rest = &rest[run.count..];
        }
    }

    /// Takes home buffers that nobody has, on the supervisor's word. One that is not out by one of
    /// `links` is none of them: a hostile worker's memory lied.
    pub fn reclaim(&mut self, mut links: LinkSet, pool: u16, units: &[u32]) {
        let Some(Place::Own(index)) = self.places.get(usize::from(pool)) else {
            return;
        };
        if links.meets(&self.search.links) {
            links.insert(SOUGHT);
        }
        for unit in units {
            let taken = self.own[usize::from(*index)].take_unit_home(*unit, &links);
            self.violations += u64::from(taken.is_err());
        }
    }
}

/// Makes a packet of the same length what `packet` is.
fn filled(mut copy: Packet, packet: &Packet) -> Packet {
    copy.bytes_mut().copy_from_slice(packet.bytes());
    copy.set_tag(packet.tag());
    let is_set = copy.set_offload(packet.offload());
    debug_assert!(
        is_set.is_ok(),
        "it lies alone, and is no longer than the other"
    );
    copy
}

#[cfg(test)]
mod tests;
