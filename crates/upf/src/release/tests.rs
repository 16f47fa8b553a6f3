//! Associations that end: all usage is told before, whoever wants it and whatever goes wrong.

use std::net::Ipv4Addr;

use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::address::{AlternativeSmfIpAddress, NodeId};
use catena_wire::pfcp::value::flags::MeasurementMethod;
use catena_wire::pfcp::{Full, Header, Writer};

use super::*;
use crate::association::Association;
use crate::model::Session;
use crate::node::message;
use crate::public_failures::{SMF, Smf, nothing, sized};
use crate::rules::Urr;
use crate::transactions::PENDING_COUNT_MAX;

mod histories;

const SECOND_NS: u64 = 1_000_000_000;
/// Octets that were counted, and told.
type Octets = u64;

/// An SMF, and whether it has EPFAR.
fn smf_that(is_enhanced: bool, sessions: u32) -> Smf {
    let mut smf = Smf::of(sized(sessions, "10.45.0.0/16", "4KiB", None));
    enhance(&mut smf.upf, is_enhanced);
    smf
}

fn enhance(upf: &mut Upf, is_enhanced: bool) {
    let features = match is_enhanced {
        true => CpFunctionFeatures::EPFAR,
        false => CpFunctionFeatures::NONE,
    };
    let association = Association {
        features: features.bits(),
        ..upf.store.association(0)
    };
    upf.store.set_association(0, &association);
}

/// A session whose URRs have counted so many octets each.
fn count(upf: &mut Upf, octets: usize) {
    let (_, seid) = upf.store.next().unwrap();
    let mut session: Session = crate::model::tests::session(seid);
    session.head.cp_v4 = Some(Ipv4Addr::new(10, 4, 0, 2));
    session.head.association = 0;
    for urr in &mut session.urrs {
        urr.terms.method = MeasurementMethod::VOLUM.bits();
        if octets > 0 {
            urr.count(true, octets, None, 0);
        }
    }
    session.link().unwrap();
    upf.store.insert(&session);
}

/// What sessions have counted that is not told.
fn untold(upf: &Upf) -> Octets {
    let sessions = upf.store.slots().filter_map(|slot| upf.store.session(slot));
    let of_one = |session: Session| -> Octets {
        let urrs = session.urrs.iter();
        urrs.map(|urr| urr.usage.octets[0]).sum()
    };
    sessions.map(of_one).sum()
}

/// A request of the UPF.
#[derive(Debug)]
struct Heard {
    header: Header,
    told: Octets,
    triggers: Vec<UsageReportTrigger>,
    ends: bool,
    prepares: bool,
    wants: Option<AssociationReleaseRequest>,
    period: Option<Timer>,
}

fn hear(upf: &mut Upf) -> Option<Heard> {
    let request = upf.next_message()?;
    assert_eq!(request.to, SMF);
    let view = View::parse(&request.bytes[..]).unwrap();
    assert_eq!(view.check(), Ok(()), "{view}");
    let ies = view.ies();
    let reports: Vec<_> = ies.groups(IeType::USAGE_REPORT_REPORT).collect();
    let octets = |group: &Group<'_>| {
        let volume = group.get(key::VOLUME_MEASUREMENT).unwrap();
        volume.and_then(|volume| volume.ul).unwrap_or(0)
    };
    let trigger = |group: &Group<'_>| group.require(key::USAGE_REPORT_TRIGGER).unwrap();
    let flags = ies.get(key::PFCPSRREQ_FLAGS).unwrap();
    let kind = ies.get(key::REPORT_TYPE).unwrap();
    let asks = kind.is_some_and(|kind| kind.contains(ReportType::UISR));
    assert_eq!(asks, flags.is_some(), "{view}");
    Some(Heard {
        header: *view.header(),
        told: reports.iter().map(octets).sum(),
        triggers: reports.iter().map(trigger).collect(),
        ends: flags.is_some_and(|flags| flags.contains(SessionReportRequestFlags::PSDBU)),
        prepares: is_prepared(&ies).unwrap(),
        wants: ies.get(key::PFCP_ASSOCIATION_RELEASE_REQUEST).unwrap(),
        period: ies.get(key::GRACEFUL_RELEASE_PERIOD).unwrap(),
    })
}

