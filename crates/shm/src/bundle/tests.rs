//! Bundles written and read: as sent, apart from each other, and whatever the table says.

use proptest::prelude::*;

use super::*;
use crate::pool::{PoolGeometry, PoolOwner, PoolView};
use crate::region::Sharing;
use crate::ring_memory::{RingEnd, RingGeometry, Side};
use crate::snapshots::Snapshots;
use crate::staging;

const POOL: PoolGeometry = PoolGeometry {
    log2_stride: 16,
    buffer_count: 3,
    headroom: 64,
    bundles: true,
};
const STRIDE: usize = 1 << 16;

fn owner(log2_stride: u8) -> PoolOwner {
    let geometry = PoolGeometry {
        log2_stride,
        ..POOL
    };
    PoolOwner::create(3, geometry, Sharing::ReadWrite).unwrap()
}

/// The pool as another process sees it. To be kept while packets of it are.
fn view(owner: &PoolOwner, bundles: bool) -> PoolView {
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let geometry = PoolGeometry {
        bundles,
        ..owner.geometry()
    };
    PoolView::attach(3, geometry, fd, len, Sharing::ReadWrite).unwrap()
}

/// Overwrites bytes of the pool, as a peer of the trust group can.
fn scribble(owner: &PoolOwner, at: usize, bytes: &[u8]) {
    let everything = view(owner, false);
    let whole = Descriptor {
        pool: 3,
        offset: u32::try_from(at).unwrap(),
        len: u32::try_from(bytes.len()).unwrap(),
        ..Descriptor::default()
    };
    let mut packet = everything.packet(&whole).unwrap();
    packet.bytes_mut().copy_from_slice(bytes);
}

fn set_entry(owner: &PoolOwner, buffer: u32, slot: usize, offset: u16, len: u16) {
    let at = (buffer as usize * STRIDE) + TABLE_OFFSET + 8 * slot;
    let entry = Entry::new(offset.into(), len.into(), 7);
    scribble(owner, at, &entry.0.to_ne_bytes());
}

fn pack(owner: &mut PoolOwner, sizes: &[usize], headroom: u32) -> Descriptor {
    let mut bundle = owner.begin_bundle(headroom).unwrap();
    for (n, size) in sizes.iter().enumerate() {
        let n = u8::try_from(n).unwrap();
        assert_eq!(bundle.add(&vec![n; *size], n.into()), Some(n.into()));
    }
    assert_eq!(bundle.used(), bytes_of(sizes.iter().copied(), headroom));
    owner.finish_bundle(bundle, 1).unwrap()
}

fn packets_of(
    view: &PoolView,
    descriptor: &Descriptor,
    each: impl FnMut(Packet),
) -> Result<u64, Violation> {
    view.bundle(descriptor)
        .map(|bundle| bundle.into_packets(each))
}

fn read(view: &PoolView, descriptor: &Descriptor) -> Vec<Packet> {
    let mut packets = Vec::new();
    assert_eq!(
        packets_of(view, descriptor, |packet| packets.push(packet)),
        Ok(0)
    );
    packets
}

/// First and last byte that a packet can ever reach, in its pool.
fn reach(packet: &Packet) -> (usize, usize) {
    let start = packet.offset() as usize;
    (
        start - packet.headroom(),
        start + packet.len() + packet.tailroom(),
    )
}

fn assert_apart(packets: &[Packet], low: usize, high: usize) {
    let mut floor = low;
    for packet in packets {
        let (start, end) = reach(packet);
        assert!(
            packet.len() > 0 && floor <= start && end <= high,
            "{packets:?}"
        );
        floor = end;
    }
}

fn sizes() -> impl Strategy<Value = Vec<usize>> {
    let size = prop_oneof![1_usize..600, Just(64), Just(33), Just(128), Just(1)];
    prop::collection::vec(size, 1..=64)
}

