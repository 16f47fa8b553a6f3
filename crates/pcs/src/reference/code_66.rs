// SPDX-License-Identifier: Apache-2.0
//! 64B/66B, from Figure 49-7 as a table, with the state diagrams of Figures 49-14 and 49-15.
//!
//! | transmit state | next vector | goes to, sends |
//! |---|---|---|
//! | init, C, T | start | D, the block |
//! | init, C, T | control | C, the block |
//! | init, C, T | data, termination, error | E, error block |
//! | D | data | D, the block |
//! | D | termination | T, the block |
//! | D | error, control, start | E, error block |
//! | E | data, termination, control | D, T, C, the block |
//! | E | error, start | E, error block |
//!
//! Receiving is the same with blocks in place of vectors, but for one thing: a termination counts
//! only if start or control follows; otherwise it is an error.

use super::bits;
use crate::block::{Block, CONTROL, DATA};
use crate::stage::{Progress, Stage};
use crate::xgmii::{Kind, Vector};

/// What stands in a part of a control block, in the order of the figure.
#[derive(Clone, Copy)]
enum Field {
    /// Data octet of a lane.
    D(usize),
    /// 7-bit code of the control character of a lane.
    C(usize),
    /// 4-bit code of the ordered set that begins in a lane.
    O(usize),
    /// /S/ in a lane: said by the block type, no bits.
    S(usize),
    /// /T/ in a lane: said by the block type, no bits.
    T(usize),
    /// So many zeros.
    Zeros(usize),
}

use Field::{C, D, O, S, T, Zeros};

/// Figure 49-7: block type and what follows.
const FORMATS: [(u8, &[Field]); 15] = [
    (0x1e, &[C(0), C(1), C(2), C(3), C(4), C(5), C(6), C(7)]),
    (0x2d, &[C(0), C(1), C(2), C(3), O(4), D(5), D(6), D(7)]),
    (
        0x33,
        &[C(0), C(1), C(2), C(3), Zeros(4), S(4), D(5), D(6), D(7)],
    ),
    (
        0x66,
        &[D(1), D(2), D(3), O(0), Zeros(4), S(4), D(5), D(6), D(7)],
    ),
    (0x55, &[D(1), D(2), D(3), O(0), O(4), D(5), D(6), D(7)]),
    (0x78, &[S(0), D(1), D(2), D(3), D(4), D(5), D(6), D(7)]),
    (0x4b, &[D(1), D(2), D(3), O(0), C(4), C(5), C(6), C(7)]),
    (
        0x87,
        &[T(0), Zeros(7), C(1), C(2), C(3), C(4), C(5), C(6), C(7)],
    ),
    (
        0x99,
        &[D(0), T(1), Zeros(6), C(2), C(3), C(4), C(5), C(6), C(7)],
    ),
    (
        0xaa,
        &[D(0), D(1), T(2), Zeros(5), C(3), C(4), C(5), C(6), C(7)],
    ),
    (
        0xb4,
        &[D(0), D(1), D(2), T(3), Zeros(4), C(4), C(5), C(6), C(7)],
    ),
    (
        0xcc,
        &[D(0), D(1), D(2), D(3), T(4), Zeros(3), C(5), C(6), C(7)],
    ),
    (
        0xd2,
        &[D(0), D(1), D(2), D(3), D(4), T(5), Zeros(2), C(6), C(7)],
    ),
    (
        0xe1,
        &[D(0), D(1), D(2), D(3), D(4), D(5), T(6), Zeros(1), C(7)],
    ),
    (0xff, &[D(0), D(1), D(2), D(3), D(4), D(5), D(6), T(7)]),
];

