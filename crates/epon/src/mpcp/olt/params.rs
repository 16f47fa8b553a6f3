//! Properties of an OLT: times and limits that its state machines are made with.

use catena_wire::ethernet::MacAddr;

use super::super::burst_time::{frame_octets, quanta_for};
use super::super::ipact::Settings;
use super::super::{ONU_COUNT_MAX, QUANTA_PER_SECOND, quanta_of_us};

/// Least pause between slots in quanta: instants are counted to the nearest quantum at both ends,
/// so that two bursts may come nearer to each other by as much.
pub const GUARD_MIN: u32 = 2;

/// Properties of an OLT. Times are in quanta.
#[derive(Clone, Debug)]
pub struct Params {
    /// Most ONUs at a time, [`ONU_COUNT_MAX`] at most.
    pub onus_max: usize,
    /// The LLID of the first ONU; the others follow. An OLT that starts anew takes others than in
    /// its life before, so that ONUs which do not know of it yet follow none of its grants.
    pub first_llid: u16,
    /// ONUs with places of their own, in this order: what a share is meant for.
    pub reserved: Vec<MacAddr>,
    /// Length of the sync pattern that the receiver needs.
    pub sync_time: u16,
    /// Longest time that a laser may take to turn on, and to turn off.
    pub laser_max: u8,
    /// Pause between slots.
    pub guard: u32,
    /// Time that an ONU has between GATE and slot (77.3.5.1: 1024 quanta).
    pub processing: u32,
    /// Time that a GATE may take beside the way on the fibre: 0 on a line, the latency of links
    /// in a chain.
    pub lead: u32,
    /// Round trip of the farthest ONU.
    pub rtt_max: u32,
    /// From one discovery window to the next.
    pub discovery_period: u64,
    /// Length of a discovery window.
    pub discovery_window: u16,
    /// Shortest time from one slot of an ONU to its next, so that an idle PON is not all polls.
    pub cycle_min: u32,
    /// How far the round trip of an ONU may change between MPCPDUs (77.2.2.1: 12 quanta).
    pub drift_max: u32,
    /// After how long without an MPCPDU an ONU is no longer registered (77.3.4.1: 1 s).
    pub timeout: u64,
    /// How long after the end of a slot its REPORT counts as lost.
    pub report_margin: u32,
    /// Bandwidth allocation.
    pub dba: Settings,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            onus_max: ONU_COUNT_MAX,
            first_llid: 1,
            reserved: Vec::new(),
            sync_time: 50,
            laser_max: 32,
            guard: 16,
            processing: 1024,
            lead: 0,
            rtt_max: quanta_of_us(205) as u32,
            discovery_period: quanta_of_us(500_000),
            discovery_window: 16_000,
            cycle_min: quanta_of_us(125) as u32,
            drift_max: 12,
            timeout: QUANTA_PER_SECOND,
            report_margin: quanta_of_us(10) as u32,
            dba: Settings::default(),
        }
    }
}

impl Params {
    /// Quanta of a slot beside the frames of its ONU: guard, laser, sync pattern, REPORT.
    pub fn overhead(&self) -> u32 {
        let laser = 2 * u32::from(self.laser_max);
        self.guard + laser + u32::from(self.sync_time) + report_length()
    }
}

/// Quanta of the codewords that hold a REPORT.
pub(super) fn report_length() -> u32 {
    quanta_for(frame_octets(0)) as u32
}
