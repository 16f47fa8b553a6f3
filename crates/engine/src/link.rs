//! The link: a one-way edge between two NFs of different workers.
//!
//! The hop in a packet's life: [`TxLink::send`] publishes a burst of packets as descriptors,
//! [`RxLink::pull`] turns arrived descriptors into packets. What the two sides may do to each
//! other's memory is the link's trust: `shared` and `ro` pass the packet where it lies, `copy`
//! passes it through the staging area into a buffer of the receiver's own.
//!
//! Who owns the packet: `send` takes it (sent, or dropped with a reason); `pull` gives it. A link
//! knows nothing of chains, NFs or workers.

use catena_shm::bell::{self, WaitWord};
use catena_shm::descriptor::Descriptor;
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd};
use catena_shm::staging::{self, StagingWriter};
use catena_shm::sync::Ordering;

use crate::chain::{Overflow, Trust};
use crate::drop_reason::DropReason;
use crate::packet::Packet;
use crate::pools::{Pools, Suspicion};

/// Counters of the sending side, in the order of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Packets published.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times the receiver was woken.
    pub wakes: u64,
    /// Turns in which the sender held back because the link was full.
    pub blocked: u64,
    /// Impossible cursors of the receiver.
    pub violations: u64,
}

/// Number of occupancy classes: 0, 1, 2-3, 4-7, ... packets found waiting.
pub const OCCUPANCY_CLASSES: usize = 12;

/// Counters of the receiving side, in the order of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Packets taken.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Descriptors no honest peer would send.
    pub violations: u64,
    /// Packets discarded as too old (`drop_head`), or for want of a buffer (`copy`).
    pub discarded: u64,
    /// How many packets a pull took, by powers of two.
    pub occupancy: [u64; OCCUPANCY_CLASSES],
}

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
    published: bool,
    blocked: bool,
    peer_down: bool,
    congested: bool,
    suspicion: Suspicion,
    /// Counters since this worker started.
    pub counters: TxCounters,
}

impl TxLink {
    /// The sending side of link `index`, whose next descriptor has free-running index `start`.
    pub fn new(
        index: usize,
        ring: MappedRing,
        trust: Trust,
        overflow: Overflow,
        start: u64,
    ) -> Self {
        let geometry = ring.producer.geometry();
        let staging = (trust == Trust::Copy)
            .then(|| StagingWriter::new(start, geometry.staging_bytes, geometry.slot_count));
        #[expect(
            clippy::cast_possible_truncation,
            reason = "LINK_COUNT_MAX is below 255"
        )]
        let number = index as u8 + 1;
        Self {
            index,
            number,
            producer: Producer::new(ring, start),
            trust,
            overflow,
            staging,
            descriptors: Vec::with_capacity(256),
            published: false,
            blocked: false,
            peer_down: false,
            congested: false,
            suspicion: Suspicion::default(),
            counters: TxCounters::default(),
        }
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

    /// How many packets may be sent now without loss: what the sender may pull.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> usize {
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
        self.blocked |= room == 0;
        room
    }

    /// Sends packets in order and empties `packets`. What does not fit is dropped; gives how many
    /// and why.
    pub fn send(&mut self, packets: &mut Vec<Packet>, pools: &mut Pools) -> (u64, DropReason) {
        let count = packets.len();
        if self.peer_down {
            for packet in packets.drain(..) {
                pools.free(packet);
            }
            return (count as u64, DropReason::NfDown);
        }
        let bytes_before = self.counters.bytes;
        let sent = match self.trust {
            Trust::Shared | Trust::Ro => self.send_in_place(packets, pools),
            Trust::Copy => self.send_copies(packets),
        };
        self.counters.packets += sent as u64;
        self.published |= sent > 0;
        if self.trust == Trust::Copy {
            for packet in packets.drain(..) {
                pools.free(packet);
            }
        } else {
            for packet in packets.drain(sent..) {
                pools.free(packet);
            }
            self.note_out(packets, pools);
        }
        debug_assert!(self.counters.bytes >= bytes_before);
        ((count - sent) as u64, DropReason::LinkFull)
    }

    fn send_in_place(&mut self, packets: &[Packet], _pools: &Pools) -> usize {
        let sent = self.producer.push(packets.iter().map(Packet::descriptor)) as usize;
        self.counters.bytes += packets[..sent]
            .iter()
            .map(|packet| packet.len() as u64)
            .sum::<u64>();
        sent
    }

    /// After publishing, in the same turn: the ledger of pools owned here says who has the buffers.
    fn note_out(&self, packets: &mut Vec<Packet>, pools: &mut Pools) {
        if pools.own().is_empty() {
            packets.clear();
            return;
        }
        for packet in packets.drain(..) {
            pools.send_out(packet.pool(), packet.buffer_index(), self.number);
        }
    }

    fn send_copies(&mut self, packets: &[Packet]) -> usize {
        let Some(staging) = &mut self.staging else {
            return 0;
        };
        #[expect(clippy::cast_possible_truncation, reason = "bursts are small")]
        let room = self.producer.room(packets.len() as u32) as usize;
        staging.release(self.producer.tail_seen());
        self.descriptors.clear();
        let ring = self.producer.memory();
        let mut bytes = 0;
        for packet in packets.iter().take(room) {
            let Some(descriptor) = staging.stage(ring, packet.bytes(), packet.tag()) else {
                break;
            };
            bytes += packet.len() as u64;
            self.descriptors.push(descriptor);
        }
        self.counters.bytes += bytes;
        let sent = self.producer.push(self.descriptors.iter().copied());
        debug_assert_eq!(
            sent as usize,
            self.descriptors.len(),
            "room was asked before"
        );
        sent as usize
    }

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

    /// Ends the turn, after the tails of the worker's links have been committed.
    pub fn settle(&mut self) {
        self.producer.settle();
        self.counters.violations = self.producer.violations();
        self.counters.blocked += u64::from(self.blocked);
    }

    /// Violations of the receiver, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.counters.violations)
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
        if std::mem::take(&mut self.blocked) {
            let ring = self.producer.memory();
            ring.producer.bell().set_waiting(true);
            let peer = ring.consumer.bell();
            words.push(WaitWord::new(peer.rung, peer.rung()));
        }
    }

    /// After sleeping.
    pub fn after_sleep(&self) {
        self.producer.memory().producer.bell().set_waiting(false);
    }
}

