//! Ceilings: rates that are exact, charged to all or none, and whole over shards.

use super::terms::{slice_name, slice_named};
use super::*;
use crate::model::tests::session;

const SECOND_NS: u64 = 1_000_000_000;

fn terms(scope: Scope, bytes_per_s: u64) -> Terms {
    Terms {
        name: "one".to_owned(),
        scope,
        bytes_per_s: [Some(bytes_per_s), None],
        guaranteed_kbps: [None; 2],
    }
}

#[test]
fn shards_have_parts_of_a_ceiling_that_are_the_whole() {
    for (whole, count) in [(10, 3), (1, 4), (0, 2), (u64::MAX, 7)] {
        let parts = (0..count).map(|shard| part_of(whole, (shard, count)));
        assert_eq!(parts.fold(0, u64::wrapping_add), whole);
    }
}

/// Within a thousandth, beyond 4.3 Gbit/s too, and for all of a slice together.
#[test]
fn a_ceiling_is_exact_for_all_sessions_of_its_slice() {
    let slice = slice_number(1, Some(0xa1));
    for rate in [1_000_000, 1_250_000_000u64] {
        let mut all = Ceilings::new(&[terms(Scope::Slice(slice), rate)], (0, 1));
        let (mut passed, len) = (0u64, 1400u64);
        // At twice the rate, from two sessions in turn, for two seconds, of which the last counts.
        let gap_ns = len as f64 * 1e9 / rate as f64 / 2.0;
        let count = (2e9 / gap_ns) as u64;
        for at in 0..count {
            let now_ns = (at as f64 * gap_ns) as u64;
            let charged = all.charge((slice, (at % 2) as u8), true, len as usize, now_ns);
            passed += len * u64::from(charged.is_some() && now_ns >= SECOND_NS);
        }
        let ratio = passed as f64 / rate as f64;
        assert!((0.999..=1.001).contains(&ratio), "{rate}: {ratio}");
        let other = all.charge((slice_number(1, None), 0), true, 1400, 2 * SECOND_NS);
        assert!(other.is_some(), "another slice has no ceiling");
        let way = all.charge((slice, 0), false, 1400, 2 * SECOND_NS);
        assert!(way.is_some(), "downlink has none");
    }
}

/// What the second ceiling stops, or something behind both, is charged to neither.
#[test]
fn a_packet_is_charged_to_both_ceilings_or_to_none() {
    let both = [terms(Scope::Slice(7), 1000), terms(Scope::Instance(3), 0)];
    let mut all = Ceilings::new(&both, (0, 1));
    for _ in 0..10 {
        assert!(all.charge((7, 3), true, 1000, 0).is_none());
    }
    assert_eq!((all.0[0].passed, all.0[1].stopped), ([0; 2], [10, 0]));
    for _ in 0..10 {
        let charged = all.charge((7, 4), true, 1000, 0).unwrap();
        all.give_back(&charged);
    }
    let passed = (0..10).filter(|_| all.charge((7, 4), true, 1000, 0).is_some());
    assert_eq!(passed.count(), 3, "3028 bytes at once");
    assert_eq!(all.0[0].passed, [3000, 0]);
}

#[test]
fn guarantees_are_given_while_there_is_room() {
    let settings = &crate::public_failures::new(None).settings;
    let mut limits = terms(Scope::Slice(7), 0);
    limits.guaranteed_kbps = [Some(100), None];
    let mut all = Ceilings::new(&[limits], (0, 1));
    let of = |gbr_kbps: u64, slice: u32| {
        let mut one = session(3);
        one.head.slice = slice;
        one.qers[0].gbr_kbps = Some([gbr_kbps, u64::MAX]);
        one
    };
    let (first, second) = (of(60, 7), of(41, 7));
    assert!(all.check(None, &first, settings).is_ok());
    all.note(None, Some(&first), settings);
    assert!(all.check(None, &of(40, 7), settings).is_ok());
    let refused = all.check(None, &second, settings).unwrap_err();
    let cause = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::GBR);
    assert_eq!(refused.refusal, cause);
    assert!(
        all.check(None, &of(1000, 8), settings).is_ok(),
        "of another"
    );
    let more = of(100, 7);
    assert!(all.check(Some(&first), &more, settings).is_ok());
    assert!(all.check(Some(&first), &of(101, 7), settings).is_err());
    all.note(Some(&first), Some(&more), settings);
    assert!(all.check(None, &of(1, 7), settings).is_err());
    all.note(Some(&more), None, settings);
    assert!(all.check(None, &more, settings).is_ok());
}

#[test]
fn a_slice_has_a_number_of_its_own() {
    let of = |sst, sd| slice_number(sst, sd);
    assert_eq!(of(1, Some(0xa1)), 0x0100_00a1);
    assert_eq!(of(1, None), 0x01ff_ffff);
    assert_ne!(of(0, Some(0)), 0);
    for (number, name) in [(of(1, None), "1"), (of(2, Some(0xabc)), "2-000abc")] {
        assert_eq!(slice_name(number), name);
        assert_eq!(slice_named(name), Some(number));
    }
    for wrong in ["256", "1-abc", "1-", "x-000abc"] {
        assert_eq!(slice_named(wrong), None, "{wrong}");
    }
}
