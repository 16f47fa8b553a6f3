// SPDX-License-Identifier: Apache-2.0
//! Values of forwarding: where packets go, and which headers they lose and get.

use super::address::{bit, put_addresses, v4, v6};
use super::flags::flags;
use super::{Quoted, value};
use crate::octets::{Octets, Pen};
use crate::pfcp::coding::Fault;
use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

value!(
    DestinationInterface,
    ForwardingPolicy<'a>,
    HeaderEnrichment<'a>,
    InterfaceType,
    OuterHeaderCreation,
    OuterHeaderRemoval,
    RedirectInformation<'a>,
    SourceInterface,
    TrafficClass,
    VlanTag
);

macro_rules! interfaces {
    ($($(#[$doc:meta])* $name:ident($mask:literal) {
        $($number:literal $constant:ident $text:literal;)*
    })*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u8);

        impl $name {
            $(#[doc = concat!($text, ".")]
            pub const $constant: Self = Self($number);)*

            /// Name as in the specification, if the release knows this value.
            pub const fn name(self) -> Option<&'static str> {
                Some(match self {
                    $(Self::$constant => $text,)*
                    _ => return None,
                })
            }

            fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
                Ok(Self(octets.u8()? & $mask))
            }

            fn emit(&self, pen: &mut Pen<'_>) {
                pen.u8(self.0 & $mask);
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self.name() {
                    Some(name) => f.write_str(name),
                    None => write!(f, "{}", self.0),
                }
            }
        }
    )* };
}

interfaces! {
    /// Where packets come from (8.2.2).
    SourceInterface(0x0f) {
        0 ACCESS "Access";
        1 CORE "Core";
        2 SGI_LAN_N6_LAN "SGi-LAN/N6-LAN";
        3 CP_FUNCTION "CP-function";
        4 VN_INTERNAL_5G "5G VN Internal";
    }

    /// Where packets go (8.2.24). From 4 on its numbers are not those of [`SourceInterface`].
    DestinationInterface(0x0f) {
        0 ACCESS "Access";
        1 CORE "Core";
        2 SGI_LAN_N6_LAN "SGi-LAN/N6-LAN";
        3 CP_FUNCTION "CP-function";
        4 LI_FUNCTION "LI Function";
        5 VN_INTERNAL_5G "5G VN Internal";
    }

    /// 3GPP Interface Type (8.2.118).
    InterfaceType(0x3f) {
        0 S1_U "S1-U";
        1 S5_S8_U "S5/S8-U";
        2 S4_U "S4-U";
        3 S11_U "S11-U";
        4 S12 "S12";
        5 GN_GP_U "Gn/Gp-U";
        6 S2A_U "S2a-U";
        7 S2B_U "S2b-U";
        8 ENODEB_DL_FORWARDING "eNodeB GTP-U interface for DL data forwarding";
        9 ENODEB_UL_FORWARDING "eNodeB GTP-U interface for UL data forwarding";
        10 SGW_UPF_DL_FORWARDING "SGW/UPF GTP-U interface for DL data forwarding";
        11 N3_3GPP_ACCESS "N3 3GPP Access";
        12 N3_TRUSTED_NON_3GPP_ACCESS "N3 Trusted Non-3GPP Access";
        13 N3_UNTRUSTED_NON_3GPP_ACCESS "N3 Untrusted Non-3GPP Access";
        14 N3_DATA_FORWARDING "N3 for data forwarding";
        15 N9 "N9";
        16 SGI "SGi";
        17 N6 "N6";
        18 N19 "N19";
        19 S8_U "S8-U";
        20 GP_U "Gp-U";
        21 N9_ROAMING "N9 for roaming";
        22 IU_U "Iu-U";
        23 N9_DATA_FORWARDING "N9 for data forwarding";
        24 SXA_U "Sxa-U";
        25 SXB_U "Sxb-U";
        26 SXC_U "Sxc-U";
        27 N4_U "N4-U";
        28 SGW_UPF_UL_FORWARDING "SGW/UPF GTP-U interface for UL data forwarding";
        29 N6MB_NMB9 "N6mb/Nmb9";
        30 N3MB "N3mb";
        31 N19MB "N19mb";
    }
}

