// SPDX-License-Identifier: Apache-2.0
//! Values that hold addresses: of nodes, tunnels, sessions and UEs.

use super::{Name, value};
use crate::octets::{Octets, Pen};
use crate::pfcp::coding::Fault;
use core::net::{Ipv4Addr, Ipv6Addr};

value!(
    AlternativeSmfIpAddress,
    CpIpAddress,
    FqCsid<'a>,
    FSeid,
    FTeid,
    IpMulticastAddress,
    NodeId<'a>,
    NumberOfUeIpAddresses,
    RemoteGtpUPeer<'a>,
    SmfSetId<'a>,
    SourceIpAddress,
    UeIpAddress,
    UeIpAddressPoolIdentity<'a>
);

pub(super) fn v4(octets: &mut Octets<'_>) -> Result<Ipv4Addr, crate::octets::Ended> {
    octets.array::<4>().map(Ipv4Addr::from)
}

pub(super) fn v6(octets: &mut Octets<'_>) -> Result<Ipv6Addr, crate::octets::Ended> {
    octets.array::<16>().map(Ipv6Addr::from)
}

/// Writes those that are there.
pub(super) fn put_addresses(pen: &mut Pen<'_>, v4: Option<Ipv4Addr>, v6: Option<Ipv6Addr>) {
    if let Some(address) = v4 {
        pen.put(&address.octets());
    }
    if let Some(address) = v6 {
        pen.put(&address.octets());
    }
}

/// `bit` where there is a value.
pub(super) const fn bit<T: Copy>(bit: u8, value: &Option<T>) -> u8 {
    if value.is_some() { bit } else { 0 }
}

/// `bit` if `is_set`.
pub(super) const fn flag(bit: u8, is_set: bool) -> u8 {
    if is_set { bit } else { 0 }
}

/// Who a node is (8.2.38).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NodeId<'a> {
    /// By its IPv4 address.
    V4(Ipv4Addr),
    /// By its IPv6 address.
    V6(Ipv6Addr),
    /// By its name.
    Fqdn(Name<'a>),
}

impl<'a> NodeId<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        match octets.u8()? & 0x0f {
            0 => Ok(Self::V4(v4(octets)?)),
            1 => Ok(Self::V6(v6(octets)?)),
            2 => Ok(Self::Fqdn(Name::new(octets.rest())?)),
            _ => Err(Fault::Value),
        }
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        match self {
            Self::V4(address) => {
                pen.u8(0);
                pen.put(&address.octets());
            }
            Self::V6(address) => {
                pen.u8(1);
                pen.put(&address.octets());
            }
            Self::Fqdn(name) => {
                pen.u8(2);
                pen.put(name.as_bytes());
            }
        }
    }
}

/// A session at one of its ends (8.2.37). At least one address is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// The session.
    pub seid: u64,
    /// The end's IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// The end's IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl FSeid {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        if flags & 0b11 == 0 {
            return Err(Fault::Value);
        }
        Ok(Self {
            seid: octets.u64()?,
            v4: octets.when(flags & 0b10 != 0, v4)?,
            v6: octets.when(flags & 0b01 != 0, v6)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.v6) | bit(0b10, &self.v4));
        pen.u64(self.seid);
        put_addresses(pen, self.v4, self.v6);
    }
}

/// A tunnel at one of its ends (8.2.3), or the wish for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FTeid {
    /// This tunnel. At least one address is there.
    Given {
        /// The tunnel.
        teid: u32,
        /// The end's IPv4 address.
        v4: Option<Ipv4Addr>,
        /// The end's IPv6 address.
        v6: Option<Ipv6Addr>,
    },
    /// The UPF chooses one (CH).
    Choose {
        /// With an IPv4 address.
        v4: bool,
        /// With an IPv6 address.
        v6: bool,
        /// The same one for all PDRs of the request with this number (CHID).
        choose_id: Option<u8>,
    },
}

