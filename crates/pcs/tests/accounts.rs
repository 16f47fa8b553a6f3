// SPDX-License-Identifier: Apache-2.0
//! Goal: what a receiver says of a line is true: bursts that it missed, where in time frames are,
//! how many bits were wrong, when there are too many. Method: lines whose faults are known, at
//! both implementations.

use catena_pcs::burst::TERMINATOR_BITS;
use catena_pcs::llid::Accept;
use catena_pcs::params::{BLOCK_BITS, CODEWORD_BITS, Params};
use catena_pcs::stage::{Direction, Receive, Received, Transmit};
use catena_pcs::{Simd, fast, reference};

fn receivers(direction: Direction, params: &Params) -> Vec<Box<dyn Receive>> {
    let slow = reference::Receiver::new(direction, Accept::Any, params.clone());
    let mut all: Vec<Box<dyn Receive>> = vec![Box::new(slow)];
    for simd in Simd::all() {
        let fast = fast::Receiver::new(direction, Accept::Any, params.clone(), simd);
        all.push(Box::new(fast));
    }
    all
}

/// Bits of a line, and where bursts begin in it.
#[derive(Default)]
struct Line {
    bytes: Vec<u8>,
    len: usize,
    starts: Vec<usize>,
}

impl Line {
    fn silence(&mut self, bits: usize) {
        self.len += bits;
        self.bytes.resize(self.len.div_ceil(8) + 8, 0);
    }

    fn pull(&mut self, transmitter: &mut dyn Transmit, codewords: usize) {
        let reach = (self.len + codewords * CODEWORD_BITS).div_ceil(8);
        self.bytes.resize(reach, 0);
        self.len += transmitter.pull(&mut self.bytes, self.len);
        self.bytes.resize(self.len.div_ceil(8) + 8, 0);
    }

    /// So many bursts of two frames, `dark` bits apart.
    fn bursts(params: &Params, count: usize, dark: usize) -> Self {
        let mut transmitter =
            fast::Transmitter::new(Direction::Upstream, params.clone(), Simd::best());
        let mut line = Self::default();
        for _ in 0..count {
            line.silence(dark);
            line.starts.push(line.len);
            for _ in 0..2 {
                transmitter.push(&[0xa5; 100], 3).unwrap();
            }
            line.pull(&mut transmitter, 10);
        }
        line.silence(dark);
        line
    }

    fn flip(&mut self, bit: usize) {
        self.bytes[bit / 8] ^= 1 << (bit % 8);
    }

    fn receive(&self, receiver: &mut dyn Receive, step: usize) -> Vec<u64> {
        let mut bits = Vec::new();
        let mut keep = |frame: &Received<'_>| bits.push(frame.bit);
        let mut at = 0;
        while at < self.len {
            let len = step.min(self.len - at);
            receiver.receive(&self.bytes, at, len, &mut keep);
            at += len;
        }
        receiver.finish(&mut keep);
        bits
    }
}

#[test]
fn a_burst_without_delimiter_is_counted_as_missed() {
    let params = Params::default();
    for (broken, ends_behind) in [(0, 0), (1, 0), (4, 0), (4, 3 * BLOCK_BITS)] {
        let mut line = Line::bursts(&params, 5, 700);
        let delimiter = line.starts[broken] + params.sync_blocks * BLOCK_BITS;
        for bit in (0..60).step_by(4) {
            line.flip(delimiter + bit);
        }
        if ends_behind > 0 {
            // The file ends with its sync pattern.
            line.len = delimiter + BLOCK_BITS;
        }
        for receiver in &mut receivers(Direction::Upstream, &params) {
            let found = line.receive(receiver.as_mut(), 1001);
            let counters = receiver.counters();
            assert_eq!((counters.bursts, counters.bursts_missed), (4, 1));
            assert_eq!(found.len(), 8);
        }
    }
}

