//! Headers that are put on and taken off: VLAN tags, IP in IP, GTP-U and VXLAN.
//!
//! On the data path, by [`Op::Encap`](super::ir::Op::Encap) and `Decap`. What is put on is whole:
//! lengths, checksums and, for GTP-U, the PDU session container (TS 38.415, 5.5.2). A UDP checksum
//! is filled in where the outer packet is IPv6, which demands it (RFC 8200, 8.1), and is zero over
//! IPv4 (TS 29.281, 4.4.2; RFC 7348, 5). The outer header takes DSCP and ECN from the inner one
//! (RFC 6040, 4.1); its TTL is 64, and it may not be fragmented.
//!
//! What is taken off is what stands between Ethernet and the inner packet, whatever options and
//! extension headers are in it; padding behind the outer packet goes too.

use std::net::{Ipv4Addr, Ipv6Addr};

use catena_wire::gtpu::pdu_session::{CONTENT_LEN_MAX, Downlink, PduSession, Uplink};
use catena_wire::gtpu::{self, Extension, ExtensionType, Extensions, MessageType};
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::{ipv4, ipv6, udp};

use super::frame::{Frame, close, open};
use super::header::{Header, Headers, VXLAN_PORT};

/// What is put on or taken off. The values that each is given, with their widths, are those of
/// [`Tunnel::values`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tunnel {
    /// An 802.1Q tag: priority and identifier. The outermost tag.
    Vlan,
    /// IPv4 around an IP packet (RFC 2003, RFC 4213).
    Ipip,
    /// IPv6 around an IP packet (RFC 2473).
    Ip6ip,
    /// GTP-U over IPv4.
    Gtpu,
    /// GTP-U over IPv6.
    Gtpu6,
    /// GTP-U over IPv4 with a PDU session container towards the terminal.
    GtpuDownlink,
    /// GTP-U over IPv4 with a PDU session container from the terminal.
    GtpuUplink,
    /// GTP-U over IPv6 with a PDU session container towards the terminal.
    Gtpu6Downlink,
    /// GTP-U over IPv6 with a PDU session container from the terminal.
    Gtpu6Uplink,
    /// VXLAN over IPv4; the outer Ethernet header is a copy of the inner one.
    Vxlan,
}

/// All of them, with their names in programs.
pub const TUNNELS: [(&str, Tunnel); 10] = [
    ("vlan", Tunnel::Vlan),
    ("ipip", Tunnel::Ipip),
    ("ip6ip", Tunnel::Ip6ip),
    ("gtpu", Tunnel::Gtpu),
    ("gtpu6", Tunnel::Gtpu6),
    ("gtpu_downlink", Tunnel::GtpuDownlink),
    ("gtpu_uplink", Tunnel::GtpuUplink),
    ("gtpu6_downlink", Tunnel::Gtpu6Downlink),
    ("gtpu6_uplink", Tunnel::Gtpu6Uplink),
    ("vxlan", Tunnel::Vxlan),
];

/// Bytes of a PDU session container's extension header that says no more than the flow.
const CONTAINER_LEN: usize = 4;
/// GTP-U's header with one extension header of that length.
const GTPU_LONG: usize = gtpu::HEADER_LEN_MIN + gtpu::OPTIONAL_LEN + CONTAINER_LEN;
const TTL: u8 = 64;
const ETHERNET_LEN: usize = 14;
const VLAN_LEN: usize = 4;
const VXLAN_LEN: usize = 8;

