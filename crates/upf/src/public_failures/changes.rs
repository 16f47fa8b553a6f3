//! Modifications that are refused, floods, and answers: each test is named by its report.

use catena_wire::pfcp::Ie;

use super::*;
use crate::association::ASSOCIATION_COUNT;

const MODIFICATION: MessageType = MessageType::SESSION_MODIFICATION_REQUEST;
const SECOND_NS: u64 = 1_000_000_000;

impl Smf {
    /// A modification is refused for these reasons and changes nothing, neither of the session nor
    /// of what is drawn for it; the UPF goes on.
    fn refuses(
        &mut self,
        seid: u64,
        (cause, offending): (Cause, IeType),
        fill: impl Fn(&mut Writer<'_>) -> Result<(), Full>,
    ) {
        let slot = self.upf.store.slot_of(seid).unwrap();
        let state = |smf: &Self| {
            let (keys, used) = (smf.upf.index.len(), smf.upf.pools[0].fill());
            (smf.upf.store.session(slot), keys, used)
        };
        let before = state(self);
        let said = self.ask(MODIFICATION, Some(seid), fill);
        assert_eq!(said, (cause, Some(offending), 0));
        assert_eq!(state(self), before);
        let said = self.ask(MODIFICATION, Some(seid), |writer| {
            writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 9))
        });
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
        let said = self.ask(MODIFICATION, Some(seid), |writer| {
            writer.group(IeType::REMOVE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(9))
            })
        });
        assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    }
}

#[test]
fn free5gc_800_an_update_of_a_pdr_that_is_not_there() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let wrong = (Cause::RULE_CREATION_MODIFICATION_FAILURE, IeType::PDR_ID);
    smf.refuses(seid, wrong, |writer| {
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2))?;
        writer.group(IeType::UPDATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(99))
        })
    });
}

#[test]
fn free5gc_801_an_sdf_filter_that_is_none_in_a_modification() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let filter = SdfFilter {
        flow_description: Some(b"unknown action aaaaaaaa"),
        ..SdfFilter::default()
    };
    let wrong = (
        Cause::RULE_CREATION_MODIFICATION_FAILURE,
        IeType::SDF_FILTER,
    );
    // What is right in front of it is not done either.
    smf.refuses(seid, wrong, |writer| {
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2))?;
        qer(writer, 2)?;
        writer.group(IeType::CREATE_PDR, |writer| {
            writer.put(key::PDR_ID, &PdrId(2))?;
            writer.put(key::PRECEDENCE, &100)?;
            writer.group(IeType::PDI, |writer| {
                usual_pdi(writer)?;
                writer.put(key::SDF_FILTER, &filter)
            })?;
            writer.put(key::FAR_ID, &FarId(2))
        })
    });
}

#[test]
fn free5gc_802_a_new_pdr_without_what_it_must_have() {
    for missing in [IeType::PDR_ID, IeType::PRECEDENCE, IeType::PDI] {
        let mut smf = Smf::new();
        let (_, _, seid) = smf.establish(nothing, nothing);
        smf.refuses(seid, (Cause::MANDATORY_IE_MISSING, missing), |writer| {
            writer.group(IeType::CREATE_PDR, |writer| {
                if missing != IeType::PDR_ID {
                    writer.put(key::PDR_ID, &PdrId(2))?;
                }
                if missing != IeType::PRECEDENCE {
                    writer.put(key::PRECEDENCE, &100)?;
                }
                if missing != IeType::PDI {
                    writer.group(IeType::PDI, usual_pdi)?;
                }
                writer.put(key::FAR_ID, &FarId(1))
            })
        });
    }
}