proptest! {
    /// What was packed is what is read, in one process and through a staging area.
    #[test]
    fn packets_arrive_as_packed(sizes in sizes(), headroom in 0_u32..256, view_of in any::<u64>()) {
        let mut owner = owner(16);
        let descriptor = pack(&mut owner, &sizes, headroom);
        let all = descriptor.mask();
        prop_assert_eq!(all.count_ones() as usize, sizes.len());
        let part = Descriptor::bundle(3, descriptor.offset, (all & view_of).max(1));
        let theirs = view(&owner, true);
        for descriptor in [descriptor, part] {
            let packets = read(&theirs, &descriptor);
            assert_apart(&packets, PACKETS_OFFSET as usize, STRIDE);
            let mut mask = 0;
            for packet in packets {
                let n = packet.slot() as usize;
                prop_assert_eq!(packet.bytes(), vec![u8::try_from(n).unwrap(); sizes[n]]);
                prop_assert_eq!(packet.tag() as usize, n);
                prop_assert_eq!(packet.offset() % 16, 0);
                prop_assert!(packet.headroom() >= headroom as usize);
                prop_assert_eq!((packet.unit(), packet.tailroom()), (packet.slot(), 0));
                prop_assert!(packet.rewrite(), "nothing changed");
                mask |= 1 << n;
            }
            prop_assert_eq!(mask, descriptor.mask());
        }
    }

    #[test]
    fn copied_packets_arrive_as_staged(sizes in sizes(), headroom in 0_u32..256) {
        let geometry = RingGeometry { slot_count: 64, staging_bytes: 1 << 18 };
        let ring = MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        );
        let mut area = StagingWriter::new(0, geometry.staging_bytes, geometry.slot_count);
        let len = bytes_of(sizes.iter().copied(), headroom);
        let count = u32::try_from(sizes.len()).unwrap();
        let descriptor = area.stage_bundle(&ring, (len, count), headroom, 1, |bundle| {
            for (n, size) in sizes.iter().enumerate() {
                let n = u8::try_from(n).unwrap();
                assert!(bundle.add(&vec![n; *size], n.into()).is_some());
            }
        }).unwrap();
        let mut owner = owner(16);
        let (bytes, count) = staged(&descriptor).unwrap();
        prop_assert_eq!((bytes.len as usize, count as usize), (len, sizes.len()));
        let index = owner.alloc_bundle().unwrap();
        let here = staging::staged(&ring, &bytes).unwrap();
        here.copy_to(owner.bundle_bytes(index, len).unwrap());
        let mut packets = Vec::new();
        let bad = owner.check_copied(index, len, count, |packet| packets.push(packet));
        prop_assert_eq!(bad, Ok(0));
        prop_assert_eq!(packets.len(), sizes.len());
        assert_apart(&packets, PACKETS_OFFSET as usize, len);
        for (n, packet) in packets.into_iter().enumerate() {
            prop_assert_eq!(packet.bytes(), vec![u8::try_from(n).unwrap(); sizes[n]]);
            owner.free(packet);
        }
        prop_assert_eq!(owner.free_count(), 3);
    }

    /// However packets of one bundle are changed, each has only its own bytes, here and at the next
    /// reader.
    #[test]
    fn packets_never_reach_their_neighbours(
        sizes in sizes(),
        headroom in 0_u32..256,
        changes in prop::collection::vec((any::<u8>(), 0_u8..4, 0_usize..300), 0..200),
    ) {
        let mut owner = owner(16);
        let descriptor = pack(&mut owner, &sizes, headroom);
        let (theirs, next) = (view(&owner, true), view(&owner, true));
        let mut packets = read(&theirs, &descriptor);
        for (which, what, count) in changes {
            let which = usize::from(which) % packets.len();
            let packet = &mut packets[which];
            let (before, room) = (reach(packet), (packet.headroom(), packet.len()));
            let done = match what {
                0 => packet.push_front(count).is_ok() == (count <= room.0),
                1 => packet.pull_front(count).is_ok() == (count < room.1),
                2 => packet.set_len(count).is_ok() == (count != 0 && count <= room.1),
                _ => packet.rewrite(),
            };
            prop_assert!(done);
            let after = reach(packet);
            prop_assert!(before.0 <= after.0 && after.1 <= before.1);
            packet.bytes_mut().fill(u8::try_from(which).unwrap());
            assert_apart(&packets, PACKETS_OFFSET as usize, STRIDE);
        }
        for packet in &mut packets {
            let slot = u8::try_from(packet.slot()).unwrap();
            packet.bytes_mut().fill(slot);
            packet.set_tag(u16::from(slot) + 1000);
            packet.set_mark(u16::from(slot) + 9);
            prop_assert!(packet.rewrite());
        }
        let again = read(&next, &descriptor);
        assert_apart(&again, PACKETS_OFFSET as usize, STRIDE);
        for (packet, before) in again.iter().zip(&packets) {
            let one = next.packet(&before.descriptor()).unwrap();
            for seen in [packet, &one] {
                prop_assert!(seen.bytes().iter().all(|byte| u32::from(*byte) == seen.slot()));
                prop_assert_eq!(seen.len(), before.len());
                prop_assert_eq!((seen.unit(), seen.metadata()), (before.unit(), before.metadata()));
            }
            prop_assert!(packet.headroom() >= before.headroom());
            prop_assert_eq!(one.headroom(), before.headroom());
        }
    }

    /// Any table and mask: good packets lie in the bundle and apart, and every slot is accounted
    /// for.
    #[test]
    fn any_table_gives_packets_in_bounds(
        table in prop::collection::vec(
            (prop_oneof![any::<u16>(), 500_u16..2000], prop_oneof![any::<u16>(), 0_u16..40]), 64),
        mask in 1_u64..,
        len in prop_oneof![0_usize..4096, Just(4096)],
        count in 0_u32..70,
    ) {
        let mut owner = owner(12);
        let index = owner.alloc_bundle().unwrap();
        let bytes: Vec<u8> = table
            .iter()
            .map(|(offset, len)| Entry::new((*offset).into(), (*len).into(), 0))
            .flat_map(|entry| entry.0.to_ne_bytes())
            .collect();
        owner.bundle_bytes(index, 528).unwrap()[TABLE_OFFSET..].copy_from_slice(&bytes);
        let mut packets = Vec::new();
        let theirs = view(&owner, true);
        let whole = Descriptor::bundle(3, index << 12, mask);
        let bad = packets_of(&theirs, &whole, |packet| packets.push(packet)).unwrap();
        let start = (index as usize) << 12;
        assert_apart(&packets, start + 528, start + 4096);
        let good = packets.iter().fold(0, |good, packet| good | 1 << packet.slot());
        prop_assert_eq!((good & bad, good | bad), (0, mask));
        // Taken whole, it has the same packets.
        let whole = theirs.bundle(&whole).unwrap();
        let mut seen = Vec::new();
        prop_assert_eq!(whole.each(|slot, bytes| seen.push((slot, bytes.as_ptr_range()))), bad);
        let singly = packets.iter().map(|packet| (packet.slot(), packet.bytes().as_ptr_range()));
        prop_assert_eq!(seen, singly.collect::<Vec<_>>());
        packets.clear();
        let copied = owner.check_copied(index, len, count, |packet| packets.push(packet));
        prop_assert_eq!(copied.is_err(), len <= 528 || count == 0 || count > 64);
        assert_apart(&packets, start + 528, start + len.max(528));
        for packet in packets {
            owner.free(packet);
        }
        prop_assert_eq!(owner.free_count(), 3);
    }
}

