//! The fields of a rule as chain files write them: prefixes, ports, protocols, EtherTypes.
//!
//! Each is one word or number, and a wrong one is refused with the repair. What fields mean
//! together is checked by [`super::Match`]. Control path only.

use std::borrow::Cow;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use catena_wire::ethernet::EtherType;
use catena_wire::ip::Protocol;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::key::ANY;
use crate::units::quantity;

/// An IPv4 or IPv6 prefix, `10.0.0.0/8`; an address alone is a prefix of full length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Prefix {
    pub(super) address: IpAddr,
    pub(super) len: u32,
}

impl Prefix {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let wrong =
            || format!("\"{text}\" is not a prefix; write it like 10.0.0.0/8 or 2001:db8::/32");
        let (address, len) = match text.split_once('/') {
            Some((address, len)) => (address, Some(len)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let len_max = if address.is_ipv4() { 32 } else { 128 };
        let len = match len {
            None => len_max,
            Some(digits) if digits.bytes().all(|digit| digit.is_ascii_digit()) => {
                digits.parse().map_err(|_| wrong())?
            }
            Some(_) => return Err(wrong()),
        };
        if len > len_max {
            return Err(format!(
                "prefix length {len} is out of range; it is at most {len_max}"
            ));
        }
        let prefix = Self { address, len };
        let network = match address {
            IpAddr::V4(_) => IpAddr::from(prefix.range_v4().start().to_be_bytes()),
            IpAddr::V6(_) => IpAddr::from(prefix.range_v6().start().to_be_bytes()),
        };
        if network != address {
            return Err(format!(
                "\"{text}\" has host bits set; write {network}/{len}"
            ));
        }
        Ok(prefix)
    }

    pub(super) fn range_v4(&self) -> RangeInclusive<u32> {
        let IpAddr::V4(address) = self.address else {
            return ANY;
        };
        let host_bits = u32::MAX.checked_shr(self.len).unwrap_or(0);
        address.to_bits() & !host_bits..=address.to_bits() | host_bits
    }

    pub(super) fn range_v6(&self) -> RangeInclusive<u128> {
        let IpAddr::V6(address) = self.address else {
            return 0..=u128::MAX;
        };
        let host_bits = u128::MAX.checked_shr(self.len).unwrap_or(0);
        address.to_bits() & !host_bits..=address.to_bits() | host_bits
    }
}

quantity!(Prefix, "^[0-9a-fA-F.:]+(/[0-9]+)?$", "10.0.0.0/8");

/// A port, `80`, or a range of them, `1024-65535`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortRange {
    pub(super) first: u16,
    pub(super) last: u16,
}

impl PortRange {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (Ok(first), Ok(last)) = (first.trim().parse(), last.trim().parse()) else {
            return Err(format!(
                "\"{text}\" is not a range of ports; write it like 80 or 1024-65535"
            ));
        };
        if first > last {
            return Err(format!(
                "the range \"{text}\" is reversed; write {last}-{first}"
            ));
        }
        Ok(Self { first, last })
    }
}

quantity!(PortRange, "^[0-9]+( *- *[0-9]+)?$", "1024-65535");

/// An IP protocol by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProtocolName(pub(crate) Protocol);

impl ProtocolName {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let protocol = text.parse().map(Protocol).ok();
        // Names are those that the wire format prints.
        let named = || {
            (0..=u8::MAX)
                .map(Protocol)
                .find(|known| known.to_string() == text)
        };
        protocol.or_else(named).map(Self).ok_or_else(|| {
            format!(
                "\"{text}\" is not a protocol; write tcp, udp, icmp, icmpv6 or a number up to 255"
            )
        })
    }
}

quantity!(ProtocolName, "^[a-z0-9-]+$", "udp");

/// An EtherType by name or number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EtherTypeName(pub(crate) EtherType);

impl EtherTypeName {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let number = match text.strip_prefix("0x") {
            Some(digits) => u16::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        let named = || {
            let known = [
                EtherType::IPV4,
                EtherType::ARP,
                EtherType::CUSTOMER_VLAN,
                EtherType::IPV6,
                EtherType::MPLS,
                EtherType::SERVICE_VLAN,
                EtherType::NSH,
            ];
            known.into_iter().find(|known| known.to_string() == text)
        };
        number
            .map(EtherType)
            .or_else(named)
            .map(Self)
            .ok_or_else(|| {
                format!(
                    "\"{text}\" is not an EtherType; write ipv4, ipv6, arp or a number like 0x88cc"
                )
            })
    }
}

quantity!(EtherTypeName, "^[a-z0-9-]+$", "0x88cc");

impl Serialize for EtherTypeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("0x{:04x}", self.0.0))
    }
}
