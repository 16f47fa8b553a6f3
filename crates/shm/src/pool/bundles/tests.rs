//! The account of slots against an obvious model: a map from unit to where it is.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::pool::read_ledger;
use crate::pool::units::words;
use crate::region::Sharing;

const COUNT: u32 = 3;
const POOL: PoolGeometry = PoolGeometry {
    log2_stride: 14,
    buffer_count: COUNT,
    headroom: 0,
    bundles: true,
};

fn owner() -> PoolOwner {
    PoolOwner::create(3, POOL, Sharing::ReadWrite).unwrap()
}

/// Slots that live: by no link while they are in hand.
type Model = BTreeMap<u32, Option<u8>>;

#[derive(Clone, Debug)]
enum Step {
    Pack(u32),
    Free(u32, u64),
    Send(u32, u64, u8),
    Arrive(u32, u64, u8, bool),
    Home(u32, u64, u8, bool),
    Adopt,
}

fn masks() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (0_u32..=64).prop_map(|count| if count == 0 {
            0
        } else {
            u64::MAX >> (64 - count)
        }),
        (0_u32..64).prop_map(|slot| 1 << slot),
        (any::<u64>(), any::<u64>()).prop_map(|(a, b)| a & b),
    ]
}

fn steps() -> impl Strategy<Value = Step> {
    let (buffer, link) = (0..COUNT + 1, 1_u8..3);
    prop_oneof![
        3 => (1_u32..=64).prop_map(Step::Pack),
        2 => (0..COUNT, masks()).prop_map(|(b, m)| Step::Free(b, m)),
        4 => (0..COUNT, masks(), link.clone()).prop_map(|(b, m, l)| Step::Send(b, m, l)),
        2 => (buffer.clone(), masks(), link.clone(), any::<bool>())
            .prop_map(|(b, m, l, out)| Step::Arrive(b, m, l, out)),
        4 => (buffer, masks(), link, any::<bool>())
            .prop_map(|(b, m, l, out)| Step::Home(b, m, l, out)),
        1 => Just(Step::Adopt),
    ]
}

/// The slots of a buffer of which `is` holds.
fn slots_where(model: &Model, buffer: u32, is: impl Fn(Option<u8>) -> bool) -> u64 {
    let here = model.iter().filter(|(unit, _)| **unit / 64 == buffer);
    here.filter(|(_, link)| is(**link))
        .fold(0, |mask, (unit, _)| mask | 1 << (unit % 64))
}

fn units(buffer: u32, mask: u64) -> impl Iterator<Item = u32> {
    (0..64)
        .filter(move |slot| mask >> slot & 1 == 1)
        .map(move |slot| buffer * 64 + slot)
}

fn ledger_of(owner: &PoolOwner) -> Vec<(u32, u8)> {
    let (fd, len) = owner.ledger();
    read_ledger(fd.try_clone_to_owned().unwrap(), len, POOL).unwrap()
}

fn check(owner: &PoolOwner, model: &Model) {
    let used = (0..COUNT).filter(|buffer| slots_where(model, *buffer, |_| true) != 0);
    assert_eq!(owner.free_count(), COUNT - used.count() as u32);
    let out: Vec<_> = model
        .iter()
        .filter_map(|(unit, link)| link.map(|link| (*unit, link)))
        .collect();
    assert_eq!(owner.out_count() as usize, out.len());
    assert_eq!(ledger_of(owner), out);
}

fn pack(owner: &mut PoolOwner, count: u32) -> Option<(u32, u64)> {
    let mut bundle = owner.begin_bundle(0)?;
    for _ in 0..count {
        bundle.add(&[1; 60], 0).unwrap();
    }
    let made = owner.finish_bundle(bundle, 0).unwrap();
    Some((made.offset >> POOL.log2_stride, made.mask()))
}

fn links(all: bool, link: u8) -> LinkSet {
    let mut links = LinkSet::default();
    links.insert(link);
    if all { LinkSet::ALL } else { links }
}

/// What the model says of slots that come over `links`.
fn come(model: &Model, buffer: u32, mask: u64, links: &LinkSet) -> bool {
    mask != 0
        && units(buffer, mask)
            .all(|unit| matches!(model.get(&unit), Some(Some(link)) if links.contains(*link)))
}

