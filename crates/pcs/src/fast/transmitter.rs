// SPDX-License-Identifier: Apache-2.0
//! The whole transmit direction. Pushing a frame makes its blocks at once, after idle deletion;
//! pulling takes 27 blocks a codeword through scrambler, Reed-Solomon and gearbox, up to 32
//! codewords at a time.
//!
//! Gaps and deletion are those of `reference/mac.rs` and `reference/idle.rs`, counted instead of
//! carried out octet by octet.

use super::block_queue::BlockQueue;
use super::fcs::fcs;
use super::words::{self, Payload, ScramblerState};
use super::words_avx2::{scramble_into_rows, store_codewords};
use crate::block::{Block, TYPE_START_0, TYPE_START_4, TYPE_TERMINATE};
use crate::burst::{DataDetector, Unit};
use crate::llid;
use crate::params::{
    BLOCK_BITS, CODEWORD_BITS, DATA_BLOCKS, FCS_LEN, FRAME_LEN_WITH_FCS_MIN, GAP_LEN,
    PARITY_BLOCKS, PREAMBLE_LEN, Params,
};
use crate::rs::{Code, Codec, Row};
use crate::simd::Simd;
use crate::stage::{Direction, PushError, Transmit};
use crate::transmit_room;

/// Codewords that are encoded together.
const BATCH: usize = 32;

/// Frames to line bits. Memory is taken when it is made, never later.
#[derive(Clone, Debug)]
pub struct Transmitter {
    params: Params,
    direction: Direction,
    simd: Simd,
    codec: Codec,
    detector: DataDetector,
    queue: BlockQueue,
    /// A termination whose vector is not complete, and the octets of the vector.
    open: u64,
    open_len: usize,
    owed: usize,
    deficit: usize,
    /// Blocks that passed since deletions became due, and deletions due.
    passed: usize,
    due: usize,
    due_max: usize,
    idle_run: usize,
    scrambler: ScramblerState,
    payload: Box<[Payload; BATCH]>,
    rows: Box<[Row; BATCH]>,
}

impl Transmitter {
    /// A transmitter with nothing to send.
    pub fn new(direction: Direction, params: Params, simd: Simd) -> Self {
        Self {
            direction,
            simd,
            codec: Codec::new(Code::FULL, simd),
            detector: DataDetector::new(&params),
            queue: BlockQueue::new(),
            open: 0,
            open_len: 0,
            owed: 0,
            deficit: 0,
            passed: 0,
            due: 0,
            due_max: 0,
            idle_run: 0,
            scrambler: ScramblerState::default(),
            payload: Box::new([Payload::default(); BATCH]),
            rows: Box::new([Row::ZERO; BATCH]),
            params,
        }
    }

    /// So many blocks passed idle deletion.
    #[inline]
    fn pass(&mut self, count: usize) {
        self.passed += count;
        while self.passed >= DATA_BLOCKS {
            self.passed -= DATA_BLOCKS;
            self.due += PARITY_BLOCKS;
            self.due_max = self.due_max.max(self.due);
        }
    }

    #[inline]
    fn push_control(&mut self, word: u64) {
        self.queue.push_control(word);
        self.pass(1);
    }

    /// One vector without a start: the rest of an open one, or idles.
    #[inline]
    fn idle_vector(&mut self) {
        self.owed = self.owed.saturating_sub(8 - self.open_len);
        if self.open_len > 0 {
            self.open_len = 0;
            self.push_control(self.open);
        } else if self.due > 0 {
            self.due -= 1;
        } else {
            self.push_control(Block::IDLE.payload);
        }
    }

    /// As many vectors without a start as `idle_vector` would make until less than one is owed.
    #[inline]
    fn gap(&mut self) {
        if self.open_len + self.owed < 8 {
            return;
        }
        self.idle_vector();
        let mut left = self.owed / 8;
        self.owed %= 8;
        while left > 0 {
            let deleted = left.min(self.due);
            self.due -= deleted;
            left -= deleted;
            // Idles that are kept, until deletions become due again.
            let kept = left.min(DATA_BLOCKS - self.passed);
            for _ in 0..kept {
                self.queue.push_control(Block::IDLE.payload);
            }
            self.pass(kept);
            left -= kept;
        }
    }

    /// Blocks of preamble and frame, whose start is in lane `lane`. The frame is padded to `len`
    /// octets and gets its check sequence.
    #[inline]
    fn push_blocks(&mut self, frame: &[u8], len: usize, llid: u16, lane: usize) {
        let preamble = u64::from_le_bytes(llid::preamble(llid));
        if lane == 0 {
            self.queue
                .push_control(preamble & !0xff | u64::from(TYPE_START_0));
        } else {
            // /S/ and three octets in the upper half; idles, whose code is zero, in the lower.
            let upper = preamble >> 8 << 40;
            self.queue.push_control(upper | u64::from(TYPE_START_4));
        }
        // The rest of the preamble, if the start is in lane 4, then the frame.
        let count = lane + len + FCS_LEN;
        let octets = self.queue.octets_behind(count);
        let (before, rest) = octets.split_at_mut(lane);
        if lane == 4 {
            before.copy_from_slice(&preamble.to_le_bytes()[4..]);
        }
        rest[..frame.len()].copy_from_slice(frame);
        // The check sequence is that of the caller's octets where none are added: octets that were
        // just written can be read at another alignment only after a wait.
        let complete = if frame.len() < len {
            rest[frame.len()..len].fill(0);
            &rest[..len]
        } else {
            frame
        };
        let sequence = fcs(self.simd, complete);
        let tail = complete
            .last_chunk()
            .expect("a frame has 60 octets or more");
        let tail = u128::from(u64::from_le_bytes(*tail));
        let tail = tail | u128::from(u32::from_le_bytes(sequence)) << 64;
        rest[len..].copy_from_slice(&sequence);
        let rest = count % 8;
        self.queue.push_data(count - rest);
        self.pass(1 + count / 8);
        // The last octets of twelve, behind the type.
        let last = (tail >> (8 * (12 - rest))) as u64;
        self.open = u64::from(TYPE_TERMINATE[rest]) | last << 8;
        self.open_len = rest + 1;
        if self.open_len == 8 {
            self.open_len = 0;
            self.push_control(self.open);
        }
    }

