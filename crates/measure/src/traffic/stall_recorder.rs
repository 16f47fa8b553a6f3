//! Gaps between the polls of a loop: when the machine took the core away, or the loop was slow.
//!
//! Fed with the stamps that a polling loop has anyway; it reads no clock. What a gap was (context
//! switch, steal, interrupt) is for the reader of the list to find out.

/// Gaps between calls above this are stalls.
pub const STALL_THRESHOLD_NS: u64 = 5_000;
/// Most stalls kept.
pub const STALL_COUNT_MAX: usize = 65_536;

/// Most gaps kept, whatever is asked for: 16 MiB.
const KEPT_MAX: usize = 1 << 20;

/// A gap, from the last stamp before it to the first after it, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct StallInterval {
    /// Last stamp before.
    pub start: u64,
    /// First stamp after.
    pub end: u64,
}

/// Finds gaps above a threshold.
#[derive(Clone, Debug)]
pub struct StallRecorder {
    threshold: u64,
    last: Option<u64>,
    kept: Vec<StallInterval>,
    capacity: usize,
    /// Gaps that found the list full.
    missed: u64,
    /// Ticks of all gaps, missed ones included.
    stalled: u64,
    longest: u64,
    polls: u64,
}

impl StallRecorder {
    /// Keeps up to `capacity` gaps of more than `threshold` ticks.
    pub fn new(threshold: u64, capacity: usize) -> Self {
        let capacity = capacity.min(KEPT_MAX);
        Self {
            threshold,
            last: None,
            kept: Vec::with_capacity(capacity),
            capacity,
            missed: 0,
            stalled: 0,
            longest: 0,
            polls: 0,
        }
    }

    /// Notes a poll at `now`. Returns the gap since the last, if it was a stall.
    #[inline]
    pub fn poll(&mut self, now: u64) -> Option<StallInterval> {
        self.polls += 1;
        let last = self.last.replace(now)?;
        let gap = now.saturating_sub(last);
        if gap <= self.threshold {
            return None;
        }
        Some(self.note(last, now))
    }

    #[cold]
    fn note(&mut self, start: u64, end: u64) -> StallInterval {
        let interval = StallInterval { start, end };
        self.stalled += end - start;
        self.longest = self.longest.max(end - start);
        if self.kept.len() < self.capacity {
            self.kept.push(interval);
        } else {
            self.missed += 1;
        }
        interval
    }

    /// Begins anew at `now`: what lay between is no stall (the loop was told to wait).
    #[inline]
    pub fn resume(&mut self, now: u64) {
        self.last = Some(now);
    }

    /// The gaps, in order.
    pub fn intervals(&self) -> &[StallInterval] {
        &self.kept
    }

    /// Gaps that are not in the list, because it was full.
    pub const fn missed(&self) -> u64 {
        self.missed
    }

    /// Ticks of all gaps.
    pub const fn stalled(&self) -> u64 {
        self.stalled
    }

    /// Ticks of the longest gap.
    pub const fn longest(&self) -> u64 {
        self.longest
    }

    /// Polls noted.
    pub const fn polls(&self) -> u64 {
        self.polls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_above_the_threshold_are_kept_and_counted() {
        let mut recorder = StallRecorder::new(10, 2);
        let stamps = [100, 110, 121, 125, 200, 1000, 1005];
        let stalls: Vec<_> = stamps
            .iter()
            .filter_map(|&now| recorder.poll(now))
            .map(|stall| (stall.start, stall.end))
            .collect();
        assert_eq!(stalls, [(110, 121), (125, 200), (200, 1000)]);
        assert_eq!(recorder.intervals().len(), 2);
        assert_eq!((recorder.missed(), recorder.longest()), (1, 800));
        assert_eq!((recorder.stalled(), recorder.polls()), (11 + 75 + 800, 7));
    }

    #[test]
    fn a_pause_on_purpose_is_none() {
        let mut recorder = StallRecorder::new(10, 2);
        recorder.poll(0);
        recorder.resume(500);
        assert_eq!(recorder.poll(505), None);
        // A counter that steps back is no stall, and no panic.
        assert_eq!(recorder.poll(3), None);
    }
}
