//! What is reported when there is no room for it: nothing is lost, and nothing is told twice.

use catena_wire::pfcp::value::flags::MeasurementMethod;

use super::*;
use crate::application::number;
use crate::model::Session;
use crate::pfds::tests::{FLOW, put as put_pfds};
use crate::public_failures::{SESSIONS, SMF, Smf, sized};
use crate::rules::{Far, Pdr, UrrTerms};
use crate::transactions::{PENDING_COUNT_MAX, SESSION_PENDING_MAX};

const URRS: u32 = 32;
const SECOND_NS: u64 = 1_000_000_000;

/// A UPF with a session whose URRs each count the packets of an application, and have counted.
fn counting(id: &[u8]) -> (Smf, u32) {
    let mut smf = Smf::with_slots("32KiB");
    let kind = MessageType::PFD_MANAGEMENT_REQUEST;
    let (cause, ..) = smf.ask(kind, None, |writer| put_pfds(writer, id, FLOW));
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    let upf = &mut smf.upf;
    let (slot, seid) = upf.store.next().unwrap();
    let mut session: Session = crate::model::tests::session(seid);
    session.head.cp_v4 = Some([10, 4, 0, 2].into());
    session.urrs.clear();
    let detection = session.pdrs.remove(1);
    session.pdrs.clear();
    let terms = UrrTerms {
        method: MeasurementMethod::VOLUM.bits(),
        triggers: (ReportingTriggers::START | ReportingTriggers::STOPT).bits(),
        inactivity: Some(60),
        ..UrrTerms::NONE
    };
    for urr_id in 1..=URRS {
        if urr_id % 8 == 1 {
            let mut one = detection.clone();
            one.pdr = Pdr {
                far_id: 1,
                source_interface: 0,
                application: number(id),
                ..Pdr::empty(urr_id as u16)
            };
            one.filters.clear();
            session.pdrs.push(one);
        }
        let pdr = &mut session.pdrs.last_mut().unwrap().pdr;
        assert!(pdr.urr_ids.push(urr_id));
        let mut urr = Urr::new(urr_id, terms, 0);
        urr.count(true, 100, None, 0);
        session.urrs.push(urr);
    }
    session.link().unwrap();
    upf.store.insert(&session);
    (smf, slot)
}

/// URRs and octets of the reports that have left.
fn told(upf: &mut Upf) -> Vec<(u32, u64)> {
    let told = told_why(upf).into_iter();
    told.map(|(urr_id, octets, _)| (urr_id, octets)).collect()
}

/// As [`told`], and their triggers.
fn told_why(upf: &mut Upf) -> Vec<(u32, u64, UsageReportTrigger)> {
    let mut told = Vec::new();
    for message in std::iter::from_fn(|| upf.next_message()) {
        let view = View::parse(&message.bytes[..]).unwrap();
        assert_eq!(view.check(), Ok(()));
        for group in view.ies().groups(IeType::USAGE_REPORT_REPORT) {
            let volume = group.require(key::VOLUME_MEASUREMENT).unwrap();
            let trigger = group.require(key::USAGE_REPORT_TRIGGER).unwrap();
            let urr_id = group.require(key::URR_ID).unwrap().0;
            told.push((urr_id, volume.ul.unwrap(), trigger));
        }
    }
    told
}

fn counted(upf: &mut Upf, slot: u32) -> u64 {
    let session = upf.store.session(slot).unwrap();
    let urrs = session.urrs.iter();
    urrs.map(|urr| urr.usage.octets[0]).sum()
}

/// A request that is about no session.
fn ask_whether_it_is_there(upf: &mut Upf) {
    let (kind, subject) = (MessageType::HEARTBEAT_REQUEST, Subject::Heartbeat(0));
    let time = |writer: &mut Writer<'_>| writer.put(key::RECOVERY_TIME_STAMP, &Time(1));
    assert!(upf.request(SMF.address, kind, None, subject, 0, time));
}

/// A session that has much to tell leaves room for the others, whether it is answered or not; what
/// it has to tell then is told together, once it is.
#[test]
fn a_session_has_its_share_of_the_requests_outstanding() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    for _ in 0..2 * PENDING_COUNT_MAX {
        upf.report_usage(slot, &[(0, UsageReportTrigger::VOLTH)], 0);
        upf.report_waiting(0);
    }
    assert_eq!(upf.transactions.pending(), SESSION_PENDING_MAX);
    let sent = std::iter::from_fn(|| upf.next_message());
    let sequence = |bytes: Vec<u8>| View::parse(&bytes[..]).unwrap().header().sequence;
    let sequences: Vec<u32> = sent.map(|one| sequence(one.bytes)).collect();
    assert_eq!(sequences.len(), SESSION_PENDING_MAX);
    answer(upf, &sequences[..1], 0);
    assert_eq!(told(upf).len(), 1);
    assert!(!upf.transactions.has_room_for(upf.store.head(slot).seid));
    // The others are given up, unanswered.
    for second in 1..40 {
        upf.wake(second * SECOND_NS);
    }
    assert!(upf.transactions.has_room_for(upf.store.head(slot).seid));
    assert_eq!(upf.transactions.pending(), 0);
}

