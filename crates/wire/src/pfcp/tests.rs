// SPDX-License-Identifier: Apache-2.0
//! Tests of headers, groups, checks and the writer of PFCP.

use super::element::IE_HEADER_LEN;
use super::grammar::{DEPTH_MAX, IES_MAX, Members};
use super::value::address::{FSeid, FTeid, NodeId};
use super::value::flags::{ApplyAction, ReportingTriggers};
use super::value::forwarding::{DestinationInterface, SourceInterface};
use super::value::qos::{BitRates, GateStatus};
use super::value::usage::Volume;
use super::value::{BarId, FarId, PdrId, QerId, Seconds, Time, UrrId};
use super::*;
use crate::testing::{hex, truncation};
use core::net::Ipv4Addr;
use proptest::prelude::*;

const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn of_node(message_type: MessageType) -> Header {
    Header {
        message_type,
        seid: None,
        sequence: 0x01_0203,
        priority: None,
        follow_on: false,
    }
}

fn of_session(message_type: MessageType) -> Header {
    Header {
        seid: Some(0x1112_1314_1516_1718),
        ..of_node(message_type)
    }
}

/// A message with what `fill` writes.
fn message(header: &Header, fill: impl FnOnce(&mut Writer<'_>) -> Result<(), Full>) -> Vec<u8> {
    let mut bytes = vec![0; 70_000];
    let mut writer = Writer::new(&mut bytes, header).unwrap();
    fill(&mut writer).unwrap();
    let len = writer.finish().unwrap();
    bytes.truncate(len);
    bytes
}

fn check(bytes: &[u8]) -> Result<(), Refusal> {
    View::parse(bytes).unwrap().check()
}

fn create_pdr(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.group(IeType::CREATE_PDR, |pdr| {
        pdr.put(key::PDR_ID, &PdrId(1))?;
        pdr.put(key::PRECEDENCE, &100)?;
        pdr.group(IeType::PDI, |pdi| {
            pdi.put(key::SOURCE_INTERFACE, &SourceInterface::ACCESS)?;
            let choose = FTeid::Choose {
                v4: true,
                v6: false,
                choose_id: Some(7),
            };
            pdi.put(key::F_TEID, &choose)?;
            pdi.put(key::NETWORK_INSTANCE, &&b"n3"[..])
        })?;
        pdr.put(key::FAR_ID, &FarId(1))?;
        pdr.put(key::URR_ID, &UrrId(1))?;
        pdr.put(key::QER_ID, &QerId(1))
    })
}

fn create_far(writer: &mut Writer<'_>) -> Result<(), Full> {
    writer.group(IeType::CREATE_FAR, |far| {
        far.put(key::FAR_ID, &FarId(1))?;
        far.put(key::APPLY_ACTION, &ApplyAction::FORW)?;
        far.group(IeType::FORWARDING_PARAMETERS, |parameters| {
            parameters.put(key::DESTINATION_INTERFACE, &DestinationInterface::CORE)
        })
    })
}

fn establishment() -> Vec<u8> {
    let header = Header {
        seid: Some(0),
        ..of_session(MessageType::SESSION_ESTABLISHMENT_REQUEST)
    };
    message(&header, |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
        let seid = FSeid {
            seid: 5,
            v4: Some(PEER),
            v6: None,
        };
        writer.put(key::F_SEID, &seid)?;
        create_pdr(writer)?;
        create_far(writer)?;
        writer.group(IeType::CREATE_URR, |urr| {
            urr.put(key::URR_ID, &UrrId(1))?;
            urr.put(key::MEASUREMENT_METHOD, &value::flags::MeasurementMethod::VOLUM)?;
            urr.put(key::REPORTING_TRIGGERS, &ReportingTriggers::VOLTH)?;
            let volume = Volume {
                total: Some(1 << 40),
                ..Volume::default()
            };
            urr.put(key::VOLUME_THRESHOLD, &volume)
        })?;
        writer.group(IeType::CREATE_QER, |qer| {
            qer.put(key::QER_ID, &QerId(1))?;
            qer.put(key::GATE_STATUS, &GateStatus::OPEN)?;
            let rates = BitRates {
                ul_kbps: 5_000_000,
                dl_kbps: 10_000_000,
            };
            qer.put(key::MBR, &rates)
        })
    })
}