impl FTeid {
    const V4: u8 = 1;
    const V6: u8 = 1 << 1;
    const CH: u8 = 1 << 2;
    const CHID: u8 = 1 << 3;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let has = |flag| flags & flag != 0;
        if !has(Self::V4 | Self::V6) || has(Self::CHID) && !has(Self::CH) {
            return Err(Fault::Value);
        }
        if has(Self::CH) {
            return Ok(Self::Choose {
                v4: has(Self::V4),
                v6: has(Self::V6),
                choose_id: octets.when(has(Self::CHID), Octets::u8)?,
            });
        }
        Ok(Self::Given {
            teid: octets.u32()?,
            v4: octets.when(has(Self::V4), v4)?,
            v6: octets.when(has(Self::V6), v6)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        match *self {
            Self::Given { teid, v4, v6 } => {
                pen.u8(bit(Self::V4, &v4) | bit(Self::V6, &v6));
                pen.u32(teid);
                put_addresses(pen, v4, v6);
            }
            Self::Choose { v4, v6, choose_id } => {
                let versions = flag(Self::V4, v4) | flag(Self::V6, v6);
                pen.u8(versions | Self::CH | bit(Self::CHID, &choose_id));
                if let Some(id) = choose_id {
                    pen.u8(id);
                }
            }
        }
    }
}

/// An address, or the wish for one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Allocation<T> {
    /// This one.
    Given(T),
    /// The UPF chooses one (CHV4, CHV6).
    Choose,
}

/// Addresses of a UE (8.2.62). At least one is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UeIpAddress {
    /// IPv4.
    pub v4: Option<Allocation<Ipv4Addr>>,
    /// IPv6, of which the prefix counts.
    pub v6: Option<Allocation<Ipv6Addr>>,
    /// S/D: it is the destination of the packets, else their source.
    pub is_destination: bool,
    /// How many bits of a /64 are delegated: the prefix is that much shorter (IPv6D).
    pub prefix_delegation_bits: Option<u8>,
    /// Length of a prefix other than 64 (IP6PL), 0 to 128.
    pub prefix_len: Option<u8>,
}

impl UeIpAddress {
    const V6: u8 = 1;
    const V4: u8 = 1 << 1;
    const SD: u8 = 1 << 2;
    const IPV6D: u8 = 1 << 3;
    const CHV4: u8 = 1 << 4;
    const CHV6: u8 = 1 << 5;
    const IP6PL: u8 = 1 << 6;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let has = |flag| flags & flag != 0;
        let (v4_flags, v6_flags) = (Self::V4 | Self::CHV4, Self::V6 | Self::CHV6);
        let are_both = flags & v4_flags == v4_flags || flags & v6_flags == v6_flags;
        if are_both || !has(v4_flags | v6_flags) {
            return Err(Fault::Value);
        }
        let address = Self {
            v4: allocation(octets.when(has(Self::V4), v4)?, has(Self::CHV4)),
            v6: allocation(octets.when(has(Self::V6), v6)?, has(Self::CHV6)),
            is_destination: has(Self::SD),
            prefix_delegation_bits: octets.when(has(Self::IPV6D), Octets::u8)?,
            prefix_len: octets.when(has(Self::IP6PL), Octets::u8)?,
        };
        let is_prefix = address.prefix_len.is_none_or(|len| len <= 128)
            && address.prefix_delegation_bits.is_none_or(|bits| bits <= 64);
        is_prefix.then_some(address).ok_or(Fault::Value)
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let (v4, v4_flag) = place(self.v4, Self::V4, Self::CHV4);
        let (v6, v6_flag) = place(self.v6, Self::V6, Self::CHV6);
        pen.u8(v4_flag
            | v6_flag
            | flag(Self::SD, self.is_destination)
            | bit(Self::IPV6D, &self.prefix_delegation_bits)
            | bit(Self::IP6PL, &self.prefix_len));
        put_addresses(pen, v4, v6);
        let lengths = [self.prefix_delegation_bits, self.prefix_len];
        lengths.into_iter().flatten().for_each(|len| pen.u8(len));
    }
}

/// The address that was given, or the wish for one.
fn allocation<T>(given: Option<T>, is_chosen: bool) -> Option<Allocation<T>> {
    let choice = is_chosen.then_some(Allocation::Choose);
    given.map(Allocation::Given).or(choice)
}

