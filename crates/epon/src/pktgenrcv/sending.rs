//! Which chunk goes when, and what is in it.
//!
//! | phase | chunks | goes on to |
//! |---|---|---|
//! | lead | idle, for lock | traffic, after `lead` chunks |
//! | traffic | full of frames, or raw | tail, after `count` or `duration` |
//! | tail | idle, one at a time | end, when all frames are back or after `tail` chunks |
//!
//! Frames are as many as codewords carry: preamble, frame, check sequence and gap take their octets
//! of 216 per codeword, less three blocks per chunk, so that a receiver sees the block behind the
//! last frame before the chunk ends. What is left goes to the next chunk; a frame longer than a
//! chunk crosses over.

use catena_engine::packet::Packet;
use catena_measure::stamp::Stamp;
use catena_measure::traffic::TickRate;
use catena_pcs::params::{DATA_BLOCKS, FCS_LEN, GAP_LEN, PREAMBLE_LEN};
use catena_shm::tsc;

use super::arriving::Arriving;
use super::config::{Config, Payload};
use super::filling::{HEADERS_LEN, Pattern};
use crate::chunk::{Content, FRAME_HEADER_LEN, HEADER_LEN, Header, frame_header, line_octets};

/// From one station, locally administered, to another: IEEE 802 local experimental EtherType 1.
const HEADERS: [u8; HEADERS_LEN] = [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x88, 0xb5];
/// Octets of a chunk that no frame takes.
const SLACK: i64 = 24;
/// Room in a chunk's buffer for what a PHY adds around a burst.
const SPARE: usize = 2048;

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Send a chunk.
    Chunk,
    /// Nothing before this tick.
    At(u64),
    /// Nothing before a chunk has come back.
    Wait,
    /// Nothing any more.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Lead,
    Traffic,
    Tail,
}

/// The sending half.
#[derive(Debug)]
pub(super) struct Sending {
    payload: Payload,
    codewords: u32,
    sizes: Vec<u16>,
    llid: u16,
    window: usize,
    trial: u8,
    verifies: bool,
    /// Length of a chunk of frames: whoever copies it finds room for its codewords.
    padded_len: usize,
    buffer_len: usize,
    /// Ticks between due times, in 65536ths; none if sustained.
    interval: Option<u64>,
    duration: Option<u64>,
    count: Option<u64>,
    warm_up: u64,
    lead_left: u32,
    tail_left: u32,
    phase: Phase,
    pattern: Pattern,
    /// Octets that frames may take of the codewords so far.
    credit: i64,
    number: u32,
    start: Option<u64>,
    is_too_large: bool,
    pub(super) counts: SendCounts,
}

/// What was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SendCounts {
    /// Chunks with traffic.
    pub(super) chunks: u64,
    /// Chunks of idle.
    pub(super) idle_chunks: u64,
    pub(super) frames: u64,
    pub(super) octets: u64,
}

impl Sending {
    pub(super) fn new(config: &Config, rate: TickRate) -> Self {
        let codewords = config.codewords();
        let interval_ns = config.interval_ns();
        let largest = config.sizes().iter().max().copied().unwrap_or(0);
        let raw = config.payload == Payload::Raw;
        let spare = SPARE.max(usize::from(largest) + FRAME_HEADER_LEN);
        let padded_len = HEADER_LEN + line_octets(codewords);
        Self {
            payload: config.payload,
            codewords,
            sizes: config.sizes().to_vec(),
            llid: config.llid,
            window: config.window.into(),
            trial: config.trial,
            verifies: config.verify,
            padded_len,
            buffer_len: padded_len + if raw { 0 } else { spare },
            interval: interval_ns.map(|ns| (ns * 65536.0 / rate.ns_per_tick()) as u64),
            duration: config.duration.map(|span| rate.ticks(span.ns)),
            count: config.count,
            warm_up: config.warm_up,
            lead_left: if raw { 0 } else { config.lead },
            tail_left: if raw { 0 } else { config.tail },
            phase: Phase::Lead,
            pattern: Pattern::new(),
            credit: 0,
            number: 0,
            start: None,
            is_too_large: false,
            counts: SendCounts::default(),
        }
    }

    /// Codewords of a chunk.
    pub(super) const fn codewords(&self) -> u32 {
        self.codewords
    }

    /// Bytes that a chunk's buffer must have.
    pub(super) const fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Whether no buffer is large enough.
    pub(super) const fn is_too_large(&self) -> bool {
        self.is_too_large
    }

    /// No buffer is ever large enough.
    pub(super) const fn set_too_large(&mut self) {
        self.is_too_large = true;
    }

    /// Whether the chunk that was filled last counts in times.
    pub(super) fn is_measured(&self) -> bool {
        self.phase == Phase::Traffic && self.counts.chunks > self.warm_up
    }