fn step(owner: &mut PoolOwner, model: &mut Model, step: Step) {
    match step {
        Step::Pack(count) => {
            let had = owner.free_count();
            let made = pack(owner, count);
            assert_eq!(made.is_some(), had > 0);
            if let Some((buffer, mask)) = made {
                model.extend(units(buffer, mask).map(|unit| (unit, None)));
            }
        }
        Step::Free(buffer, mask) => {
            let mask = mask & slots_where(model, buffer, |link| link.is_none());
            owner.free_slots(buffer, mask);
            model.retain(|unit, _| unit / 64 != buffer || mask >> (unit % 64) & 1 == 0);
        }
        Step::Send(buffer, mask, link) => {
            let mask = mask & slots_where(model, buffer, |link| link.is_none());
            owner.send_out_slots(buffer, mask, link);
            model.extend(units(buffer, mask).map(|unit| (unit, Some(link))));
        }
        Step::Arrive(buffer, mask, link, all) | Step::Home(buffer, mask, link, all) => {
            // Half of the masks name only what is out: most others are refused.
            let out = slots_where(model, buffer, |link| link.is_some());
            let mask = if all || mask & 1 == 0 {
                mask & out
            } else {
                mask
            };
            let links = links(all, link);
            let is_home = matches!(step, Step::Home(..));
            let done = if is_home {
                owner.take_home_slots(buffer, mask, &links)
            } else {
                owner.arrive_slots(buffer, mask, &links)
            };
            assert_eq!(done.is_ok(), come(model, buffer, mask, &links));
            if done.is_ok() {
                for unit in units(buffer, mask) {
                    if is_home {
                        model.remove(&unit);
                    } else {
                        model.insert(unit, None);
                    }
                }
            }
        }
        Step::Adopt => {
            let (fd, len) = owner.memory();
            let fd = fd.try_clone_to_owned().unwrap();
            let heir = PoolOwner::adopt(3, POOL, fd, len, &ledger_of(owner)).unwrap();
            *owner = heir;
            // What was in hand died with the owner.
            model.retain(|_, link| link.is_some());
        }
    }
}

proptest! {
    #[test]
    fn the_account_of_slots_is_that_of_a_set(
        steps in prop::collection::vec(steps(), 1..60),
    ) {
        let (mut owner, mut model) = (owner(), Model::new());
        for next in steps {
            step(&mut owner, &mut model, next);
            check(&owner, &model);
        }
    }

    #[test]
    fn a_mask_of_bits_becomes_one_of_bytes(mask in masks()) {
        let mut bytes = [0_u8; 64];
        for (word, spread) in words(mask) {
            bytes[8 * word..8 * word + 8].copy_from_slice(&spread.to_ne_bytes());
        }
        for (slot, byte) in bytes.iter().enumerate() {
            prop_assert_eq!(*byte, if mask >> slot & 1 == 1 { 0xff } else { 0 });
        }
        let counted: Vec<u32> = slots(mask).collect();
        prop_assert_eq!(counted, units(0, mask).collect::<Vec<_>>());
    }
}

#[test]
fn views_of_one_bundle_come_home_one_by_one() {
    let mut owner = owner();
    let (buffer, mask) = pack(&mut owner, 10).unwrap();
    assert_eq!(mask, 0x3ff);
    owner.send_out_slots(buffer, 0x0f, 1);
    owner.send_out_slots(buffer, 0xf0, 2);
    let (one, two) = (links(false, 1), links(false, 2));
    for (mask, links) in [
        (0x1f, &one),
        (0x0f, &two),
        (0x10f, &one),
        (0, &one),
        (1 << 63, &one),
    ] {
        let refused = owner.take_home_slots(buffer, mask, links);
        assert_eq!(refused, Err(Violation), "{mask:x}");
        assert_eq!((owner.out_count(), owner.free_count()), (8, COUNT - 1));
    }
    assert_eq!(owner.take_home_slots(buffer, 0x0f, &one), Ok(()));
    assert_eq!(
        owner.take_home_slots(buffer, 0x01, &one),
        Err(Violation),
        "twice"
    );
    owner.free_slots(buffer, 0x300);
    assert_eq!(owner.free_count(), COUNT - 1, "some are out");
    assert_eq!(owner.take_home_slots(buffer, 0xf0, &LinkSet::ALL), Ok(()));
    assert_eq!((owner.out_count(), owner.free_count()), (0, COUNT));
    for index in [COUNT, u32::MAX] {
        assert_eq!(
            owner.take_home_slots(index, 1, &LinkSet::ALL),
            Err(Violation)
        );
    }
}

#[test]
fn a_bundle_pool_has_no_plain_buffers_and_a_plain_pool_no_bundles() {
    let mut owner = owner();
    assert!(owner.alloc(1).is_none() && POOL.packet_len_max() == 0);
    let (buffer, _) = pack(&mut owner, 2).unwrap();
    owner.send_out_slots(buffer, 3, 1);
    for index in 0..COUNT * 64 {
        assert_eq!(owner.take_home(index, &LinkSet::ALL), Err(Violation));
    }
    let plain = PoolGeometry {
        bundles: false,
        ..POOL
    };
    let mut plain = PoolOwner::create(4, plain, Sharing::ReadWrite).unwrap();
    assert!(plain.alloc_bundle().is_none() && plain.begin_bundle(0).is_none());
    let packet = plain.alloc(60).unwrap();
    plain.send_out(packet.buffer_index(), 1);
    let beyond = 1 << COUNT;
    let taken = plain.take_home_slots(0, beyond, &LinkSet::ALL);
    assert_eq!(taken, Err(Violation));
    assert!(plain.bundle_bytes(0, 1).is_none());
}

#[test]
fn a_bundle_pool_has_buffers_of_1_to_64_kib() {
    let valid = |log2_stride, headroom| {
        PoolGeometry {
            log2_stride,
            headroom,
            ..POOL
        }
        .is_valid()
    };
    assert!(valid(10, 0) && valid(10, 495) && valid(16, 64));
    assert!(!valid(9, 0) && !valid(10, 496) && !valid(17, 0));
    assert_eq!(POOL.units(), COUNT * 64);
}