fn hear_all(upf: &mut Upf) -> Vec<Heard> {
    std::iter::from_fn(|| hear(upf)).collect()
}

fn answer(upf: &mut Upf, to: &Heard, cause: Cause, now_ns: u64) {
    let Some(message_type) = to.header.message_type.response() else {
        return;
    };
    let header = Header {
        message_type,
        seid: to.header.seid.map(|_| 1),
        ..to.header
    };
    let bytes = message(&header, |writer| {
        if header.seid.is_none() {
            put_node(writer)?;
        }
        writer.put(key::CAUSE, &cause)
    });
    upf.datagram(&bytes.unwrap(), SMF, now_ns);
}

fn put_node(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::new(10, 4, 0, 2)))
}

fn prepare(smf: &mut Smf) -> Cause {
    update(smf, AssociationUpdateRequestFlags::PARPS)
}

fn update(smf: &mut Smf, flags: AssociationUpdateRequestFlags) -> Cause {
    let kind = MessageType::ASSOCIATION_UPDATE_REQUEST;
    let said = smf.ask(kind, None, |writer| {
        put_node(writer)?;
        writer.put(key::PFCPAUREQ_FLAGS, &flags)
    });
    said.0
}

fn set_up(smf: &mut Smf) -> Cause {
    let kind = MessageType::ASSOCIATION_SETUP_REQUEST;
    let said = smf.ask(kind, None, |writer| {
        put_node(writer)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
    });
    said.0
}

fn release(smf: &mut Smf) -> Cause {
    let kind = MessageType::ASSOCIATION_RELEASE_REQUEST;
    smf.ask(kind, None, put_node).0
}

#[test]
fn an_operator_ends_an_association_behind_the_last_report_of_each_session() {
    let mut smf = smf_that(true, 64);
    for octets in 1..=9 {
        count(&mut smf.upf, 100 * octets);
    }
    count(&mut smf.upf, 0);
    let counted = untold(&smf.upf);
    assert_eq!(counted, 4500);
    let asked = smf.upf.ask_for_release(&json!({ "release": "all" }), 0);
    assert_eq!(asked.unwrap()["asked"][0]["state"], "parting");
    let said = hear_all(&mut smf.upf);
    let [first] = &said[..] else {
        panic!("{said:?}");
    };
    assert!(first.prepares && first.wants.is_none() && first.period.is_none());
    // Nothing more is taken, and nothing is told before the SMF has heard of it.
    let refused = smf.establish(nothing, nothing);
    assert_eq!(refused.0, Cause::NO_RESOURCES_AVAILABLE);
    smf.upf.wake(SECOND_NS);
    assert!(hear(&mut smf.upf).is_none());
    answer(&mut smf.upf, first, Cause::REQUEST_ACCEPTED, SECOND_NS);
    smf.upf.wake(SECOND_NS);
    let reports = hear_all(&mut smf.upf);
    let told: Octets = reports.iter().map(|one| one.told).sum();
    assert_eq!((reports.len(), told, untold(&smf.upf)), (9, counted, 0));
    let is_last = |one: &Heard| one.ends && one.triggers == [UsageReportTrigger::TEBUR];
    assert!(reports.iter().all(is_last), "{reports:?}");
    assert_eq!(smf.upf.session_count(), 0, "that without usage, too");
    // All are answered before all is said.
    for (at, report) in reports.iter().enumerate() {
        assert!(hear(&mut smf.upf).is_none(), "behind {at}");
        answer(&mut smf.upf, report, Cause::REQUEST_ACCEPTED, SECOND_NS);
        smf.upf.wake(SECOND_NS);
    }
    let over = hear(&mut smf.upf).unwrap();
    let all_said = AssociationReleaseRequest::SARR | AssociationReleaseRequest::URSS;
    assert_eq!((over.wants, over.prepares), (Some(all_said), false));
    answer(&mut smf.upf, &over, Cause::REQUEST_ACCEPTED, SECOND_NS);
    assert_eq!(smf.upf.shown_parting(0), "to be released");
    smf.upf.wake(2 * SECOND_NS);
    assert!(hear(&mut smf.upf).is_none(), "it is said once");
    assert_eq!(release(&mut smf), Cause::REQUEST_ACCEPTED);
    assert!(!smf.upf.store.association(0).is_some() && smf.upf.partings.is_empty());
}

