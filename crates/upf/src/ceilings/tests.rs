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
            let charged = all.charge((slice, (at % 2) as u8), None, (true, len as usize), now_ns);
            passed += len * u64::from(charged.is_some() && now_ns >= SECOND_NS);
        }
        let ratio = passed as f64 / rate as f64;
        assert!((0.999..=1.001).contains(&ratio), "{rate}: {ratio}");
        let other = all.charge(
            (slice_number(1, None), 0),
            None,
            (true, 1400),
            2 * SECOND_NS,
        );
        assert!(other.is_some(), "another slice has no ceiling");
        let way = all.charge((slice, 0), None, (false, 1400), 2 * SECOND_NS);
        assert!(way.is_some(), "downlink has none");
    }
}

/// What the second ceiling stops, or something behind both, is charged to neither.
#[test]
fn a_packet_is_charged_to_both_ceilings_or_to_none() {
    let both = [terms(Scope::Slice(7), 1000), terms(Scope::Instance(3), 0)];
    let mut all = Ceilings::new(&both, (0, 1));
    for _ in 0..10 {
        assert!(all.charge((7, 3), None, (true, 1000), 0).is_none());
    }
    assert_eq!((all.all[0].passed, all.all[1].stopped), ([0; 2], [10, 0]));
    for _ in 0..10 {
        let charged = all.charge((7, 4), None, (true, 1000), 0).unwrap();
        all.give_back(&charged);
    }
    let passed = (0..10).filter(|_| all.charge((7, 4), None, (true, 1000), 0).is_some());
    assert_eq!(passed.count(), 3, "3028 bytes at once");
    assert_eq!(all.all[0].passed, [3000, 0]);
}

/// What is sent to a ceiling: bytes a second, and what is guaranteed of it.
type Offer = (u64, Option<Guarantee>);

/// Bytes a second that pass of each offer, within a second, behind one that does not count. Packets
/// of all offers come at even distances.
fn passed(all: &mut Ceilings, whose: (u32, u8), offers: &[Offer]) -> Vec<u64> {
    let len = (offers[0].0 / 1000).clamp(1000, 9000) as usize;
    let mut passed = vec![0; offers.len()];
    let mut next_ns = vec![0f64; offers.len()];
    loop {
        let mut order: Vec<usize> = (0..offers.len()).collect();
        order.sort_by(|one, other| next_ns[*one].total_cmp(&next_ns[*other]));
        let at = order[0];
        let now_ns = next_ns[at] as u64;
        if now_ns >= 2 * SECOND_NS {
            return passed;
        }
        let (rate, guarantee) = offers[at];
        next_ns[at] += len as f64 * 1e9 / rate as f64;
        let charged = all.charge(whose, guarantee, (true, len), now_ns);
        passed[at] += len as u64 * u64::from(charged.is_some() && now_ns >= SECOND_NS);
    }
}

fn assert_near(found: u64, wanted: u64, what: &str) {
    let ratio = found as f64 / wanted as f64;
    assert!(
        (0.99..=1.01).contains(&ratio),
        "{what}: {found} of {wanted}"
    );
}

/// What is guaranteed passes to within a hundredth, however much others send, and beyond 4.3 Gbit/s
/// too; others get the rest, and all together what the ceiling is.
#[test]
fn a_guarantee_is_exact_below_a_ceiling_that_others_fill() {
    for rate in [1_250_000, 1_250_000_000u64] {
        let guarantee = |id: u32, part: u64| Guarantee {
            whose: (7, id),
            kbps: rate / part / 125,
            window_ms: WINDOW_MS,
        };
        let mut all = Ceilings::new(&[terms(Scope::Slice(7), rate)], (0, 1));
        // Two that are guaranteed a fifth each, one of which wants more, and one that floods.
        let offers = [
            (rate / 5, Some(guarantee(1, 5))),
            (rate / 2, Some(guarantee(2, 5))),
            (2 * rate, None),
        ];
        let found = passed(&mut all, (7, 0), &offers);
        assert_near(found[0], rate / 5, "the first guarantee");
        assert!(found[1] >= rate / 5 * 99 / 100, "the second: {found:?}");
        assert_near(found.iter().sum(), rate, "all together");
        // Nobody else: it is no limit.
        let mut all = Ceilings::new(&[terms(Scope::Slice(7), rate)], (0, 1));
        let found = passed(&mut all, (7, 0), &[(2 * rate, Some(guarantee(1, 5)))]);
        assert_near(found[0], rate, "alone");
        // Without a guarantee a flood takes it all: the test would see it.
        let mut all = Ceilings::new(&[terms(Scope::Slice(7), rate)], (0, 1));
        let found = passed(&mut all, (7, 0), &[(10 * rate, None), (rate / 5, None)]);
        assert!(found[1] < rate / 10, "{found:?}");
    }
}

/// More than a ceiling was guaranteed: others get nothing, and no debt is left behind it.
#[test]
fn what_is_owed_for_guarantees_is_bounded() {
    let rate = 1_250_000;
    let mut all = Ceilings::new(&[terms(Scope::Slice(7), rate)], (0, 1));
    let guarantee = Guarantee {
        whose: (7, 1),
        kbps: 10 * rate / 125,
        window_ms: WINDOW_MS,
    };
    let found = passed(
        &mut all,
        (7, 0),
        &[(5 * rate, Some(guarantee)), (rate, None)],
    );
    assert_near(found[0], 5 * rate, "it was guaranteed");
    assert_eq!(found[1], 0);
    // Three windows later one passes as ever.
    let later_ns = 2 * SECOND_NS + 30_000_000;
    assert!(all.charge((7, 0), None, (true, 1000), later_ns).is_some());
}

/// What something behind the ceilings stops has used nothing of its guarantee; nor is anything kept
/// of one whose session is gone.
#[test]
fn a_guarantee_is_given_back_and_forgotten() {
    let settings = &crate::public_failures::new(None).settings;
    let mut all = Ceilings::new(&[terms(Scope::Slice(7), 1)], (0, 1));
    let mut one = session(3);
    one.qers[0].gbr_kbps = Some([8, 8]);
    let guarantee = Guarantee {
        whose: (one.head.seid, one.qers[0].id),
        kbps: 8,
        window_ms: WINDOW_MS,
    };
    let charge = |all: &mut Ceilings| all.charge((7, 0), Some(guarantee), (true, 1000), 0);
    // 3028 bytes at once of the guarantee, and as many of the ceiling.
    for _ in 0..20 {
        let charged = charge(&mut all).unwrap();
        all.give_back(&charged);
    }
    let passed = (0..20).filter(|_| charge(&mut all).is_some()).count();
    assert_eq!(passed, 3, "what is owed leaves nothing beyond it");
    assert_eq!(all.guaranteed.len(), 1);
    all.note(Some(&one), Some(&one), settings);
    assert_eq!(all.guaranteed.len(), 1);
    let mut without = one.clone();
    without.qers[0].gbr_kbps = None;
    all.note(Some(&one), Some(&without), settings);
    assert!(all.guaranteed.is_empty());
    let _ = charge(&mut all);
    all.note(Some(&one), None, settings);
    assert!(all.guaranteed.is_empty());
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
