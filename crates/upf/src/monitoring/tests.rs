//! Delays of known times, what is told when, and what is refused.

use catena_wire::gtpu::pdu_session::{Uplink, UplinkTimes};
use catena_wire::pfcp::value::SrrId;
use catena_wire::pfcp::value::flags::{ReportType, ReportingFrequency, RequestedQosMonitoring};
use catena_wire::pfcp::value::qos::{PacketDelayThresholds, PacketDelays, Qfi};
use catena_wire::pfcp::value::{Seconds, Time};
use catena_wire::pfcp::{Cause, Full, Ie, IeType, MessageType, View, Writer, key};

use super::monitor::*;
use super::*;
use crate::public_failures::{Smf, new, nothing};
use crate::stored::Stored;
use crate::transactions::PENDING_COUNT_MAX;
use crate::upf::Upf;

const MS_NS: u64 = 1_000_000;
const FLOW: IeType = IeType::QOS_MONITORING_PER_QOS_FLOW_CONTROL_INFORMATION;
const CLOCK: WallClock = WallClock {
    zero_ns: 3_900_000_000_000_000_000,
};

/// Times of an answer: when the mark was sent and heard, and the answer sent; all in ms, the
/// second and the third by another clock, which is so much ahead.
fn times([sent, received, answered]: [u64; 3], ahead_ms: i64) -> UplinkTimes {
    let theirs = |ms: u64| CLOCK.ntp(ms.checked_add_signed(ahead_ms).unwrap() * MS_NS);
    UplinkTimes {
        dl_sending: CLOCK.ntp(sent * MS_NS),
        dl_received: theirs(received),
        ul_sending: theirs(answered),
    }
}

#[test]
fn delays_are_those_of_the_times() {
    let of = |all, ahead_ms, ran_ms, heard| {
        delays_us(&times(all, ahead_ms), ran_ms, CLOCK.ntp(heard * MS_NS))
    };
    let ms = |all: [u64; 3]| Some(all.map(|ms| ms * 1000));
    let all = [5000, 5003, 5010];
    assert_eq!(of(all, 0, [0, 0], 5017), ms([3, 7, 10]));
    assert_eq!(of(all, 0, [2, 4], 5017), ms([5, 11, 16]), "and by radio");
    // Clocks that differ: the round trip is as it was, and has two halves.
    for ahead_ms in [1000, -1000] {
        assert_eq!(of(all, ahead_ms, [0, 0], 5017), ms([5, 5, 10]));
    }
    // By less than the delays: each direction is wrong by that, which nobody can see.
    assert_eq!(of(all, 2, [0, 0], 5017), ms([5, 5, 10]));
    // So little that it is no lie: a delay of 0.
    assert_eq!(of([5000, 5000, 5001], -1, [0, 0], 5003), ms([0, 3, 2]));
    // Answered before it was received, or for longer than it took.
    assert_eq!(of([5000, 5010, 5003], 0, [0, 0], 5017), None);
    assert_eq!(of([5000, 5003, 5090], 0, [0, 0], 5017), None);
    let most = of(all, 0, [u32::MAX; 2], 5017).unwrap();
    assert_eq!(most[2], 2 * u64::from(u32::MAX) * 1000 + 10_000);
}

fn terms(frequency: ReportingFrequency) -> MonitorTerms {
    let all = RequestedQosMonitoring::DL | RequestedQosMonitoring::UL | RequestedQosMonitoring::RP;
    MonitorTerms {
        qfi: 1,
        wanted: all.bits(),
        frequency: frequency.bits(),
        thresholds_ms: [Some(5), Some(8), Some(12)],
        wait_s: Some(3),
        period_s: Some(10),
    }
}

/// Answers with these delays in ms, at this instant in ms.
fn answer(monitor: &mut Monitor, [dl, ul]: [u64; 2], at_ms: u64) -> bool {
    let sent = at_ms - dl - ul;
    let times = times([sent, sent + dl, sent + dl], 0);
    monitor.take(&times, [0, 0], (CLOCK.ntp(at_ms * MS_NS), at_ms * MS_NS))
}