#[test]
fn header_and_bytes_agree() {
    let table = [
        ("20 01 0004 010203 00", of_node(MessageType::HEARTBEAT_REQUEST)),
        (
            "21 36 000c 1112131415161718 010203 00",
            of_session(MessageType::SESSION_DELETION_REQUEST),
        ),
        (
            "27 36 000c 1112131415161718 010203 f0",
            Header {
                priority: Some(15),
                follow_on: true,
                ..of_session(MessageType::SESSION_DELETION_REQUEST)
            },
        ),
    ];
    for (text, header) in table {
        let bytes = hex(text);
        assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
        assert_eq!(Header::from(&View::parse(&bytes).unwrap()), header, "{text}");
        let mut written = vec![0xee; bytes.len()];
        header.emit(&mut written);
        assert_eq!(written, bytes, "{header}");
        truncation(&bytes, bytes.len(), View::parse);
    }
}

#[test]
fn wrong_headers_are_refused_by_name() {
    let table = [
        ("40 01 0004 010203 00", Reason::BadVersion),
        ("00 01 0004 010203 00", Reason::BadVersion),
        ("20 01 0003 010203 00", Reason::BadLength),
        ("21 36 0004 1112131415161718 010203 00", Reason::BadLength),
        ("20 01 0005 010203 00", Reason::Truncated),
        // A heartbeat with a SEID, a session without one.
        ("21 01 000c 1112131415161718 010203 00", Reason::Misplaced),
        ("20 36 0004 010203 00", Reason::Misplaced),
    ];
    for (text, reason) in table {
        assert_eq!(View::parse(hex(text)), Err(Layer::Pfcp.error(reason)), "{text}");
    }
    assert!(View::parse(hex("20 c8 0004 010203 00")).is_ok(), "unknown types may be either");
    assert!(View::parse(hex("21 c8 000c 1112131415161718 010203 00")).is_ok());
}

#[test]
fn a_wrong_length_leaves_what_the_answer_needs() {
    let mut messages = Messages::new(&[0x20, 1, 0, 5, 1, 2, 3, 0]);
    let unreadable = messages.next().unwrap().unwrap_err();
    assert_eq!(unreadable.error, Layer::Pfcp.error(Reason::Truncated));
    assert_eq!(unreadable.header, Some(of_node(MessageType::HEARTBEAT_REQUEST)));
    assert!(messages.next().is_none());
    // Bytes behind the last message, which announces none.
    let bytes = hex("20 01 0004 010203 00 ff");
    let unreadable = Messages::new(&bytes).next().unwrap().unwrap_err();
    assert_eq!(unreadable.error, Layer::Pfcp.error(Reason::BadLength));
    assert!(unreadable.header.is_some());
    // Too short for a header: no answer.
    let unreadable = Messages::new(&bytes[..7]).next().unwrap().unwrap_err();
    assert_eq!(unreadable.header, None);
}

#[test]
fn bundled_messages_are_split() {
    let first = hex("25 36 000c 1112131415161718 010203 00");
    let last = hex("21 36 000c 1112131415161718 010204 00");
    let datagram = [&first[..], &first, &last].concat();
    let sequences: Vec<_> = Messages::new(&datagram)
        .map(|message| message.unwrap().header().sequence)
        .collect();
    assert_eq!(sequences, [0x01_0203, 0x01_0203, 0x01_0204]);
    // The last announces another one.
    let cut = Messages::new(&datagram[..32]).collect::<Vec<_>>();
    assert_eq!(cut.len(), 2);
    assert!(cut[0].is_ok() && cut[1].is_err());
    let many = [first.repeat(MESSAGES_MAX), last].concat();
    let found: Vec<_> = Messages::new(&many).collect();
    assert_eq!(found.len(), MESSAGES_MAX + 1);
    let error = found[MESSAGES_MAX].unwrap_err().error;
    assert_eq!(error, Layer::Pfcp.error(Reason::TooManyHeaders));
}

