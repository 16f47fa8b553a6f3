// SPDX-License-Identifier: Apache-2.0
//! The whole transmit direction of the reference, stage after stage: frames go in, line bits come
//! out.

use std::collections::VecDeque;

use super::bits;
use super::code_66::Encoder;
use super::codeword;
use super::idle::IdleDeletion;
use super::mac::FrameMapper;
use super::scrambler::Scrambler;
use crate::block::Block;
use crate::burst::{DataDetector, Unit};
use crate::params::{CODEWORD_BITS, DATA_BLOCKS, FCS_LEN, FRAME_LEN_WITH_FCS_MIN, Params};
use crate::stage::{Direction, PushError, Transmit};
use crate::transmit_room;
use crate::xgmii::Vector;

/// Frames to line bits, bit by bit.
#[derive(Clone, Debug)]
pub struct Transmitter {
    params: Params,
    direction: Direction,
    mapper: FrameMapper,
    deletion: IdleDeletion,
    encoder: Encoder,
    scrambler: Scrambler,
    detector: DataDetector,
    queue: VecDeque<Block>,
    idle_run: usize,
}

impl Transmitter {
    /// A transmitter with nothing to send.
    pub fn new(direction: Direction, params: Params) -> Self {
        Self {
            direction,
            mapper: FrameMapper::default(),
            deletion: IdleDeletion::default(),
            encoder: Encoder::default(),
            scrambler: Scrambler::default(),
            detector: DataDetector::new(&params),
            queue: VecDeque::new(),
            idle_run: 0,
            params,
        }
    }

    fn enqueue(&mut self, vectors: impl IntoIterator<Item = Vector>) {
        for vector in vectors {
            if let Some(vector) = self.deletion.step(vector) {
                self.queue.push_back(self.encoder.step(vector));
            }
        }
    }

    fn next_block(&mut self) -> Block {
        while self.queue.is_empty() {
            let vector = self.mapper.idle();
            self.enqueue([vector]);
        }
        self.queue.pop_front().expect("not empty")
    }

    fn codeword(&mut self, is_first: bool) -> Vec<bool> {
        let opening = if is_first {
            self.params.opening_idles
        } else {
            0
        };
        let mut blocks = vec![Block::IDLE; opening];
        while blocks.len() < DATA_BLOCKS {
            blocks.push(self.next_block());
        }
        for block in &mut blocks {
            self.idle_run = if *block == Block::IDLE {
                self.idle_run + 1
            } else {
                0
            };
            *block = self.scrambler.step(*block);
        }
        codeword::encode(&blocks)
            .into_iter()
            .flat_map(codeword::line_bits)
            .collect()
    }
}

impl Transmit for Transmitter {
    fn push(&mut self, frame: &[u8], llid: u16) -> Result<(), PushError> {
        let len_with_fcs = frame.len().max(FRAME_LEN_WITH_FCS_MIN - FCS_LEN) + FCS_LEN;
        let max = self.params.frame_len_with_fcs_max;
        if len_with_fcs > max {
            return Err(PushError::TooLong { len_with_fcs, max });
        }
        if !transmit_room::has_room(self.waiting_blocks(), len_with_fcs, self.mapper.owed()) {
            return Err(PushError::Full);
        }
        if self.direction == Direction::Upstream
            && self.detector.is_off()
            && self.waiting_blocks() == 0
        {
            self.mapper.reset();
            self.deletion.reset(self.params.opening_idles);
        }
        let gap = self.mapper.gap();
        self.enqueue(gap);
        // A frame waits while parity has its time (FSM_MPCP): idles that are due go in front of it.
        while self.deletion.due() > 0 {
            self.enqueue([Vector::IDLE]);
        }
        let vectors = self.mapper.frame(frame, llid, self.deletion.passed());
        self.enqueue(vectors);
        Ok(())
    }

    fn pull(&mut self, line: &mut [u8], offset: usize) -> usize {
        let end = 8 * line.len();
        let mut at = offset;
        while at + CODEWORD_BITS <= end {
            let unit = match self.direction {
                Direction::Downstream => Unit::Codeword { is_first: false },
                Direction::Upstream => self.detector.next(self.waiting_blocks(), self.idle_run),
            };
            let unit = match unit {
                Unit::Silence => break,
                Unit::Block(block) => codeword::line_bits(block),
                Unit::Codeword { is_first } => self.codeword(is_first),
            };
            for bit in unit {
                bits::set(line, at, bit);
                at += 1;
            }
        }
        at - offset
    }

    fn waiting_blocks(&self) -> usize {
        self.queue.len() + usize::from(self.mapper.open_len() > 0)
    }

    fn deletion_debt_max(&self) -> usize {
        self.deletion.due_max()
    }
}
