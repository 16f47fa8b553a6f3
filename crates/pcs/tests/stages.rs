// SPDX-License-Identifier: Apache-2.0
//! Goal: each stage of the fast path does what the same stage of the reference does, however its
//! input is cut. Method: random vectors and blocks of every type, valid and not.

mod line;

use catena_pcs::block::{self, Block};
use catena_pcs::reference::{code_66, codeword, idle, scrambler};
use catena_pcs::stage::Stage;
use catena_pcs::xgmii::{self, Kind, Vector};
use catena_pcs::{Simd, fast};
use line::Random;
use proptest::prelude::*;
use std::fmt::Debug;

/// Runs a stage over all of the input, cut at random, with little room for output.
fn run<S: Stage>(mut stage: S, input: &[S::In], random: &mut Random, unit: usize) -> Vec<S::Out>
where
    S::Out: Copy + Default,
{
    let mut output = Vec::new();
    let (mut from, mut idle_turns) = (0, 0);
    while idle_turns < 3 {
        let upto = (from + unit + random.below(5 * unit)).min(input.len());
        let mut room = vec![S::Out::default(); 100 + random.below(200)];
        let progress = stage.process(&input[from..upto], &mut room);
        from += progress.consumed;
        output.extend_from_slice(&room[..progress.produced]);
        let stood_still = progress.consumed == 0 && progress.produced == 0;
        idle_turns = if stood_still { idle_turns + 1 } else { 0 };
        if from == input.len() && progress.produced == 0 {
            break;
        }
    }
    output
}

fn same<R, F>(reference: R, fast: F, input: &[R::In], random: &mut Random, unit: usize)
where
    R: Stage,
    F: Stage<In = R::In, Out = R::Out>,
    R::Out: Copy + Default + PartialEq + Debug,
{
    let expected = run(reference, input, random, unit);
    let found = run(fast, input, random, unit);
    assert_eq!(found, expected);
}

/// A default for outputs; vectors have none of their own.
#[derive(Clone, Copy, Debug, PartialEq)]
struct V(Vector);

impl Default for V {
    fn default() -> Self {
        Self(Vector::IDLE)
    }
}

/// A stage whose vectors are wrapped.
struct Wrapped<S>(S);

impl<S: Stage<Out = Vector>> Stage for Wrapped<S> {
    type In = S::In;
    type Out = V;

    fn process(&mut self, input: &[S::In], output: &mut [V]) -> catena_pcs::stage::Progress {
        let mut room = vec![Vector::IDLE; output.len()];
        let progress = self.0.process(input, &mut room);
        for (to, from) in output.iter_mut().zip(room) {
            *to = V(from);
        }
        progress
    }
}

const TYPES: [u8; 15] = [
    0x1e, 0x2d, 0x33, 0x66, 0x55, 0x78, 0x4b, 0x87, 0x99, 0xaa, 0xb4, 0xcc, 0xd2, 0xe1, 0xff,
];
const CODES: [u64; 10] = [0, 0, 0x06, 0x1e, 0x2d, 0x33, 0x4b, 0x55, 0x66, 0x78];

/// A control block of a known type, mostly with codes that exist.
fn control_block(random: &mut Random) -> Block {
    let kind = TYPES[random.below(TYPES.len())];
    let mut payload = random.next();
    if random.below(4) > 0 {
        payload = 0;
        for lane in 0..8 {
            payload |= CODES[random.below(CODES.len())] << (8 + 7 * lane);
        }
        let ordered = [0x00, 0x0f, 0xf0, 0xff][random.below(4)] << 32;
        match kind {
            // Codes of ordered sets stand beside those of control characters.
            0x4b => payload = payload & !(0xf << 32) | ordered & (0xf << 32),
            0x2d => payload = payload & !(0xf << 36) | ordered & (0xf << 36),
            0x66 | 0x55 => payload = payload & !(0xff << 32) | ordered,
            _ => {}
        }
        if random.below(2) == 0 && !matches!(kind, 0x1e | 0x2d | 0x4b) {
            payload = payload & 0xff_ffff_ff00 | random.next() << 40;
        }
    }
    Block::control(payload & !0xff | u64::from(kind))
}

fn any_block(random: &mut Random) -> Block {
    match random.below(8) {
        0 => Block::IDLE,
        1..=3 => Block::data(random.next()),
        4 | 5 => control_block(random),
        6 => Block {
            payload: random.next(),
            header: random.below(4) as u8,
        },
        _ => Block::control(random.next()),
    }
}

/// A vector of a random block, or a random one.
fn any_vector(random: &mut Random) -> Vector {
    match random.below(6) {
        0 => Vector {
            data: random.next(),
            ctrl: random.next() as u8,
        },
        1 => Vector::IDLE,
        _ => {
            let (mut vector, _) = block::decode(control_block(random));
            if random.below(4) == 0 {
                let octets = [
                    xgmii::IDLE,
                    xgmii::START,
                    xgmii::TERMINATE,
                    xgmii::ERROR,
                    0x9c,
                ];
                let lane = 8 * random.below(8);
                let octet = u64::from(octets[random.below(5)]);
                vector.data = vector.data & !(0xff << lane) | octet << lane;
            }
            vector
        }
    }
}

