//! Lanes: the rings by which buffers go home to the worker that owns them.
//!
//! Last step of a packet's life: who ends it notes its buffer on a [`ReturnLane`]; the owner takes
//! it from a [`HomeLane`].

use catena_shm::descriptor::Descriptor;
use catena_shm::pool::LinkSet;
use catena_shm::ring::Producer;
use catena_shm::ring_memory::{MappedRing, RingEnd};

use crate::link::Inlet;
use crate::packet::Packet;

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
    pub(super) pending: Vec<Descriptor>,
    pub(super) published: bool,
    pub(super) suspicion: Suspicion,
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
    pub(super) fn give_back(&mut self, packet: &Packet) {
        let (pool, buffer_index) = (packet.pool(), packet.buffer_index());
        let extended = self
            .pending
            .last_mut()
            .is_some_and(|last| last.add_return(pool, buffer_index));
        if !extended {
            self.pending
                .push(Descriptor::returning(pool, &[buffer_index]));
        }
    }

    /// Notes packets of a frame to be returned; those of one frame share a descriptor.
    #[inline]
    pub(super) fn give_back_slots(&mut self, pool: u8, buffer_index: u32, mask: u64) {
        let extended = self
            .pending
            .last_mut()
            .is_some_and(|last| last.add_slots(pool, buffer_index, mask));
        if !extended {
            let returned = Descriptor::returning_slots(pool, buffer_index, mask);
            self.pending.push(returned);
        }
    }

    /// Publishes what is pending. Only a peer that does not take its buffers home leaves a rest.
    pub(super) fn publish(&mut self) {
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
    pub(super) suspicion: Suspicion,
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

    pub(super) fn follow(&mut self) {
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
/// killed; [`VIOLATION_LIMIT`] are no accident, and are reported, and again whenever they have
/// doubled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Suspicion {
    forgiven: u64,
    reported: u64,
}

/// Violations of one neighbour on one link or lane after which it is accused.
pub const VIOLATION_LIMIT: u64 = 64;

impl Suspicion {
    /// How many of `count`, the violations so far, are this neighbour's, if that is to be reported
    /// now.
    pub fn due(&mut self, count: u64) -> Option<u64> {
        let theirs = count.saturating_sub(self.forgiven);
        let due = theirs >= self.reported.saturating_mul(2).max(VIOLATION_LIMIT);
        if due {
            self.reported = theirs;
        }
        due.then_some(theirs)
    }

    /// The neighbour was replaced: what its predecessor did, `count` violations, is not its fault.
    pub fn forgive(&mut self, count: u64) {
        *self = Self {
            forgiven: count,
            reported: 0,
        };
    }
}
