// SPDX-License-Identifier: Apache-2.0
//! The stages by themselves, for chains that put functions between them. Whole directions
//! ([`super::Transmitter`], [`super::Receiver`]) are faster than these one after the other, since
//! they keep codewords in words between stages.

use super::words::{Payload, descramble_words, pack_row, scramble_words, unpack_row};
use crate::block::{self, Block};
use crate::params::{BLOCKS, DATA_BLOCKS, FAILED_HEADER, PARITY_HEADERS};
use crate::rs::{Code, Codec, Correction, Row};
use crate::simd::Simd;
use crate::stage::{Progress, Stage};
use crate::xgmii::{Kind, Vector};

/// Codewords that are handled together.
const BATCH: usize = 32;

/// States of the diagrams of Clause 49; init, C and T do not differ in what may follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Between,
    Data,
    Error,
}

/// State behind an item of this kind; a termination leads to `Between`.
#[inline]
fn next_state(state: State, kind: Kind, start_leaves_error: bool) -> State {
    match (state, kind) {
        (State::Data | State::Error, Kind::Data) => State::Data,
        (State::Between, Kind::Start) => State::Data,
        (State::Error, Kind::Start) if start_leaves_error => State::Data,
        (State::Between | State::Error, Kind::Control) => State::Between,
        (State::Data | State::Error, Kind::Terminate) => State::Between,
        _ => State::Error,
    }
}

/// Vectors to blocks, with the state diagram of Figure 49-14.
#[derive(Clone, Debug)]
pub struct Encoder(State);

impl Default for Encoder {
    fn default() -> Self {
        Self(State::Between)
    }
}

impl Stage for Encoder {
    type In = Vector;
    type Out = Block;

    fn process(&mut self, input: &[Vector], output: &mut [Block]) -> Progress {
        let count = input.len().min(output.len());
        for (vector, out) in input.iter().zip(output) {
            let (block, kind) = block::encode(*vector);
            self.0 = next_state(self.0, kind, false);
            *out = match self.0 {
                State::Error => Block::ERROR,
                _ => block,
            };
        }
        Progress {
            consumed: count,
            produced: count,
        }
    }
}

/// Blocks to vectors, one block behind, with the state diagram of Figure 49-15.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    held: Option<(Vector, Kind)>,
    start_leaves_error: bool,
}

impl Decoder {
    /// A decoder in its initial state.
    pub fn new(start_leaves_error: bool) -> Self {
        Self {
            state: State::Between,
            held: None,
            start_leaves_error,
        }
    }
}

impl Stage for Decoder {
    type In = Block;
    type Out = Vector;

    fn process(&mut self, input: &[Block], output: &mut [Vector]) -> Progress {
        let mut progress = Progress::default();
        for block in input {
            if progress.produced == output.len() {
                break;
            }
            progress.consumed += 1;
            let (next, next_kind) = block::decode(*block);
            let Some((vector, kind)) = self.held.replace((next, next_kind)) else {
                continue;
            };
            let fits = matches!(next_kind, Kind::Start | Kind::Control);
            let kind = match kind {
                Kind::Terminate if !fits => Kind::Error,
                kind => kind,
            };
            self.state = next_state(self.state, kind, self.start_leaves_error);
            output[progress.produced] = match self.state {
                State::Error => Vector::ERROR,
                _ => vector,
            };
            progress.produced += 1;
        }
        progress
    }
}

/// Scrambles payloads.
#[derive(Clone, Debug)]
pub struct Scrambler(u64);

impl Default for Scrambler {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl Stage for Scrambler {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let count = input.len().min(output.len());
        for (block, out) in input.iter().zip(output) {
            let mut word = [block.payload];
            scramble_words(&mut word, &mut self.0);
            *out = Block {
                payload: word[0],
                ..*block
            };
        }
        Progress {
            consumed: count,
            produced: count,
        }
    }
}

/// Undoes [`Scrambler`], from the second block on whatever its state was.
#[derive(Clone, Debug)]
pub struct Descrambler(u64);

impl Default for Descrambler {
    fn default() -> Self {
        Self(u64::MAX)
    }
}

impl Stage for Descrambler {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let count = input.len().min(output.len());
        for (block, out) in input.iter().zip(output) {
            let mut word = [0];
            descramble_words(&[self.0, block.payload], &mut word);
            self.0 = block.payload;
            *out = Block {
                payload: word[0],
                ..*block
            };
        }
        Progress {
            consumed: count,
            produced: count,
        }
    }
}

/// Groups of 27 blocks to codewords of 31.
#[derive(Clone, Debug)]
pub struct FecEncoder(Codec);

impl FecEncoder {
    /// An encoder at a level of vector instructions.
    pub fn new(simd: Simd) -> Self {
        Self(Codec::new(Code::EPON, simd))
    }
}

/// Row of the first 27 blocks, and parity if there are 31.
fn row(blocks: &[Block]) -> Row {
    let mut payload = [0; BLOCKS];
    let mut is_data = 0;
    for (k, block) in blocks.iter().enumerate() {
        payload[k] = block.payload;
        is_data |= u32::from(block.header >> 1 & 1) << k;
    }
    pack_row(&payload, is_data & super::words::DATA_MASK)
}