    /// When the next chunk with traffic is due.
    fn due(&self, now: u64) -> u64 {
        let (Some(interval), Some(start)) = (self.interval, self.start) else {
            return now;
        };
        let since = (u128::from(interval) * u128::from(self.counts.chunks)) >> 16;
        start.saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }

    /// What is to be done at tick `now`.
    pub(super) fn next(&mut self, now: u64, arriving: &Arriving) -> Next {
        let under_way = arriving.under_way();
        if under_way >= self.window {
            return Next::Wait;
        }
        if self.phase == Phase::Lead {
            if self.lead_left > 0 {
                return Next::Chunk;
            }
            // The first frame waits for lock.
            if under_way > 0 {
                return Next::Wait;
            }
            self.phase = Phase::Traffic;
            self.start = Some(now);
        }
        if self.phase == Phase::Traffic {
            let due = self.due(now);
            let is_over = self.count.is_some_and(|count| self.counts.chunks >= count)
                || self.duration.is_some_and(|duration| {
                    due.saturating_sub(self.start.unwrap_or(now)) >= duration
                });
            if !is_over {
                return if due > now {
                    Next::At(due)
                } else {
                    Next::Chunk
                };
            }
            self.phase = Phase::Tail;
        }
        if under_way > 0 {
            return Next::Wait;
        }
        if self.tail_left > 0 && arriving.frames_back() < self.counts.frames {
            return Next::Chunk;
        }
        Next::End
    }

    /// Makes the next chunk in a buffer; gives its header.
    pub(super) fn fill(&mut self, packet: &mut Packet, now: u64) -> Header {
        let due = self.due(now);
        let mut header = Header {
            content: Content::Frames,
            trial: self.trial,
            bit: 0,
            codewords: self.codewords,
            number: self.number,
            count: 0,
            due,
        };
        self.number = self.number.wrapping_add(1);
        let chunk = packet.bytes_mut();
        let len = match (self.phase, self.payload) {
            (Phase::Lead, _) => {
                self.lead_left -= 1;
                HEADER_LEN
            }
            (Phase::Tail, _) => {
                self.tail_left -= 1;
                HEADER_LEN
            }
            (Phase::Traffic, Payload::Frames) => {
                let late = now.saturating_sub(due);
                let (count, len) = self.frames(chunk, due, late);
                header.count = count;
                len
            }
            (Phase::Traffic, Payload::Raw) => self.raw(chunk, &mut header),
        };
        if self.phase == Phase::Traffic {
            self.counts.chunks += 1;
        } else {
            self.counts.idle_chunks += 1;
        }
        if self.interval.is_none() || self.phase != Phase::Traffic {
            // Sustained: what making it took is not the chain's.
            header.due = tsc::ticks();
        }
        header.write(chunk);
        let padded = match header.content {
            Content::Frames => len.max(self.padded_len),
            _ => len,
        };
        chunk[len..padded].fill(0);
        // Shorter than it is.
        let _ = packet.set_len(padded);
        header
    }

    /// As many frames as the codewords carry; their number, and where the list ends.
    fn frames(&mut self, chunk: &mut [u8], due: u64, late: u64) -> (u32, usize) {
        self.credit += i64::from(self.codewords) * 8 * DATA_BLOCKS as i64 - SLACK;
        let (mut at, mut count) = (HEADER_LEN, 0);
        loop {
            let size = self.sizes[(self.counts.frames % self.sizes.len() as u64) as usize];
            let len = usize::from(size);
            let cost = (PREAMBLE_LEN + len + FCS_LEN + GAP_LEN) as i64;
            let end = at + FRAME_HEADER_LEN + len;
            if cost > self.credit || end > chunk.len() {
                return (count, at);
            }
            self.credit -= cost;
            chunk[at..at + FRAME_HEADER_LEN].copy_from_slice(&frame_header(size, self.llid));
            let frame = &mut chunk[at + FRAME_HEADER_LEN..end];
            frame[..HEADERS_LEN].copy_from_slice(&HEADERS);
            let filling = self.pattern.of_frame(self.counts.frames, len - HEADERS_LEN);
            frame[HEADERS_LEN..].copy_from_slice(filling);
            let stamp = Stamp {
                trial: self.trial,
                flow: 0,
                sequence: self.counts.frames,
                intended: due,
                late,
            };
            stamp.write(frame);
            self.counts.frames += 1;
            self.counts.octets += len as u64;
            (at, count) = (end, count + 1);
        }
    }

    fn raw(&mut self, chunk: &mut [u8], header: &mut Header) -> usize {
        let len = line_octets(self.codewords);
        if self.verifies {
            let mut rest = &mut chunk[HEADER_LEN..HEADER_LEN + len];
            for piece in self.pattern.of_chunk(header.number, len) {
                let (here, behind) = rest.split_at_mut(piece.len());
                here.copy_from_slice(piece);
                rest = behind;
            }
        }
        header.content = Content::Raw;
        // Fits: at most 4 MiB.
        header.count = len as u32;
        self.counts.octets += len as u64;
        HEADER_LEN + len
    }
}
