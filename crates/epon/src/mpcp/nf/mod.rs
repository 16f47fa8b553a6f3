//! `olt_mac` and `onu_mac`: multipoint control as NFs, in real time; `pon_phy`: line bits between
//! them.
//!
//! ```text
//!            +--------- pon ------> tee -----------> pon input of each onu_mac
//!  net --> olt_mac                                              | ^
//!  net <--   | ^----- pon input <- merge <-- pon --- onu_mac ---+ +--- user
//! ```
//!
//! # Stream time
//!
//! A link between NFs delivers when it can; a PON needs instants exact to 16 ns. So each packet on
//! the PON's side carries the instant that its first octet passes the OLT's end of the fibre: in
//! quanta, in front of the preamble (32 bits, as MPCP's own clock). All stations of a chain run on
//! one machine and count on its monotonic clock; a packet leaves no earlier than it says, and what
//! links and threads add is lateness, which is counted. `onu_mac` stands for its fibre, too: it
//! adds the way of the light to what it receives and sends.
//!
//! A packet on the PON's side is this instant, the eight octets of the preamble with LLID and
//! CRC-8, then the frame without its check sequence. The tag of one from an ONU says whether more
//! of its burst follow.

use catena_engine::nf::{Burst, DropReason, Nanos, Verdict};
use catena_wire::mpcp::QUANTUM_NS;

mod frame_queue;
#[cfg(test)]
mod limit_tests;
mod olt_mac;
mod onu_mac;
mod pon_packet;
mod pon_phy;
mod receiver;
#[cfg(test)]
mod tests;

pub use olt_mac::KIND as OLT_MAC;
pub use onu_mac::KIND as ONU_MAC;
pub use pon_phy::KIND as PON_PHY;

/// The input that comes from the PON: the first link to the NF in the chain file.
const PON_INPUT: u8 = 0;
/// The output to the PON.
const PON: u8 = 0;
/// The output to the users, or to the network.
const USER: u8 = 1;

/// Tag of a packet of an ONU's burst that is not its last one.
const MORE_FOLLOW: u16 = 1;

/// Gives each packet of a burst to `hear`, with whether it comes from the PON, and carries out how
/// it ends.
fn end_each(burst: &mut Burst<'_>, mut hear: impl FnMut(&[u8], bool) -> DropReason) {
    let is_pon = burst.input() == PON_INPUT;
    for (packet, verdict) in burst.iter_mut() {
        *verdict = Verdict::Drop(hear(packet.bytes(), is_pon));
    }
}

/// Quanta of the engine's clock.
const fn quanta_at(now: Nanos) -> u64 {
    now.0 / QUANTUM_NS
}

/// When the engine's clock shows `quanta`.
const fn nanos_at(quanta: u64) -> Nanos {
    Nanos(quanta.saturating_mul(QUANTUM_NS))
}

/// The instant with these low 32 bits that is nearest to `now`.
const fn widen(instant: u32, now: u64) -> u64 {
    now.saturating_add_signed(super::quanta_between(now as u32, instant) as i64)
}