flags! {
    /// Which headers are put in front (8.2.56).
    OuterHeaders(u16, 2) {
        GTP_U_UDP_IPV4 = 5/1 "GTP-U/UDP/IPv4";
        GTP_U_UDP_IPV6 = 5/2 "GTP-U/UDP/IPv6";
        UDP_IPV4 = 5/3 "UDP/IPv4";
        UDP_IPV6 = 5/4 "UDP/IPv6";
        IPV4 = 5/5 "IPv4";
        IPV6 = 5/6 "IPv6";
        C_TAG = 5/7 "C-TAG";
        S_TAG = 5/8 "S-TAG";
        N19_INDICATION = 6/1 "The packet came from N19";
        N6_INDICATION = 6/2 "The packet came from N6";
        LOW_LAYER_SSM_AND_C_TEID = 6/3 "Low layer SSM and C-TEID";
    }
}

impl OuterHeaders {
    const WITH_TEID: Self = Self::GTP_U_UDP_IPV4.union(Self::GTP_U_UDP_IPV6);
    const WITH_V4: Self = Self::GTP_U_UDP_IPV4.union(Self::UDP_IPV4).union(Self::IPV4);
    const WITH_V6: Self = Self::GTP_U_UDP_IPV6.union(Self::UDP_IPV6).union(Self::IPV6);
    const WITH_PORT: Self = Self::UDP_IPV4.union(Self::UDP_IPV6);
}

/// The header that packets get (8.2.56). Which fields are there follows from `headers`; what is
/// missing of them is written as zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OuterHeaderCreation {
    /// Which headers, at least one.
    pub headers: OuterHeaders,
    /// The tunnel, with GTP-U.
    pub teid: Option<u32>,
    /// Destination address, with IPv4.
    pub v4: Option<Ipv4Addr>,
    /// Destination address, with IPv6.
    pub v6: Option<Ipv6Addr>,
    /// Destination port, with UDP and no GTP-U.
    pub port: Option<u16>,
    /// C-TAG to set.
    pub c_tag: Option<VlanTag>,
    /// S-TAG to set.
    pub s_tag: Option<VlanTag>,
}

impl OuterHeaderCreation {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        // Two octets, always: the second came with the first release that had N19.
        let headers = OuterHeaders::parse(&mut Octets(octets.take(2)?))?;
        if headers == OuterHeaders::NONE {
            return Err(Fault::Value);
        }
        let has = |headers_with| headers.intersects(headers_with);
        Ok(Self {
            headers,
            teid: octets.when(has(OuterHeaders::WITH_TEID), Octets::u32)?,
            v4: octets.when(has(OuterHeaders::WITH_V4), v4)?,
            v6: octets.when(has(OuterHeaders::WITH_V6), v6)?,
            port: octets.when(has(OuterHeaders::WITH_PORT), Octets::u16)?,
            c_tag: octets.when(has(OuterHeaders::C_TAG), VlanTag::take)?,
            s_tag: octets.when(has(OuterHeaders::S_TAG), VlanTag::take)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let has = |headers_with| self.headers.intersects(headers_with);
        self.headers.emit(pen);
        if has(OuterHeaders::WITH_TEID) {
            pen.u32(self.teid.unwrap_or(0));
        }
        let unspecified = (Ipv4Addr::UNSPECIFIED, Ipv6Addr::UNSPECIFIED);
        put_addresses(
            pen,
            has(OuterHeaders::WITH_V4).then_some(self.v4.unwrap_or(unspecified.0)),
            has(OuterHeaders::WITH_V6).then_some(self.v6.unwrap_or(unspecified.1)),
        );
        if has(OuterHeaders::WITH_PORT) {
            pen.u16(self.port.unwrap_or(0));
        }
        let tags = [
            (OuterHeaders::C_TAG, self.c_tag),
            (OuterHeaders::S_TAG, self.s_tag),
        ];
        for (_, tag) in tags.into_iter().filter(|(flag, _)| has(*flag)) {
            tag.unwrap_or_default().emit(pen);
        }
    }
}

/// The header that packets lose (8.2.64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval {
    /// Which header.
    pub description: RemovedHeader,
    /// GTP-U extension headers that are not kept for the next tunnel; bit 1 is the PDU session
    /// container.
    pub extension_deletion: Option<u8>,
}

