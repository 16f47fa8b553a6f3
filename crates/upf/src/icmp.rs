//! Who sent a packet that is too long is told so: fragmentation needed, packet too big.
//!
//! In place of a user's packet that may not be fragmented. Specification: RFC 792, RFC 1191, RFC
//! 1812 4.3.2, RFC 4443 2.4 and 3.2. Errors, later fragments and packets from or to groups are not
//! answered. Limits: so many per second; none without an own address of that version.

use std::collections::VecDeque;
use std::net::IpAddr;

use catena_wire::dissect::{Dissected, Fragment, Transport};
use catena_wire::ip::{Addresses, Protocol};
use catena_wire::{ethernet, icmpv4, icmpv6, ipv4, ipv6};

use crate::advertisement::ROUTER;
use crate::headers::Frame;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// Most bytes of an ICMP error of IPv4 (RFC 1812, 4.3.2.3), and of IPv6 (RFC 4443, 2.4).
const V4_LEN_MAX: usize = 576;
const V6_LEN_MAX: usize = 1280;

/// What tells the sender of `packet` that it may have `mtu` bytes: an IP packet, from `own`, of
/// the same version. None if nothing may be told.
pub fn too_big(packet: &[u8], mtu: usize, own: IpAddr) -> Option<Vec<u8>> {
    let read = Dissected::parse_ip(packet).ok()?;
    let ip = read.ip?;
    let is_error = match read.transport {
        Transport::Icmpv4 { message_type, .. } => message_type.is_error(),
        Transport::Icmpv6 { message_type, .. } => message_type.is_error(),
        _ => false,
    };
    let to = ip.addresses.src();
    let is_nobody = to.is_multicast() || to.is_unspecified() || to.is_loopback();
    let is_group = ip.addresses.dst().is_multicast() && to.is_ipv4();
    if is_error || is_nobody || is_group || ip.fragment == Fragment::Later {
        return None;
    }
    let packet = &packet[..read.end];
    match (own, to) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => {
            let at = ipv4::HEADER_LEN_MIN + icmpv4::HEADER_LEN;
            let quoted = &packet[..packet.len().min(V4_LEN_MAX - at)];
            let mut bytes = vec![0; at + quoted.len()];
            bytes[at..].copy_from_slice(quoted);
            ipv4::Header {
                dscp: 0,
                ecn: 0,
                ident: 0,
                dont_fragment: false,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: Protocol::ICMP,
                src,
                dst,
                payload_len: icmpv4::HEADER_LEN + quoted.len(),
                options: Default::default(),
            }
            .emit(&mut bytes);
            let [high, low] = u16::try_from(mtu).unwrap_or(u16::MAX).to_be_bytes();
            let message = &mut bytes[ipv4::HEADER_LEN_MIN..];
            icmpv4::Header {
                message_type: icmpv4::Type::DESTINATION_UNREACHABLE,
                code: icmpv4::FRAGMENTATION_NEEDED,
                rest: [0, 0, high, low],
            }
            .emit(message);
            icmpv4::View::parse(message).ok()?.fill_checksum();
            Some(bytes)
        }
        (IpAddr::V6(src), IpAddr::V6(dst)) => {
            let at = ipv6::HEADER_LEN + icmpv6::HEADER_LEN;
            let quoted = &packet[..packet.len().min(V6_LEN_MAX - at)];
            let mut bytes = vec![0; at + quoted.len()];
            bytes[at..].copy_from_slice(quoted);
            let len = icmpv6::HEADER_LEN + quoted.len();
            ipv6::Header {
                dscp: 0,
                ecn: 0,
                flow_label: 0,
                payload_len: u16::try_from(len).ok()?,
                next_header: Protocol::ICMPV6,
                hop_limit: 64,
                src,
                dst,
            }
            .emit(&mut bytes);
            let message = &mut bytes[ipv6::HEADER_LEN..];
            icmpv6::Header {
                message_type: icmpv6::Type::PACKET_TOO_BIG,
                code: 0,
                rest: u32::try_from(mtu).ok()?.to_be_bytes(),
            }
            .emit(message);
            let mut view = icmpv6::View::parse(message).ok()?;
            view.fill_checksum(&Addresses::V6 { src, dst });
            Some(bytes)
        }
        _ => None,
    }
}

/// A packet that was too long: how it came, and how long it may be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Long {
    pub(crate) slot: u32,
    /// Whether it came from its UE.
    pub(crate) is_uplink: bool,
    /// Whether it came from a tunnel.
    pub(crate) is_tunnelled: bool,
    /// Source Interface and Network Instance of its PDR.
    pub(crate) source: (u8, u8),
    pub(crate) mtu: usize,
}

impl Upf {
    /// An address of its own, of one version: of this interface, or any.
    fn own_address(&self, interface: Option<u8>, is_v6: bool) -> Option<IpAddr> {
        let all = &self.settings.interfaces;
        let first = interface.and_then(|at| all.get(usize::from(at)));
        let mut addresses = first.into_iter().chain(all).filter_map(|one| match is_v6 {
            true => one.v6.map(IpAddr::V6),
            false => one.v4.map(IpAddr::V4),
        });
        addresses.next()
    }

