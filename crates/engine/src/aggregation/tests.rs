//! What becomes of a burst, descriptor by descriptor.

use catena_shm::descriptor::kind;
use catena_shm::pool::{PoolGeometry, PoolOwner};
use catena_shm::region::Sharing;
use proptest::prelude::*;

use super::*;
use crate::load::Load;

const LINK: u8 = 4;

/// Pools as a worker that sends has them: 128 B, 2 KiB, and so many bundles.
fn pools(bundles: u32) -> Pools {
    let pool = |id, log2_stride, buffer_count, bundles| {
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom: if bundles { 0 } else { 64 },
            bundles,
        };
        PoolOwner::create(id, geometry, Sharing::ReadWrite).unwrap()
    };
    let mut own = vec![pool(1, 7, 256, false), pool(2, 11, 256, false)];
    own.push(pool(3, 13, bundles, true));
    Pools::new(own)
}

fn packet(pools: &mut Pools, number: u32, len: usize) -> Packet {
    let mut packet = pools.alloc(len).unwrap();
    packet.bytes_mut().fill(u8::try_from(number % 251).unwrap());
    packet.set_tag(u16::try_from(number).unwrap());
    packet
}

fn burst(pools: &mut Pools, lens: &[usize]) -> Vec<Packet> {
    let numbered = (0..).zip(lens);
    numbered.map(|(n, len)| packet(pools, n, *len)).collect()
}

fn describe(packer: &mut Packer, packets: &mut Vec<Packet>, pools: &mut Pools) -> Vec<Descriptor> {
    let mut descriptors = Vec::new();
    packer.describe(packets, pools, &mut descriptors);
    pools.send_out_described(&descriptors, LINK);
    descriptors
}

/// The packets that descriptors name, as they would come back to their owner.
fn arrive(descriptors: &[Descriptor], pools: &mut Pools) -> Vec<Packet> {
    let mut load = Load::default();
    for descriptor in descriptors {
        if descriptor.kind == kind::BUNDLE {
            let (bundle, _) = pools.look_at_bundle(descriptor).unwrap();
            let (bytes, bad) = bundle.check();
            assert_eq!(bad, 0);
            load.push_bundle(bundle, bytes);
        } else {
            load.packets.push(pools.look_at(descriptor).unwrap().0);
        }
    }
    assert_eq!(pools.arrived(&mut load.packets, 0), 0);
    assert_eq!(pools.arrived_bundles(&mut load, 0), 0);
    assert_eq!(load.take_apart(pools), 0);
    load.packets
}

fn spans(descriptors: &[Descriptor]) -> Vec<u32> {
    descriptors.iter().map(Descriptor::span).collect()
}

fn all_home(pools: &Pools) -> bool {
    let mut own = pools.own().iter();
    own.all(|pool| pool.free_count() == pool.geometry().buffer_count && pool.out_count() == 0)
}

#[test]
fn small_packets_share_and_large_ones_go_alone() {
    let mut pools = pools(4);
    let mut packer = Packer::new(Aggregate::On, 0, 1);
    let mut packets = burst(&mut pools, &[60, 60, 1500, 60, 513, 512, 512]);
    let descriptors = describe(&mut packer, &mut packets, &mut pools);
    assert_eq!(spans(&descriptors), [2, 1, 1, 1, 2]);
    assert_eq!(packer.counters.packed_bytes, 60 + 60 + 512 + 512);
    let tags: Vec<_> = arrive(&descriptors, &mut pools)
        .iter()
        .map(Packet::tag)
        .collect();
    assert_eq!(tags, [0, 1, 2, 3, 4, 5, 6], "in order");
}

#[test]
fn a_bundle_is_passed_on_without_a_copy_and_split_into_views() {
    let mut pools = pools(4);
    let mut packer = Packer::new(Aggregate::On, 0, 1);
    let mut packets = burst(&mut pools, &[60; 12]);
    let first = describe(&mut packer, &mut packets, &mut pools);
    assert_eq!(spans(&first), [12]);
    let copied = packer.counters.packed_bytes;
    // A branch: every third goes another way.
    let (mut these, mut those): (Vec<_>, Vec<_>) = arrive(&first, &mut pools)
        .into_iter()
        .partition(|packet| packet.tag() % 3 != 0);
    let here = describe(&mut packer, &mut these, &mut pools);
    let there = describe(&mut packer, &mut those, &mut pools);
    assert_eq!((spans(&here), spans(&there)), (vec![8], vec![4]));
    assert_eq!(here[0].offset, there[0].offset, "views of one buffer");
    assert_eq!(packer.counters.packed_bytes, copied, "nothing was copied");
    let back = arrive(&there, &mut pools);
    assert!(back.iter().all(|packet| packet.tag() % 3 == 0));
    pools.release(&back);
    assert!(!all_home(&pools), "the other view is still out");
    let back = arrive(&here, &mut pools);
    pools.release(&back);
    assert!(all_home(&pools));
}

