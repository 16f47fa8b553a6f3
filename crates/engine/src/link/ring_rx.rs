//! The receiving side of a link through shared memory: descriptors become packets again, checked.

use catena_shm::bell::{self, WaitWord};
use catena_shm::descriptor::{Descriptor, kind};
use catena_shm::frame;
use catena_shm::ring_memory::{MappedRing, RingEnd};
use catena_shm::staging;
use catena_shm::sync::Ordering;

use super::{Inlet, OCCUPANCY_CLASSES, RxCounters, bytes_of};
use crate::chain::{Overflow, Trust};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::Packet;
use crate::pools::{Pools, Suspicion};
use crate::probe::Occupancy;
use crate::protocol::RingSpec;

/// How many packets ahead of the one being copied are fetched.
const FETCH_AHEAD: usize = 12;

/// The receiving side of a ring.
#[derive(Debug)]
pub struct RingRx {
    /// Index of the link in the chain.
    pub index: usize,
    inlet: Inlet,
    trust: Trust,
    overflow: Overflow,
    descriptors: Vec<Descriptor>,
    stale: Vec<Packet>,
    /// Packets taken from the link and dropped, since the node last asked: too old, no buffer.
    dropped: [(DropReason, u64); 2],
    committed: bool,
    suspicion: Suspicion,
    /// How many the last pull took, if it left some behind.
    left_behind: Option<u64>,
    /// How many packets wait, at random moments.
    pub occupancy: Occupancy,
    /// Counters since this worker started.
    pub counters: RxCounters,
}

impl RingRx {
    /// The receiving side of the link that `spec` describes.
    pub fn new(spec: &RingSpec, inlet: Inlet) -> Self {
        Self {
            index: spec.link,
            inlet,
            trust: spec.trust,
            overflow: spec.overflow,
            descriptors: Vec::with_capacity(256),
            stale: Vec::new(),
            dropped: [(DropReason::LinkStale, 0), (DropReason::NoBuffer, 0)],
            committed: false,
            suspicion: Suspicion::default(),
            left_behind: None,
            occupancy: Occupancy::default(),
            counters: RxCounters::default(),
        }
    }

    /// The sender has been replaced: what the old one published below `start` is still taken, then
    /// the new one's memory is used.
    pub fn replace_producer(&mut self, producer: RingEnd, start: u64) {
        let ring = MappedRing::new(producer, self.inlet.ring().consumer.clone());
        self.inlet.replace_producer(ring, start);
        self.follow();
    }

    fn follow(&mut self) {
        if self.inlet.has_followed() {
            self.suspicion.forgive(self.counters.violations);
            // The new sender may be waiting for room already.
            self.committed = true;
        }
    }

