// SPDX-License-Identifier: Apache-2.0
//! The self-synchronising scrambler 1 + x^39 + x^58, one bit at a time (IEEE 802.3 49.2.6,
//! 49.2.10). Headers are not scrambled, and parity blocks do not pass here.

use std::collections::VecDeque;

use super::bits;
use crate::block::Block;
use crate::stage::{Progress, Stage};

/// The last 58 bits on the line, the latest first.
#[derive(Clone, Debug)]
struct Register(VecDeque<bool>);

impl Register {
    fn new(first: bool) -> Self {
        Self(VecDeque::from(vec![first; 58]))
    }

    fn tap(&self) -> bool {
        self.0[38] ^ self.0[57]
    }

    fn shift(&mut self, bit: bool) {
        self.0.pop_back();
        self.0.push_front(bit);
    }
}

fn one_to_one(
    input: &[Block],
    output: &mut [Block],
    mut step: impl FnMut(Block) -> Block,
) -> Progress {
    let count = input.len().min(output.len());
    for (from, to) in input.iter().zip(output) {
        *to = step(*from);
    }
    Progress {
        consumed: count,
        produced: count,
    }
}

/// Scrambles payloads. Any start state is allowed; this one starts with ones.
#[derive(Clone, Debug)]
pub struct Scrambler(Register);

impl Default for Scrambler {
    fn default() -> Self {
        Self(Register::new(true))
    }
}

impl Scrambler {
    /// The block with its payload scrambled.
    pub fn step(&mut self, block: Block) -> Block {
        let scrambled: Vec<bool> = bits::of(block.payload, 64)
            .into_iter()
            .map(|bit| {
                let bit = bit ^ self.0.tap();
                self.0.shift(bit);
                bit
            })
            .collect();
        Block {
            payload: bits::number(&scrambled),
            ..block
        }
    }
}

impl Stage for Scrambler {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        one_to_one(input, output, |block| self.step(block))
    }
}

/// Undoes [`Scrambler`] from the second block on, whatever its state was.
#[derive(Clone, Debug)]
pub struct Descrambler(Register);

impl Default for Descrambler {
    fn default() -> Self {
        Self(Register::new(true))
    }
}

impl Descrambler {
    /// The block with its payload descrambled.
    pub fn step(&mut self, block: Block) -> Block {
        let plain: Vec<bool> = bits::of(block.payload, 64)
            .into_iter()
            .map(|bit| {
                let plain = bit ^ self.0.tap();
                self.0.shift(bit);
                plain
            })
            .collect();
        Block {
            payload: bits::number(&plain),
            ..block
        }
    }
}

impl Stage for Descrambler {
    type In = Block;
    type Out = Block;

    fn process(&mut self, input: &[Block], output: &mut [Block]) -> Progress {
        one_to_one(input, output, |block| self.step(block))
    }
}
