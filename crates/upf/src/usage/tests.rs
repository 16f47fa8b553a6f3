//! Usage in simulated time: thresholds, quotas, timers, splits, and conservation of every byte.

use proptest::prelude::*;

use super::*;
use crate::stored::Stored;

const S: u64 = SECOND_NS;
const CLOCK: WallClock = WallClock {
    zero_ns: 3_900_000_000 * SECOND_NS as i128,
};

fn urr(triggers: ReportingTriggers, change: impl FnOnce(&mut UrrTerms)) -> Urr {
    let mut terms = UrrTerms {
        method: (MeasurementMethod::VOLUM | MeasurementMethod::DURAT).bits(),
        triggers: triggers.bits(),
        ..UrrTerms::NONE
    };
    change(&mut terms);
    Urr::new(7, terms, 0)
}

fn total(octets: u64) -> Volumes {
    Volumes {
        total: Some(octets),
        ..Volumes::NONE
    }
}

#[test]
fn a_volume_threshold_reports_and_begins_again() {
    let mut urr = urr(ReportingTriggers::VOLTH, |terms| {
        terms.volume_threshold = total(1000);
    });
    assert_eq!(urr.count(true, 600, None, S), UsageReportTrigger::NONE);
    assert_eq!(
        urr.count(false, 600, None, 2 * S),
        UsageReportTrigger::VOLTH
    );
    let report = urr.report(UsageReportTrigger::VOLTH, 2 * S).next().unwrap();
    assert_eq!((report.sequence, report.usage.octets), (0, [600, 600]));
    assert_eq!(
        (report.usage.first_ns, report.usage.last_ns),
        (Some(S), Some(2 * S))
    );
    assert_eq!(urr.count(true, 600, None, 3 * S), UsageReportTrigger::NONE);
    assert_eq!(urr.sequence, 1);
    let mut last_ns = || {
        let report = urr.report(UsageReportTrigger::IMMER, 4 * S).next().unwrap();
        report.usage.last_ns
    };
    assert_eq!([last_ns(), last_ns()], [Some(3 * S), None]);
}

/// Packets of a URR that counts volume say nothing of time, also where it is to count both.
#[test]
fn time_counts_from_when_it_is_wanted() {
    let mut one = urr(ReportingTriggers::VOLTH, |terms| {
        terms.method = MeasurementMethod::VOLUM.bits();
        terms.volume_threshold = total(1 << 40);
    });
    let mut record = vec![0; Urr::LEN];
    one.store(&mut record);
    for second in [1, 100] {
        Urr::count_at(&mut record, (true, 100, None), second * S);
    }
    one = Urr::load(&record);
    assert_eq!((one.active_ns, one.usage.packets), (100 * S, [2, 0]));
    one.settle(110 * S);
    one.terms.method |= MeasurementMethod::DURAT.bits();
    one.terms.time_threshold = Some(30);
    assert_eq!(
        one.next_ns(110 * S, WallClock { zero_ns: 0 }),
        Some(140 * S)
    );
    one.count(true, 100, None, 117 * S);
    assert_eq!(one.usage.duration_ns, 7 * S);
}

#[test]
fn a_used_up_quota_stops_packets_until_a_new_one_is_granted() {
    let mut urr = urr(ReportingTriggers::VOLQU, |terms| {
        terms.volume_quota = total(1000);
    });
    assert_eq!(urr.allows(), (true, UsageReportTrigger::NONE));
    assert_eq!(urr.count(true, 1500, None, 0), UsageReportTrigger::VOLQU);
    assert_eq!(
        urr.allows(),
        (false, UsageReportTrigger::NONE),
        "it was told before"
    );
    urr.grant(S);
    assert!(urr.allows().0);
    assert_eq!(urr.count(true, 999, None, S), UsageReportTrigger::NONE);
}

#[test]
fn a_quota_of_nothing_is_told_by_the_first_packet() {
    let mut urr = urr(ReportingTriggers::VOLQU, |terms| {
        terms.volume_quota = total(0);
    });
    assert_eq!(urr.allows(), (false, UsageReportTrigger::VOLQU));
    assert_eq!(urr.allows(), (false, UsageReportTrigger::NONE));
    assert_eq!(urr.counted(), [0; 4]);
}

