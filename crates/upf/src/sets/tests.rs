//! SMFs of a set: who may go on with a session, where requests go, what a set's requests do.

use catena_wire::pfcp::value::Name;
use catena_wire::pfcp::value::Time;
use catena_wire::pfcp::value::address::{
    AlternativeSmfIpAddress, CpIpAddress, FSeid, NodeId, SmfSetId,
};
use catena_wire::pfcp::value::flags::CpFunctionFeatures;
use catena_wire::pfcp::{Full, Header, Writer};

use super::*;
use crate::associations::tests::ask_from;
use crate::node::message;
use crate::public_failures::{SMF, Smf, nothing};

const SECOND_NS: u64 = 1_000_000_000;
const SET: &[u8] = b"\x03set\x07example";
const OTHER: Ipv4Addr = Ipv4Addr::new(10, 4, 0, 3);
const THIRD: Ipv4Addr = Ipv4Addr::new(10, 4, 0, 4);

fn at(address: Ipv4Addr) -> Peer {
    Peer {
        address: address.into(),
        ..SMF
    }
}

fn alternative(address: Ipv4Addr, is_preferred: bool) -> AlternativeSmfIpAddress {
    AlternativeSmfIpAddress {
        v4: Some(address),
        v6: None,
        is_preferred,
    }
}

/// Answers the report that waits, from where it goes to; gives that address.
fn answer_report(
    smf: &mut Smf,
    seid: u64,
    fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>,
) -> Option<IpAddr> {
    let request = smf.upf.next_message()?;
    let view = View::parse(&request.bytes[..]).unwrap();
    let header = Header {
        message_type: MessageType::SESSION_REPORT_RESPONSE,
        seid: Some(seid),
        ..*view.header()
    };
    let answer = message(&header, fill).unwrap();
    smf.upf.datagram(&answer, request.to, 0);
    Some(request.to.address)
}

/// An SMF of the set, or of none, has an association.
fn join(smf: &mut Smf, address: Ipv4Addr, set: Option<&[u8]>, sequence: u32) {
    join_since(smf, address, set, sequence, 1);
}

/// As [`join`], of an SMF that has started then.
fn join_since(smf: &mut Smf, address: Ipv4Addr, set: Option<&[u8]>, sequence: u32, since: u32) {
    let kind = (MessageType::ASSOCIATION_SETUP_REQUEST, None, sequence);
    let said = ask_from(&mut smf.upf, at(address), kind, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(address))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(since))?;
        let set = set.map(|set| SmfSetId(Name::new(set).unwrap()));
        writer.put_some(key::SMF_SET_ID, set.as_ref())
    });
    assert_eq!(said, Cause::REQUEST_ACCEPTED);
}

fn put_csid(writer: &mut Writer<'_>, csids: &[u8]) -> Result<(), Full> {
    let csid = FqCsid {
        node: FqCsidNode::V4(Ipv4Addr::new(10, 4, 0, 2)),
        csids,
        node_type: Some(2),
    };
    writer.put(key::FQ_CSID, &csid)
}

