//! Aggregation: how the packets of one burst share descriptors (PA-Flow, CloudCom 2017).
//!
//! Inside [`crate::link::TxLink::send`], between the NF's verdicts and the ring: packets that
//! already lie together in a bundle go on as a view of it; small packets that lie alone are copied
//! into a bundle of this worker's own; everything else gets a descriptor of its own. Nothing waits:
//! only packets of the burst at hand are looked at, and a lone packet never comes here. The order
//! of packets is kept.

use catena_shm::bundle;
use catena_shm::descriptor::{Descriptor, SLOTS_PER_BUNDLE};
use catena_shm::ring_memory::MappedRing;
use catena_shm::staging::StagingWriter;

use crate::chain::link::Aggregate;
use crate::packet::Packet;
use crate::pools::Pools;

/// Largest packet that is copied into a bundle, in bytes: copying more costs more than a
/// descriptor.
pub const PACKED_LEN_MAX: usize = 512;
/// Bytes of a bundle: 64 packets of 64 B with room to spare, or a dozen of 512 B.
pub const BUNDLE_BYTES: u32 = 8192;
/// Packets per bundle, on average, below which bundles are packed again with their neighbours.
pub(crate) const THIN: usize = 4;

/// `auto` begins to pack when bursts are at least this long on average, and ends below the other.
const BURST_BEGINS: u32 = 8;
const BURST_ENDS: u32 = 4;
/// Weight of a new burst in the averages: 1 in 2^3. Averages have 4 binary places.
const WEIGHT_LOG2: u32 = 3;
const PLACES: u32 = 4;

/// What packing did, in the order of the words of its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackCounters {
    /// Bundles sent, packed here or passed on as views.
    pub bundles: u64,
    /// Packets in them.
    pub bundled_packets: u64,
    /// Bytes copied by packing.
    pub packed_bytes: u64,
    /// Whether packets are being packed now: 0 or 1.
    pub is_packing: u64,
    /// Packets per burst on average, in sixteenths.
    pub burst_mean_x16: u64,
    /// Bytes per packet on average, in sixteenths.
    pub len_mean_x16: u64,
}

/// The sending side's part in aggregation.
#[derive(Debug)]
pub struct Packer {
    mode: Aggregate,
    headroom: u32,
    mark: u64,
    burst_mean: u32,
    len_mean: u32,
    is_packing: bool,
    /// Sums since this worker started.
    pub counters: PackCounters,
}

impl Packer {
    /// Packs by `mode`, with `headroom` bytes in front of each packet. `mark` is written into the
    /// bundles for whoever looks at a dump: the link's number.
    pub fn new(mode: Aggregate, headroom: u32, mark: u64) -> Self {
        Self {
            mode,
            headroom,
            mark,
            burst_mean: 0,
            len_mean: 0,
            is_packing: mode == Aggregate::On,
            counters: PackCounters {
                is_packing: u64::from(mode == Aggregate::On),
                ..PackCounters::default()
            },
        }
    }

    /// Whether packets are being packed now.
    #[inline]
    pub fn is_packing(&self) -> bool {
        self.is_packing
    }

    /// Takes note of a burst and says whether its packets are to share descriptors.
    #[inline]
    pub fn wants(&mut self, count: usize, bytes: u64) -> bool {
        if self.mode == Aggregate::Off || count == 0 {
            return false;
        }
        self.note(count, bytes);
        self.is_packing && count > 1
    }

    /// Takes note of a burst that went on as `views` of bundles, without [`Packer::describe`].
    #[inline]
    pub fn pass_on_views(&mut self, views: usize, packets: u64, bytes: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        self.note(packets as usize, bytes);
        self.counters.bundles += views as u64;
        self.counters.bundled_packets += packets;
    }

    /// Headroom of the bundles in which packets for this link are best made, if they are to share
    /// bundles: then they need not be copied into one. Not while they come one by one.
    #[inline]
    pub fn makes_bundles(&self) -> Option<u32> {
        let several = self.burst_mean >= 2 << PLACES;
        (self.is_packing && several).then_some(self.headroom)
    }