#[test]
fn whole_bursts_silence_and_noise_have_no_missed_bursts() {
    let mut state = 7_u64;
    let mut noise = Line::default();
    for _ in 0..20_000 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        noise.bytes.push((state >> 56) as u8);
    }
    noise.len = 8 * noise.bytes.len();
    let params = Params::default();
    let mut lines = vec![Line::bursts(&params, 20, 333), noise];
    // Some blocks of the sync pattern are destroyed, the delimiter is not.
    let mut torn = Line::bursts(&params, 3, 500);
    for block in [7, 8, 30, 62, 63] {
        for bit in 0..40 {
            torn.flip(torn.starts[1] + block * BLOCK_BITS + bit);
        }
    }
    lines.push(torn);
    for line in lines {
        for receiver in &mut receivers(Direction::Upstream, &params) {
            line.receive(receiver.as_mut(), 777);
            assert_eq!(receiver.counters().bursts_missed, 0);
            assert_eq!(receiver.counters().bursts, line.starts.len() as u64);
        }
    }
}

#[test]
fn a_frame_is_at_the_line_bit_at_which_its_start_is() {
    let params = Params::default();
    let line = Line::bursts(&params, 6, 12_345);
    let first = (params.sync_blocks + 1 + params.opening_idles) * BLOCK_BITS;
    for receiver in &mut receivers(Direction::Upstream, &params) {
        let found = line.receive(receiver.as_mut(), 1501);
        assert_eq!(found.len(), 12);
        for (pair, start) in found.chunks(2).zip(&line.starts) {
            assert_eq!(pair[0], (start + first) as u64);
            // 124 octets later: 16 blocks at most, and parity where a codeword ends.
            let apart = (pair[1] - pair[0]) as usize / BLOCK_BITS;
            assert!((15..=20).contains(&apart), "{apart}");
        }
        assert_eq!(receiver.counters().first_hunt_bits as usize, {
            line.starts[0] + params.sync_blocks * BLOCK_BITS
        });
        assert!(receiver.counters().bursts_ended as usize * TERMINATOR_BITS > 0);
    }
}

/// A downstream line of so many codewords.
fn stream(codewords: usize) -> Line {
    let params = Params::default();
    let mut transmitter = fast::Transmitter::new(Direction::Downstream, params, Simd::best());
    let mut line = Line::default();
    line.pull(&mut transmitter, 2);
    for _ in 2..codewords {
        transmitter.push(&[0x5a; 60], 1).unwrap();
        line.pull(&mut transmitter, 1);
    }
    line
}

#[test]
fn the_bit_error_rate_is_over_the_bits_that_the_code_protects() {
    let mut line = stream(40);
    // One payload bit in each codeword behind lock.
    for codeword in 2..40 {
        line.flip(codeword * CODEWORD_BITS + 300);
    }
    for receiver in &mut receivers(Direction::Downstream, &Params::default()) {
        line.receive(receiver.as_mut(), 5000);
        let ber = receiver.counters().ber().unwrap();
        assert!((ber - 38.0 / (40.0 * 2011.0)).abs() < 1e-9, "{ber}");
    }
}

#[test]
fn while_ber_is_high_frames_are_withheld_if_wanted() {
    let mut line = stream(200);
    // Both bits of a header, which the code sees as one error.
    for codeword in 40..80 {
        line.flip(codeword * CODEWORD_BITS + 5 * BLOCK_BITS);
    }
    let params = |high_ber_withholds| Params {
        ber_window_codewords: 20,
        ber_headers_max: 5,
        high_ber_withholds,
        ..Params::default()
    };
    for receiver in &mut receivers(Direction::Downstream, &params(false)) {
        let found = line.receive(receiver.as_mut(), 5000);
        assert_eq!(receiver.counters().high_ber_windows, 2);
        assert_eq!(receiver.counters().drops.total(), 0);
        assert_eq!(found.len(), 198);
        assert!(!receiver.is_high_ber());
    }
    for receiver in &mut receivers(Direction::Downstream, &params(true)) {
        let found = line.receive(receiver.as_mut(), 5000);
        let withheld = receiver.counters().drops.high_ber;
        assert_eq!(found.len() as u64 + withheld, 198);
        // From the fifth wrong header to the end of a window without any.
        assert!((53..=57).contains(&withheld), "{withheld}");
        assert!(!receiver.is_high_ber());
        let high = 60 * CODEWORD_BITS;
        assert!(
            found
                .iter()
                .all(|&bit| (bit as usize).abs_diff(high + 5 * CODEWORD_BITS) > 20 * CODEWORD_BITS)
        );
    }
}