interfaces! {
    /// Outer Header Removal Description (8.2.64).
    RemovedHeader(0xff) {
        0 GTP_U_UDP_IPV4 "GTP-U/UDP/IPv4";
        1 GTP_U_UDP_IPV6 "GTP-U/UDP/IPv6";
        2 UDP_IPV4 "UDP/IPv4";
        3 UDP_IPV6 "UDP/IPv6";
        4 IPV4 "IPv4";
        5 IPV6 "IPv6";
        6 GTP_U_UDP_IP "GTP-U/UDP/IP";
        7 VLAN_TAG_POP "VLAN TAG POP";
        8 VLAN_TAGS_POP_POP "VLAN TAGs POP-POP";
    }
}

impl OuterHeaderRemoval {
    /// Bit of [`extension_deletion`](Self::extension_deletion): the PDU session container.
    pub const PDU_SESSION_CONTAINER: u8 = 1;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let description = RemovedHeader::parse(octets)?;
        let has_more = !octets.0.is_empty();
        Ok(Self {
            description,
            extension_deletion: octets.when(has_more, Octets::u8)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        self.description.emit(pen);
        if let Some(deletion) = self.extension_deletion {
            pen.u8(deletion);
        }
    }
}

/// ToS or Traffic Class and its mask (8.2.12; TS 29.212, 5.3.15).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TrafficClass {
    /// The octet of the header.
    pub value: u8,
    /// Which of its bits count: 0xfc for the DSCP.
    pub mask: u8,
}

impl TrafficClass {
    /// The six bits of a DSCP.
    pub const fn dscp(self) -> u8 {
        self.value >> 2
    }

    pub(super) fn take(octets: &mut Octets<'_>) -> Result<Self, crate::octets::Ended> {
        let [value, mask] = octets.array()?;
        Ok(Self { value, mask })
    }

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self::take(octets)?)
    }

    pub(super) fn emit(&self, pen: &mut Pen<'_>) {
        pen.put(&[self.value, self.mask]);
    }
}

/// A C-TAG or S-TAG (8.2.94, 8.2.95); what is `None` is not compared, or not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VlanTag {
    /// Priority code point, 0 to 7.
    pub pcp: Option<u8>,
    /// Drop eligible indicator.
    pub dei: Option<bool>,
    /// VLAN identifier, 12 bits.
    pub vid: Option<u16>,
}

impl VlanTag {
    const PCP: u8 = 1;
    const DEI: u8 = 1 << 1;
    const VID: u8 = 1 << 2;
    const DEI_VALUE: u8 = 1 << 3;

    pub(super) fn take(octets: &mut Octets<'_>) -> Result<Self, crate::octets::Ended> {
        let [flags, high, low] = octets.array()?;
        let has = |flag| flags & flag != 0;
        let vid = u16::from(high & 0xf0) << 4 | u16::from(low);
        Ok(Self {
            pcp: has(Self::PCP).then_some(high & 0b111),
            dei: has(Self::DEI).then_some(high & Self::DEI_VALUE != 0),
            vid: has(Self::VID).then_some(vid),
        })
    }

    pub(super) fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self::take(octets)?)
    }

    pub(super) fn emit(&self, pen: &mut Pen<'_>) {
        let vid = self.vid.unwrap_or(0) & 0x0fff;
        let dei = u8::from(self.dei.unwrap_or(false)) * Self::DEI_VALUE;
        pen.u8(bit(Self::PCP, &self.pcp) | bit(Self::DEI, &self.dei) | bit(Self::VID, &self.vid));
        pen.u8((vid >> 4) as u8 & 0xf0 | dei | self.pcp.unwrap_or(0) & 0b111);
        pen.u8(vid as u8);
    }
}