#[test]
fn requests_and_responses_are_pairs() {
    for &message_type in MessageType::ALL {
        let name = message_type.name().unwrap();
        assert_eq!(message_type.is_response(), name.ends_with("Response"), "{name}");
        assert_eq!(message_type.is_of_session(), Some(message_type.0 >= 50), "{name}");
        assert!(Members::of_message(message_type).is_some(), "{name}");
        if let Some(response) = message_type.response() {
            assert_eq!(response.name().unwrap(), name.replace("Request", "Response"));
        }
    }
    assert_eq!(MessageType(18).response(), None);
    assert!(!MessageType(19).is_response() && !MessageType(0).is_response());
}

#[test]
fn every_group_has_members_and_every_member_is_known() {
    for &ie_type in IeType::ALL {
        let members = Members::of_group(ie_type);
        assert_eq!(members.is_some(), ie_type.is_grouped(), "{ie_type}");
    }
    let groups = IeType::ALL.iter().filter_map(|ie_type| Members::of_group(*ie_type));
    let messages = MessageType::ALL.iter().filter_map(|kind| Members::of_message(*kind));
    for members in groups.chain(messages) {
        let mut all = [members.mandatory, members.conditional, members.optional].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "{} lists an IE twice", members.table);
    }
    assert_eq!(IeType::ALL.len(), 319, "table 8.1.2-1 has 1 to 321 without two spare numbers");
}

#[test]
fn a_usual_session_reads_back() {
    let bytes = establishment();
    let view = View::parse(&bytes[..]).unwrap();
    assert_eq!(view.check(), Ok(()));
    let ies = view.ies();
    assert_eq!(ies.require(key::NODE_ID), Ok(NodeId::V4(PEER)));
    assert_eq!(ies.require(key::F_SEID).map(|it| it.seid), Ok(5));
    let pdr = ies.group(IeType::CREATE_PDR).unwrap();
    assert_eq!(pdr.require(key::PDR_ID), Ok(PdrId(1)));
    let pdi = pdr.group(IeType::PDI).unwrap();
    assert_eq!(pdi.get(key::NETWORK_INSTANCE), Ok(Some(&b"n3"[..])));
    assert_eq!(pdi.get(key::UE_IP_ADDRESS), Ok(None));
    let missing = Cause::MANDATORY_IE_MISSING.because_of(IeType::QFI);
    assert_eq!(pdi.require(key::QFI), Err(missing));
    let qer = ies.group(IeType::CREATE_QER).unwrap();
    assert_eq!(qer.get(key::MBR).unwrap().unwrap().dl_kbps, 10_000_000);
    assert_eq!(pdr.place(), Place::Group(IeType::CREATE_PDR));
}

#[test]
fn traces_name_ies_as_the_specification_does() {
    let bytes = message(&of_node(MessageType::ASSOCIATION_SETUP_REQUEST), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
        create_far(writer)?;
        writer.put_ie(&Ie {
            ie_type: IeType(0x8001),
            enterprise: Some(10415),
            value: &[0xab; 40],
        })
    });
    let shown = View::parse(&bytes[..]).unwrap().to_string();
    let expected = format!(
        "PFCP Association Setup Request seq 66051 {{ Node ID: V4(192.0.2.1), Create FAR {{ FAR \
         ID: 1, Apply Action: FORW, Forwarding Parameters {{ Destination Interface: Core }} }}, \
         vendor IE 32769 of 10415: {}... 8 more }}",
        "ab".repeat(32)
    );
    assert_eq!(shown, expected);
    let spoiled = Group::new(Place::Group(IeType::PDI), &[0, 20, 0, 9]);
    assert_eq!(spoiled.to_string(), "{ <Invalid length: Source Interface> }");
}

