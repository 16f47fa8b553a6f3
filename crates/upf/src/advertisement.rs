//! Router Solicitations of UEs, and the Router Advertisements that answer them.
//!
//! Beside a user's packet, in place of it: a UE with an IPv6 prefix learns it so, and never sends a
//! solicitation beyond the UPF. An advertisement has the prefix for autonomous configuration and
//! not as on-link, with lifetimes without end, and the MTU at which nothing has to be fragmented;
//! one with several homes learns all its prefixes at once (TS 23.501 5.6.4.3).
//! Specification: RFC 4861 4.1, 4.2, 6.1.1; TS 23.501 5.8.2.2; TS 29.561 11.2.1.3. Limits:
//! [`PER_SECOND`] advertisements that are asked for, and one for each modification that adds a
//! prefix, of [`PREFIX_COUNT_MAX`] prefixes each; none says that a prefix has gone.

use std::collections::VecDeque;
use std::net::Ipv6Addr;

use catena_wire::icmpv6::{self, Type};
use catena_wire::ip::Protocol;
use catena_wire::ipv6;

pub use crate::limiter::ADVERTISEMENTS_PER_S as PER_SECOND;
use crate::tunnel::Signal;
use crate::upf::Upf;

/// The UPF's own address on the link to a UE.
pub const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
/// All routers of the link.
pub const ALL_ROUTERS: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 2);
/// All nodes of the link.
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// For how long the UPF is a router: 18 hours.
const ROUTER_LIFETIME_S: u16 = 64_800;
/// Of a packet of the link itself: no router has passed it on.
const HOP_LIMIT: u8 = 255;
/// Most prefixes of an advertisement.
pub const PREFIX_COUNT_MAX: usize = 8;
/// A Prefix Information option.
const PREFIX_LEN: usize = 32;
/// In front of prefixes: the ICMP header, two times.
const TIMES_END: usize = icmpv6::HEADER_LEN + 8;

/// Who solicits, if the packet is a Router Solicitation and right.
pub fn solicited(packet: &[u8]) -> Option<Ipv6Addr> {
    let view = ipv6::View::parse(packet).ok()?;
    let is_one = view.next_header() == Protocol::ICMPV6 && view.hop_limit() == HOP_LIMIT;
    let message = icmpv6::View::parse(view.payload())
        .ok()
        .filter(|_| is_one)?;
    let is_right = message.message_type() == Type::ROUTER_SOLICITATION
        && message.code() == 0
        && message.checksum_is_valid(&view.addresses());
    let src = view.src();
    (is_right && (src.is_unspecified() || src.is_unicast_link_local())).then_some(src)
}

/// An advertisement of prefixes of 64 bits to who solicited it: an IPv6 packet.
pub fn advertisement(prefixes: &[Ipv6Addr], to: Ipv6Addr, mtu: usize) -> Vec<u8> {
    let dst = if to.is_unspecified() { ALL_NODES } else { to };
    // Two times, the prefixes, the MTU.
    let len = TIMES_END + PREFIX_LEN * prefixes.len() + 8;
    let mut packet = vec![0; ipv6::HEADER_LEN + len];
    ipv6::Header {
        dscp: 0,
        ecn: 0,
        flow_label: 0,
        payload_len: u16::try_from(len).unwrap_or(u16::MAX),
        next_header: Protocol::ICMPV6,
        hop_limit: HOP_LIMIT,
        src: ROUTER,
        dst,
    }
    .emit(&mut packet);
    let message = &mut packet[ipv6::HEADER_LEN..];
    let [high, low] = ROUTER_LIFETIME_S.to_be_bytes();
    icmpv6::Header {
        message_type: Type::ROUTER_ADVERTISEMENT,
        code: 0,
        rest: [64, 0, high, low],
    }
    .emit(message);
    let (options, option) = message[TIMES_END..].split_at_mut(PREFIX_LEN * prefixes.len());
    // Prefix Information: for autonomous configuration alone, valid and preferred for ever.
    for (option, prefix) in options.chunks_exact_mut(PREFIX_LEN).zip(prefixes) {
        option[..4].copy_from_slice(&[3, 4, 64, 0x40]);
        option[4..12].fill(0xff);
        option[16..24].copy_from_slice(&prefix.octets()[..8]);
    }
    option[..2].copy_from_slice(&[5, 1]);
    let mtu = u32::try_from(mtu).unwrap_or(u32::MAX);
    option[4..].copy_from_slice(&mtu.to_be_bytes());
    let mut view = ipv6::View::parse(&mut packet[..]).ok();
    if let Some(view) = &mut view {
        let addresses = view.addresses();
        if let Ok(mut message) = icmpv6::View::parse(view.payload_mut()) {
            message.fill_checksum(&addresses);
        }
    }
    packet
}

