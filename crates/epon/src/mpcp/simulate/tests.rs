//! Whole PONs: discovery, ranging, loss, saturation, delay, restarts. Each run is repeatable.

use super::super::ipact::{Discipline, Settings, Share};
use super::super::{olt, quanta_of_us};
use super::*;

const MS: u64 = SECOND_PS / 1000;

/// `count` ONUs at 0 to 20 km that share `load` of what the MAC can send.
fn pon(count: usize, load: f64, millis: u64) -> Scenario {
    let rate = super::super::burst_time::MAC_RATE_BPS;
    let onu = |index: usize| OnuScenario {
        distance_m: 20_000 * index as u64 / (count as u64 - 1).max(1),
        load_bps: load * rate / count as f64,
        ..OnuScenario::default()
    };
    Scenario {
        olt: olt::Params {
            discovery_period: quanta_of_us(10_000),
            ..olt::Params::default()
        },
        onus: (0..count).map(onu).collect(),
        duration_ps: millis * MS,
        warm_up_ps: millis * MS / 2,
        ..Scenario::default()
    }
}

/// What must hold for every PON whose stations are in order.
fn check(report: &Report) {
    assert_eq!(report.frame_bursts_hit, 0, "bursts overlap");
    assert_eq!(report.bursts_outside_slot, 0);
    for onu in &report.onus {
        if let Some(rtt) = onu.rtt_quanta {
            let error = f64::from(rtt) - onu.rtt_true_quanta;
            assert!(error.abs() <= 1.0, "ONU {}: {error} quanta", onu.onu);
        }
    }
}

#[test]
fn thirty_two_onus_are_found_and_ranged_although_requests_collide() {
    let report = run(&pon(32, 0.0, 300)).unwrap();
    check(&report);
    assert_eq!(report.registered, 32, "{:?}", report.requests_hit);
    assert!(report.requests_hit > 0, "so many requests collide at first");
    assert_eq!(report.deregistrations, 0);
    let llids: std::collections::BTreeSet<_> = report.onus.iter().map(|onu| onu.llid).collect();
    assert_eq!(llids.len(), 32);
}

#[test]
fn a_thirty_third_onu_is_refused() {
    let mut scenario = pon(33, 0.0, 400);
    scenario.olt.discovery_window = 30_000;
    let report = run(&scenario).unwrap();
    check(&report);
    assert_eq!(report.registered, 32);
    assert_eq!(
        report.onus.iter().filter(|onu| onu.llid.is_none()).count(),
        1
    );
}

#[test]
fn lost_gates_and_reports_cost_time_and_nothing_else() {
    let mut scenario = pon(8, 0.3, 400);
    scenario.loss = 0.02;
    let report = run(&scenario).unwrap();
    check(&report);
    assert_eq!(report.registered, 8);
    assert!(report.reports_missed > 50, "{}", report.reports_missed);
    let dropped: u64 = report.onus.iter().map(|onu| onu.dropped_frames).sum();
    assert_eq!(dropped, 0);
    assert!(
        (report.utilisation - report.offered_load).abs() < 0.01,
        "{report:?}"
    );
}

#[test]
fn saturation_reaches_what_the_cycle_leaves() {
    for (count, discipline) in [
        (32, Discipline::Limited),
        (16, Discipline::Limited),
        (32, Discipline::Fixed),
        (32, Discipline::Gated),
    ] {
        let mut scenario = pon(count, 1.3, 600);
        scenario.olt.dba.discipline = discipline;
        let report = run(&scenario).unwrap();
        check(&report);
        let params = &scenario.olt;
        let window = f64::from(params.discovery_window) + f64::from(params.rtt_max);
        let discovery = window / params.discovery_period as f64;
        let ipact = super::super::ipact::Ipact::new(params.dba.clone(), count, params.overhead());
        let theory = ipact.unwrap().efficiency(count) * (1.0 - discovery);
        let found = report.utilisation;
        let least = theory * 0.98;
        // A gated ONU takes longer turns than the cycle says, so less is lost between them.
        let most = if discipline == Discipline::Gated {
            1.0
        } else {
            theory * 1.005
        };
        assert!(
            (least..=most).contains(&found),
            "{count} {discipline:?}: {found} of {theory}"
        );
    }
}

