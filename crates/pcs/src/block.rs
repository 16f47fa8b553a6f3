// SPDX-License-Identifier: Apache-2.0
//! 66-bit blocks and the code between them and vectors, on whole words: the fast path.
//!
//! Where things lie in the payload of a control block (IEEE 802.3 Figure 49-7), bit 0 first on the
//! line: the type in bits 0 to 7; the code of lane i, where it has one, in 7 bits from 8 + 7i; data
//! of lane i at byte i in blocks with a start or an ordered set, and at byte i + 1 in blocks with a
//! termination; the codes of ordered sets in 4 bits from 32 (lane 0) and 36 (lane 4).

use crate::xgmii::{self, Kind, Vector};

/// Header of a data block: 01 on the line, first bit in bit 0.
pub const DATA: u8 = 0b10;
/// Header of a control block: 10 on the line.
pub const CONTROL: u8 = 0b01;

/// Type of a block of eight control characters.
pub const TYPE_CONTROL: u8 = 0x1e;
/// Types with /T/ in lane 0 to 7.
pub const TYPE_TERMINATE: [u8; 8] = [0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff];
/// /S/ in lane 0.
pub const TYPE_START_0: u8 = 0x78;
/// /S/ in lane 4 after four control characters.
pub const TYPE_START_4: u8 = 0x33;
/// /S/ in lane 4 after an ordered set.
pub const TYPE_ORDERED_START: u8 = 0x66;
/// Ordered set in lane 4 after four control characters.
pub const TYPE_CONTROL_ORDERED: u8 = 0x2d;
/// Ordered set in lane 0 before four control characters.
pub const TYPE_ORDERED_CONTROL: u8 = 0x4b;
/// Two ordered sets.
pub const TYPE_ORDERED_ORDERED: u8 = 0x55;

/// A block: two bits of header and 64 of payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// 64 bits, the first on the line in bit 0.
    pub payload: u64,
    /// Sync header, the first bit on the line in bit 0; 01 or 10 where valid.
    pub header: u8,
}

impl Block {
    /// Eight idles.
    pub const IDLE: Self = Self::control(TYPE_CONTROL as u64);
    /// Eight errors.
    pub const ERROR: Self = Self::control(0x3c_78f1_e3c7_8f1e_u64 << 8 | TYPE_CONTROL as u64);

    /// A control block.
    pub const fn control(payload: u64) -> Self {
        Self {
            payload,
            header: CONTROL,
        }
    }

    /// A data block.
    pub const fn data(payload: u64) -> Self {
        Self {
            payload,
            header: DATA,
        }
    }

    /// What the receiver's state machine takes it for.
    #[inline]
    pub fn kind(self) -> Kind {
        match self.header {
            DATA => Kind::Data,
            CONTROL => control_kind(self.payload),
            _ => Kind::Error,
        }
    }
}

/// 7-bit code of a control character; none where there is no such.
fn code(character: u8) -> Option<u64> {
    Some(match character {
        xgmii::IDLE => 0x00,
        xgmii::LOW_POWER_IDLE => 0x06,
        xgmii::ERROR => 0x1e,
        0x1c => 0x2d,
        0x3c => 0x33,
        0x7c => 0x4b,
        0xbc => 0x55,
        0xdc => 0x66,
        0xf7 => 0x78,
        _ => return None,
    })
}

fn character(code: u64) -> Option<u8> {
    Some(match code & 0x7f {
        0x00 => xgmii::IDLE,
        0x06 => xgmii::LOW_POWER_IDLE,
        0x1e => xgmii::ERROR,
        0x2d => 0x1c,
        0x33 => 0x3c,
        0x4b => 0x7c,
        0x55 => 0xbc,
        0x66 => 0xdc,
        0x78 => 0xf7,
        _ => return None,
    })
}

