//! Links for tests: both ends of a ring, in one process.
//!
//! Not part of a chain.

use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};

use super::{Inlet, RxLink, TxLink};
use crate::chain::{Aggregate, Overflow, Trust};
use crate::protocol::RingSpec;

/// A link of so many slots, as most are; tests say what differs.
pub(crate) fn spec(slot_count: u32) -> RingSpec {
    RingSpec {
        link: 0,
        number: 1,
        from: 0,
        to: 1,
        slot_count,
        staging_bytes: 0,
        trust: Trust::Shared,
        overflow: Overflow::Block,
        aggregate: Aggregate::Off,
        bundle_headroom: 0,
        tcp: None,
    }
}

/// Both ends of a link, and what lies between them.
pub(crate) fn ends(spec: &RingSpec) -> (TxLink, RxLink, MappedRing) {
    let geometry = RingGeometry {
        slot_count: spec.slot_count,
        staging_bytes: spec.staging_bytes,
    };
    let producer = RingEnd::create(Side::Producer, geometry, 0).unwrap();
    let consumer = RingEnd::create(Side::Consumer, geometry, 0).unwrap();
    let mapped = || MappedRing::new(producer.clone(), consumer.clone());
    let receiving = RxLink::new(spec, Inlet::new(mapped(), 0));
    (TxLink::new(spec, mapped(), 0), receiving, mapped())
}