/// The address to write, and the flag that says what it is.
fn place<T>(address: Option<Allocation<T>>, given: u8, choose: u8) -> (Option<T>, u8) {
    match address {
        None => (None, 0),
        Some(Allocation::Given(address)) => (Some(address), given),
        Some(Allocation::Choose) => (None, choose),
    }
}

/// A pool of addresses by name (8.2.128).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UeIpAddressPoolIdentity<'a>(pub &'a [u8]);

impl<'a> UeIpAddressPoolIdentity<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let len = octets.u16()?;
        Ok(Self(octets.take(len.into())?))
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.counted_u16(self.0);
    }
}

/// The peer of a GTP-U path (8.2.70).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RemoteGtpUPeer<'a> {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// The destination interface through which it is reached, as the octets of that IE.
    pub destination_interface: Option<&'a [u8]>,
    /// The network instance in which it is.
    pub network_instance: Option<&'a [u8]>,
}

impl<'a> RemoteGtpUPeer<'a> {
    const V6: u8 = 1;
    const V4: u8 = 1 << 1;
    const DI: u8 = 1 << 2;
    const NI: u8 = 1 << 3;

    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let has = |flag| flags & flag != 0;
        if !has(Self::V4 | Self::V6) {
            return Err(Fault::Value);
        }
        let counted = |octets: &mut Octets<'a>| {
            let len = octets.u16()?;
            octets.take(len.into())
        };
        Ok(Self {
            v4: octets.when(has(Self::V4), v4)?,
            v6: octets.when(has(Self::V6), v6)?,
            destination_interface: octets.when(has(Self::DI), counted)?,
            network_instance: octets.when(has(Self::NI), counted)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(Self::V6, &self.v6)
            | bit(Self::V4, &self.v4)
            | bit(Self::DI, &self.destination_interface)
            | bit(Self::NI, &self.network_instance));
        put_addresses(pen, self.v4, self.v6);
        let fields = [self.destination_interface, self.network_instance];
        fields
            .into_iter()
            .flatten()
            .for_each(|field| pen.counted_u16(field));
    }
}

/// Another SMF to turn to (8.2.129).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlternativeSmfIpAddress {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// PPE: it is preferred when a PFCP entity is chosen again.
    pub is_preferred: bool,
}

impl AlternativeSmfIpAddress {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let is_preferred = octets.0.first().is_some_and(|flags| flags & 0b100 != 0);
        let CpIpAddress { v4, v6 } = CpIpAddress::parse(octets)?;
        Ok(Self {
            v4,
            v6,
            is_preferred,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let versions = bit(0b01, &self.v6) | bit(0b10, &self.v4);
        pen.u8(versions | u8::from(self.is_preferred) << 2);
        put_addresses(pen, self.v4, self.v6);
    }
}

/// Addresses of a CP function (8.2.135, 8.2.199). At least one is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CpIpAddress {
    /// Its IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub v6: Option<Ipv6Addr>,
}

impl CpIpAddress {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        if flags & 0b11 == 0 {
            return Err(Fault::Value);
        }
        Ok(Self {
            v4: octets.when(flags & 0b10 != 0, v4)?,
            v6: octets.when(flags & 0b01 != 0, v6)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.v6) | bit(0b10, &self.v4));
        put_addresses(pen, self.v4, self.v6);
    }
}

/// A set of SMFs by name (8.2.131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmfSetId<'a>(pub Name<'a>);

impl<'a> SmfSetId<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        octets.u8()?;
        Name::new(octets.rest()).map(Self)
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(0);
        pen.put(self.0.as_bytes());
    }
}

/// Where packets or heartbeats come from (8.2.138).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceIpAddress {
    /// IPv4 address.
    pub v4: Option<Ipv4Addr>,
    /// IPv6 address.
    pub v6: Option<Ipv6Addr>,
    /// Length of the mask or prefix.
    pub prefix_len: Option<u8>,
}

