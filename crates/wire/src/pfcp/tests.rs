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
use crate::{Layer, Reason};
use core::net::Ipv4Addr;
use proptest::prelude::*;

mod refusals;

const PEER: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

fn of_node(message_type: MessageType) -> Header {
    Header::new(message_type, None, 0x01_0203)
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
            urr.put(
                key::MEASUREMENT_METHOD,
                &value::flags::MeasurementMethod::VOLUM,
            )?;
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
        (
            "20 01 0004 010203 00",
            of_node(MessageType::HEARTBEAT_REQUEST),
        ),
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
        assert_eq!(
            Header::from(&View::parse(&bytes).unwrap()),
            header,
            "{text}"
        );
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
        assert_eq!(
            View::parse(hex(text)),
            Err(Layer::Pfcp.error(reason)),
            "{text}"
        );
    }
    assert!(
        View::parse(hex("20 c8 0004 010203 00")).is_ok(),
        "unknown types may be either"
    );
    assert!(View::parse(hex("21 c8 000c 1112131415161718 010203 00")).is_ok());
}

#[test]
fn a_wrong_length_leaves_what_the_answer_needs() {
    let mut messages = Messages::new(&[0x20, 1, 0, 5, 1, 2, 3, 0]);
    let unreadable = messages.next().unwrap().unwrap_err();
    assert_eq!(unreadable.error, Layer::Pfcp.error(Reason::Truncated));
    assert_eq!(
        unreadable.header,
        Some(of_node(MessageType::HEARTBEAT_REQUEST))
    );
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
        assert_eq!(
            message_type.is_response(),
            name.ends_with("Response"),
            "{name}"
        );
        assert_eq!(
            message_type.is_of_session(),
            Some(message_type.0 >= 50),
            "{name}"
        );
        assert!(Members::of_message(message_type).is_some(), "{name}");
        if let Some(response) = message_type.response() {
            assert_eq!(
                response.name().unwrap(),
                name.replace("Request", "Response")
            );
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
    let groups = IeType::ALL
        .iter()
        .filter_map(|ie_type| Members::of_group(*ie_type));
    let messages = MessageType::ALL
        .iter()
        .filter_map(|kind| Members::of_message(*kind));
    for members in groups.chain(messages) {
        let mut all = [members.mandatory, members.conditional, members.optional].concat();
        let count = all.len();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), count, "{} lists an IE twice", members.table);
    }
    assert_eq!(
        IeType::ALL.len(),
        319,
        "table 8.1.2-1 has 1 to 321 without two spare numbers"
    );
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
    assert_eq!(
        spoiled.to_string(),
        "{ <Invalid length: Source Interface> }"
    );
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
    let group = writer.group(IeType::PDI, |pdi| {
        pdi.put(key::APPLICATION_ID, &&long[..65_532])
    });
    assert_eq!(group, Err(Full), "the group has four octets more");
    assert_eq!(
        writer.finish(),
        Err(Full),
        "and the message has too many already"
    );
    assert_eq!(IE_HEADER_LEN, 4);
}

#[test]
fn copied_ies_stay_what_they_were() {
    let whole = establishment();
    let view = View::parse(&whole[..]).unwrap();
    let again = message(view.header(), |writer| {
        view.ies()
            .ies()
            .try_for_each(|ie| writer.put_ie(&ie.unwrap()))
    });
    assert_eq!(again, whole);
}

#[test]
fn bars_of_a_report_response_are_read_there() {
    let bytes = message(
        &of_session(MessageType::SESSION_REPORT_RESPONSE),
        |writer| {
            writer.put(key::CAUSE, &Cause::REQUEST_ACCEPTED)?;
            writer.group(IeType::UPDATE_BAR_REPORT_RESPONSE, |bar| {
                bar.put(key::BAR_ID, &BarId(1))?;
                bar.put_null(IeType::DL_BUFFERING_DURATION)
            })
        },
    );
    assert_eq!(check(&bytes), Ok(()));
    let view = View::parse(&bytes[..]).unwrap();
    let bar = view
        .ies()
        .group(IeType::UPDATE_BAR_REPORT_RESPONSE)
        .unwrap();
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