#[test]
fn every_wrong_entry_is_refused_and_only_that() {
    let mut owner = owner(16);
    let descriptor = pack(&mut owner, &[100; 4], 32);
    let theirs = view(&owner, true);
    let second = read(&theirs, &descriptor)[1].offset_in_buffer();
    let second = u16::try_from(second).unwrap();
    let wrong = [
        (0, 100),
        (527, 1),
        (528, 0),
        (second, 0),
        (u16::MAX, 2),
        (u16::MAX, u16::MAX),
        (65_436, 101),
        (560 + 99, 10),
        (560, 100),
    ];
    for (offset, len) in wrong {
        set_entry(&owner, 0, 1, offset, len);
        let mut slots = Vec::new();
        let bad = packets_of(&theirs, &descriptor, |packet| slots.push(packet.slot()));
        assert_eq!((bad, slots), (Ok(1 << 1), vec![0, 2, 3]), "{offset} {len}");
    }
    // The last byte of the buffer may be used, and the first behind the table.
    for (slot, offset, len) in [
        (3, u16::MAX, 1),
        (3, 65_436, 100),
        (0, 528, 1),
        (0, 528, 132),
    ] {
        set_entry(&owner, 0, 1, second, 100);
        set_entry(&owner, 0, slot, offset, len);
        assert_eq!(read(&theirs, &descriptor)[slot].len(), usize::from(len));
    }
    // An entry that reaches into the next packet is that one's limit, in its view or not.
    set_entry(&owner, 0, 1, second, 200);
    let mut slots = Vec::new();
    let bad = packets_of(&theirs, &descriptor, |packet| slots.push(packet.slot()));
    assert_eq!((bad, slots), (Ok(1 << 2), vec![0, 1, 3]));
    let alone = Descriptor::bundle(3, 0, 1 << 2);
    assert_eq!(
        packets_of(&theirs, &alone, |_| panic!("it overlaps")),
        Ok(1 << 2)
    );
}

