// SPDX-License-Identifier: Apache-2.0
//! Policers and markers whose meters are exact, beside buckets of tokens as the RFCs tell of them.

use super::bench::Bench;
use super::packet::udp;
use super::random::Random;

const SOURCES: usize = 8;
/// 10 Mbit a second.
const RATE: u64 = 1_250_000;
/// Of green, yellow and red packets: AF11, AF12 and AF13 (RFC 2597).
const DSCP: [u8; 3] = [10, 12, 14];

/// A bucket of tokens, in units of 1/10^9 of a packet or byte.
#[derive(Clone, Copy)]
struct Bucket {
    tokens: u128,
    size: u128,
    rate: u128,
}

impl Bucket {
    fn full(rate: u64, size: u64) -> Self {
        let size = u128::from(size) * 1_000_000_000;
        let rate = u128::from(rate);
        Self {
            tokens: size,
            size,
            rate,
        }
    }

    /// Adds tokens of a time; those that it has no room for.
    fn fill(&mut self, ns: u64) -> u128 {
        self.add(u128::from(ns) * self.rate)
    }

    fn add(&mut self, tokens: u128) -> u128 {
        let room = self.size - self.tokens;
        self.tokens += tokens.min(room);
        tokens.saturating_sub(room)
    }

    fn holds(&self, cost: u64) -> bool {
        self.tokens >= u128::from(cost) * 1_000_000_000
    }

    fn take(&mut self, cost: u64) {
        self.tokens -= u128::from(cost) * 1_000_000_000;
    }
}

/// Buckets of a source: the committed one, and the other one.
type Pair = [Bucket; 2];
/// Time since the source's last packet in ns, cost, colour of the packet; what it is then.
type Model = fn(&mut Pair, u64, u64, usize) -> usize;

fn gcra(pair: &mut Pair, ns: u64, cost: u64, _: usize) -> usize {
    pair[0].fill(ns);
    if !pair[0].holds(cost) {
        return 2;
    }
    pair[0].take(cost);
    0
}

/// RFC 2697, section 3: the excess bucket gets what the committed one has no room for.
fn srtcm([committed, excess]: &mut Pair, ns: u64, cost: u64, came: usize) -> usize {
    let over = committed.fill(ns);
    excess.add(over);
    if came == 0 && committed.holds(cost) {
        committed.take(cost);
        0
    } else if came < 2 && excess.holds(cost) {
        excess.take(cost);
        1
    } else {
        2
    }
}

/// RFC 2698, section 3.
fn trtcm([committed, peak]: &mut Pair, ns: u64, cost: u64, came: usize) -> usize {
    committed.fill(ns);
    peak.fill(ns);
    if came == 2 || !peak.holds(cost) {
        return 2;
    }
    peak.take(cost);
    if came == 1 || !committed.holds(cost) {
        return 1;
    }
    committed.take(cost);
    0
}

/// Random packets of some sources through a program, and through its model.
fn agree(text: &str, (model, pair): (Model, Pair), (is_of_bytes, is_marker): (bool, bool)) {
    let mut bench = Bench::new(text);
    let mut random = Random(0x0c01_0415);
    let mut sources = [(pair, 0); SOURCES];
    let mut colours = [0_u32; 3];
    for _ in 0..30_000 {
        let gap_ns = match random.below(1000) {
            0 => 50_000_000,
            1..=300 => 0,
            _ => random.below(if is_of_bytes { 150_000 } else { 250_000 }),
        };
        bench.wait(gap_ns);
        let source = (random.below(64) % random.below(8).max(1)) as usize;
        let from = ([11, 0, 0, source as u8], 1024).into();
        let payload = vec![0; random.below(1400) as usize];
        let mut frame = udp(from, ([9, 9, 9, 9], 53).into(), &payload);
        let came = random.below(4) as usize % 3;
        if is_marker {
            mark(&mut frame, DSCP[came]);
        }
        let (pair, last_ns) = &mut sources[source];
        let elapsed_ns = bench.now_ns - std::mem::replace(last_ns, bench.now_ns);
        let cost = if is_of_bytes { frame.len() as u64 } else { 1 };
        let expected = model(pair, elapsed_ns, cost, came);
        colours[expected] += 1;
        let passed = bench.pass(0, &frame);
        if is_marker && passed.verdict == "out" {
            assert_eq!(passed.bytes[15] >> 2, DSCP[expected], "{colours:?}");
        } else {
            let verdict = if expected == 2 { "!red" } else { "out" };
            assert_eq!(passed.verdict, verdict, "{colours:?}");
        }
    }
    println!("{colours:?}");
    let least = if is_marker {
        &colours[..]
    } else {
        &[colours[0], colours[2]]
    };
    assert!(least.iter().all(|count| *count > 1000), "{colours:?}");
}

/// Writes the DSCP of a packet of IPv4 and mends its checksum.
fn mark(frame: &mut [u8], dscp: u8) {
    frame[15] = dscp << 2;
    frame[24..26].fill(0);
    let words = frame[14..34].chunks(2);
    let sum: u32 = words
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let sum = !((folded & 0xffff) + (folded >> 16)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_policer_of_packets_is_exact() {
    let text = include_str!("../../programs/policer_packets.yaml");
    let pair = [Bucket::full(1000, 100); 2];
    agree(text, (gcra, pair), (false, false));
}

#[test]
fn a_policer_of_bytes_is_exact() {
    let text = include_str!("../../programs/policer_bytes.yaml");
    let pair = [Bucket::full(RATE, 15_000); 2];
    agree(text, (gcra, pair), (true, false));
}

#[test]
fn the_single_rate_marker_is_that_of_its_rfc() {
    let text = include_str!("../../programs/marker_srtcm.yaml");
    let mut pair = [Bucket::full(RATE, 15_000), Bucket::full(RATE, 30_000)];
    pair[1].rate = 0;
    agree(text, (srtcm, pair), (true, true));
}

#[test]
fn the_two_rate_marker_is_that_of_its_rfc() {
    let text = include_str!("../../programs/marker_trtcm.yaml");
    let pair = [Bucket::full(RATE, 15_000), Bucket::full(2 * RATE, 30_000)];
    agree(text, (trtcm, pair), (true, true));
}
