//! What a number is to people: an address prints as such.
//!
//! For traces and tests, beside packets. A field says of itself what it holds; what registers,
//! metadata and tables hold is found in the program's code (`kind.rs`).

use std::net::{Ipv4Addr, Ipv6Addr};

use super::header::{Field, Header};

/// What a value is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A number.
    #[default]
    Number,
    /// An Ethernet address.
    Mac,
    /// An IPv4 address.
    Ipv4,
    /// An IPv6 address.
    Ipv6,
    /// An address of either version, that of IPv4 in the low bits.
    Ip,
}

impl Kind {
    /// What a field holds.
    pub fn of(field: Field) -> Self {
        let is_ipv4 = matches!(
            field.header,
            Header::Ipv4 | Header::InnerIpv4 | Header::QuotedIpv4
        );
        match (field.width, field.bit) {
            (48, _) => Self::Mac,
            (128, _) => Self::Ipv6,
            (32, 96 | 128) if is_ipv4 => Self::Ipv4,
            (32, 112 | 192) if field.header == Header::Arp => Self::Ipv4,
            _ => Self::Number,
        }
    }

    /// What it is that takes values of both kinds.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::Number, kind) | (kind, Self::Number) => kind,
            (one, other) if one == other => one,
            (Self::Ipv4 | Self::Ipv6 | Self::Ip, Self::Ipv4 | Self::Ipv6 | Self::Ip) => Self::Ip,
            (one, _) => one,
        }
    }

    /// A value as people write it; large numbers in hexadecimal.
    pub fn show(self, value: u128) -> String {
        let v4 = |value: u128| Ipv4Addr::from(value as u32).to_string();
        match self {
            Self::Mac => {
                let octets = value.to_be_bytes();
                let pairs = octets[10..].iter().map(|octet| format!("{octet:02x}"));
                pairs.collect::<Vec<_>>().join(":")
            }
            Self::Ipv4 => v4(value),
            Self::Ip if value >> 32 == 0 && value > 1 => v4(value),
            Self::Ipv6 | Self::Ip => Ipv6Addr::from(value).to_string(),
            Self::Number if value < 1 << 32 => value.to_string(),
            Self::Number => format!("{value:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::field::named;

    #[test]
    fn addresses_print_as_such() {
        let kind = |header, name| Kind::of(named(header, name).unwrap().0);
        assert_eq!(
            kind(Header::Ethernet, "src").show(0x0200_0000_00ff),
            "02:00:00:00:00:ff"
        );
        assert_eq!(kind(Header::InnerIpv4, "dst").show(0x0a00_0001), "10.0.0.1");
        assert_eq!(kind(Header::Arp, "sender_ip").show(0x0a00_0001), "10.0.0.1");
        assert_eq!(kind(Header::Ipv6, "src").show(0xfd << 120 | 1), "fd00::1");
        assert_eq!(kind(Header::Ipv4, "ttl").show(64), "64");
        assert_eq!(kind(Header::Tcp, "seq").show(1 << 20), "1048576");
        let either = Kind::Ipv4.with(Kind::Ipv6);
        assert_eq!(either.show(0x0a00_0001), "10.0.0.1");
        assert_eq!(either.show(0xfd << 120 | 1), "fd00::1");
        assert_eq!(Kind::Number.show(1 << 40), "0x10000000000");
    }
}
