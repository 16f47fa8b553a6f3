// SPDX-License-Identifier: Apache-2.0
//! Values of detection in PFCP information elements: which packets, of whom.

use super::address::bit;
use super::forwarding::{TrafficClass, VlanTag};
use super::{Quoted, value};
use crate::ethernet::MacAddr;
use crate::octets::{Ended, Octets, Pen};
use crate::pfcp::coding::Fault;
use core::fmt;

value!(
    FlowInformation<'a>,
    MacAddresses,
    MacAddressList<'a>,
    PfdContents<'a>,
    SdfFilter<'a>,
    SNssai,
    UserId<'a>
);

/// Octets behind their number, in two octets.
fn counted<'a>(octets: &mut Octets<'a>) -> Result<&'a [u8], Ended> {
    let len = octets.u16()?;
    octets.take(len.into())
}

/// A filter for IP flows (8.2.5).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct SdfFilter<'a> {
    /// An IPFilterRule (TS 29.212, 5.4.2): "permit out ip from any to assigned".
    pub flow_description: Option<&'a [u8]>,
    /// ToS or Traffic Class.
    pub traffic_class: Option<TrafficClass>,
    /// Security parameter index of IPsec.
    pub spi: Option<u32>,
    /// Flow label of IPv6, 20 bits.
    pub flow_label: Option<u32>,
    /// SDF Filter ID, which makes the filter one for both directions.
    pub filter_id: Option<u32>,
}

impl<'a> SdfFilter<'a> {
    const FD: u8 = 1;
    const TTC: u8 = 1 << 1;
    const SPI: u8 = 1 << 2;
    const FL: u8 = 1 << 3;
    const BID: u8 = 1 << 4;

    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let [flags, _] = octets.array()?;
        let has = |flag| flags & flag != 0;
        let label = |octets: &mut Octets<'a>| Ok(octets.uint::<3>()? as u32 & 0xf_ffff);
        Ok(Self {
            flow_description: octets.when(has(Self::FD), counted)?,
            traffic_class: octets.when(has(Self::TTC), TrafficClass::take)?,
            spi: octets.when(has(Self::SPI), Octets::u32)?,
            flow_label: octets.when(has(Self::FL), label)?,
            filter_id: octets.when(has(Self::BID), Octets::u32)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(Self::FD, &self.flow_description)
            | bit(Self::TTC, &self.traffic_class)
            | bit(Self::SPI, &self.spi)
            | bit(Self::FL, &self.flow_label)
            | bit(Self::BID, &self.filter_id));
        pen.u8(0);
        if let Some(description) = self.flow_description {
            pen.counted_u16(description);
        }
        if let Some(class) = self.traffic_class {
            class.emit(pen);
        }
        if let Some(spi) = self.spi {
            pen.u32(spi);
        }
        if let Some(label) = self.flow_label {
            pen.uint::<3>(u64::from(label & 0xf_ffff));
        }
        if let Some(id) = self.filter_id {
            pen.u32(id);
        }
    }
}

impl fmt::Debug for SdfFilter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("SdfFilter");
        if let Some(description) = self.flow_description {
            shown.field("flow_description", &Quoted(description));
        }
        field(&mut shown, "traffic_class", self.traffic_class);
        field(&mut shown, "spi", self.spi);
        field(&mut shown, "flow_label", self.flow_label);
        field(&mut shown, "filter_id", self.filter_id);
        shown.finish()
    }
}

/// Shows what is there.
fn field(shown: &mut fmt::DebugStruct<'_, '_>, name: &str, value: Option<impl fmt::Debug>) {
    if let Some(value) = value {
        shown.field(name, &value);
    }
}

/// How an application is recognised (8.2.39; TS 29.251, 6.4.3).
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PfdContents<'a> {
    /// An IPFilterRule.
    pub flow_description: Option<&'a [u8]>,
    /// A URL, or a regular expression for it.
    pub url: Option<&'a [u8]>,
    /// A domain name, or a regular expression for it.
    pub domain_name: Option<&'a [u8]>,
    /// What only an operator knows.
    pub custom: Option<&'a [u8]>,
    /// By which protocol the domain name is recognised.
    pub domain_name_protocol: Option<&'a [u8]>,
    /// More flow descriptions.
    pub additional_flow_descriptions: Option<Strings<'a>>,
    /// More URLs.
    pub additional_urls: Option<Strings<'a>>,
    /// More domain names, each with its protocol behind it.
    pub additional_domain_names: Option<Strings<'a>>,
}

