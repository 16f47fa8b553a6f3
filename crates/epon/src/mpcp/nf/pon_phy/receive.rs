//! Line bits to packets of the PON's side, each with the instant at which it begins.

use catena_engine::nf::DropReason;
use catena_engine::own_counters::CounterSink;
use catena_pcs::llid::Accept;
use catena_pcs::params::{CODEWORD_BITS, DATA_BLOCKS, Params};
use catena_pcs::stage::{Direction, Receive, Received, Verdict};
use catena_pcs::{Simd, fast};

use super::super::super::burst_time::{OPENING_OCTETS, quanta_to};
use super::super::frame_queue::FrameQueue;
use super::super::pon_packet::{FRAME_LEN_MAX, PON_HEADER_LEN, write_frame};
use super::transmit::LINE_LEN_MAX;
use crate::chunk::{Content, HEADER_LEN, Header};
use crate::phy::receiver_counts;

/// Payload blocks of a codeword.
const BLOCKS: u64 = DATA_BLOCKS as u64;
/// Blocks of idle that open a burst.
const OPENING_BLOCKS: u64 = OPENING_OCTETS / 8;
/// Codewords of darkness after which no receiver believes in a burst any more: one may be needed to
/// fill up a codeword that has begun, and in the next lies a terminator.
const DARK_CODEWORDS: usize = 2;
static DARK: [u8; (DARK_CODEWORDS * CODEWORD_BITS).div_ceil(8)] =
    [0; (DARK_CODEWORDS * CODEWORD_BITS).div_ceil(8)];

/// A frame of the chunk at hand.
#[derive(Clone, Copy, Debug)]
struct Found {
    llid: u16,
    /// In which payload block it begins, counted by the receiver.
    block: u64,
    end: usize,
}

/// The receiving half.
pub(super) struct Receiving {
    direction: Direction,
    receiver: fast::Receiver,
    /// Frames of the chunk at hand, and their octets one after the other; neither ever grows.
    found: Vec<Found>,
    octets: Vec<u8>,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Counts {
    chunks: u64,
    /// Those of them, each a granted burst, in which no burst was found.
    burstless: u64,
    malformed: u64,
    unplaced: u64,
    queue_full: u64,
}

impl Receiving {
    pub(super) fn new(direction: Direction) -> Self {
        let params = Params::default();
        // The MAC knows its identifier, and learns it by frames for all.
        let receiver = fast::Receiver::new(direction, Accept::Any, params, Simd::best());
        Self {
            direction,
            receiver,
            found: Vec::with_capacity(LINE_LEN_MAX / 64),
            octets: Vec::with_capacity(2 * LINE_LEN_MAX),
            counts: Counts::default(),
        }
    }

    /// Takes a chunk; gives how it ends.
    pub(super) fn chunk(&mut self, bytes: &[u8], leaving: &mut FrameQueue) -> DropReason {
        let header = Header::parse(bytes).ok();
        let expected = Content::Line(self.direction);
        let Some(header) = header.filter(|header| header.content == expected) else {
            self.counts.malformed += 1;
            return DropReason::Malformed;
        };
        let line = &bytes[HEADER_LEN..];
        let (bit, count) = (usize::from(header.bit), header.count as usize);
        let codewords_before = self.receiver.counters().codewords;
        let bursts_before = self.receiver.counters().bursts;
        self.found.clear();
        self.octets.clear();
        self.receive(line, bit, count);
        if self.direction == Direction::Upstream && self.receiver.verdict() == Verdict::InStep {
            // Its end was not seen; what follows is darkness.
            self.receive(&DARK, 0, DARK_CODEWORDS * CODEWORD_BITS);
        }
        self.counts.chunks += 1;
        let is_upstream = self.direction == Direction::Upstream;
        let has_burst = self.receiver.counters().bursts > bursts_before;
        self.counts.burstless += u64::from(is_upstream && !has_burst);
        let first = match self.direction {
            Direction::Downstream => self.first_block(count),
            Direction::Upstream => Some(BLOCKS * codewords_before + OPENING_BLOCKS),
        };
        self.give(header.due as u32, first, leaving)
    }

    fn receive(&mut self, line: &[u8], bit: usize, count: usize) {
        let (found, octets) = (&mut self.found, &mut self.octets);
        let unplaced = &mut self.counts.unplaced;
        self.receiver
            .receive(line, bit, count, &mut |frame: &Received<'_>| {
                let end = octets.len() + frame.bytes.len();
                if found.len() == found.capacity() || end > octets.capacity() {
                    *unplaced += 1;
                    return;
                }
                octets.extend_from_slice(frame.bytes);
                found.push(Found {
                    llid: frame.llid,
                    block: frame.block,
                    end,
                });
            });
    }

    /// The first block of a chunk of `count` bits downstream that has just been taken in; none if
    /// the receiver is not in step with its codewords.
    fn first_block(&self, count: usize) -> Option<u64> {
        let counters = self.receiver.counters();
        let taken = counters.hunted_bits + counters.codewords * CODEWORD_BITS as u64;
        let is_aligned = taken == counters.line_bits && count.is_multiple_of(CODEWORD_BITS);
        let codewords = (count / CODEWORD_BITS) as u64;
        (is_aligned && self.receiver.verdict() == Verdict::InStep)
            .then(|| BLOCKS * counters.codewords.saturating_sub(codewords))
    }

    /// Gives the frames that were found, the block `first` being at instant `instant`.
    fn give(&mut self, instant: u32, first: Option<u64>, leaving: &mut FrameQueue) -> DropReason {
        let mut packet = [0; PON_HEADER_LEN + FRAME_LEN_MAX];
        let mut start = 0;
        let mut outcome = DropReason::Consumed;
        for found in &self.found {
            let frame = &self.octets[start..found.end];
            start = found.end;
            let place = first.and_then(|first| found.block.checked_sub(first));
            let Some(blocks) = place.filter(|_| frame.len() <= FRAME_LEN_MAX) else {
                self.counts.unplaced += 1;
                continue;
            };
            // Downstream there is one frame in a chunk, and its instant is the chunk's.
            let instant = match self.direction {
                Direction::Downstream => instant,
                Direction::Upstream => instant.wrapping_add(quanta_to(8 * blocks) as u32),
            };
            let packet = &mut packet[..PON_HEADER_LEN + frame.len()];
            write_frame(packet, (instant, found.llid), (frame, &[]));
            if !leaving.push(packet, 0, 0) {
                self.counts.queue_full += 1;
                outcome = DropReason::NoBuffer;
            }
        }
        outcome
    }

    pub(super) fn counters(&self, out: &mut CounterSink<'_>) {
        let counts = &self.counts;
        out.extend([
            ("chunks", counts.chunks),
            ("malformed", counts.malformed),
            ("frames_unplaced", counts.unplaced),
            ("queue_full", counts.queue_full),
        ]);
        if self.direction == Direction::Upstream {
            out.put("chunks_burstless", counts.burstless);
        }
        out.extend(receiver_counts(self.direction, self.receiver.counters()));
    }
}

/// Names of what a receiver of this direction counts.
pub(super) fn counter_names(line: Direction) -> Vec<&'static str> {
    let mut names = vec!["chunks", "malformed", "frames_unplaced", "queue_full"];
    if line == Direction::Upstream {
        names.push("chunks_burstless");
    }
    names.extend(receiver_counts(line, &Default::default()).map(|(name, _)| name));
    names
}