#[test]
fn time_counts_from_the_first_packet_and_pauses_without_traffic() {
    let mut urr = urr(ReportingTriggers::TIMTH, |terms| {
        terms.time_threshold = Some(10);
        terms.inactivity = Some(4);
    });
    assert_eq!(urr.next_ns(0, CLOCK), None, "nothing counts yet");
    urr.count(true, 1, None, 5 * S);
    // Four seconds count, then it pauses until the packet at 20 s.
    urr.wake(9 * S, CLOCK);
    urr.count(true, 1, None, 20 * S);
    assert_eq!(urr.usage.duration_ns, 4 * S);
    urr.count(true, 1, None, 23 * S);
    assert_eq!(urr.count(true, 1, None, 26 * S), UsageReportTrigger::TIMTH);
    let report = urr
        .report(UsageReportTrigger::TIMTH, 26 * S)
        .next()
        .unwrap();
    assert_eq!(report.usage.duration_ns, 10 * S);
}

#[test]
fn timers_say_when_they_are_due() {
    let all = ReportingTriggers::PERIO
        | ReportingTriggers::STOPT
        | ReportingTriggers::START
        | ReportingTriggers::QUHTI
        | ReportingTriggers::QUVTI
        | ReportingTriggers::TIMQU;
    let mut urr = urr(all, |terms| {
        terms.period = Some(100);
        terms.inactivity = Some(20);
        terms.holding = Some(30);
        terms.validity = Some(60);
        terms.time_quota = Some(1000);
    });
    assert_eq!(urr.next_ns(0, CLOCK), Some(30 * S));
    assert_eq!(urr.count(true, 1, None, S), UsageReportTrigger::START);
    for (at, trigger) in [
        (21, UsageReportTrigger::STOPT),
        (31, UsageReportTrigger::QUHTI),
        (60, UsageReportTrigger::QUVTI),
        (100, UsageReportTrigger::PERIO),
        (200, UsageReportTrigger::PERIO),
    ] {
        assert_eq!(urr.next_ns(0, CLOCK), Some(at * S));
        assert_eq!(
            urr.wake(at * S - 1, CLOCK),
            UsageReportTrigger::NONE,
            "{at}"
        );
        assert_eq!(urr.wake(at * S, CLOCK), trigger, "{at}");
    }
    assert!(
        !urr.allows().0,
        "a quota that was held too long is given back"
    );
}

/// Else its session would be looked at in each turn, for nothing.
#[test]
fn a_limit_that_is_reached_wakes_nobody_again() {
    let mut urr = urr(ReportingTriggers::PERIO, |terms| {
        terms.time_threshold = Some(10);
        terms.time_quota = Some(10);
    });
    urr.count(true, 1, None, 0);
    assert_eq!(urr.next_ns(0, CLOCK), Some(10 * S));
    assert_eq!(urr.wake(10 * S, CLOCK), UsageReportTrigger::NONE);
    assert_eq!(urr.next_ns(10 * S, CLOCK), None);
}

/// A worker that was kept from running catches up: one report, however many periods passed.
#[test]
fn a_late_period_is_reported_once_and_keeps_its_phase() {
    let mut urr = urr(ReportingTriggers::PERIO, |terms| terms.period = Some(10));
    assert_eq!(urr.wake(35 * S, CLOCK), UsageReportTrigger::PERIO);
    assert_eq!(urr.next_ns(35 * S, CLOCK), Some(40 * S));
}

