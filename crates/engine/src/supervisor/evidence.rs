//! Evidence: what a worker's own memory says against it.
//!
//! A worker that accuses its neighbour may be lying, so its word ends nobody. Each side of a ring
//! is written by one worker alone, sealed by the kernel against all others; what stands there that
//! no honest worker ever stores is that worker's doing, and no peer can forge it. What an honest
//! worker passes on at another's word (a tag, a buffer's size) is no evidence against it. Every
//! word is judged by itself, so that a look in the middle of an honest worker's store finds
//! nothing. A worker that covers its tracks is not found out; it has done no harm either, since its
//! neighbour refuses what is impossible.

use catena_shm::bundle;
use catena_shm::descriptor::{Descriptor, kind};
use catena_shm::ring::{INDEX_MAX, RingMemory};
use catena_shm::ring_memory::{MappedRing, Side};
use catena_shm::sync::Ordering;

use crate::chain::Trust;
use crate::placement::Placement;
use crate::protocol::PoolSpec;
use crate::supervisor::Supervisor;
use crate::supervisor::memory::RingName;

/// What descriptors of one ring may hold, word by word.
#[derive(Debug)]
struct Bounds<'a> {
    carries: Carries,
    pools: &'a [PoolSpec],
}

/// What a ring carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Carries {
    /// Packets where they lie.
    Packets,
    /// Packets in a staging area of that many bytes.
    Copies(u32),
    /// Buffers on their way home.
    Returns,
}

impl Supervisor {
    /// What the memory of `side` of a ring holds that no honest worker writes.
    pub(super) fn evidence_against(&self, ring: &RingName, side: Side) -> Option<&'static str> {
        let mapped = self.memory.ring(ring, None)?;
        match side {
            Side::Consumer => against_consumer(&mapped),
            Side::Producer => against_producer(&mapped, &self.bounds(ring)),
        }
    }

    fn bounds(&self, ring: &RingName) -> Bounds<'_> {
        let carries = match ring.link {
            None => Carries::Returns,
            Some(link) if self.chain.links[link].trust == Trust::Copy => {
                Carries::Copies(ring.geometry.staging_bytes)
            }
            Some(_) => Carries::Packets,
        };
        let Placement { pools, .. } = &self.placement;
        Bounds { carries, pools }
    }
}

fn against_consumer(ring: &MappedRing) -> Option<&'static str> {
    // In this order: an honest consumer stores `read` first, and both only ever grow.
    let tail = ring.tail().load(Ordering::Acquire);
    let read = ring.read().load(Ordering::Acquire);
    if !ring.consumer.has_header() {
        return Some("the head of its tail's memory is overwritten");
    }
    if tail > read || read >= INDEX_MAX {
        return Some("its tail is not where a tail can be");
    }
    let congested = ring.consumer.congested().load(Ordering::Relaxed);
    (congested > 1).then_some("its word about congestion is neither yes nor no")
}

fn against_producer(ring: &MappedRing, bounds: &Bounds<'_>) -> Option<&'static str> {
    if !ring.producer.has_header() {
        return Some("the head of its ring's memory is overwritten");
    }
    if ring.settled().load(Ordering::Acquire) >= INDEX_MAX {
        return Some("it has settled more than can be sent");
    }
    let slots = (0..ring.slot_count()).map(|position| ring.slot(position).words());
    let mut impossible = slots.filter(|[word0, word1]| !bounds.allow(*word0, *word1));
    impossible
        .next()
        .map(|_| "a slot holds what is no descriptor of this ring")
}

impl Bounds<'_> {
    /// Whether an honest producer may have stored `word0` and, at whatever time, `word1`.
    fn allow(&self, word0: u64, word1: u64) -> bool {
        // A sequence has its top bit set; a slot that was never used is all zero.
        let first = Descriptor::from_words(word0, 0);
        let second = Descriptor::from_words(0, word1);
        let first_is_possible =
            word0 == 0 || (Descriptor::sequence_of(word0) >= 0x8000 && self.allow_first(first));
        first_is_possible && self.allow_second(second)
    }

    /// Kind, pool and `len`.
    fn allow_first(&self, descriptor: Descriptor) -> bool {
        let descriptor = match (self.carries, descriptor.opened()) {
            (Carries::Packets, Some((plain, _))) => plain,
            _ => descriptor,
        };
        let spec = self.pools.iter().find(|pool| pool.id == descriptor.pool);
        let len = u64::from(descriptor.len);
        match self.carries {
            Carries::Packets => {
                let most = spec.map_or(u64::from(u32::MAX), |pool| 1 << pool.log2_stride);
                // A pool may have gone with its owner, its descriptors may not.
                match descriptor.kind {
                    kind::PACKET => spec.is_none_or(is_plain) && (1..=most).contains(&len),
                    kind::BUNDLE => spec.is_none_or(is_of_bundles),
                    _ => spec.is_none_or(is_of_bundles) && is_bundled(&descriptor),
                }
            }
            Carries::Copies(bytes) => {
                // How many packets a bundle has is in the other word.
                let as_bundle = Descriptor {
                    tag: 1,
                    ..descriptor
                };
                // The pool's place says how large the packet's buffer was, as a power of two.
                let is_possible =
                    descriptor.kind == kind::PACKET && u32::from(descriptor.pool) < u32::BITS;
                (is_possible || bundle::staged(&as_bundle).is_ok())
                    && (1..=u64::from(bytes)).contains(&len)
            }
            Carries::Returns => {
                let count = spec.map_or(u32::MAX, |pool| pool.buffer_count);
                descriptor.kind == kind::RETURN_UNITS || {
                    let plain = spec.is_none_or(is_plain);
                    descriptor.returned().is_some() && plain && descriptor.len < count
                }
            }
        }
    }

    /// `offset` and `tag`.
    fn allow_second(&self, descriptor: Descriptor) -> bool {
        let most = |of: fn(&PoolSpec) -> u64| self.pools.iter().map(of).max().unwrap_or(u64::MAX);
        let offset = u64::from(descriptor.offset);
        match self.carries {
            // It may be of a larger pool that has gone.
            Carries::Packets => true,
            Carries::Copies(bytes) => offset < u64::from(bytes),
            Carries::Returns => {
                let count = most(|pool| pool.buffer_count.into());
                // `tag` is the half of a mask, which may have any bit, or an index.
                offset < count
            }
        }
    }
}