/// Table 49-1: control characters and their codes.
const CONTROL_CODES: [(u8, u64); 9] = [
    (0x07, 0x00),
    (0x06, 0x06),
    (0xfe, 0x1e),
    (0x1c, 0x2d),
    (0x3c, 0x33),
    (0x7c, 0x4b),
    (0xbc, 0x55),
    (0xdc, 0x66),
    (0xf7, 0x78),
];
/// Table 49-1: ordered sets.
const ORDERED_CODES: [(u8, u64); 2] = [(0x9c, 0x0), (0x5c, 0xf)];

fn code_of(table: &[(u8, u64)], character: u8) -> Option<u64> {
    let found = table.iter().find(|(known, _)| *known == character);
    found.map(|(_, code)| *code)
}

fn character_of(table: &[(u8, u64)], code: u64) -> Option<u8> {
    let found = table.iter().find(|(_, known)| *known == code);
    found.map(|(character, _)| *character)
}

/// Payload bits of a vector in one format; none if the vector does not have it.
fn in_format(vector: Vector, block_type: u8, fields: &[Field]) -> Option<Vec<bool>> {
    let mut out = bits::of(block_type.into(), 8);
    for &field in fields {
        let control = |lane, table: &[(u8, u64)]| {
            let (octet, is_control) = vector.lane(lane);
            code_of(table, octet).filter(|_| is_control)
        };
        match field {
            D(lane) => match vector.lane(lane) {
                (octet, false) => out.extend(bits::of(octet.into(), 8)),
                _ => return None,
            },
            C(lane) => out.extend(bits::of(control(lane, &CONTROL_CODES)?, 7)),
            O(lane) => out.extend(bits::of(control(lane, &ORDERED_CODES)?, 4)),
            S(lane) if vector.lane(lane) == (0xfb, true) => {}
            T(lane) if vector.lane(lane) == (0xfd, true) => {}
            S(_) | T(_) => return None,
            Zeros(count) => out.extend(vec![false; count]),
        }
    }
    Some(out)
}

/// Vector of a payload in one format; none if a code in it does not exist.
fn from_format(payload: &[bool], fields: &[Field]) -> Option<Vector> {
    let mut octets = [0; 8];
    let mut ctrl = 0;
    let mut place = 8;
    let mut take = |count: usize| {
        place += count;
        bits::number(&payload[place - count..place])
    };
    for &field in fields {
        let (lane, octet, is_control) = match field {
            D(lane) => (lane, take(8) as u8, false),
            C(lane) => (lane, character_of(&CONTROL_CODES, take(7))?, true),
            O(lane) => (lane, character_of(&ORDERED_CODES, take(4))?, true),
            S(lane) => (lane, 0xfb, true),
            T(lane) => (lane, 0xfd, true),
            Zeros(count) => {
                take(count);
                continue;
            }
        };
        octets[lane] = octet;
        ctrl |= u8::from(is_control) << lane;
    }
    let data = u64::from_le_bytes(octets);
    Some(Vector { data, ctrl })
}

/// T_TYPE of 49.2.13.2.3, for a control vector of this block type.
fn kind_of(block_type: u8, vector: Vector) -> Kind {
    let has_error = (0..8).any(|lane| vector.lane(lane) == (0xfe, true));
    match block_type {
        0x1e if has_error => Kind::Error,
        0x1e | 0x2d | 0x4b | 0x55 => Kind::Control,
        0x33 | 0x66 | 0x78 => Kind::Start,
        _ => Kind::Terminate,
    }
}

/// Block of a vector, and its kind.
pub fn encode(vector: Vector) -> (Block, Kind) {
    if vector.ctrl == 0 {
        return (Block::data(vector.data), Kind::Data);
    }
    for (block_type, fields) in FORMATS {
        if let Some(payload) = in_format(vector, block_type, fields) {
            let block = Block::control(bits::number(&payload));
            return (block, kind_of(block_type, vector));
        }
    }
    (error_block(), Kind::Error)
}

