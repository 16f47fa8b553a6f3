// SPDX-License-Identifier: Apache-2.0
//! Frames to vectors and back: preamble with LLID, check sequence, gap, room for parity.
//!
//! The gap after a frame is 12 octets on average, by a deficit count that keeps starts in lanes 0
//! and 4 (IEEE 802.3 46.3.1.4), and 32 octets more for every 216 octets begun, counted from where
//! idle deletion stands.
//!
//! Uncertain: 77.2.2 defines the offset within 216 octets (fecOffset); here it is the place of the
//! start in the codeword, and the gap counts as sent. As in the task force's model, frame and gap
//! are rounded to columns before borders of codewords are counted.

use crate::counters::Counters;
use crate::llid::{self, Accept, PreambleError};
use crate::params::{
    DATA_BLOCKS, FCS_LEN, FRAME_LEN_WITH_FCS_MIN, GAP_LEN, PARITY_BLOCKS, PREAMBLE_LEN, Params,
};
use crate::stage::{FrameSink, Received};
use crate::xgmii::{IDLE, START, TERMINATE, Vector};

/// CRC-32 of a frame, one bit at a time (IEEE 802.3 3.2.9).
pub fn fcs(frame: &[u8]) -> [u8; FCS_LEN] {
    let mut crc = u32::MAX;
    for octet in frame {
        crc ^= u32::from(*octet);
        for _ in 0..8 {
            crc = if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            };
        }
    }
    (!crc).to_le_bytes()
}

/// Makes vectors of frames.
#[derive(Clone, Debug, Default)]
pub struct FrameMapper {
    /// Octets of a vector that is not complete, and whether each is a control character.
    open: Vec<(u8, bool)>,
    /// Idle octets still to be sent before the next start.
    owed: usize,
    /// By how much earlier gaps were too short, 0 to 3.
    deficit: usize,
}

impl FrameMapper {
    /// Forgets gaps: a burst begins.
    pub fn reset(&mut self) {
        (self.owed, self.deficit) = (0, 0);
    }

    /// Octets of the incomplete vector.
    pub fn open_len(&self) -> usize {
        self.open.len()
    }

    /// Idle octets owed.
    pub fn owed(&self) -> usize {
        self.owed
    }

    fn put(&mut self, octet: u8, is_control: bool, out: &mut Vec<Vector>) {
        self.open.push((octet, is_control));
        if self.open.len() < 8 {
            return;
        }
        let mut vector = Vector { data: 0, ctrl: 0 };
        for (lane, (octet, is_control)) in self.open.drain(..).enumerate() {
            vector.data |= u64::from(octet) << (8 * lane);
            vector.ctrl |= u8::from(is_control) << lane;
        }
        out.push(vector);
    }

    /// One idle octet.
    fn put_idle(&mut self, out: &mut Vec<Vector>) {
        self.owed = self.owed.saturating_sub(1);
        self.put(IDLE, true, out);
    }

    /// The gap that is owed.
    pub fn gap(&mut self) -> Vec<Vector> {
        let mut out = Vec::new();
        while self.owed > 0 {
            self.put_idle(&mut out);
        }
        out
    }

    /// The next vector when there is no frame.
    pub fn idle(&mut self) -> Vector {
        let mut out = Vec::new();
        while out.is_empty() {
            self.put_idle(&mut out);
        }
        out[0]
    }

    /// A frame, when `passed` vectors have passed idle deletion since four became due.
    pub fn frame(&mut self, frame: &[u8], llid: u16, passed: usize) -> Vec<Vector> {
        let mut out = Vec::new();
        let mut padded = frame.to_vec();
        padded.resize(frame.len().max(FRAME_LEN_WITH_FCS_MIN - FCS_LEN), 0);
        padded.extend(fcs(&padded));
        let offset = 8 * passed + self.open.len();
        for (i, octet) in llid::preamble(llid).into_iter().enumerate() {
            self.put(octet, i == 0, &mut out);
        }
        padded
            .iter()
            .for_each(|&octet| self.put(octet, false, &mut out));
        let end = self.open.len();
        let length = PREAMBLE_LEN + padded.len();
        // Down to a multiple of four while the deficit allows, else up.
        let over = (end + GAP_LEN) % 4;
        let gap = if over + self.deficit <= 3 {
            self.deficit += over;
            GAP_LEN - over
        } else {
            self.deficit -= 4 - over;
            GAP_LEN + 4 - over
        };
        // The next start is in a column: borders are counted behind that rounding.
        let codewords = (offset + length + gap) / (8 * DATA_BLOCKS);
        self.owed = gap + codewords * 8 * PARITY_BLOCKS;
        // The termination is part of the gap.
        self.put(TERMINATE, true, &mut out);
        self.owed -= 1;
        out
    }
}

/// Finds frames in vectors.
#[derive(Clone, Debug)]
pub struct FrameReader {
    accept: Accept,
    len_max: usize,
    /// Octets since the start, which is the first of them; none outside frames.
    octets: Option<Vec<u8>>,
    /// Payload block and line bit of that start.
    start: (u64, u64),
    withholds: bool,
}

impl FrameReader {
    /// A reader outside frames.
    pub fn new(accept: Accept, params: &Params) -> Self {
        Self {
            accept,
            len_max: params.frame_len_with_fcs_max,
            octets: None,
            start: (0, 0),
            withholds: false,
        }
    }

    /// Frames that end from here on are withheld, or not.
    pub fn withhold(&mut self, they_are: bool) {
        self.withholds = they_are;
    }

    /// Takes the vector of a payload block, which is this one of all and began at this line bit.
    pub fn step(
        &mut self,
        vector: Vector,
        place: (u64, u64),
        counters: &mut Counters,
        sink: &mut dyn FrameSink,
    ) {
        for lane in 0..8 {
            match (vector.lane(lane), &mut self.octets) {
                ((START, true), None) => {
                    self.octets = Some(vec![START]);
                    self.start = place;
                }
                ((octet, false), Some(octets)) => octets.push(octet),
                ((TERMINATE, true), Some(_)) => self.complete(counters, sink),
                ((_, true), Some(_)) => {
                    counters.drops.coding += 1;
                    self.octets = None;
                }
                _ => {}
            }
        }
    }

    /// A frame in progress will not go on.
    pub fn cut(&mut self, counters: &mut Counters) {
        counters.drops.cut += u64::from(self.octets.take().is_some());
    }

    fn complete(&mut self, counters: &mut Counters, sink: &mut dyn FrameSink) {
        let Some(octets) = self.octets.take() else {
            return;
        };
        let drops = &mut counters.drops;
        let len_with_fcs = octets.len().saturating_sub(PREAMBLE_LEN);
        if len_with_fcs < FRAME_LEN_WITH_FCS_MIN {
            drops.runt += 1;
            return;
        }
        if len_with_fcs > self.len_max {
            drops.oversize += 1;
            return;
        }
        let (preamble, frame) = octets.split_at(PREAMBLE_LEN);
        let preamble = preamble.try_into().expect("eight octets");
        let llid = match llid::parse(preamble) {
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
        if fcs(bytes) != sequence {
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