impl Upf {
    /// Answers a packet that came out of a session's tunnel, if it is a solicitation; whether it
    /// was one, and for this UPF. A session without a prefix gets no answer.
    pub(crate) fn advertise(
        &mut self,
        slot: u32,
        packet: &[u8],
        signals: &mut VecDeque<Signal>,
        now_ns: u64,
    ) -> bool {
        let Some(to) = solicited(packet) else {
            return false;
        };
        let head = self.store.head(slot);
        let Some(own) = head.ue_v6 else {
            // Of a UE whose address it does not know the UPF is no router: the one behind it is.
            return head.ue_v4.is_some() || !self.leads_on(slot);
        };
        if !self.advertisements.passes_of(slot, now_ns) {
            return true;
        }
        if let Some(way) = self.way_to_ue(slot) {
            let packet = advertisement(&self.prefixes(slot, own), to, way.room());
            self.counters.advertisements += 1;
            self.put(signals, way.signal(&packet));
        }
        true
    }

    /// Tells UEs unasked that their sessions have got other prefixes.
    pub(crate) fn advertise_added(&mut self, signals: &mut VecDeque<Signal>) {
        while let Some(slot) = self.unadvertised.pop_front() {
            // It may have ended, and its slot may be another one's, which is told the truth.
            let head = self.store.head(slot);
            let Some(own) = head.ue_v6.filter(|_| head.seid != 0) else {
                continue;
            };
            if let Some(way) = self.way_to_ue(slot) {
                let prefixes = self.prefixes(slot, own);
                let packet = advertisement(&prefixes, Ipv6Addr::UNSPECIFIED, way.room());
                self.counters.advertisements += 1;
                self.put(signals, way.signal(&packet));
            }
        }
    }

    /// Whether a session has a tunnel to another UPF, away from its UE.
    fn leads_on(&mut self, slot: u32) -> bool {
        let Some(image) = self.store.image(slot) else {
            return false;
        };
        let mut fars = (0..u8::MAX).map_while(|place| image.far(place));
        fars.any(|far| far.destination != 0 && far.is_tunnel())
    }

    /// The prefixes that PDRs of a session name; its own if none does.
    fn prefixes(&mut self, slot: u32, own: Ipv6Addr) -> Vec<Ipv6Addr> {
        let mut prefixes = Vec::new();
        if let Some(image) = self.store.image(slot) {
            for prefix in image.prefixes() {
                if prefixes.len() < PREFIX_COUNT_MAX && !prefixes.contains(&prefix) {
                    prefixes.push(prefix);
                }
            }
        }
        if prefixes.is_empty() {
            prefixes.push(own);
        }
        prefixes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solicitation(src: &str, hop_limit: u8) -> Vec<u8> {
        crate::smf::wire::solicitation(src.parse().unwrap(), hop_limit)
    }

    /// RFC 4861, 6.1.1: what a router must not answer.
    #[test]
    fn only_a_right_solicitation_is_one() {
        assert_eq!(
            solicited(&solicitation("::", 255)),
            Some(Ipv6Addr::UNSPECIFIED)
        );
        assert!(solicited(&solicitation("fe80::7", 255)).is_some());
        assert!(
            solicited(&solicitation("fe80::7", 64)).is_none(),
            "it was routed"
        );
        assert!(solicited(&solicitation("2001:db8::7", 255)).is_none());
        let mut spoiled = solicitation("fe80::7", 255);
        spoiled[42] ^= 1;
        assert!(solicited(&spoiled).is_none(), "the checksum is wrong");
        assert!(solicited(&spoiled[..41]).is_none());
    }

    #[test]
    fn an_advertisement_has_the_prefix_for_autonomous_configuration_only() {
        let prefix: Ipv6Addr = "2001:db8:45:7::".parse().unwrap();
        let packet = advertisement(&[prefix], Ipv6Addr::UNSPECIFIED, 1420);
        let view = ipv6::View::parse(&packet[..]).unwrap();
        assert_eq!(
            (view.src(), view.dst(), view.hop_limit()),
            (ROUTER, ALL_NODES, 255)
        );
        let message = icmpv6::View::parse(view.payload()).unwrap();
        assert!(message.checksum_is_valid(&view.addresses()));
        let bytes = view.payload();
        assert_eq!(u16::from_be_bytes([bytes[6], bytes[7]]), ROUTER_LIFETIME_S);
        assert_eq!(bytes[16..20], [3, 4, 64, 0x40]);
        assert_eq!(bytes[32..48], prefix.octets());
        assert_eq!(bytes[48..], [5, 1, 0, 0, 0, 0, 5, 140]);
        let to = "fe80::7".parse().unwrap();
        let packet = advertisement(&[prefix], to, 1420);
        assert_eq!(ipv6::View::parse(&packet[..]).unwrap().dst(), to);
    }
}