#[test]
fn every_wrong_descriptor_is_refused() {
    let mut owner = owner(16);
    let good = pack(&mut owner, &[100; 4], 32);
    let theirs = view(&owner, true);
    let beyond = u32::try_from(owner.memory().1).unwrap();
    for bad in [
        Descriptor {
            kind: kind::PACKET,
            ..good
        },
        Descriptor {
            kind: kind::RETURN_UNITS,
            ..good
        },
        Descriptor { kind: 0x21, ..good },
        Descriptor { offset: 16, ..good },
        Descriptor {
            offset: beyond,
            ..good
        },
        Descriptor {
            offset: u32::MAX,
            ..good
        },
        Descriptor {
            offset: u32::MAX << 16,
            ..good
        },
        Descriptor { len: 0, ..good },
    ] {
        assert_eq!(
            packets_of(&theirs, &bad, |_| panic!("{bad:?}")),
            Err(Violation)
        );
    }
    let plain = view(&owner, false);
    assert_eq!(
        packets_of(&plain, &good, |_| panic!("no bundle pool")),
        Err(Violation)
    );
    assert!(theirs.packet(&good).is_err() && plain.packet(&good).is_err());
    let one = read(&theirs, &good)[1].descriptor();
    assert!(theirs.packet(&one).is_ok());
    assert!(plain.packet(&one).is_err(), "no bundle pool");
    let len = one.len;
    for bad in [
        Descriptor {
            kind: kind::PACKET,
            ..one
        },
        Descriptor {
            kind: kind::BUNDLE,
            ..one
        },
        Descriptor { kind: 0x80, ..one },
        Descriptor {
            len: len & !0xffff,
            ..one
        },
        Descriptor {
            len: len | 64 << 24,
            ..one
        },
        Descriptor {
            len: len | 0xffff,
            ..one
        },
        Descriptor {
            len: 200 << 16 | 100,
            ..one
        },
        Descriptor {
            offset: 527,
            len: 1,
            ..one
        },
        Descriptor {
            offset: 528,
            len: 1 << 16 | 1,
            ..one
        },
        Descriptor {
            offset: 65_535,
            len: 2,
            ..one
        },
        Descriptor {
            offset: beyond,
            len: 1,
            ..one
        },
        Descriptor {
            offset: beyond + 600,
            len: 1,
            ..one
        },
        Descriptor {
            offset: u32::MAX,
            len: 1,
            ..one
        },
    ] {
        // The region may have more bytes than its buffers: then what lies there is in bounds.
        assert!(theirs.packet(&bad).is_err(), "{bad:?}");
    }
    for fine in [(528, 1), (538, 10 << 16 | 1), (65_535, 1), (528, 65_008)] {
        let (offset, len) = fine;
        assert!(
            theirs.packet(&Descriptor { offset, len, ..one }).is_ok(),
            "{fine:?}"
        );
    }
}

#[test]
fn a_staged_bundle_of_a_wrong_size_is_refused() {
    let good = Descriptor::staged_bundle(64, 600, 64);
    assert!(staged(&good).is_ok());
    for bad in [
        Descriptor {
            kind: kind::PACKET,
            ..good
        },
        Descriptor { len: 528, ..good },
        Descriptor {
            len: 65_537,
            ..good
        },
        Descriptor {
            len: u32::MAX,
            ..good
        },
        Descriptor { tag: 0, ..good },
        Descriptor { tag: 65, ..good },
        Descriptor {
            tag: u32::MAX,
            ..good
        },
    ] {
        assert_eq!(staged(&bad), Err(Violation), "{bad:?}");
    }
}