/// The message of `establishment` without one IE, which stands inside the groups of `path`.
fn without(path: &[IeType], ie_type: IeType) -> Vec<u8> {
    fn copy(bytes: &[u8], path: &[IeType], ie_type: IeType, to: &mut Vec<u8>) {
        for ie in element::Ies::new(bytes).map(Result::unwrap) {
            if path.is_empty() && ie.ie_type == ie_type {
                continue;
            }
            let mut value = ie.value.to_vec();
            if path.first() == Some(&ie.ie_type) {
                value.clear();
                copy(ie.value, &path[1..], ie_type, &mut value);
            }
            to.extend(ie.ie_type.0.to_be_bytes());
            to.extend((value.len() as u16).to_be_bytes());
            to.extend(value);
        }
    }
    let whole = establishment();
    let view = View::parse(&whole[..]).unwrap();
    let mut bytes = whole[..view.header_len()].to_vec();
    copy(view.payload(), path, ie_type, &mut bytes);
    let len = (bytes.len() - 4) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn each_missing_mandatory_ie_is_named() {
    use IeType as T;
    let table: &[(&[T], T)] = &[
        (&[], T::NODE_ID),
        (&[], T::F_SEID),
        (&[], T::CREATE_PDR),
        (&[], T::CREATE_FAR),
        (&[T::CREATE_PDR], T::PDR_ID),
        (&[T::CREATE_PDR], T::PRECEDENCE),
        (&[T::CREATE_PDR], T::PDI),
        (&[T::CREATE_PDR, T::PDI], T::SOURCE_INTERFACE),
        (&[T::CREATE_FAR], T::FAR_ID),
        (&[T::CREATE_FAR], T::APPLY_ACTION),
        (&[T::CREATE_FAR, T::FORWARDING_PARAMETERS], T::DESTINATION_INTERFACE),
        (&[T::CREATE_URR], T::MEASUREMENT_METHOD),
        (&[T::CREATE_URR], T::REPORTING_TRIGGERS),
        (&[T::CREATE_QER], T::GATE_STATUS),
    ];
    for &(path, ie_type) in table {
        let refusal = Cause::MANDATORY_IE_MISSING.because_of(ie_type);
        assert_eq!(check(&without(path, ie_type)), Err(refusal), "{path:?}");
    }
    assert_eq!(check(&without(&[], T::CREATE_QER)), Ok(()));
}

#[test]
fn conditions_inside_a_message_are_checked() {
    use IeType as T;
    let table: &[(&[T], T)] = &[
        (&[T::CREATE_PDR], T::FAR_ID),
        (&[T::CREATE_FAR], T::FORWARDING_PARAMETERS),
        (&[T::CREATE_URR], T::VOLUME_THRESHOLD),
    ];
    for &(path, ie_type) in table {
        let refusal = Cause::CONDITIONAL_IE_MISSING.because_of(ie_type);
        assert_eq!(check(&without(path, ie_type)), Err(refusal), "{path:?}");
    }
    let report = |kind: value::flags::ReportType| {
        message(&of_session(MessageType::SESSION_REPORT_REQUEST), |writer| {
            writer.put(key::REPORT_TYPE, &kind)
        })
    };
    use value::flags::ReportType;
    let table = [
        (ReportType::DLDR, Some(T::DOWNLINK_DATA_REPORT)),
        (ReportType::USAR, Some(T::USAGE_REPORT_REPORT)),
        (ReportType::ERIR, Some(T::ERROR_INDICATION_REPORT)),
        (ReportType::SESR, Some(T::SESSION_REPORT)),
        (ReportType::UPIR, None),
    ];
    for (kind, missing) in table {
        let refusal = missing.map(|ie_type| Cause::CONDITIONAL_IE_MISSING.because_of(ie_type));
        assert_eq!(check(&report(kind)).err(), refusal, "{kind:?}");
    }
    let node_report = message(&of_node(MessageType::NODE_REPORT_REQUEST), |writer| {
        writer.put(key::NODE_ID, &NodeId::V4(PEER))?;
        writer.put(key::NODE_REPORT_TYPE, &value::flags::NodeReportType::UPFR)
    });
    let refusal = Cause::CONDITIONAL_IE_MISSING.because_of(T::USER_PLANE_PATH_FAILURE_REPORT);
    assert_eq!(check(&node_report), Err(refusal));
}

/// A session modification with one IE written by hand.
fn modification(ie: &str) -> Vec<u8> {
    let mut bytes = hex("21 34 0000 1112131415161718 010203 00");
    bytes.extend(hex(ie));
    let len = (bytes.len() - 4) as u16;
    bytes[2..4].copy_from_slice(&len.to_be_bytes());
    bytes
}

#[test]
fn wrong_lengths_and_values_name_the_ie() {
    let length = |ie_type| Err(Cause::INVALID_LENGTH.because_of(ie_type));
    let value = |ie_type| Err(Cause::MANDATORY_IE_INCORRECT.because_of(ie_type));
    let table = [
        // One octet, type alone, length past the end, vendor's number cut.
        ("00", Err(Cause::INVALID_LENGTH.alone())),
        ("0031", length(IeType::PFCPSMREQ_FLAGS)),
        ("0031 0002 00", length(IeType::PFCPSMREQ_FLAGS)),
        ("8031 0001 00", length(IeType(0x8031))),
        // Remove PDR with a PDR ID of one octet, of null length, and of none.
        ("000f 0005 0038 0001 00", length(IeType::PDR_ID)),
        ("000f 0004 0038 0000", length(IeType::PDR_ID)),
        ("000f 0006 0038 0003 0001", length(IeType::PDR_ID)),
        ("000f 0000", Ok(())),
        // Update FAR with a contradicting action; an offending action in an update of a QER is not
        // expected there, and skipped.
        ("000a 000d 006c 0004 00000001 002c 0001 03", value(IeType::APPLY_ACTION)),
        ("000e 000d 006d 0004 00000001 002c 0001 03", Ok(())),
        // Cause has exactly one octet, but is not expected in a modification.
        ("0013 0002 0101", Ok(())),
        // IEs that nobody knows, and of a vendor.
        ("7fff 0002 0101", Ok(())),
        ("8001 0003 28af 01", Ok(())),
    ];
    for (ie, expected) in table {
        assert_eq!(check(&modification(ie)), expected, "{ie}");
    }
}

/// Open5GS #4423: an Outer Header Creation of null length. Null removes in an update and is an
/// error in what creates.
#[test]
fn null_length_removes_in_updates_only() {
    // Update FAR, Update Forwarding Parameters with null Outer Header Creation.
    let update = modification("000a 0010 006c 0004 00000001 000b 0004 0054 0000");
    assert_eq!(check(&update), Ok(()));
    let view = View::parse(&update[..]).unwrap();
    let far = view.ies().group(IeType::UPDATE_FAR).unwrap();
    let parameters = far.group(IeType::UPDATE_FORWARDING_PARAMETERS).unwrap();
    assert_eq!(parameters.change(key::OUTER_HEADER_CREATION), Ok(Change::Remove));
    assert_eq!(parameters.change(key::FORWARDING_POLICY), Ok(Change::Keep));
    assert_eq!(far.change(key::FAR_ID), Ok(Change::Set(FarId(1))));
    // The same in Create FAR with Forwarding Parameters.
    let create = modification(
        "0003 001a 006c 0004 00000001 002c 0001 02 0004 0009 002a 0001 01 0054 0000",
    );
    let refusal = Cause::INVALID_LENGTH.because_of(IeType::OUTER_HEADER_CREATION);
    assert_eq!(check(&create), Err(refusal));
    // A rule's own number is never removed.
    let unnamed = modification("000a 0004 006c 0000");
    assert_eq!(check(&unnamed), Err(Cause::INVALID_LENGTH.because_of(IeType::FAR_ID)));
}

#[test]
fn optional_ies_that_mean_nothing_are_not_there() {
    // An F-TEID without addresses: optional in a PDI, so the PDI has none.
    let bytes = modification(
        "0001 0029 0038 0002 0001 001d 0004 00000064 0002 000e 0014 0001 00 0015 0005 00 00000001 \
         006c 0004 00000001",
    );
    assert_eq!(check(&bytes), Ok(()));
    let view = View::parse(&bytes[..]).unwrap();
    let pdr = view.ies().group(IeType::CREATE_PDR).unwrap();
    assert_eq!(pdr.group(IeType::PDI).unwrap().get(key::F_TEID), Ok(None));
    // In Created PDR it is conditional, and its error counts.
    let created = Group::new(Place::Group(IeType::CREATED_PDR), &bytes[44..53]);
    let refusal = Cause::MANDATORY_IE_INCORRECT.because_of(IeType::F_TEID);
    assert_eq!(created.get(key::F_TEID), Err(refusal));
}

#[test]
fn a_rejection_needs_its_cause_only() {
    let response = |cause| {
        message(&of_session(MessageType::SESSION_ESTABLISHMENT_RESPONSE), |writer| {
            writer.put(key::CAUSE, &cause)
        })
    };
    assert_eq!(check(&response(Cause::NO_RESOURCES_AVAILABLE)), Ok(()));
    let refusal = Cause::MANDATORY_IE_MISSING.because_of(IeType::NODE_ID);
    assert_eq!(check(&response(Cause::REQUEST_ACCEPTED)), Err(refusal));
}

#[test]
fn of_repeated_ies_the_first_counts() {
    let bytes = message(&of_node(MessageType::HEARTBEAT_REQUEST), |writer| {
        writer.put(key::RECOVERY_TIME_STAMP, &Time(1))?;
        writer.put(key::RECOVERY_TIME_STAMP, &Time(2))
    });
    let view = View::parse(&bytes[..]).unwrap();
    assert_eq!(view.ies().get(key::RECOVERY_TIME_STAMP), Ok(Some(Time(1))));
    let all: Result<Vec<_>, _> = view.ies().each(key::RECOVERY_TIME_STAMP).collect();
    assert_eq!(all, Ok(vec![Time(1), Time(2)]));
    assert_eq!(Time::from_unix_epoch(0).0, 2_208_988_800);
    assert_eq!(Time(Time::UNIX_EPOCH + 7).since_unix_epoch(), 7);
}

#[test]
fn number_and_depth_of_ies_are_bounded() {
    for (count, is_ok) in [(IES_MAX - 1, true), (IES_MAX, false)] {
        let bytes = message(&of_node(MessageType::HEARTBEAT_REQUEST), |writer| {
            writer.put(key::RECOVERY_TIME_STAMP, &Time(1))?;
            (0..count).try_for_each(|_| writer.put_null(IeType::NODE_ID))
        });
        let refusal = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::NODE_ID);
        let expected = if is_ok { Ok(()) } else { Err(refusal) };
        assert_eq!(check(&bytes), expected, "{count}");
    }
    fn nest(writer: &mut Writer<'_>, depth: usize) -> Result<(), Full> {
        match depth {
            0 => Ok(()),
            _ => writer.group(IeType::PDI, |inner| nest(inner, depth - 1)),
        }
    }
    // Of a rejection only the lengths are read, to a depth that no message has.
    for (depth, is_ok) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (500, false)] {
        let header = of_node(MessageType::ASSOCIATION_SETUP_RESPONSE);
        let bytes = message(&header, |writer| {
            writer.put(key::CAUSE, &Cause::SYSTEM_FAILURE)?;
            nest(writer, depth)
        });
        let refusal = Cause::NO_RESOURCES_AVAILABLE.because_of(IeType::PDI);
        let expected = if is_ok { Ok(()) } else { Err(refusal) };
        assert_eq!(check(&bytes), expected, "{depth}");
        assert!(View::parse(&bytes[..]).unwrap().to_string().len() < 5000);
    }
}

