//! The receiving side of a link through shared memory: descriptors become packets again, checked.

mod waiting;

use catena_shm::bundle;
use catena_shm::descriptor::{Descriptor, kind};
use catena_shm::ring;
use catena_shm::ring_memory::{MappedRing, RingEnd};
use catena_shm::snapshots::Refused;
use catena_shm::staging;

use super::counters::{OCCUPANCY_CLASSES, RxCounters};
use crate::chain::link::{Overflow, Trust};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::{Packet, bytes_of};
use crate::pools::{Pools, Suspicion};
use crate::probe::Occupancy;
use crate::probe::moments::CursorLog;
use crate::protocol::RingSpec;

/// How many packets ahead of the one being copied are fetched.
const FETCH_AHEAD: usize = 12;

/// Place of what was refused among what was dropped.
const BAD: usize = 2;

/// A consumer whose producer may be replaced while it runs.
pub type Inlet = ring::Inlet<MappedRing>;

/// The receiving side of a link.
#[derive(Debug)]
pub struct RxLink {
    /// Index of the link in the chain.
    pub index: usize,
    inlet: Inlet,
    trust: Trust,
    overflow: Overflow,
    descriptors: Vec<Descriptor>,
    /// Packets taken from the link and dropped, since the node last asked: too old, no buffer, none
    /// that an honest sender would have sent.
    dropped: [(DropReason, u64); 3],
    committed: bool,
    suspicion: Suspicion,
    /// How many the last pull took, if it left some behind.
    left_behind: Option<u64>,
    /// How many packets wait, at random moments.
    pub occupancy: Occupancy,
    /// What was noted of how far it was, for probes.
    pub(crate) taken: CursorLog,
    /// Counters since this worker started.
    pub counters: RxCounters,
}

impl RxLink {
    /// The receiving side of the link that `spec` describes.
    pub fn new(spec: &RingSpec, inlet: Inlet) -> Self {
        Self {
            index: spec.link,
            inlet,
            trust: spec.trust,
            overflow: spec.overflow,
            descriptors: Vec::with_capacity(256),
            dropped: [
                (DropReason::LinkStale, 0),
                (DropReason::NoBuffer, 0),
                (DropReason::BadDescriptor, 0),
            ],
            committed: false,
            suspicion: Suspicion::default(),
            left_behind: None,
            occupancy: Occupancy::default(),
            taken: CursorLog::default(),
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

    /// Packets taken so far, of all time.
    #[inline]
    pub(crate) fn cursor(&self) -> u64 {
        self.inlet.consumer().read_index()
    }

    /// Its index in the chain plus one.
    #[inline]
    pub fn number(&self) -> u16 {
        u16::try_from(self.index + 1).unwrap_or(u16::MAX)
    }

    /// Violations of the sender, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.counters.violations)
    }

    /// Takes up to `max` packets into `load`; they are the caller's, their slots stay taken until
    /// [`RxLink::commit`]. Those that share a buffer come as bundles, if `bundles` says so.
    pub fn pull(&mut self, max: usize, pools: &mut Pools, load: &mut Load, bundles: bool) -> usize {
        self.descriptors.clear();
        self.shed(pools);
        let before = load.bytes;
        let count = match self.trust {
            Trust::Shared | Trust::Ro => self.pull_in_place(max, pools, load, bundles),
            Trust::Copy => self.pull_copies(max, pools, load),
        };
        self.counters.bytes += load.bytes.saturating_sub(before);
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
        // Packets of refused bundles, beside one of each.
        let mut more = 0;
        let count = self.inlet.peek_each(max, |descriptor| {
            if descriptor.kind != kind::BUNDLE {
                match pools.look_at(descriptor) {
                    Ok((packet, is_own)) => {
                        load.bytes += packet.len() as u64;
                        comes_home |= is_own;
                        load.packets.push(packet);
                    }
                    Err(Refused::Violation) => bad += 1,
                    Err(Refused::Full) => return false,
                }
                return true;
            }
            match pools.look_at_bundle(descriptor) {
                Ok((bundle, is_own)) => {
                    let (bytes, wrong) = bundle.check();
                    load.bytes += bytes;
                    comes_home |= is_own;
                    bad_slots |= wrong != 0;
                    load.push_bundle(bundle, bytes);
                }
                Err(Refused::Violation) => {
                    bad += 1;
                    more += u64::from(descriptor.span()).saturating_sub(1);
                }
                Err(Refused::Full) => return false,
            }
            true
        });
        pools.has_seen_all();
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
        if bad > 0 {
            load.count_bytes();
        }
        self.counters.violations += bad;
        self.dropped[BAD].1 += bad + more;
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
            let copied = if descriptor.kind == kind::STAGED_BUNDLE {
                copy_bundle_in(ring, descriptor, pools, |packet| packets.push(packet))
            } else {
                copy_in(ring, descriptor, pools).map(|packet| {
                    packets.push(packet);
                    0
                })
            };
            match copied {
                Ok(bad_slots) => {
                    self.counters.violations += bad_slots;
                    self.dropped[BAD].1 += bad_slots;
                }
                Err(DropReason::NoBuffer) => break,
                Err(DropReason::BadDescriptor) => {
                    self.counters.violations += 1;
                    self.dropped[BAD].1 += u64::from(descriptor.span());
                }
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
    pub fn take_dropped(&mut self) -> [(DropReason, u64); 3] {
        let taken = self.dropped;
        for (_, count) in &mut self.dropped {
            *count = 0;
        }
        taken
    }

    /// Gives back the slots of everything pulled in this turn.
    pub fn commit(&mut self) {
        self.committed |= self.inlet.commit();
        self.follow();
    }

    /// How many packets have to be pulled together, if any wait: 1, or those of a bundle.
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
}

/// Copies a bundle out of the staging area in one piece; gives the number of its entries that no
/// honest sender would have written.
fn copy_bundle_in(
    ring: &MappedRing,
    descriptor: &Descriptor,
    pools: &mut Pools,
    each: impl FnMut(Packet),
) -> Result<u64, DropReason> {
    let (whole, slots) = bundle::staged(descriptor).map_err(|_| DropReason::BadDescriptor)?;
    let bytes = staging::staged(ring, &whole).map_err(|_| DropReason::BadDescriptor)?;
    let fill = |to: &mut [u8]| bytes.copy_to(to);
    let bad = pools.adopt_bundle(bytes.len(), slots, fill, each)?;
    Ok(bad.count_ones().into())
}

#[inline]
fn copy_in(
    ring: &MappedRing,
    descriptor: &Descriptor,
    pools: &mut Pools,
) -> Result<Packet, DropReason> {
    let bytes = staging::staged(ring, descriptor).map_err(|_| DropReason::BadDescriptor)?;
    let log2 = u8::try_from(descriptor.pool).unwrap_or(u8::MAX);
    let mut packet = pools.alloc_like(bytes.len(), log2)?;
    bytes.copy_to(packet.bytes_mut());
    packet.set_metadata(descriptor.tag);
    Ok(packet)
}
