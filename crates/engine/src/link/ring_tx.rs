//! The sending side of a link through shared memory: a burst that leaves becomes descriptors.

mod waiting;

use catena_shm::descriptor::{Descriptor, SLOTS_PER_BUNDLE};
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd};
use catena_shm::staging::StagingWriter;

use super::counters::{Dropped, TxCounters};
use crate::aggregation::{Packer, THIN};
use crate::chain::link::{Overflow, Trust};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::packet::{Packet, bytes_of};
use crate::pools::{Pools, Suspicion};
use crate::probe::moments::CursorLog;
use crate::protocol::RingSpec;

/// The sending side of a link.
#[derive(Debug)]
pub struct TxLink {
    /// Index of the link in the chain.
    pub index: usize,
    number: u8,
    producer: Producer<MappedRing>,
    trust: Trust,
    overflow: Overflow,
    staging: Option<StagingWriter>,
    descriptors: Vec<Descriptor>,
    packer: Packer,
    published: bool,
    /// Whether room was looked for in vain in this turn, and in the one before.
    blocked: bool,
    was_blocked: bool,
    /// Whether the receiver is asked to ring when there is room.
    is_armed: bool,
    peer_down: bool,
    congested: bool,
    suspicion: Suspicion,
    /// What was noted of how far it was, for probes.
    pub(crate) sent: CursorLog,
    /// Counters since this worker started.
    pub counters: TxCounters,
}

impl TxLink {
    /// The sending side of the link that `spec` describes, whose next descriptor has free-running
    /// index `start`.
    pub fn new(spec: &RingSpec, ring: MappedRing, start: u64) -> Self {
        let RingSpec {
            link: index,
            number,
            trust,
            overflow,
            aggregate,
            bundle_headroom,
            ..
        } = *spec;
        let geometry = ring.producer.geometry();
        let staging = (trust == Trust::Copy)
            .then(|| StagingWriter::new(start, geometry.staging_bytes, geometry.slot_count));
        Self {
            index,
            number,
            producer: Producer::new(ring, start),
            trust,
            overflow,
            staging,
            descriptors: Vec::with_capacity(256),
            packer: Packer::new(aggregate, bundle_headroom.into(), number.into()),
            published: false,
            blocked: false,
            was_blocked: false,
            is_armed: false,
            peer_down: false,
            congested: false,
            suspicion: Suspicion::default(),
            sent: CursorLog::default(),
            counters: TxCounters::default(),
        }
    }

    /// Whether small packets are being packed into bundles now.
    pub fn is_packing(&self) -> bool {
        self.packer.is_packing()
    }

    /// Its index in the chain plus one.
    #[inline]
    pub fn number(&self) -> u16 {
        u16::try_from(self.index + 1).unwrap_or(u16::MAX)
    }

    /// The ring's memory.
    pub fn ring(&self) -> &MappedRing {
        self.producer.memory()
    }

    /// The receiver has been replaced: from now on its cursor is read from `consumer`.
    pub fn replace_consumer(&mut self, consumer: RingEnd) {
        self.producer
            .replace_memory(|ring| MappedRing::new(ring.producer, consumer));
        self.peer_down = false;
        self.suspicion.forgive(self.producer.violations());
        // What was published meanwhile looked for a sleeper in the old one's memory.
        self.published = true;
    }

    /// Drops packets (`nf_down`) until the receiver is replaced.
    pub fn set_peer_down(&mut self) {
        self.peer_down = true;
    }

    /// How many packets may be sent now without loss: what the sender may pull. A bundle cannot be
    /// pulled in parts: an empty link claims room for the `need` packets of one that is larger than
    /// the whole link, so that it does not wait for ever; what is too much then is dropped.
    #[inline]
    pub fn room(&mut self, wanted: usize, need: usize) -> usize {
        if self.peer_down || self.overflow != Overflow::Block {
            return usize::MAX;
        }
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let room = self.producer.room(wanted as u32) as usize;
        let room = match &mut self.staging {
            Some(staging) => {
                staging.release(self.producer.tail_seen());
                if !staging.has_room() {
                    self.producer.room(u32::MAX);
                    staging.release(self.producer.tail_seen());
                }
                if staging.has_room() { room } else { 0 }
            }
            None => room,
        };
        if room < need && need > 1 && self.producer.used_at_most() == 0 {
            return need;
        }
        self.blocked |= room < need;
        room
    }

