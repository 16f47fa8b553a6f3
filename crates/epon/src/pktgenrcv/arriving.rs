//! Which chunks and frames are back, and what is wrong with them.
//!
//! Chunks are known by their number, frames by their stamp. A frame whose stamp is whole counts as
//! back, and as corrupted if another octet of it is wrong; of one whose stamp is damaged nobody can
//! say which it was. A chunk that comes twice, or after it was given up, is stale; its frames are
//! judged all the same.

use catena_measure::flow_quality::{FlowTracker, Quality};
use catena_measure::stamp::{STAMP_LEN, Stamp};
use catena_measure::stats::histogram::Histogram;
use catena_measure::traffic::TickRate;
use catena_measure::traffic::latency_recorder::{LatencyRecorder, LatencySample};
use catena_measure::traffic::receiver::Arrival;

use super::config::Config;
use super::filling::{HEADERS_LEN, Pattern};
use crate::chunk::{Content, Frames, HEADER_LEN, Header};
use crate::custody::Custody;

/// Chunks whose times are kept one by one, at most: evenly spaced if there are more.
const SAMPLES: usize = 1 << 16;

/// A chunk that is under way.
#[derive(Clone, Copy, Debug)]
struct Pending {
    number: u32,
    /// From when its time counts, in ticks.
    due: u64,
    /// When it was sent, in ticks.
    sent: u64,
    is_measured: bool,
}

/// What came back.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ArriveCounts {
    /// Chunks that were under way, idle ones among them.
    pub(super) returned: u64,
    /// Chunks that did not return in time.
    pub(super) lost: u64,
    /// Chunks that were not under way (any more).
    pub(super) stale: u64,
    /// Packets that are no chunk, or not one that a receiver gives.
    pub(super) malformed: u64,
    /// Chunks of another trial.
    pub(super) foreign: u64,
    /// Frames whose stamp is whole.
    pub(super) frames: u64,
    pub(super) octets: u64,
    /// Frames with a wrong octet or stamp.
    pub(super) corrupted: u64,
    pub(super) octets_compared: u64,
    pub(super) bit_errors: u64,
    /// Chunks whose time was counted.
    pub(super) measured: u64,
    /// Those of them that the machine held up, and for how long.
    pub(super) stalled: u64,
    pub(super) stalled_ns: u64,
}

/// The receiving half.
#[derive(Debug)]
pub(super) struct Arriving {
    rate: TickRate,
    trial: u8,
    timeout: u64,
    verifies: bool,
    sizes: Vec<u16>,
    pattern: Pattern,
    /// In the order in which they were sent; never more than the window.
    pending: Vec<Pending>,
    frames: FlowTracker,
    custody: Custody,
    pub(super) chunk_ns: Histogram,
    /// Of chunks that the machine did not hold up, of the others, and of all without that time.
    pub(super) clean_ns: Histogram,
    pub(super) stalled_ns: Histogram,
    pub(super) net_ns: Histogram,
    pub(super) frame_ns: Histogram,
    pub(super) counts: ArriveCounts,
    samples: LatencyRecorder,
    /// When the last measured chunk returned, and when the first was sent.
    last_return: u64,
    first_sent: Option<u64>,
}

impl Arriving {
    pub(super) fn new(config: &Config, rate: TickRate) -> Self {
        Self {
            rate,
            trial: config.trial,
            timeout: rate.ticks(config.timeout.ns),
            verifies: config.verify,
            sizes: config.sizes().to_vec(),
            pattern: Pattern::new(),
            pending: Vec::with_capacity(config.window.into()),
            frames: FlowTracker::new(),
            custody: Custody::default(),
            chunk_ns: Histogram::new(),
            clean_ns: Histogram::new(),
            stalled_ns: Histogram::new(),
            net_ns: Histogram::new(),
            frame_ns: Histogram::new(),
            counts: ArriveCounts::default(),
            samples: LatencyRecorder::new(SAMPLES),
            last_return: 0,
            first_sent: None,
        }
    }

    /// Chunks under way.
    pub(super) fn under_way(&self) -> usize {
        self.pending.len()
    }

    /// Different frames that are back.
    pub(super) fn frames_back(&self) -> u64 {
        self.frames.quality().unique
    }

    /// What is known of the frames.
    pub(super) fn quality(&self) -> &Quality {
        self.frames.quality()
    }

    /// When chunks came back, and after how long, in ticks: evenly spaced, of every `stride`th.
    pub(super) fn samples(&self) -> (&[LatencySample], u64) {
        (self.samples.samples(), self.samples.stride())
    }

    /// How fast the clock runs.
    pub(super) const fn rate(&self) -> TickRate {
        self.rate
    }

    /// From sending the first measured chunk to the return of the last.
    pub(super) fn span_ns(&self) -> u64 {
        let first = self.first_sent.unwrap_or(self.last_return);
        self.rate.ns(self.last_return.saturating_sub(first))
    }

    /// A chunk goes at tick `sent`.
    pub(super) fn expect(&mut self, header: &Header, sent: u64, is_measured: bool) {
        if is_measured {
            self.first_sent.get_or_insert(sent);
        }
        self.pending.push(Pending {
            number: header.number,
            due: header.due,
            sent,
            is_measured,
        });
    }

