//! PFD Management: what is provided, what is refused, and what outlives the UPF.

use catena_wire::pfcp::value::address::NodeId;
use catena_wire::pfcp::value::detection::PfdContents;
use catena_wire::pfcp::{Full, Header, Writer};

use super::*;
use crate::application::{APPLICATION_COUNT_MAX, number};
use crate::public_failures::{SMF, Smf, new, nothing};
use crate::store::PFDS_BYTES_MAX;

pub(crate) fn put(writer: &mut Writer<'_>, id: &[u8], flow: &[u8]) -> Result<(), Full> {
    writer.group(IeType::APPLICATION_ID_PFDS, |writer| {
        writer.put(key::APPLICATION_ID, &id)?;
        writer.group(IeType::PFD_CONTEXT, |writer| {
            let contents = PfdContents {
                flow_description: Some(flow),
                ..PfdContents::default()
            };
            writer.put(key::PFD_CONTENTS, &contents)
        })
    })
}

pub(crate) const FLOW: &[u8] = b"permit out 17 from any 53 to assigned";
const REQUEST: MessageType = MessageType::PFD_MANAGEMENT_REQUEST;

fn ids(upf: &Upf) -> Vec<&str> {
    let all = upf.applications.table.all().iter();
    let mut ids: Vec<_> = all
        .map(|one| std::str::from_utf8(&one.id).unwrap())
        .collect();
    ids.sort_unstable();
    ids
}

#[test]
fn each_request_replaces_what_it_names_and_an_empty_one_everything() {
    let mut smf = Smf::new();
    let accepted = Cause::REQUEST_ACCEPTED;
    let said = smf.ask(REQUEST, None, |writer| {
        put(writer, b"a", FLOW)?;
        put(writer, b"b", FLOW)
    });
    assert_eq!((said.0, ids(&smf.upf)), (accepted, vec!["a", "b"]));
    let said = smf.ask(REQUEST, None, |writer| {
        put(writer, b"c", FLOW)?;
        writer.group(IeType::APPLICATION_ID_PFDS, |writer| {
            writer.put(key::APPLICATION_ID, &&b"a"[..])
        })
    });
    assert_eq!((said.0, ids(&smf.upf)), (accepted, vec!["b", "c"]));
    smf.upf = new(Some(smf.upf.into_memory()));
    assert_eq!(ids(&smf.upf), ["b", "c"], "they outlive their UPF");
    assert_eq!(
        smf.upf
            .applications
            .table
            .get(number(b"b"))
            .unwrap()
            .pfd_count(),
        1
    );
    assert_eq!(
        (smf.ask(REQUEST, None, nothing).0, ids(&smf.upf)),
        (accepted, vec![])
    );
}

/// TS 29.244 6.2.6.1: an association comes before all else that is about the node.
#[test]
fn who_has_no_association_provides_nothing() {
    let stranger = NodeId::V4([10, 4, 0, 3].into());
    let none = Cause::NO_ESTABLISHED_PFCP_ASSOCIATION;
    let mut smf = Smf::new();
    let said = smf.ask(REQUEST, None, |writer| {
        writer.put(key::NODE_ID, &stranger)?;
        put(writer, b"a", FLOW)
    });
    assert_eq!((said.0, ids(&smf.upf)), (none, vec![]));
    smf.ask(REQUEST, None, |writer| put(writer, b"a", FLOW));
    assert_eq!(ids(&smf.upf), ["a"]);
    let release = MessageType::ASSOCIATION_RELEASE_REQUEST;
    let own = NodeId::V4([10, 4, 0, 2].into());
    let said = smf.ask(release, None, |writer| writer.put(key::NODE_ID, &own));
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    for named in [None, Some(&own)] {
        let said = smf.ask(REQUEST, None, |writer| writer.put_some(key::NODE_ID, named));
        assert_eq!((said.0, ids(&smf.upf)), (none, vec!["a"]), "{named:?}");
    }
}

