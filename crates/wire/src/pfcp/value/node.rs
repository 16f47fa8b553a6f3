// SPDX-License-Identifier: Apache-2.0
//! Values about nodes, sessions and buffers in PFCP information elements.

use super::address::bit;
use super::{BarId, FarId, MarId, PdrId, QerId, SrrId, UrrId, value};
use crate::octets::{Octets, Pen};
use crate::pfcp::coding::Fault;
use crate::pfcp::ie_type::IeType;

value!(
    DownlinkDataServiceInformation,
    FailedRuleId,
    NfInstanceId,
    OffendingIeInformation<'a>,
    PacketCount,
    PdnType,
    Timer
);

/// A duration with a unit (8.2.29, 8.2.35, 8.2.78).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Timer {
    /// The unit: 0 two seconds, 1 a minute, 2 ten minutes, 3 an hour, 4 ten hours, 7 infinite;
    /// others are a minute.
    pub unit: u8,
    /// How many of it, 0 to 31.
    pub value: u8,
}

impl Timer {
    /// The timer is stopped.
    pub const STOPPED: Self = Self { unit: 0, value: 0 };
    /// The timer never ends.
    pub const INFINITE: Self = Self { unit: 7, value: 0 };

    /// Seconds, or `None` without an end.
    pub const fn seconds(self) -> Option<u32> {
        let unit = match self.unit {
            0 => 2,
            2 => 600,
            3 => 3600,
            4 => 36_000,
            7 => return None,
            _ => 60,
        };
        Some(unit * self.value as u32)
    }

    /// The shortest timer that is not shorter than `seconds`; without an end for more than 310
    /// hours.
    pub fn at_least(seconds: u32) -> Self {
        let units = [(0, 2), (1, 60), (2, 600), (3, 3600), (4, 36_000)];
        units
            .into_iter()
            .map(|(unit, len)| (unit, seconds.div_ceil(len)))
            .find(|(_, value)| *value <= 31)
            .map_or(Self::INFINITE, |(unit, value)| Self {
                unit,
                value: value as u8,
            })
    }

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let octet = octets.u8()?;
        Ok(Self {
            unit: octet >> 5,
            value: octet & 0x1f,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.unit << 5 | self.value & 0x1f);
    }
}

/// DL Buffering Suggested Packet Count (8.2.30), in one octet or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PacketCount(pub u16);

impl PacketCount {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        match *octets.rest() {
            [count] => Ok(Self(count.into())),
            [high, low] => Ok(Self(u16::from_be_bytes([high, low]))),
            _ => Err(Fault::Length),
        }
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        match u8::try_from(self.0) {
            Ok(count) => pen.u8(count),
            Err(_) => pen.u16(self.0),
        }
    }
}

/// What is known of the first downlink packet (8.2.27).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DownlinkDataServiceInformation {
    /// Paging Policy Indication: the DSCP of the packet, 6 bits.
    pub paging_policy_indication: Option<u8>,
    /// QoS flow, 6 bits.
    pub qfi: Option<u8>,
}

impl DownlinkDataServiceInformation {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let low = |octets: &mut Octets<'_>| Ok(octets.u8()? & 0x3f);
        Ok(Self {
            paging_policy_indication: octets.when(flags & 0b01 != 0, low)?,
            qfi: octets.when(flags & 0b10 != 0, low)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.paging_policy_indication) | bit(0b10, &self.qfi));
        let both = [self.paging_policy_indication, self.qfi];
        both.into_iter()
            .flatten()
            .for_each(|value| pen.u8(value & 0x3f));
    }
}

/// Which rule failed (8.2.80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedRuleId {
    /// A PDR.
    Pdr(PdrId),
    /// A FAR.
    Far(FarId),
    /// A QER.
    Qer(QerId),
    /// A URR.
    Urr(UrrId),
    /// A BAR.
    Bar(BarId),
    /// A MAR.
    Mar(MarId),
    /// An SRR.
    Srr(SrrId),
}

impl FailedRuleId {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(match octets.u8()? & 0x1f {
            0 => Self::Pdr(PdrId(octets.u16()?)),
            2 => Self::Qer(QerId(octets.u32()?)),
            3 => Self::Urr(UrrId(octets.u32()?)),
            4 => Self::Bar(BarId(octets.u8()?)),
            5 => Self::Mar(MarId(octets.u16()?)),
            6 => Self::Srr(SrrId(octets.u8()?)),
            // Types for future use "shall be interpreted as the value 1".
            _ => Self::Far(FarId(octets.u32()?)),
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        match *self {
            Self::Pdr(PdrId(id)) => {
                pen.u8(0);
                pen.u16(id);
            }
            Self::Far(FarId(id)) => {
                pen.u8(1);
                pen.u32(id);
            }
            Self::Qer(QerId(id)) => {
                pen.u8(2);
                pen.u32(id);
            }
            Self::Urr(UrrId(id)) => {
                pen.u8(3);
                pen.u32(id);
            }
            Self::Bar(BarId(id)) => pen.put(&[4, id]),
            Self::Mar(MarId(id)) => {
                pen.u8(5);
                pen.u16(id);
            }
            Self::Srr(SrrId(id)) => pen.put(&[6, id]),
        }
    }
}

/// An IE that caused a failure (8.2.185).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffendingIeInformation<'a> {
    /// Which.
    pub ie_type: IeType,
    /// Its value.
    pub value: &'a [u8],
}

impl<'a> OffendingIeInformation<'a> {
    fn parse(octets: &mut Octets<'a>) -> Result<Self, Fault> {
        Ok(Self {
            ie_type: IeType(octets.u16()?),
            value: octets.rest(),
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u16(self.ie_type.0);
        pen.put(self.value);
    }
}

/// What a session carries (8.2.79).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PdnType(pub u8);

impl PdnType {
    /// IPv4.
    pub const IPV4: Self = Self(1);
    /// IPv6.
    pub const IPV6: Self = Self(2);
    /// IPv4 and IPv6.
    pub const IPV4V6: Self = Self(3);
    /// Not IP: unstructured.
    pub const NON_IP: Self = Self(4);
    /// Ethernet frames.
    pub const ETHERNET: Self = Self(5);

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self(octets.u8()? & 0b111))
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.0 & 0b111);
    }
}

/// A network function's identity: the octets of a UUID (8.2.175).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NfInstanceId(pub [u8; 16]);

impl NfInstanceId {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self(octets.array()?))
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.put(&self.0);
    }
}