/// A session of this FQ-CSID and Group ID.
fn of_set(smf: &mut Smf, csid: u8, group: &[u8]) -> u64 {
    let said = smf.establish(nothing, |writer| {
        put_csid(writer, &[0, csid])?;
        writer.put(key::GROUP_ID, &group)
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    said.2
}

fn cp_of(smf: &Smf, seid: u64) -> Option<(Option<Ipv4Addr>, u8)> {
    let slot = smf.upf.store.slot_of(seid)?;
    let head = smf.upf.store.head(slot);
    Some((head.cp_v4, head.association))
}

const OWN: NodeId<'_> = NodeId::V4(Ipv4Addr::new(10, 4, 0, 2));

#[test]
fn sessions_end_by_the_sets_that_their_smf_names() {
    let mut smf = Smf::new();
    let seids = [1, 2, 3].map(|csid| of_set(&mut smf, csid, b"g"));
    let kind = MessageType::SESSION_SET_DELETION_REQUEST;
    let said = smf.ask(kind, None, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        put_csid(writer, &[0, 1, 0, 3])
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let left = seids.map(|seid| cp_of(&smf, seid).is_some());
    assert_eq!(left, [false, true, false]);
    let said = smf.ask(kind, None, |writer| writer.put(key::NODE_ID, &OWN));
    let missing = (Cause::CONDITIONAL_IE_MISSING, Some(IeType::FQ_CSID), 0);
    assert_eq!(said, missing);
    let said = smf.ask(kind, None, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        (0..=NAMES_MAX / 15).try_for_each(|_| put_csid(writer, &[1; 30]))
    });
    assert_eq!(said.0, Cause::NO_RESOURCES_AVAILABLE);
    assert!(cp_of(&smf, seids[1]).is_some());
}

/// Thousands of sessions end a few at a time; their SMF hears it once they have, and asks in vain
/// before.
#[test]
fn what_is_to_be_done_with_many_takes_turns_and_is_answered_at_its_end() {
    let mut smf = Smf::with_room(1000);
    for _ in 0..1000 {
        of_set(&mut smf, 1, b"g");
    }
    let header = Header::new(MessageType::SESSION_SET_DELETION_REQUEST, None, 0x9000);
    let request = message(&header, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        put_csid(writer, &[0, 1])
    });
    let request = request.unwrap();
    let upf = &mut smf.upf;
    let mut turns = 0;
    upf.datagram(&request, SMF, 0);
    while upf.session_count() > 0 {
        assert_eq!(upf.next_message(), None);
        let before = upf.session_count();
        upf.datagram(&request, SMF, 0);
        assert_eq!(upf.session_count(), before, "it is on its way");
        let next = upf.wake(turns);
        let has_more = upf.session_count() > 0;
        assert_eq!(next == Some(turns), has_more, "turn {turns}");
        assert!(before - upf.session_count() <= 256);
        turns += 1;
    }
    assert!(turns >= 3, "{turns}");
    let answer = upf.next_message().expect("the answer");
    let view = View::parse(&answer.bytes[..]).unwrap();
    let cause = view.ies().require(key::CAUSE).unwrap();
    assert_eq!(
        (view.header().sequence, cause),
        (0x9000, Cause::REQUEST_ACCEPTED)
    );
    assert_eq!(upf.next_message(), None);
    smf.assert_nothing_is_left();
}

/// A set that is being ended gets sessions anew: those that its SMF establishes behind its request
/// are not meant.
#[test]
fn sessions_that_begin_behind_a_set_deletion_stay() {
    let mut smf = Smf::with_room(1000);
    for _ in 0..990 {
        of_set(&mut smf, 1, b"g");
    }
    let delete = |sequence| {
        let kind = MessageType::SESSION_SET_DELETION_REQUEST;
        let header = Header::new(kind, None, sequence);
        let request = message(&header, |writer| {
            writer.put(key::NODE_ID, &OWN)?;
            put_csid(writer, &[0, 1])
        });
        request.unwrap()
    };
    smf.upf.datagram(&delete(0x9000), SMF, 0);
    assert!(smf.upf.session_count() > 500, "it takes turns");
    // More than it has ended by now: the last ones have slots that are still to be looked at.
    let csids = std::iter::repeat_n(1, 260).chain([2]);
    let new: Vec<u64> = csids.map(|csid| of_set(&mut smf, csid, b"g")).collect();
    while smf.upf.wake(1) == Some(1) {}
    assert!(smf.upf.next_message().is_some());
    assert_eq!(smf.upf.session_count(), 261);
    assert!(
        new.iter()
            .all(|seid| smf.upf.store.slot_of(*seid).is_some())
    );
    // A successor goes on counting.
    smf.upf =
        crate::public_failures::sized(1000, "10.45.0.0/16", "4KiB", Some(smf.upf.into_memory()));
    let newer = of_set(&mut smf, 1, b"g");
    smf.upf.datagram(&delete(0x9001), SMF, 0);
    while smf.upf.wake(1) == Some(1) {}
    assert_eq!(smf.upf.session_count(), 1, "that of another set");
    assert_eq!(smf.upf.store.slot_of(newer), None);
}

/// Until an association takes another one's place, what its SMF says of itself is for both.
#[test]
fn an_update_while_an_association_is_replaced_is_not_lost() {
    let mut smf = Smf::with_room(1000);
    for _ in 0..990 {
        of_set(&mut smf, 1, b"g");
    }
    let ask = |smf: &mut Smf, kind, sequence, fill: fn(&mut Writer<'_>) -> Result<(), Full>| {
        let header = Header::new(kind, None, sequence);
        smf.upf.datagram(&message(&header, fill).unwrap(), SMF, 0);
    };
    let kind = MessageType::ASSOCIATION_SETUP_REQUEST;
    ask(&mut smf, kind, 0x9000, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))
    });
    assert!(smf.upf.session_count() > 0, "it takes turns");
    let kind = MessageType::ASSOCIATION_UPDATE_REQUEST;
    ask(&mut smf, kind, 0x9001, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        writer.put(key::CP_FUNCTION_FEATURES, &CpFunctionFeatures::LOAD)
    });
    while smf.upf.wake(1) == Some(1) {}
    assert_eq!(smf.upf.session_count(), 0);
    let features = smf.upf.store.association(0).features;
    assert_eq!(features, CpFunctionFeatures::LOAD.bits());
}

