// SPDX-License-Identifier: Apache-2.0
//! Codewords of 27 payload and 4 parity blocks, and the gearbox between blocks and line bits
//! (IEEE 802.3 76.3.2.4, 76.3.2.6, 76.3.3.3).
//!
//! The code protects 29 zeros, then 65 bits of each block: the second header bit and the payload.
//! Octets are filled from their lowest bit.

use super::{bits, reed_solomon};
use crate::block::Block;
use crate::params::{
    BLOCK_BITS, BLOCKS, DATA_BLOCKS, FAILED_HEADER, KEPT_HEADER_BIT, PAD_BITS, PARITY_HEADERS,
};
use crate::rs::Correction;
use crate::stage::{Progress, Stage};

/// The octets that the code protects, D222 first.
fn protected(blocks: &[Block]) -> Vec<u8> {
    let mut line = vec![false; PAD_BITS];
    for block in &blocks[..DATA_BLOCKS] {
        line.push(block.header >> KEPT_HEADER_BIT & 1 == 1);
        line.extend(bits::of(block.payload, 64));
    }
    bits::octets(&line)
}

/// A codeword of 27 blocks.
pub fn encode(blocks: &[Block]) -> [Block; BLOCKS] {
    let parity = reed_solomon::parity(&protected(blocks));
    let mut codeword = [Block::default(); BLOCKS];
    codeword[..DATA_BLOCKS].copy_from_slice(&blocks[..DATA_BLOCKS]);
    for (i, header) in PARITY_HEADERS.into_iter().enumerate() {
        let octets = parity[8 * i..8 * i + 8].try_into().expect("8 octets");
        codeword[DATA_BLOCKS + i] = Block {
            payload: u64::from_le_bytes(octets),
            header,
        };
    }
    codeword
}

/// The 27 blocks of a codeword, corrected or marked.
pub fn decode(codeword: &[Block]) -> ([Block; DATA_BLOCKS], Correction) {
    let mut octets = protected(codeword);
    for block in &codeword[DATA_BLOCKS..BLOCKS] {
        octets.extend(block.payload.to_le_bytes());
    }
    let mut word = octets.try_into().expect("223 octets and 32");
    let verdict = reed_solomon::decode(&mut word);
    let line: Vec<bool> = (PAD_BITS..223 * 8).map(|i| bits::at(&word, i)).collect();
    let mut blocks = [Block::default(); DATA_BLOCKS];
    for (block, bits) in blocks.iter_mut().zip(line.chunks(65)) {
        let kept = u8::from(bits[0]);
        let header = match KEPT_HEADER_BIT {
            1 => kept << 1 | (1 - kept),
            _ => (1 - kept) << 1 | kept,
        };
        *block = Block {
            payload: bits::number(&bits[1..]),
            header: match verdict {
                Correction::Uncorrectable => FAILED_HEADER,
                _ => header,
            },
        };
    }
    (blocks, verdict)
}

/// Whether the two header bits of block `block` of a codeword are what they must be.
pub fn header_fits(block: usize, header: &[bool]) -> bool {
    match block.checked_sub(DATA_BLOCKS) {
        None => header[0] != header[1],
        Some(parity) => bits::number(header) as u8 == PARITY_HEADERS[parity],
    }
}

/// Headers of a codeword that are not what they must be.
pub fn header_errors(codeword: &[Block]) -> usize {
    let (data, parity) = codeword.split_at(DATA_BLOCKS);
    let in_data = data.iter().filter(|b| b.header == 0b00 || b.header == 0b11);
    let in_parity = parity.iter().zip(PARITY_HEADERS);
    in_data.count() + in_parity.filter(|(b, header)| b.header != *header).count()
}

/// 66 line bits of a block.
pub fn line_bits(block: Block) -> Vec<bool> {
    let mut line = bits::of(block.header.into(), 2);
    line.extend(bits::of(block.payload, 64));
    line
}

/// The block of 66 line bits.
pub fn block(line: &[bool]) -> Block {
    Block {
        header: bits::number(&line[..2]) as u8,
        payload: bits::number(&line[2..BLOCK_BITS]),
    }
}

/// Groups of 27 blocks to codewords of 31.
#[derive(Clone, Debug, Default)]
pub struct FecEncoder;

impl Stage for FecEncoder {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let mut count = 0;
        for (blocks, codeword) in input
            .chunks_exact(DATA_BLOCKS)
            .zip(output.chunks_exact_mut(BLOCKS))
        {
            codeword.copy_from_slice(&encode(blocks));
            count += 1;
        }
        Progress {
            consumed: count * DATA_BLOCKS,
            produced: count * BLOCKS,
        }
    }
}

/// Codewords of 31 blocks to groups of 27, corrected or marked.
#[derive(Clone, Debug, Default)]
pub struct FecDecoder;

impl Stage for FecDecoder {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        let mut count = 0;
        for (codeword, blocks) in input
            .chunks_exact(BLOCKS)
            .zip(output.chunks_exact_mut(DATA_BLOCKS))
        {
            blocks.copy_from_slice(&decode(codeword).0);
            count += 1;
        }
        Progress {
            consumed: count * BLOCKS,
            produced: count * DATA_BLOCKS,
        }
    }
}

/// Blocks to line bytes. Bits that do not yet fill a byte wait for the next call.
#[derive(Clone, Debug, Default)]
pub struct GearboxTransmit(Vec<bool>);

impl GearboxTransmit {
    /// With so many zero bits in front of the first block; whole bytes are the caller's.
    pub fn new(offset: usize) -> Self {
        Self(vec![false; offset])
    }
}

impl Stage for GearboxTransmit {
    type In = Block;
    type Out = u8;

    fn process(&mut self, input: &[Block], output: &mut [u8]) -> Progress {
        let mut progress = Progress::default();
        for block in input {
            let count = (self.0.len() + BLOCK_BITS) / 8;
            let Some(bytes) = output.get_mut(progress.produced..progress.produced + count) else {
                break;
            };
            self.0.extend(line_bits(*block));
            let left = self.0.split_off(8 * count);
            bytes.copy_from_slice(&bits::octets(&self.0));
            self.0 = left;
            progress.consumed += 1;
            progress.produced += count;
        }
        progress
    }
}

/// Line bytes to blocks that begin at a bit offset.
#[derive(Clone, Debug, Default)]
pub struct GearboxReceive {
    skip: usize,
    waiting: Vec<bool>,
}

impl GearboxReceive {
    /// The first block begins at this bit.
    pub fn new(offset: usize) -> Self {
        Self {
            skip: offset,
            waiting: Vec::new(),
        }
    }
}

impl Stage for GearboxReceive {
    type In = u8;
    type Out = Block;

    fn process(&mut self, input: &[u8], output: &mut [Block]) -> Progress {
        let mut progress = Progress::default();
        for byte in input {
            if progress.produced == output.len() {
                break;
            }
            progress.consumed += 1;
            for bit in bits::of((*byte).into(), 8) {
                match self.skip {
                    0 => self.waiting.push(bit),
                    _ => self.skip -= 1,
                }
            }
            if self.waiting.len() >= BLOCK_BITS {
                output[progress.produced] = block(&self.waiting);
                self.waiting.drain(..BLOCK_BITS);
                progress.produced += 1;
            }
        }
        progress
    }
}