#[test]
fn thin_bundles_are_packed_again() {
    let mut pools = pools(16);
    let mut packer = Packer::new(Aggregate::On, 0, 1);
    let mut thin = Vec::new();
    for _ in 0..8 {
        let mut pair = burst(&mut pools, &[60; 2]);
        let descriptors = describe(&mut packer, &mut pair, &mut pools);
        thin.extend(arrive(&descriptors, &mut pools));
    }
    let descriptors = describe(&mut packer, &mut thin, &mut pools);
    assert_eq!(spans(&descriptors), [16]);
    let back = arrive(&descriptors, &mut pools);
    pools.release(&back);
    assert!(all_home(&pools));
}

#[test]
fn without_a_free_bundle_packets_go_one_by_one() {
    let mut pools = pools(1);
    let mut packer = Packer::new(Aggregate::On, 0, 1);
    let mut packets = burst(&mut pools, &[60; 4]);
    let kept = describe(&mut packer, &mut packets, &mut pools);
    let mut packets = burst(&mut pools, &[60; 4]);
    let descriptors = describe(&mut packer, &mut packets, &mut pools);
    assert_eq!((spans(&kept), spans(&descriptors)), (vec![4], vec![1; 4]));
}

#[test]
fn auto_begins_with_large_bursts_of_small_packets_and_ends_late() {
    let mut packer = Packer::new(Aggregate::Auto, 0, 1);
    let mut settle = |count: usize, len: usize| {
        let mut last = false;
        for _ in 0..100 {
            last = packer.wants(count, (count * len) as u64);
        }
        last
    };
    assert!(!settle(1, 60), "a lone packet goes as it is");
    assert!(!settle(7, 60));
    assert!(settle(32, 60));
    assert!(settle(5, 60), "it does not give up at once");
    assert!(!settle(3, 60));
    assert!(!settle(64, 1500), "large packets are not worth copying");
    assert!(settle(64, 64));
    assert!(!Packer::new(Aggregate::Off, 0, 1).wants(64, 4096));
    assert!(
        !Packer::new(Aggregate::On, 0, 1).wants(1, 60),
        "nothing to share with"
    );
}

proptest! {
    /// Any sizes, any packets dropped on the way, any number of bundles: what is left arrives in
    /// order with its bytes, every descriptor counts its packets, and everything comes home.
    #[test]
    fn bursts_arrive_whole_and_come_home(
        lens in prop::collection::vec(prop_oneof![40_usize..200, 400_usize..700], 1..64),
        dropped in prop::collection::vec(any::<bool>(), 64),
        bundles in 0_u32..4,
        hops in 1_usize..4,
    ) {
        let mut pools = pools(bundles.max(1));
        let mut packer = Packer::new(Aggregate::On, 4, 1);
        let mut packets = burst(&mut pools, &lens);
        for hop in 0..hops {
            let gone = |packet: &Packet| dropped[(packet.tag() as usize + hop) % 64];
            let (lost, mut kept): (Vec<_>, Vec<_>) = packets.into_iter().partition(gone);
            pools.release(&lost);
            let tags: Vec<_> = kept.iter().map(Packet::tag).collect();
            let descriptors = describe(&mut packer, &mut kept, &mut pools);
            let count: u32 = spans(&descriptors).iter().sum();
            prop_assert_eq!(count as usize, tags.len());
            packets = arrive(&descriptors, &mut pools);
            let arrived: Vec<_> = packets.iter().map(Packet::tag).collect();
            prop_assert_eq!(arrived, tags);
            for packet in &packets {
                let byte = u8::try_from(packet.tag() % 251).unwrap();
                prop_assert_eq!(packet.len(), lens[packet.tag() as usize]);
                prop_assert!(packet.bytes().iter().all(|here| *here == byte));
            }
        }
        pools.release(&packets);
        prop_assert!(all_home(&pools));
    }
}