/// One that has no EPFAR is asked, and told how long it may take. Whether it refuses or never
/// answers: the association stays, sessions are taken again, and it may be asked again.
#[test]
fn an_smf_without_epfar_is_asked_for_the_release_and_may_refuse() {
    for is_refused in [true, false] {
        let mut smf = smf_that(false, 64);
        count(&mut smf.upf, 100);
        let request = json!({ "release": "10.4.0.2", "within_s": 90 });
        for _ in 0..2 {
            smf.upf.ask_for_release(&request, 0).unwrap();
        }
        let said = hear_all(&mut smf.upf);
        let [asked] = &said[..] else {
            panic!("it is asked once: {said:?}");
        };
        assert_eq!(asked.wants, Some(AssociationReleaseRequest::SARR));
        assert_eq!(asked.period.and_then(Timer::seconds), Some(120));
        assert!(!asked.prepares);
        assert_eq!(
            smf.establish(nothing, nothing).0,
            Cause::NO_RESOURCES_AVAILABLE
        );
        if is_refused {
            answer(&mut smf.upf, asked, Cause::REQUEST_REJECTED, 0);
        }
        for second in 0..30 {
            smf.upf.wake(second * SECOND_NS);
            while smf.upf.next_message().is_some() {}
        }
        assert_eq!(smf.upf.shown_parting(0), "associated");
        assert_eq!(smf.upf.counters().unanswered, u64::from(!is_refused));
        assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
        assert_eq!(untold(&smf.upf), 100, "nothing has ended");
        smf.upf.ask_for_release(&request, 40 * SECOND_NS).unwrap();
        let asked = hear(&mut smf.upf).unwrap();
        answer(&mut smf.upf, &asked, Cause::REQUEST_ACCEPTED, 0);
        assert_eq!(smf.upf.shown_parting(0), "to be released");
        smf.upf.wake(41 * SECOND_NS);
        assert!(hear(&mut smf.upf).is_none(), "it has no last reports");
    }
}

/// More sessions than requests may be outstanding: the rest waits for answers. Those that nobody
/// answers are given up, and the end comes still.
#[test]
fn last_reports_wait_for_room_and_the_end_comes_without_answers_too() {
    let sessions = 2 * PENDING_COUNT_MAX as u32;
    let mut smf = smf_that(true, sessions);
    for _ in 0..sessions {
        count(&mut smf.upf, 7);
    }
    let counted = untold(&smf.upf);
    assert_eq!(prepare(&mut smf), Cause::REQUEST_ACCEPTED);
    let mut now_ns = 0;
    let mut told = 0;
    let mut all_said = 0;
    while all_said == 0 {
        now_ns += SECOND_NS;
        assert!(now_ns < 120 * SECOND_NS, "it comes to no end");
        smf.upf.wake(now_ns);
        assert!(smf.upf.transactions.pending() <= PENDING_COUNT_MAX);
        for one in hear_all(&mut smf.upf) {
            // Repetitions are of those that were not answered.
            let is_answered = one.header.sequence.is_multiple_of(8);
            if one.wants == Some(AssociationReleaseRequest::URSS) {
                assert_eq!(untold(&smf.upf), 0);
                all_said += 1;
            } else if is_answered {
                told += one.told;
                answer(&mut smf.upf, &one, Cause::REQUEST_ACCEPTED, now_ns);
            }
        }
    }
    assert_eq!((told > 0, told < counted), (true, true));
    assert_eq!(smf.upf.session_count(), 0);
    assert!(smf.upf.counters().unanswered > 0);
}

