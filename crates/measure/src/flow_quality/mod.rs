//! Loss, duplicates, reordering and corruption of one flow, from sequence numbers.
//!
//! Reordering is that of RFC 4737: a packet is reordered if its number is below the next expected
//! one (3.3), its extent is how many packets back the first one with a higher number arrived
//! (4.2), its late time offset how long ago that was (4.3), and it is n-reordered if at least
//! the n packets right before it have higher numbers (5.3). Duplicates are told apart first and are
//! never counted as reordered.
//!
//! Memory is bounded: [`WINDOW`] numbers behind the highest are remembered, and the last
//! [`RECORDS`] arrivals that raised it. What is older counts as [`Quality::beyond_window`]: it came
//! too late to tell a duplicate from a late original. Extents that reach back further are counted
//! as at least that far, and said so. A tracker takes some 700 bytes; recording allocates nothing.

use serde::{Deserialize, Serialize};

pub mod sink;

/// Sequence numbers behind the highest one that are remembered.
pub const WINDOW: u64 = 1024;
/// Arrivals of a new highest number that are remembered.
pub const RECORDS: usize = 16;
/// Degrees of n-reordering that are told apart; three duplicate acknowledgements are what TCP
/// takes for loss.
pub const DEGREES: usize = 8;

const WORDS: usize = (WINDOW / 64) as usize;

/// What is known of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quality {
    /// Arrivals of whole packets, duplicates included.
    pub received: u64,
    /// Different packets that arrived.
    pub unique: u64,
    /// Arrivals of packets that had arrived before.
    pub duplicates: u64,
    /// Arrivals older than the window.
    pub beyond_window: u64,
    /// Arrivals whose content was damaged; they count as nothing else.
    pub corrupted: u64,
    /// Unique packets that were reordered (RFC 4737, Type-P-Reordered).
    pub reordered: u64,
    /// Largest reordering extent, in packets.
    pub extent_max: u64,
    /// Sum of extents, for their mean.
    pub extent_sum: u64,
    /// Some extent reached back further than was remembered.
    pub is_extent_truncated: bool,
    /// Largest late time offset, in the unit of arrival times.
    pub late_offset_max: u64,
    /// `n_reordered[n - 1]`: packets that are n-reordered.
    pub n_reordered: [u64; DEGREES],
    /// Runs of packets in order that a reordered one ended (RFC 4737, 4.6, which counts empty ones
    /// too).
    pub free_runs: u64,
    /// Highest sequence number, if any arrived.
    pub highest: Option<u64>,
}

impl Quality {
    /// Packets lost of `sent`. Arrivals beyond the window count as arrived, so that lateness is not
    /// taken for loss; they may be duplicates, by which the true number can be higher.
    pub fn lost(&self, sent: u64) -> u64 {
        sent.saturating_sub(self.unique + self.beyond_window)
    }

    /// Lost share of `sent`; `None` if nothing was sent.
    pub fn loss_ratio(&self, sent: u64) -> Option<f64> {
        (sent > 0).then(|| self.lost(sent) as f64 / sent as f64)
    }

    /// Reordered share of unique packets (RFC 4737, 4.1).
    pub fn reordered_ratio(&self) -> Option<f64> {
        (self.unique > 0).then(|| self.reordered as f64 / self.unique as f64)
    }

    /// Adds another flow's counts, for a total.
    pub fn add(&mut self, other: &Self) {
        self.received += other.received;
        self.unique += other.unique;
        self.duplicates += other.duplicates;
        self.beyond_window += other.beyond_window;
        self.corrupted += other.corrupted;
        self.reordered += other.reordered;
        self.extent_max = self.extent_max.max(other.extent_max);
        self.extent_sum += other.extent_sum;
        self.is_extent_truncated |= other.is_extent_truncated;
        self.late_offset_max = self.late_offset_max.max(other.late_offset_max);
        for (count, more) in self.n_reordered.iter_mut().zip(other.n_reordered) {
            *count += more;
        }
        self.free_runs += other.free_runs;
        self.highest = self.highest.max(other.highest);
    }
}

/// An arrival that raised the highest number.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    sequence: u64,
    /// Its place among unique arrivals.
    place: u64,
    at: u64,
}

/// Follows one flow packet by packet.
#[derive(Clone, Debug)]
pub struct FlowTracker {
    quality: Quality,
    /// Bit `s % WINDOW` says whether number s arrived, for the numbers of the window.
    seen: [u64; WORDS],
    /// Ring of records; `record_count` is how many there were, ever.
    records: [Record; RECORDS],
    record_count: u64,
    /// Ring of the last unique numbers.
    recent: [u64; DEGREES],
    is_run_open: bool,
}

