// SPDX-License-Identifier: Apache-2.0
//! Policers and markers beside FlowBlaze's window, and beside buckets of tokens as the RFCs tell of
//! them: random arrivals of some sources, mostly near their rates.

use super::super::bench::Bench;
use super::super::packet::udp;
use super::super::random::Random;
use super::Compared;

/// Sources of meters, and of the window.
const SOURCES: usize = 8;
const WINDOW_SOURCES: u64 = 40;
/// 10 Mbit a second.
const RATE: u64 = 1_250_000;
/// Of green, yellow and red packets: AF11, AF12 and AF13 (RFC 2597).
const DSCP: [u8; 3] = [10, 12, 14];
/// As `programs/policer.yaml` says.
const INTERVAL_NS: u64 = 10_000;
const BURST: u64 = 3;
/// After which it forgets a source.
const IDLE_NS: u64 = 60_000_000_000;

/// A program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policer {
    /// FB5G's, with the window from `t_min` to `t_max`.
    Window,
    /// The generic cell rate algorithm by packet.
    Packets,
    /// The same by byte.
    Bytes,
    /// RFC 2697.
    SingleRate,
    /// RFC 2698.
    TwoRate,
}

/// So many arrivals at a program and at its model.
pub(crate) fn agrees(policer: Policer, arrivals: u64) -> Compared {
    match policer {
        Policer::Window => window_agrees(arrivals),
        Policer::Packets => meter_agrees(
            arrivals,
            &Meter {
                text: include_str!("../../programs/policer_packets.yaml"),
                model: gcra,
                pair: [Bucket::full(1000, 100); 2],
                is_of_bytes: false,
                is_marker: false,
            },
        ),
        Policer::Bytes => meter_agrees(
            arrivals,
            &Meter {
                text: include_str!("../../programs/policer_bytes.yaml"),
                model: gcra,
                pair: [Bucket::full(RATE, 15_000); 2],
                is_of_bytes: true,
                is_marker: false,
            },
        ),
        Policer::SingleRate => meter_agrees(
            arrivals,
            &Meter {
                text: include_str!("../../programs/marker_srtcm.yaml"),
                model: srtcm,
                pair: [Bucket::full(RATE, 15_000), Bucket::full(0, 30_000)],
                is_of_bytes: true,
                is_marker: true,
            },
        ),
        Policer::TwoRate => meter_agrees(
            arrivals,
            &Meter {
                text: include_str!("../../programs/marker_trtcm.yaml"),
                model: trtcm,
                pair: [Bucket::full(RATE, 15_000), Bucket::full(2 * RATE, 30_000)],
                is_of_bytes: true,
                is_marker: true,
            },
        ),
    }
}

/// A source's window as FB5G tells of it, and the same as one number: when the next packet is due
/// at the latest by the rate.
#[derive(Clone, Copy)]
struct Window {
    t_min: u64,
    t_max: u64,
    due: u64,
}

impl Window {
    fn opened(now_ns: u64) -> Self {
        let t_max = now_ns + INTERVAL_NS;
        Self {
            t_min: t_max - INTERVAL_NS * BURST,
            t_max,
            due: t_max,
        }
    }

    /// Whether a packet passes, by the window and by its number.
    fn passes(&mut self, now_ns: u64) -> [bool; 2] {
        let is_due = now_ns > self.due - INTERVAL_NS * BURST;
        if is_due {
            self.due = self.due.max(now_ns) + INTERVAL_NS;
        }
        let is_behind = now_ns > self.t_max;
        let is_within = now_ns > self.t_min;
        if is_behind {
            let opened = Self::opened(now_ns);
            (self.t_min, self.t_max) = (opened.t_min, opened.t_max);
        } else if is_within {
            self.t_min += INTERVAL_NS;
            self.t_max += INTERVAL_NS;
        }
        [is_behind || is_within, is_due]
    }
}