#[test]
fn a_monitoring_time_splits_usage_into_two_reports() {
    let mut urr = urr(ReportingTriggers::VOLTH, |terms| {
        terms.volume_threshold = total(10_000);
        terms.monitoring_time = Some(CLOCK.seconds(0) + 60);
        terms.later_volume_threshold = total(500);
    });
    assert_eq!(urr.next_ns(0, CLOCK), Some(60 * S));
    urr.count(true, 700, None, 30 * S);
    assert_eq!(urr.wake(60 * S, CLOCK), UsageReportTrigger::NONE);
    assert_eq!(
        urr.count(false, 500, None, 61 * S),
        UsageReportTrigger::VOLTH
    );
    let reports: Vec<_> = urr.report(UsageReportTrigger::VOLTH, 61 * S).collect();
    let parts: Vec<_> = reports
        .iter()
        .map(|report| (report.sequence, report.is_before, report.usage.octets))
        .collect();
    assert_eq!(
        parts,
        [(0, Some(true), [700, 0]), (1, Some(false), [0, 500])]
    );
    assert_eq!(reports[0].end_ns, 60 * S);
    assert!(reports[0].trigger.contains(UsageReportTrigger::MONIT));
}

/// The second of two monitoring times comes before any report: what was before the first is told
/// with what was between them, and nothing is lost.
#[test]
fn a_second_monitoring_time_keeps_what_was_before_the_first() {
    let mut urr = urr(ReportingTriggers::VOLTH, |terms| {
        terms.monitoring_time = Some(CLOCK.seconds(0) + 60);
    });
    urr.count(true, 700, None, 30 * S);
    urr.wake(60 * S, CLOCK);
    urr.count(false, 300, None, 70 * S);
    urr.terms.monitoring_time = Some(CLOCK.seconds(0) + 120);
    urr.wake(120 * S, CLOCK);
    urr.count(true, 50, None, 130 * S);
    assert_eq!(urr.counted(), [750, 300, 2, 1]);
    let reports: Vec<_> = urr.report(UsageReportTrigger::IMMER, 130 * S).collect();
    let [before, after] = [reports[0].usage, reports[1].usage];
    assert_eq!((before.octets, before.packets), ([700, 300], [1, 1]));
    assert_eq!((before.start_ns, reports[0].end_ns), (0, 120 * S));
    assert_eq!(before.duration_ns + after.duration_ns, 100 * S);
    let first_and_last = (before.first_ns, before.last_ns);
    assert_eq!(first_and_last, (Some(30 * S), Some(70 * S)));
    assert_eq!((after.octets, after.start_ns), ([50, 0], 120 * S));
    assert_eq!(urr.reported, [750, 300, 2, 1]);
}

/// A monitoring time that was over when it was asked for divides nothing that was counted.
#[test]
fn a_monitoring_time_in_the_past_ends_what_was_counted() {
    let mut urr = urr(ReportingTriggers::VOLTH, |_| {});
    urr.count(true, 700, None, 30 * S);
    urr.report(UsageReportTrigger::IMMER, 40 * S).for_each(drop);
    urr.count(true, 10, None, 50 * S);
    urr.terms.monitoring_time = Some(CLOCK.seconds(0) + 20);
    urr.wake(55 * S, CLOCK);
    let reports: Vec<_> = urr.report(UsageReportTrigger::IMMER, 60 * S).collect();
    assert_eq!(reports[0].usage.octets, [10, 0]);
    let times = (reports[0].usage.start_ns, reports[0].end_ns);
    assert_eq!(times, (40 * S, 50 * S));
}

/// A URR with limits of time, of which it tells.
fn timed(quota_s: u32, threshold_s: u32) -> Urr {
    let triggers = ReportingTriggers::TIMQU | ReportingTriggers::TIMTH;
    urr(triggers, |terms| {
        terms.time_quota = Some(quota_s);
        terms.time_threshold = Some(threshold_s);
    })
}

/// Time that is used up between two looks at it is told by the report that finds it so: nothing
/// comes back to it, and packets are dropped from then on.
#[test]
fn what_a_report_finds_used_up_is_among_its_triggers() {
    let mut urr = timed(10, 10);
    urr.count(true, 1, None, 0);
    let early = urr.report(UsageReportTrigger::IMMER, 4 * S).next().unwrap();
    assert_eq!(early.trigger, UsageReportTrigger::IMMER);
    let (immer, timqu) = (UsageReportTrigger::IMMER, UsageReportTrigger::TIMQU);
    let report = urr.report(immer, 10 * S).next().unwrap();
    assert_eq!(
        report.trigger,
        immer | timqu,
        "the threshold began anew at 4 s"
    );
    assert_eq!(urr.allows(), (false, UsageReportTrigger::NONE));
    let late = urr.report(immer, 20 * S).next().unwrap();
    assert_eq!(late.trigger, immer | UsageReportTrigger::TIMTH);
}

