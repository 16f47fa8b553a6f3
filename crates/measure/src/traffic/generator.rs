//! `traffic`: sends a profile's packets, each stamped with the time at which it should have left
//! and with how late the tester was with it.
//!
//! First step of a packet's life. The clock is read once per call; what is due goes, up to the room
//! there is, and what was not sent in time stays due (open loop, no coordinated omission). While
//! the chain takes nothing, what is due waits in a bounded buffer, and is lost where that is full:
//! see `entry_buffer`. A packet costs the copy of a template, a stamp and, where there are several
//! flows, a few stores.

mod config;
mod port;

pub use config::KIND;
pub use port::{ENTRY_GRACE_NS, GRACE_NS, SendResults, TrafficPort};
