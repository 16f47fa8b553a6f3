//! The owner's account and the checks of descriptors.

use super::*;
use crate::descriptor::Descriptor;
use crate::packet::Packet;
use crate::region::Sharing;

const GEOMETRY: PoolGeometry = PoolGeometry {
    log2_stride: 7,
    buffer_count: 8,
    headroom: 64,
    bundles: false,
};

fn owner() -> PoolOwner {
    PoolOwner::create(3, GEOMETRY, Sharing::ReadWrite).unwrap()
}

#[test]
fn every_buffer_can_be_had_once() {
    let mut owner = owner();
    let packets: Vec<_> = std::iter::from_fn(|| owner.alloc(64)).collect();
    assert_eq!(packets.len(), 8);
    let mut indices: Vec<_> = packets.iter().map(Packet::buffer_index).collect();
    indices.sort_unstable();
    assert_eq!(indices, (0..8).collect::<Vec<_>>());
    for packet in packets {
        owner.free(packet);
    }
    assert_eq!(owner.free_count(), 8);
}

#[test]
fn a_packet_too_large_or_empty_is_refused() {
    let mut owner = owner();
    assert!(owner.alloc(65).is_none());
    assert!(owner.alloc(0).is_none());
    assert_eq!(owner.free_count(), 8);
}

#[test]
fn a_packet_grows_and_shrinks_within_its_buffer() {
    let mut owner = owner();
    let mut packet = owner.alloc(60).unwrap();
    packet.bytes_mut().fill(7);
    assert_eq!((packet.headroom(), packet.tailroom()), (64, 4));
    packet.push_front(64).unwrap();
    assert!(packet.push_front(1).is_err());
    assert_eq!(&packet.bytes()[64..], [7; 60]);
    packet.pull_front(100).unwrap();
    assert_eq!(packet.bytes(), [7; 24]);
    assert!(packet.pull_front(24).is_err());
    packet.set_len(28).unwrap();
    assert!(packet.set_len(29).is_err());
    owner.free(packet);
}

#[test]
fn bytes_reach_another_mapping_and_bad_descriptors_do_not() {
    let mut owner = owner();
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let view = PoolView::attach(3, GEOMETRY, fd, len, Sharing::ReadWrite).unwrap();
    let mut packet = owner.alloc(40).unwrap();
    packet.bytes_mut().fill(9);
    packet.set_tag(77);
    let good = packet.descriptor();
    let seen = view.packet(&good).unwrap();
    assert_eq!((seen.bytes(), seen.tag()), (&[9; 40][..], 77));
    for bad in [
        Descriptor { len: 0, ..good },
        Descriptor { len: 65, ..good },
        Descriptor {
            len: u32::MAX,
            ..good
        },
        Descriptor {
            offset: u32::MAX,
            ..good
        },
        Descriptor {
            offset: u32::try_from(len).unwrap(),
            len: 1,
            ..good
        },
        Descriptor { kind: 1, ..good },
    ] {
        assert!(view.packet(&bad).is_err(), "{bad:?}");
    }
}

#[test]
fn only_what_is_out_by_the_right_link_comes_home_and_only_once() {
    let mut owner = owner();
    let packet = owner.alloc(64).unwrap();
    let index = packet.buffer_index();
    let (mut via_two, mut via_three) = (LinkSet::default(), LinkSet::default());
    via_two.insert(2);
    via_three.insert(3);
    assert_eq!(
        owner.take_home(index, &via_two),
        Err(Violation),
        "still in hand"
    );
    owner.send_out(index, 2);
    assert_eq!(
        owner.take_home(index, &via_three),
        Err(Violation),
        "another link"
    );
    assert_eq!(owner.take_home(index, &via_two), Ok(()));
    assert_eq!(owner.take_home(index, &via_two), Err(Violation), "twice");
    assert_eq!(
        owner.take_home(99, &LinkSet::ALL),
        Err(Violation),
        "no such buffer"
    );
    assert_eq!((owner.free_count(), owner.out_count()), (8, 0));
}

#[test]
fn a_new_owner_continues_where_the_ledger_says() {
    let mut dead = owner();
    let packet = dead.alloc(64).unwrap();
    let index = packet.buffer_index();
    dead.send_out(index, 5);
    let (ledger, ledger_len) = dead.ledger();
    let out = read_ledger(ledger.try_clone_to_owned().unwrap(), ledger_len, GEOMETRY).unwrap();
    assert_eq!(out, [(index, 5)]);
    let (fd, len) = dead.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let mut heir = PoolOwner::adopt(3, GEOMETRY, fd, len, &out).unwrap();
    assert_eq!((heir.free_count(), heir.out_count()), (7, 1));
    assert_eq!(heir.out_buffers(), 1);
    assert_eq!(heir.take_home(index, &LinkSet::ALL), Ok(()));
    assert_eq!(heir.free_count(), 8);
}

/// Two slabs, the second of them not whole.
fn two_slabs() -> PoolOwner {
    let geometry = PoolGeometry {
        buffer_count: 100,
        ..GEOMETRY
    };
    PoolOwner::create(3, geometry, Sharing::ReadWrite).unwrap()
}