impl Tunnel {
    /// Names and widths of the values that it is given.
    pub fn values(self) -> &'static [(&'static str, u8)] {
        match self {
            Self::Vlan => &[("pcp", 3), ("vid", 12)],
            Self::Ipip => &[("src", 32), ("dst", 32)],
            Self::Ip6ip => &[("src", 128), ("dst", 128)],
            Self::Gtpu => &[("src", 32), ("dst", 32), ("teid", 32)],
            Self::Gtpu6 => &[("src", 128), ("dst", 128), ("teid", 32)],
            Self::GtpuDownlink | Self::GtpuUplink => {
                &[("src", 32), ("dst", 32), ("teid", 32), ("qfi", 6)]
            }
            Self::Gtpu6Downlink | Self::Gtpu6Uplink => {
                &[("src", 128), ("dst", 128), ("teid", 32), ("qfi", 6)]
            }
            Self::Vxlan => &[("src", 32), ("dst", 32), ("vni", 24)],
        }
    }

    /// Bytes that it puts on.
    pub fn len(self) -> usize {
        let (v4, v6, udp) = (ipv4::HEADER_LEN_MIN, ipv6::HEADER_LEN, udp::HEADER_LEN);
        match self {
            Self::Vlan => VLAN_LEN,
            Self::Ipip => v4,
            Self::Ip6ip => v6,
            Self::Gtpu => v4 + udp + gtpu::HEADER_LEN_MIN,
            Self::Gtpu6 => v6 + udp + gtpu::HEADER_LEN_MIN,
            Self::GtpuDownlink | Self::GtpuUplink => v4 + udp + GTPU_LONG,
            Self::Gtpu6Downlink | Self::Gtpu6Uplink => v6 + udp + GTPU_LONG,
            Self::Vxlan => ETHERNET_LEN + v4 + udp + VXLAN_LEN,
        }
    }

    /// Whether it is GTP-U, with or without a container.
    fn is_gtpu(self) -> bool {
        matches!(self, Self::Gtpu | Self::Gtpu6) || self.session(0).is_some()
    }

    /// Whether IPv6 is around.
    fn is_over_v6(self) -> bool {
        use Tunnel::{Gtpu6, Gtpu6Downlink, Gtpu6Uplink, Ip6ip};
        matches!(self, Ip6ip | Gtpu6 | Gtpu6Downlink | Gtpu6Uplink)
    }

    /// The PDU session container that it puts on.
    fn session(self, qfi: u8) -> Option<PduSession> {
        match self {
            Self::GtpuDownlink | Self::Gtpu6Downlink => Some(PduSession::Downlink(Downlink {
                qfi,
                ..Downlink::default()
            })),
            Self::GtpuUplink | Self::Gtpu6Uplink => Some(PduSession::Uplink(Uplink {
                qfi,
                ..Uplink::default()
            })),
            _ => None,
        }
    }

    /// Never: each puts something on.
    pub fn is_empty(self) -> bool {
        false
    }
}

/// Why headers were not put on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EncapError {
    /// The packet has no room in front.
    NoRoom,
    /// It is no IP packet, or too long for the outer header to say.
    NotFit,
}

/// Start and end of the outermost IP packet, and its traffic class.
fn network(frame: &dyn Frame, headers: &Headers) -> Option<(usize, usize, u8)> {
    let bytes = frame.bytes();
    let end = headers.end().min(bytes.len());
    let before_end = |at: &usize| *at <= end;
    if let Some(at) = headers.at(Header::Ipv4).filter(before_end) {
        Some((at, end, *bytes.get(at + 1)?))
    } else {
        let at = headers.at(Header::Ipv6).filter(before_end)?;
        let class = bytes.get(at)? << 4 | bytes.get(at + 1)? >> 4;
        Some((at, end, class))
    }
}

fn v4(value: u128) -> Ipv4Addr {
    Ipv4Addr::from(value as u32)
}

