//! Multipoint control of 10G-EPON: who may send upstream, and when.
//!
//! One OLT and its ONUs share one wavelength upstream. The OLT finds ONUs in discovery windows,
//! measures how far each is ([`olt`]), asks what waits in their queues and grants each a slot of
//! time, so that the bursts of different ONUs arrive one behind the other ([`ipact`]). An ONU keeps
//! its clock to what the OLT says and has its laser on in its slots only ([`onu`]).
//!
//! Specification: IEEE 802.3-2022, Clause 77. What is here are state machines: they are given
//! MPCPDUs and a time and return decisions; they do no I/O and read no clock. [`simulate`] runs
//! them in simulated time, [`nf`] as NFs of a chain.
//!
//! # Time
//!
//! All times are in quanta of 16 ns. A station counts quanta of its own oscillator in 64 bits,
//! never back; the 32 bits of MPCP are what is sent. An instant of a frame is that of its first
//! octet.

pub mod burst_time;
pub mod ipact;
pub mod nf;
pub mod olt;
pub mod onu;
pub mod simulate;

use std::fmt;

/// Quanta of a second.
pub const QUANTA_PER_SECOND: u64 = 1_000_000_000 / catena_wire::mpcp::QUANTUM_NS;

/// Most ONUs of an OLT.
pub const ONU_COUNT_MAX: usize = 32;

/// Quanta of `us` microseconds, rounded down.
pub const fn quanta_of_us(us: u64) -> u64 {
    us * 1_000 / catena_wire::mpcp::QUANTUM_NS
}

/// How far the 32-bit instant `later` lies behind `earlier`; negative if it lies before. Right for
/// instants that are at most 34 s apart.
pub const fn quanta_between(earlier: u32, later: u32) -> i32 {
    later.wrapping_sub(earlier).cast_signed()
}

/// Why a registration ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ending {
    /// The other side said so.
    Told,
    /// Nothing was heard for too long.
    Timeout,
    /// The clock of the other side was off by more than the guard threshold.
    Drift,
    /// The ONU did not confirm its registration.
    Unconfirmed,
}

impl Ending {
    /// The name used in counters and events.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Told => "told",
            Self::Timeout => "timeout",
            Self::Drift => "drift",
            Self::Unconfirmed => "unconfirmed",
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::{ipact, olt, onu, simulate};
    use crate::documented::{fields_of, fields_shown};

    #[test]
    fn the_defaults_of_stations_are_those_of_the_page() {
        let olt = fields_shown(&olt::Params::default());
        assert_eq!(olt, fields_of("OLT"));
        let onu = onu::Params::default();
        let address = format!("address: {},", onu.mac);
        let shown = [vec![address], fields_shown(&onu)].concat();
        assert_eq!(shown, fields_of("ONU"));
        let settings = fields_shown(&ipact::Settings::default());
        assert_eq!(settings, fields_of("allocation"));
        assert_eq!(fields_shown(&ipact::Share::default()), fields_of("share"));
        let scenario = fields_shown(&simulate::Scenario::default());
        assert_eq!(scenario, fields_of("simulation"));
        let onu = fields_shown(&simulate::OnuScenario::default());
        assert_eq!(onu, fields_of("simulated ONU"));
    }
}
