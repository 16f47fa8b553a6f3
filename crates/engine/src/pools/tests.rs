//! Sizes, returns, and suspicions.

use super::*;
use crate::link::Inlet;
use crate::packet::Offload;
use catena_shm::ring::Producer;

#[test]
fn a_few_violations_are_forgiven_and_many_are_reported_as_they_double() {
    let mut suspicion = Suspicion::default();
    assert_eq!(suspicion.due(VIOLATION_LIMIT - 1), None);
    assert_eq!(suspicion.due(VIOLATION_LIMIT), Some(VIOLATION_LIMIT));
    assert_eq!(suspicion.due(2 * VIOLATION_LIMIT - 1), None);
    let doubled = 2 * VIOLATION_LIMIT;
    assert_eq!(suspicion.due(doubled), Some(doubled));
    suspicion.forgive(9 * VIOLATION_LIMIT);
    assert_eq!(suspicion.due(9 * VIOLATION_LIMIT + 1), None);
    assert_eq!(suspicion.due(10 * VIOLATION_LIMIT), Some(VIOLATION_LIMIT));
}
use catena_shm::pool::PoolGeometry;
use catena_shm::region::Sharing;
use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};

fn owner(id: u16, log2_stride: u8, buffer_count: u32) -> PoolOwner {
    let geometry = PoolGeometry {
        log2_stride,
        buffer_count,
        headroom: 64,
        bundles: false,
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
fn copies_are_what_their_originals_are() {
    let mut pools = Pools::new(vec![owner(1, 11, 4)]);
    let mut packet = pools.alloc(600).unwrap();
    packet.bytes_mut().fill(7);
    packet.set_tag(9);
    for offload in [
        Offload::NONE,
        Offload::CHECKSUM,
        Offload::segments_of(500).unwrap(),
    ] {
        packet.set_offload(offload).unwrap();
        for copy in [pools.copy_of(&packet), pools.copy_like(&packet)].map(Result::unwrap) {
            assert_eq!(
                (copy.bytes(), copy.tag(), copy.offload()),
                (&[7; 600][..], 9, offload)
            );
            pools.free(copy);
        }
    }
}

#[test]
fn a_copy_can_have_as_much_room_as_its_original() {
    let mut pools = Pools::new(vec![owner(2, 11, 4), owner(1, 7, 2), owner(3, 18, 1)]);
    let mut pool_of = |len, log2| pools.alloc_like(len, log2).map(|packet| packet.pool());
    assert_eq!((pool_of(60, 0), pool_of(60, 7)), (Ok(1), Ok(1)));
    assert_eq!((pool_of(60, 11), pool_of(5000, 11)), (Ok(2), Ok(3)));
    assert_eq!(pool_of(60, 18), Err(DropReason::NoBuffer));
    // No buffers of that size here, or none that an honest sender has: as large as there are.
    assert_eq!(pool_of(60, 255), Err(DropReason::NoBuffer));
    assert_eq!(pool_of(60, 14), Err(DropReason::NoBuffer));
    assert_eq!(pool_of(1 << 18, 0), Err(DropReason::TooLarge));
    let mut few = Pools::new(vec![owner(1, 7, 2)]);
    assert_eq!(few.alloc_like(60, 255).map(|packet| packet.pool()), Ok(1));
}

/// A worker that owns eight buffers, one that has them over link 4, and the lane between them.
fn owner_and_holder() -> (Pools, Pools) {
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
    (ours, theirs)
}

#[test]
fn buffers_freed_elsewhere_come_home() {
    let (mut ours, mut theirs) = owner_and_holder();
    for _ in 0..20 {
        let packets: Vec<_> = (0..8).map(|_| ours.alloc(64).unwrap()).collect();
        for packet in packets {
            let descriptor = packet.descriptor();
            ours.send_out(std::slice::from_ref(&packet), 4);
            let theirs_now = theirs.look_at(&descriptor).unwrap().0;
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

#[test]
fn a_burst_goes_home_by_one_descriptor_and_in_one_piece() {
    let (mut ours, mut theirs) = owner_and_holder();
    let mut packets = Vec::new();
    assert_eq!(ours.alloc_each(9, 64, |packet| packets.push(packet)), 8);
    ours.send_out(&packets, 4);
    let arrived: Vec<_> = packets
        .iter()
        .map(|packet| theirs.look_at(&packet.descriptor()).unwrap().0)
        .collect();
    theirs.release(&arrived);
    assert_eq!(
        theirs.lanes[0].pending,
        [Descriptor::returning_slots(1, 0, 0xff)]
    );
    theirs.publish_returns();
    assert_eq!(ours.take_returns(), 8);
    assert_eq!(ours.own()[0].out_count(), 0);
}

#[test]
fn an_owner_that_takes_nothing_home_fills_the_lane_and_no_more() {
    let (mut ours, mut theirs) = owner_and_holder();
    let packets: Vec<_> = (0..2).map(|_| ours.alloc(64).unwrap()).collect();
    // The same two buffers arrive again and again, though they never went home.
    for round in 0..200 {
        for packet in &packets {
            let again = theirs.look_at(&packet.descriptor()).unwrap().0;
            theirs.free(again);
        }
        theirs.publish_returns();
        theirs.settle_return_lanes();
        assert!(theirs.lanes[0].pending.len() <= 16, "{round}");
        // A ring full, and as much again that waits; each descriptor has both.
        let honest = round < 2 * 16;
        assert!(!honest || theirs.violations() == 0, "{round}");
    }
    let refused = 2 * (200 - 2 * 16);
    assert_eq!(theirs.violations(), refused);
    assert_eq!(theirs.lanes[0].accusation(), Some(refused));
    // What was noted goes home once the owner looks; it believes each buffer once.
    ours.send_out(&packets, 4);
    assert_eq!(ours.take_returns(), 2 * 16);
    let own = &ours.own()[0];
    assert_eq!((own.out_count(), own.free_count()), (0, 8));
    assert_eq!(ours.violations(), 15);
}

/// A descriptor of slots that are out, with an offset that no bundle has: no packet comes of it,
/// and the slots stay out, so that they can still come home.
#[test]
fn a_bundle_that_is_refused_leaves_its_slots_out() {
    let geometry = PoolGeometry {
        log2_stride: 13,
        buffer_count: 2,
        headroom: 0,
        bundles: true,
    };
    let owner = PoolOwner::create(1, geometry, Sharing::ReadWrite).unwrap();
    let mut pools = Pools::new(vec![owner]);
    let mut bundle = pools.begin_bundle(0).unwrap();
    bundle.add(&[1; 60], 0).unwrap();
    bundle.add(&[2; 60], 0).unwrap();
    let whole = pools.finish_bundle(bundle, 0).unwrap();
    pools.send_out_described(&[whole], 4);
    let mut wrong = whole;
    wrong.offset += 16;
    assert_eq!(pools.look_at_bundle(&wrong).err(), Some(Refused::Violation));
    assert_eq!(pools.discard(&[wrong]), 1);
    assert_eq!(pools.own()[0].out_count(), 2);
    assert_eq!(pools.discard(&[whole]), 0);
    assert_eq!(
        (pools.own()[0].free_count(), pools.own()[0].out_count()),
        (2, 0)
    );
}
