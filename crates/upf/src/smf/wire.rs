//! Frames of the scripted gNB and data network. Users' packets are numbered.

use std::net::{IpAddr, Ipv6Addr};

use catena_wire::dissect::Dissected;
use catena_wire::ethernet::MacAddr;
use catena_wire::gtpu::element::Element;
use catena_wire::gtpu::{self, MessageType};
use catena_wire::ip::Protocol;
use catena_wire::tcp::option::TcpOption;
use catena_wire::{icmpv4, icmpv6, ipv4, ipv6, tcp};

use super::scenario::{Packets, Scenario};
use crate::advertisement::ALL_ROUTERS;
use crate::cut::Cut;
use crate::headers::{Datagram, Frame, Tunnel};

const ETHERNET: usize = catena_wire::ethernet::HEADER_LEN;

/// The UE's port.
pub(super) const UE_PORT: u16 = 40_000;

const FRAME: Frame = Frame {
    src: MacAddr([2, 0, 0, 0, 0, 2]),
    dst: MacAddr([2, 0, 0, 0, 0, 1]),
};

fn headers(from: (IpAddr, u16), to: (IpAddr, u16)) -> Datagram {
    Datagram {
        frame: FRAME,
        src: from.0,
        dst: to.0,
        ports: Some((from.1, to.1)),
        traffic_class: 0,
        ident: 0,
    }
}

/// A frame with a UDP datagram.
pub(crate) fn datagram(from: (IpAddr, u16), to: (IpAddr, u16), payload: &[u8]) -> Vec<u8> {
    headers(from, to).frame(payload)
}

/// A user's packet, of 52 bytes at least, without a frame.
pub(super) fn user_packet(
    from: (IpAddr, u16),
    to: (IpAddr, u16),
    packets: &Packets,
    number: u32,
) -> Vec<u8> {
    if let Some(mss) = packets.mss {
        return syn(from, to, mss);
    }
    let headers_len = headers(from, to).header_len() - ETHERNET;
    let mut payload = vec![0; packets.bytes.max(headers_len + 4) - headers_len];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut packet = datagram(from, to, &payload)[ETHERNET..].to_vec();
    if let Ok(mut view) = ipv6::View::parse(&mut packet[..]) {
        view.set_flow_label(packets.flow_label);
    }
    if from.0.is_ipv4() {
        packet[6] |= u8::from(packets.dont_fragment) << 6;
    }
    if let Ok(mut view) = ipv4::View::parse(&mut packet[..]) {
        view.set_ident(number as u16);
        view.fill_checksum();
    }
    packet
}

/// What opens a TCP connection.
fn syn(from: (IpAddr, u16), to: (IpAddr, u16), mss: u16) -> Vec<u8> {
    let mut segment = [0; 24];
    segment[..2].copy_from_slice(&from.1.to_be_bytes());
    segment[2..4].copy_from_slice(&to.1.to_be_bytes());
    (segment[12], segment[13]) = (6 << 4, 2);
    segment[20..22].copy_from_slice(&[2, 4]);
    segment[22..].copy_from_slice(&mss.to_be_bytes());
    // A datagram whose headers are made those of the segment.
    let at = headers(from, to).header_len() - ETHERNET - 8;
    let mut packet = datagram(from, to, &segment[8..])[ETHERNET..].to_vec();
    packet[at..].copy_from_slice(&segment);
    packet[if from.0.is_ipv4() { 9 } else { 6 }] = Protocol::TCP.0;
    if let Ok(mut view) = ipv4::View::parse(&mut packet[..]) {
        view.fill_checksum();
    }
    let addresses = Dissected::parse_ip(&packet).ok().and_then(|read| read.ip);
    if let Some((ip, mut view)) = addresses.zip(tcp::View::parse(&mut packet[at..]).ok()) {
        view.fill_checksum(&ip.addresses);
    }
    packet
}

/// The maximum segment size that a TCP segment offers, if its checksum is right.
pub(super) fn offered(packet: &[u8]) -> Option<u16> {
    let read = Dissected::parse_ip(packet).ok()?;
    let ip = read.ip.filter(|ip| ip.protocol == Protocol::TCP)?;
    let view = tcp::View::parse(packet.get(read.l4..read.end)?).ok()?;
    let size = view.options().find_map(|option| match option {
        Ok(TcpOption::MaximumSegmentSize(size)) => Some(size),
        _ => None,
    });
    size.filter(|_| view.checksum_is_valid(&ip.addresses))
}