#[test]
fn a_full_bundle_takes_no_more() {
    let mut pool = owner(10);
    let mut bundle = pool.begin_bundle(0).unwrap();
    assert!(bundle.add(&[], 0).is_none(), "no bytes");
    assert!(bundle.add(&[1; 497], 0).is_none() && !bundle.fits(497));
    assert!(bundle.fits(496) && bundle.add(&[1; 496], 0).is_some());
    assert!(bundle.add(&[1], 0).is_none());
    assert_eq!((bundle.used(), bundle.count()), (1024, 1));
    assert!(pool.finish_bundle(bundle, 0).is_some());
    let nothing = pool.begin_bundle(2000).unwrap();
    assert!(!nothing.fits(1));
    assert!(pool.finish_bundle(nothing, 0).is_none());
    assert_eq!(pool.free_count(), 2);
    let mut wide = owner(16);
    let mut bundle = wide.begin_bundle(0).unwrap();
    for n in 0..64 {
        assert_eq!(bundle.add(&[1], n), Some(n));
    }
    assert_eq!(bundle.add(&[1], 0), None, "64 slots");
    assert_eq!(wide.finish_bundle(bundle, 0).unwrap().mask(), u64::MAX);
    let mut bundle = wide.begin_bundle(0).unwrap();
    assert!(bundle.add(&vec![1; 65_009], 0).is_none() && bundle.add(&vec![1; 65_008], 9).is_some());
    let descriptor = wide.finish_bundle(bundle, 0).unwrap();
    assert_eq!(read(&wide.view(), &descriptor)[0].len(), 65_008);
}

#[test]
fn a_reader_that_may_not_write_sends_changed_packets_alone() {
    let mut owner = PoolOwner::create(3, POOL, Sharing::ReadOnly).unwrap();
    let descriptor = pack(&mut owner, &[100; 2], 32);
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let theirs = PoolView::attach(3, POOL, fd, len, Sharing::ReadOnly).unwrap();
    let mut copies = Snapshots::default();
    copies.make_room_for(STRIDE);
    let mut packets = Vec::new();
    let bundle = theirs.copied_bundle(&descriptor, &mut copies).unwrap();
    assert_eq!(bundle.into_packets(|packet| packets.push(packet)), 0);
    assert!(packets[0].rewrite(), "nothing changed");
    packets[1].pull_front(14).unwrap();
    assert!(packets[1].push_front(1).is_err(), "a copy does not grow");
    assert!(!packets[1].rewrite() && !packets[1].is_writable());
    let one = packets[1].descriptor();
    assert_eq!((one.kind, one.len >> 24), (kind::BUNDLED, 1));
    assert_eq!(one.offset, packets[1].offset());
    let seen = theirs.copied(&one, &mut copies).unwrap();
    copies.fill();
    assert_eq!((seen.bytes(), seen.slot()), (&[1; 86][..], 1));
    assert!(owner.alloc(1).is_none());
}

/// A maker that writes on: what was taken from the link is what is seen, table and bytes; what is
/// taken again is what is there then.
#[test]
fn a_reader_that_may_not_write_sees_one_value() {
    let mut owner = PoolOwner::create(3, POOL, Sharing::ReadOnly).unwrap();
    let descriptor = pack(&mut owner, &[100; 2], 32);
    let (fd, len) = owner.memory();
    let fd = fd.try_clone_to_owned().unwrap();
    let theirs = PoolView::attach(3, POOL, fd, len, Sharing::ReadOnly).unwrap();
    assert_eq!(packets_of(&theirs, &descriptor, |_| ()), Err(Violation));
    let mut copies = Snapshots::default();
    copies.make_room_for(STRIDE);
    let bundle = theirs.copied_bundle(&descriptor, &mut copies).unwrap();
    let mut hostile = Vec::new();
    owner
        .view()
        .bundle(&descriptor)
        .unwrap()
        .into_packets(|mut packet| {
            packet.bytes_mut().fill(9);
            packet.pull_front(50).unwrap();
            assert!(packet.rewrite());
            hostile.push(packet);
        });
    let seen = |bundle: &BundleView| {
        let mut seen = Vec::new();
        assert_eq!(bundle.each(|_, bytes| seen.push(bytes.to_vec())), 0);
        seen
    };
    assert_eq!(seen(&bundle), [[0; 100], [1; 100]]);
    assert_eq!(bundle.descriptor(descriptor.mask()), descriptor);
    let again = theirs.copied_bundle(&descriptor, &mut copies).unwrap();
    assert_eq!(seen(&again), [[9; 50]; 2]);
}