    /// The gap behind a frame, that began at `offset` octets within a codeword's payload.
    #[inline]
    fn owe(&mut self, offset: usize, len_with_fcs: usize) {
        let length = PREAMBLE_LEN + len_with_fcs;
        let over = (offset + length + GAP_LEN) % 4;
        let gap = if over + self.deficit <= 3 {
            self.deficit += over;
            GAP_LEN - over
        } else {
            self.deficit -= 4 - over;
            GAP_LEN + 4 - over
        };
        let codewords = (offset + length + gap) / (8 * DATA_BLOCKS);
        // The termination is part of the gap and has been sent.
        self.owed = gap + codewords * 8 * PARITY_BLOCKS - 1;
    }

    /// Puts the next codeword's payload at a place of the batch.
    #[inline]
    fn fill(&mut self, place: usize, is_first: bool) {
        let opening = match is_first {
            true => self.params.opening_idles.min(DATA_BLOCKS),
            false => 0,
        };
        let wanted = DATA_BLOCKS - opening;
        if self.queue.len() < wanted {
            self.queue.make_room(DATA_BLOCKS);
            while self.queue.len() < wanted {
                self.idle_vector();
            }
        }
        let payload = &mut self.payload[place];
        payload.words[..opening].fill(Block::IDLE.payload);
        payload.is_data = 0;
        self.queue.take(opening, payload);
        if self.direction == Direction::Upstream {
            let is_idle = |k: &usize| {
                payload.is_data >> k & 1 == 0 && payload.words[*k] == Block::IDLE.payload
            };
            let run = (0..DATA_BLOCKS).rev().take_while(is_idle).count();
            self.idle_run = if run == DATA_BLOCKS {
                self.idle_run + run
            } else {
                run
            };
        }
    }

    /// Sends the first `count` codewords of the batch from bit `at` on.
    fn send(&mut self, count: usize, line: &mut [u8], at: usize) {
        let (payload, rows) = (&mut self.payload[..count], &mut self.rows[..count]);
        scramble_into_rows(self.simd, payload, &mut self.scrambler, rows);
        self.codec.encode_rows(rows);
        store_codewords(self.simd, payload, rows, line, at);
    }
}

impl Transmit for Transmitter {
    fn push(&mut self, frame: &[u8], llid: u16) -> Result<(), PushError> {
        let len = frame.len().max(FRAME_LEN_WITH_FCS_MIN - FCS_LEN);
        let len_with_fcs = len + FCS_LEN;
        let max = self.params.frame_len_with_fcs_max;
        if len_with_fcs > max {
            return Err(PushError::TooLong { len_with_fcs, max });
        }
        if !transmit_room::has_room(self.waiting_blocks(), len_with_fcs, self.owed) {
            return Err(PushError::Full);
        }
        let opens_burst = self.direction == Direction::Upstream
            && self.detector.is_off()
            && self.waiting_blocks() == 0;
        if opens_burst {
            (self.owed, self.deficit, self.due) = (0, 0, 0);
            self.passed = self.params.opening_idles;
        }
        self.queue.make_room((len_with_fcs + self.owed) / 8 + 4);
        self.gap();
        // A frame waits while parity has its time (FSM_MPCP): idles that are due go in front of it.
        self.due = 0;
        let lane = self.owed;
        self.owed = 0;
        let offset = 8 * self.passed + lane;
        self.push_blocks(frame, len, llid, lane);
        self.owe(offset, len_with_fcs);
        Ok(())
    }

    fn pull(&mut self, line: &mut [u8], offset: usize) -> usize {
        let end = 8 * line.len();
        let mut at = offset;
        // Codewords of the batch that are made but not written; `at` is the first one's place.
        let mut batch = 0;
        while at + (batch + 1) * CODEWORD_BITS <= end {
            let unit = match self.direction {
                Direction::Downstream => Unit::Codeword { is_first: false },
                Direction::Upstream => self.detector.next(self.waiting_blocks(), self.idle_run),
            };
            if let Unit::Codeword { is_first } = unit {
                self.fill(batch, is_first);
                batch += 1;
            }
            if batch == BATCH || (batch > 0 && !matches!(unit, Unit::Codeword { .. })) {
                self.send(batch, line, at);
                at += batch * CODEWORD_BITS;
                batch = 0;
            }
            match unit {
                Unit::Silence => break,
                Unit::Block(block) => {
                    let low = u64::from(block.header) | block.payload << 2;
                    let high = block.payload >> 62;
                    words::store_bits(&[low, high], BLOCK_BITS, line, at);
                    at += BLOCK_BITS;
                }
                Unit::Codeword { .. } => {}
            }
        }
        self.send(batch, line, at);
        at + batch * CODEWORD_BITS - offset
    }

    fn waiting_blocks(&self) -> usize {
        self.queue.len() + usize::from(self.open_len > 0)
    }

    fn deletion_debt_max(&self) -> usize {
        self.due_max
    }
}
