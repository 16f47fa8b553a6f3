//! The owner's account and the checks of descriptors.

use super::*;

const GEOMETRY: PoolGeometry = PoolGeometry {
    log2_stride: 7,
    buffer_count: 8,
    headroom: 64,
    frames: false,
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
    assert_eq!(heir.take_home(index, &LinkSet::ALL), Ok(()));
    assert_eq!(heir.free_count(), 8);
}