    /// Violations of the sender, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.counters.violations)
    }

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

    /// Takes up to `max` packets into `load`; they are the caller's, their slots stay taken until
    /// [`RingRx::commit`]. Those that share a buffer come as bundles, if `bundles` says so.
    pub fn pull(&mut self, max: usize, pools: &mut Pools, load: &mut Load, bundles: bool) -> usize {
        self.descriptors.clear();
        self.shed(pools);
        let before = load.bytes;
        let count = match self.trust {
            Trust::Shared | Trust::Ro => self.pull_in_place(max, pools, load, bundles),
            Trust::Copy => self.pull_copies(max, pools, load),
        };
        self.counters.bytes += load.bytes - before;
        self.counters.packets += count as u64;
        self.left_behind = (count >= max).then_some(count as u64);
        if count > 0 {
            self.count_occupancy(count);
        }
        count
    }

    /// Makes packets of descriptors as it reads them: so the bytes of the first are on their way
    /// while the last is looked at.
    fn pull_in_place(
        &mut self,
        max: usize,
        pools: &mut Pools,
        load: &mut Load,
        bundles: bool,
    ) -> usize {
        let already = load.packets.len();
        let bundles_before = load.bundles.len();
        let (mut bad, mut comes_home, mut bad_slots) = (0, false, false);
        let count = self.inlet.peek_each(max, |descriptor| {
            if descriptor.kind != kind::FRAME {
                match pools.look_at(descriptor) {
                    Ok((packet, is_own)) => {
                        load.bytes += packet.len() as u64;
                        comes_home |= is_own;
                        load.packets.push(packet);
                    }
                    Err(_) => bad += 1,
                }
                return true;
            }
            match pools.look_at_frame(descriptor) {
                Ok((bundle, is_own)) => {
                    let (bytes, wrong) = bundle.check();
                    load.bytes += bytes;
                    comes_home |= is_own;
                    bad_slots |= wrong != 0;
                    load.push_bundle(bundle, bytes);
                }
                Err(_) => bad += 1,
            }
            true
        });
        self.inlet.take(count);
        if bad > 0 {
            pools.count_violations(bad);
        }
        if comes_home {
            bad += pools.arrived(&mut load.packets, already);
            bad += pools.arrived_bundles(load, bundles_before);
        }
        if bad_slots {
            bad += pools.release_bad_slots(load, bundles_before);
        }
        if !bundles {
            bad += load.take_apart(pools);
        }
        self.counters.violations += bad;
        count
    }

    /// Copies packets out of the staging area. One for which there is no buffer now stays in the
    /// link, and so do those behind it.
    fn pull_copies(&mut self, max: usize, pools: &mut Pools, load: &mut Load) -> usize {
        let packets = &mut load.packets;
        self.inlet.peek_burst(max, &mut self.descriptors);
        let ring = self.inlet.ring();
        let fetch = |descriptor: &Descriptor| {
            if let Ok(bytes) = staging::staged(ring, descriptor) {
                bytes.prefetch();
            }
        };
        self.descriptors.iter().take(FETCH_AHEAD).for_each(fetch);
        let already = packets.len();
        let mut count = 0;
        for (index, descriptor) in self.descriptors.iter().enumerate() {
            if let Some(ahead) = self.descriptors.get(index + FETCH_AHEAD) {
                fetch(ahead);
            }
            let copied = if descriptor.kind == kind::STAGED_FRAME {
                copy_frame_in(ring, descriptor, pools, |packet| packets.push(packet))
            } else {
                copy_in(ring, descriptor, pools).map(|packet| {
                    packets.push(packet);
                    0
                })
            };
            match copied {
                Ok(bad_slots) => self.counters.violations += bad_slots,
                Err(DropReason::NoBuffer) => break,
                Err(DropReason::BadDescriptor) => self.counters.violations += 1,
                Err(_) => {
                    self.counters.discarded += 1;
                    self.dropped[1].1 += 1;
                }
            }
            count += descriptor.span() as usize;
        }
        self.inlet.take(count);
        load.bytes += bytes_of(&packets[already..]);
        count
    }

    /// Packets that were taken and dropped since the last call, by reason: they count for the node
    /// they were on the way to.
    pub fn take_dropped(&mut self) -> [(DropReason, u64); 2] {
        let taken = self.dropped;
        for (_, count) in &mut self.dropped {
            *count = 0;
        }
        taken
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
            let mut stale = std::mem::take(&mut self.stale);
            let bad = accept(&self.descriptors, pools, &mut stale);
            self.counters.violations += bad;
            pools.free_all(stale.drain(..));
            self.stale = stale;
        }
        self.descriptors.clear();
    }

    /// Gives back the slots of everything pulled in this turn.
    pub fn commit(&mut self) {
        self.committed |= self.inlet.commit();
        self.follow();
    }

    /// Tells the sender whether a link further on is congested. Part of the end of a turn, before
    /// [`RingRx::wake_peer`].
    pub fn set_congested(&mut self, congested: bool) {
        let word = self.inlet.ring().consumer.congested();
        if (word.load(Ordering::Relaxed) != 0) != congested {
            word.store(u32::from(congested), Ordering::Relaxed);
            self.committed = true;
        }
    }

    /// How many packets have to be pulled together, if any wait: 1, or those of a frame.
    #[inline]
    pub fn next_span(&self) -> Option<usize> {
        let next = self.inlet.peek_next()?;
        Some(next.span() as usize)
    }

    #[inline]
    fn count_occupancy(&mut self, count: usize) {
        let class = (usize::BITS - count.leading_zeros()) as usize;
        self.counters.occupancy[class.min(OCCUPANCY_CLASSES - 1)] += 1;
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

/// Makes packets of descriptors whose buffers are shared; gives the number of violations.
#[inline]
fn accept(descriptors: &[Descriptor], pools: &mut Pools, packets: &mut Vec<Packet>) -> u64 {
    let mut bad = 0;
    for descriptor in descriptors {
        if descriptor.kind == kind::FRAME {
            pools.prefetch_frame(descriptor);
        }
    }
    for descriptor in descriptors {
        if descriptor.kind == kind::FRAME {
            let slots = pools.frame_packets(descriptor, |packet| packets.push(packet));
            bad += slots.map_or(1, |slots| slots.count_ones().into());
            continue;
        }
        match pools.packet(descriptor) {
            Ok(packet) => packets.push(packet),
            Err(_) => bad += 1,
        }
    }
    bad
}

/// Copies a frame out of the staging area in one piece; gives the number of its entries that no
/// honest sender would have written.
fn copy_frame_in(
    ring: &MappedRing,
    descriptor: &Descriptor,
    pools: &mut Pools,
    each: impl FnMut(Packet),
) -> Result<u64, DropReason> {
    let (whole, slots) = frame::staged(descriptor).map_err(|_| DropReason::BadDescriptor)?;
    let bytes = staging::staged(ring, &whole).map_err(|_| DropReason::BadDescriptor)?;
    let fill = |to: &mut [u8]| bytes.copy_to(to);
    let bad = pools.adopt_frame(bytes.len(), slots, fill, each)?;
    Ok(bad.count_ones().into())
}

#[inline]
fn copy_in(
    ring: &MappedRing,
    descriptor: &Descriptor,
    pools: &mut Pools,
) -> Result<Packet, DropReason> {
    let bytes = staging::staged(ring, descriptor).map_err(|_| DropReason::BadDescriptor)?;
    let mut packet = pools.alloc_like(bytes.len(), descriptor.pool)?;
    bytes.copy_to(packet.bytes_mut());
    packet.set_metadata(descriptor.tag);
    Ok(packet)
}

fn saturating_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