#[test]
fn an_event_is_a_delay_above_its_threshold_behind_the_least_wait() {
    let mut monitor = Monitor::new(1, terms(ReportingFrequency::EVETT), 0);
    assert!(!answer(&mut monitor, [5, 7], 100), "12 ms are not above 12");
    for (delays, at_ms, is_event) in [
        ([6, 1], 200, true),
        ([9, 9], 300, false),
        ([1, 9], 3199, false),
        ([1, 9], 3200, true),
        ([5, 8], 9000, true),
        ([1, 1], 20_000, false),
    ] {
        assert_eq!(answer(&mut monitor, delays, at_ms), is_event, "{at_ms}");
        let news = monitor.wake(at_ms * MS_NS);
        assert_eq!(news, is_event, "periods are not asked for");
        if is_event {
            let [dl, ul] = delays;
            let us = [dl, ul, dl + ul].map(|ms| ms * 1000);
            assert_eq!(monitor.event_us, Some(us));
        }
        monitor.told(at_ms * MS_NS);
    }
    // Without a time an event is not said more often than once in a second; with 0, each is.
    for (wait_s, is_event) in [(None, false), (Some(0), true)] {
        let terms = MonitorTerms {
            wait_s,
            ..terms(ReportingFrequency::EVETT)
        };
        let mut monitor = Monitor::new(1, terms, 0);
        assert!(answer(&mut monitor, [9, 9], 100));
        monitor.told(0);
        assert_eq!(answer(&mut monitor, [9, 9], 1000), is_event, "{wait_s:?}");
    }
}

#[test]
fn a_period_tells_the_mean_and_begins_anew_once_it_is_told() {
    let mut monitor = Monitor::new(1, terms(ReportingFrequency::PERIO), 0);
    answer(&mut monitor, [1, 2], 100);
    assert!(!monitor.has_news(), "events are not asked for");
    answer(&mut monitor, [3, 8], 200);
    assert_eq!(monitor.next_ns(200 * MS_NS), Some(10 * SECOND_NS));
    assert!(!monitor.wake(10 * SECOND_NS - 1));
    assert!(monitor.wake(10 * SECOND_NS));
    assert_eq!(monitor.mean_us(), Some([2000, 5000, 7000]));
    // There was no room: it is tried again, with what has come meanwhile.
    let again = monitor.next_ns(10 * SECOND_NS);
    assert_eq!(again, Some(11 * SECOND_NS));
    answer(&mut monitor, [5, 2], 10_100);
    assert!(monitor.wake(11 * SECOND_NS));
    assert_eq!(monitor.mean_us(), Some([3000, 4000, 7000]));
    assert_eq!(monitor.since_ns, 0);
    monitor.told(11 * SECOND_NS);
    assert_eq!(
        (monitor.mean_us(), monitor.since_ns),
        (None, 11 * SECOND_NS)
    );
    assert_eq!(monitor.next_ns(11 * SECOND_NS), Some(20 * SECOND_NS));
    // Long asleep: one report, and the period ends where it would have.
    assert!(monitor.wake(47 * SECOND_NS));
    monitor.told(47 * SECOND_NS);
    assert_eq!(monitor.next_ns(47 * SECOND_NS), Some(50 * SECOND_NS));
}

/// A flow as an SMF asks for it, but for what a test leaves out or says otherwise.
#[derive(Clone, Copy)]
struct Asked {
    qfis: &'static [u8],
    measure: Option<RequestedQosMonitoring>,
    tell: Option<ReportingFrequency>,
    limits: Option<[Option<u32>; 3]>,
    wait: Option<u32>,
    period: Option<u32>,
}

const USUAL: Asked = Asked {
    qfis: &[1],
    measure: Some(RequestedQosMonitoring::RP),
    tell: Some(ReportingFrequency::EVETT.union(ReportingFrequency::PERIO)),
    limits: Some([None, None, Some(10)]),
    wait: Some(3),
    period: Some(10),
};

fn put_flow(writer: &mut Writer<'_>, asked: Asked) -> Result<(), Full> {
    writer.group(FLOW, |writer| {
        let mut qfis = asked.qfis.iter();
        qfis.try_for_each(|qfi| writer.put(key::QFI, &Qfi(*qfi)))?;
        writer.put_some(key::REQUESTED_QOS_MONITORING, asked.measure.as_ref())?;
        writer.put_some(key::REPORTING_FREQUENCY, asked.tell.as_ref())?;
        let limits = asked.limits.map(|[dl_ms, ul_ms, rp_ms]| {
            PacketDelayThresholds(PacketDelays {
                dl_ms,
                ul_ms,
                rp_ms,
            })
        });
        writer.put_some(key::PACKET_DELAY_THRESHOLDS, limits.as_ref())?;
        writer.put_some(key::MINIMUM_WAIT_TIME, asked.wait.map(Seconds).as_ref())?;
        writer.put_some(key::MEASUREMENT_PERIOD, asked.period.map(Seconds).as_ref())
    })
}

