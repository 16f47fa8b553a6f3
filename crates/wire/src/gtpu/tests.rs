// SPDX-License-Identifier: Apache-2.0
//! Tests of headers, extension headers and elements of GTP-U. Bytes are as the figures of TS 29.281
//! and TS 38.415 draw them.

use super::element::{Element, Elements};
use super::extension::{Comprehension, EXTENSIONS_MAX, Value};
use super::pdu_session::{CONTENT_LEN_MAX, Downlink, PduSession, Uplink, UplinkTimes};
use super::*;
use crate::testing::{hex, truncation};
use core::net::IpAddr;
use proptest::prelude::*;

fn header(message_type: MessageType, teid: u32, payload_len: usize) -> Header<'static> {
    Header {
        message_type,
        teid,
        sequence: None,
        n_pdu: None,
        extensions: Extensions::NONE,
        payload_len,
    }
}

#[test]
fn header_and_bytes_agree() {
    let plain = header(MessageType::G_PDU, 0x0102_0304, 2);
    let echo = Header {
        sequence: Some(0x1122),
        ..header(MessageType::ECHO_REQUEST, 0, 0)
    };
    let container = Extensions::parse(ExtensionType(0x85), &[1, 0x10, 9, 0]).unwrap();
    let uplink = Header {
        extensions: container,
        ..plain
    };
    let all = Header {
        sequence: Some(5),
        n_pdu: Some(6),
        ..uplink
    };
    let table = [
        ("30 ff 0002 01020304 abcd", plain),
        ("32 01 0004 00000000 1122 00 00", echo),
        ("34 ff 000a 01020304 0000 00 85 01 10 09 00 abcd", uplink),
        ("37 ff 000a 01020304 0005 06 85 01 10 09 00 abcd", all),
    ];
    for (text, header) in table {
        let bytes = hex(text);
        assert_eq!(Header::parse(&bytes), Ok(header), "{text}");
        let view = View::parse(&bytes[..]).unwrap();
        assert_eq!(Header::from(&view), header, "{text}");
        assert_eq!(view.payload(), &bytes[header.header_len()..], "{text}");
        let mut written = bytes.clone();
        written[..header.header_len()].fill(0xee);
        header.emit(&mut written);
        assert_eq!(written, bytes, "{header}");
        truncation(&bytes, bytes.len(), View::parse);
    }
}

#[test]
fn fields_of_unset_flags_mean_nothing() {
    // Only PN is set: the sequence number and the next type are there, and are not evaluated.
    let bytes = hex("31 ff 0004 00000001 1122 07 85");
    let view = View::parse(&bytes[..]).unwrap();
    assert_eq!((view.sequence(), view.n_pdu()), (None, Some(7)));
    assert!(view.extensions().is_empty());
    assert_eq!(view.header_len(), 12);
}

#[test]
fn wrong_headers_are_refused_by_name() {
    let table = [
        ("10 ff 0000 00000000", Layer::Gtpu, Reason::BadVersion),
        ("50 ff 0000 00000000", Layer::Gtpu, Reason::BadVersion),
        ("20 ff 0000 00000000", Layer::Gtpu, Reason::Unsupported),
        ("30 ff 0001 00000000", Layer::Gtpu, Reason::Truncated),
        ("32 ff 0003 00000000 000000", Layer::Gtpu, Reason::BadLength),
        (
            "34 ff 0004 00000000 000000 85",
            Layer::GtpuExtension,
            Reason::Truncated,
        ),
        (
            "34 ff 0008 00000000 000000 85 00100900",
            Layer::GtpuExtension,
            Reason::BadLength,
        ),
        (
            "34 ff 0008 00000000 000000 85 02100900",
            Layer::GtpuExtension,
            Reason::Truncated,
        ),
    ];
    for (text, layer, reason) in table {
        assert_eq!(
            View::parse(&hex(text)[..]),
            Err(layer.error(reason)),
            "{text}"
        );
    }
}

#[test]
fn an_extension_outside_the_length_field_is_not_there() {
    // The bytes go on, but the message does not.
    let bytes = hex("34 ff 0004 00000000 000000 85 01100900");
    let error = Layer::GtpuExtension.error(Reason::Truncated);
    assert_eq!(View::parse(&bytes[..]), Err(error));
}

