// SPDX-License-Identifier: Apache-2.0
//! Values of QoS enforcement and monitoring in PFCP information elements: gates, rates, markings,
//! packet delays.

use super::address::{bit, flag};
use super::forwarding::TrafficClass;
use super::value;
use crate::octets::{Ended, Octets, Pen};
use crate::pfcp::coding::Fault;

value!(
    BitRates,
    DlFlowLevelMarking,
    GateStatus,
    PacketDelayThresholds,
    PacketRates,
    PacketRateStatus,
    PagingPolicyIndicator,
    Qfi,
    QosMonitoringMeasurement,
    Rqi
);

/// Which gates are open (8.2.7). Values for future use are closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GateStatus {
    /// Uplink packets pass.
    pub ul_open: bool,
    /// Downlink packets pass.
    pub dl_open: bool,
}

impl GateStatus {
    /// Both open.
    pub const OPEN: Self = Self {
        ul_open: true,
        dl_open: true,
    };

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let gates = octets.u8()?;
        Ok(Self {
            ul_open: gates >> 2 & 0b11 == 0,
            dl_open: gates & 0b11 == 0,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(u8::from(!self.ul_open) << 2 | u8::from(!self.dl_open));
    }
}

/// Bit rates of both directions (8.2.8, 8.2.9), 40 bits each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct BitRates {
    /// Uplink, in kbit/s of 1000 bit/s.
    pub ul_kbps: u64,
    /// Downlink, in kbit/s of 1000 bit/s.
    pub dl_kbps: u64,
}

impl BitRates {
    /// Largest rate that the fields have room for.
    pub const KBPS_MAX: u64 = (1 << 40) - 1;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        Ok(Self {
            ul_kbps: octets.uint::<5>()?,
            dl_kbps: octets.uint::<5>()?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.uint::<5>(self.ul_kbps.min(Self::KBPS_MAX));
        pen.uint::<5>(self.dl_kbps.min(Self::KBPS_MAX));
    }
}

/// So many packets in a unit of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rate {
    /// The unit: 0 minute, 1 six minutes, 2 hour, 3 day, 4 week; others count as 0.
    pub unit: u8,
    /// Packets.
    pub packets: u16,
}

impl Rate {
    /// The unit in seconds.
    pub const fn unit_seconds(&self) -> u32 {
        match self.unit {
            1 => 360,
            2 => 3600,
            3 => 86_400,
            4 => 604_800,
            _ => 60,
        }
    }

    fn take(octets: &mut Octets<'_>) -> Result<Self, Ended> {
        Ok(Self {
            unit: octets.u8()? & 0b111,
            packets: octets.u16()?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(self.unit & 0b111);
        pen.u16(self.packets);
    }
}

/// How many packets may be sent (8.2.63). At least one of `ul` and `dl` is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketRates {
    /// Uplink.
    pub ul: Option<Rate>,
    /// Downlink.
    pub dl: Option<Rate>,
    /// Additional Packet Rate Control: for exceptional reports, of the directions that have a rate.
    pub additional: Option<AdditionalRates>,
}

/// Rates of exceptional reports. A direction without a rate has none here either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AdditionalRates {
    /// Uplink.
    pub ul: Option<Rate>,
    /// Downlink.
    pub dl: Option<Rate>,
}

impl PacketRates {
    const ULPR: u8 = 1;
    const DLPR: u8 = 1 << 1;
    const APRC: u8 = 1 << 2;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let (has_ul, has_dl) = (flags & Self::ULPR != 0, flags & Self::DLPR != 0);
        if !has_ul && !has_dl {
            return Err(Fault::Value);
        }
        Ok(Self {
            ul: octets.when(has_ul, Rate::take)?,
            dl: octets.when(has_dl, Rate::take)?,
            additional: octets.when(flags & Self::APRC != 0, |octets| {
                Ok(AdditionalRates {
                    ul: octets.when(has_ul, Rate::take)?,
                    dl: octets.when(has_dl, Rate::take)?,
                })
            })?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(Self::ULPR, &self.ul)
            | bit(Self::DLPR, &self.dl)
            | bit(Self::APRC, &self.additional));
        let more = self.additional.map(|additional| {
            // Where there is a rate there must be an additional one.
            let ul = self.ul.map(|_| additional.ul.unwrap_or_default());
            [ul, self.dl.map(|_| additional.dl.unwrap_or_default())]
        });
        let rates = [self.ul, self.dl]
            .into_iter()
            .chain(more.unwrap_or_default());
        rates.flatten().for_each(|rate| rate.emit(pen));
    }
}

/// How many packets may still be sent (8.2.139). The order of the fields is that of the IE.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketRateStatus {
    /// Uplink.
    pub ul: Option<Remaining>,
    /// Downlink.
    pub dl: Option<Remaining>,
    /// Until when: a 64-bit NTP timestamp. There if one of the others is.
    pub validity_time: Option<u64>,
}

/// Packets that may still be sent in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Remaining {
    /// Packets.
    pub packets: u16,
    /// Exceptional reports. Either both directions that are there have them or none has (APR).
    pub additional: Option<u16>,
}