/// Has as many requests outstanding as there may be, but so many; their sequence numbers.
fn fill_but(upf: &mut Upf, count: usize) -> Vec<u32> {
    while upf.transactions.pending() < PENDING_COUNT_MAX - count {
        ask_whether_it_is_there(upf);
    }
    let messages = std::iter::from_fn(|| upf.next_message());
    let sequence = |bytes: Vec<u8>| View::parse(&bytes[..]).unwrap().header().sequence;
    messages.map(|message| sequence(message.bytes)).collect()
}

/// Some of these requests are answered.
fn answer(upf: &mut Upf, sequences: &[u32], now_ns: u64) {
    for sequence in sequences {
        let subject = upf.transactions.answered(SMF.address, *sequence);
        assert!(subject.is_some());
    }
    upf.report_waiting(now_ns);
}

/// All of 32 URRs with names as long as can be are too much for a message.
#[test]
fn what_one_request_has_no_room_for_goes_in_several() {
    let (mut smf, slot) = counting(&[b'a'; 255]);
    let upf = &mut smf.upf;
    upf.wake_session(slot, 61 * SECOND_NS);
    let all: Vec<_> = (1..=URRS).map(|id| (id, 100)).collect();
    assert_eq!((told(upf), counted(upf, slot)), (all, 0));
    assert_eq!(upf.counters().reports, u64::from(URRS));
}

#[test]
fn what_fits_goes_in_one() {
    let (mut smf, slot) = counting(b"short");
    smf.upf.wake_session(slot, 61 * SECOND_NS);
    assert_eq!(told(&mut smf.upf).len(), URRS as usize);
    assert_eq!(smf.upf.counters().reports, 1);
}

/// A URR begins anew only with a report that is on its way: else what it has counted waits in it.
#[test]
fn what_no_request_is_made_for_stays_counted() {
    let (mut smf, slot) = counting(&[b'a'; 255]);
    let upf = &mut smf.upf;
    let outstanding = fill_but(upf, 3);
    upf.wake_session(slot, 61 * SECOND_NS);
    assert_eq!(told(upf), [(1, 100), (2, 100), (3, 100)]);
    assert_eq!(counted(upf, slot), (u64::from(URRS) - 3) * 100);
    answer(upf, &outstanding[..40], 62 * SECOND_NS);
    let rest: Vec<_> = (4..=URRS).map(|id| (id, 100)).collect();
    assert_eq!((told(upf), counted(upf, slot)), (rest, 0));
    assert_eq!(upf.counters().unsent, 0);
}

/// That traffic has stopped comes once. Where too many requests are outstanding it waits in its
/// URRs, is told as soon as one was answered, and once.
#[test]
fn a_trigger_without_room_waits_and_is_told_once() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    let outstanding = fill_but(upf, 0);
    upf.wake_session(slot, 61 * SECOND_NS);
    upf.wake_session(slot, 62 * SECOND_NS);
    assert_eq!((told(upf), upf.untold.len()), (vec![], 1));
    let request = serde_json::json!({ "show": "reports" });
    let shown = upf
        .show(&request, &crate::held::Account::default(), 0)
        .unwrap();
    assert_eq!(
        (&shown["untold"], &shown["waiting_for_room"]),
        (&1.into(), &0.into())
    );
    assert_eq!(counted(upf, slot), u64::from(URRS) * 100);
    answer(upf, &outstanding[..1], 63 * SECOND_NS);
    let stopped = UsageReportTrigger::STOPT;
    let all: Vec<_> = (1..=URRS).map(|id| (id, 100, stopped)).collect();
    assert_eq!((told_why(upf), counted(upf, slot)), (all, 0));
    answer(upf, &outstanding[1..9], 64 * SECOND_NS);
    assert_eq!((told(upf), upf.untold.len()), (vec![], 0));
    assert_eq!(upf.counters().unsent, 0);
    assert!(!upf.store.session(slot).unwrap().has_untold());
}