#[test]
fn a_writer_without_room_leaves_a_whole_message() {
    let whole = establishment();
    let header = *View::parse(&whole[..]).unwrap().header();
    for len in 0..whole.len() + 1 {
        let mut bytes = vec![0xee; len];
        let Ok(mut writer) = Writer::new(&mut bytes, &header) else {
            assert!(len < header.header_len());
            continue;
        };
        let pdr = create_pdr(&mut writer);
        let node = writer.put(key::NODE_ID, &NodeId::V4(PEER));
        let used = writer.finish().unwrap();
        let view = View::parse(&bytes[..used]).unwrap();
        let found: Vec<_> = view.ies().ies().map(|ie| ie.unwrap().ie_type).collect();
        let mut expected = vec![];
        expected.extend(pdr.ok().map(|()| IeType::CREATE_PDR));
        expected.extend(node.ok().map(|()| IeType::NODE_ID));
        assert_eq!(found, expected, "{len}");
    }
}

#[test]
fn lengths_that_no_field_can_say_are_refused() {
    let mut bytes = vec![0; 140_000];
    let header = of_node(MessageType::HEARTBEAT_REQUEST);
    let mut writer = Writer::new(&mut bytes, &header).unwrap();
    let long = vec![7; 65_536];
    assert_eq!(writer.put(key::APPLICATION_ID, &&long[..]), Err(Full));
    assert_eq!(writer.put(key::APPLICATION_ID, &&long[..65_535]), Ok(()));
    let group = writer.group(IeType::PDI, |pdi| pdi.put(key::APPLICATION_ID, &&long[..65_532]));
    assert_eq!(group, Err(Full), "the group has four octets more");
    assert_eq!(writer.finish(), Err(Full), "and the message has too many already");
    assert_eq!(IE_HEADER_LEN, 4);
}

