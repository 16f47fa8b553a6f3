//! Tests of what is counted of waiting: how many packets, and in how many turns.

use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use catena_shm::ring::RingMemory as _;
use catena_shm::ring_memory::MappedRing;
use catena_shm::sync::Ordering;

use super::testing::{ends, spec};
use super::{RxLink, TxLink};
use crate::load::Load;
use crate::pools::Pools;

const SLOTS: u32 = 8;

fn link() -> (TxLink, RxLink, Pools, MappedRing) {
    let (sending, receiving, ring) = ends(&spec(SLOTS));
    let pool = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        bundles: false,
    };
    let owner = PoolOwner::create(0, pool, Sharing::ReadWrite).unwrap();
    (sending, receiving, Pools::new(vec![owner]), ring)
}

fn send(link: &mut TxLink, pools: &mut Pools, count: usize) {
    let mut load = Load::default();
    for _ in 0..count {
        load.packets.push(pools.alloc(60).unwrap());
    }
    load.count_bytes();
    assert_eq!(link.send(&mut load, pools).packets, 0);
}

/// Goal: a turn is blocked if the link was full, once, however often it was asked; not if it had
/// room for fewer than there might have been.
#[test]
fn turns_are_blocked_when_nothing_fits_and_counted_once() {
    let (mut sender, mut receiver, mut pools, _) = link();
    let blocked = |sender: &mut TxLink| {
        sender.settle();
        sender.counters.blocked
    };
    send(&mut sender, &mut pools, 5);
    // Three slots are left of 32 that would be taken.
    assert_eq!(sender.room(32, 1), 3);
    assert_eq!(blocked(&mut sender), 0);
    send(&mut sender, &mut pools, 3);
    for _ in 0..3 {
        assert_eq!(sender.room(32, 1), 0);
    }
    assert_eq!(blocked(&mut sender), 1);
    // A turn in which nobody asks waits for nothing.
    assert_eq!(blocked(&mut sender), 1);
    let mut load = Load::default();
    assert_eq!(receiver.pull(8, &mut pools, &mut load, true), 8);
    receiver.commit();
    assert_eq!(sender.room(32, 1), 8);
    assert_eq!(blocked(&mut sender), 1);
    load.release(&mut pools);
}

/// Goal: what waits is known from cursors, of finished turns, and a sender that says it is further
/// than a lap makes no more of it.
#[test]
fn what_waits_is_known_from_cursors_and_is_a_lap_at_most() {
    let (mut sender, mut receiver, mut pools, ring) = link();
    let mut halves = 0;
    let mut counted = |receiver: &mut RxLink| {
        receiver.count_waiting(1, false);
        let now = receiver.occupancy.halves;
        now - std::mem::replace(&mut halves, now)
    };
    assert_eq!(counted(&mut receiver), 0);
    send(&mut sender, &mut pools, 5);
    assert_eq!(counted(&mut receiver), 0, "the turn is not over");
    sender.settle();
    // They have come one by one since the moment before, for all that is known.
    assert_eq!(counted(&mut receiver), 5);
    assert_eq!(receiver.occupancy.samples, 3);
    let mut load = Load::default();
    assert_eq!(receiver.pull(8, &mut pools, &mut load, true), 5);
    receiver.commit();
    load.release(&mut pools);
    assert_eq!(counted(&mut receiver), 0);
    // A sender that lies.
    ring.settled().store(1 << 40, Ordering::Release);
    assert_eq!(counted(&mut receiver), u64::from(SLOTS));
}