fn ordered_code(character: u8) -> Option<u64> {
    match character {
        xgmii::SEQUENCE => Some(0x0),
        xgmii::SIGNAL => Some(0xf),
        _ => None,
    }
}

fn ordered_character(code: u64) -> Option<u8> {
    match code & 0xf {
        0x0 => Some(xgmii::SEQUENCE),
        0xf => Some(xgmii::SIGNAL),
        _ => None,
    }
}

/// Mask of the bytes `from..to` of a word.
const fn bytes(from: usize, to: usize) -> u64 {
    let upto = if to == 8 {
        u64::MAX
    } else {
        (1 << (8 * to)) - 1
    };
    upto & !((1 << (8 * from)) - 1)
}

/// Codes of the lanes `from..to` in their places; none if one is no control character.
fn codes(octets: &[u8; 8], from: usize, to: usize) -> Option<u64> {
    let mut out = 0;
    for (lane, &octet) in octets.iter().enumerate().take(to).skip(from) {
        out |= code(octet)? << (8 + 7 * lane);
    }
    Some(out)
}

/// Control characters of the lanes `from..to` in their lanes.
fn characters(payload: u64, from: usize, to: usize) -> Option<u64> {
    let mut out = 0;
    for lane in from..to {
        out |= u64::from(character(payload >> (8 + 7 * lane))?) << (8 * lane);
    }
    Some(out)
}

/// Encodes one vector; a vector that no block can carry gives an error block and that kind.
#[inline]
pub fn encode(vector: Vector) -> (Block, Kind) {
    if vector.ctrl == 0 {
        return (Block::data(vector.data), Kind::Data);
    }
    if vector == Vector::IDLE {
        return (Block::IDLE, Kind::Control);
    }
    match encode_control(vector) {
        Some((payload, kind)) => (Block::control(payload), kind),
        None => (Block::ERROR, Kind::Error),
    }
}

fn encode_control(vector: Vector) -> Option<(u64, Kind)> {
    let octets = vector.data.to_le_bytes();
    let data = vector.data;
    let (first, fifth) = (octets[0], octets[4]);
    Some(match vector.ctrl {
        0b0000_0001 if first == xgmii::START => {
            (data & bytes(1, 8) | u64::from(TYPE_START_0), Kind::Start)
        }
        0b0001_1111 if fifth == xgmii::START => {
            let codes = codes(&octets, 0, 4)?;
            let payload = data & bytes(5, 8) | codes | u64::from(TYPE_START_4);
            (payload, Kind::Start)
        }
        0b0001_1111 => {
            let payload = codes(&octets, 0, 4)? | ordered_code(fifth)? << 36;
            let payload = data & bytes(5, 8) | payload | u64::from(TYPE_CONTROL_ORDERED);
            (payload, Kind::Control)
        }
        0b0001_0001 => {
            let payload = data & (bytes(1, 4) | bytes(5, 8)) | ordered_code(first)? << 32;
            if fifth == xgmii::START {
                (payload | u64::from(TYPE_ORDERED_START), Kind::Start)
            } else {
                let payload = payload | ordered_code(fifth)? << 36;
                (payload | u64::from(TYPE_ORDERED_ORDERED), Kind::Control)
            }
        }
        0b1111_0001 if ordered_code(first).is_some() => {
            let payload = ordered_code(first)? << 32 | codes(&octets, 4, 8)?;
            let payload = data & bytes(1, 4) | payload | u64::from(TYPE_ORDERED_CONTROL);
            (payload, Kind::Control)
        }
        0xff if first != xgmii::TERMINATE => {
            let codes = codes(&octets, 0, 8)?;
            // The error block is a vector that can be carried, but counts as an error.
            let has_error = octets.contains(&xgmii::ERROR);
            let kind = if has_error {
                Kind::Error
            } else {
                Kind::Control
            };
            (codes | u64::from(TYPE_CONTROL), kind)
        }
        ctrl => {
            let lane = ctrl.trailing_zeros() as usize;
            if ctrl != 0xff << lane || octets[lane] != xgmii::TERMINATE {
                return None;
            }
            let codes = codes(&octets, lane + 1, 8)?;
            let data = if lane == 0 {
                0
            } else {
                (data & bytes(0, lane)) << 8
            };
            (
                data | codes | u64::from(TYPE_TERMINATE[lane]),
                Kind::Terminate,
            )
        }
    })
}

