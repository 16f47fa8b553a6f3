//! Lanes: the rings by which buffers go home to the worker that owns them.
//!
//! Last step of a packet's life: who ends it notes its buffer on a [`ReturnLane`]; the owner takes
//! it from a [`HomeLane`].

use catena_shm::descriptor::Descriptor;
use catena_shm::pool::LinkSet;
use catena_shm::ring::{Inlet, Producer};
use catena_shm::ring_memory::{MappedRing, RingEnd};

/// The way home to one owner, for buffers that ended here.
#[derive(Debug)]
pub struct ReturnLane {
    /// Index of the owner.
    pub to: usize,
    /// The ring that leads to it. It has a slot for every buffer of the owner's pools, so it
    /// is never full while both sides follow the protocol.
    pub producer: Producer<MappedRing>,
    /// The owner's pools.
    pub pools: Vec<u16>,
    pub(super) pending: Vec<Descriptor>,
    /// Buffers that were not noted: see [`ReturnLane::give_back_slots`].
    pub(super) refused: u64,
    pub(super) published: bool,
    pub(super) suspicion: Suspicion,
}

impl ReturnLane {
    /// A lane for buffers of `pools`, all owned by the consumer of `producer`.
    pub fn new(to: usize, producer: Producer<MappedRing>, pools: Vec<u16>) -> Self {
        Self {
            to,
            producer,
            pools,
            pending: Vec::with_capacity(1024),
            refused: 0,
            published: false,
            suspicion: Suspicion::default(),
        }
    }

    /// Notes buffers of one slab, or packets of one bundle, to be returned: the units of `mask`.
    /// Those of one group that follow each other share a descriptor.
    ///
    /// The lane's ring has a slot for every unit of the owner's, so an owner that has fewer of them
    /// out than there are never finds more noted here than that. One that takes none home and sends
    /// them again does: what is too much is not noted, and counts as the owner's violation. Nothing
    /// is lost by that but what the owner itself has given away twice.
    #[inline]
    pub(super) fn give_back_slots(&mut self, pool: u16, group: u32, mask: u64) {
        let extended = self
            .pending
            .last_mut()
            .is_some_and(|last| last.add_slots(pool, group, mask));
        if extended {
            return;
        }
        if self.pending.len() >= self.producer.slot_count() as usize {
            self.refused += u64::from(mask.count_ones());
            return;
        }
        let returned = Descriptor::returning_slots(pool, group, mask);
        self.pending.push(returned);
    }

    /// Publishes what is pending. Only a peer that does not take its buffers home leaves a rest.
    pub(super) fn publish(&mut self) {
        let sent = self.producer.push(self.pending.iter().copied()) as usize;
        self.published |= sent > 0;
        self.pending.drain(..sent);
    }

    /// Violations of the owner, once there are too many for an accident.
    pub fn accusation(&mut self) -> Option<u64> {
        self.suspicion.due(self.violations())
    }

    /// What the owner did that no honest one would.
    fn violations(&self) -> u64 {
        self.producer.violations() + self.refused
    }

    /// The owner has been replaced: from now on its cursor is read from `consumer`.
    pub fn replace_consumer(&mut self, consumer: RingEnd) {
        self.producer
            .replace_memory(|ring| MappedRing::new(ring.producer, consumer));
        self.suspicion.forgive(self.violations());
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
    pub inlet: Inlet<MappedRing>,
    /// Links over which that peer can have come to hold them.
    pub links: LinkSet,
    /// Returns that no honest peer would send.
    pub violations: u64,
    pub(super) suspicion: Suspicion,
}

impl HomeLane {
    /// A lane from worker `from`, which can have come to hold buffers over `links`.
    pub fn new(from: usize, inlet: Inlet<MappedRing>, links: LinkSet) -> Self {
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