/// What one request has no room for goes in several, of which the last one ends the session.
#[test]
fn a_last_report_that_is_too_long_comes_in_several_requests() {
    let mut smf = Smf::with_slots("64KiB");
    enhance(&mut smf.upf, true);
    let (_, seid) = smf.upf.store.next().unwrap();
    let mut session: Session = crate::model::tests::session(seid);
    session.head.cp_v4 = Some(Ipv4Addr::new(10, 4, 0, 2));
    let urr = session.urrs.remove(0);
    session.urrs.clear();
    session.pdrs.iter_mut().for_each(|one| {
        one.pdr.urr_ids = Default::default();
    });
    for id in 0..32 {
        let mut urr = Urr { id, ..urr };
        urr.terms.method |= 7;
        urr.terms.information |= 16;
        urr.count(true, 10, None, 0);
        urr.before = Some(urr.usage);
        while urr.events.push(1) {}
        session.urrs.push(urr);
    }
    session.link().unwrap();
    smf.upf.store.insert(&session);
    prepare(&mut smf);
    smf.upf.wake(0);
    let said = hear_all(&mut smf.upf);
    assert_eq!(said.len(), 64, "a request for each report");
    assert_eq!(said.iter().map(|one| one.told).sum::<Octets>(), 640);
    let ends = said.iter().filter(|one| one.ends).count();
    assert!(ends == 1 && said.last().unwrap().ends);
    for (at, one) in said.iter().enumerate() {
        assert!(hear(&mut smf.upf).is_none(), "behind {at}");
        answer(&mut smf.upf, one, Cause::REQUEST_ACCEPTED, 0);
        smf.upf.wake(0);
    }
    let over = hear(&mut smf.upf).unwrap();
    assert_eq!(over.wants, Some(AssociationReleaseRequest::URSS));
}

/// An SMF that prepares the end has no more sessions, whose usage nobody would tell; once the
/// operator wants it, too, it is asked for the release.
#[test]
fn what_an_smf_has_begun_an_operator_may_want_too() {
    for wants in [false, true] {
        let mut smf = smf_that(true, 64);
        count(&mut smf.upf, 100);
        let none = AssociationUpdateRequestFlags::NONE;
        assert_eq!(update(&mut smf, none), Cause::REQUEST_ACCEPTED);
        assert_eq!(smf.upf.shown_parting(0), "associated");
        assert_eq!(prepare(&mut smf), Cause::REQUEST_ACCEPTED);
        smf.upf.wake(0);
        let report = hear(&mut smf.upf).unwrap();
        if wants {
            let request = json!({ "release": "10.4.0.2" });
            smf.upf.ask_for_release(&request, 0).unwrap();
        }
        let refused = smf.establish(nothing, nothing).0;
        assert_eq!(refused, Cause::NO_RESOURCES_AVAILABLE);
        answer(&mut smf.upf, &report, Cause::REQUEST_ACCEPTED, 0);
        smf.upf.wake(0);
        let over = hear(&mut smf.upf).unwrap().wants.unwrap();
        assert!(over.contains(AssociationReleaseRequest::URSS));
        assert_eq!(over.contains(AssociationReleaseRequest::SARR), wants);
    }
}

/// What was prepared is not the next association's.
#[test]
fn an_association_that_is_set_up_anew_does_not_end() {
    let mut smf = smf_that(true, 64);
    count(&mut smf.upf, 100);
    prepare(&mut smf);
    smf.upf.wake(0);
    let report = hear(&mut smf.upf).unwrap();
    assert_eq!(set_up(&mut smf), Cause::REQUEST_ACCEPTED);
    assert_eq!(smf.upf.shown_parting(0), "associated");
    answer(&mut smf.upf, &report, Cause::REQUEST_ACCEPTED, 0);
    smf.upf.wake(0);
    assert!(hear(&mut smf.upf).is_none());
}