/// A packet in fragments of at most `mtu` bytes, the last one first; whole if there is no MTU.
pub(super) fn in_parts(packet: &[u8], mtu: Option<usize>, ident: u32) -> Vec<Vec<u8>> {
    let Some(cut) = mtu.and_then(|mtu| Cut::of(packet, mtu)) else {
        return vec![packet.to_vec()];
    };
    let part = |at| {
        let mut part = vec![0; cut.len(at)];
        cut.write(at, packet, ident, &mut part);
        part
    };
    (0..cut.count()).rev().map(part).collect()
}

/// The MTU that an ICMP error tells, if it is one that does.
pub(super) fn told_mtu(packet: &[u8]) -> Option<u32> {
    let read = Dissected::parse_ip(packet).ok()?;
    let message = packet.get(read.l4..read.end)?;
    let ip = read.ip?;
    match ip.protocol {
        Protocol::ICMP => {
            let view = icmpv4::View::parse(message).ok()?;
            view.next_hop_mtu()
                .map(u32::from)
                .filter(|_| view.checksum_is_valid())
        }
        Protocol::ICMPV6 => {
            let view = icmpv6::View::parse(message).ok()?;
            view.mtu().filter(|_| view.checksum_is_valid(&ip.addresses))
        }
        _ => None,
    }
}

/// A Router Solicitation, without a frame.
pub(crate) fn solicitation(src: Ipv6Addr, hop_limit: u8) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + icmpv6::HEADER_LEN];
    ipv6::Header {
        dscp: 0,
        ecn: 0,
        flow_label: 0,
        payload_len: icmpv6::HEADER_LEN as u16,
        next_header: Protocol::ICMPV6,
        hop_limit,
        src,
        dst: ALL_ROUTERS,
    }
    .emit(&mut packet);
    icmpv6::Header {
        message_type: icmpv6::Type::ROUTER_SOLICITATION,
        code: 0,
        rest: [0; 4],
    }
    .emit(&mut packet[ipv6::HEADER_LEN..]);
    if let Ok(mut view) = ipv6::View::parse(&mut packet[..]) {
        let addresses = view.addresses();
        if let Ok(mut message) = icmpv6::View::parse(view.payload_mut()) {
            message.fill_checksum(&addresses);
        }
    }
    packet
}

/// Prefixes and MTU of a Router Advertisement.
pub(super) fn advertised(packet: &[u8]) -> Option<(Vec<Ipv6Addr>, u32)> {
    let view = ipv6::View::parse(packet).ok()?;
    let is_icmp = view.next_header() == Protocol::ICMPV6 && view.hop_limit() == 255;
    let message = icmpv6::View::parse(view.payload())
        .ok()
        .filter(|_| is_icmp)?;
    let is_it = message.message_type() == icmpv6::Type::ROUTER_ADVERTISEMENT
        && message.checksum_is_valid(&view.addresses());
    let mut options = view.payload().get(16..).filter(|_| is_it)?;
    let (mut prefixes, mut mtu) = (Vec::new(), None);
    while let [kind, len, ..] = *options {
        let (option, rest) = options.split_at_checked(usize::from(len) * 8)?;
        match kind {
            3 => {
                let prefix: [u8; 16] = option.get(16..32)?.try_into().ok()?;
                prefixes.push(Ipv6Addr::from(prefix));
            }
            5 => mtu = option.get(4..8)?.try_into().ok().map(u32::from_be_bytes),
            _ => {}
        }
        options = rest;
        if len == 0 {
            return None;
        }
    }
    Some((prefixes, mtu?))
}