#[test]
fn chains_are_bounded() {
    for (count, is_ok) in [(EXTENSIONS_MAX, true), (EXTENSIONS_MAX + 1, false)] {
        let mut bytes = [1, 0, 0, 0x20].repeat(count);
        *bytes.last_mut().unwrap() = 0;
        let chain = Extensions::parse(ExtensionType::SERVICE_CLASS_INDICATOR, &bytes);
        assert_eq!(chain.is_ok(), is_ok, "{count}");
        let extension = Extension {
            extension_type: ExtensionType::SERVICE_CLASS_INDICATOR,
            content: &[0, 0],
        };
        let mut buffer = [0; 4 * (EXTENSIONS_MAX + 1)];
        let written = Extensions::write(&mut buffer, &vec![extension; count]);
        assert_eq!(written.is_some(), is_ok, "{count}");
        if let Some(chain) = written {
            assert_eq!(Extensions::parse(chain.first(), &bytes), Ok(chain));
        }
    }
}

#[test]
fn the_highest_bits_of_a_type_say_who_must_understand_it() {
    use Comprehension::*;
    let table = [
        (0x03, NotRequired, false, false, true),
        (0x20, NotRequired, false, false, true),
        (0x40, NotRequiredNorForwarded, false, false, false),
        (0x85, RequiredByEndpoint, true, false, true),
        (0xc0, RequiredByRecipient, true, true, false),
    ];
    for (number, comprehension, by_endpoint, by_intermediate, is_forwarded) in table {
        let kind = ExtensionType(number);
        assert_eq!(kind.comprehension(), comprehension, "{kind}");
        assert_eq!(
            kind.must_be_understood(Role::Endpoint),
            by_endpoint,
            "{kind}"
        );
        assert_eq!(
            kind.must_be_understood(Role::Intermediate),
            by_intermediate,
            "{kind}"
        );
        assert_eq!(kind.is_forwarded(), is_forwarded, "{kind}");
    }
    // A service class, one that endpoints must understand, one that everybody must.
    let bytes = hex("01 0000 bf 01 0000 ff 01 0000 00");
    let chain = Extensions::parse(ExtensionType(0x20), &bytes).unwrap();
    let knows = |known: &'static [u8]| move |kind: ExtensionType| known.contains(&kind.0);
    let blocking = |role, known| chain.not_understood(role, knows(known)).map(|kind| kind.0);
    assert_eq!(blocking(Role::Endpoint, &[]), Some(0xbf));
    assert_eq!(blocking(Role::Intermediate, &[]), Some(0xff));
    assert_eq!(blocking(Role::Endpoint, &[0xbf]), Some(0xff));
    assert_eq!(blocking(Role::Endpoint, &[0xbf, 0xff]), None);
}