    /// Tells the sender of a packet that it is too long: the UE, or a host of the data network.
    /// What another UPF sent by a tunnel is not answered.
    pub(crate) fn tell_too_big(
        &mut self,
        packet: &[u8],
        long: Long,
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) {
        let is_v6 = packet.first().is_some_and(|first| first >> 4 == 6);
        let is_peers = long.is_tunnelled && !long.is_uplink;
        if is_peers || !self.icmp_errors.passes_of(long.slot, now_ns) {
            return;
        }
        if long.is_uplink {
            let link_local = is_v6.then_some(IpAddr::V6(ROUTER));
            let own = self.own_address(None, is_v6).or(link_local);
            let told = own.and_then(|own| too_big(packet, long.mtu, own));
            if let Some((told, way)) = told.zip(self.way_to_ue(long.slot)) {
                self.counters.icmp_errors += 1;
                self.put(signals, way.signal(&told));
            }
            return;
        }
        let Some(interface) = self.settings.interface_to(long.source.0, long.source.1) else {
            return;
        };
        let own = self.own_address(Some(interface), is_v6);
        let Some(told) = own.and_then(|own| too_big(packet, long.mtu, own)) else {
            return;
        };
        let one = &self.settings.interfaces[usize::from(interface)];
        let mut frame = vec![0; ethernet::HEADER_LEN];
        Frame {
            src: one.mac,
            dst: one.next_hop,
        }
        .emit(&mut frame, is_v6);
        frame.extend_from_slice(&told);
        self.counters.icmp_errors += 1;
        let signal = Signal {
            interface,
            frame,
            is_copy: false,
            seid: self.store.head(long.slot).seid,
        };
        self.put(signals, signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(src: &str, dst: &str, protocol: u8, first: u8) -> Vec<u8> {
        let mut bytes = vec![first; 1400];
        match (src.parse().unwrap(), dst.parse().unwrap()) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::Header {
                dscp: 0,
                ecn: 0,
                ident: 1,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                ttl: 64,
                protocol: Protocol(protocol),
                src,
                dst,
                payload_len: 1380,
                options: Default::default(),
            }
            .emit(&mut bytes),
            (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Header {
                dscp: 0,
                ecn: 0,
                flow_label: 0,
                payload_len: 1360,
                next_header: Protocol(protocol),
                hop_limit: 64,
                src,
                dst,
            }
            .emit(&mut bytes),
            _ => unreachable!(),
        }
        bytes
    }

    #[test]
    fn the_sender_is_told_the_mtu_with_the_begin_of_its_packet() {
        let v4 = packet("10.1.0.1", "10.2.0.2", 200, 1);
        let told = too_big(&v4, 1300, "10.9.0.9".parse().unwrap()).unwrap();
        let view = ipv4::View::parse(&told[..]).unwrap();
        let message = icmpv4::View::parse(view.payload()).unwrap();
        assert_eq!((told.len(), message.next_hop_mtu()), (576, Some(1300)));
        assert_eq!(view.dst().to_string(), "10.1.0.1");
        assert!(message.checksum_is_valid() && view.checksum_is_valid());
        assert_eq!(message.payload(), &v4[..548]);
        let v6 = packet("2001:db8::1", "2001:db8::2", 200, 1);
        let told = too_big(&v6, 1300, "2001:db8::9".parse().unwrap()).unwrap();
        let view = ipv6::View::parse(&told[..]).unwrap();
        let message = icmpv6::View::parse(view.payload()).unwrap();
        assert_eq!((told.len(), message.mtu()), (1280, Some(1300)));
        assert!(message.checksum_is_valid(&view.addresses()));
        assert_eq!(message.payload(), &v6[..1232]);
    }

    /// RFC 1122 3.2.2, RFC 4443 2.4: else two of them would talk for ever, or many to one.
    #[test]
    fn errors_groups_and_later_fragments_are_not_answered() {
        let own = "10.9.0.9".parse().unwrap();
        let own_v6 = "2001:db8::9".parse().unwrap();
        assert!(too_big(&packet("10.1.0.1", "10.2.0.2", 1, 3), 1300, own).is_none());
        assert!(too_big(&packet("10.1.0.1", "224.0.0.5", 200, 0), 1300, own).is_none());
        assert!(too_big(&packet("0.0.0.0", "10.2.0.2", 200, 0), 1300, own).is_none());
        let v6 = packet("2001:db8::1", "2001:db8::2", 58, 1);
        assert!(too_big(&v6, 1300, own_v6).is_none());
        let mut later = packet("10.1.0.1", "10.2.0.2", 17, 0);
        later[7] = 9;
        assert!(too_big(&later, 1300, own).is_none());
        assert!(too_big(&[0x45], 1300, own).is_none());
        assert!(too_big(&v6, 1300, own).is_none(), "another version");
    }
}
