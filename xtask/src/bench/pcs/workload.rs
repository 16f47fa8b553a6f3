//! What `bench pcs` runs over and over: stages, Reed-Solomon, and whole directions, on data that is
//! prepared beforehand.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_measure::stats::random::Random;
use catena_pcs::Simd;
use catena_pcs::block::Block;
use catena_pcs::fast::stages::{
    Decoder, Descrambler, Encoder, FecDecoder, FecEncoder, GearboxReceive, GearboxTransmit,
    Scrambler,
};
use catena_pcs::fast::{Receiver, Transmitter};
use catena_pcs::llid::Accept;
use catena_pcs::params::{BLOCKS, CODEWORD_BITS, DATA_BLOCKS, Params};
use catena_pcs::rs::{Code, Codec, Correction, PARITY, ROW, Row};
pub(super) use catena_pcs::stage::Direction;
use catena_pcs::stage::{Receive, Received, Stage, Transmit};
use catena_pcs::xgmii::Vector;

/// Codewords of a run: 128 KiB of line bits, the largest chunk of a link.
const CODEWORDS: usize = 512;
/// Codewords of a chunk given to a receiver at a time: 8 kB.
const CHUNK_CODEWORDS: usize = 32;

/// Something to be run over and over.
pub(super) trait Work {
    /// Runs once; returns how many codewords were handled.
    fn run(&mut self) -> usize;
}

fn bytes(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| (random.bits() >> 40) as u8).collect()
}

/// Encodes rows.
pub(super) struct RsEncode {
    codec: Codec,
    rows: Vec<Row>,
}

impl RsEncode {
    pub(super) fn new(simd: Simd) -> Self {
        Self {
            codec: Codec::new(Code::EPON, simd),
            rows: random_rows(&mut Random::new(1)),
        }
    }
}

fn random_rows(random: &mut Random) -> Vec<Row> {
    let mut rows = vec![Row::ZERO; CODEWORDS];
    for row in &mut rows {
        row.0[5..ROW - PARITY].copy_from_slice(&bytes(random, ROW - PARITY - 5));
    }
    rows
}

impl Work for RsEncode {
    fn run(&mut self) -> usize {
        self.codec.encode_rows(&mut self.rows);
        self.rows.len()
    }
}

/// Copies and decodes rows.
pub(super) struct RsDecode {
    codec: Codec,
    errors: usize,
    sent: Vec<Row>,
    rows: Vec<Row>,
    verdicts: Vec<Correction>,
}

impl RsDecode {
    pub(super) fn new(simd: Simd, errors: usize) -> Self {
        let mut random = Random::new(2);
        let codec = Codec::new(Code::EPON, simd);
        let mut sent = random_rows(&mut random);
        codec.encode_rows(&mut sent);
        for row in &mut sent {
            let mut places = Vec::new();
            while places.len() < errors {
                let place = 5 + random.below((ROW - 5) as u64) as usize;
                if !places.contains(&place) {
                    places.push(place);
                    row.0[place] ^= 1 + random.below(255) as u8;
                }
            }
        }
        Self {
            codec,
            errors,
            rows: sent.clone(),
            verdicts: vec![Correction::Clean; sent.len()],
            sent,
        }
    }
}

impl Work for RsDecode {
    fn run(&mut self) -> usize {
        self.rows.copy_from_slice(&self.sent);
        for (rows, verdicts) in self.rows.chunks_mut(32).zip(self.verdicts.chunks_mut(32)) {
            self.codec.decode_rows(rows, verdicts);
        }
        let corrected = |v: &&Correction| match v {
            Correction::Clean => self.errors == 0,
            Correction::Corrected { symbols, .. } => usize::from(*symbols) == self.errors,
            Correction::Uncorrectable => false,
        };
        assert_eq!(self.verdicts.iter().filter(corrected).count(), CODEWORDS);
        self.rows.len()
    }
}

/// A stage over prepared input.
struct StageWork<S: Stage> {
    stage: S,
    input: Vec<S::In>,
    output: Vec<S::Out>,
}

impl<S: Stage> Work for StageWork<S> {
    fn run(&mut self) -> usize {
        self.stage.process(&self.input, &mut self.output);
        CODEWORDS
    }
}

/// The stages by themselves.
pub(super) struct Stages;