/// More of both wait than there are answers: each second one is for usage, and not for what has
/// ended meanwhile.
#[test]
fn usage_and_what_is_held_take_turns_where_answers_come_one_by_one() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    upf.holding.insert(slot);
    let outstanding = fill_but(upf, 0);
    let mut of_usage = Vec::new();
    upf.note_untold(1 << 40);
    for sequence in &outstanding[..6] {
        upf.report_downlink_data(slot, 1, None, 0);
        upf.report_usage(slot, &[(0, UsageReportTrigger::VOLTH)], 0);
        answer(upf, &[*sequence], 0);
        assert!(!upf.transactions.has_room());
        of_usage.push(!told(upf).is_empty());
    }
    assert_eq!(of_usage, [false, true, false, true, false, true]);
}

/// What has fired lies in the session's memory, and is told by who takes it over.
#[test]
fn a_trigger_that_waits_outlives_a_kill() {
    let (mut smf, slot) = counting(b"short");
    fill_but(&mut smf.upf, 0);
    smf.upf.wake_session(slot, 61 * SECOND_NS);
    let memory = smf.upf.into_memory();
    let mut upf = sized(SESSIONS, "10.45.0.0/24", "32KiB", Some(memory));
    upf.wake(0);
    assert_eq!(told(&mut upf).len(), URRS as usize);
    assert!(upf.untold.is_empty());
}

/// Sessions that come and go with something to tell take no more room than those that are there.
#[test]
fn sessions_that_have_ended_do_not_wait_to_be_told() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    let outstanding = fill_but(upf, 0);
    upf.wake_session(slot, 61 * SECOND_NS);
    for use_count in 1..1000 {
        upf.note_untold(use_count << 40);
        assert!(upf.untold.len() <= 2 * SESSIONS as usize + 1);
    }
    answer(upf, &outstanding[..2], 62 * SECOND_NS);
    assert_eq!(told(upf).len(), URRS as usize);
    assert!(upf.untold.is_empty());
}

/// All URRs of a session measure time, and tell each ten seconds of it.
fn measure_time(upf: &mut Upf, slot: u32) {
    let mut session = upf.store.session(slot).unwrap();
    for urr in &mut session.urrs {
        urr.terms = UrrTerms {
            method: (MeasurementMethod::VOLUM | MeasurementMethod::DURAT).bits(),
            triggers: ReportingTriggers::TIMTH.bits(),
            time_threshold: Some(10),
            ..UrrTerms::NONE
        };
    }
    upf.store.replace(slot, &session);
    upf.arm(slot, 0);
}

/// Where a threshold of time is told only later, its timer has ended: it begins with the report.
#[test]
fn a_time_threshold_that_was_told_late_is_waited_for_again() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    measure_time(upf, slot);
    let outstanding = fill_but(upf, 0);
    assert_eq!(upf.timers.due(11 * SECOND_NS), Some(slot));
    upf.wake_session(slot, 11 * SECOND_NS);
    assert_eq!((told(upf), upf.timers.next_ns()), (vec![], None));
    answer(upf, &outstanding[..1], 20 * SECOND_NS);
    let timth = UsageReportTrigger::TIMTH;
    let all: Vec<_> = (1..=URRS).map(|id| (id, 100, timth)).collect();
    assert_eq!(told_why(upf), all);
    assert_eq!(upf.timers.due(29 * SECOND_NS), None);
    assert_eq!(upf.timers.due(31 * SECOND_NS), Some(slot));
}

/// What an SMF asks for takes with it why else it was to be told, and is not told again.
#[test]
fn what_waits_is_told_by_a_report_that_is_asked_for() {
    let (mut smf, slot) = counting(b"short");
    let seid = smf.upf.store.head(slot).seid;
    let outstanding = fill_but(&mut smf.upf, 0);
    let stopped = UsageReportTrigger::STOPT;
    let due = [
        (6, UsageReportTrigger::VOLTH),
        (7, UsageReportTrigger::VOLTH | stopped),
    ];
    smf.upf.report_usage(slot, &due, 0);
    let modification = MessageType::SESSION_MODIFICATION_REQUEST;
    let said = smf.ask(modification, Some(seid), |writer| {
        [7, 8].into_iter().try_for_each(|id| {
            writer.group(IeType::QUERY_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(id))
            })
        })
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let upf = &mut smf.upf;
    assert_eq!(counted(upf, slot), (u64::from(URRS) - 2) * 100);
    // Only that traffic has stopped is told with its application, which the answer does not name.
    answer(upf, &outstanding[..1], 0);
    assert_eq!(told_why(upf), [(8, 0, stopped)]);
    assert!(!upf.store.session(slot).unwrap().has_untold());
}

