// SPDX-License-Identifier: Apache-2.0
//! From descrambled payload to frames in one go: the 66B/64B decoder with the state diagram of
//! Figure 49-15, and what reconciliation does with preambles.
//!
//! Runs of data blocks are copied as they are; only control blocks are looked at. A termination
//! waits for the next block, which decides whether it counts. States and transitions are those of
//! `reference/code_66.rs`; the tables there hold here.

use super::fcs::fcs;
use super::words::Payload;
use crate::block::{Block, TYPE_START_0, control_kind, terminate_lane};
use crate::counters::Counters;
use crate::llid::{self, Accept, PreambleError};
use crate::params::{DATA_BLOCKS, FCS_LEN, FRAME_LEN_WITH_FCS_MIN, PREAMBLE_LEN, Params};
use crate::simd::Simd;
use crate::stage::{FrameSink, Received, line_bits_of};
use crate::xgmii::{Kind, START};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Init, C or T: between frames.
    Between,
    /// D.
    Data,
    /// A termination came; T if start or control follows, else E.
    Ending,
    /// E.
    Error,
}

/// Decoder and frame buffer.
#[derive(Clone, Debug)]
pub(super) struct FrameDecoder {
    simd: Simd,
    accept: Accept,
    len_max: usize,
    start_leaves_error: bool,
    state: State,
    /// Whether a start was seen and neither end nor error since.
    is_in_frame: bool,
    /// Octets since the start; those beyond the limit are counted and not kept.
    octets: Box<[u8]>,
    len: usize,
    /// Payload block of that start, and the line bit at which it began.
    start: (u64, u64),
    /// First payload block of this lock or burst, and the line bit at which it began.
    origin: (u64, u64),
    /// Whether frames that end are withheld.
    withholds: bool,
    /// Payload blocks taken in.
    blocks: u64,
}

impl FrameDecoder {
    pub(super) fn new(simd: Simd, accept: Accept, params: &Params) -> Self {
        let room = PREAMBLE_LEN + params.frame_len_with_fcs_max + 8 * (DATA_BLOCKS + 2);
        Self {
            simd,
            accept,
            len_max: params.frame_len_with_fcs_max,
            start_leaves_error: params.start_leaves_error,
            state: State::Between,
            is_in_frame: false,
            octets: vec![0; room].into_boxed_slice(),
            len: 0,
            start: (0, 0),
            origin: (0, 0),
            withholds: false,
            blocks: 0,
        }
    }

    /// A lock or burst begins, with a codeword at line bit `bit`.
    pub(super) fn begin(&mut self, bit: u64) {
        self.reset();
        self.origin = (self.blocks, bit);
    }

    /// Frames that end from here on are withheld, or not.
    #[inline]
    pub(super) fn withhold(&mut self, they_are: bool) {
        self.withholds = they_are;
    }

    /// Back to the initial state, outside frames.
    fn reset(&mut self) {
        self.state = State::Between;
        self.is_in_frame = false;
    }

    /// Takes a codeword. With `skips_first`, its first block is none.
    pub(super) fn codeword(
        &mut self,
        payload: &Payload,
        skips_first: bool,
        counters: &mut Counters,
        sink: &mut dyn FrameSink,
    ) {
        let mut block = 0;
        if skips_first {
            self.error(counters);
            block = 1;
        }
        while block < DATA_BLOCKS {
            let run = (payload.is_data >> block).trailing_ones() as usize;
            if run > 0 {
                self.data(&payload.words[block..block + run], counters);
                block += run;
                continue;
            }
            let word = payload.words[block];
            // Idle between frames, much the most frequent control block.
            if word != Block::IDLE.payload || self.state != State::Between {
                self.control(word, self.blocks + block as u64, counters, sink);
            }
            block += 1;
        }
        self.blocks += DATA_BLOCKS as u64;
    }

    /// Takes the blocks of an uncorrectable codeword, all marked.
    pub(super) fn failed_codeword(&mut self, skips_first: bool, counters: &mut Counters) {
        self.error(counters);
        counters.blocks_invalid += (DATA_BLOCKS - usize::from(skips_first)) as u64;
        self.blocks += DATA_BLOCKS as u64;
    }

    /// Lock or burst ends; the last block counts as followed by one of this kind.
    pub(super) fn end(&mut self, next: Kind, counters: &mut Counters, sink: &mut dyn FrameSink) {
        if self.state == State::Ending {
            if next == Kind::Control {
                self.complete(counters, sink);
            } else {
                self.error(counters);
            }
        }
        counters.drops.cut += u64::from(self.is_in_frame);
        self.reset();
    }

    /// To the error state; a frame in progress ends.
    fn error(&mut self, counters: &mut Counters) {
        counters.drops.coding += u64::from(self.is_in_frame);
        self.is_in_frame = false;
        self.state = State::Error;
    }

