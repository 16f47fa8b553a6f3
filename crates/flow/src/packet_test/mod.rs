//! Files of packets and times for a program, and what is expected of it: `catena flow test`.
//!
//! Beside any chain. A file is read and held to its program first (`resolve`): every name of an
//! output, a register or a table that there is not is an error with its line. Then its steps run
//! on a [`Simulation`](crate::simulate::Simulation) (`run`), and what is not as expected is told
//! with its line, what was expected and what came.
//!
//! Packets are hexadecimal digits, names of other packets, or short words (`packet`).

mod difference;
pub mod model;
mod packet;
mod resolve;
mod run;
mod state;

#[cfg(test)]
pub(crate) mod tests;

pub use resolve::{PACKET_COUNT_MAX, Plan};
pub use run::Failure;