/// A threshold of time that is set below what has passed is told at once: no timer comes to it.
#[test]
fn a_time_threshold_below_what_has_passed_is_told_at_once() {
    let (mut smf, slot) = counting(b"short");
    measure_time(&mut smf.upf, slot);
    let mut session = smf.upf.store.session(slot).unwrap();
    session.urrs[6].usage.duration_ns = 9 * SECOND_NS;
    let seid = session.head.seid;
    smf.upf.store.replace(slot, &session);
    for (seconds, is_told) in [(10, false), (9, true)] {
        let modification = MessageType::SESSION_MODIFICATION_REQUEST;
        let said = smf.ask(modification, Some(seid), |writer| {
            writer.group(IeType::UPDATE_URR, |writer| {
                writer.put(key::URR_ID, &UrrId(7))?;
                writer.put(key::TIME_THRESHOLD, &Seconds(seconds))
            })
        });
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
        smf.upf.report_waiting(0);
        let timth = UsageReportTrigger::TIMTH;
        let wanted = is_told.then_some((7, 100, timth));
        assert_eq!(told_why(&mut smf.upf), Vec::from_iter(wanted));
    }
}

/// What nobody can be told is not waited for, nor does it keep others from being told.
#[test]
fn what_cannot_be_told_does_not_wait_for_ever() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    let outstanding = fill_but(upf, 0);
    upf.report_usage(slot, &[(6, UsageReportTrigger::VOLTH)], 0);
    let mut image = upf.store.image(slot).unwrap();
    let head = image.head();
    image.set_head(&Head {
        cp_v4: None,
        cp_v6: None,
        ..head
    });
    answer(upf, &outstanding[..1], 0);
    assert_eq!((told(upf), upf.counters().unsent), (vec![], 1));
    upf.store.image(slot).unwrap().set_head(&head);
    upf.report_usage(slot, &[(6, UsageReportTrigger::VOLTH)], 0);
    assert_eq!(told(upf), [(7, 100)]);
}

/// A monitoring time has passed and no report was made since: before another one is waited for,
/// what it has divided is told, so that no report is of two of them.
#[test]
fn what_a_monitoring_time_has_divided_is_told_before_the_next() {
    let (mut smf, slot) = counting(b"short");
    let mut session = smf.upf.store.session(slot).unwrap();
    let passed = session.urrs[6].usage;
    session.urrs[6].before = Some(passed);
    let seid = session.head.seid;
    smf.upf.store.replace(slot, &session);
    let modification = MessageType::SESSION_MODIFICATION_REQUEST;
    let said = smf.ask(modification, Some(seid), |writer| {
        writer.group(IeType::UPDATE_URR, |writer| {
            writer.put(key::URR_ID, &UrrId(7))?;
            writer.put(key::MONITORING_TIME, &Time(1))
        })
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let upf = &mut smf.upf;
    upf.report_waiting(0);
    let monit = UsageReportTrigger::MONIT;
    assert_eq!(told_why(upf), [(7, 100, monit), (7, 100, monit)]);
    assert_eq!(upf.store.session(slot).unwrap().urrs[6].before, None);
}

/// What waits to be told, and what waits for an answer, are the next UPF's.
#[test]
fn a_successor_tells_what_was_not_told_yet() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    while upf.transactions.has_room() {
        ask_whether_it_is_there(upf);
    }
    let outstanding = upf.transactions.pending();
    upf.holding.insert(slot);
    upf.report_downlink_data(slot, 1, None, 0);
    upf.wake_session(slot, 61 * SECOND_NS);
    upf.released.push_back((slot, Release::Dropped));
    upf.end_markers.push_back((1, Far::empty(1)));
    // It may have found in the memory what was not told, or come before it was there.
    for is_known in [true, false] {
        let given = upf.give_up_requests();
        assert_eq!((upf.transactions.pending(), upf.unreported.len()), (0, 0));
        assert!(upf.untold.is_empty());
        if is_known {
            upf.note_untold(upf.store.head(slot).seid);
        }
        upf.take_requests(given);
    }
    assert_eq!(upf.transactions.pending(), outstanding);
    assert_eq!((upf.unreported.len(), upf.outbox.len()), (1, outstanding));
    assert_eq!(upf.untold.len(), 1);
    assert_eq!((upf.released.len(), upf.end_markers.len()), (1, 1));
}

/// Sessions that begin anew have the numbers of those that were: what was said of these is not of
/// them.
#[test]
fn a_successor_with_other_sessions_goes_on_with_no_requests() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    upf.report_inactivity(slot, 0);
    upf.released.push_back((slot, Release::Dropped));
    let (settings, clock) = (upf.settings.clone(), upf.clock);
    let bytes = crate::store::memory_bytes(settings.session_bytes, settings.sessions);
    let memory = Box::new(vec![0_u8; bytes]);
    let mut other = Upf::new(settings, memory, clock, 5 * SECOND_NS).unwrap();
    other.take_requests(upf.give_up_requests());
    assert_eq!((other.transactions.pending(), other.outbox.len()), (0, 0));
    assert!(other.released.is_empty());
}
