// SPDX-License-Identifier: Apache-2.0
//! The fast implementation: whole words, vector instructions, batches of codewords, no allocation
//! after construction.

mod block_queue;
mod fcs;
mod fcs_simd;
mod fcs_table;
mod frame_decoder;
mod hunt;
mod line_buffer;
mod receiver;
pub mod stages;
mod transmitter;
mod words;
mod words_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words_avx2_simd;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod words_avx512_simd;

pub use receiver::Receiver;
pub use transmitter::Transmitter;