/// Strings, each behind its length.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Strings<'a>(&'a [u8]);

impl<'a> Strings<'a> {
    /// The strings in `bytes`, each behind its length of two octets.
    ///
    /// # Errors
    /// [`Fault::Length`] when one is not whole.
    pub fn new(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut octets = Octets(bytes);
        while !octets.0.is_empty() {
            counted(&mut octets)?;
        }
        Ok(Self(bytes))
    }
}

impl<'a> IntoIterator for Strings<'a> {
    type Item = &'a [u8];
    type IntoIter = StringsIter<'a>;

    fn into_iter(self) -> StringsIter<'a> {
        StringsIter(Octets(self.0))
    }
}

/// The strings one after the other.
#[derive(Clone, Debug)]
pub struct StringsIter<'a>(Octets<'a>);

impl<'a> Iterator for StringsIter<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        counted(&mut self.0).ok()
    }
}

impl fmt::Debug for Strings<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.into_iter().map(Quoted))
            .finish()
    }
}

impl<'a> PfdContents<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let [flags, _] = octets.array()?;
        let has = |index: u8| flags >> index & 1 != 0;
        let first = Self {
            flow_description: octets.when(has(0), counted)?,
            url: octets.when(has(1), counted)?,
            domain_name: octets.when(has(2), counted)?,
            custom: octets.when(has(3), counted)?,
            domain_name_protocol: octets.when(has(4), counted)?,
            ..Self::default()
        };
        let mut more = |index| {
            octets
                .when(has(index), counted)?
                .map(Strings::new)
                .transpose()
        };
        Ok(Self {
            additional_flow_descriptions: more(5)?,
            additional_urls: more(6)?,
            additional_domain_names: more(7)?,
            ..first
        })
    }

    fn fields(&self) -> [(&'static str, Option<&'a [u8]>); 8] {
        let more = |strings: Option<Strings<'a>>| strings.map(|Strings(bytes)| bytes);
        [
            ("flow_description", self.flow_description),
            ("url", self.url),
            ("domain_name", self.domain_name),
            ("custom", self.custom),
            ("domain_name_protocol", self.domain_name_protocol),
            (
                "additional_flow_descriptions",
                more(self.additional_flow_descriptions),
            ),
            ("additional_urls", more(self.additional_urls)),
            (
                "additional_domain_names",
                more(self.additional_domain_names),
            ),
        ]
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let fields = self.fields();
        let flags = fields
            .iter()
            .rev()
            .fold(0, |flags, (_, value)| flags << 1 | bit(1, value));
        pen.put(&[flags, 0]);
        for value in fields.iter().filter_map(|(_, value)| *value) {
            pen.counted_u16(value);
        }
    }
}

impl fmt::Debug for PfdContents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PfdContents");
        for (name, value) in self.fields() {
            field(&mut shown, name, value.map(Quoted));
        }
        shown.finish()
    }
}

/// A flow of an application (8.2.61).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct FlowInformation<'a> {
    /// 0 unspecified, 1 downlink, 2 uplink, 3 both.
    pub direction: u8,
    /// An IPFilterRule.
    pub description: &'a [u8],
}

impl<'a> FlowInformation<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        Ok(Self {
            direction: match octets.u8()? & 0b111 {
                direction @ 0..=3 => direction,
                _ => 0,
            },
            description: counted(octets)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.direction & 0b11);
        pen.counted_u16(self.description);
    }
}

impl fmt::Debug for FlowInformation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "direction {} {:?}",
            self.direction,
            Quoted(self.description)
        )
    }
}

/// Addresses of Ethernet frames (8.2.93), or ranges of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct MacAddresses {
    /// Source, or the lowest one.
    pub src: Option<MacAddr>,
    /// Destination, or the lowest one.
    pub dst: Option<MacAddr>,
    /// Highest source.
    pub src_upper: Option<MacAddr>,
    /// Highest destination.
    pub dst_upper: Option<MacAddr>,
}