#[test]
fn a_release_ends_what_it_ends_in_turns_too_and_no_session_begins_meanwhile() {
    let mut smf = Smf::with_room(1000);
    for _ in 0..999 {
        of_set(&mut smf, 1, b"g");
    }
    let release = Header::new(MessageType::ASSOCIATION_RELEASE_REQUEST, None, 0x9000);
    let request = message(&release, |writer| writer.put(key::NODE_ID, &OWN)).unwrap();
    smf.upf.datagram(&request, SMF, 0);
    assert!(smf.upf.session_count() > 0);
    let said = smf.establish(nothing, nothing);
    assert_eq!(said.0, Cause::NO_ESTABLISHED_PFCP_ASSOCIATION);
    while smf.upf.wake(1) == Some(1) {}
    assert!(smf.upf.next_message().is_some());
    assert!(!smf.upf.store.association(0).is_some());
    smf.assert_nothing_is_left();
}

/// By FQ-CSID, Group ID and address, to an SMF with an association and to one without.
#[test]
fn sessions_go_to_other_smfs_by_what_a_request_names() {
    let mut smf = Smf::new();
    smf.upf.settings.peers = vec![
        (Ipv4Addr::new(10, 4, 0, 0).into(), 24),
        (Ipv6Addr::LOCALHOST.into(), 128),
    ];
    join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), Some(SET), 900);
    join(&mut smf, OTHER, Some(SET), 901);
    let seids = [
        of_set(&mut smf, 1, b"a"),
        of_set(&mut smf, 2, b"b"),
        of_set(&mut smf, 3, b"c"),
    ];
    let own = Some((Some(Ipv4Addr::new(10, 4, 0, 2)), 0));
    let change = |smf: &mut Smf, to, fill: fn(&mut Writer<'_>) -> Result<(), Full>| {
        let kind = MessageType::SESSION_SET_MODIFICATION_REQUEST;
        let said = smf.ask(kind, None, |writer| {
            writer.put(key::NODE_ID, &OWN)?;
            writer.group(IeType::PFCP_SESSION_CHANGE_INFO, |writer| {
                writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &alternative(to, false))?;
                fill(writer)
            })
        });
        (said.0, said.1)
    };
    let accepted = (Cause::REQUEST_ACCEPTED, None);
    let stranger = Ipv4Addr::new(192, 0, 2, 1);
    let ie_type = Some(IeType::ALTERNATIVE_SMF_IP_ADDRESS);
    let said = change(&mut smf, stranger, |writer| put_csid(writer, &[0, 1]));
    assert_eq!(said, (Cause::REQUEST_REJECTED, ie_type));
    // It is not reached from an N4 without IPv6.
    let kind = MessageType::SESSION_SET_MODIFICATION_REQUEST;
    let said = smf.ask(kind, None, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        writer.group(IeType::PFCP_SESSION_CHANGE_INFO, |writer| {
            let to = AlternativeSmfIpAddress {
                v4: None,
                v6: Some(Ipv6Addr::LOCALHOST),
                is_preferred: false,
            };
            writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &to)?;
            put_csid(writer, &[0, 1])
        })
    });
    assert_eq!((said.0, said.1), (Cause::REQUEST_REJECTED, ie_type));
    let said = change(&mut smf, OTHER, |_| Ok(()));
    assert_eq!(said.0, Cause::CONDITIONAL_IE_MISSING);
    assert_eq!(seids.map(|seid| cp_of(&smf, seid)), [own; 3]);
    let said = change(&mut smf, OTHER, |writer| put_csid(writer, &[0, 1]));
    assert_eq!(said, accepted);
    let said = change(&mut smf, THIRD, |writer| {
        writer.put(key::GROUP_ID, &&b"b"[..])
    });
    assert_eq!(said, accepted);
    let moved = [Some((Some(OTHER), 1)), Some((Some(THIRD), 0)), own];
    assert_eq!(seids.map(|seid| cp_of(&smf, seid)), moved);
    let said = change(&mut smf, OTHER, |writer| {
        let cp = CpIpAddress {
            v4: Some(Ipv4Addr::new(10, 4, 0, 2)),
            v6: None,
        };
        writer.put(key::CP_IP_ADDRESS, &cp)
    });
    assert_eq!(said, accepted);
    assert_eq!(cp_of(&smf, seids[2]), Some((Some(OTHER), 1)));
    assert_eq!(cp_of(&smf, seids[1]), moved[1], "it is named by nothing");
}