    /// Sends all of `load` in order, and empties it. What does not fit is dropped; gives how much
    /// and why.
    pub fn send(&mut self, load: &mut Load, pools: &mut Pools) -> Dropped {
        let (count, bytes) = (load.count() as u64, load.bytes);
        if self.peer_down {
            load.release(pools);
            return Dropped {
                packets: count,
                bytes,
                reason: DropReason::NfDown,
            };
        }
        if load.bundles.is_empty() {
            let dropped = self.send_packets(&mut load.packets, bytes, pools);
            load.forget();
            return dropped;
        }
        if self.passes_on(load) {
            return self.send_bundles(load, pools);
        }
        // Packed again, or one by one.
        let lost = load.take_apart(pools);
        let mut dropped = self.send_packets(&mut load.packets, bytes, pools);
        load.forget();
        dropped.packets += lost;
        dropped
    }

    /// Whether bundles go on as they are: where room was claimed before, so that all of one fits,
    /// packets share descriptors anyway, and there are not so few in each that packing them anew
    /// pays.
    fn passes_on(&self, load: &Load) -> bool {
        let is_thin = load.bundles.len() > 1 && load.bundled() < THIN * load.bundles.len();
        load.packets.is_empty() && !is_thin && self.takes_views()
    }

    /// Sends bundles as they are, by their descriptors.
    fn send_bundles(&mut self, load: &mut Load, pools: &mut Pools) -> Dropped {
        self.descriptors.clear();
        let bundles = load.bundles.iter();
        let views = bundles.map(|(_, bundle)| bundle.descriptor(bundle.mask()));
        self.descriptors.extend(views);
        let views = std::mem::take(&mut self.descriptors);
        let dropped = self.send_views(&views, load.count() as u64, load.bytes, pools);
        self.descriptors = views;
        load.forget();
        dropped
    }

    /// Sends packets in order and empties `packets`, which hold `bytes` in all.
    fn send_packets(
        &mut self,
        packets: &mut Vec<Packet>,
        bytes: u64,
        pools: &mut Pools,
    ) -> Dropped {
        let count = packets.len();
        let shares = self.packer.wants(count, bytes);
        if shares && self.trust != Trust::Copy {
            return self.send_packed(packets, bytes, pools);
        }
        let sent = match self.trust {
            Trust::Shared | Trust::Ro => {
                self.producer.push(packets.iter().map(Packet::descriptor)) as usize
            }
            Trust::Copy => self.send_copies(packets, shares),
        };
        let lost = if sent == count {
            0
        } else {
            bytes_of(&packets[sent..])
        };
        self.counters.packets += sent as u64;
        self.counters.bytes += bytes - lost;
        self.published |= sent > 0;
        if self.trust == Trust::Copy {
            pools.release(packets);
            packets.clear();
        } else {
            pools.free_all(packets.drain(sent..));
            // After publishing, in the same turn: the ledger says who has the buffers.
            pools.send_out(packets, self.number);
            packets.clear();
        }
        Dropped {
            packets: (count - sent) as u64,
            bytes: lost,
            reason: DropReason::LinkFull,
        }
    }

    /// As [`TxLink::send_packets`], for a burst whose packets are to share descriptors.
    fn send_packed(&mut self, packets: &mut Vec<Packet>, bytes: u64, pools: &mut Pools) -> Dropped {
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let wanted = packets.len() as u32;
        let sent = self.producer.room(wanted).min(wanted);
        let dropped = Dropped {
            packets: u64::from(wanted - sent),
            bytes: bytes_of(&packets[sent as usize..]),
            reason: DropReason::LinkFull,
        };
        pools.free_all(packets.drain(sent as usize..));
        self.descriptors.clear();
        self.packer.describe(packets, pools, &mut self.descriptors);
        let descriptors = self.descriptors.iter().copied();
        let published = self.producer.push_packets(sent, descriptors);
        // After publishing, in the same turn: the ledger says who has the buffers.
        let gone = descriptors_of(&self.descriptors, published);
        pools.send_out_described(&self.descriptors[..gone], self.number);
        // None is left, since room was asked before.
        let (lost, lost_bytes) = pools.release_described(&self.descriptors[gone..]);
        self.counters.packets += u64::from(published);
        self.counters.bytes += (bytes - dropped.bytes).saturating_sub(lost_bytes);
        self.published |= published > 0;
        Dropped {
            packets: dropped.packets + lost,
            bytes: dropped.bytes + lost_bytes,
            ..dropped
        }
    }