type Named = (&'static str, Box<dyn Work>);

impl Stages {
    /// Each stage with its name, over data blocks with a frame's end and start in each codeword.
    pub(super) fn all(simd: Simd) -> Vec<Named> {
        let mut random = Random::new(3);
        let count = CODEWORDS * DATA_BLOCKS;
        let vectors: Vec<Vector> = (0..count)
            .map(|i| match i % DATA_BLOCKS {
                0 => Vector::IDLE,
                1 => Vector {
                    data: 0xd555_5555_5555_55fb,
                    ctrl: 1,
                },
                26 => Vector {
                    data: 0x0707_0707_0707_07fd,
                    ctrl: 0xff,
                },
                _ => Vector {
                    data: random.bits(),
                    ctrl: 0,
                },
            })
            .collect();
        let mut blocks = vec![Block::IDLE; count];
        let mut scrambled = blocks.clone();
        let mut codewords = vec![Block::IDLE; CODEWORDS * BLOCKS];
        let mut line = vec![0; CODEWORDS * CODEWORD_BITS / 8];
        Encoder::default().process(&vectors, &mut blocks);
        Scrambler::default().process(&blocks, &mut scrambled);
        FecEncoder::new(simd).process(&scrambled, &mut codewords);
        GearboxTransmit::new(0).process(&codewords, &mut line);
        fn work<S: Stage + 'static>(stage: S, input: &[S::In], output: &[S::Out]) -> Box<dyn Work>
        where
            S::In: Clone,
            S::Out: Clone,
        {
            Box::new(StageWork {
                stage,
                input: input.to_vec(),
                output: output.to_vec(),
            })
        }
        vec![
            (
                "64B/66B encoder",
                work(Encoder::default(), &vectors, &blocks),
            ),
            ("scrambler", work(Scrambler::default(), &blocks, &scrambled)),
            (
                "FEC encoder",
                work(FecEncoder::new(simd), &scrambled, &codewords),
            ),
            (
                "gearbox, transmit",
                work(GearboxTransmit::new(0), &codewords, &line),
            ),
            (
                "gearbox, receive",
                work(GearboxReceive::new(0), &line, &codewords),
            ),
            (
                "FEC decoder, clean",
                work(FecDecoder::new(simd), &codewords, &scrambled),
            ),
            (
                "descrambler",
                work(Descrambler::default(), &scrambled, &blocks),
            ),
            (
                "66B/64B decoder",
                work(Decoder::new(false), &blocks, &vectors),
            ),
        ]
    }
}

impl Work for Box<dyn Work> {
    fn run(&mut self) -> usize {
        self.as_mut().run()
    }
}

struct TransmitWork {
    transmitter: Transmitter,
    frame: Vec<u8>,
    line: Vec<u8>,
}

/// Frames of one length to line bits, never idle for lack of frames.
pub(super) fn transmit(simd: Simd, direction: Direction, frame_len: usize) -> impl Work {
    TransmitWork {
        transmitter: Transmitter::new(direction, Params::default(), simd),
        frame: bytes(&mut Random::new(4), frame_len - 4),
        line: vec![0; CHUNK_CODEWORDS * CODEWORD_BITS / 8 + 1],
    }
}

impl Work for TransmitWork {
    fn run(&mut self) -> usize {
        let mut bits = 0;
        while bits < CODEWORDS * CODEWORD_BITS {
            while self.transmitter.waiting_blocks() < CHUNK_CODEWORDS * DATA_BLOCKS {
                self.transmitter
                    .push(&self.frame, 1)
                    .expect("there is room");
            }
            bits += self.transmitter.pull(&mut self.line, 3);
        }
        bits / CODEWORD_BITS
    }
}

struct ReceiveWork {
    receiver: Receiver,
    line: Vec<u8>,
    bits: usize,
    /// Frames on a line without errors.
    frames: usize,
    is_clean: bool,
}

/// Line bits with errors to frames.
pub(super) fn receive(simd: Simd, direction: Direction, frame_len: usize, ber: f64) -> impl Work {
    let params = Params::default();
    let mut transmitter = Transmitter::new(direction, params.clone(), simd);
    let mut random = Random::new(5);
    let frame = bytes(&mut random, frame_len - 4);
    let mut line = vec![0; 8 * CODEWORDS * CODEWORD_BITS / 8];
    let (mut bits, mut frames) = (0, 0);
    while bits < 4 * CODEWORDS * CODEWORD_BITS {
        // Sixteen codewords full of frames: in bursts, one burst.
        while transmitter.waiting_blocks() < 16 * DATA_BLOCKS {
            transmitter.push(&frame, 1).expect("there is room");
            frames += 1;
        }
        loop {
            let end = (bits + CODEWORD_BITS).div_ceil(8) + 1;
            let written = transmitter.pull(&mut line[..end], bits);
            bits += written;
            let is_full = direction == Direction::Downstream
                && transmitter.waiting_blocks() < 8 * DATA_BLOCKS;
            if written == 0 || is_full {
                break;
            }
        }
    }
    if ber > 0.0 {
        // Gaps between errors are geometric.
        let mut at = 0.0;
        loop {
            at += ((1.0 - random.unit()).ln() / (1.0 - ber).ln()).floor() + 1.0;
            if at >= bits as f64 {
                break;
            }
            let bit = at as usize;
            line[bit / 8] ^= 1 << (bit % 8);
        }
    }
    ReceiveWork {
        receiver: Receiver::new(direction, Accept::Any, params, simd),
        line,
        bits,
        frames,
        is_clean: ber == 0.0,
    }
}

impl Work for ReceiveWork {
    fn run(&mut self) -> usize {
        let before = self.receiver.counters().codewords;
        let mut frames = 0;
        let mut sink = |_: &Received<'_>| frames += 1;
        let chunk = CHUNK_CODEWORDS * CODEWORD_BITS;
        for at in (0..self.bits).step_by(chunk) {
            let len = chunk.min(self.bits - at);
            self.receiver.receive(&self.line, at, len, &mut sink);
        }
        // Where the line begins anew a frame or two are lost.
        if self.is_clean {
            assert!(
                frames + 30 >= self.frames,
                "{frames} of {} frames",
                self.frames
            );
        }
        (self.receiver.counters().codewords - before) as usize
    }
}
