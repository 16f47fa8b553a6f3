// SPDX-License-Identifier: Apache-2.0
//! 10G-EPON physical coding sublayer (10GBASE-PR, IEEE 802.3 Clauses 49 and 76): Ethernet frames to
//! line bits and back, for OLT and ONU, downstream and in upstream bursts.
//!
//! There are two implementations of everything: [`mod@reference`], written from the standard's
//! text, bit by bit and slow, and [`fast`], on whole words with vector instructions, for the line
//! rate of 10.3125 Gb/s on a core. Tests hold them equal. Neither does I/O or reads a clock; the
//! fast one takes its memory when it is made.
//!
//! # Where to start
//!
//! Frames in, line bits out: [`stage::Transmit`], made by [`fast::Transmitter`]. Line bits in,
//! frames out: [`stage::Receive`], made by [`fast::Receiver`]. Both take chunks of any size at any
//! bit offset. Bits are packed, the first on the line in the least significant bit.
//!
//! # The stages
//!
//! | transmit, in order | receive, in reverse order | [`mod@reference`] | [`fast::stages`] |
//! |---|---|---|---|
//! | frame to vectors: preamble, LLID, CRC-8, FCS, gap | vectors to frames | `mac` | in the whole direction |
//! | idle deletion | idle insertion | `idle` | in the whole direction |
//! | 64B/66B encoder | decoder | `code_66` | `Encoder`, `Decoder` |
//! | scrambler | descrambler | `scrambler` | `Scrambler`, `Descrambler` |
//! | codewords of 27 + 4 blocks, RS(255,223) | FEC decoder | `codeword`, `reed_solomon` | `FecEncoder`, `FecDecoder` |
//! | data detector (ONU): [`burst`] | codeword lock (ONU), delimiter search (OLT) | `Receiver` | in the whole direction |
//! | gearbox | gearbox | `codeword` | `GearboxTransmit`, `GearboxReceive` |
//!
//! Each is a [`stage::Stage`], but for the frames at one end and the synchronisers at the other.
//! The whole receive direction gives frames with their block number and not a stream of vectors, so
//! that it need not insert idles: whoever wants an XGMII puts [`reference::idle::IdleInsertion`]
//! behind.
//!
//! Beside them: [`rs`], the code itself; [`line_file`], bits in files.
//!
//! What the sources leave open is in [`params`], each with the clause to check. Conformance is not
//! claimed before that.

mod ber_monitor;
pub mod block;
pub mod burst;
pub mod counters;
pub mod fast;
pub mod gf256;
pub mod line_file;
pub mod llid;
pub mod params;
pub mod reference;
pub mod rs;
mod simd;
pub mod stage;
mod transmit_room;
pub mod xgmii;

pub use simd::Simd;
