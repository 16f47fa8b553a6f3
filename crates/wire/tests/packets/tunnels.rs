// SPDX-License-Identifier: Apache-2.0
//! Messages of GTP-U, between a UPF and what is at the other end of its tunnels.

use super::sessions::{Sample, sample};
use catena_wire::gtpu::element::Element;
use catena_wire::gtpu::pdu_session::{Downlink, PduSession, Uplink};
use catena_wire::gtpu::{Extension, ExtensionType, Extensions, Header, MessageType};
use std::net::{Ipv4Addr, Ipv6Addr};

/// A user's packet: an IPv4 header, and nothing behind it.
const PACKET: [u8; 20] = [
    0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
];
const TEID: u32 = 0x0102_0304;

fn message(header: Header<'_>, extensions: &[Extension<'_>], payload: &[u8]) -> Vec<u8> {
    let mut chain = [0; 64];
    let header = Header {
        extensions: Extensions::write(&mut chain, extensions).expect("it fits"),
        payload_len: payload.len(),
        ..header
    };
    let mut bytes = vec![0; header.header_len()];
    header.emit(&mut bytes);
    bytes.extend(payload);
    bytes
}

/// A message of no tunnel.
fn signal(
    message_type: MessageType,
    sequence: u16,
    extensions: &[Extension<'_>],
    elements: &[Element<'_>],
) -> Vec<u8> {
    let mut payload = Vec::new();
    for element in elements {
        let start = payload.len();
        payload.resize(start + element.len(), 0);
        element.emit(&mut payload[start..]);
    }
    let header = Header::new(message_type, 0, Some(sequence));
    message(header, extensions, &payload)
}

/// A G-PDU with this container.
fn g_pdu(container: PduSession) -> Vec<u8> {
    let mut content = vec![0; container.content_len()];
    container.emit(&mut content);
    let extension = Extension {
        extension_type: ExtensionType::PDU_SESSION_CONTAINER,
        content: &content,
    };
    let header = Header::new(MessageType::G_PDU, TEID, None);
    message(header, &[extension], &PACKET)
}

/// A tunnel that a G-PDU over IPv6 came for and that nobody has, with the port that it came from.
fn error_indication_of_port() -> Vec<u8> {
    let port = Extension {
        extension_type: ExtensionType::UDP_PORT,
        content: &[0xc0, 0x01],
    };
    let peer = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 3);
    let elements = [Element::TeidDataI(TEID), Element::PeerAddress(peer.into())];
    signal(MessageType::ERROR_INDICATION, 0, &[port], &elements)
}

pub(crate) fn all() -> [Sample; 9] {
    let uplink = PduSession::Uplink(Uplink {
        qfi: 9,
        dl_delay: Some(4),
        ul_delay: Some(5),
        n3_n9_delay: Some(6),
        ..Uplink::default()
    });
    let downlink = PduSession::Downlink(Downlink {
        qfi: 63,
        rqi: false,
        ppi: Some(7),
        sending_time: Some(0xe800_0001 << 32),
        sequence: Some(0x01_0203),
        mbs_sequence: None,
    });
    let types = [
        ExtensionType::PDU_SESSION_CONTAINER.0,
        ExtensionType::UDP_PORT.0,
    ];
    let unknown = [
        Element::TeidDataI(7),
        Element::PeerAddress(Ipv4Addr::new(192, 0, 2, 3).into()),
    ];
    let extensions = MessageType::SUPPORTED_EXTENSION_HEADERS_NOTIFICATION;
    let types = [Element::ExtensionHeaderTypes(&types)];
    let end = Header::new(MessageType::END_MARKER, TEID, None);
    let bare = Header::new(MessageType::G_PDU, TEID, None);
    let (request, response) = (MessageType::ECHO_REQUEST, MessageType::ECHO_RESPONSE);
    let recovery = [Element::Recovery(0)];
    let error = signal(MessageType::ERROR_INDICATION, 0, &[], &unknown);
    [
        sample("uplink", 16, g_pdu(uplink)),
        sample("downlink", 16, g_pdu(downlink)),
        sample("bare", 15, message(bare, &[], &PACKET)),
        sample("echo", 15, signal(request, 5, &[], &[])),
        sample("echo_response", 15, signal(response, 5, &[], &recovery)),
        sample("error_indication", 15, error),
        sample("error_indication_of_port", 15, error_indication_of_port()),
        sample("end_marker", 15, message(end, &[], &[])),
        sample("extension_headers", 15, signal(extensions, 9, &[], &types)),
    ]
}
