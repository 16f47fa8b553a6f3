//! What is reported when there is no room for it: nothing is lost, and nothing is told twice.

use catena_wire::pfcp::value::flags::MeasurementMethod;

use super::*;
use crate::application::number;
use crate::model::Session;
use crate::pfds::tests::{FLOW, put as put_pfds};
use crate::public_failures::Smf;
use crate::rules::{Pdr, UrrTerms};
use crate::transactions::PENDING_COUNT_MAX;

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
        urr.count(true, 100, 0);
        session.urrs.push(urr);
    }
    session.link().unwrap();
    upf.store.insert(&session);
    (smf, slot)
}

/// URRs and octets of the reports that have left.
fn told(upf: &mut Upf) -> Vec<(u32, u64)> {
    let mut told = Vec::new();
    for message in std::iter::from_fn(|| upf.next_message()) {
        let view = View::parse(&message.bytes[..]).unwrap();
        assert_eq!(view.check(), Ok(()));
        for group in view.ies().groups(IeType::USAGE_REPORT_REPORT) {
            let volume = group.require(key::VOLUME_MEASUREMENT).unwrap();
            told.push((group.require(key::URR_ID).unwrap().0, volume.ul.unwrap()));
        }
    }
    told
}

fn counted(upf: &mut Upf, slot: u32) -> u64 {
    let session = upf.store.session(slot).unwrap();
    let urrs = session.urrs.iter();
    urrs.map(|urr| urr.usage.octets[0]).sum()
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
    let rooms = PENDING_COUNT_MAX - upf.transactions.pending() - 3;
    for _ in 0..rooms {
        upf.report_inactivity(slot, 0);
    }
    while upf.next_message().is_some() {}
    upf.wake_session(slot, 61 * SECOND_NS);
    assert_eq!(told(upf), [(1, 100), (2, 100), (3, 100)]);
    assert_eq!(counted(upf, slot), (u64::from(URRS) - 3) * 100);
}

/// What waits to be told, and what waits for an answer, are the next UPF's.
#[test]
fn a_successor_tells_what_was_not_told_yet() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    while upf.transactions.has_room() {
        upf.report_inactivity(slot, 0);
    }
    let outstanding = upf.transactions.pending();
    upf.holding.insert(slot);
    upf.report_downlink_data(slot, 1, None, 0);
    upf.released.push_back((slot, true));
    let given = upf.give_up_requests();
    assert_eq!((upf.transactions.pending(), upf.unreported.len()), (0, 0));
    upf.take_requests(given);
    assert_eq!(upf.transactions.pending(), outstanding);
    assert_eq!((upf.unreported.len(), upf.outbox.len()), (1, outstanding));
    assert_eq!(upf.released.len(), 1);
}

/// Sessions that begin anew have the numbers of those that were: what was said of these is not of
/// them.
#[test]
fn a_successor_with_other_sessions_goes_on_with_no_requests() {
    let (mut smf, slot) = counting(b"short");
    let upf = &mut smf.upf;
    upf.report_inactivity(slot, 0);
    upf.released.push_back((slot, true));
    let (settings, clock) = (upf.settings.clone(), upf.clock);
    let bytes = crate::store::memory_bytes(settings.session_bytes, settings.sessions);
    let memory = Box::new(vec![0_u8; bytes]);
    let mut other = Upf::new(settings, memory, clock, 5 * SECOND_NS).unwrap();
    other.take_requests(upf.give_up_requests());
    assert_eq!((other.transactions.pending(), other.outbox.len()), (0, 0));
    assert!(other.released.is_empty());
}