#[test]
fn extensions_say_what_their_type_says() {
    let table: [(u8, &str, Value<'_>); 7] = [
        (0x20, "0700", Value::ServiceClassIndicator(7)),
        (0x40, "0868", Value::UdpPort(2152)),
        (0xc0, "0102", Value::PdcpPduNumber(0x0102)),
        (0x82, "03 0102 000000", Value::LongPdcpPduNumber(0x3_0102)),
        (0x03, "ff 0102 000000", Value::LongPdcpPduNumber(0x3_0102)),
        (0x84, "1000", Value::Other(&[0x10, 0])),
        (0x7f, "0102", Value::Other(&[1, 2])),
    ];
    for (number, text, value) in table {
        let content = hex(text);
        let extension = Extension {
            extension_type: ExtensionType(number),
            content: &content,
        };
        assert_eq!(extension.value(), Ok(value), "{extension}");
    }
}

/// Content of a container, without padding where that is no part of the table.
fn sessions() -> Vec<(&'static str, PduSession)> {
    let dl = |frame| PduSession::Downlink(frame);
    let ul = |frame| PduSession::Uplink(frame);
    let times = UplinkTimes {
        dl_sending: 1,
        dl_received: 2,
        ul_sending: 3,
    };
    vec![
        (
            "00 09",
            dl(Downlink {
                qfi: 9,
                ..Downlink::default()
            }),
        ),
        (
            "00 7f",
            dl(Downlink {
                qfi: 63,
                rqi: true,
                ..Downlink::default()
            }),
        ),
        (
            "00 c9 a0 000000",
            dl(Downlink {
                qfi: 9,
                rqi: true,
                ppi: Some(5),
                ..Downlink::default()
            }),
        ),
        (
            "0e 89 e0 0000000000000001 000002 00000003",
            dl(Downlink {
                qfi: 9,
                rqi: false,
                ppi: Some(7),
                sending_time: Some(1),
                sequence: Some(2),
                mbs_sequence: Some(3),
            }),
        ),
        (
            "10 09",
            ul(Uplink {
                qfi: 9,
                ..Uplink::default()
            }),
        ),
        (
            "1f c9 0000000000000001 0000000000000002 0000000000000003 00000004 00000005 000006 \
             00000007 01 00000008",
            ul(Uplink {
                qfi: 9,
                times: Some(times),
                dl_delay: Some(4),
                ul_delay: Some(5),
                sequence: Some(6),
                n3_n9_delay: Some(7),
                d1_ul_pdcp_delay: Some(8),
            }),
        ),
    ]
}

#[test]
fn pdu_sessions_and_bytes_agree() {
    for (text, session) in sessions() {
        let content = hex(text);
        assert_eq!(PduSession::parse(&content), Ok(session), "{text}");
        let mut written = vec![0xee; session.content_len()];
        session.emit(&mut written);
        assert_eq!(written[..content.len()], content, "{session}");
        assert!(written[content.len()..].iter().all(|&octet| octet == 0));
        assert_eq!(written.len() % 4, 2, "{session}");
        assert!(written.len() <= CONTENT_LEN_MAX);
    }
    let longest = sessions().last().unwrap().1;
    assert_eq!(longest.content_len(), CONTENT_LEN_MAX);
    let error = Layer::GtpuExtension.error(Reason::Unsupported);
    assert_eq!(
        PduSession::parse(&[0x20, 0]),
        Err(error),
        "neither downlink nor uplink"
    );
    assert_eq!(PduSession::parse(&[0xf0, 0]), Err(error));
}

#[test]
fn a_pdu_session_ends_where_its_flags_say() {
    for (text, session) in sessions() {
        let mut content = hex(text);
        while content.len() > 2 && content.last() == Some(&0) {
            content.pop();
        }
        // Of what is left the last field has no zero at its end.
        truncation(&content, content.len(), PduSession::parse);
        assert!(
            PduSession::parse(&content).is_ok_and(|found| found == session),
            "{text}"
        );
    }
}

#[test]
fn elements_and_bytes_agree() {
    let v4: IpAddr = "192.0.2.1".parse().unwrap();
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    let table: [(&str, Element<'_>); 9] = [
        ("0e 07", Element::Recovery(7)),
        ("10 01020304", Element::TeidDataI(0x0102_0304)),
        ("85 0004 c0000201", Element::PeerAddress(v4)),
        (
            "85 0010 20010db8 00000000 00000000 00000001",
            Element::PeerAddress(v6),
        ),
        ("8d 02 85c0", Element::ExtensionHeaderTypes(&[0x85, 0xc0])),
        ("e6 0001 01", Element::TunnelStatus(true)),
        ("e7 0004 e8000001", Element::RecoveryTimeStamp(0xe800_0001)),
        (
            "ff 0004 28af aabb",
            Element::Private {
                identifier: 10415,
                value: &[0xaa, 0xbb],
            },
        ),
        (
            "f0 0001 05",
            Element::Unknown {
                element_type: 0xf0,
                value: &[5],
            },
        ),
    ];
    for (text, element) in table {
        let bytes = hex(text);
        let found: Vec<_> = Elements::new(&bytes).collect();
        assert_eq!(found, [Ok(element)], "{text}");
        let mut written = vec![0xee; element.len()];
        element.emit(&mut written);
        assert_eq!(written, bytes, "{element}");
        truncation(&bytes[..], bytes.len(), |bytes| {
            let found: Result<Vec<_>, _> = Elements::new(bytes).collect();
            found.and_then(|found| {
                found
                    .first()
                    .copied()
                    .ok_or(Layer::GtpuElement.error(Reason::Truncated))
            })
        });
    }
}

#[test]
fn an_error_indication_names_tunnel_and_peer() {
    let bytes = hex("10 01020304 85 0004 c0000201");
    let v4 = "192.0.2.1".parse().unwrap();
    assert_eq!(
        Elements::new(&bytes).error_indication(),
        Ok((0x0102_0304, v4))
    );
    assert!(
        Elements::new(&bytes[..5]).error_indication().is_err(),
        "no address"
    );
    assert!(
        Elements::new(&bytes[5..]).error_indication().is_err(),
        "no tunnel"
    );
    let unknown = hex("05 00 10 01020304");
    let error = Layer::GtpuElement.error(Reason::Unsupported);
    assert_eq!(Elements::new(&unknown).error_indication(), Err(error));
    assert_eq!(
        Elements::new(&unknown).count(),
        1,
        "nothing is read behind an error"
    );
}

#[test]
fn display_names_message_and_flow() {
    let bytes = hex("34 ff 000a 01020304 0000 00 85 01 10 09 00 abcd");
    assert_eq!(
        Header::parse(&bytes).unwrap().to_string(),
        "gtpu G-PDU teid 0x01020304 [ul qfi 9] payload 2"
    );
    let bytes = hex("32 01 0004 00000000 1122 00 00");
    let shown = Header::parse(&bytes).unwrap().to_string();
    assert_eq!(
        shown,
        "gtpu Echo Request teid 0x00000000 seq 4386 payload 0"
    );
    assert_eq!(MessageType(9).to_string(), "message 9");
}

#[test]
fn setters_write_one_field() {
    let mut view = View::parse(hex("32 ff 0006 00000001 0002 00 00 abcd")).unwrap();
    view.set_teid(0xa0b0_c0d0);
    view.set_sequence(0x0304);
    view.set_len(0);
    view.payload_mut().fill(0x11);
    assert_eq!(
        view.into_inner(),
        hex("32 ff 0000 a0b0c0d0 0304 00 00 1111")
    );
    let mut view = View::parse(hex("30 ff 0000 00000001")).unwrap();
    view.set_sequence(1);
    assert_eq!(view.into_inner(), hex("30 ff 0000 00000001"));
}

prop_compose! {
    fn downlink()(
        qfi in 0_u8..64, rqi: bool, ppi in prop::option::of(0_u8..8),
        sending_time: Option<u64>, sequence in prop::option::of(0_u32..1 << 24),
        mbs_sequence: Option<u32>,
    ) -> PduSession {
        PduSession::Downlink(Downlink { qfi, rqi, ppi, sending_time, sequence, mbs_sequence })
    }
}

prop_compose! {
    fn uplink()(
        qfi in 0_u8..64, times: Option<(u64, u64, u64)>, delays: (Option<u32>, Option<u32>),
        sequence in prop::option::of(0_u32..1 << 24), more: (Option<u32>, Option<u32>),
    ) -> PduSession {
        let times = times.map(|(dl_sending, dl_received, ul_sending)| UplinkTimes {
            dl_sending, dl_received, ul_sending,
        });
        PduSession::Uplink(Uplink {
            qfi, times, dl_delay: delays.0, ul_delay: delays.1, sequence,
            n3_n9_delay: more.0, d1_ul_pdcp_delay: more.1,
        })
    }
}

proptest! {
    #[test]
    fn emit_then_parse_is_identity(
        session in prop_oneof![downlink(), uplink()], kind in 1_u8.., other: Vec<u8>,
        message_type: u8, teid: u32, sequence: Option<u16>, n_pdu: Option<u8>,
        payload in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut content = vec![0; session.content_len()];
        session.emit(&mut content);
        let other = &other[..other.len().min(1018)];
        let written = [
            Extension { extension_type: ExtensionType::PDU_SESSION_CONTAINER, content: &content },
            Extension { extension_type: ExtensionType(kind), content: other },
        ];
        let mut buffer = [0; 1100];
        let extensions = Extensions::write(&mut buffer, &written).unwrap();
        prop_assert_eq!(extensions.pdu_session(), Ok(Some(session)));
        let header = Header {
            message_type: MessageType(message_type), teid, sequence, n_pdu, extensions,
            payload_len: payload.len(),
        };
        let mut bytes = vec![0; header.header_len()];
        header.emit(&mut bytes);
        bytes.extend(&payload);
        prop_assert_eq!(Header::parse(&bytes), Ok(header));
        let view = View::parse(&bytes[..]).unwrap();
        prop_assert_eq!(view.payload(), &payload);
        let last = view.extensions().into_iter().last().unwrap();
        prop_assert_eq!(&last.content[..other.len()], other);
        prop_assert!(last.content[other.len()..].iter().all(|&octet| octet == 0));
    }

    #[test]
    fn no_byte_makes_it_panic(
        at in 0_usize..40, value: u8, len in 0_usize..40,
    ) {
        let mut bytes = hex(
            "37 1a 0021 01020304 0005 06 85 01 10 09 40 01 0868 00 10 01020304 85 0004 c0000201 \
             0e 07 8d 01 85 ff 0002 0001",
        );
        let end = bytes.len();
        bytes[at % end] = value;
        if let Ok(view) = View::parse(&bytes[..len.min(end)]) {
            let _ = view.extensions().pdu_session();
            let shown = view.extensions().into_iter().map(|extension| extension.to_string());
            prop_assert!(shown.count() <= EXTENSIONS_MAX);
            for element in Elements::new(view.payload()).flatten() {
                prop_assert!(element.len() <= bytes.len());
            }
            let _ = Elements::new(view.payload()).error_indication();
        }
    }
}
