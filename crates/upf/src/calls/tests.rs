//! Associations that the UPF asks for.

use catena_wire::pfcp::value::address::NodeId;
use catena_wire::pfcp::{Header, IeType};

use super::*;
use crate::associations::tests::ask_from;
use crate::node::message;
use crate::public_failures::{SMF, new};
use crate::transactions::Transactions;

/// What an SMF answers, to the request that has come.
fn answer(upf: &mut Upf, cause: Cause, from: Peer) -> bool {
    let Some(request) = upf.next_message() else {
        return false;
    };
    assert_eq!(request.to, SMF);
    let view = View::parse(&request.bytes[..]).unwrap();
    assert_eq!(view.check(), Ok(()), "{view}");
    assert_eq!(
        view.header().message_type,
        MessageType::ASSOCIATION_SETUP_REQUEST
    );
    assert!(view.ies().has(IeType::UP_FUNCTION_FEATURES));
    let header = Header {
        message_type: MessageType::ASSOCIATION_SETUP_RESPONSE,
        ..*view.header()
    };
    let bytes = message(&header, |writer| {
        let node = NodeId::V4(std::net::Ipv4Addr::new(10, 4, 0, 2));
        writer.put(key::NODE_ID, &node)?;
        writer.put(key::CAUSE, &cause)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(7))
    });
    upf.datagram(&bytes.unwrap(), from, 0);
    true
}

#[test]
fn an_smf_is_asked_until_it_has_an_association_and_again_when_that_ends() {
    let mut upf = new(None);
    upf.settings.smfs = vec![SMF.address];
    upf.calls = vec![(SMF.address, 0)];
    let refused = Cause::NO_RESOURCES_AVAILABLE;
    assert_eq!(upf.wake(0), Some(3_000_000_000), "T1");
    assert!(answer(&mut upf, refused, SMF));
    assert!(!upf.store.association(0).is_some());
    assert_eq!(upf.wake(AGAIN_NS - 1), Some(AGAIN_NS));
    assert!(!answer(&mut upf, refused, SMF), "not yet");
    upf.wake(AGAIN_NS);
    let stranger = Peer {
        address: [10, 4, 0, 66].into(),
        ..SMF
    };
    assert!(answer(&mut upf, Cause::REQUEST_ACCEPTED, stranger));
    assert!(!upf.store.association(0).is_some());
    upf.wake(AGAIN_NS + 3_000_000_000);
    assert!(answer(&mut upf, Cause::REQUEST_ACCEPTED, SMF));
    let one = upf.store.association(0);
    assert_eq!((one.peer(), one.recovery), (Some(SMF.address), 7));
    upf.wake(10 * AGAIN_NS);
    assert_eq!(upf.next_message(), None, "it has one");
    upf.store.set_association(0, &Association::none());
    upf.wake(20 * AGAIN_NS);
    assert!(answer(&mut upf, Cause::REQUEST_ACCEPTED, SMF));
    assert!(upf.store.association(0).is_some());
}

/// T1 and N1 may be longer than the time between two calls; and what is asked for may come by
/// itself.
#[test]
fn an_smf_is_asked_by_one_request_at_a_time_and_by_none_once_it_has_an_association() {
    let mut upf = new(None);
    upf.transactions = Transactions::new(2 * AGAIN_NS, 3);
    upf.calls = vec![(SMF.address, 0)];
    upf.wake(0);
    upf.wake(AGAIN_NS);
    assert!(upf.next_message().is_some());
    assert_eq!((upf.transactions.pending(), upf.next_message()), (1, None));
    let kind = (MessageType::ASSOCIATION_SETUP_REQUEST, None, 1);
    let said = ask_from(&mut upf, SMF, kind, |writer| {
        let node = NodeId::V4(std::net::Ipv4Addr::new(10, 4, 0, 2));
        writer.put(key::NODE_ID, &node)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(7))
    });
    assert_eq!(said, Cause::REQUEST_ACCEPTED);
    upf.wake(2 * AGAIN_NS);
    let unanswered = upf.counters().unanswered;
    assert_eq!((upf.next_message(), unanswered), (None, 0));
    assert_eq!(upf.transactions.pending(), 0);
}
