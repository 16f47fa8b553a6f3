// SPDX-License-Identifier: Apache-2.0
//! The slow, obvious implementation: written from the standard's text, bit by bit, and used to
//! judge the fast one. It shares with it the shape of data (blocks, vectors, counters, parameters)
//! and nothing that computes, but for the preamble of eight octets.

mod bits;
pub mod code_66;
pub mod codeword;
pub mod idle;
pub mod mac;
mod receiver;
pub mod reed_solomon;
pub mod scrambler;
mod transmitter;

pub use receiver::Receiver;
pub use transmitter::Transmitter;