fn put_srr(writer: &mut Writer<'_>, group: IeType, id: u8, flows: &[Asked]) -> Result<(), Full> {
    writer.group(group, |writer| {
        writer.put(key::SRR_ID, &SrrId(id))?;
        flows.iter().try_for_each(|asked| put_flow(writer, *asked))
    })
}

#[test]
fn what_contradicts_itself_or_is_not_done_is_refused_by_its_ie() {
    let failed = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    let (missing, needed) = (Cause::MANDATORY_IE_MISSING, Cause::CONDITIONAL_IE_MISSING);
    let events = Some(ReportingFrequency::EVETT);
    let periods = Some(ReportingFrequency::PERIO);
    let gtpu = Some(RequestedQosMonitoring::GTPUPM | RequestedQosMonitoring::RP);
    let limits = IeType::PACKET_DELAY_THRESHOLDS;
    let not_done = Cause::SERVICE_NOT_SUPPORTED;
    let (wait, period) = (IeType::MINIMUM_WAIT_TIME, IeType::MEASUREMENT_PERIOD);
    #[rustfmt::skip]
    let table = [
        (Asked { qfis: &[], ..USUAL }, missing, IeType::QFI),
        (Asked { qfis: &[1, 1], ..USUAL }, failed, IeType::QFI),
        (Asked { measure: None, ..USUAL }, missing, IeType::REQUESTED_QOS_MONITORING),
        (Asked { measure: gtpu, ..USUAL }, not_done, IeType::REQUESTED_QOS_MONITORING),
        (Asked { tell: None, ..USUAL }, missing, IeType::REPORTING_FREQUENCY),
        (Asked { limits: None, ..USUAL }, needed, limits),
        (Asked { limits: Some([Some(1), None, None]), ..USUAL }, failed, limits),
        (Asked { limits: Some([None; 3]), ..USUAL }, Cause::MANDATORY_IE_INCORRECT, limits),
        (Asked { period: None, ..USUAL }, needed, period),
        (Asked { period: Some(0), ..USUAL }, Cause::MANDATORY_IE_INCORRECT, period),
        (Asked { tell: events, ..USUAL }, failed, period),
        (Asked { tell: periods, wait: None, ..USUAL }, failed, limits),
        (Asked { tell: periods, limits: None, ..USUAL }, failed, wait),
    ];
    let mut smf = Smf::new();
    for (asked, cause, offending) in table {
        let said = smf.establish(nothing, |writer| {
            put_srr(writer, IeType::CREATE_SRR, 1, &[asked])
        });
        assert_eq!(said, (cause, Some(offending), 0));
        smf.assert_empty();
    }
    let said = smf.establish(nothing, |writer| {
        put_srr(writer, IeType::CREATE_SRR, 1, &[])
    });
    assert_eq!(said, (needed, Some(FLOW), 0));
    let said = smf.establish(nothing, |writer| {
        writer.group(IeType::CREATE_SRR, |writer| {
            writer.put(key::SRR_ID, &SrrId(1))?;
            writer.group(IeType::DIRECT_REPORTING_INFORMATION, |writer| {
                writer.put_ie(&Ie {
                    ie_type: IeType::EVENT_NOTIFICATION_URI,
                    enterprise: None,
                    value: b"http://192.0.2.1",
                })
            })?;
            put_flow(writer, USUAL)
        })
    });
    let direct = Some(IeType::DIRECT_REPORTING_INFORMATION);
    assert_eq!(said, (Cause::SERVICE_NOT_SUPPORTED, direct, 0));
    smf.assert_empty();
}

#[test]
fn more_flows_than_a_session_may_have_are_refused() {
    let mut smf = Smf::new();
    let all = |qfis| Asked { qfis, ..USUAL };
    let said = smf.establish(nothing, |writer| {
        put_srr(
            writer,
            IeType::CREATE_SRR,
            1,
            &[all(&[1, 2, 3, 4, 5, 6, 7, 8, 9])],
        )
    });
    let full = (Cause::NO_RESOURCES_AVAILABLE, Some(IeType::CREATE_SRR), 0);
    assert_eq!(said, full);
    smf.assert_empty();
    let (cause, ..) = smf.establish(nothing, |writer| {
        put_srr(writer, IeType::CREATE_SRR, 1, &[all(&[1, 2, 3, 4])])?;
        put_srr(writer, IeType::CREATE_SRR, 2, &[all(&[1, 2, 3, 4])])
    });
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
}

fn monitors(upf: &Upf) -> Vec<Monitor> {
    let slot = upf.store.slots().next().unwrap();
    upf.store.session(slot).unwrap().monitors
}