#[test]
fn copied_ies_stay_what_they_were() {
    let whole = establishment();
    let view = View::parse(&whole[..]).unwrap();
    let again = message(view.header(), |writer| {
        view.ies().ies().try_for_each(|ie| writer.put_ie(&ie.unwrap()))
    });
    assert_eq!(again, whole);
}

#[test]
fn bars_of_a_report_response_are_read_there() {
    let bytes = message(&of_session(MessageType::SESSION_REPORT_RESPONSE), |writer| {
        writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
        writer.group(IeType::UPDATE_BAR_REPORT_RESPONSE, |bar| {
            bar.put(key::BAR_ID, &BarId(1))?;
            bar.put_null(IeType::DL_BUFFERING_DURATION)
        })
    });
    assert_eq!(check(&bytes), Ok(()));
    let view = View::parse(&bytes[..]).unwrap();
    let bar = view.ies().group(IeType::UPDATE_BAR_REPORT_RESPONSE).unwrap();
    assert_eq!(bar.change(key::DL_BUFFERING_DURATION), Ok(Change::Remove));
    let timer = key::USER_PLANE_INACTIVITY_TIMER;
    assert_eq!(view.ies().get(timer), Ok::<Option<Seconds>, _>(None));
}

proptest! {
    #[test]
    fn emit_then_parse_is_identity(
        seid: u64, sequence in 0_u32..1 << 24, priority in prop::option::of(0_u8..16),
        follow_on: bool, is_of_session: bool,
    ) {
        let header = if is_of_session {
            Header {
                seid: Some(seid), priority, follow_on, sequence,
                ..of_session(MessageType::SESSION_REPORT_REQUEST)
            }
        } else {
            Header { sequence, follow_on, ..of_node(MessageType::NODE_REPORT_REQUEST) }
        };
        let mut bytes = vec![0xee; header.header_len()];
        header.emit(&mut bytes);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
    }

    /// Every byte of a usual message is changed, and the message cut.
    #[test]
    fn spoiled_messages_do_not_panic(at: usize, octet: u8, more: (usize, u8), cut: usize) {
        let mut bytes = establishment();
        let len = bytes.len();
        bytes[at % len] = octet;
        bytes[more.0 % len] = more.1;
        if cut.is_multiple_of(4) {
            bytes.truncate(cut / 4 % (len + 1));
        }
        for message in Messages::new(&bytes).flatten() {
            let _ = message.check();
            prop_assert!(!message.to_string().is_empty());
        }
    }
}

