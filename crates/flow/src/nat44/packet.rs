//! Headers of a packet that is translated: read once, and rewritten in place.
//!
//! First and last step of a packet's way through `nat44`. Checksums are brought up to date from
//! what changes (RFC 1624): a wrong one stays wrong, an absent one of UDP absent. Of a packet whose
//! checksum is left to a network card the field holds the sum of its pseudo header, which follows
//! the addresses; ports are summed later (ADR 29).

use catena_wire::checksum::{update_u16, update_u32};
use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::ethernet::EtherType;
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::tcp::Flags;
use catena_wire::{icmpv4, ipv4};

use super::endpoint::Endpoint;

/// Whether a message of ICMP has an identifier that stands for its port: echo, and the timestamps
/// of RFC 792.
pub(super) const fn is_query(message_type: icmpv4::Type) -> bool {
    const TIMESTAMP: icmpv4::Type = icmpv4::Type(13);
    const TIMESTAMP_REPLY: icmpv4::Type = icmpv4::Type(14);
    matches!(
        message_type,
        icmpv4::Type::ECHO_REPLY | icmpv4::Type::ECHO_REQUEST | TIMESTAMP | TIMESTAMP_REPLY
    )
}

/// What a packet says above IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Ports, and the flags of TCP; of a query of ICMP its identifier, which stands on both sides.
    Ends {
        src_port: u16,
        dst_port: u16,
        flags: Option<Flags>,
    },
    /// An error of ICMP, about another packet.
    Error,
    /// A part of a packet, but not the first.
    Later,
    /// Another message of ICMP.
    OtherIcmp,
    /// Another protocol.
    OtherProtocol,
}

/// An IPv4 packet in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) l3: usize,
    pub(super) l4: usize,
    pub(super) end: usize,
    pub(super) src: u32,
    pub(super) dst: u32,
    pub(super) protocol: u8,
    pub(super) ident: u16,
    /// Whether others are parts of the same packet.
    pub(super) is_first: bool,
    pub(super) kind: Kind,
}

/// What comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Not IPv4: it passes.
    Other,
    /// Headers that contradict themselves.
    Malformed,
    /// A packet that may be translated.
    Packet(Seen),
}

impl Arrival {
    /// Reads the headers of a frame.
    pub(super) fn of(frame: &[u8]) -> Self {
        let Ok(found) = Dissected::parse(frame) else {
            return Self::Malformed;
        };
        let Some(ip) = found.ip.filter(|_| found.ether_type == EtherType::IPV4) else {
            return Self::Other;
        };
        let Addresses::V4 { src, dst } = ip.addresses else {
            return Self::Other;
        };
        let Ok(view) = ipv4::View::parse(&frame[found.l3..]) else {
            return Self::Malformed;
        };
        Self::Packet(Seen {
            l3: found.l3,
            l4: found.l4,
            end: found.end,
            src: src.to_bits(),
            dst: dst.to_bits(),
            protocol: ip.protocol.0,
            ident: view.ident(),
            is_first: ip.fragment == Fragment::First,
            kind: match ip.fragment {
                Fragment::Later => Kind::Later,
                _ => kind(frame, &found),
            },
        })
    }
}

fn kind(frame: &[u8], found: &Dissected) -> Kind {
    match found.transport {
        Transport::Udp { src_port, dst_port } => Kind::Ends {
            src_port,
            dst_port,
            flags: None,
        },
        Transport::Tcp {
            src_port,
            dst_port,
            flags,
        } => Kind::Ends {
            src_port,
            dst_port,
            flags: Some(flags),
        },
        Transport::Icmpv4 { message_type, .. } if is_query(message_type) => {
            let ident = word(frame, found.l4 + 4);
            Kind::Ends {
                src_port: ident,
                dst_port: ident,
                flags: None,
            }
        }
        Transport::Icmpv4 { message_type, .. } if message_type == icmpv4::Type::REDIRECT => {
            Kind::OtherIcmp
        }
        Transport::Icmpv4 { message_type, .. } if message_type.is_error() => Kind::Error,
        Transport::Icmpv4 { .. } => Kind::OtherIcmp,
        _ => Kind::OtherProtocol,
    }
}

impl Seen {
    /// Source and destination. Of ICMP, the side of the world has no port.
    pub(super) fn ends(&self, src_port: u16, dst_port: u16) -> [Endpoint; 2] {
        let end = |address, port| Endpoint {
            address,
            port,
            protocol: self.protocol,
        };
        [end(self.src, src_port), end(self.dst, dst_port)]
    }
}

/// Which side of a packet is rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Src,
    Dst,
}

/// A big-endian word of a frame; 0 where it ends before.
pub(super) fn word(frame: &[u8], at: usize) -> u16 {
    let bytes = frame.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

/// Writes a word; `false`, and nothing, where the frame ends before.
pub(super) fn set_word(frame: &mut [u8], at: usize, value: u16) -> bool {
    let bytes = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut);
    bytes.map(|bytes| *bytes = value.to_be_bytes()).is_some()
}

/// Rewrites an address of the IPv4 header at `l3`, with its checksum; gives the one before.
pub(super) fn set_address(frame: &mut [u8], l3: usize, side: Side, new: u32) -> u32 {
    let at = l3 + if side == Side::Src { 12 } else { 16 };
    let old = u32::from(word(frame, at)) << 16 | u32::from(word(frame, at + 2));
    set_word(frame, at, (new >> 16) as u16);
    set_word(frame, at + 2, new as u16);
    let checksum = update_u32(word(frame, l3 + 10), old, new);
    set_word(frame, l3 + 10, checksum);
    old
}

/// Rewrites the port of a side, or the identifier of a query, and the checksum, for an address that
/// has changed from `old` to `end`'s. What the frame does not have of them is left out.
pub(super) fn set_port(
    frame: &mut [u8],
    l4: usize,
    side: Side,
    (old, end): (u32, Endpoint),
    is_open: bool,
) {
    const TCP: u8 = Protocol::TCP.0;
    const UDP: u8 = Protocol::UDP.0;
    let (port_at, checksum_at) = match (end.protocol, side) {
        (TCP, Side::Src) => (l4, l4 + 16),
        (TCP, Side::Dst) => (l4 + 2, l4 + 16),
        (UDP, Side::Src) => (l4, l4 + 6),
        (UDP, Side::Dst) => (l4 + 2, l4 + 6),
        _ => (l4 + 4, l4 + 2),
    };
    let old_port = word(frame, port_at);
    if !set_word(frame, port_at, end.port) || frame.len() < checksum_at + 2 {
        return;
    }
    let before = word(frame, checksum_at);
    let after = match end.protocol {
        // No pseudo header (RFC 792).
        protocol if protocol != TCP && protocol != UDP => update_u16(before, old_port, end.port),
        UDP if before == 0 && !is_open => return,
        _ if is_open => !update_u32(!before, old, end.address),
        _ => update_u16(update_u32(before, old, end.address), old_port, end.port),
    };
    let is_udp = end.protocol == UDP && !is_open;
    let after = if is_udp && after == 0 { 0xffff } else { after };
    set_word(frame, checksum_at, after);
}
