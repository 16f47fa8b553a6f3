//! Packets of the PON's side to line bits: a chunk for each frame downstream, one for each burst
//! upstream.

use catena_engine::nf::DropReason;
use catena_engine::own_counters::CounterSink;
use catena_pcs::params::{CODEWORD_BITS, DATA_BLOCKS, Params};
use catena_pcs::stage::{Direction, PushError, Transmit};
use catena_pcs::{Simd, fast};

use super::super::super::burst_time::{frame_octets, quanta_to};
use super::super::super::quanta_between;
use super::super::frame_queue::FrameQueue;
use super::super::pon_packet::{MORE_FOLLOW, PonPacket};
use crate::chunk::{Content, HEADER_LEN, Header};

/// Most octets of a chunk: what the largest of the usual buffers holds.
const CHUNK_LEN_MAX: usize = (256 << 10) - 128;
/// Most octets of line bits in it.
pub(super) const LINE_LEN_MAX: usize = CHUNK_LEN_MAX - HEADER_LEN;
/// Bits of the line in a quantum of 16 ns.
const BITS_PER_QUANTUM: u64 = 165;
/// A packet so many quanta from where its burst goes on is of another burst.
const OF_BURST: u32 = 8;

/// A burst that is not whole yet.
#[derive(Clone, Copy, Debug)]
struct Open {
    /// When its first frame begins.
    first: u32,
    /// Octets of the MAC's stream in it.
    octets: u64,
    /// At which bit of the first octet it begins, and at which it goes on.
    begin: usize,
    at: usize,
}

/// The transmitting half.
pub(super) struct Transmitting {
    direction: Direction,
    params: Params,
    transmitter: fast::Transmitter,
    /// A header, and the longest chunk's line bits.
    chunk: Box<[u8]>,
    open: Option<Open>,
    /// The rest of this burst is dropped: it is too long.
    is_cutting: bool,
    number: u32,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    packets: u64,
    malformed: u64,
    chunks: u64,
    line_bits: u64,
    bursts_cut: u64,
    queue_full: u64,
}

fn transmitter(direction: Direction, params: &Params) -> fast::Transmitter {
    fast::Transmitter::new(direction, params.clone(), Simd::best())
}

impl Transmitting {
    pub(super) fn new(direction: Direction, params: Params) -> Self {
        Self {
            direction,
            transmitter: transmitter(direction, &params),
            params,
            chunk: vec![0; HEADER_LEN + LINE_LEN_MAX].into(),
            open: None,
            is_cutting: false,
            number: 0,
            counts: Counts::default(),
        }
    }

    /// Takes a packet; gives how it ends.
    pub(super) fn packet(
        &mut self,
        bytes: &[u8],
        tag: u16,
        leaving: &mut FrameQueue,
    ) -> DropReason {
        let Ok(packet) = PonPacket::parse(bytes) else {
            self.counts.malformed += 1;
            return DropReason::Malformed;
        };
        self.counts.packets += 1;
        if self.is_cutting {
            self.is_cutting = tag == MORE_FOLLOW;
            return DropReason::TooLarge;
        }
        if self.open.is_some_and(|open| !goes_on(open, packet.instant)) {
            self.end_burst(leaving);
        }
        let begin = match self.direction {
            Direction::Downstream => 0,
            Direction::Upstream => u64::from(packet.instant) * BITS_PER_QUANTUM % 8,
        };
        let mut open = self.open.take().unwrap_or(Open {
            first: packet.instant,
            octets: 0,
            begin: begin as usize,
            at: begin as usize,
        });
        open.octets += frame_octets(packet.frame.len());
        loop {
            match self.transmitter.push(packet.frame, packet.llid) {
                Ok(()) => break,
                Err(PushError::TooLong { .. }) => {
                    self.counts.malformed += 1;
                    return DropReason::Malformed;
                }
                Err(PushError::Full) => {
                    let full = self.transmitter.waiting_blocks() / DATA_BLOCKS;
                    if self.pull(&mut open.at, full.max(1)) == 0 {
                        self.is_cutting = tag == MORE_FOLLOW;
                        return self.cut();
                    }
                }
            }
        }
        self.open = Some(open);
        if self.direction == Direction::Downstream {
            return self.end_codewords(leaving);
        }
        if tag != MORE_FOLLOW {
            return self.end_burst(leaving);
        }
        DropReason::Consumed
    }

