// SPDX-License-Identifier: Apache-2.0
//! Values of usage: thresholds, quotas, and what was counted.

use super::address::bit;
use super::value;
use crate::octets::{Octets, Pen};
use crate::pfcp::coding::Fault;

value!(
    AdditionalUsageReports,
    DroppedDlTraffic,
    Multiplier,
    TimeQuotaMechanism,
    Volume,
    VolumeMeasurement
);

/// Octets of a threshold or quota (8.2.13, 8.2.16, 8.2.50, 8.2.86). At least one is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volume {
    /// Of both directions.
    pub total: Option<u64>,
    /// Uplink.
    pub ul: Option<u64>,
    /// Downlink.
    pub dl: Option<u64>,
}

impl Volume {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        if flags & 0b111 == 0 {
            return Err(Fault::Value);
        }
        let mut number = |index: u8| octets.when(flags >> index & 1 != 0, Octets::u64);
        Ok(Self {
            total: number(0)?,
            ul: number(1)?,
            dl: number(2)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        emit_numbers(pen, &[self.total, self.ul, self.dl]);
    }
}

/// Writes a flag for each number that is there, then the numbers.
fn emit_numbers(pen: &mut Pen<'_>, numbers: &[Option<u64>]) {
    pen.u8(numbers
        .iter()
        .rev()
        .fold(0, |flags, number| flags << 1 | bit(1, number)));
    numbers.iter().flatten().for_each(|number| pen.u64(*number));
}

/// What was counted (8.2.44). At least one is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeMeasurement {
    /// Octets of both directions.
    pub total: Option<u64>,
    /// Octets uplink.
    pub ul: Option<u64>,
    /// Octets downlink.
    pub dl: Option<u64>,
    /// Packets of both directions.
    pub total_packets: Option<u64>,
    /// Packets uplink.
    pub ul_packets: Option<u64>,
    /// Packets downlink.
    pub dl_packets: Option<u64>,
}

impl VolumeMeasurement {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        if flags & 0b11_1111 == 0 {
            return Err(Fault::Value);
        }
        let mut number = |index: u8| octets.when(flags >> index & 1 != 0, Octets::u64);
        Ok(Self {
            total: number(0)?,
            ul: number(1)?,
            dl: number(2)?,
            total_packets: number(3)?,
            ul_packets: number(4)?,
            dl_packets: number(5)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let octets = [self.total, self.ul, self.dl];
        let packets = [self.total_packets, self.ul_packets, self.dl_packets];
        let [total, ul, dl] = octets;
        let [total_packets, ul_packets, dl_packets] = packets;
        emit_numbers(pen, &[total, ul, dl, total_packets, ul_packets, dl_packets]);
    }
}

/// Downlink traffic that may be dropped before a report (8.2.49).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DroppedDlTraffic {
    /// Packets.
    pub packets: Option<u64>,
    /// Octets.
    pub octets: Option<u64>,
}

impl DroppedDlTraffic {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        Ok(Self {
            packets: octets.when(flags & 0b01 != 0, Octets::u64)?,
            octets: octets.when(flags & 0b10 != 0, Octets::u64)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        emit_numbers(pen, &[self.packets, self.octets]);
    }
}

/// How time is consumed (8.2.81; TS 32.299).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TimeQuotaMechanism {
    /// 0 continuous time period, 1 discrete time period.
    pub interval_type: u8,
    /// Base time interval in seconds.
    pub interval: u32,
}

impl TimeQuotaMechanism {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self {
            interval_type: octets.u8()? & 0b11,
            interval: octets.u32()?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.interval_type & 0b11);
        pen.u32(self.interval);
    }
}

/// By how much usage of an aggregated URR counts (8.2.84): digits times ten to the exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Multiplier {
    /// Value-Digits.
    pub digits: i64,
    /// Exponent.
    pub exponent: i32,
}

impl Multiplier {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self {
            digits: octets.u64()?.cast_signed(),
            exponent: octets.u32()?.cast_signed(),
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u64(self.digits.cast_unsigned());
        pen.u32(self.exponent.cast_unsigned());
    }
}

/// Whether more usage reports will come (8.2.91).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AdditionalUsageReports {
    /// Some will (AURI).
    WillFollow,
    /// So many in total, at most 32767.
    Total(u16),
}

impl AdditionalUsageReports {
    const AURI: u16 = 1 << 15;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(match octets.u16()? {
            total @ 0..Self::AURI => Self::Total(total),
            _ => Self::WillFollow,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u16(match *self {
            Self::WillFollow => Self::AURI,
            Self::Total(total) => total.min(Self::AURI - 1),
        });
    }
}