impl SourceIpAddress {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let has_prefix = octets.0.first().is_some_and(|flags| flags & 0b100 != 0);
        let CpIpAddress { v4, v6 } = CpIpAddress::parse(octets)?;
        Ok(Self {
            v4,
            v6,
            prefix_len: octets.when(has_prefix, Octets::u8)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.v6) | bit(0b10, &self.v4) | bit(0b100, &self.prefix_len));
        put_addresses(pen, self.v4, self.v6);
        if let Some(len) = self.prefix_len {
            pen.u8(len);
        }
    }
}

/// Groups of IP multicast (8.2.137).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpMulticastAddress {
    /// Every group.
    Any,
    /// From the first to the second, or the first alone.
    V4(Ipv4Addr, Option<Ipv4Addr>),
    /// From the first to the second, or the first alone.
    V6(Ipv6Addr, Option<Ipv6Addr>),
}

impl IpMulticastAddress {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let is_range = flags & 0b0100 != 0;
        match flags & 0b1011 {
            0b1000 => Ok(Self::Any),
            0b0010 => Ok(Self::V4(v4(octets)?, octets.when(is_range, v4)?)),
            0b0001 => Ok(Self::V6(v6(octets)?, octets.when(is_range, v6)?)),
            _ => Err(Fault::Value),
        }
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        match *self {
            Self::Any => pen.u8(0b1000),
            Self::V4(first, last) => {
                pen.u8(0b0010 | bit(0b0100, &last));
                put_addresses(pen, Some(first), None);
                put_addresses(pen, last, None);
            }
            Self::V6(first, last) => {
                pen.u8(0b0001 | bit(0b0100, &last));
                put_addresses(pen, None, Some(first));
                put_addresses(pen, None, last);
            }
        }
    }
}

/// A set of sessions that may fail together (8.2.43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FqCsid<'a> {
    /// The node that made the set.
    pub node: FqCsidNode,
    /// The sets, two octets each.
    pub csids: &'a [u8],
    /// What the node is: 2 for an SMF, 5 for a UPF. Earlier releases have none.
    pub node_type: Option<u8>,
}

/// The node of an [`FqCsid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FqCsidNode {
    /// Its IPv4 address.
    V4(Ipv4Addr),
    /// Its IPv6 address.
    V6(Ipv6Addr),
    /// A number of the operator: 20 bits for MCC and MNC, 12 for the node.
    Operator(u32),
}

impl<'a> FqCsid<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let first = octets.u8()?;
        let node = match first >> 4 {
            0 => FqCsidNode::V4(v4(octets)?),
            1 => FqCsidNode::V6(v6(octets)?),
            2 => FqCsidNode::Operator(octets.u32()?),
            _ => return Err(Fault::Value),
        };
        let csids = octets.take(usize::from(first & 0x0f) * 2)?;
        let has_type = !octets.0.is_empty();
        Ok(Self {
            node,
            csids,
            node_type: octets.when(has_type, |octets| Ok(octets.u8()? & 0x0f))?,
        })
    }

    /// At most 15 sets are written.
    fn emit(&self, pen: &mut Pen<'_>) {
        let count = (self.csids.len() / 2).min(15);
        let count_octet = count as u8;
        match self.node {
            FqCsidNode::V4(address) => {
                pen.u8(count_octet);
                pen.put(&address.octets());
            }
            FqCsidNode::V6(address) => {
                pen.u8(1 << 4 | count_octet);
                pen.put(&address.octets());
            }
            FqCsidNode::Operator(number) => {
                pen.u8(2 << 4 | count_octet);
                pen.u32(number);
            }
        }
        pen.put(&self.csids[..count * 2]);
        if let Some(node_type) = self.node_type {
            pen.u8(node_type & 0x0f);
        }
    }
}

/// How many addresses are in use (8.2.183).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NumberOfUeIpAddresses {
    /// Of IPv4.
    pub v4: Option<u32>,
    /// Of IPv6.
    pub v6: Option<u32>,
}

impl NumberOfUeIpAddresses {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        Ok(Self {
            v4: octets.when(flags & 0b01 != 0, Octets::u32)?,
            v6: octets.when(flags & 0b10 != 0, Octets::u32)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.v4) | bit(0b10, &self.v6));
        [self.v4, self.v6]
            .into_iter()
            .flatten()
            .for_each(|number| pen.u32(number));
    }
}