fn is_of_bundles(pool: &PoolSpec) -> bool {
    pool.bundles
}

fn is_plain(pool: &PoolSpec) -> bool {
    !pool.bundles
}

fn is_bundled(descriptor: &Descriptor) -> bool {
    let parts = descriptor.bundled_parts();
    parts.is_some_and(|(_, len, _)| len > 0)
}

#[cfg(test)]
mod tests {
    use catena_shm::offload::Offload;
    use catena_shm::pool::{PoolGeometry, PoolOwner};
    use catena_shm::region::Sharing;
    use catena_shm::ring::{Consumer, Producer};
    use catena_shm::ring_memory::{RingEnd, RingGeometry};
    use catena_shm::staging::StagingWriter;
    use proptest::prelude::*;

    use super::*;

    fn ring(staging_bytes: u32) -> MappedRing {
        let geometry = RingGeometry {
            slot_count: 8,
            staging_bytes,
        };
        MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        )
    }

    fn pool(id: u16, log2_stride: u8, buffer_count: u32) -> PoolSpec {
        PoolSpec {
            id,
            log2_stride,
            buffer_count,
            headroom: 64,
            owner: 0,
            writable: false,
            bundles: false,
        }
    }

    fn pools() -> Vec<PoolSpec> {
        let bundles = PoolSpec {
            bundles: true,
            ..pool(3, 13, 16)
        };
        vec![pool(0, 7, 64), pool(1, 11, 16), bundles]
    }

    /// A packet of one of the pools, or of one that is not there any more.
    fn packets() -> impl Strategy<Value = Descriptor> {
        prop_oneof![
            plain_packets(),
            open_packets(),
            bundles(),
            bundled_packets()
        ]
    }

    fn bundles() -> impl Strategy<Value = Descriptor> {
        (0_u32..16, 1_u64..).prop_map(|(buffer, mask)| Descriptor::bundle(3, buffer << 13, mask))
    }

    fn bundled_packets() -> impl Strategy<Value = Descriptor> {
        (0_u32..64, any::<u8>(), any::<u32>()).prop_map(|(slot, headroom, tag)| {
            Descriptor::bundled(slot, 3, 4096, (60, headroom), tag)
        })
    }

    fn open_packets() -> impl Strategy<Value = Descriptor> {
        (plain_packets(), 0_usize..1 << 14).prop_map(|(packet, bytes)| {
            packet.left_open(Offload::segments_of(bytes).unwrap_or(Offload::CHECKSUM))
        })
    }

    fn plain_packets() -> impl Strategy<Value = Descriptor> {
        (0_u16..3, 0_u32..16, 1_u32..128, any::<u32>()).prop_map(|(pool, buffer, len, tag)| {
            let offset = buffer << if pool == 1 { 11 } else { 7 };
            Descriptor {
                kind: kind::PACKET,
                pool,
                len,
                offset,
                tag,
            }
        })
    }

    proptest! {
        #[test]
        fn nothing_speaks_against_the_honest(sent in prop::collection::vec(packets(), 0..40)) {
            let ring = ring(0);
            let pools = pools();
            let bounds = Bounds { carries: Carries::Packets, pools: &pools };
            let mut producer = Producer::new(ring.clone(), 0);
            let mut consumer = Consumer::new(ring.clone(), 0);
            let mut taken = Vec::new();
            for (turn, packet) in sent.iter().enumerate() {
                producer.push([*packet].into_iter());
                prop_assert_eq!(against_producer(&ring, &bounds), None);
                producer.settle();
                consumer.pull(8, &mut taken);
                prop_assert_eq!(against_consumer(&ring), None);
                if turn % 3 == 0 {
                    consumer.commit();
                }
            }
        }

        /// What is copied says how large its buffer was, whatever pools there are here.
        #[test]
        fn nothing_speaks_against_those_who_copy(
            sent in prop::collection::vec((1_usize..2000, any::<u16>()), 1..40),
        ) {
            let ring = ring(1 << 16);
            let pools = pools();
            let bounds = Bounds { carries: Carries::Copies(1 << 16), pools: &pools };
            let mut producer = Producer::new(ring.clone(), 0);
            let mut consumer = Consumer::new(ring.clone(), 0);
            let mut writer = StagingWriter::new(0, 1 << 16, 8);
            let geometry = PoolGeometry {
                log2_stride: 11,
                buffer_count: 4,
                headroom: 0,
                bundles: false,
            };
            let mut owner = PoolOwner::create(0, geometry, Sharing::ReadOnly).unwrap();
            let mut taken = Vec::new();
            for (len, tag) in sent {
                let mut packet = owner.alloc(len).unwrap();
                packet.set_tag(tag);
                writer.release(producer.tail_seen());
                let mut staged = Vec::new();
                if producer.room(1) > 0 && writer.stage_packet(&ring, &packet, &mut staged) {
                    producer.push(staged.into_iter());
                }
                prop_assert_eq!(against_producer(&ring, &bounds), None);
                owner.free(packet);
                producer.settle();
                consumer.pull(3, &mut taken);
                consumer.commit();
                prop_assert_eq!(against_consumer(&ring), None);
            }
        }

        /// Whatever two honest descriptors a look mixes up, it holds nothing against anybody.
        #[test]
        fn half_a_store_is_no_evidence(old in packets(), new in packets()) {
            let pools = pools();
            let bounds = Bounds { carries: Carries::Packets, pools: &pools };
            prop_assert!(bounds.allow(old.word0(0x8000), new.word1()));
            prop_assert!(bounds.allow(0, new.word1()));
        }

        #[test]
        fn returns_are_told_from_packets(indices in prop::collection::vec(0_u32..64, 1..4)) {
            let pools = pools();
            let back = Descriptor::returning(0, &indices);
            let of = |carries| Bounds { carries, pools: &pools };
            prop_assert!(of(Carries::Returns).allow(back.word0(0x8001), back.word1()));
            prop_assert!(!of(Carries::Packets).allow(back.word0(0x8001), back.word1()));
            prop_assert!(!of(Carries::Copies(4096)).allow(back.word0(0x8001), back.word1()));
        }
    }

    #[test]
    fn what_nobody_honest_writes_is_seen() {
        let pools = pools();
        let good = Descriptor {
            len: 60,
            offset: 64,
            ..Descriptor::default()
        };
        let open = |descriptor: Descriptor| descriptor.left_open(Offload::CHECKSUM);
        for (carries, bad) in [
            (Carries::Packets, open(Descriptor { len: 129, ..good })),
            (Carries::Packets, open(Descriptor { pool: 3, ..good })),
            (Carries::Copies(4096), open(good)),
            (Carries::Returns, open(good)),
            (Carries::Packets, Descriptor { kind: 0x3f, ..good }),
            (Carries::Packets, Descriptor { len: 129, ..good }),
            (Carries::Packets, Descriptor { len: 0, ..good }),
            (Carries::Packets, Descriptor { pool: 3, ..good }),
            (Carries::Packets, Descriptor::bundle(1, 0, 3)),
            (Carries::Packets, Descriptor::staged_bundle(0, 600, 1)),
            (Carries::Copies(4096), Descriptor::bundle(0, 0, 3)),
            (Carries::Copies(4096), Descriptor::staged_bundle(0, 528, 1)),
            (Carries::Returns, Descriptor::returning_slots(1, 64, 3)),
            (Carries::Copies(4096), Descriptor { len: 4097, ..good }),
            (Carries::Copies(4096), Descriptor { pool: 32, ..good }),
            (
                Carries::Copies(4096),
                Descriptor {
                    offset: 4096,
                    ..good
                },
            ),
            (Carries::Returns, Descriptor::returning(0, &[64])),
            (Carries::Returns, Descriptor::returning(1, &[3, 99])),
        ] {
            let ring = ring(0);
            let bounds = Bounds {
                carries,
                pools: &pools,
            };
            Producer::new(ring.clone(), 0).push([bad].into_iter());
            assert!(
                against_producer(&ring, &bounds).is_some(),
                "{carries:?} {bad:?}"
            );
        }
        for (tail, read) in [(5, 2), (1 << 62, 1 << 62), (0, u64::MAX)] {
            let ring = ring(0);
            ring.tail().store(tail, Ordering::Relaxed);
            ring.read().store(read, Ordering::Relaxed);
            assert!(against_consumer(&ring).is_some(), "{tail} {read}");
        }
    }
}