/// Cut anywhere behind the header, the length filled in: there is a cause, and an IE to blame for
/// all but a cut inside a type.
#[test]
fn a_message_cut_anywhere_is_refused_with_a_cause() {
    let whole = establishment();
    assert_eq!(check(&whole), Ok(()));
    let ends: Vec<usize> = {
        let view = View::parse(&whole[..]).unwrap();
        let mut at = view.header_len();
        let sizes = view.ies().ies().map(|ie| IE_HEADER_LEN + ie.unwrap().value.len());
        sizes.map(|size| {
            at += size;
            at
        })
        .collect()
    };
    for len in HEADER_LEN_MAX..whole.len() {
        let mut bytes = whole[..len].to_vec();
        bytes[2..4].copy_from_slice(&((len - 4) as u16).to_be_bytes());
        let result = check(&bytes);
        // From the fourth IE on only what may be missing is cut off.
        if ends[3..].contains(&len) {
            assert_eq!(result, Ok(()), "cut at {len}");
            continue;
        }
        let refusal = result.expect_err("something is missing");
        let is_between = len == HEADER_LEN_MAX || ends.contains(&len);
        let cause = if is_between { Cause::MANDATORY_IE_MISSING } else { Cause::INVALID_LENGTH };
        assert_eq!(refusal.cause, cause, "cut at {len}");
    }
}