    #[expect(
        clippy::cast_possible_truncation,
        reason = "bursts and packets are far below 2^28"
    )]
    fn note(&mut self, count: usize, bytes: u64) {
        let average = |mean: &mut u32, value: u32| {
            *mean = *mean - (*mean >> WEIGHT_LOG2) + (value << PLACES >> WEIGHT_LOG2);
        };
        average(&mut self.burst_mean, count as u32);
        average(&mut self.len_mean, (bytes / count as u64) as u32);
        if self.mode == Aggregate::Auto {
            let small = self.len_mean >> PLACES <= PACKED_LEN_MAX as u32;
            let enough = if self.is_packing {
                BURST_ENDS
            } else {
                BURST_BEGINS
            };
            self.is_packing = small && self.burst_mean >> PLACES >= enough;
            self.counters.is_packing = u64::from(self.is_packing);
        }
        self.counters.burst_mean_x16 = self.burst_mean.into();
        self.counters.len_mean_x16 = self.len_mean.into();
    }

    /// Makes descriptors of `packets`, which are this link's from now on: they are in the
    /// descriptors, or copied into a bundle and freed.
    pub fn describe(
        &mut self,
        packets: &mut Vec<Packet>,
        pools: &mut Pools,
        into: &mut Vec<Descriptor>,
    ) {
        let mut thin = None;
        let mut rest = packets.as_slice();
        while let Some(first) = rest.first() {
            let mut view = View::default();
            if first.is_bundled() {
                view = View::of(rest);
                // Looked for only when there is a short one: most often there is none.
                if view.count < THIN && *thin.get_or_insert_with(|| is_thin(packets)) {
                    view.count = 0;
                }
            }
            let run = match view.count {
                0 => self.pack(rest, pools, into),
                1 => {
                    into.push(first.descriptor());
                    1
                }
                count => {
                    let (pool, offset) = (first.pool(), first.buffer_offset());
                    into.push(Descriptor::bundle(pool, offset, view.mask));
                    self.counters.bundles += 1;
                    self.counters.bundled_packets += count as u64;
                    count
                }
            };
            rest = &rest[run..];
        }
        packets.clear();
    }

    /// Copies the small packets at the start of `packets` into a bundle of this worker's own and
    /// frees them. One that is alone, too large, or for which there is no bundle, gets a descriptor
    /// of its own. Gives how many are dealt with, at least 1.
    fn pack(&mut self, packets: &[Packet], pools: &mut Pools, into: &mut Vec<Descriptor>) -> usize {
        let run = small_run(packets);
        let bundle = if run > 1 {
            pools.begin_bundle(self.headroom)
        } else {
            None
        };
        let Some(mut bundle) = bundle else {
            into.push(packets[0].descriptor());
            return 1;
        };
        let mut count = 0;
        let mut bytes = 0;
        for packet in &packets[..run] {
            if bundle.add(packet.bytes(), packet.metadata()).is_none() {
                break;
            }
            bytes += packet.len() as u64;
            count += 1;
        }
        into.extend(pools.finish_bundle(bundle, self.mark));
        pools.release(&packets[..count]);
        self.count_packed(count, bytes);
        count
    }

    fn count_packed(&mut self, packets: usize, bytes: u64) {
        self.counters.bundles += 1;
        self.counters.bundled_packets += packets as u64;
        self.counters.packed_bytes += bytes;
    }

    /// Copies `packets` into the staging area of a `copy` link, small ones together in bundles, as
    /// many as there is room for. Gives how many; they are still the caller's.
    pub fn stage(
        &mut self,
        packets: &[Packet],
        ring: &MappedRing,
        staging: &mut StagingWriter,
        into: &mut Vec<Descriptor>,
    ) -> usize {
        let mut done = 0;
        while done < packets.len() {
            let (run, len) = bundle_run(&packets[done..], self.headroom);
            let staged = if run > 1 {
                let bundle = self.stage_bundle(&packets[done..done + run], len, ring, staging);
                bundle.map(|descriptor| into.push(descriptor)).is_some()
            } else {
                staging.stage_packet(ring, &packets[done], into)
            };
            if !staged {
                break;
            }
            done += run;
        }
        done
    }

    fn stage_bundle(
        &mut self,
        packets: &[Packet],
        len: usize,
        ring: &MappedRing,
        staging: &mut StagingWriter,
    ) -> Option<Descriptor> {
        let mut bytes = 0;
        let (headroom, mark) = (self.headroom, self.mark);
        #[expect(clippy::cast_possible_truncation, reason = "at most a bundle of them")]
        let count = packets.len() as u32;
        let descriptor = staging.stage_bundle(ring, (len, count), headroom, mark, |bundle| {
            for packet in packets {
                let added = bundle.add(packet.bytes(), packet.metadata());
                debug_assert!(added.is_some(), "the length was computed for them");
                bytes += packet.len() as u64;
            }
        })?;
        self.count_packed(packets.len(), bytes);
        Some(descriptor)
    }
}

/// Packets at the start of a burst that lie in one bundle, in order, and can go on as a view of it.
#[derive(Clone, Copy, Default)]
struct View {
    mask: u64,
    count: usize,
}

impl View {
    /// Those at the start of `packets`, whose first lies in a bundle: at least one.
    #[inline]
    fn of(packets: &[Packet]) -> Self {
        let first = &packets[0];
        let (mut mask, mut count) = (0_u64, 0);
        for packet in packets {
            let slot = packet.slot();
            let follows = packet.shares_bundle(first) && mask >> slot == 0;
            if !follows || !packet.rewrite() {
                break;
            }
            mask |= 1 << slot;
            count += 1;
        }
        let count = count.max(1);
        Self { mask, count }
    }
}

/// How many packets at the start of `packets` are small, at most a bundle of them; at least 1.
fn small_run(packets: &[Packet]) -> usize {
    let small = packets
        .iter()
        .take(SLOTS_PER_BUNDLE as usize)
        .take_while(|packet| packet.len() <= PACKED_LEN_MAX && packet.offload().is_none());
    small.count().max(1)
}

/// How many packets at the start of `packets` fit one bundle together, at least 1, and the bytes of
/// that bundle.
fn bundle_run(packets: &[Packet], headroom: u32) -> (usize, usize) {
    let mut end = bundle::PACKETS_OFFSET as usize;
    let mut run = 0;
    for packet in packets.iter().take(SLOTS_PER_BUNDLE as usize) {
        let behind = bundle::end_behind(end, packet.len(), headroom);
        let is_small = packet.len() <= PACKED_LEN_MAX && packet.offload().is_none();
        if !is_small || behind > BUNDLE_BYTES as usize {
            break;
        }
        end = behind;
        run += 1;
    }
    (run.max(1), end)
}

/// Whether the bundles among `packets` hold so few of them that packing again pays.
fn is_thin(packets: &[Packet]) -> bool {
    let mut bundles = 0;
    let mut bundled = 0;
    let mut last = None;
    for packet in packets {
        let place = packet
            .is_bundled()
            .then(|| (packet.pool(), packet.buffer_index()));
        bundled += usize::from(place.is_some());
        bundles += usize::from(place.is_some() && place != last);
        last = place;
    }
    bundles > 1 && bundled < THIN * bundles
}

#[cfg(test)]
mod tests;