/// As #4423, and all that is too short for what it says of itself: GTP-U/UDP/IPv4, a TEID, an
/// address.
#[test]
fn open5gs_4152_outer_header_creation_that_ends_too_early() {
    let whole = [1, 0, 0, 0, 1, 1, 10, 3, 0, 2];
    let with = |len: usize| {
        let mut smf = Smf::new();
        let said = smf.establish(nothing, |writer| {
            writer.group(IeType::CREATE_FAR, |writer| {
                writer.put(key::FAR_ID, &FarId(2))?;
                writer.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
                writer.group(IeType::FORWARDING_PARAMETERS, |writer| {
                    writer.put(key::DESTINATION_INTERFACE, &DestinationInterface::ACCESS)?;
                    writer.put_ie(&Ie {
                        ie_type: IeType::OUTER_HEADER_CREATION,
                        enterprise: None,
                        value: &whole[..len],
                    })
                })
            })
        });
        (smf, said)
    };
    for len in 0..whole.len() {
        let (smf, said) = with(len);
        let wrong = Some(IeType::OUTER_HEADER_CREATION);
        assert_eq!(said, (Cause::INVALID_LENGTH, wrong, 0), "{len} octets");
        smf.assert_empty();
    }
    assert_eq!(with(whole.len()).1.0, Cause::REQUEST_ACCEPTED);
}

/// Messages whose IE reaches beyond them, for a session whose SEID somebody has seen: as many as
/// may be, from the SMF's address and from a UE's.
#[test]
fn open5gs_3497_a_flood_of_crafted_packets() {
    let mut smf = Smf::new();
    smf.upf.settings.peers = vec![(IpAddr::V4(Ipv4Addr::new(10, 4, 0, 0)), 24)];
    let (_, _, seid) = smf.establish(nothing, nothing);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let before = smf.upf.store.session(slot);
    let ue = Peer {
        address: IpAddr::V4(Ipv4Addr::new(10, 45, 0, 1)),
        port: 8805,
    };
    for sequence in 0..6000 {
        let header = Header::new(MODIFICATION, Some(seid), 0x10_0000 + sequence);
        let crafted = message(&header, |writer| {
            writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2))
        });
        let mut crafted = crafted.unwrap();
        // The length of the IE behind the header.
        crafted[18] = 1;
        smf.upf.datagram(&crafted, ue, 0);
        assert!(smf.upf.next_message().is_none(), "a UE is no peer");
        smf.upf.datagram(&crafted, SMF, 0);
        let answer = smf.upf.next_message().expect("an answer");
        let view = View::parse(&answer.bytes[..]).unwrap();
        let cause = view.ies().get(key::CAUSE).unwrap();
        assert_eq!(cause, Some(Cause::INVALID_LENGTH));
    }
    assert_eq!(smf.upf.counters().discarded, 6000);
    assert_eq!(smf.upf.store.session(slot), before);
    assert!(smf.upf.next_message().is_none());
    let said = smf.ask(MODIFICATION, Some(seid), |writer| {
        writer.group(IeType::CREATE_FAR, |writer| usual_far(writer, 2))
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
}

/// An SMF that cannot read the answer, where it had an IE of a vendor: it asks for an association
/// again and again, and answers no heartbeat.
#[test]
fn upg_vpp_101_an_smf_that_never_gets_its_association() {
    let mut smf = Smf::new();
    for round in 0..1000 {
        let message_type = MessageType::ASSOCIATION_SETUP_REQUEST;
        let answer = smf.answered(message_type, None, |writer| {
            writer.put(key::NODE_ID, &NodeId::V4(Ipv4Addr::new(10, 4, 0, 2)))?;
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
        });
        let view = View::parse(&answer[..]).unwrap();
        let cause = view.ies().require(key::CAUSE);
        assert_eq!(cause, Ok(Cause::REQUEST_ACCEPTED), "round {round}");
        for ie in view.ies().ies() {
            assert!(!ie.unwrap().ie_type.is_vendor_specific());
        }
    }
    let numbers = 0..ASSOCIATION_COUNT;
    let its = numbers.filter(|number| smf.upf.store.association(*number).is_some());
    assert_eq!(its.count(), 1);
    assert_eq!(smf.establish(nothing, nothing).0, Cause::REQUEST_ACCEPTED);
    smf.upf.settings.heartbeat_ns = SECOND_NS;
    smf.upf.heartbeats = [SECOND_NS; ASSOCIATION_COUNT];
    let mut sent: u64 = 0;
    for second in 1..=600 {
        smf.upf.wake(second * SECOND_NS);
        while smf.upf.next_message().is_some() {
            sent += 1;
        }
    }
    // Each is sent N1 times at most, and given up.
    assert!((600..=1800).contains(&sent), "{sent}");
    assert!(smf.upf.counters().unanswered > 500);
    assert_eq!(smf.upf.session_count(), 1, "its sessions are its own");
}
