// SPDX-License-Identifier: Apache-2.0
//! The fast implementation: whole words, vector instructions, batches of codewords, no allocation
//! after construction.

mod block_queue;
mod fcs;
mod fcs_simd;
mod frame_decoder;
mod hunt;
mod line_buffer;
mod receiver;
pub mod stages;
mod transmitter;
mod words;
mod words_avx2;

pub use receiver::Receiver;
pub use transmitter::Transmitter;