impl PacketRateStatus {
    const UL: u8 = 1;
    const DL: u8 = 1 << 1;
    const APR: u8 = 1 << 2;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        let has = |flag| flags & flag != 0;
        let remaining = |octets: &mut Octets<'_>| {
            Ok(Remaining {
                packets: octets.u16()?,
                additional: octets.when(has(Self::APR), Octets::u16)?,
            })
        };
        Ok(Self {
            ul: octets.when(has(Self::UL), remaining)?,
            dl: octets.when(has(Self::DL), remaining)?,
            validity_time: octets.when(has(Self::UL | Self::DL), Octets::u64)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        let both = [self.ul, self.dl];
        let has_additional = both
            .iter()
            .flatten()
            .any(|remaining| remaining.additional.is_some());
        pen.u8(bit(Self::UL, &self.ul) | bit(Self::DL, &self.dl) | flag(Self::APR, has_additional));
        for remaining in both.iter().flatten() {
            pen.u16(remaining.packets);
            if has_additional {
                pen.u16(remaining.additional.unwrap_or(0));
            }
        }
        if both.iter().any(Option::is_some) {
            pen.u64(self.validity_time.unwrap_or(0));
        }
    }
}

/// Marking of downlink flows (8.2.66).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DlFlowLevelMarking {
    /// ToS or Traffic Class.
    pub traffic_class: Option<TrafficClass>,
    /// Service Class Indicator, as it stands in the GTP-U extension header.
    pub service_class_indicator: Option<u16>,
}

impl DlFlowLevelMarking {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        Ok(Self {
            traffic_class: octets.when(flags & 0b01 != 0, TrafficClass::take)?,
            service_class_indicator: octets.when(flags & 0b10 != 0, Octets::u16)?,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        pen.u8(bit(0b01, &self.traffic_class) | bit(0b10, &self.service_class_indicator));
        if let Some(class) = self.traffic_class {
            class.emit(pen);
        }
        if let Some(indicator) = self.service_class_indicator {
            pen.u16(indicator);
        }
    }
}

/// Packet delays of a QoS flow in milliseconds, each if it is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketDelays {
    /// Downlink: from the UPF to the UE.
    pub dl_ms: Option<u32>,
    /// Uplink: from the UE to the UPF.
    pub ul_ms: Option<u32>,
    /// Round trip.
    pub rp_ms: Option<u32>,
}

impl PacketDelays {
    const DL: u8 = 1;
    const UL: u8 = 1 << 1;
    const RP: u8 = 1 << 2;

    fn take(flags: u8, octets: &mut Octets<'_>) -> Result<Self, Ended> {
        Ok(Self {
            dl_ms: octets.when(flags & Self::DL != 0, Octets::u32)?,
            ul_ms: octets.when(flags & Self::UL != 0, Octets::u32)?,
            rp_ms: octets.when(flags & Self::RP != 0, Octets::u32)?,
        })
    }

    fn put(&self, more: u8, pen: &mut Pen<'_>) {
        pen.u8(more
            | bit(Self::DL, &self.dl_ms)
            | bit(Self::UL, &self.ul_ms)
            | bit(Self::RP, &self.rp_ms));
        let delays = [self.dl_ms, self.ul_ms, self.rp_ms];
        delays
            .into_iter()
            .flatten()
            .for_each(|delay| pen.u32(delay));
    }
}

/// Delays above which a measurement is an event (8.2.169). At least one is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PacketDelayThresholds(pub PacketDelays);

impl PacketDelayThresholds {
    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let delays = PacketDelays::take(octets.u8()?, octets)?;
        let has_one = delays != PacketDelays::default();
        has_one.then_some(Self(delays)).ok_or(Fault::Value)
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        self.0.put(0, pen);
    }
}

/// What was measured of a QoS flow (8.2.171).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QosMonitoringMeasurement {
    /// Packet delays.
    pub delays: PacketDelays,
    /// Whether they could not be measured (PLMF).
    pub has_failed: bool,
}

impl QosMonitoringMeasurement {
    const PLMF: u8 = 1 << 3;

    fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
        let flags = octets.u8()?;
        Ok(Self {
            delays: PacketDelays::take(flags, octets)?,
            has_failed: flags & Self::PLMF != 0,
        })
    }

    fn emit(&self, pen: &mut Pen<'_>) {
        self.delays.put(flag(Self::PLMF, self.has_failed), pen);
    }
}

macro_rules! small {
    ($($(#[$doc:meta])* $name:ident($mask:literal);)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub u8);

        impl $name {
            fn parse(octets: &mut Octets<'_>) -> Result<Self, Fault> {
                Ok(Self(octets.u8()? & $mask))
            }

            fn emit(&self, pen: &mut Pen<'_>) {
                pen.u8(self.0 & $mask);
            }
        }
    )* };
}

small! {
    /// QoS flow identifier (8.2.89), 6 bits.
    Qfi(0x3f);
    /// Reflective QoS (8.2.88): 1 activates it, 0 deactivates it.
    Rqi(0x01);
    /// Paging policy indicator (8.2.116), 0 to 7.
    PagingPolicyIndicator(0x07);
}