    /// A run of data blocks.
    #[inline]
    fn data(&mut self, words: &[u64], counters: &mut Counters) {
        match self.state {
            State::Data => {
                if self.is_in_frame {
                    self.append_words(words);
                }
            }
            State::Error => self.state = State::Data,
            State::Between | State::Ending => {
                self.error(counters);
                if words.len() > 1 {
                    self.state = State::Data;
                }
            }
        }
    }

    fn control(
        &mut self,
        word: u64,
        block: u64,
        counters: &mut Counters,
        sink: &mut dyn FrameSink,
    ) {
        let lane = terminate_lane(word as u8);
        let kind = match lane {
            // Idles behind the termination are all zero; shifts of 64 do not exist.
            Some(lane) if word >> (8 + 7 * lane) >> 7 == 0 || lane == 7 => Kind::Terminate,
            _ => control_kind(word),
        };
        if self.state == State::Ending {
            if matches!(kind, Kind::Start | Kind::Control) {
                self.complete(counters, sink);
                self.state = State::Between;
            } else {
                self.error(counters);
            }
        }
        counters.blocks_invalid += u64::from(kind == Kind::Error);
        match (self.state, kind) {
            (State::Between | State::Error, Kind::Control) => self.state = State::Between,
            (State::Between, Kind::Start) => self.start(word, block),
            (State::Error, Kind::Start) if self.start_leaves_error => self.start(word, block),
            (State::Data | State::Error, Kind::Terminate) => {
                self.state = State::Ending;
                if self.is_in_frame {
                    let count = lane.unwrap_or(0);
                    self.append_octets((word >> 8).to_le_bytes(), count);
                }
            }
            _ => self.error(counters),
        }
    }

    fn start(&mut self, word: u64, block: u64) {
        self.state = State::Data;
        self.is_in_frame = true;
        let (first, bit) = self.origin;
        self.start = (block, bit + line_bits_of(block - first));
        self.octets[0] = START;
        self.len = 1;
        let octets = word.to_le_bytes();
        if word as u8 == TYPE_START_0 {
            self.octets[1..8].copy_from_slice(&octets[1..]);
            self.len = 8;
        } else {
            self.octets[1..4].copy_from_slice(&octets[5..]);
            self.len = 4;
        }
    }

    #[inline]
    fn append_words(&mut self, words: &[u64]) {
        if let Some(place) = self.octets.get_mut(self.len..self.len + 8 * words.len()) {
            let (place, _) = place.as_chunks_mut::<8>();
            if let (Some(place), Some(words)) = (
                place.first_chunk_mut::<DATA_BLOCKS>(),
                words.first_chunk::<DATA_BLOCKS>(),
            ) {
                // A whole codeword, which is what most of a long frame is. Of constant length, so
                // that it is no call.
                for (place, word) in place.iter_mut().zip(words) {
                    *place = word.to_le_bytes();
                }
            } else {
                for (place, word) in place.iter_mut().zip(words) {
                    *place = word.to_le_bytes();
                }
            }
        }
        self.len += 8 * words.len();
    }

    #[inline]
    fn append_octets(&mut self, octets: [u8; 8], count: usize) {
        // The octets behind the last one are overwritten or ignored.
        if let Some(place) = self.octets.get_mut(self.len..self.len + 8) {
            place.copy_from_slice(&octets);
        }
        self.len += count;
    }

    /// A frame came to its end, if there is one.
    fn complete(&mut self, counters: &mut Counters, sink: &mut dyn FrameSink) {
        if !core::mem::replace(&mut self.is_in_frame, false) {
            return;
        }
        let drops = &mut counters.drops;
        let len_with_fcs = self.len.saturating_sub(PREAMBLE_LEN);
        if len_with_fcs < FRAME_LEN_WITH_FCS_MIN {
            drops.runt += 1;
            return;
        }
        if len_with_fcs > self.len_max {
            drops.oversize += 1;
            return;
        }
        let (preamble, frame) = self.octets[..self.len].split_at(PREAMBLE_LEN);
        let llid = match llid::parse(preamble.try_into().expect("eight octets")) {
            Ok(llid) => llid,
            Err(PreambleError::Sld) => {
                drops.sld += 1;
                return;
            }
            Err(PreambleError::Crc8) => {
                drops.crc8 += 1;
                return;
            }
        };
        if !self.accept.takes(llid) {
            drops.llid += 1;
            return;
        }
        let (bytes, sequence) = frame.split_at(len_with_fcs - FCS_LEN);
        if fcs(self.simd, bytes) != sequence {
            drops.fcs += 1;
            return;
        }
        if self.withholds {
            drops.high_ber += 1;
            return;
        }
        counters.frames += 1;
        counters.octets += bytes.len() as u64;
        let (block, bit) = self.start;
        sink.frame(&Received {
            bytes,
            llid,
            block,
            bit,
        });
    }
}