#[test]
fn delay_grows_with_load_and_stays_within_cycles() {
    let delays: Vec<f64> = [0.05, 0.3, 0.6, 0.85]
        .iter()
        .map(|&load| {
            let report = run(&pon(16, load, 400)).unwrap();
            check(&report);
            report.delay.mean_us
        })
        .collect();
    assert!(
        delays.windows(2).all(|pair| pair[0] < pair[1] * 1.1),
        "{delays:?}"
    );
    assert!(delays[0] < delays[3] / 2.0, "{delays:?}");
    // At least half a polling cycle, and the fibre; with room to spare, no more than some cycles.
    assert!(delays[0] > 100.0 && delays[2] < 3_000.0, "{delays:?}");
}

#[test]
fn weights_and_guarantees_hold_in_saturation() {
    let mut scenario = pon(4, 4.0, 400);
    let share = |weight, guaranteed_bps| Share {
        weight,
        guaranteed_bps,
    };
    scenario.olt.onus_max = 4;
    scenario.olt.reserved = (0..4).map(mac_of).collect();
    scenario.olt.dba = Settings {
        discipline: Discipline::Limited,
        shares: vec![
            share(0, 3_000_000_000),
            share(1, 0),
            share(2, 0),
            share(1, 0),
        ],
        ..Settings::default()
    };
    let report = run(&scenario).unwrap();
    check(&report);
    let rate = |onu: usize| report.onus[onu].delivered_bps;
    // Discovery takes 4.6 % of the time from everybody.
    assert!(rate(0) > 3e9 * 0.95, "{}", rate(0));
    let ratio = rate(2) / rate(1);
    assert!((1.85..2.05).contains(&ratio), "{ratio}");
    assert!((rate(3) / rate(1) - 1.0).abs() < 0.02);
}

#[test]
fn nobody_starves_beside_greedy_neighbours() {
    let mut scenario = pon(32, 0.0, 400);
    for onu in &mut scenario.onus[1..] {
        onu.load_bps = 1e9;
    }
    scenario.onus[0].load_bps = 1e6;
    let report = run(&scenario).unwrap();
    check(&report);
    let quiet = &report.onus[0];
    assert!(quiet.delivered_frames > 0);
    assert!(quiet.delay.max_us < 10_000.0, "{:?}", quiet.delay);
}

#[test]
fn an_onu_without_power_is_deregistered_and_comes_back() {
    let mut scenario = pon(4, 0.1, 3_000);
    scenario.olt.timeout = quanta_of_us(100_000);
    scenario.onus[2].off_at_ps = Some(500 * MS);
    let report = run(&scenario).unwrap();
    check(&report);
    assert_eq!((report.registered, report.deregistrations), (3, 1));
    assert_eq!(report.onus[2].llid, None);
    // Switched on again before the OLT has noticed.
    scenario.onus[2].on_at_ps = 550 * MS;
    let report = run(&scenario).unwrap();
    check(&report);
    assert_eq!(report.registered, 4);
}

#[test]
fn after_a_restart_of_the_olt_all_register_again() {
    let mut scenario = pon(8, 0.1, 2_500);
    scenario.olt_restart_ps = Some(400 * MS);
    let report = run(&scenario).unwrap();
    assert_eq!(report.registered, 8);
    assert_eq!(report.registrations, 16);
    // Grants of the life before the restart, 1 ms at most, may still be used in the new one.
    assert!(report.frame_bursts_hit < 20, "{}", report.frame_bursts_hit);
}

#[test]
fn a_clock_that_is_off_too_far_is_noticed() {
    let mut scenario = pon(3, 0.1, 500);
    scenario.onus[1].clock_ppb = 1_000;
    scenario.onus[2].clock_ppb = 20_000_000;
    let report = run(&scenario).unwrap();
    assert!(report.onus[1].llid.is_some());
    assert!(report.onus[2].requests > 3, "{}", report.onus[2].requests);
    assert_eq!(report.frame_bursts_hit, 0);
}

