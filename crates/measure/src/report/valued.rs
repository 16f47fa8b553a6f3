//! Single values with intervals, which no other table has: the rate of MRR, the loss of a soak.

use serde::{Deserialize, Serialize};

use super::elements::{Page, figure};
use crate::plot::{Axis, Bar, BarPlot, Drawing, Figure};
use crate::stats::Interval;

/// What a value is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Packets per second.
    PacketsPerSecond,
    /// A share of packets, 0 to 1.
    Share,
    /// Nanoseconds of core time for a packet.
    CoreNsPerPacket,
}

/// A value, and its interval where it is of several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Valued {
    /// What it is.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// The value.
    pub value: f64,
    /// What it may be as well.
    pub interval: Option<Interval>,
}

fn drawing(unit: Unit, values: &[Valued]) -> Option<Drawing> {
    let of_unit = || values.iter().filter(|one| one.unit == unit);
    of_unit().next()?;
    let (title, axis) = match unit {
        Unit::PacketsPerSecond => ("Rate", Axis::new("rate (packets/s)").si()),
        Unit::CoreNsPerPacket => ("Core time", Axis::new("core time per packet").nanos()),
        Unit::Share => ("Share", Axis::new("share of packets").percent()),
    };
    let bars = of_unit().map(|one| {
        let interval = one.interval.map(|interval| (interval.low, interval.high));
        Some(Bar {
            value: one.value,
            interval,
        })
    });
    let plot = BarPlot::new(title, axis, of_unit().map(|one| one.name.as_str()));
    Some(plot.group("measured", bars.collect()).drawing())
}

/// Adds a figure for each unit.
pub(super) fn write(page: &mut Page, values: &[Valued]) {
    for unit in [Unit::PacketsPerSecond, Unit::Share, Unit::CoreNsPerPacket] {
        figure(page, drawing(unit, values));
    }
}