/// A session in whose flow 1 a mark awaits its answer since 1 s; its slot, and the mark.
fn marked() -> (Smf, u64, u32, u64) {
    let mut smf = Smf::new();
    let (cause, _, seid) = smf.establish(nothing, |writer| {
        put_srr(writer, IeType::CREATE_SRR, 1, &[USUAL])
    });
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let mark = smf.upf.clock.ntp(SECOND_NS);
    let mut image = smf.upf.store.image(slot).unwrap();
    let record = image.record_mut::<Monitor>(0).unwrap();
    M::marked().set(record, &Some(mark));
    M::next_mark_ns().set(record, &(SECOND_NS + ANSWER_NS));
    (smf, seid, slot, mark)
}

#[test]
fn a_rule_is_changed_whole_and_goes_on_where_it_is_the_same() {
    let (mut smf, seid, ..) = marked();
    let kind = MessageType::SESSION_MODIFICATION_REQUEST;
    let mut ask = |group, id, flows: &[Asked]| {
        smf.ask(kind, Some(seid), |writer| put_srr(writer, group, id, flows))
    };
    let failed = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    let of_id = (failed, Some(IeType::SRR_ID), 0);
    assert_eq!(ask(IeType::UPDATE_SRR, 2, &[USUAL]), of_id);
    assert_eq!(ask(IeType::CREATE_SRR, 1, &[USUAL]), of_id);
    assert_eq!(ask(IeType::REMOVE_SRR, 2, &[]), of_id);
    // One of two is wrong: neither is done.
    let wrong = Asked {
        qfis: &[2, 2],
        ..USUAL
    };
    let other = Asked {
        wait: None,
        ..USUAL
    };
    let (cause, offending, _) = ask(IeType::UPDATE_SRR, 1, &[other, wrong]);
    assert_eq!((cause, offending), (failed, Some(IeType::QFI)));
    let two = Asked {
        qfis: &[2],
        ..USUAL
    };
    assert_eq!(
        ask(IeType::UPDATE_SRR, 1, &[two, USUAL]).0,
        Cause::REQUEST_ACCEPTED
    );
    assert_eq!(ask(IeType::UPDATE_SRR, 1, &[]).0, Cause::REQUEST_ACCEPTED);
    assert_eq!(
        ask(IeType::CREATE_SRR, 2, &[other]).0,
        Cause::REQUEST_ACCEPTED
    );
    let all = |upf: &Upf| {
        let all = monitors(upf).into_iter();
        all.map(|one| (one.srr_id, one.terms.qfi, one.marked.is_some()))
            .collect::<Vec<_>>()
    };
    let waits = [(1, 2, false), (1, 1, true), (2, 1, false)];
    assert_eq!(all(&smf.upf), waits);
    let mut ask = |group, id, flows: &[Asked]| {
        smf.ask(kind, Some(seid), |writer| put_srr(writer, group, id, flows))
    };
    assert_eq!(
        ask(IeType::UPDATE_SRR, 1, &[other]).0,
        Cause::REQUEST_ACCEPTED
    );
    assert_eq!(ask(IeType::REMOVE_SRR, 2, &[]).0, Cause::REQUEST_ACCEPTED);
    assert_eq!(all(&smf.upf), [(1, 1, false)]);
    assert_eq!(ask_delete(&mut smf, seid), Cause::REQUEST_ACCEPTED);
    smf.assert_empty();
}

fn ask_delete(smf: &mut Smf, seid: u64) -> Cause {
    let kind = MessageType::SESSION_DELETION_REQUEST;
    smf.ask(kind, Some(seid), nothing).0
}

/// What an answer says to a mark that was sent at 1 s: 30 ms there and 20 back.
fn said(mark: u64, qfi: u8) -> Uplink {
    Uplink {
        qfi,
        times: Some(UplinkTimes {
            dl_sending: mark,
            dl_received: CLOCK.ntp(SECOND_NS + 30 * MS_NS),
            ul_sending: CLOCK.ntp(SECOND_NS + 40 * MS_NS),
        }),
        ..Uplink::default()
    }
}