#[test]
fn a_seed_repeats_a_simulation() {
    let mut scenario = pon(8, 0.7, 100);
    scenario
        .onus
        .iter_mut()
        .for_each(|onu| onu.traffic = Model::Bursty);
    scenario.loss = 0.01;
    let first = run(&scenario).unwrap();
    assert_eq!(first, run(&scenario).unwrap());
    scenario.seed += 1;
    assert_ne!(first, run(&scenario).unwrap());
}

/// A PON like that of the command, of which near saturation much depends on what is counted.
fn nearly_full(seed: u64) -> Scenario {
    Scenario {
        awaits_all: true,
        warm_up_ps: 100 * MS,
        seed,
        olt: olt::Params {
            discovery_period: quanta_of_us(100_000),
            ..olt::Params::default()
        },
        ..pon(16, 0.9, 400)
    }
}

#[test]
fn what_came_before_registration_is_not_counted() {
    let mut rounds = 0;
    for seed in 1..4 {
        let mut scenario = nearly_full(seed);
        // Equally far, and so many that requests collide.
        scenario
            .onus
            .iter_mut()
            .for_each(|onu| onu.distance_m = 5_000);
        scenario.olt.discovery_window = 8_000;
        let report = run(&scenario).unwrap();
        check(&report);
        assert_eq!(report.registered, 16);
        let last = report.onus.iter().filter_map(|onu| onu.registered_ms);
        let last = last.fold(0.0, f64::max);
        assert!((report.warm_up_ms - last - 100.0).abs() < 0.1, "{report:?}");
        assert!((report.seconds * 1e3 - last - 400.0).abs() < 0.1);
        rounds += u64::from(last > 100.0);
        let dropped: u64 = report.onus.iter().map(|onu| onu.dropped_frames).sum();
        assert_eq!(dropped, 0, "all that is counted came to ONUs with a link");
        // No backlog of the time before: no more arrives than is sent.
        let surplus = report.utilisation - report.offered_load;
        assert!(surplus < 0.002, "{surplus} in {report:?}");
        assert!(report.delay.p99_us < 5_000.0, "{:?}", report.delay);
    }
    assert!(rounds > 1, "requests collided in {rounds} of 3");
}

#[test]
fn an_onu_that_never_registers_does_not_hold_up_the_count_for_ever() {
    let mut scenario = pon(2, 0.0, 400);
    scenario.awaits_all = true;
    scenario.onus[1].clock_ppb = 20_000_000;
    scenario.olt.discovery_period = quanta_of_us(1_000_000);
    let report = run(&scenario).unwrap();
    let waited = REGISTRATION_PS_MAX as f64 / 1e9;
    assert!(
        (report.warm_up_ms - waited - 200.0).abs() < 2_000.0,
        "{}",
        report.warm_up_ms
    );
}

#[test]
fn near_onus_wait_no_longer_than_a_poll_of_their_own() {
    let mut scenario = pon(2, 0.02, 400);
    scenario.onus[0].distance_m = 0;
    let report = run(&scenario).unwrap();
    check(&report);
    let (near, far) = (&report.onus[0], &report.onus[1]);
    // A cycle of 125 us, of which the far ONU's is longer by its round trip of 196 us.
    assert!(near.delay.mean_us < 200.0, "{:?}", near.delay);
    assert!(
        far.delay.mean_us > near.delay.mean_us + 100.0,
        "{:?}",
        far.delay
    );
}

#[test]
fn no_frames_have_no_delay() {
    let report = run(&pon(2, 0.0, 50)).unwrap();
    assert_eq!(report.delay.count, 0);
    assert!(report.delay.mean_us.is_nan() && report.onus[1].delay.max_us.is_nan());
}

#[test]
fn two_quanta_of_guard_keep_bursts_apart() {
    for seed in 1..6 {
        let mut scenario = pon(8, 0.5, 100);
        scenario.olt.guard = olt::GUARD_MIN;
        scenario.seed = seed;
        check(&run(&scenario).unwrap());
    }
}