fn window_agrees(arrivals: u64) -> Compared {
    let mut bench = Bench::new(include_str!("../../programs/policer.yaml"));
    let mut random = Random(0x0090_11ce);
    let frames: Vec<Vec<u8>> = (0..WINDOW_SOURCES as u8)
        .map(|host| {
            let from = ([11, 0, 0, host], 1024).into();
            udp(from, ([9, 9, 9, 9], 53).into(), &[])
        })
        .collect();
    let mut windows: Vec<Option<Window>> = vec![None; frames.len()];
    let (mut compared, mut passed) = (Compared::default(), 0);
    for arrival in 0..arrivals {
        // About the rate of all, close together, or just behind each other; now and then so long
        // that all windows are over, or all flows.
        let gap_ns = match random.below(10_000) {
            0 => IDLE_NS + 10_000_000_000,
            1..=20 => 10 * INTERVAL_NS,
            21..=3000 => 0,
            _ => random.below(2 * INTERVAL_NS / WINDOW_SOURCES),
        };
        bench.wait(gap_ns);
        if gap_ns > IDLE_NS {
            windows.fill(None);
        }
        // Few of the sources send most.
        let source = random.below(WINDOW_SOURCES) * random.below(WINDOW_SOURCES) / WINDOW_SOURCES;
        let window = &mut windows[source as usize];
        let expected = match window {
            Some(window) => window.passes(bench.now_ns),
            None => {
                *window = Some(Window::opened(bench.now_ns));
                [true; 2]
            }
        };
        let found = bench.one(0, &frames[source as usize]);
        let named = expected.map(|passes| if passes { "out" } else { "!red" });
        compared.note([&*found; 2], named, || format!("arrival {arrival}"));
        passed += u64::from(expected[0]);
    }
    compared.saw("passed", passed, arrivals / 10);
    compared.saw("red", arrivals - passed, arrivals / 10);
    compared
}

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

/// A program with one meter, and the meter's model.
struct Meter {
    text: &'static str,
    model: Model,
    /// Of a new source.
    pair: Pair,
    is_of_bytes: bool,
    /// Whether packets come with a colour, and are marked.
    is_marker: bool,
}

fn meter_agrees(arrivals: u64, meter: &Meter) -> Compared {
    let mut bench = Bench::new(meter.text);
    let mut random = Random(0x0c01_0415);
    let mut sources = [(meter.pair, 0); SOURCES];
    let (mut compared, mut colours) = (Compared::default(), [0_u64; 3]);
    for arrival in 0..arrivals {
        let gap_ns = match random.below(1000) {
            0 => 50_000_000,
            1..=300 => 0,
            _ => random.below(if meter.is_of_bytes { 150_000 } else { 250_000 }),
        };
        bench.wait(gap_ns);
        let source = (random.below(64) % random.below(8).max(1)) as usize;
        let from = ([11, 0, 0, source as u8], 1024).into();
        let payload = [0; 1400];
        let payload = &payload[..random.below(1400) as usize];
        let mut frame = udp(from, ([9, 9, 9, 9], 53).into(), payload);
        let came = random.below(4) as usize % 3;
        if meter.is_marker {
            mark(&mut frame, DSCP[came]);
        }
        let (pair, last_ns) = &mut sources[source];
        let elapsed_ns = bench.now_ns - std::mem::replace(last_ns, bench.now_ns);
        let cost = if meter.is_of_bytes {
            frame.len() as u64
        } else {
            1
        };
        let colour = (meter.model)(pair, elapsed_ns, cost, came);
        colours[colour] += 1;
        let passed = bench.pass(0, &frame);
        // A marker passes some colours and says which; a policer drops what is red.
        let (found, expected) = match meter.is_marker && passed.verdict == "out" {
            true => (passed.bytes[15] >> 2, DSCP[colour]),
            false => (u8::from(passed.verdict != "out"), u8::from(colour == 2)),
        };
        compared.note(found, expected, || format!("arrival {arrival}"));
    }
    let least = |is_needed: bool| if is_needed { arrivals / 30 } else { 0 };
    compared.saw("green", colours[0], least(true));
    compared.saw("yellow", colours[1], least(meter.is_marker));
    compared.saw("red", colours[2], least(true));
    compared
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