impl Stage for FecEncoder {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let count = (input.len() / DATA_BLOCKS).min(output.len() / BLOCKS);
        let mut rows = [Row::ZERO; BATCH];
        let groups = input.chunks(BATCH * DATA_BLOCKS);
        for (first, group) in (0..count).step_by(BATCH).zip(groups) {
            let rows = &mut rows[..(count - first).min(BATCH)];
            for (row_of, blocks) in rows.iter_mut().zip(group.chunks_exact(DATA_BLOCKS)) {
                *row_of = row(blocks);
            }
            self.0.encode_rows(rows);
            let codewords = output[first * BLOCKS..].chunks_exact_mut(BLOCKS);
            for ((row, blocks), out) in rows.iter().zip(group.chunks(DATA_BLOCKS)).zip(codewords) {
                out[..DATA_BLOCKS].copy_from_slice(blocks);
                let parity = row.0[crate::rs::ROW - crate::rs::PARITY..]
                    .as_chunks::<8>()
                    .0;
                for (k, octets) in parity.iter().enumerate() {
                    out[DATA_BLOCKS + k] = Block {
                        payload: u64::from_le_bytes(*octets),
                        header: PARITY_HEADERS[k],
                    };
                }
            }
        }
        Progress {
            consumed: count * DATA_BLOCKS,
            produced: count * BLOCKS,
        }
    }
}

/// Codewords of 31 blocks to groups of 27, corrected or marked.
#[derive(Clone, Debug)]
pub struct FecDecoder(Codec);

impl FecDecoder {
    /// A decoder at a level of vector instructions.
    pub fn new(simd: Simd) -> Self {
        Self(Codec::new(Code::EPON, simd))
    }
}

impl Stage for FecDecoder {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let count = (input.len() / BLOCKS).min(output.len() / DATA_BLOCKS);
        let mut rows = [Row::ZERO; BATCH];
        let mut verdicts = [Correction::Clean; BATCH];
        for first in (0..count).step_by(BATCH) {
            let rows = &mut rows[..(count - first).min(BATCH)];
            let codewords = input[first * BLOCKS..].chunks_exact(BLOCKS);
            for (row_of, blocks) in rows.iter_mut().zip(codewords) {
                *row_of = row(blocks);
            }
            self.0.decode_rows(rows, &mut verdicts);
            let groups = output[first * DATA_BLOCKS..].chunks_exact_mut(DATA_BLOCKS);
            for ((row, verdict), out) in rows.iter().zip(&verdicts).zip(groups) {
                let Payload { words, is_data } = unpack_row(row);
                let is_failed = *verdict == Correction::Uncorrectable;
                for (k, (out, payload)) in out.iter_mut().zip(words).enumerate() {
                    let header = match is_data >> k & 1 {
                        _ if is_failed => FAILED_HEADER,
                        1 => block::DATA,
                        _ => block::CONTROL,
                    };
                    *out = Block { payload, header };
                }
            }
        }
        Progress {
            consumed: count * BLOCKS,
            produced: count * DATA_BLOCKS,
        }
    }
}

/// Blocks to line bytes. Bits that do not yet fill a byte wait for the next call.
#[derive(Clone, Debug, Default)]
pub struct GearboxTransmit {
    bits: u8,
    count: usize,
}

impl GearboxTransmit {
    /// With so many zero bits in front of the first block.
    ///
    /// # Panics
    ///
    /// If there are more than seven: whole bytes are the caller's.
    pub fn new(offset: usize) -> Self {
        assert!(offset < 8, "an offset within a byte");
        Self {
            bits: 0,
            count: offset,
        }
    }
}

impl Stage for GearboxTransmit {
    type In = Block;
    type Out = u8;

    fn process(&mut self, input: &[Block], output: &mut [u8]) -> Progress {
        let mut progress = Progress::default();
        for block in input {
            let total = self.count + crate::params::BLOCK_BITS;
            let Some(out) = output.get_mut(progress.produced..progress.produced + total / 8) else {
                break;
            };
            let block = u128::from(block.payload) << 2 | u128::from(block.header);
            let bytes = (u128::from(self.bits) | block << self.count).to_le_bytes();
            out[..8].copy_from_slice(&bytes[..8]);
            if out.len() == 9 {
                out[8] = bytes[8];
            }
            self.bits = bytes[out.len()];
            self.count = total % 8;
            progress.consumed += 1;
            progress.produced += out.len();
        }
        progress
    }
}

/// Line bytes to blocks that begin at a bit offset.
#[derive(Clone, Debug, Default)]
pub struct GearboxReceive {
    skip: usize,
    bits: u128,
    count: usize,
}

impl GearboxReceive {
    /// The first block begins at this bit.
    ///
    /// # Panics
    ///
    /// If it is not in the first byte.
    pub fn new(offset: usize) -> Self {
        assert!(offset < 8, "an offset within a byte");
        Self {
            skip: offset,
            bits: 0,
            count: 0,
        }
    }

    #[inline]
    fn take(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.bits |= u128::from(byte >> self.skip) << self.count;
            self.count += 8 - self.skip;
            self.skip = 0;
        }
    }
}

impl Stage for GearboxReceive {
    type In = u8;
    type Out = Block;

    fn process(&mut self, input: &[u8], output: &mut [Block]) -> Progress {
        let mut progress = Progress::default();
        for out in output {
            let left = &input[progress.consumed..];
            let missing = crate::params::BLOCK_BITS + self.skip - self.count;
            let Some((bytes, _)) = left.split_at_checked(missing.div_ceil(8)) else {
                self.take(left);
                progress.consumed = input.len();
                break;
            };
            if let (Some((word, rest)), 0) = (bytes.split_first_chunk::<8>(), self.skip) {
                self.bits |= u128::from(u64::from_le_bytes(*word)) << self.count;
                self.count += 64;
                self.take(rest);
            } else {
                self.take(bytes);
            }
            progress.consumed += bytes.len();
            *out = Block {
                header: (self.bits & 3) as u8,
                payload: (self.bits >> 2) as u64,
            };
            self.bits >>= crate::params::BLOCK_BITS;
            self.count -= crate::params::BLOCK_BITS;
            progress.produced += 1;
        }
        progress
    }
}
