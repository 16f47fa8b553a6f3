//! Meters: whether a flow keeps to its rate, as state machines of two or three words.
//!
//! Beside a packet's entry: a program reads a meter's words from the flow's state, asks, and writes
//! them back. A meter's words start as zeros, which stand for a flow that has sent nothing. All
//! arithmetic is exact: rates are whole numbers per second, time whole nanoseconds, and no
//! rounding adds up however long a flow lasts.
//!
//! | meter | standard | asks | words |
//! |---|---|---|---|
//! | [`Gcra`] | ITU-T I.371 annex A | one rate, one burst | 2 |
//! | [`SrTcm`] | RFC 2697 | one rate, two bursts, three colours | 3 |
//! | [`TrTcm`] | RFC 2698 | two rates, two bursts, three colours | 3 |
//! | [`Window`] | FlowBlaze's policer | one interval, one burst, packets only | 2 |
//!
//! A cost is what a rate counts: 1 for rates in packets per second, a length for rates in bytes.
//! The time that a meter is given may stand still, and one that runs backwards earns no credit
//! twice.
//!
//! A meter's `terms` are the numbers that its arithmetic is made of, for compiled code, which does
//! the same in line.

mod credit;
mod gcra;
mod single_rate;
mod two_rate;
mod window;

pub use credit::{Colour, MeterError, SECOND_NS};
pub use gcra::{Gcra, GcraState};
pub use single_rate::{SrTcm, SrTcmState};
pub use two_rate::{TrTcm, TrTcmState};
pub use window::{Window, WindowState};

#[cfg(test)]
mod tests;
