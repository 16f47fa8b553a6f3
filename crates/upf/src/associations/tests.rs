//! Associations: whose word counts for a node and for its sessions.

use catena_wire::pfcp::value::Name;
use catena_wire::pfcp::{Full, Header, Writer};

use super::*;
use crate::public_failures::{SMF, Smf, nothing};

const STRANGER: Peer = Peer {
    address: std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 4, 0, 66)),
    ..SMF
};
const SMF_ID: NodeId<'_> = NodeId::V4(std::net::Ipv4Addr::new(10, 4, 0, 2));

/// What is answered to a request that comes from somewhere.
pub(crate) fn ask_from(
    upf: &mut Upf,
    from: Peer,
    (message_type, seid, sequence): (MessageType, Option<u64>, u32),
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Cause {
    let header = Header::new(message_type, seid, sequence);
    upf.datagram(&message(&header, fill).unwrap(), from, 0);
    let answer = upf.next_message().expect("an answer");
    assert_eq!((answer.to, upf.next_message()), (from, None));
    let view = View::parse(&answer.bytes[..]).unwrap();
    assert_eq!(view.check(), Ok(()), "{view}");
    view.ies().require(key::CAUSE).unwrap()
}

fn set_up(upf: &mut Upf, from: Peer, node: &NodeId<'_>, recovery: u32) -> Cause {
    let kind = (MessageType::ASSOCIATION_SETUP_REQUEST, None, recovery);
    ask_from(upf, from, kind, |writer| {
        writer.put(key::NODE_ID, node)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(recovery))
    })
}

/// Who may send to N4, but is not that node, neither ends nor changes anything of it.
#[test]
fn nobody_speaks_for_a_node_from_another_address() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let upf = &mut smf.upf;
    let slot = upf.store.slot_of(seid).unwrap();
    let before = (upf.store.association(0), upf.store.session(slot));
    let none = Cause::NO_ESTABLISHED_PFCP_ASSOCIATION;
    for (at, message_type) in [
        MessageType::ASSOCIATION_UPDATE_REQUEST,
        MessageType::ASSOCIATION_RELEASE_REQUEST,
        MessageType::PFD_MANAGEMENT_REQUEST,
    ]
    .into_iter()
    .enumerate()
    {
        let kind = (message_type, None, 100 + at as u32);
        let said = ask_from(upf, STRANGER, kind, |writer| {
            writer.put(key::NODE_ID, &SMF_ID)
        });
        assert_eq!(said, none, "{message_type}");
    }
    let rejected = Cause::REQUEST_REJECTED;
    assert_eq!(set_up(upf, STRANGER, &SMF_ID, 200), rejected);
    let unknown = Cause::SESSION_CONTEXT_NOT_FOUND;
    for (sequence, message_type) in [
        (300, MessageType::SESSION_MODIFICATION_REQUEST),
        (301, MessageType::SESSION_DELETION_REQUEST),
    ] {
        let kind = (message_type, Some(seid), sequence);
        assert_eq!(ask_from(upf, STRANGER, kind, |_| Ok(())), unknown);
    }
    assert_eq!((upf.store.association(0), upf.store.session(slot)), before);
}

/// A node that starts again elsewhere is known by its name and by a later start.
#[test]
fn a_node_with_a_name_moves_when_it_has_started_again() {
    let mut upf = crate::public_failures::new(None);
    let named = NodeId::Fqdn(Name::new(b"\x03smf\x07example").unwrap());
    assert_eq!(set_up(&mut upf, SMF, &named, 10), Cause::REQUEST_ACCEPTED);
    assert_eq!(
        set_up(&mut upf, STRANGER, &named, 9),
        Cause::REQUEST_REJECTED
    );
    assert_eq!(upf.store.association(0).peer(), Some(SMF.address));
    assert_eq!(
        set_up(&mut upf, STRANGER, &named, 11),
        Cause::REQUEST_ACCEPTED
    );
    assert_eq!(upf.store.association(0).peer(), Some(STRANGER.address));
    // Whose address it is, even if somebody else was there first.
    assert_eq!(
        set_up(&mut upf, STRANGER, &SMF_ID, 12),
        Cause::REQUEST_ACCEPTED
    );
    assert_eq!(set_up(&mut upf, SMF, &SMF_ID, 13), Cause::REQUEST_ACCEPTED);
    assert_eq!(upf.store.association(1).peer(), Some(SMF.address));
}