/// Time that passed before a quota was granted is none of it, but is counted and may be to be told.
#[test]
fn a_quota_of_time_counts_from_its_grant_on() {
    let mut urr = timed(60, 150);
    urr.count(true, 1, None, 0);
    assert_eq!(urr.wake(60 * S, CLOCK), UsageReportTrigger::TIMQU);
    urr.report(UsageReportTrigger::TIMQU, 60 * S).for_each(drop);
    urr.grant(200 * S);
    assert_eq!((urr.usage.duration_ns, urr.untold), (140 * S, 0));
    assert_eq!(urr.next_ns(200 * S, CLOCK), Some(210 * S));
    assert_eq!(urr.wake(209 * S, CLOCK), UsageReportTrigger::NONE);
    urr.grant(220 * S);
    let timth = UsageReportTrigger::TIMTH;
    assert_eq!(urr.untold, timth.bits());
    let report = urr.report(timth, 220 * S).next().unwrap();
    assert_eq!(report.usage.duration_ns, 160 * S);
    assert_eq!(urr.next_ns(220 * S, CLOCK), Some(280 * S));
    assert_eq!(urr.wake(280 * S, CLOCK), UsageReportTrigger::TIMQU);
}

/// A new quota makes it untrue that the old one is used up, and nothing else.
#[test]
fn a_grant_ends_what_waits_to_be_told_of_the_quota_before() {
    let mut urr = urr(known_triggers(), |_| {});
    let start = UsageReportTrigger::START;
    urr.untold = (start | UsageReportTrigger::VOLQU | UsageReportTrigger::QUVTI).bits();
    urr.grant(S);
    assert_eq!(urr.untold, start.bits());
}

#[test]
fn dropped_downlink_traffic_is_told_at_its_threshold() {
    let mut urr = urr(ReportingTriggers::DROTH, |terms| {
        terms.dropped_packets = Some(3);
    });
    let mut record = vec![0; Urr::LEN];
    urr.store(&mut record);
    let told: Vec<_> = (0..6).map(|_| urr.count_dropped(100)).collect();
    let (none, droth) = (UsageReportTrigger::NONE, UsageReportTrigger::DROTH);
    assert_eq!(told, [none, none, droth, none, none, droth]);
    let in_place = (0..6).map(|_| Urr::count_dropped_at(&mut record, 100));
    assert_eq!(in_place.collect::<Vec<_>>(), told);
}

#[test]
fn a_reason_that_nobody_asked_for_is_not_reported() {
    let mut urr = urr(ReportingTriggers::PERIO, |terms| {
        terms.volume_threshold = total(1);
    });
    assert_eq!(urr.count(true, 100, None, 0), UsageReportTrigger::NONE);
}

#[test]
fn the_wall_clock_turns_over_in_2036() {
    let clock = WallClock {
        zero_ns: (i128::from(u32::MAX) - 9) * i128::from(SECOND_NS),
    };
    assert_eq!(clock.seconds(20 * S), 10);
    assert_eq!(clock.instant(10, 5 * S), 20 * S);
    assert_eq!(clock.instant(u32::MAX - 9, 20 * S), 0);
}

