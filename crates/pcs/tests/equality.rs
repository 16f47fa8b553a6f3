// SPDX-License-Identifier: Apache-2.0
//! Goal: the fast path does exactly what the bit-by-bit reference does, whatever comes in. Method:
//! both get the same random frames, cuts, errors, slips and noise; line bits, frames, counters and
//! verdicts must be equal, at every level of vector instructions.

mod line;

use catena_pcs::llid::Accept;
use catena_pcs::params::{CODEWORD_BITS, Params};
use catena_pcs::stage::{Direction, Receive, Received, Transmit};
use catena_pcs::{Simd, fast, reference};
use line::{Line, Random};
use proptest::prelude::*;

const DIRECTIONS: [Direction; 2] = [Direction::Downstream, Direction::Upstream];

fn params() -> Params {
    Params {
        sync_blocks: 5,
        // Two idle codewords at the end of a burst, for the sake of the test.
        delay_bound: Some(50),
        ber_window_codewords: 7,
        ber_headers_max: 3,
        ..Params::default()
    }
}

/// What a receiver gave, in words that can be compared.
#[derive(Debug, PartialEq)]
struct Outcome {
    frames: Vec<(Vec<u8>, u16, u64)>,
    counters: String,
    verdict: String,
}

/// Gives the line to a receiver in chunks of the given lengths, over and over.
fn received(receiver: &mut dyn Receive, line: &Line, cuts: &[usize]) -> Outcome {
    let mut frames = Vec::new();
    let mut keep = |frame: &Received<'_>| {
        frames.push((frame.bytes.to_vec(), frame.llid, frame.block));
    };
    let mut at = 0;
    for &cut in cuts.iter().cycle() {
        let count = cut.min(line.len() - at);
        receiver.receive(line.bytes(), line.offset() + at, count, &mut keep);
        at += count;
        if at == line.len() {
            break;
        }
    }
    receiver.finish(&mut keep);
    Outcome {
        frames,
        counters: format!("{:#?}", receiver.counters()),
        verdict: format!("{:?}", receiver.verdict()),
    }
}

fn receivers(direction: Direction, accept: Accept, line: &Line, cuts: &[usize]) -> Outcome {
    let mut reference = reference::Receiver::new(direction, accept, params());
    let expected = received(&mut reference, line, &[line.len().max(1)]);
    for simd in Simd::all() {
        let mut fast = fast::Receiver::new(direction, accept, params(), simd);
        let found = received(&mut fast, line, cuts);
        assert_eq!(found, expected, "{}", simd.name());
    }
    expected
}

/// Random frames of lengths that matter, and how many codewords are pulled after each.
fn transmitted(
    direction: Direction,
    random: &mut Random,
    frame_count: usize,
) -> (Line, Vec<Vec<u8>>) {
    let offset = random.below(64);
    let mut reference = reference::Transmitter::new(direction, params());
    let mut fast: Vec<_> = Simd::all()
        .map(|simd| fast::Transmitter::new(direction, params(), simd))
        .collect();
    let mut line = Line::new(offset);
    let mut frames = Vec::new();
    // Idle first: the receiver's descrambler needs a block before it gives any.
    for index in 0..=frame_count + 1 {
        if (1..=frame_count).contains(&index) {
            let len = match random.below(4) {
                0 => 14 + random.below(60),
                1 => 60 + random.below(20),
                2 => 60 + random.below(400),
                _ => 1000 + random.below(996),
            };
            let frame = random.bytes(len);
            let llid = random.below(4) as u16;
            let pushed = reference.push(&frame, llid);
            assert_eq!(pushed, Ok(()));
            for fast in &mut fast {
                assert_eq!(fast.push(&frame, llid), pushed);
            }
            frames.push(frame);
        }
        let codewords = match random.below(3) {
            _ if index > frame_count => reference.waiting_blocks() / 27 + 12,
            0 if index > 0 => 0,
            _ => 1 + random.below(14),
        };
        let room = codewords * CODEWORD_BITS + random.below(100);
        let (start, bytes) = line.room(room);
        let count = reference.pull(bytes, start);
        let expected = bytes.to_vec();
        for fast in &mut fast {
            let mut again = bytes.to_vec();
            // Bits outside what is written must stay as they are.
            let end = (start + count).div_ceil(8).min(again.len());
            again[start / 8..end]
                .iter_mut()
                .for_each(|byte| *byte = !*byte);
            line::restore(&mut again, bytes, start, count);
            assert_eq!(fast.pull(&mut again, start), count);
            assert_eq!(fast.waiting_blocks(), reference.waiting_blocks());
            assert_eq!(fast.deletion_debt_max(), reference.deletion_debt_max());
            assert_eq!(again, expected);
        }
        line.advance(count);
    }
    (line, frames)
}

fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

#[test]
fn frames_cross_a_clean_line() {
    for direction in DIRECTIONS {
        let mut random = Random(7);
        let (line, frames) = transmitted(direction, &mut random, 12);
        let outcome = receivers(direction, Accept::Any, &line, &[1000, 8191]);
        let sent: Vec<Vec<u8>> = frames.iter().map(|frame| padded(frame)).collect();
        let found: Vec<Vec<u8>> = outcome
            .frames
            .into_iter()
            .map(|(frame, ..)| frame)
            .collect();
        assert!(found == sent, "{direction:?}: {}", outcome.counters);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, max_shrink_iters: 40, ..Default::default() })]

    #[test]
    fn both_paths_send_the_same_bits(seed in 1_u64.., frames in 1_usize..10, up: bool) {
        transmitted(DIRECTIONS[usize::from(up)], &mut Random(seed), frames);
    }

    #[test]
    fn both_paths_receive_the_same_from_a_spoiled_line(
        seed in 1_u64..,
        up: bool,
        flips_per_codeword in prop_oneof![Just(0), Just(1), 0_usize..12, 0_usize..60],
        slips in 0_usize..3,
        cut_front in 0_usize..5000,
        onu in prop_oneof![Just(Accept::Any), Just(Accept::Onu(2))],
        cuts in prop::collection::vec(1_usize..20_000, 1..6),
    ) {
        let mut random = Random(seed);
        let direction = DIRECTIONS[usize::from(up)];
        let (mut line, _) = transmitted(direction, &mut random, 6);
        line.flip(&mut random, flips_per_codeword);
        line.slip(&mut random, slips);
        line.cut_front(cut_front);
        if random.below(3) == 0 {
            line.cut_back(random.below(3000));
        }
        receivers(direction, onu, &line, &cuts);
    }

    #[test]
    fn both_paths_find_nothing_in_noise(
        seed in 1_u64.., len in 0_usize..4000, up: bool, density in 0_usize..3,
    ) {
        let mut random = Random(seed);
        let line = Line::noise(&mut random, len, density);
        let outcome = receivers(DIRECTIONS[usize::from(up)], Accept::Any, &line, &[777]);
        prop_assert!(outcome.frames.is_empty());
    }
}