    /// Gives up chunks that have been under way for too long.
    pub(super) fn give_up(&mut self, now: u64) {
        while let Some(first) = self.pending.first()
            && now.saturating_sub(first.sent) > self.timeout
        {
            self.pending.remove(0);
            self.counts.lost += 1;
        }
    }

    /// When the first chunk under way will be given up.
    pub(super) fn next_timeout(&self) -> Option<u64> {
        let first = self.pending.first()?;
        Some(first.sent + self.timeout + 1)
    }

    /// Takes what came back by tick `received`, which is `now_ns` of the engine's clock.
    pub(super) fn take(&mut self, chunk: &[u8], received: u64, now_ns: u64) {
        let Ok(header) = Header::parse(chunk) else {
            self.counts.malformed += 1;
            return;
        };
        if header.trial != self.trial {
            self.counts.foreign += 1;
            return;
        }
        let place = self.pending.iter().position(|p| p.number == header.number);
        let pending = place.map(|place| self.pending.remove(place));
        let held = self.custody.take(chunk, now_ns);
        match &pending {
            Some(pending) => {
                self.counts.returned += 1;
                if pending.is_measured {
                    let ticks = received.saturating_sub(pending.due);
                    self.time(ticks, held.map_or(0, |held| held.stalled_ns));
                    self.samples.record(&Arrival {
                        flow: 0,
                        sequence: self.counts.measured,
                        intended: pending.due,
                        late: pending.sent.saturating_sub(pending.due),
                        received,
                        is_valid: true,
                    });
                    self.counts.measured += 1;
                    self.last_return = received;
                }
            }
            None => self.counts.stale += 1,
        }
        let is_measured = pending.is_some_and(|pending| pending.is_measured);
        let payload = &chunk[HEADER_LEN..];
        match header.content {
            Content::Raw => self.raw(header.number, payload),
            Content::Frames => match Frames::parse(payload, header.count) {
                Ok(frames) => {
                    for frame in frames {
                        self.frame(frame.octets, received, is_measured);
                    }
                }
                Err(_) => self.counts.malformed += 1,
            },
            Content::Line(_) => self.counts.malformed += 1,
        }
    }

    /// Counts a chunk's time, of which `stalled_ns` were the machine's.
    fn time(&mut self, ticks: u64, stalled_ns: u64) {
        let ns = self.rate.ns(ticks);
        self.chunk_ns.record(ns);
        self.net_ns.record(ns.saturating_sub(stalled_ns));
        if stalled_ns == 0 {
            self.clean_ns.record(ns);
            return;
        }
        self.stalled_ns.record(ns);
        self.counts.stalled += 1;
        self.counts.stalled_ns = self.counts.stalled_ns.saturating_add(stalled_ns.min(ns));
    }

    fn raw(&mut self, number: u32, payload: &[u8]) {
        self.counts.octets += payload.len() as u64;
        if !self.verifies {
            return;
        }
        let mut rest = payload;
        for piece in self.pattern.of_chunk(number, payload.len()) {
            let (here, behind) = rest.split_at(piece.len());
            self.counts.bit_errors += differing_bits(here, piece);
            rest = behind;
        }
        self.counts.octets_compared += payload.len() as u64;
    }

    fn frame(&mut self, octets: &[u8], received: u64, is_measured: bool) {
        let stamp =
            Stamp::read(octets).filter(|stamp| stamp.trial == self.trial && stamp.flow == 0);
        let Some(stamp) = stamp.filter(|_| octets.len() >= HEADERS_LEN + STAMP_LEN) else {
            self.counts.corrupted += 1;
            return;
        };
        self.counts.frames += 1;
        self.counts.octets += octets.len() as u64;
        self.frames.arrival(stamp.sequence, received);
        if is_measured {
            let ticks = received.saturating_sub(stamp.intended_near(received));
            self.frame_ns.record(self.rate.ns(ticks));
        }
        if self.verifies {
            self.compare(octets, stamp.sequence);
        }
    }

    /// Compares what stands between headers and stamp.
    fn compare(&mut self, octets: &[u8], sequence: u64) {
        let len = octets.len();
        let wanted = self.sizes[(sequence % self.sizes.len() as u64) as usize];
        if len != usize::from(wanted) {
            self.counts.corrupted += 1;
            return;
        }
        let filled = len - HEADERS_LEN - STAMP_LEN;
        let wanted = self.pattern.of_frame(sequence, filled);
        let errors = differing_bits(&octets[HEADERS_LEN..HEADERS_LEN + filled], wanted);
        self.counts.octets_compared += filled as u64;
        self.counts.bit_errors += errors;
        self.counts.corrupted += u64::from(errors > 0);
    }
}

/// How many bits differ.
fn differing_bits(found: &[u8], wanted: &[u8]) -> u64 {
    // Nearly always none, which is found out fastest in one go.
    if found == wanted {
        return 0;
    }
    let pairs = found.iter().zip(wanted);
    pairs.map(|(a, b)| u64::from((a ^ b).count_ones())).sum()
}