proptest! {
    /// Whatever happens, in whatever order: every byte is in a report or waits for one, once; what
    /// there is no room to tell waits and is told; and no limit of time is left without a timer.
    #[test]
    fn usage_conserves_every_byte(
        steps in proptest::collection::vec((0u8..8, 0u64..40, 1usize..2000), 1..300),
        threshold in 1u64..20_000,
        quota in 1u64..100_000,
        times in proptest::option::of((1u32..200, 1u32..400)),
        has_timers: bool,
    ) {
        let mut urr = urr(known_triggers(), |terms| {
            terms.volume_threshold = total(threshold);
            terms.volume_quota = total(quota);
            terms.time_threshold = times.map(|(first, _)| first);
            terms.time_quota = times.map(|(_, second)| second);
            if has_timers {
                terms.period = Some(37);
                terms.inactivity = Some(11);
                terms.monitoring_time = Some(CLOCK.seconds(0) + 500);
            }
        });
        let (mut passed, mut reported) = ([0; 4], [0; 4]);
        let mut has_room = true;
        let (mut now_ns, mut sequence) = (0, 0);
        for (step, seconds, len) in steps {
            now_ns += seconds * S;
            let way = usize::from(step % 2);
            // A message comes between two looks at it.
            let mut trigger = match step {
                4 | 7 if len % 2 == 0 => UsageReportTrigger::NONE,
                _ => urr.wake(now_ns, CLOCK),
            };
            if step < 4 {
                let (allowed, told) = urr.allows();
                trigger = trigger | told;
                if allowed {
                    passed[way] += len as u64;
                    passed[2 + way] += 1;
                    trigger = trigger | urr.count(way == 0, len, None, now_ns);
                }
            } else if step == 4 {
                urr.grant(now_ns);
                prop_assert_eq!(urr.quota_ns, 0);
            } else if step == 6 {
                has_room = !has_room;
            } else if step == 7 {
                urr.settle(now_ns);
                urr.terms.time_threshold = times.map(|_| len as u32 % 60 + 1);
                urr.note_time_reached();
            } else if has_timers {
                // One that is over already, or another one in front of any report.
                let seconds = CLOCK.seconds(now_ns) + len as u32 % 60;
                urr.terms.monitoring_time = Some(seconds - 20);
            }
            urr.untold |= trigger.bits();
            let due = UsageReportTrigger::from_bits(urr.untold);
            if has_room && due != UsageReportTrigger::NONE {
                for report in urr.report(due, now_ns) {
                    prop_assert!(report.trigger.contains(due));
                    prop_assert_eq!(report.sequence, sequence);
                    sequence += 1;
                    for way in 0..2 {
                        reported[way] += report.usage.octets[way];
                        reported[2 + way] += report.usage.packets[way];
                    }
                    prop_assert!(report.usage.start_ns <= report.end_ns);
                }
            }
            prop_assert_eq!(urr.reported, reported);
            prop_assert_eq!(urr.counted(), passed);
            let waits = UsageReportTrigger::from_bits(urr.untold);
            prop_assert!(!has_room || waits == UsageReportTrigger::NONE);
            prop_assert!(urr.quota_ns <= now_ns - urr.quota_at_ns);
            let waits_for_time = !waits.contains(UsageReportTrigger::TIMTH) || !urr.is_exhausted;
            if times.is_some() && urr.is_timed() && waits_for_time {
                prop_assert!(urr.next_ns(now_ns, CLOCK).is_some());
            }
        }
    }

    /// Who wakes a URR exactly when it asks to be misses nothing that one woken each second tells.
    #[test]
    fn waking_when_asked_is_enough(
        period in 1u32..50, threshold in 1u32..50, inactivity in 1u32..50,
        packets in proptest::collection::vec(0u64..300, 0..20),
    ) {
        let new = || urr(known_triggers(), |terms| {
            terms.period = Some(period);
            terms.time_threshold = Some(threshold);
            terms.inactivity = Some(inactivity);
        });
        let (mut asked, mut each) = (new(), new());
        let (mut of_asked, mut of_each) = (Vec::new(), Vec::new());
        for second in 0..400 {
            let now_ns = second * S;
            let is_asked = asked.next_ns(now_ns, CLOCK).is_some_and(|at| at <= now_ns);
            let packet = packets.contains(&second);
            for (urr, wakes, told) in
                [(&mut asked, is_asked, &mut of_asked), (&mut each, true, &mut of_each)]
            {
                let mut trigger = UsageReportTrigger::NONE;
                if wakes {
                    trigger = urr.wake(now_ns, CLOCK);
                }
                if packet {
                    trigger = trigger | urr.count(true, 1, None, now_ns);
                }
                if trigger != UsageReportTrigger::NONE {
                    urr.report(trigger, now_ns).for_each(drop);
                    told.push((second, trigger));
                }
            }
        }
        prop_assert_eq!(of_asked, of_each);
    }
}