    #[inline]
    fn takes_views(&self) -> bool {
        self.trust != Trust::Copy
            && self.overflow == Overflow::Block
            && self.producer.slot_count() >= SLOTS_PER_BUNDLE
            && !self.peer_down
            && self.packer.is_packing()
    }

    /// Sends `packets` packets, `bytes` long in all, by descriptors of bundles. Gives what did not
    /// fit although room was claimed.
    fn send_views(
        &mut self,
        views: &[Descriptor],
        packets: u64,
        bytes: u64,
        pools: &mut Pools,
    ) -> Dropped {
        #[expect(clippy::cast_possible_truncation, reason = "at most a lap")]
        let published = self
            .producer
            .push_packets(packets as u32, views.iter().copied());
        // After publishing, in the same turn: the ledger says who has the buffers.
        let gone = descriptors_of(views, published);
        pools.send_out_described(&views[..gone], self.number);
        // None is left, since room was claimed before.
        let (lost, lost_bytes) = pools.release_described(&views[gone..]);
        let bytes = bytes.saturating_sub(lost_bytes);
        self.packer.pass_on_views(gone, published.into(), bytes);
        self.counters.packets += u64::from(published);
        self.counters.bytes += bytes;
        self.published |= published > 0;
        Dropped {
            packets: lost,
            bytes: lost_bytes,
            reason: DropReason::LinkFull,
        }
    }

    fn send_copies(&mut self, packets: &[Packet], shares: bool) -> usize {
        let Some(staging) = &mut self.staging else {
            return 0;
        };
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let room = self.producer.room(packets.len() as u32) as usize;
        staging.release(self.producer.tail_seen());
        self.descriptors.clear();
        let ring = self.producer.memory();
        let packets = &packets[..room.min(packets.len())];
        if shares {
            let into = &mut self.descriptors;
            self.packer.stage(packets, ring, staging, into);
        } else {
            let into = &mut self.descriptors;
            let mut packets = packets.iter();
            let _ = packets.all(|packet| staging.stage_packet(ring, packet, into));
        }
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let wanted = packets.len() as u32;
        let descriptors = self.descriptors.iter().copied();
        self.producer.push_packets(wanted, descriptors) as usize
    }

    /// Packets sent so far, of all time.
    #[inline]
    pub(crate) fn cursor(&self) -> u64 {
        self.producer.head()
    }

    /// Ends the turn, after the tails of the worker's links have been committed.
    pub fn settle(&mut self) {
        self.producer.settle();
        self.counters.packed = self.packer.counters;
        self.counters.violations = self.producer.violations();
        self.was_blocked = std::mem::take(&mut self.blocked);
        self.counters.blocked += u64::from(self.was_blocked);
    }

    /// Violations of the receiver, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.counters.violations)
    }

    /// Headroom of the bundles in which packets for this link are best made; none if they are best
    /// made singly.
    #[inline]
    pub fn makes_bundles(&self) -> Option<u32> {
        (self.trust != Trust::Copy)
            .then(|| self.packer.makes_bundles())
            .flatten()
    }
}

/// How many of `descriptors`, from the first on, hold `packets` packets.
fn descriptors_of(descriptors: &[Descriptor], packets: u32) -> usize {
    let mut left = packets;
    let fits = descriptors.iter().take_while(|descriptor| {
        let rest = left.checked_sub(descriptor.span());
        left = rest.unwrap_or(0);
        rest.is_some()
    });
    fits.count()
}