/// Round trips in ms of the report that has left, if one has.
fn told(upf: &mut Upf) -> Option<Vec<Option<u32>>> {
    let message = upf.next_message()?;
    let view = View::parse(&message.bytes[..]).unwrap();
    assert_eq!(view.check(), Ok(()));
    let ies = view.ies();
    assert_eq!(ies.require(key::REPORT_TYPE), Ok(ReportType::SESR));
    let report = ies.group(IeType::SESSION_REPORT).unwrap();
    assert_eq!(report.require(key::SRR_ID), Ok(SrrId(1)));
    let of_flow = |group: catena_wire::pfcp::Group<'_>| {
        assert_eq!(group.require(key::QFI), Ok(Qfi(1)));
        let measured = group.require(key::QOS_MONITORING_MEASUREMENT).unwrap();
        assert_eq!(measured.has_failed, measured.delays.rp_ms.is_none());
        assert_eq!((measured.delays.dl_ms, measured.delays.ul_ms), (None, None));
        assert!(group.require(key::TIME_STAMP).unwrap() >= Time(3_900_000_001));
        measured.delays.rp_ms
    };
    Some(
        report
            .groups(IeType::QOS_MONITORING_REPORT)
            .map(of_flow)
            .collect(),
    )
}

#[test]
fn only_who_has_seen_a_mark_can_answer_it() {
    let (mut smf, _, slot, mark) = marked();
    let at_ns = SECOND_NS + 60 * MS_NS;
    for wrong in [
        said(mark + 1, 1),
        said(mark, 2),
        Uplink {
            times: None,
            ..said(mark, 1)
        },
    ] {
        smf.upf.hear_delays(slot, &wrong, at_ns);
        assert_eq!(told(&mut smf.upf), None);
        assert_eq!(monitors(&smf.upf)[0].count, 0);
    }
    smf.upf.hear_delays(slot, &said(mark, 1), at_ns);
    assert_eq!(told(&mut smf.upf), Some(vec![Some(50)]));
    smf.upf.hear_delays(slot, &said(mark, 1), at_ns);
    let one = monitors(&smf.upf)[0];
    assert_eq!(one.count, 1, "it is answered once");
    assert_eq!(one.next_mark_ns, SECOND_NS + MARK_NS);
}

/// What was measured, and what there was no room to tell, is in the memory of the sessions.
#[test]
fn what_is_not_told_yet_outlives_a_kill() {
    let (mut smf, _, slot, mark) = marked();
    let seid = smf.upf.store.head(slot).seid;
    while smf.upf.has_room_for(slot) {
        let is_sent = smf
            .upf
            .report_request(slot, ReportType::UPIR, 0, |_| Ok(()));
        assert!(is_sent && smf.upf.next_message().is_some());
        assert!(smf.upf.transactions.pending() <= PENDING_COUNT_MAX);
    }
    smf.upf
        .hear_delays(slot, &said(mark, 1), SECOND_NS + 60 * MS_NS);
    assert_eq!(told(&mut smf.upf), None, "there is no room");
    let mut upf = new(Some(smf.upf.into_memory()));
    assert_eq!(upf.store.slot_of(seid), Some(slot));
    let at_ns = upf.timers.next_ns().unwrap();
    assert!(at_ns <= 2 * SECOND_NS, "{at_ns}");
    upf.wake_session(slot, 2 * SECOND_NS);
    assert_eq!(told(&mut upf), Some(vec![Some(50)]));
    assert_eq!(told(&mut upf), None, "it is told once");
    // The period goes on, too.
    upf.wake_session(slot, 10 * SECOND_NS);
    assert_eq!(told(&mut upf), Some(vec![Some(50)]));
    upf.wake_session(slot, 20 * SECOND_NS);
    assert_eq!(told(&mut upf), Some(vec![None]));
}

/// Behind a reboot: instants of another clock, and nobody to answer what was marked.
#[test]
fn a_snapshots_instants_are_moved_and_its_marks_are_none() {
    let (smf, _, slot, mark) = marked();
    let mut session = smf.upf.store.session(slot).unwrap();
    let monitor = &mut session.monitors[0];
    answer(monitor, [9, 9], 1000);
    monitor.marked = Some(mark);
    shift(&mut session, |at_ns| at_ns + 7);
    let one = session.monitors[0];
    assert_eq!((one.marked, one.next_mark_ns), (None, 0));
    assert_eq!((one.since_ns, one.period_at_ns), (7, 7));
    assert_eq!(one.event_ns, Some(SECOND_NS + 7));
    assert!(one.event_us.is_some() && one.count == 1);
}

/// Whatever lies in the memory: no panic.
#[test]
fn spoiled_monitors_are_some_value() {
    for byte in [0, 1, 0x7f, 0xff] {
        let mut one = Monitor::load(&[byte; Monitor::LEN]);
        one.wake(SECOND_NS);
        let _ = (one.next_ns(u64::MAX), one.mean_us(), one.shown());
        let times = times([5, 6, 7], 0);
        one.take(&times, [u32::MAX; 2], (u64::MAX, u64::MAX));
        one.told(0);
    }
}
