//! The undertaker: what a dead worker held, from what it left in memory. Exact.
//!
//! A worker's turn stores, in this order: `read` of each ring before it acts on a burst, the slots
//! it publishes, its `tail`s, its `settled`s (see [`catena_shm::ring`]). Whatever the instant of
//! death:
//!
//! - *in hand* is what lies between `tail` and `read` of the links to it;
//! - *sent* is what it published from `settled` on, over links and return lanes;
//! - *lost* is what was in hand and not sent. Those buffers go home and are counted.
//!
//! What waits behind `read` is untouched and will be taken by the next instance; what it published
//! stays published. If it owned pools, what is *out* of them is what the ledger says, less what was
//! coming home in the unfinished turn, plus what that turn sent.
//!
//! Called only after the kernel has confirmed the exit: until then another thread could still
//! write.

use std::collections::{BTreeMap, BTreeSet};

use catena_shm::Descriptor;
use catena_shm::pool::PoolGeometry;
use catena_shm::ring::{INDEX_MAX, RingMemory, estate_of_producer, packets_in, published_between};

/// A unit of account: pool, and index of a buffer, or of a slot in a bundle pool.
pub type Unit = (u16, u32);

/// What a dead consumer left on one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// Where the next instance starts.
    pub resume: u64,
    /// What was in hand.
    pub in_hand: Vec<Descriptor>,
    /// Whether its cursors were impossible: it was broken or hostile.
    pub is_corrupt: bool,
}

/// What a dead producer left on one ring.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// Index of the first descriptor of the next instance: how many were published.
    pub resume: u64,
    /// What the unfinished turn published.
    pub sent: Vec<Descriptor>,
    /// Whether its cursor was impossible: it was broken or hostile.
    pub is_corrupt: bool,
}

/// Reads a ring whose consumer is dead.
pub fn inbound(ring: &impl RingMemory) -> Inbound {
    use catena_shm::sync::Ordering;
    let tail = ring.tail().load(Ordering::Acquire);
    let read = ring.read().load(Ordering::Acquire);
    let in_hand = read
        .checked_sub(tail)
        .filter(|count| *count <= u64::from(ring.slot_count()) && read < INDEX_MAX);
    let found = in_hand
        .map(|_| published_between(ring, tail, read))
        .unwrap_or_default();
    if in_hand == Some(packets_in(&found)) {
        return Inbound {
            resume: read,
            in_hand: found,
            is_corrupt: false,
        };
    }
    // The producer's own count is the only cursor left to believe: everything older is given up.
    let resume = ring.settled().load(Ordering::Acquire);
    Inbound {
        resume,
        in_hand: Vec::new(),
        is_corrupt: true,
    }
}

/// Reads a ring whose producer, which began at index `start`, is dead.
pub fn outbound(ring: &impl RingMemory, start: u64) -> Outbound {
    let (resume, sent, is_corrupt) = estate_of_producer(ring, start);
    Outbound {
        resume,
        sent,
        is_corrupt,
    }
}

/// Units that descriptors name; `geometry` gives each pool's buffers.
pub fn units_of<'a>(
    descriptors: impl IntoIterator<Item = &'a Descriptor>,
    geometry: &BTreeMap<u16, PoolGeometry>,
) -> BTreeSet<Unit> {
    let mut units = BTreeSet::new();
    for descriptor in descriptors {
        let pool = descriptor.pool;
        if let Some(geometry) = geometry.get(&pool) {
            let named = geometry.units_of(descriptor).into_iter();
            units.extend(named.map(|unit| (pool, unit)));
        }
    }
    units
}

/// Buffers that were in hand and not sent on.
pub fn lost(in_hand: &BTreeSet<Unit>, sent: &BTreeSet<Unit>) -> BTreeSet<Unit> {
    in_hand.difference(sent).copied().collect()
}

