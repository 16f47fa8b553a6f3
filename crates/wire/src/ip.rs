// SPDX-License-Identifier: Apache-2.0
//! What both versions of IP share: protocol numbers, and the pair of addresses that the transport
//! checksums cover.
//!
//! Specification: IANA "Protocol Numbers"; pseudo-headers in RFC 9293 3.1 (IPv4) and RFC 8200 8.1
//! (IPv6).

use crate::checksum::Sum;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A protocol number: Protocol in IPv4, Next Header in IPv6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Protocol(pub u8);

impl Protocol {
    /// IPv6 Hop-by-Hop Options (RFC 8200 4.3).
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMP: Self = Self(1);
    /// IPv4 in IP (RFC 2003).
    pub const IPV4: Self = Self(4);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 in IP (RFC 2473).
    pub const IPV6: Self = Self(41);
    /// IPv6 Routing header (RFC 8200 4.4).
    pub const ROUTING: Self = Self(43);
    /// IPv6 Fragment header (RFC 8200 4.5).
    pub const FRAGMENT: Self = Self(44);
    /// Generic Routing Encapsulation (RFC 2784).
    pub const GRE: Self = Self(47);
    /// Encapsulating Security Payload (RFC 4303).
    pub const ESP: Self = Self(50);
    /// Authentication Header (RFC 4302).
    pub const AH: Self = Self(51);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// IPv6 No Next Header (RFC 8200 4.7).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 Destination Options (RFC 8200 4.6).
    pub const DESTINATION_OPTIONS: Self = Self(60);
    /// SCTP.
    pub const SCTP: Self = Self(132);
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMP => "icmp",
            Self::IPV4 => "ipv4",
            Self::TCP => "tcp",
            Self::UDP => "udp",
            Self::IPV6 => "ipv6",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "gre",
            Self::ESP => "esp",
            Self::AH => "ah",
            Self::ICMPV6 => "icmpv6",
            Self::NO_NEXT_HEADER => "no-next-header",
            Self::DESTINATION_OPTIONS => "destination-options",
            Self::SCTP => "sctp",
            Self(other) => return write!(f, "protocol {other}"),
        })
    }
}

/// Source and destination of one packet, both of the same version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Source address.
        src: Ipv4Addr,
        /// Destination address.
        dst: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Source address.
        src: Ipv6Addr,
        /// Destination address. In a pseudo-header it is the final destination, which differs from
        /// the one in the IPv6 header while a Routing header has segments left (RFC 8200 8.1).
        dst: Ipv6Addr,
    },
}

impl Addresses {
    /// Source address.
    #[inline]
    pub const fn src(&self) -> IpAddr {
        match *self {
            Self::V4 { src, .. } => IpAddr::V4(src),
            Self::V6 { src, .. } => IpAddr::V6(src),
        }
    }

    /// Destination address.
    #[inline]
    pub const fn dst(&self) -> IpAddr {
        match *self {
            Self::V4 { dst, .. } => IpAddr::V4(dst),
            Self::V6 { dst, .. } => IpAddr::V6(dst),
        }
    }

    /// The sum over the pseudo-header of a transport packet of `len` bytes, its header included.
    ///
    /// RFC 9293 3.1 for IPv4, RFC 8200 8.1 for IPv6; the zero bytes of both add nothing.
    #[inline]
    pub fn pseudo_header(&self, protocol: Protocol, len: u32) -> Sum {
        let addresses = match self {
            Self::V4 { src, dst } => Sum::of_u32(src.to_bits()) + Sum::of_u32(dst.to_bits()),
            Self::V6 { src, dst } => Sum::of_u128(src.to_bits()) + Sum::of_u128(dst.to_bits()),
        };
        addresses + Sum::of_u16(u16::from(protocol.0)) + Sum::of_u32(len)
    }
}

impl fmt::Display for Addresses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", self.src(), self.dst())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::hex;

    /// The sums must equal those over the pseudo-header written out as the RFCs draw it.
    #[test]
    fn pseudo_headers_match_their_drawing() {
        let v4 = Addresses::V4 {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
        };
        let drawn = hex("0a000001 0a000002 00 11 0123");
        assert_eq!(v4.pseudo_header(Protocol::UDP, 0x123), Sum::of(&drawn));

        let v6 = Addresses::V6 {
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::ffff".parse().unwrap(),
        };
        let drawn = hex(
            "20010db8000000000000000000000001 20010db800000000000000000000ffff 00012345 000000 3a",
        );
        assert_eq!(v6.pseudo_header(Protocol::ICMPV6, 0x12345), Sum::of(&drawn));
    }

    #[test]
    fn display_joins_both_ends() {
        let v4 = Addresses::V4 {
            src: Ipv4Addr::new(10, 0, 0, 1),
            dst: Ipv4Addr::new(10, 0, 0, 2),
        };
        assert_eq!(v4.to_string(), "10.0.0.1 > 10.0.0.2");
        assert_eq!(Protocol(200).to_string(), "protocol 200");
    }
}