impl Default for FlowTracker {
    fn default() -> Self {
        Self {
            quality: Quality::default(),
            seen: [0; WORDS],
            records: [Record::default(); RECORDS],
            record_count: 0,
            recent: [0; DEGREES],
            is_run_open: false,
        }
    }
}

impl FlowTracker {
    /// A flow of which nothing has arrived.
    pub fn new() -> Self {
        Self::default()
    }

    /// What is known so far.
    pub fn quality(&self) -> &Quality {
        &self.quality
    }

    /// Takes note of a packet whose content does not hold what was sent. Its number is part of that
    /// content and is not believed.
    pub fn corrupted(&mut self) {
        self.quality.corrupted += 1;
    }

    /// Takes note of an arrival.
    pub fn arrival(&mut self, sequence: u64, at: u64) {
        self.quality.received += 1;
        match self.quality.highest {
            Some(highest) if sequence <= highest => self.late(sequence, highest, at),
            highest => self.advance(sequence, highest, at),
        }
    }

    fn advance(&mut self, sequence: u64, highest: Option<u64>, at: u64) {
        // Numbers that were skipped enter the window as not arrived.
        match highest {
            Some(highest) if sequence - highest < WINDOW => {
                (highest + 1..sequence).for_each(|skipped| self.clear(skipped));
            }
            _ => self.seen = [0; WORDS],
        }
        self.mark(sequence);
        self.quality.highest = Some(sequence);
        let place = self.quality.unique;
        let slot = (self.record_count % RECORDS as u64) as usize;
        self.records[slot] = Record {
            sequence,
            place,
            at,
        };
        self.record_count += 1;
        self.is_run_open = true;
        self.remember(sequence);
    }

    fn late(&mut self, sequence: u64, highest: u64, at: u64) {
        if highest - sequence >= WINDOW {
            self.quality.beyond_window += 1;
            return;
        }
        let (word, bit) = Self::position(sequence);
        if self.seen[word] & bit != 0 {
            self.quality.duplicates += 1;
            return;
        }
        self.mark(sequence);
        self.quality.reordered += 1;
        let (first, is_truncated) = self.first_above(sequence);
        let extent = self.quality.unique - first.place;
        self.quality.extent_max = self.quality.extent_max.max(extent);
        self.quality.extent_sum += extent;
        self.quality.is_extent_truncated |= is_truncated;
        let late_offset = at.saturating_sub(first.at);
        self.quality.late_offset_max = self.quality.late_offset_max.max(late_offset);
        let known = (self.quality.unique).min(DEGREES as u64);
        let degree = (1..=known)
            .take_while(|back| self.back(*back) > sequence)
            .count();
        for count in &mut self.quality.n_reordered[..degree] {
            *count += 1;
        }
        if self.is_run_open {
            self.quality.free_runs += 1;
            self.is_run_open = false;
        }
        self.remember(sequence);
    }

    /// The first remembered arrival with a higher number, and whether an earlier one may have been
    /// forgotten. Records ascend in number, so it is the first of them above.
    fn first_above(&self, sequence: u64) -> (Record, bool) {
        let oldest = self.record_count.saturating_sub(RECORDS as u64);
        let record = |index: u64| self.records[(index % RECORDS as u64) as usize];
        let above = (oldest..self.record_count).find(|index| record(*index).sequence > sequence);
        let index = above.unwrap_or(oldest);
        (record(index), index == oldest && oldest > 0)
    }

    /// The unique number that arrived `count` places back.
    fn back(&self, count: u64) -> u64 {
        self.recent[((self.quality.unique - count) % DEGREES as u64) as usize]
    }

    fn remember(&mut self, sequence: u64) {
        self.recent[(self.quality.unique % DEGREES as u64) as usize] = sequence;
        self.quality.unique += 1;
    }

    fn position(sequence: u64) -> (usize, u64) {
        let index = sequence % WINDOW;
        ((index / 64) as usize, 1 << (index % 64))
    }

    fn mark(&mut self, sequence: u64) {
        let (word, bit) = Self::position(sequence);
        self.seen[word] |= bit;
    }

    fn clear(&mut self, sequence: u64) {
        let (word, bit) = Self::position(sequence);
        self.seen[word] &= !bit;
    }
}

#[cfg(test)]
mod tests;