    /// Line bits from bit `at` on, at most so many codewords; says how many bits.
    fn pull(&mut self, at: &mut usize, codewords: usize) -> usize {
        let line = &mut self.chunk[HEADER_LEN..];
        let reach = (*at + codewords * CODEWORD_BITS).div_ceil(8);
        let bits = self
            .transmitter
            .pull(&mut line[..reach.min(LINE_LEN_MAX)], *at);
        *at += bits;
        bits
    }

    /// A chunk downstream: codewords up to one with idle behind the frame, so that the frame is
    /// whole in them.
    fn end_codewords(&mut self, leaving: &mut FrameQueue) -> DropReason {
        let Some(mut open) = self.open.take() else {
            return DropReason::Consumed;
        };
        loop {
            let waiting = self.transmitter.waiting_blocks();
            if self.pull(&mut open.at, 1) == 0 {
                return self.cut();
            }
            if waiting < DATA_BLOCKS {
                return self.leave(open, leaving);
            }
        }
    }

    /// A burst, to the end of its terminator.
    fn end_burst(&mut self, leaving: &mut FrameQueue) -> DropReason {
        let Some(mut open) = self.open.take() else {
            return DropReason::Consumed;
        };
        while self.pull(&mut open.at, LINE_LEN_MAX * 8 / CODEWORD_BITS) > 0 {}
        let has_room = open.at + CODEWORD_BITS <= 8 * LINE_LEN_MAX;
        if self.transmitter.waiting_blocks() > 0 || !has_room {
            return self.cut();
        }
        self.leave(open, leaving)
    }

    /// A burst is longer than a chunk can be: what was made has no end, and what is left no front.
    fn cut(&mut self) -> DropReason {
        self.open = None;
        self.transmitter = transmitter(self.direction, &self.params);
        self.counts.bursts_cut += 1;
        DropReason::TooLarge
    }

    /// The chunk is whole.
    fn leave(&mut self, open: Open, leaving: &mut FrameQueue) -> DropReason {
        let bits = open.at - open.begin;
        let line = &mut self.chunk[HEADER_LEN..];
        if !open.at.is_multiple_of(8) {
            line[open.at / 8] &= (1 << (open.at % 8)) - 1;
        }
        line[0] &= u8::MAX << open.begin;
        let header = Header {
            content: Content::Line(self.direction),
            trial: 0,
            bit: open.begin as u8,
            codewords: (bits / CODEWORD_BITS) as u32,
            number: self.number,
            count: bits as u32,
            due: open.first.into(),
        };
        header.write(&mut self.chunk);
        self.number = self.number.wrapping_add(1);
        let len = HEADER_LEN + open.at.div_ceil(8);
        if !leaving.push(&self.chunk[..len], 0, 0) {
            self.counts.queue_full += 1;
            return DropReason::NoBuffer;
        }
        self.counts.chunks += 1;
        self.counts.line_bits += bits as u64;
        DropReason::Consumed
    }

    pub(super) fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.counts;
        out.extend([
            ("packets", counts.packets),
            ("malformed", counts.malformed),
            ("chunks", counts.chunks),
            ("line_bits", counts.line_bits),
            ("queue_full", counts.queue_full),
        ]);
        if self.direction == Direction::Upstream {
            out.put("bursts_cut", counts.bursts_cut);
        }
    }
}

/// Names of what a transmitter of this direction counts.
pub(super) fn counter_names(line: Direction) -> Vec<&'static str> {
    let mut names = vec!["packets", "malformed", "chunks", "line_bits", "queue_full"];
    if line == Direction::Upstream {
        names.push("bursts_cut");
    }
    names
}

/// Whether a packet at this instant is the next of a burst.
fn goes_on(open: Open, instant: u32) -> bool {
    let expected = open.first.wrapping_add(quanta_to(open.octets) as u32);
    quanta_between(expected, instant).unsigned_abs() <= OF_BURST
}