/// A request that names no node is its sender's: of an address with which there is an association.
#[test]
fn who_names_no_node_is_known_by_its_address() {
    let mut smf = Smf::new();
    let address = [10, 4, 0, 3].into();
    for (from, at, accepts) in [(Peer { address, ..SMF }, 1, false), (SMF, 2, true)] {
        let header = Header::new(REQUEST, None, 0x90_0000 + at);
        let request = node::message(&header, |writer| put(writer, b"a", FLOW)).unwrap();
        smf.upf.datagram(&request, from, 0);
        let answer = smf.upf.next_message().expect("an answer");
        let view = View::parse(&answer.bytes[..]).unwrap();
        let cause = view.ies().require(key::CAUSE).unwrap();
        let none = Cause::NO_ESTABLISHED_PFCP_ASSOCIATION;
        assert_eq!(
            cause,
            if accepts {
                Cause::REQUEST_ACCEPTED
            } else {
                none
            }
        );
        assert_eq!(ids(&smf.upf).len(), usize::from(accepts));
    }
}

#[test]
fn too_many_and_too_long_ones_are_refused_and_nothing_changes() {
    let mut smf = Smf::new();
    let refused = (
        Cause::NO_RESOURCES_AVAILABLE,
        Some(IeType::APPLICATION_ID_PFDS),
        0,
    );
    for from in (0..APPLICATION_COUNT_MAX).step_by(64) {
        let said = smf.ask(REQUEST, None, |writer| {
            (from..from + 64).try_for_each(|at| put(writer, at.to_string().as_bytes(), FLOW))
        });
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    }
    let said = smf.ask(REQUEST, None, |writer| put(writer, b"one more", FLOW));
    assert_eq!(said, refused);
    assert_eq!(
        smf.upf.applications.table.all().len(),
        APPLICATION_COUNT_MAX
    );
    smf.ask(REQUEST, None, nothing);
    let mut long = FLOW.to_vec();
    long.resize(6000, b' ');
    for at in 0..10 {
        let said = smf.ask(REQUEST, None, |writer| put(writer, &[b'a' + at], &long));
        let fits = (usize::from(at) + 1) * 6000 < PFDS_BYTES_MAX;
        assert_eq!(said.0 == Cause::REQUEST_ACCEPTED, fits, "{at}");
        assert!(fits || said == refused);
    }
    assert_eq!(ids(&smf.upf).len(), PFDS_BYTES_MAX / 6000);
}

/// Any byte of a request may be another one: it is answered, and either all of it is done or
/// nothing.
#[test]
fn a_spoiled_request_changes_nothing_or_is_read() {
    let mut smf = Smf::new();
    smf.ask(REQUEST, None, |writer| put(writer, b"first", FLOW));
    let header = Header::new(REQUEST, None, 0x90_0000);
    let whole = node::message(&header, |writer| {
        put(writer, b"second", FLOW)?;
        writer.group(IeType::APPLICATION_ID_PFDS, |writer| {
            writer.put(key::APPLICATION_ID, &&b"third"[..])?;
            writer.group(IeType::PFD_CONTEXT, |writer| {
                let contents = PfdContents {
                    url: Some(b"http://(a|b)+.example/.*"),
                    domain_name: Some(b"*.example"),
                    custom: Some(b"ip:192.0.2.0/24"),
                    ..PfdContents::default()
                };
                writer.put(key::PFD_CONTENTS, &contents)
            })
        })
    });
    let whole = whole.unwrap();
    let mut now_ns = 0;
    let mut refused = 0;
    for at in 8..whole.len() {
        for change in [1, 0x40, 0xff] {
            now_ns += 60_000_000_000;
            let mut spoiled = whole.clone();
            spoiled[at] ^= change;
            let before = (
                smf.upf.applications.table.clone(),
                smf.upf.store.pfds().to_vec(),
            );
            smf.upf.datagram(&spoiled, SMF, now_ns);
            let answer = smf.upf.next_message().expect("an answer");
            let view = View::parse(&answer.bytes[..]).unwrap();
            let cause = view.ies().require(key::CAUSE).unwrap();
            let kept = Table::read(smf.upf.store.pfds()).unwrap();
            assert_eq!(kept, smf.upf.applications.table, "byte {at} ^ {change}");
            if !cause.is_accepted() {
                refused += 1;
                let after = (
                    smf.upf.applications.table.clone(),
                    smf.upf.store.pfds().to_vec(),
                );
                assert_eq!(after, before, "byte {at} ^ {change}");
            }
        }
    }
    assert!(refused > 50, "{refused}");
}