/// Vector of a block, and its kind: R_TYPE of 49.2.13.2.3.
pub fn decode(block: Block) -> (Vector, Kind) {
    if block.header == DATA {
        let data = block.payload;
        return (Vector { data, ctrl: 0 }, Kind::Data);
    }
    let payload = bits::of(block.payload, 64);
    let block_type = bits::number(&payload[..8]) as u8;
    let format = FORMATS.iter().find(|(known, _)| *known == block_type);
    let vector = format.and_then(|(_, fields)| from_format(&payload, fields));
    match vector {
        Some(vector) if block.header == CONTROL => (vector, kind_of(block_type, vector)),
        _ => (Vector::ERROR, Kind::Error),
    }
}

fn error_block() -> Block {
    let (type_1e, fields) = FORMATS[0];
    let payload = in_format(Vector::ERROR, type_1e, fields).expect("eight errors have a code");
    Block::control(bits::number(&payload))
}

/// States of both diagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Init,
    C,
    D,
    T,
    E,
}

fn next_state(state: State, kind: Kind, start_leaves_error: bool) -> State {
    match (state, kind) {
        (State::Init | State::C | State::T, Kind::Start) => State::D,
        (State::E, Kind::Start) if start_leaves_error => State::D,
        (State::Init | State::C | State::T | State::E, Kind::Control) => State::C,
        (State::D | State::E, Kind::Data) => State::D,
        (State::D | State::E, Kind::Terminate) => State::T,
        _ => State::E,
    }
}

/// Encoder with its state diagram.
#[derive(Clone, Debug)]
pub struct Encoder(State);

impl Default for Encoder {
    fn default() -> Self {
        Self(State::Init)
    }
}

impl Encoder {
    /// Block that is sent for a vector.
    pub fn step(&mut self, vector: Vector) -> Block {
        let (block, kind) = encode(vector);
        self.0 = next_state(self.0, kind, false);
        match self.0 {
            State::E => error_block(),
            _ => block,
        }
    }
}

impl Stage for Encoder {
    type In = Vector;
    type Out = Block;

    fn process(&mut self, input: &[Vector], output: &mut [Block]) -> Progress {
        let count = input.len().min(output.len());
        for (vector, block) in input.iter().zip(output) {
            *block = self.step(*vector);
        }
        Progress {
            consumed: count,
            produced: count,
        }
    }
}

/// Decoder with its state diagram. It gives the vector of a block when it knows the next block.
#[derive(Clone, Debug)]
pub struct Decoder {
    state: State,
    held: Option<Block>,
    start_leaves_error: bool,
    invalid: u64,
}

impl Decoder {
    /// A decoder in its initial state.
    pub fn new(start_leaves_error: bool) -> Self {
        Self {
            state: State::Init,
            held: None,
            start_leaves_error,
            invalid: 0,
        }
    }

    /// Back to the initial state; a held block is dropped.
    pub fn reset(&mut self) {
        self.state = State::Init;
        self.held = None;
    }

    /// Blocks that could not be decoded.
    pub fn invalid(&self) -> u64 {
        self.invalid
    }

    /// Takes a block, and gives the vector of the one before.
    pub fn step(&mut self, block: Block) -> Option<Vector> {
        let kind = decode(block).1;
        self.invalid += u64::from(kind == Kind::Error);
        let vector = self.release(kind);
        self.held = Some(block);
        vector
    }

    /// Gives the vector of the held block, as if one of this kind followed.
    pub fn release(&mut self, next: Kind) -> Option<Vector> {
        let (vector, kind) = decode(self.held.take()?);
        let fits = matches!(next, Kind::Start | Kind::Control);
        let kind = match kind {
            Kind::Terminate if !fits => Kind::Error,
            kind => kind,
        };
        self.state = next_state(self.state, kind, self.start_leaves_error);
        Some(match self.state {
            State::E => Vector::ERROR,
            _ => vector,
        })
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
            if let Some(vector) = self.step(*block) {
                output[progress.produced] = vector;
                progress.produced += 1;
            }
        }
        progress
    }
}