/// What is out of a dead owner's pool: for each buffer, the number of the link it left by.
pub fn still_out(
    pool: u16,
    ledger: &[(u32, u8)],
    arrived: &BTreeSet<Unit>,
    sent: &BTreeMap<Unit, u8>,
) -> Vec<(u32, u8)> {
    let mut out: BTreeMap<u32, u8> = ledger
        .iter()
        .filter(|(index, _)| !arrived.contains(&(pool, *index)))
        .copied()
        .collect();
    for ((id, index), link) in sent {
        if *id == pool {
            out.insert(*index, *link);
        }
    }
    out.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use catena_shm::ring::{Consumer, Producer};
    use catena_shm::ring_memory::{MappedRing, RingEnd, RingGeometry, Side};

    const GEOMETRY: PoolGeometry = PoolGeometry {
        log2_stride: 7,
        buffer_count: 64,
        headroom: 64,
        bundles: false,
    };

    fn ring() -> MappedRing {
        let geometry = RingGeometry {
            slot_count: 8,
            staging_bytes: 0,
        };
        MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        )
    }

    fn packet(index: u32) -> Descriptor {
        Descriptor {
            pool: 1,
            offset: (index << 7) + 64,
            len: 60,
            ..Descriptor::default()
        }
    }

    /// A worker that takes three packets, sends one, returns one, and is killed after each step.
    #[test]
    fn every_buffer_is_somewhere_after_every_step() {
        for steps in 0..=7 {
            let (rx, tx, lane) = (ring(), ring(), ring());
            let mut feed = Producer::new(rx.clone(), 0);
            feed.push((0..4).map(packet));
            feed.settle();
            let mut consumer = Consumer::new(rx.clone(), 0);
            let mut producer = Producer::new(tx.clone(), 0);
            let mut returns = Producer::new(lane.clone(), 0);
            let mut burst = Vec::new();
            let script: [&mut dyn FnMut(); 6] = [
                &mut || {
                    consumer.pull(3, &mut burst);
                },
                &mut || {
                    producer.push([packet(0)].into_iter());
                },
                &mut || {
                    returns.push([Descriptor::returning(1, &[1])].into_iter());
                },
                &mut || {},
                &mut || {},
                &mut || {},
            ];
            for step in script.into_iter().take(steps) {
                step();
            }
            if steps >= 4 {
                consumer.commit();
            }
            if steps >= 5 {
                producer.settle();
            }
            if steps >= 6 {
                returns.settle();
            }
            let geometry = BTreeMap::from([(1, GEOMETRY)]);
            let inbound = inbound(&rx);
            assert!(!inbound.is_corrupt);
            let sent = units_of(
                outbound(&tx, 0).sent.iter().chain(&outbound(&lane, 0).sent),
                &geometry,
            );
            let lost = lost(&units_of(&inbound.in_hand, &geometry), &sent);
            let waiting = published_between(&rx, inbound.resume, inbound.resume + 8).len();
            let forwarded = usize::try_from(outbound(&tx, 0).resume).unwrap();
            let returned = usize::try_from(outbound(&lane, 0).resume).unwrap();
            // Packet 2 is dropped by the script without being returned until the turn is over:
            // after the commit it would be a leak of the script's, so it is counted from there on.
            let leaked = usize::from(steps >= 4);
            assert_eq!(
                lost.len() + waiting + forwarded + returned + leaked,
                4,
                "step {steps}"
            );
        }
    }

    #[test]
    fn impossible_cursors_are_recognised() {
        use catena_shm::sync::Ordering;
        let rx = ring();
        let mut feed = Producer::new(rx.clone(), 0);
        feed.push((0..4).map(packet));
        feed.settle();
        for (tail, read) in [
            (5, 2),
            (0, 9),
            (0, u64::MAX),
            (100, 104),
            (u64::MAX, u64::MAX),
        ] {
            rx.tail().store(tail, Ordering::Relaxed);
            rx.read().store(read, Ordering::Relaxed);
            let found = inbound(&rx);
            assert!(
                found.is_corrupt && found.resume == 4,
                "{tail} {read}: {found:?}"
            );
        }
    }

    #[test]
    fn what_is_out_follows_the_unfinished_turn() {
        let ledger = [(1, 4), (2, 4), (3, 5)];
        let arrived = BTreeSet::from([(7, 2)]);
        let sent = BTreeMap::from([((7, 6), 4), ((7, 2), 5), ((8, 1), 4)]);
        assert_eq!(
            still_out(7, &ledger, &arrived, &sent),
            [(1, 4), (2, 5), (3, 5), (6, 4)]
        );
    }
}