/// A last report that nobody answers goes to another SMF of the set, as do others; what that one
/// sends elsewhere goes on, too.
#[test]
fn a_last_report_goes_to_the_others_of_the_set() {
    let mut smf = smf_that(true, 64);
    let others = [[10, 4, 0, 3], [10, 4, 0, 4]].map(Ipv4Addr::from);
    let mut association = smf.upf.store.association(0);
    assert!(association.others_v4.push(others[0].to_bits()));
    smf.upf.store.set_association(0, &association);
    count(&mut smf.upf, 100);
    prepare(&mut smf);
    let mut said = Vec::new();
    for second in 0..40 {
        let now_ns = second * SECOND_NS;
        smf.upf.wake(now_ns);
        while let Some(request) = smf.upf.next_message() {
            let view = View::parse(&request.bytes[..]).unwrap();
            let header = *view.header();
            said.push((header.message_type, request.to.address));
            if request.to.address == others[0] {
                let header = Header {
                    message_type: MessageType::SESSION_REPORT_RESPONSE,
                    seid: Some(1),
                    ..header
                };
                let bytes = message(&header, |writer| {
                    writer.put(key::CAUSE, &Cause::REDIRECTION_REQUESTED)?;
                    let to = AlternativeSmfIpAddress {
                        v4: Some(others[1]),
                        v6: None,
                        is_preferred: false,
                    };
                    writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &to)
                });
                smf.upf.datagram(&bytes.unwrap(), request.to, now_ns);
            }
        }
    }
    said.dedup();
    let report = |to: Ipv4Addr| (MessageType::SESSION_REPORT_REQUEST, to.into());
    let over = (MessageType::ASSOCIATION_UPDATE_REQUEST, SMF.address);
    let first = Ipv4Addr::new(10, 4, 0, 2);
    // Given up at the last one, and then all is said.
    assert_eq!(
        said,
        [report(first), report(others[0]), report(others[1]), over]
    );
}

/// All of none are none.
#[test]
fn nobody_is_asked_where_nobody_is_associated() {
    let mut upf = crate::public_failures::new(None);
    let said = upf.ask_for_release(&json!({ "release": "all" }), 0);
    assert_eq!(said, Ok(json!({ "asked": [] })));
}

/// Shards that do not ask take no more sessions either, until the answer comes to all, or none has.
#[test]
fn all_shards_take_no_more_sessions_and_hear_of_the_answer() {
    for (cause, state) in [
        (Some(Cause::REQUEST_ACCEPTED), "to be released"),
        (Some(Cause::REQUEST_REJECTED), "associated"),
        (None, "associated"),
    ] {
        let mut smf = smf_that(true, 64);
        smf.upf.settings.shard = (1, 2);
        let said = smf.upf.ask_for_release(&json!({ "release": "all" }), 0);
        assert_eq!(said, Ok(Value::Null));
        assert!(hear(&mut smf.upf).is_none() && smf.upf.is_parting(0));
        if let Some(cause) = cause {
            let header = Header::new(MessageType::ASSOCIATION_UPDATE_RESPONSE, None, 7);
            let bytes = message(&header, |writer| {
                put_node(writer)?;
                writer.put(key::CAUSE, &cause)
            });
            smf.upf.datagram(&bytes.unwrap(), SMF, 0);
        }
        smf.upf.wake(20 * SECOND_NS);
        assert_eq!(smf.upf.shown_parting(0), state);
    }
}

#[test]
fn what_cannot_be_asked_is_said_to_the_operator() {
    let mut smf = smf_that(true, 64);
    for (request, what) in [
        (json!({ "release": "10.4.0.9" }), "no association"),
        (json!({ "release": "" }), "no association"),
        (json!({ "release": 7 }), "no association"),
        (
            json!({ "release": "all", "within_s": 1_116_001 }),
            "within_s",
        ),
        (json!({ "release": "all", "within_s": "soon" }), "within_s"),
    ] {
        let said = smf.upf.ask_for_release(&request, 0).unwrap_err();
        assert!(said.contains(what), "{said}");
    }
    assert!(smf.upf.partings.is_empty() && hear(&mut smf.upf).is_none());
}