fn all_out(owner: &mut PoolOwner, link: u8) -> Vec<Packet> {
    let packets: Vec<_> = std::iter::from_fn(|| owner.alloc(64)).collect();
    let mut rest = packets.as_slice();
    while let Some(run) = UnitRun::at_start_of(rest) {
        owner.send_out_slots(run.group, run.mask, link);
        rest = &rest[run.count..];
    }
    packets
}

#[test]
fn a_burst_leaves_and_comes_home_by_slabs() {
    let mut owner = two_slabs();
    let packets = all_out(&mut owner, 5);
    let first = UnitRun::at_start_of(&packets).unwrap();
    assert_eq!((first.group, first.mask, first.count), (0, u64::MAX, 64));
    let second = UnitRun::at_start_of(&packets[64..]).unwrap();
    let mask = u64::MAX >> 28;
    assert_eq!((second.group, second.mask, second.count), (1, mask, 36));
    let (fd, len) = owner.ledger();
    let geometry = owner.geometry();
    let ledger = read_ledger(fd.try_clone_to_owned().unwrap(), len, geometry).unwrap();
    assert!(ledger.into_iter().eq((0..100).map(|unit| (unit, 5))));
    assert_eq!((owner.out_count(), owner.free_count()), (100, 0));
    assert_eq!(owner.take_home_slots(1, mask, &LinkSet::ALL), Ok(()));
    assert_eq!(owner.take_home_slots(0, 1 << 9, &LinkSet::ALL), Ok(()));
    assert_eq!((owner.out_count(), owner.free_count()), (63, 37));
    let again: Vec<u32> = std::iter::from_fn(|| owner.alloc(64))
        .map(|packet| packet.buffer_index())
        .collect();
    assert!(again.into_iter().eq((64..100).chain([9])));
}

#[test]
fn a_slab_comes_home_all_or_none() {
    let mut owner = two_slabs();
    let _packets = all_out(&mut owner, 5);
    let (mut via_five, mut via_six) = (LinkSet::default(), LinkSet::default());
    via_five.insert(5);
    via_six.insert(6);
    owner.take_home(7, &via_five).unwrap();
    for (group, mask, links, why) in [
        (0, 0b1100_0000, via_five, "one of them is at home"),
        (0, 0b1, via_six, "another link"),
        (1, 1 << 36, via_five, "behind the last buffer"),
        (1, u64::MAX, via_five, "some behind the last buffer"),
        (2, 1, via_five, "no such slab"),
        (u32::MAX, 1, via_five, "no such slab"),
        (0, 0, via_five, "nothing"),
    ] {
        assert_eq!(
            owner.take_home_slots(group, mask, &links),
            Err(Violation),
            "{why}"
        );
        assert_eq!((owner.out_count(), owner.free_count()), (99, 1), "{why}");
    }
}

#[test]
fn what_the_owner_freed_itself_is_used_next_and_what_came_home_last() {
    let mut owner = two_slabs();
    let mut packets: Vec<_> = std::iter::from_fn(|| owner.alloc(64)).take(64).collect();
    owner.send_out(3, 5);
    owner.take_home(3, &LinkSet::ALL).unwrap();
    let hot = packets.remove(63);
    assert_eq!(hot.buffer_index(), 63);
    // The slab waits already, behind the other one.
    owner.free(hot);
    let next: Vec<u32> = std::iter::from_fn(|| owner.alloc(64))
        .map(|packet| packet.buffer_index())
        .collect();
    assert!(next.into_iter().eq((64..100).chain([3, 63])));
    let last = packets.pop().unwrap();
    owner.free(last);
    assert_eq!(owner.alloc(64).unwrap().buffer_index(), 62);
}

#[test]
fn what_is_left_open_travels_with_the_packet_and_ends_with_it() {
    use crate::offload::Offload;

    let mut owner = owner();
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let view = PoolView::attach(3, GEOMETRY, fd, len, Sharing::ReadWrite).unwrap();
    let cut = Offload::segments_of(1448).unwrap();
    let mut packet = owner.alloc(40).unwrap();
    assert!(packet.offload().is_none());
    packet.set_offload(cut).unwrap();
    packet.set_tag(77);
    packet.push_front(4).unwrap();
    let named = packet.descriptor();
    let seen = view.packet(&named).unwrap();
    assert_eq!((seen.offload(), seen.tag(), seen.len()), (cut, 77, 44));
    assert_eq!(seen.bytes(), packet.bytes());
    // Bounds are those of any packet.
    let long = packet.descriptor().opened().unwrap().0;
    let long = Descriptor { len: 129, ..long }.left_open(Offload::CHECKSUM);
    assert!(view.packet(&long).is_err());
    packet.set_offload(Offload::NONE).unwrap();
    assert_eq!(packet.descriptor(), named.opened().unwrap().0);
    packet.set_offload(cut).unwrap();
    owner.free(packet);
    let again: Vec<_> = std::iter::from_fn(|| owner.alloc(64)).collect();
    assert!(again.iter().all(|packet| packet.offload().is_none()));
    again.into_iter().for_each(|packet| owner.free(packet));
}