/// Puts headers on. `values` are as many as [`Tunnel::values`] says, each of its width.
///
/// # Errors
/// Why it was not done; the packet is as it was.
pub fn encap(
    frame: &mut dyn Frame,
    headers: &Headers,
    tunnel: Tunnel,
    values: &[u128],
) -> Result<(), EncapError> {
    let value = |at: usize| values.get(at).copied().unwrap_or(0);
    match tunnel {
        Tunnel::Vlan => return push_vlan(frame, value(0), value(1)),
        Tunnel::Vxlan => return push_vxlan(frame, [value(0), value(1), value(2)]),
        _ => {}
    }
    let (at, end, class) = network(frame, headers).ok_or(EncapError::NotFit)?;
    let is_v4 = headers.has(Header::Ipv4);
    let (len, inner_len) = (tunnel.len(), end - at);
    // The longest header around leaves so much.
    if inner_len + len > usize::from(u16::MAX) {
        return Err(EncapError::NotFit);
    }
    if !open(frame, at, len) {
        return Err(EncapError::NoRoom);
    }
    frame.truncate(end + len);
    let bytes = frame.bytes_mut();
    let outer = &mut bytes[at..];
    let inner_protocol = if is_v4 {
        Protocol::IPV4
    } else {
        Protocol::IPV6
    };
    let protocol = if tunnel.is_gtpu() {
        Protocol::UDP
    } else {
        inner_protocol
    };
    let rest = if tunnel.is_over_v6() {
        let header = ipv6::Header {
            dscp: class >> 2,
            ecn: class & 3,
            flow_label: 0,
            payload_len: (outer.len() - ipv6::HEADER_LEN) as u16,
            next_header: protocol,
            hop_limit: TTL,
            src: Ipv6Addr::from(value(0)),
            dst: Ipv6Addr::from(value(1)),
        };
        header.emit(outer);
        set_ether_type(bytes, at, 0x86dd);
        at + ipv6::HEADER_LEN
    } else {
        emit_ipv4(outer, class, protocol, value(0), value(1));
        set_ether_type(bytes, at, 0x0800);
        at + ipv4::HEADER_LEN_MIN
    };
    if tunnel.is_gtpu() {
        emit_gtpu(
            &mut bytes[rest..],
            tunnel,
            [value(0), value(1), value(2), value(3)],
        );
    }
    Ok(())
}

fn emit_ipv4(bytes: &mut [u8], class: u8, protocol: Protocol, src: u128, dst: u128) {
    let header = ipv4::Header {
        dscp: class >> 2,
        ecn: class & 3,
        ident: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        ttl: TTL,
        protocol,
        src: v4(src),
        dst: v4(dst),
        payload_len: bytes.len() - ipv4::HEADER_LEN_MIN,
        options: catena_wire::options::Options::default(),
    };
    header.emit(bytes);
}

/// UDP and GTP-U at the front of `bytes`, which hold the inner packet behind them.
fn emit_gtpu(bytes: &mut [u8], tunnel: Tunnel, values: [u128; 4]) {
    emit_udp(bytes, gtpu::PORT, gtpu::PORT);
    let rest = &mut bytes[udp::HEADER_LEN..];
    let session = tunnel.session(values[3] as u8);
    let has_session = session.is_some();
    let mut content = [0; CONTENT_LEN_MAX];
    let mut chain = [0; CONTAINER_LEN];
    let extensions = session.and_then(|session| {
        session.emit(&mut content);
        let extension = Extension {
            extension_type: ExtensionType::PDU_SESSION_CONTAINER,
            content: content.get(..session.content_len())?,
        };
        Extensions::write(&mut chain, &[extension])
    });
    let extensions = extensions.unwrap_or(Extensions::NONE);
    let header_len = if has_session {
        GTPU_LONG
    } else {
        gtpu::HEADER_LEN_MIN
    };
    let header = gtpu::Header {
        message_type: MessageType::G_PDU,
        teid: values[2] as u32,
        sequence: None,
        n_pdu: None,
        extensions,
        payload_len: rest.len() - header_len,
    };
    header.emit(rest);
    if tunnel.is_over_v6() {
        let addresses = Addresses::V6 {
            src: Ipv6Addr::from(values[0]),
            dst: Ipv6Addr::from(values[1]),
        };
        if let Ok(mut view) = udp::View::parse(&mut *bytes) {
            view.fill_checksum(&addresses);
        }
    }
}

fn emit_udp(bytes: &mut [u8], src_port: u16, dst_port: u16) {
    let header = udp::Header {
        src_port,
        dst_port,
        payload_len: bytes.len() - udp::HEADER_LEN,
    };
    header.emit(bytes);
}