/// A policy that the UPF has by name (8.2.23).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ForwardingPolicy<'a>(pub &'a [u8]);

impl<'a> ForwardingPolicy<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let len = octets.u8()?;
        Ok(Self(octets.take(len.into())?))
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.counted_u8(self.0);
    }
}

impl fmt::Debug for ForwardingPolicy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Quoted(self.0).fmt(f)
    }
}

/// A header field that requests get (8.2.67).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HeaderEnrichment<'a> {
    /// Of which protocol: 0 for HTTP.
    pub header_type: u8,
    /// Name of the field.
    pub name: &'a [u8],
    /// Value of the field.
    pub value: &'a [u8],
}

impl<'a> HeaderEnrichment<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let header_type = octets.u8()? & 0x1f;
        let name_len = octets.u8()?;
        let name = octets.take(name_len.into())?;
        let value_len = octets.u8()?;
        Ok(Self {
            header_type,
            name,
            value: octets.take(value_len.into())?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.header_type & 0x1f);
        pen.counted_u8(self.name);
        pen.counted_u8(self.value);
    }
}

impl fmt::Debug for HeaderEnrichment<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, value) = (Quoted(self.name), Quoted(self.value));
        write!(f, "type {} {name:?}: {value:?}", self.header_type)
    }
}

/// Where requests are redirected to (8.2.20). Addresses are text.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct RedirectInformation<'a> {
    /// What the address is, see the constants.
    pub address_type: u8,
    /// IPv4 or IPv6 address, URL or SIP URI; empty for a port alone.
    pub address: &'a [u8],
    /// The IPv6 address beside an IPv4 address.
    pub other_address: Option<&'a [u8]>,
    /// The port, for types with a port.
    pub port: Option<u16>,
}

impl<'a> RedirectInformation<'a> {
    /// Address type: IPv4 address.
    pub const IPV4: u8 = 0;
    /// Address type: IPv6 address.
    pub const IPV6: u8 = 1;
    /// Address type: URL.
    pub const URL: u8 = 2;
    /// Address type: SIP URI.
    pub const SIP_URI: u8 = 3;
    /// Address type: IPv4 and IPv6 addresses.
    pub const IPV4_AND_IPV6: u8 = 4;
    /// Address type: port.
    pub const PORT: u8 = 5;
    /// Address type: IPv4 address and port.
    pub const IPV4_AND_PORT: u8 = 6;
    /// Address type: IPv6 address and port.
    pub const IPV6_AND_PORT: u8 = 7;
    /// Address type: IPv4 and IPv6 addresses and port.
    pub const IPV4_AND_IPV6_AND_PORT: u8 = 8;

    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let address_type = octets.u8()? & 0x0f;
        let counted = |octets: &mut Octets<'a>| {
            let len = octets.u16()?;
            octets.take(len.into())
        };
        Ok(Self {
            address_type,
            address: counted(octets)?,
            other_address: octets.when(has_other(address_type), counted)?,
            port: octets.when(has_port(address_type), Octets::u16)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.address_type & 0x0f);
        pen.counted_u16(self.address);
        if has_other(self.address_type & 0x0f) {
            pen.counted_u16(self.other_address.unwrap_or_default());
        }
        if has_port(self.address_type & 0x0f) {
            pen.u16(self.port.unwrap_or(0));
        }
    }
}

/// Whether redirections of this type have two addresses.
const fn has_other(address_type: u8) -> bool {
    matches!(
        address_type,
        RedirectInformation::IPV4_AND_IPV6 | RedirectInformation::IPV4_AND_IPV6_AND_PORT
    )
}

/// Whether redirections of this type have a port.
const fn has_port(address_type: u8) -> bool {
    matches!(
        address_type,
        RedirectInformation::PORT..=RedirectInformation::IPV4_AND_IPV6_AND_PORT
    )
}

impl fmt::Debug for RedirectInformation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "type {} {:?}", self.address_type, Quoted(self.address))?;
        if let Some(other) = self.other_address {
            write!(f, " {:?}", Quoted(other))?;
        }
        self.port.map_or(Ok(()), |port| write!(f, " port {port}"))
    }
}