/// Bytes that are no packet of IP, and begin with their number.
pub(super) fn opaque(len: usize, number: u32) -> Vec<u8> {
    let mut bytes = vec![0xff; len.max(4)];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Ethertype of frames that have a number: one for experiments.
const NUMBERED: u16 = 0x88b5;

/// A user's frame with a number; none of packets that are none, or have an address that is none.
pub(super) fn frame(packets: &Packets, number: u32) -> Option<Vec<u8>> {
    let [src, dst] = packets.frame.as_ref()?;
    let address = |text: &str| text.parse::<MacAddr>().ok();
    let mut bytes = [address(dst)?.0, address(src)?.0].concat();
    for (ether_type, vlan) in [(0x88a8_u16, packets.s_vlan), (0x8100, packets.vlan)] {
        if let Some(vlan) = vlan {
            bytes.extend_from_slice(&ether_type.to_be_bytes());
            bytes.extend_from_slice(&vlan.to_be_bytes());
        }
    }
    bytes.extend_from_slice(&NUMBERED.to_be_bytes());
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.resize(packets.bytes.max(bytes.len()), 0);
    Some(bytes)
}

/// Tags of a frame, from outside.
pub(super) fn tags(frame: &[u8]) -> [Option<u16>; 2] {
    let header = crate::frame::Header::parse(frame);
    header.map_or([None; 2], |one| [one.s_tag, one.c_tag])
}

/// A user's packet in an IP packet from `src` to `dst`, in a frame.
pub(super) fn wrapped(src: IpAddr, dst: IpAddr, packet: &[u8]) -> Vec<u8> {
    let around = Datagram {
        ports: None,
        ..headers((src, 0), (dst, 0))
    };
    around.frame(packet)
}

/// The number of a user's frame, if it is one.
pub(super) fn frame_number(frame: &[u8]) -> Option<u32> {
    let header = crate::frame::Header::parse(frame)?;
    let number = frame.get(header.len..)?.first_chunk()?;
    (header.ether_type == NUMBERED).then_some(u32::from_be_bytes(*number))
}

/// The number of a user's packet, of IP or not: numbers begin with 0, which is no version.
pub(super) fn number(packet: &[u8]) -> Option<u32> {
    if let Some(number) = frame_number(packet) {
        return Some(number);
    }
    let at = match packet.first()? {
        0 => 0,
        _ => Dissected::parse_ip(packet).ok()?.payload,
    };
    let number = packet.get(at..at + 4)?;
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
pub(super) fn tunnelled(scenario: &Scenario, tunnel: &Tunnel, packet: &[u8]) -> Vec<u8> {
    in_tunnel(scenario, None, tunnel, packet)
}

/// A user's packet in a tunnel from another UPF, or from the gNB.
pub(super) fn in_tunnel(
    scenario: &Scenario,
    upf: Option<IpAddr>,
    tunnel: &Tunnel,
    packet: &[u8],
) -> Vec<u8> {
    let mut message = vec![0; tunnel.len()];
    tunnel.emit(&mut message, MessageType::G_PDU, packet.len());
    message.extend_from_slice(packet);
    to_upf(scenario, upf, &message)
}

/// An end marker of another UPF.
pub(super) fn end_marker(scenario: &Scenario, upf: IpAddr, teid: u32) -> Vec<u8> {
    let header = gtpu::Header::new(MessageType::END_MARKER, teid, None);
    to_upf(scenario, Some(upf), &crate::tunnel::written(header, &[]))
}

/// An Echo Request of the gNB.
pub(super) fn echo(scenario: &Scenario) -> Vec<u8> {
    let header = gtpu::Header::new(MessageType::ECHO_REQUEST, 0, Some(1));
    to_upf(scenario, None, &crate::tunnel::written(header, &[]))
}

/// The gNB's answer to an Echo Request with this number, or that of another UPF.
pub(super) fn echo_response(scenario: &Scenario, upf: Option<IpAddr>, sequence: u16) -> Vec<u8> {
    let header = gtpu::Header::new(MessageType::ECHO_RESPONSE, 0, Some(sequence));
    let bytes = crate::tunnel::written(header, &[Element::Recovery(0)]);
    to_upf(scenario, upf, &bytes)
}

/// An Error Indication of the gNB about a tunnel of its own.
pub(super) fn error_indication(scenario: &Scenario, teid: u32) -> Vec<u8> {
    let elements = [Element::TeidDataI(teid), Element::PeerAddress(scenario.ran)];
    let header = gtpu::Header::new(MessageType::ERROR_INDICATION, 0, Some(1));
    to_upf(scenario, None, &crate::tunnel::written(header, &elements))
}

/// A message of GTP-U to the UPF: from another one by N9, or from the gNB by N3.
pub(super) fn to_upf(scenario: &Scenario, upf: Option<IpAddr>, message: &[u8]) -> Vec<u8> {
    let n9 = scenario.n9.unwrap_or(scenario.n3);
    let (from, to) = upf.map_or((scenario.ran, scenario.n3), |upf| (upf, n9));
    datagram((from, gtpu::PORT), (to, gtpu::PORT), message)
}