/// The type in front of the network packet at `at`, behind Ethernet or the last tag.
fn set_ether_type(bytes: &mut [u8], at: usize, ether_type: u16) {
    if let Some(field) = at.checked_sub(2).and_then(|from| bytes.get_mut(from..at)) {
        field.copy_from_slice(&ether_type.to_be_bytes());
    }
}

fn push_vlan(frame: &mut dyn Frame, pcp: u128, vid: u128) -> Result<(), EncapError> {
    if frame.bytes().len() < ETHERNET_LEN {
        return Err(EncapError::NotFit);
    }
    if !open(frame, 12, VLAN_LEN) {
        return Err(EncapError::NoRoom);
    }
    let tci = (pcp as u16) << 13 | vid as u16 & 0x0fff;
    let bytes = frame.bytes_mut();
    bytes[12..14].copy_from_slice(&0x8100_u16.to_be_bytes());
    bytes[14..16].copy_from_slice(&tci.to_be_bytes());
    Ok(())
}

fn push_vxlan(frame: &mut dyn Frame, [src, dst, vni]: [u128; 3]) -> Result<(), EncapError> {
    let inner = frame.bytes();
    let (inner_len, len) = (inner.len(), Tunnel::Vxlan.len());
    if inner_len < ETHERNET_LEN || inner_len + len > usize::from(u16::MAX) {
        return Err(EncapError::NotFit);
    }
    // Differs by flow, so that paths are shared out (RFC 7348, 5).
    let src_port = entropy(inner);
    let macs: [u8; 12] = std::array::from_fn(|at| inner[at]);
    if !frame.push_front(len) {
        return Err(EncapError::NoRoom);
    }
    let bytes = frame.bytes_mut();
    bytes[..12].copy_from_slice(&macs);
    bytes[12..14].copy_from_slice(&0x0800_u16.to_be_bytes());
    emit_ipv4(&mut bytes[ETHERNET_LEN..], 0, Protocol::UDP, src, dst);
    let at = ETHERNET_LEN + ipv4::HEADER_LEN_MIN;
    emit_udp(&mut bytes[at..], src_port, VXLAN_PORT);
    let header = &mut bytes[at + udp::HEADER_LEN..][..VXLAN_LEN];
    header.copy_from_slice(&(0x0800_0000_u64 << 32 | (vni as u64) << 8).to_be_bytes());
    Ok(())
}

/// A port of the dynamic range from the bytes of addresses and ports of an untagged frame.
fn entropy(frame: &[u8]) -> u16 {
    let bytes = frame.iter().take(54).skip(ETHERNET_LEN + 12);
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    0xc000 | (hash >> 16 ^ hash) as u16
}

/// Takes headers off, if the packet has them; whether it had.
pub fn decap(frame: &mut dyn Frame, headers: &Headers, tunnel: Tunnel) -> bool {
    let inner_ip = || {
        let v4 = headers.at(Header::InnerIpv4).map(|at| (at, 0x0800));
        v4.or_else(|| headers.at(Header::InnerIpv6).map(|at| (at, 0x86dd)))
    };
    let outer = headers
        .at(Header::Ipv4)
        .or_else(|| headers.at(Header::Ipv6));
    match tunnel {
        Tunnel::Vlan => headers.has(Header::Vlan) && close(frame, 12, VLAN_LEN),
        Tunnel::Vxlan => match headers.at(Header::InnerEthernet) {
            Some(at) => {
                frame.truncate(headers.end());
                frame.pull_front(at)
            }
            None => false,
        },
        _ => {
            let (Some((inner, ether_type)), Some(at)) = (inner_ip(), outer) else {
                return false;
            };
            let is_inside = inner > at;
            if !is_inside
                || tunnel.is_gtpu() != headers.has(Header::Gtpu)
                || headers.has(Header::Vxlan)
            {
                return false;
            }
            frame.truncate(headers.end());
            if !close(frame, at, inner - at) {
                return false;
            }
            set_ether_type(frame.bytes_mut(), at, ether_type);
            true
        }
    }
}
