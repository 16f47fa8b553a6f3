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

mod frame_queue;
#[cfg(test)]
mod instant_tests;
#[cfg(test)]
mod limit_tests;
mod olt_mac;
mod onu_mac;
mod pon_packet;
mod pon_phy;
mod receiver;
mod sides;
mod stream_time;
#[cfg(test)]
mod tests;

pub use olt_mac::KIND as OLT_MAC;
pub use onu_mac::KIND as ONU_MAC;
pub use pon_phy::KIND as PON_PHY;
