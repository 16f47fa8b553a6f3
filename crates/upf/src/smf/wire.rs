//! Frames of the scripted gNB and data network. Users' packets are numbered.

use std::net::IpAddr;

use catena_wire::dissect::Dissected;
use catena_wire::ethernet::MacAddr;
use catena_wire::gtpu::element::Element;
use catena_wire::gtpu::{self, MessageType};

use super::scenario::{Scenario, ip};
use crate::headers::{Datagram, Frame, Tunnel};

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;

const FRAME: Frame = Frame {
    src: MacAddr([2, 0, 0, 0, 0, 2]),
    dst: MacAddr([2, 0, 0, 0, 0, 1]),
};

fn headers(from: (IpAddr, u16), to: (IpAddr, u16)) -> Datagram {
    Datagram {
        frame: FRAME,
        src: from.0,
        dst: to.0,
        src_port: from.1,
        dst_port: to.1,
        traffic_class: 0,
        ident: 0,
    }
}

/// A frame with a UDP datagram.
pub(super) fn datagram(from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    let headers = headers(from, to);
    let at = headers.header_len();
    let mut bytes = vec![0; at + payload.len()];
    bytes[at..].copy_from_slice(payload);
    headers.emit(&mut bytes);
    bytes
}

/// A user's packet of `len` bytes, at least 32, without a frame.
pub(super) fn user_packet(
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    len: usize,
    number: u32,
) -> Vec<u8> {
    let headers_len = headers(from, to).header_len() - ETHERNET;
    let mut payload = vec![0; len.max(headers_len + 4) - headers_len];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    datagram(from, to, &payload)[ETHERNET..].to_vec()
}

/// The number of a user's packet.
pub(super) fn number(packet: &[u8]) -> Option<u32> {
    let read = Dissected::parse_ip(packet).ok()?;
    let number = packet.get(read.payload..read.payload + 4)?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// A user's packet in a frame.
pub(super) fn framed(packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; ETHERNET];
    FRAME.emit(&mut bytes, packet[0] >> 4 == 6);
    bytes.extend_from_slice(packet);
    bytes
}

/// A user's packet in a tunnel from the gNB.
pub(super) fn tunnelled(scenario: &Scenario, teid: u32, qfi: Option<u8>, packet: &[u8]) -> Vec<u8> {
    let tunnel = Tunnel::uplink(teid, qfi);
    let mut message = vec![0; tunnel.len()];
    tunnel.emit(&mut message, MessageType::G_PDU, packet.len());
    message.extend_from_slice(packet);
    to_n3(scenario, &message)
}

/// An Echo Request of the gNB.
pub(super) fn echo(scenario: &Scenario) -> Vec<u8> {
    let header = gtpu::Header {
        message_type: MessageType::ECHO_REQUEST,
        teid: 0,
        sequence: Some(1),
        n_pdu: None,
        extensions: gtpu::Extensions::NONE,
        payload_len: 0,
    };
    let mut message = vec![0; header.header_len()];
    header.emit(&mut message);
    to_n3(scenario, &message)
}

/// An Error Indication of the gNB about a tunnel of its own.
pub(super) fn error_indication(scenario: &Scenario, teid: u32) -> Vec<u8> {
    let elements = [
        Element::TeidDataI(teid),
        Element::PeerAddress(ip(scenario.ran)),
    ];
    let header = gtpu::Header {
        message_type: MessageType::ERROR_INDICATION,
        teid: 0,
        sequence: Some(1),
        n_pdu: None,
        extensions: gtpu::Extensions::NONE,
        payload_len: 0,
    };
    to_n3(scenario, &crate::tunnel::written(header, &elements))
}

fn to_n3(scenario: &Scenario, message: &[u8]) -> Vec<u8> {
    let from = (ip(scenario.ran), gtpu::PORT);
    datagram(from, (ip(scenario.n3), gtpu::PORT), message)
}