proptest! {
    /// A record is counted where it lies as its URR is as a value, whatever there is to reach.
    #[test]
    fn a_record_is_counted_as_its_urr(
        packets in proptest::collection::vec(
            (any::<bool>(), 1usize..2000, any::<Option<bool>>(), 0..3 * S),
            1..60,
        ),
        threshold in proptest::option::of(1u64..40_000),
        quota in proptest::option::of(1u64..40_000),
        times in proptest::option::of((1u32..20, 1u32..20)),
        has_duration: bool,
        events in proptest::option::of((1u32..8, 1u32..20)),
        periods in proptest::option::of((any::<bool>(), 1u32..5)),
    ) {
        let mut wanted = urr(known_triggers(), |terms| {
            terms.volume_threshold.dl = threshold;
            terms.volume_quota.total = quota;
            terms.time_threshold = times.map(|(first, _)| first);
            terms.time_quota = times.map(|(_, second)| second);
            if !has_duration {
                terms.method = MeasurementMethod::VOLUM.bits();
            } else if let Some((is_discrete, interval)) = periods {
                (terms.is_discrete, terms.base_interval) = (is_discrete, Some(interval));
            }
            if let Some((threshold, quota)) = events {
                terms.method |= MeasurementMethod::EVENT.bits();
                (terms.event_threshold, terms.event_quota) = (Some(threshold), Some(quota));
            }
        });
        let mut record = vec![0; Urr::LEN];
        wanted.store(&mut record);
        let mut now_ns = 0;
        for (is_uplink, len, is_event, passed_ns) in packets {
            now_ns += passed_ns;
            let allowed = wanted.allows();
            prop_assert_eq!(Urr::allows_at(&mut record), allowed);
            if allowed.0 {
                let (was_started, was_open) = (wanted.is_started, wanted.envelope_ns.is_some());
                let trigger = wanted.count(is_uplink, len, is_event, now_ns);
                let opens = !was_open && wanted.envelope_ns.is_some();
                let starts = !was_started || opens;
                let passed = (is_uplink, len, is_event);
                let counted = Urr::count_at(&mut record, passed, now_ns);
                prop_assert_eq!((counted.trigger, counted.starts), (trigger, starts));
            }
            // Where time is not counted, packets do not say until when.
            let until = |urr: &Urr| urr.counted_to_ns.max(urr.active_ns);
            let mut counted = Urr::load(&record);
            if !has_duration {
                counted.counted_to_ns = until(&counted);
            }
            prop_assert_eq!(counted, wanted);
        }
    }
}

#[test]
fn where_a_urr_measures_is_read_in_its_record() {
    let mut record = vec![0; Urr::LEN];
    for (information, is_before) in [
        (MeasurementInformation::MBQE, true),
        (MeasurementInformation::MNOP, false),
    ] {
        let one = urr(ReportingTriggers::NONE, |terms| {
            terms.information = information.bits();
        });
        one.store(&mut record);
        assert_eq!(Urr::is_before_qos_at(&record), is_before);
    }
}

/// A record that was written as a value knows of no room, whatever it knew before: its next packet
/// goes the long way, by which traffic starts.
#[test]
fn a_record_that_was_written_knows_of_no_room() {
    let mut one = urr(ReportingTriggers::VOLTH, |terms| {
        terms.method = MeasurementMethod::VOLUM.bits();
        terms.volume_threshold.total = Some(1000);
    });
    let mut record = vec![0; Urr::LEN];
    one.store(&mut record);
    assert!(!Urr::has_room(&record, 0) && !Urr::has_room(&record, 1));
    assert!(Urr::count_at(&mut record, (true, 100, None), 5).starts);
    // The thousandth octet reaches the threshold.
    assert!(Urr::has_room(&record, 899) && !Urr::has_room(&record, 900));
    one = Urr::load(&record);
    one.store(&mut record);
    assert!(!Urr::has_room(&record, 1));
}
