// SPDX-License-Identifier: Apache-2.0
//! Goal: what the MAC leaves between frames is enough for gap and parity, and never more than is
//! needed. Method: line bits are taken apart to octets again, and gaps are counted in them.

use catena_pcs::line_file::Listing;
use catena_pcs::params::{BLOCK_BITS, CODEWORD_BITS, DATA_BLOCKS, Params};
use catena_pcs::reference::idle::{IdleDeletion, IdleInsertion};
use catena_pcs::reference::mac::FrameMapper;
use catena_pcs::stage::{Direction, Stage, Transmit};
use catena_pcs::xgmii::Vector;
use catena_pcs::{Simd, block, fast, reference};
use proptest::prelude::*;

const START: (u8, bool) = (0xfb, true);
const TERMINATE: (u8, bool) = (0xfd, true);

/// Octets of the codewords that stand at bits `from..end` of a line, parity left out.
fn octets_of(line: &[u8], from: usize, end: usize) -> Vec<(u8, bool)> {
    let blocks = Listing::new(line, from, end).skip(1);
    let blocks = blocks.filter(|listed| listed.place.1 < DATA_BLOCKS);
    blocks
        .map(|listed| block::decode(listed.block).0)
        .flat_map(|vector| (0..8).map(move |lane| vector.lane(lane)))
        .collect()
}

/// Octets from each termination, itself included, to the next start.
fn gaps(octets: &[(u8, bool)]) -> Vec<usize> {
    let mut gaps = Vec::new();
    let mut ended = None;
    for (at, octet) in octets.iter().enumerate() {
        match *octet {
            TERMINATE => ended = Some(at),
            START => gaps.extend(ended.take().map(|ended| at - ended)),
            _ => {}
        }
    }
    gaps
}

/// Frames back to back, so many octets each, in whole codewords downstream.
fn saturated(transmitter: &mut dyn Transmit, lens: &[usize]) -> Vec<usize> {
    let mut line = vec![0; (lens.iter().sum::<usize>() + 60 * lens.len() + 2000) * 2];
    let mut at = 0;
    for &len in lens {
        transmitter.push(&vec![0x55; len], 1).unwrap();
        let full = transmitter.waiting_blocks() / DATA_BLOCKS;
        let reach = (at + full * CODEWORD_BITS).div_ceil(8);
        at += transmitter.pull(&mut line[..reach], at);
    }
    let rest = transmitter.waiting_blocks() / DATA_BLOCKS + 2;
    let reach = (at + rest * CODEWORD_BITS).div_ceil(8);
    at += transmitter.pull(&mut line[..reach], at);
    gaps(&octets_of(&line, 0, at))
}

fn transmitters(direction: Direction, params: &Params) -> Vec<Box<dyn Transmit>> {
    let slow = reference::Transmitter::new(direction, params.clone());
    let fast = fast::Transmitter::new(direction, params.clone(), Simd::best());
    vec![Box::new(slow), Box::new(fast)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..Default::default() })]

    #[test]
    fn gaps_between_frames_are_twelve_octets_less_the_deficit(
        lens in prop::collection::vec(60_usize..1000, 30..80),
    ) {
        for transmitter in &mut transmitters(Direction::Downstream, &Params::default()) {
            let gaps = saturated(transmitter.as_mut(), &lens);
            prop_assert_eq!(gaps.len(), lens.len() - 1);
            // 46.3.1.4: starts are in lanes 0 and 4, and the deficit is three octets at most.
            prop_assert!(gaps.iter().all(|gap| (9..=15).contains(gap)), "{:?}", gaps);
            let sum: usize = gaps.iter().sum();
            prop_assert!(sum + 3 >= 12 * gaps.len() && sum <= 12 * gaps.len() + 3, "{:?}", gaps);
        }
    }

    /// Whatever idle came before, the first frame finds its place in the codeword, and the gap
    /// behind it is whole.
    #[test]
    fn a_frame_after_idle_inherits_no_debt(
        rounds in prop::collection::vec((0_usize..4, 60_usize..300, 60_usize..300), 1..30),
    ) {
        for transmitter in &mut transmitters(Direction::Downstream, &Params::default()) {
            let mut line = vec![0; 200_000];
            let mut at = 0;
            let mut pull = |transmitter: &mut dyn Transmit, codewords: usize| {
                let reach = (at + codewords * CODEWORD_BITS).div_ceil(8);
                at += transmitter.pull(&mut line[..reach], at);
                at
            };
            let mut end = 0;
            for (idle, first, second) in &rounds {
                pull(transmitter.as_mut(), *idle);
                transmitter.push(&vec![0xaa; *first], 1).unwrap();
                transmitter.push(&vec![0xaa; *second], 1).unwrap();
                let codewords = transmitter.waiting_blocks().div_ceil(DATA_BLOCKS);
                end = pull(transmitter.as_mut(), codewords);
            }
            let gaps = gaps(&octets_of(&line, 0, end));
            prop_assert!(gaps.iter().all(|gap| *gap >= 9), "{:?}", gaps);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..Default::default() })]

    /// Idle blocks are counted where they enter the data detector's FIFO (FSM_DD): a burst ends
    /// with the codeword of its last frame, with 0 to 26 idle blocks behind it.
    #[test]
    fn a_burst_takes_the_codewords_that_its_frames_need_and_no_more(
        bursts in prop::collection::vec(prop::collection::vec(60_usize..1500, 1..12), 1..4),
        sync_blocks in 3_usize..200,
    ) {
        let params = Params { sync_blocks, ..Params::default() };
        for transmitter in &mut transmitters(Direction::Upstream, &params) {
            for lens in &bursts {
                for &len in lens {
                    transmitter.push(&vec![0x55; len], 1).unwrap();
                }
                let mut line = vec![0; 60_000];
                let bits = transmitter.pull(&mut line, 0);
                // Preamble, check sequence and gap; two idle blocks in front.
                let octets: usize = lens.iter().map(|len| len + 24).sum();
                let codewords = (octets + 16).div_ceil(8 * DATA_BLOCKS);
                let around = (sync_blocks + 1 + 3) * BLOCK_BITS;
                let found = (bits - around) / CODEWORD_BITS;
                prop_assert_eq!(bits, around + found * CODEWORD_BITS);
                prop_assert!(found <= codewords, "{} of {}", found, codewords);
                let from = (sync_blocks + 1) * BLOCK_BITS;
                let octets = octets_of(&line, from, from + found * CODEWORD_BITS);
                let last = octets.iter().rposition(|octet| *octet == TERMINATE).unwrap();
                let idle = octets.len() / 8 - last / 8 - 1;
                prop_assert!(idle <= 26, "{} idle blocks at the end", idle);
            }
        }
    }
}