/// A consumer whose producer may be replaced while it runs.
pub type Inlet = catena_shm::ring::Inlet<MappedRing>;

/// The receiving side of a link.
#[derive(Debug)]
pub struct RxLink {
    /// Index of the link in the chain.
    pub index: usize,
    inlet: Inlet,
    trust: Trust,
    overflow: Overflow,
    descriptors: Vec<Descriptor>,
    /// Packets taken from the link and dropped, since the node last asked: too old, no buffer.
    dropped: [(DropReason, u64); 2],
    committed: bool,
    suspicion: Suspicion,
    /// Counters since this worker started.
    pub counters: RxCounters,
}

impl RxLink {
    /// The receiving side of link `index`.
    pub fn new(index: usize, inlet: Inlet, trust: Trust, overflow: Overflow) -> Self {
        Self {
            index,
            inlet,
            trust,
            overflow,
            descriptors: Vec::with_capacity(256),
            dropped: [(DropReason::LinkStale, 0), (DropReason::NoBuffer, 0)],
            committed: false,
            suspicion: Suspicion::default(),
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

    /// Takes up to `max` packets into `packets`; they are the caller's, their slots stay taken
    /// until [`RxLink::commit`].
    pub fn pull(&mut self, max: usize, pools: &mut Pools, packets: &mut Vec<Packet>) -> usize {
        self.descriptors.clear();
        self.shed(pools);
        let count = match self.trust {
            Trust::Shared | Trust::Ro => self.pull_in_place(max, pools, packets),
            Trust::Copy => self.pull_copies(max, pools, packets),
        };
        if count > 0 {
            let class = (usize::BITS - count.leading_zeros()) as usize;
            self.counters.occupancy[class.min(OCCUPANCY_CLASSES - 1)] += 1;
        }
        count
    }

    fn pull_in_place(&mut self, max: usize, pools: &mut Pools, packets: &mut Vec<Packet>) -> usize {
        let count = self.inlet.pull(max, &mut self.descriptors);
        for descriptor in &self.descriptors {
            match pools.packet(descriptor) {
                Ok(packet) => {
                    self.counters.bytes += packet.len() as u64;
                    packets.push(packet);
                }
                Err(_) => self.counters.violations += 1,
            }
        }
        self.counters.packets += count as u64;
        count
    }

    fn pull_copies(&mut self, max: usize, pools: &mut Pools, packets: &mut Vec<Packet>) -> usize {
        let mut count = 0;
        while count < max {
            // The length is only a hint here; what is copied is checked below.
            let Some(next) = self.inlet.peek_next() else {
                break;
            };
            if !pools.has_buffer(next.len as usize) && (next.len as usize) <= pools.packet_len_max()
            {
                break;
            }
            self.descriptors.clear();
            self.inlet.pull(1, &mut self.descriptors);
            count += 1;
            self.counters.packets += 1;
            let Some(descriptor) = self.descriptors.first() else {
                break;
            };
            match copy_in(self.inlet.ring(), descriptor, pools) {
                Ok(packet) => {
                    self.counters.bytes += packet.len() as u64;
                    packets.push(packet);
                }
                Err(DropReason::BadDescriptor) => self.counters.violations += 1,
                Err(_) => {
                    self.counters.discarded += 1;
                    self.dropped[1].1 += 1;
                }
            }
        }
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
        let waiting = consumer.published().saturating_sub(read).min(slots);
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
            for descriptor in &self.descriptors {
                match pools.packet(descriptor) {
                    Ok(packet) => pools.free(packet),
                    Err(_) => self.counters.violations += 1,
                }
            }
        }
        self.descriptors.clear();
    }

    /// Gives back the slots of everything pulled in this turn.
    pub fn commit(&mut self) {
        self.committed |= self.inlet.commit();
        self.follow();
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

    /// Whether packets wait.
    pub fn has_packets(&self) -> bool {
        self.inlet.has_next()
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

fn copy_in(
    ring: &MappedRing,
    descriptor: &Descriptor,
    pools: &mut Pools,
) -> Result<Packet, DropReason> {
    let len = staging::check(ring, descriptor).map_err(|_| DropReason::BadDescriptor)?;
    let mut packet = pools.alloc(len)?;
    if staging::copy_out(ring, descriptor, packet.bytes_mut()).is_err() {
        pools.free(packet);
        return Err(DropReason::BadDescriptor);
    }
    packet.set_tag(descriptor.tag);
    Ok(packet)
}

fn saturating_usize(value: u64) -> usize {
    usize::try_from(value).unwrap_or(usize::MAX)
}