/// A report that nobody answers goes to each address of the set once, and then is given up.
#[test]
fn a_report_without_an_answer_goes_to_the_others_of_the_set() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let kind = MessageType::ASSOCIATION_UPDATE_REQUEST;
    let said = smf.ask(kind, None, |writer| {
        writer.put(key::NODE_ID, &OWN)?;
        writer.put(key::SMF_SET_ID, &SmfSetId(Name::new(SET).unwrap()))?;
        writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &alternative(OTHER, false))?;
        writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &alternative(THIRD, true))
    });
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    smf.upf.report_downlink_data(slot, 1, None, 0);
    let mut sent = Vec::new();
    for second in 0..60 {
        smf.upf.wake(second * SECOND_NS);
        while let Some(Datagram { to, bytes }) = smf.upf.next_message() {
            let sequence = View::parse(&bytes[..]).unwrap().header().sequence;
            sent.push((to.address, sequence));
        }
    }
    // N1 times each, by a sequence number of its own.
    let known = [SMF.address, THIRD.into(), OTHER.into()];
    let wanted: Vec<IpAddr> = known.into_iter().flat_map(|to| [to; 3]).collect();
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), wanted);
    let mut sequences: Vec<u32> = sent.iter().map(|(_, sequence)| *sequence).collect();
    sequences.dedup();
    assert_eq!(sequences.len(), 3);
    assert_eq!(
        (smf.upf.transactions.pending(), smf.upf.counters().rerouted),
        (0, 2)
    );
}

/// Who answers for the session has it: it ends with that one's association, not with the first's.
#[test]
fn who_answers_a_report_and_names_itself_has_the_session() {
    let mut smf = Smf::new();
    join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), Some(SET), 900);
    join(&mut smf, OTHER, Some(SET), 901);
    let (_, _, seid) = smf.establish(nothing, nothing);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let answer = |smf: &mut Smf, f_seid: FSeid| {
        smf.upf.report_downlink_data(slot, 1, None, 0);
        let asked = answer_report(smf, seid, |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            writer.put(key::F_SEID, &f_seid)
        });
        assert!(asked.is_some());
    };
    let of_v6 = FSeid {
        seid: 501,
        v4: None,
        v6: Some(Ipv6Addr::LOCALHOST),
    };
    answer(&mut smf, of_v6);
    assert_eq!(
        cp_of(&smf, seid),
        Some((Some(Ipv4Addr::new(10, 4, 0, 2)), 0))
    );
    let of_both = FSeid {
        v4: Some(OTHER),
        ..of_v6
    };
    answer(&mut smf, of_both);
    assert_eq!(cp_of(&smf, seid), Some((Some(OTHER), 1)));
    assert_eq!(smf.upf.store.head(slot).cp_v6, None, "it is not reached");
}

/// SMFs that send a request to each other and back: it comes to each once.
#[test]
fn a_circle_of_redirections_ends() {
    let mut smf = Smf::new();
    let (_, _, seid) = smf.establish(nothing, nothing);
    let slot = smf.upf.store.slot_of(seid).unwrap();
    let redirect = |smf: &mut Smf, to: Ipv4Addr| -> Option<IpAddr> {
        answer_report(smf, seid, |writer| {
            writer.put(key::CAUSE, &Cause::REDIRECTION_REQUESTED)?;
            writer.put(key::ALTERNATIVE_SMF_IP_ADDRESS, &alternative(to, false))
        })
    };
    smf.upf.report_downlink_data(slot, 1, None, 0);
    assert_eq!(redirect(&mut smf, OTHER), Some(SMF.address));
    assert_eq!(
        cp_of(&smf, seid).unwrap().0,
        Some(OTHER),
        "and what comes next"
    );
    assert_eq!(
        redirect(&mut smf, Ipv4Addr::new(10, 4, 0, 2)),
        Some(OTHER.into())
    );
    assert_eq!(
        (smf.upf.next_message(), smf.upf.transactions.pending()),
        (None, 0)
    );
    // However many there are.
    smf.upf.report_downlink_data(slot, 1, None, 0);
    let hops = (5..200).map_while(|last| redirect(&mut smf, Ipv4Addr::new(10, 4, 0, last)));
    assert_eq!(hops.count(), HOPS_MAX);
    assert_eq!(smf.upf.transactions.pending(), 0);
}