#[test]
fn blocks_of_every_type_are_decoded_and_encoded_again() {
    let mut random = Random(3);
    let mut seen = [0; 15];
    for _ in 0..60_000 {
        let block = control_block(&mut random);
        let (vector, kind) = block::decode(block);
        assert_eq!((vector, kind), code_66::decode(block), "{block:x?}");
        let (again, kind_again) = block::encode(vector);
        assert_eq!((again, kind_again), code_66::encode(vector), "{vector:x?}");
        if kind != Kind::Error {
            // Bits that mean nothing are sent as zero; what they stand in decodes the same.
            assert_eq!(block::decode(again), (vector, kind));
            let place = TYPES
                .iter()
                .position(|&t| t == block.payload as u8)
                .unwrap();
            seen[place] += 1;
        }
    }
    assert!(seen.iter().all(|&count| count > 100), "{seen:?}");
    for _ in 0..60_000 {
        let vector = any_vector(&mut random);
        assert_eq!(
            block::encode(vector),
            code_66::encode(vector),
            "{vector:x?}"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 100, ..Default::default() })]

    #[test]
    fn coding_stages_agree(seed in 1_u64.., count in 0_usize..400, leaves: bool) {
        let mut random = Random(seed);
        let vectors: Vec<Vector> = (0..count).map(|_| any_vector(&mut random)).collect();
        let blocks: Vec<Block> = (0..count).map(|_| any_block(&mut random)).collect();
        let reference = code_66::Encoder::default();
        same(reference, fast::stages::Encoder::default(), &vectors, &mut random, 1);
        let reference = Wrapped(code_66::Decoder::new(leaves));
        same(reference, Wrapped(fast::stages::Decoder::new(leaves)), &blocks, &mut random, 1);
        let reference = scrambler::Scrambler::default();
        same(reference, fast::stages::Scrambler::default(), &blocks, &mut random, 1);
        let reference = scrambler::Descrambler::default();
        same(reference, fast::stages::Descrambler::default(), &blocks, &mut random, 1);
    }

    #[test]
    fn scrambled_blocks_come_back_from_the_second_on(seed in 1_u64.., count in 2_usize..100) {
        let mut random = Random(seed);
        let blocks: Vec<Block> = (0..count).map(|_| any_block(&mut random)).collect();
        let sent = run(fast::stages::Scrambler::default(), &blocks, &mut random, 1);
        let back = run(scrambler::Descrambler::default(), &sent[1..], &mut random, 1);
        prop_assert_eq!(&back[1..], &blocks[2..]);
    }

    #[test]
    fn gearboxes_agree_at_any_offset(seed in 1_u64.., count in 0_usize..100, offset in 0_usize..8) {
        let mut random = Random(seed);
        let blocks: Vec<Block> = (0..count).map(|_| any_block(&mut random)).collect();
        let reference = codeword::GearboxTransmit::new(offset);
        let fast = fast::stages::GearboxTransmit::new(offset);
        same(reference, fast, &blocks, &mut random, 1);
        let line = run(fast::stages::GearboxTransmit::new(offset), &blocks, &mut random, 1);
        let reference = codeword::GearboxReceive::new(offset);
        same(reference, fast::stages::GearboxReceive::new(offset), &line, &mut random, 1);
        let back = run(fast::stages::GearboxReceive::new(offset), &line, &mut random, 1);
        // The last block may wait for the bits of its last byte.
        prop_assert!(back[..] == blocks[..back.len()] && back.len() + 1 >= blocks.len());
    }

    #[test]
    fn codeword_stages_agree(seed in 1_u64.., count in 1_usize..4, errors in 0_usize..20) {
        let mut random = Random(seed);
        let blocks: Vec<Block> = (0..27 * count)
            .map(|_| Block { payload: random.next(), header: 1 + random.below(2) as u8 })
            .collect();
        let mut sent = run(codeword::FecEncoder, &blocks, &mut random, 31);
        for _ in 0..errors * count {
            let block = random.below(sent.len());
            sent[block].payload ^= 1 << random.below(64);
        }
        for simd in Simd::all() {
            let fast = fast::stages::FecEncoder::new(simd);
            same(codeword::FecEncoder, fast, &blocks, &mut random, 31);
            let fast = fast::stages::FecDecoder::new(simd);
            same(codeword::FecDecoder, fast, &sent, &mut random, 31);
        }
    }

    #[test]
    fn inserted_idles_make_room_again(seed in 1_u64.., frames in 1_usize..20) {
        let mut random = Random(seed);
        let mut vectors = Vec::new();
        for _ in 0..frames {
            vectors.extend(vec![Vector::IDLE; random.below(60)]);
            vectors.extend(vec![Vector { data: 5, ctrl: 0 }; random.below(60)]);
        }
        vectors.extend(vec![Vector::IDLE; 300]);
        let kept = run(Wrapped(idle::IdleDeletion::default()), &vectors, &mut random, 1);
        let kept: Vec<Vector> = kept.into_iter().map(|v| v.0).collect();
        let back = run(Wrapped(idle::IdleInsertion::default()), &kept, &mut random, 1);
        let data = |v: &&Vector| **v != Vector::IDLE;
        let back: Vec<Vector> = back.into_iter().map(|v| v.0).collect();
        prop_assert!(vectors.iter().filter(data).eq(back.iter().filter(data)));
        // As many as are due are dropped and put back, but for those due when the stream ends.
        prop_assert!(kept.len() >= vectors.len() / 31 * 27 && kept.len() <= vectors.len());
        prop_assert!(vectors.len().abs_diff(back.len()) <= 60);
    }
}