#[test]
fn a_longer_delay_bound_keeps_the_laser_on_through_idle_blocks() {
    for (delay_bound, codewords) in [(None, 1), (Some(69), 1), (Some(72), 1), (Some(200), 6)] {
        let params = Params {
            delay_bound,
            ..Params::default()
        };
        for transmitter in &mut transmitters(Direction::Upstream, &params) {
            transmitter.push(&[0; 60], 1).unwrap();
            let bits = transmitter.pull(&mut [0; 9000], 0);
            let found = (bits - 68 * BLOCK_BITS) / CODEWORD_BITS;
            assert_eq!(found, codewords, "{delay_bound:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..Default::default() })]

    /// Goal: what the receiver's XGMII shows is what the sender's showed, all of it later by the
    /// same time. Method: vectors of a MAC through deletion and insertion, one by one.
    #[test]
    fn starts_come_out_of_idle_insertion_after_the_same_delay(
        frames in prop::collection::vec((0_usize..60, 60_usize..1997), 1..60),
    ) {
        let (mut mapper, mut deletion) = (FrameMapper::default(), IdleDeletion::default());
        let (mut sent, mut kept, mut passed_due) = (Vec::new(), Vec::new(), 0);
        let mut put = |vector: Vector, deletion: &mut IdleDeletion| {
            sent.push(vector);
            kept.extend(deletion.step(vector));
        };
        for (idle, len) in &frames {
            mapper.gap().into_iter().for_each(|vector| put(vector, &mut deletion));
            for _ in 0..*idle {
                put(mapper.idle(), &mut deletion);
            }
            while deletion.due() > 0 {
                put(Vector::IDLE, &mut deletion);
                passed_due += 1;
            }
            for vector in mapper.frame(&vec![0; *len], 1, deletion.passed()) {
                put(vector, &mut deletion);
            }
        }
        for _ in 0..100 {
            put(mapper.idle(), &mut deletion);
        }
        prop_assert!(passed_due <= 4 * frames.len());
        let mut insertion = IdleInsertion::default();
        let mut out = vec![Vector::IDLE; 2 * kept.len() + 10];
        let progress = insertion.process(&kept, &mut out);
        prop_assert_eq!(progress.consumed, kept.len());
        prop_assert_eq!(progress.produced, kept.len() + kept.len() / 27 * 4);
        let delay = insertion.delay();
        prop_assert_eq!(delay, 40);
        // Not only starts: frames are whole, and where they were.
        let back = &out[delay..progress.produced];
        let both = sent.len().min(back.len());
        for at in 0..both {
            prop_assert_eq!(back[at], sent[at], "vector {}", at);
        }
        prop_assert!(both + 50 > sent.len());
    }
}