#[test]
fn an_smf_of_the_set_takes_a_session_over_and_no_other_does() {
    let mut smf = Smf::new();
    join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), Some(SET), 900);
    join(&mut smf, OTHER, Some(SET), 901);
    join(&mut smf, THIRD, None, 902);
    let (_, _, seid) = smf.establish(nothing, nothing);
    let take = |smf: &mut Smf, address: Ipv4Addr, sequence| {
        let kind = (
            MessageType::SESSION_MODIFICATION_REQUEST,
            Some(seid),
            sequence,
        );
        ask_from(&mut smf.upf, at(address), kind, |writer| {
            let f_seid = FSeid {
                seid: 500,
                v4: Some(address),
                v6: None,
            };
            writer.put(key::F_SEID, &f_seid)?;
            writer.put(key::NODE_ID, &NodeId::V4(address))
        })
    };
    assert_eq!(take(&mut smf, THIRD, 10), Cause::SESSION_CONTEXT_NOT_FOUND);
    assert_eq!(cp_of(&smf, seid).unwrap().1, 0);
    assert_eq!(take(&mut smf, OTHER, 11), Cause::REQUEST_ACCEPTED);
    assert_eq!(cp_of(&smf, seid), Some((Some(OTHER), 1)));
    // Then the first one ends, and takes nothing with it.
    let kind = MessageType::ASSOCIATION_RELEASE_REQUEST;
    let said = smf.ask(kind, None, |writer| writer.put(key::NODE_ID, &OWN));
    assert_eq!(said.0, Cause::REQUEST_ACCEPTED);
    assert!(cp_of(&smf, seid).is_some());
}

/// An SMF that starts again has lost its sessions; others of its set have not.
#[test]
fn sessions_of_an_smf_that_starts_again_go_to_another_of_its_set() {
    for set in [Some(SET), None] {
        let mut smf = Smf::new();
        join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), set, 900);
        join(&mut smf, OTHER, set, 901);
        let (_, _, seid) = smf.establish(nothing, nothing);
        let header = Header::new(MessageType::HEARTBEAT_REQUEST, None, 20);
        let beat = message(&header, |writer| {
            writer.put(key::RECOVERY_TIME_STAMP, &Time(99))
        });
        smf.upf.datagram(&beat.unwrap(), SMF, 0);
        let left = set.map(|_| (Some(OTHER), 1));
        assert_eq!(cp_of(&smf, seid), left);
        assert!(!smf.upf.store.association(0).is_some());
        assert!(smf.upf.next_message().is_some(), "the heartbeat's answer");
        // As by a heartbeat, so by an association that it sets up anew; if it was there all the
        // time, it wants none of them any more.
        join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), set, 902);
        let (_, _, seid) = smf.establish(nothing, nothing);
        join_since(&mut smf, Ipv4Addr::new(10, 4, 0, 2), set, 903, 99);
        assert_eq!(cp_of(&smf, seid), left);
        let (_, _, seid) = smf.establish(nothing, nothing);
        join_since(&mut smf, Ipv4Addr::new(10, 4, 0, 2), set, 904, 99);
        assert_eq!(cp_of(&smf, seid), None);
    }
}

#[test]
fn no_session_goes_to_an_smf_whose_association_ends_too() {
    let mut smf = Smf::new();
    join(&mut smf, Ipv4Addr::new(10, 4, 0, 2), Some(SET), 900);
    join(&mut smf, OTHER, Some(SET), 901);
    let (_, _, seid) = smf.establish(nothing, nothing);
    let fate = smf.upf.fate_of(0);
    assert!(matches!(fate, Fate::Move(_, _, Some(1))), "{fate:?}");
    let ends = Sweep::of(1, Fate::End, Association::none());
    smf.upf.sweeps.push_back(ends);
    let ending = smf.upf.fate_of(0);
    assert!(matches!(ending, Fate::End), "{ending:?}");
    // It was chosen before, and has gone when it is the session's turn.
    let moves = Sweep::that(vec![(Which::of(0), fate)]);
    smf.upf.begin_sweep(moves, 0);
    assert_eq!(cp_of(&smf, seid), None);
    assert!(smf.upf.store.association(0).is_some());
}

#[test]
fn a_session_is_in_no_more_sets_than_are_known_of_it() {
    let mut smf = Smf::new();
    let of_three = smf.establish(nothing, |writer| put_csid(writer, &[0, 1, 0, 2, 0, 3]));
    let wanted = (Cause::NO_RESOURCES_AVAILABLE, Some(IeType::FQ_CSID));
    assert_eq!((of_three.0, of_three.1), wanted);
    let of_two = smf.establish(nothing, |writer| put_csid(writer, &[0, 1, 0, 2]));
    assert_eq!(of_two.0, Cause::REQUEST_ACCEPTED);
}