impl MacAddresses {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let mut address = |index: u8| {
            octets.when(flags >> index & 1 != 0, |octets| {
                octets.array().map(MacAddr)
            })
        };
        Ok(Self {
            src: address(0)?,
            dst: address(1)?,
            src_upper: address(2)?,
            dst_upper: address(3)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let addresses = [self.src, self.dst, self.src_upper, self.dst_upper];
        pen.u8(addresses
            .iter()
            .rev()
            .fold(0, |flags, address| flags << 1 | bit(1, address)));
        addresses
            .into_iter()
            .flatten()
            .for_each(|address| pen.put(&address.0));
    }
}

/// Addresses that were seen, or no longer are (8.2.103, 8.2.104).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MacAddressList<'a> {
    /// The addresses, six octets each.
    pub addresses: &'a [u8],
    /// The C-TAG of their frames.
    pub c_tag: Option<VlanTag>,
    /// The S-TAG of their frames.
    pub s_tag: Option<VlanTag>,
}

impl<'a> MacAddressList<'a> {
    /// The addresses one after the other.
    pub fn iter(&self) -> impl Iterator<Item = MacAddr> + use<'a> {
        let (addresses, _) = self.addresses.as_chunks();
        addresses.iter().map(|address| MacAddr(*address))
    }

    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let count = octets.u8()?;
        let addresses = octets.take(usize::from(count) * 6)?;
        // The tags came with release 16.
        let mut tag = || match octets.0.is_empty() {
            true => Ok(None),
            false => {
                let len = octets.u8()?;
                let value = octets.take(len.into())?;
                let is_there = !value.is_empty();
                is_there
                    .then(|| VlanTag::parse(&mut Octets(value)))
                    .transpose()
            }
        };
        Ok(Self {
            addresses,
            c_tag: tag()?,
            s_tag: tag()?,
        })
    }

    /// At most 255 addresses are written.
    fn emit(&self, pen: &mut Pen<'_>) {
        let count = (self.addresses.len() / 6).min(255);
        pen.u8(count as u8);
        pen.put(&self.addresses[..count * 6]);
        for tag in [self.c_tag, self.s_tag] {
            match tag {
                Some(tag) => {
                    pen.u8(3);
                    tag.emit(pen);
                }
                None => pen.u8(0),
            }
        }
    }
}

/// A network slice (8.2.176; TS 23.003, 28.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SNssai {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator, 24 bits, if there is one.
    pub sd: Option<u32>,
}

impl SNssai {
    const NO_SD: u32 = 0xff_ffff;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let sst = octets.u8()?;
        let sd = octets.uint::<3>()? as u32;
        Ok(Self {
            sst,
            sd: (sd != Self::NO_SD).then_some(sd),
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.sst);
        pen.uint::<3>(self.sd.unwrap_or(Self::NO_SD).into());
    }
}

/// Who the user is (8.2.101). Fields are as encoded there: IMSI and MSISDN as TBCD digits.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct UserId<'a> {
    /// IMSI.
    pub imsi: Option<&'a [u8]>,
    /// IMEI.
    pub imei: Option<&'a [u8]>,
    /// MSISDN.
    pub msisdn: Option<&'a [u8]>,
    /// Network access identifier.
    pub nai: Option<&'a [u8]>,
    /// SUPI, of lines and cables.
    pub supi: Option<&'a [u8]>,
    /// GPSI, if an external identifier.
    pub gpsi: Option<&'a [u8]>,
    /// PEI, if a MAC address or EUI-64.
    pub pei: Option<&'a [u8]>,
}

impl<'a> UserId<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let mut next = |index: u8| {
            octets.when(flags >> index & 1 != 0, |octets| {
                let len = octets.u8()?;
                octets.take(len.into())
            })
        };
        Ok(Self {
            imsi: next(0)?,
            imei: next(1)?,
            msisdn: next(2)?,
            nai: next(3)?,
            supi: next(4)?,
            gpsi: next(5)?,
            pei: next(6)?,
        })
    }

    fn fields(&self) -> [(&'static str, Option<&'a [u8]>); 7] {
        [
            ("imsi", self.imsi),
            ("imei", self.imei),
            ("msisdn", self.msisdn),
            ("nai", self.nai),
            ("supi", self.supi),
            ("gpsi", self.gpsi),
            ("pei", self.pei),
        ]
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let fields = self.fields();
        pen.u8(fields
            .iter()
            .rev()
            .fold(0, |flags, (_, value)| flags << 1 | bit(1, value)));
        for value in fields.iter().filter_map(|(_, value)| *value) {
            pen.counted_u8(value);
        }
    }
}

impl fmt::Debug for UserId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("UserId");
        for (name, value) in self.fields() {
            field(&mut shown, name, value.map(Quoted));
        }
        shown.finish()
    }
}
