//! Traffic Endpoints through a kill, and sessions that end with them.

use catena_wire::pfcp::value::address::{Allocation, FTeid, UeIpAddress};
use catena_wire::pfcp::value::forwarding::SourceInterface;
use catena_wire::pfcp::{Full, MessageType, Writer};

use super::*;
use crate::model::Key;
use crate::public_failures::{Said, Smf, new, nothing};

const ENDPOINT: TrafficEndpointId = TrafficEndpointId(0);

fn endpoint(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.group(IeType::CREATE_TRAFFIC_ENDPOINT, |writer| {
        writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)?;
        let choose = FTeid::Choose {
            v4: true,
            v6: false,
            choose_id: None,
        };
        writer.put(key::F_TEID, &choose)?;
        let address = UeIpAddress {
            v4: Some(Allocation::Choose),
            ..UeIpAddress::default()
        };
        writer.put(key::UE_IP_ADDRESS, &address)?;
        writer.put(key::FRAMED_ROUTE, &b"192.0.2.0/24".as_slice())
    })
}

/// A PDR with the number of the one that tests begin with, or another one, of the endpoint.
fn pdr(writer: &mut Writer<'_>, id: u16) -> Result<(), Full> {
    writer.group(IeType::CREATE_PDR, |writer| {
        writer.put(key::PDR_ID, &PdrId(id))?;
        writer.put(key::PRECEDENCE, &10)?;
        writer.group(IeType::PDI, |writer| {
            writer.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)
        })?;
        writer.put(key::FAR_ID, &FarId(1))
    })
}

fn with_endpoint(smf: &mut Smf) -> Said {
    smf.establish(nothing, |writer| {
        endpoint(writer)?;
        pdr(writer, 2)?;
        pdr(writer, 3)
    })
}

/// Endpoints lie in the slot with all else: a successor finds their tunnels, and changes them for
/// their PDRs.
#[test]
fn endpoints_outlive_a_kill() {
    let mut smf = Smf::new();
    let (cause, _, seid) = with_endpoint(&mut smf);
    assert_eq!(cause, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let before = smf.upf.store.session(slot).unwrap();
    let own = before.endpoints[0].endpoint;
    assert_eq!(smf.upf.index.find(Key::Teid(own.teid)), Some(slot));
    let ended = std::mem::replace(&mut smf.upf, new(None));
    smf.upf = new(Some(ended.into_memory()));
    assert_eq!(smf.upf.store.session(slot).unwrap(), before);
    assert_eq!(smf.upf.index.find(Key::Teid(own.teid)), Some(slot));
    let route = Key::of_route(&before.endpoints[0].routes[0]);
    assert_eq!(smf.upf.index.find(route), Some(slot));
    let modification = MessageType::SESSION_MODIFICATION_REQUEST;
    let said = smf.ask(modification, Some(seid), |writer| {
        writer.group(IeType::UPDATE_TRAFFIC_ENDPOINT, |writer| {
            writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)?;
            writer.put(
                key::F_TEID,
                &FTeid::Choose {
                    v4: true,
                    v6: false,
                    choose_id: None,
                },
            )
        })
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let after = smf.upf.store.session(slot).unwrap();
    let teid = after.endpoints[0].endpoint.teid;
    assert_ne!(teid, own.teid);
    let its = after.pdrs.iter().filter(|one| one.pdr.endpoint.is_some());
    assert!(its.clone().all(|one| one.pdr.teid == teid) && its.count() == 2);
    assert_eq!(smf.upf.index.find(Key::Teid(own.teid)), None);
}

#[test]
fn what_an_endpoint_had_is_free_behind_its_session() {
    let mut smf = Smf::new();
    let (_, _, seid) = with_endpoint(&mut smf);
    let said = smf.ask(
        MessageType::SESSION_DELETION_REQUEST,
        Some(seid),
        |_| Ok(()),
    );
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    smf.assert_empty();
    // One that is refused has chosen nothing.
    let said = smf.establish(nothing, |writer| {
        endpoint(writer)?;
        endpoint(writer)
    });
    let cause = Cause::RULE_CREATION_MODIFICATION_FAILURE;
    assert_eq!(said, (cause, Some(IeType::TRAFFIC_ENDPOINT_ID), 0));
    smf.assert_empty();
}

/// IE by IE: routes of one version stay where the other one's are said, and a null one takes them.
#[test]
fn an_update_changes_what_it_says_and_no_more() {
    let mut smf = Smf::new();
    let (_, _, seid) = with_endpoint(&mut smf);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let kinds = |smf: &Smf| -> Vec<bool> {
        let session = smf.upf.store.session(slot).unwrap();
        let routes = session.endpoints[0].routes.iter();
        routes.map(|route| route.is_v6).collect()
    };
    let update = |smf: &mut Smf, key, text: &[u8]| {
        let modification = MessageType::SESSION_MODIFICATION_REQUEST;
        let said = smf.ask(modification, Some(seid), |writer| {
            writer.group(IeType::UPDATE_TRAFFIC_ENDPOINT, |writer| {
                writer.put(key::TRAFFIC_ENDPOINT_ID, &ENDPOINT)?;
                writer.put(key, &text)
            })
        });
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    };
    assert_eq!(kinds(&smf), [false]);
    update(&mut smf, key::FRAMED_IPV6_ROUTE, b"2001:db8:77::/48");
    assert_eq!(kinds(&smf), [false, true]);
    update(&mut smf, key::FRAMED_ROUTE, b"");
    assert_eq!(kinds(&smf), [true]);
    update(&mut smf, key::FRAMED_ROUTE, b"198.51.100.0/24");
    assert_eq!(kinds(&smf), [true, false]);
}