/// Decodes one block; one that cannot be decoded gives the error vector and that kind.
#[inline]
pub fn decode(block: Block) -> (Vector, Kind) {
    match block.header {
        DATA => {
            let vector = Vector {
                data: block.payload,
                ctrl: 0,
            };
            (vector, Kind::Data)
        }
        CONTROL if block.payload == Block::IDLE.payload => (Vector::IDLE, Kind::Control),
        CONTROL => decode_control(block.payload).unwrap_or((Vector::ERROR, Kind::Error)),
        _ => (Vector::ERROR, Kind::Error),
    }
}

/// Kind of a control block; cheap for the types that occur.
#[inline]
pub(crate) fn control_kind(payload: u64) -> Kind {
    if payload == Block::IDLE.payload {
        return Kind::Control;
    }
    if payload as u8 == TYPE_START_0 {
        return Kind::Start;
    }
    decode_control(payload).map_or(Kind::Error, |(_, kind)| kind)
}

/// Lane of the /T/ of a block of this type.
#[inline]
pub(crate) fn terminate_lane(block_type: u8) -> Option<usize> {
    // Types with a termination are told apart by their upper half: 8 for lane 0 to F for lane 7.
    let lane = usize::from(block_type >> 4).checked_sub(8)?;
    (TYPE_TERMINATE[lane] == block_type).then_some(lane)
}

fn decode_control(payload: u64) -> Option<(Vector, Kind)> {
    let block_type = payload as u8;
    let start_0 = u64::from(xgmii::START);
    let start_4 = start_0 << 32;
    let ordered_0 = || ordered_character(payload >> 32).map(u64::from);
    let ordered_4 = || ordered_character(payload >> 36).map(|c| u64::from(c) << 32);
    let (low, high) = (payload & bytes(1, 4), payload & bytes(5, 8));
    let (data, ctrl, kind) = match block_type {
        TYPE_CONTROL => {
            let data = characters(payload, 0, 8)?;
            let has_error = data.to_le_bytes().contains(&xgmii::ERROR);
            let kind = if has_error {
                Kind::Error
            } else {
                Kind::Control
            };
            (data, 0xff, kind)
        }
        TYPE_START_0 => (payload & bytes(1, 8) | start_0, 0x01, Kind::Start),
        TYPE_START_4 => {
            let data = characters(payload, 0, 4)? | start_4 | high;
            (data, 0x1f, Kind::Start)
        }
        TYPE_ORDERED_START => (ordered_0()? | low | start_4 | high, 0x11, Kind::Start),
        TYPE_CONTROL_ORDERED => {
            let data = characters(payload, 0, 4)? | ordered_4()? | high;
            (data, 0x1f, Kind::Control)
        }
        TYPE_ORDERED_CONTROL => {
            let data = ordered_0()? | low | characters(payload, 4, 8)?;
            (data, 0xf1, Kind::Control)
        }
        TYPE_ORDERED_ORDERED => (
            ordered_0()? | low | ordered_4()? | high,
            0x11,
            Kind::Control,
        ),
        _ => {
            let lane = terminate_lane(block_type)?;
            let data = if lane == 0 {
                0
            } else {
                payload >> 8 & bytes(0, lane)
            };
            let terminate = u64::from(xgmii::TERMINATE) << (8 * lane);
            let data = data | terminate | characters(payload, lane + 1, 8)?;
            (data, 0xff << lane, Kind::Terminate)
        }
    };
    Some((Vector { data, ctrl }, kind))
}
