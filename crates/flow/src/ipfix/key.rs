//! What makes packets a flow: addresses, protocol and ports, of the packet or of what GTP-U
//! carries.
//!
//! First step of a packet at `ipfix`; `exporter` counts by it. A later fragment has ports 0.

use std::net::IpAddr;

use catena_wire::dissect::{Dissected, Transport};
use catena_wire::{gtpu, icmpv4, icmpv6};

/// Words of a key: two addresses, then ports, protocol and version.
pub(super) const KEY_WORDS: usize = 5;

/// A packet that is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Metered {
    pub(super) key: [u64; KEY_WORDS],
    /// Octets of IP, header included.
    pub(super) octets: u64,
    /// Control bits of TCP, as RFC 7012 has them.
    pub(super) tcp_flags: u16,
}

/// Reads that of a frame; none of one that is no IP, or malformed.
pub(super) fn metered(frame: &[u8], inner: bool) -> Option<Metered> {
    let outer = Dissected::parse(frame).ok()?;
    let carried = match outer.transport {
        Transport::Udp { dst_port, .. } if inner && dst_port == gtpu::PORT => {
            gtpu::View::parse(frame.get(outer.payload..outer.end)?).ok()
        }
        _ => None,
    };
    if let Some(tunnel) = carried.filter(|one| one.message_type() == gtpu::MessageType::G_PDU)
        && let Ok(found) = Dissected::parse_ip(tunnel.payload())
    {
        return of(&found);
    }
    of(&outer)
}

fn of(found: &Dissected) -> Option<Metered> {
    let ip = found.ip?;
    let (src, dst) = (ip.addresses.src(), ip.addresses.dst());
    let words = |address: IpAddr| match address {
        IpAddr::V4(address) => [0, address.to_bits().into()],
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            [(bits >> 64) as u64, bits as u64]
        }
    };
    let (ports, tcp_flags) = match found.transport {
        Transport::Tcp {
            src_port,
            dst_port,
            flags,
        } => ([src_port, dst_port], flags.0),
        Transport::Udp { src_port, dst_port } => ([src_port, dst_port], 0),
        // As exporters of others do: type and code in place of the destination's port.
        Transport::Icmpv4 { message_type, code } => ([0, icmp(message_type, code)], 0),
        Transport::Icmpv6 { message_type, code } => ([0, icmp6(message_type, code)], 0),
        Transport::None | Transport::Other => ([0, 0], 0),
    };
    let ([a, b], [c, d]) = (words(src), words(dst));
    let version: u64 = if src.is_ipv6() { 6 } else { 4 };
    let last = u64::from(ports[0]) << 48
        | u64::from(ports[1]) << 32
        | u64::from(ip.protocol.0) << 8
        | version;
    Some(Metered {
        key: [a, b, c, d, last],
        octets: (found.end - found.l3) as u64,
        tcp_flags,
    })
}

fn icmp(message_type: icmpv4::Type, code: u8) -> u16 {
    u16::from_be_bytes([message_type.0, code])
}

fn icmp6(message_type: icmpv6::Type, code: u8) -> u16 {
    u16::from_be_bytes([message_type.0, code])
}
