//! What a worker sees of packets whose maker writes on.

use catena_shm::descriptor::Descriptor;
use catena_shm::pool::{PoolGeometry, PoolOwner, PoolView};
use catena_shm::region::Sharing;

use super::testing::{ends, spec};
use super::{RxLink, TxLink};
use crate::chain::{Aggregate, Trust};
use crate::drop_reason::DropReason;
use crate::load::Load;
use crate::nf::{Burst, Hold, Verdict};
use crate::pools::Pools;
use crate::protocol::RingSpec;

const COUNT: usize = 32;

/// A maker's pools, which it has sealed, and those of a worker that may only read them.
fn pools() -> (Pools, Pools) {
    let owner = |id, log2_stride, buffer_count, bundles| {
        let geometry = PoolGeometry {
            log2_stride,
            buffer_count,
            headroom: if bundles { 0 } else { 64 },
            bundles,
        };
        PoolOwner::create(id, geometry, Sharing::ReadOnly).unwrap()
    };
    let owners = vec![owner(1, 11, 64, false), owner(2, 13, 4, true)];
    let mut theirs = Pools::new(Vec::new());
    for owner in &owners {
        let (fd, len) = owner.memory();
        let fd = fd.try_clone_to_owned().unwrap();
        let (id, geometry) = (owner.id(), owner.geometry());
        let view = PoolView::attach(id, geometry, fd, len, Sharing::ReadOnly).unwrap();
        theirs.add_view(view);
    }
    (Pools::new(owners), theirs)
}

fn link(aggregate: Aggregate) -> (TxLink, RxLink) {
    let (sending, receiving, _) = ends(&RingSpec {
        trust: Trust::Ro,
        aggregate,
        ..spec(256)
    });
    (sending, receiving)
}

/// The maker writes over all packets that there are, whoever has them.
fn scribble(ours: &Pools) {
    for owner in ours.own() {
        let (geometry, view) = (owner.geometry(), owner.view());
        for index in 0..geometry.buffer_count {
            let offset = index << geometry.log2_stride;
            let len = 1_u16 << geometry.log2_stride;
            let all = if geometry.bundles {
                Descriptor::bundled(0, owner.id(), offset + 528, (len - 528, 0), 0)
            } else {
                Descriptor {
                    pool: owner.id(),
                    len: len.into(),
                    offset,
                    ..Descriptor::default()
                }
            };
            view.packet(&all).unwrap().bytes_mut().fill(9);
        }
    }
}

#[test]
fn an_nf_sees_one_value_of_a_packet_that_its_maker_changes() {
    for aggregate in [Aggregate::Off, Aggregate::On] {
        let ((mut ours, mut theirs), (mut sender, mut receiver)) = (pools(), link(aggregate));
        let mut load = Load::default();
        ours.alloc_each(COUNT, 60, |mut packet| {
            packet.bytes_mut().fill(1);
            load.packets.push(packet);
        });
        load.count_bytes();
        assert_eq!(sender.send(&mut load, &mut ours).packets, 0);
        sender.settle();
        let pulled = receiver.pull(64, &mut theirs, &mut load, true);
        assert_eq!(pulled, COUNT, "{aggregate:?}");
        assert_eq!(load.bundles.is_empty(), aggregate == Aggregate::Off);

        let (mut verdicts, mut hold) = (Vec::new(), Hold::default());
        let mut burst = Burst::new(&mut load, &mut verdicts, &mut hold, &mut theirs, 0);
        for _ in 0..2 {
            let mut seen = 0;
            burst.judge(|bytes| {
                assert_eq!(bytes, [1; 60], "{aggregate:?}");
                seen += 1;
                Verdict::Output(0)
            });
            assert_eq!(seen, COUNT);
            scribble(&ours);
        }
        for (packet, _) in burst.iter_mut() {
            assert_eq!(packet.bytes(), [1; 60], "{aggregate:?}");
        }
        assert_eq!(theirs.violations(), 0);
    }
}

#[test]
fn packets_of_a_pool_that_is_not_known_are_refused_and_counted_as_drops() {
    for aggregate in [Aggregate::Off, Aggregate::On] {
        let ((mut ours, _), (mut sender, mut receiver)) = (pools(), link(aggregate));
        let mut load = Load::default();
        ours.alloc_each(COUNT, 60, |packet| load.packets.push(packet));
        load.count_bytes();
        assert_eq!(sender.send(&mut load, &mut ours).packets, 0);
        sender.settle();
        let mut strangers = Pools::new(Vec::new());
        assert_eq!(receiver.pull(64, &mut strangers, &mut load, true), COUNT);
        assert!(load.packets.is_empty() && load.bundles.is_empty());
        assert!(receiver.counters.violations > 0);
        let dropped = receiver.take_dropped().into_iter();
        let dropped: Vec<_> = dropped.filter(|(_, count)| *count > 0).collect();
        let count = COUNT as u64;
        assert_eq!(
            dropped,
            [(DropReason::BadDescriptor, count)],
            "{aggregate:?}"
        );
    }
}

/// A bundle of a pool of the receiver's own that is not out: none of its packets is taken, and each
/// is counted.
#[test]
fn bundles_that_cannot_have_come_are_counted_by_their_packets() {
    let fill = |ours: &mut Pools, sender: &mut TxLink| {
        let mut load = Load::default();
        ours.alloc_each(COUNT, 60, |packet| load.packets.push(packet));
        load.count_bytes();
        assert_eq!(sender.send(&mut load, ours).packets, 0);
        sender.settle();
    };
    let ((mut ours, _), (mut sender, mut receiver)) = (pools(), link(Aggregate::On));
    fill(&mut ours, &mut sender);
    let mut load = Load::default();
    assert_eq!(receiver.pull(64, &mut ours, &mut load, true), COUNT);
    assert_eq!(load.count(), COUNT);
    load.release(&mut ours);
    // The same descriptors once more, of somebody who has the same buffers by these numbers.
    let (mut liar, _) = pools();
    fill(&mut liar, &mut sender);
    let mut load = Load::default();
    assert_eq!(receiver.pull(64, &mut ours, &mut load, true), COUNT);
    assert_eq!((load.count(), load.bytes), (0, 0));
    let dropped: u64 = receiver.take_dropped().iter().map(|(_, count)| count).sum();
    assert_eq!(dropped, COUNT as u64);
}
