//! Moments at which both ends of a link say how far they were, so that what waited in it is known.
//!
//! Beside a packet's life, at the two ends of a ring, while packets are followed. A worker that
//! looks how much waits sees it when it runs, which is no moment drawn at random where it shares
//! its core. So it is the other way round: moments are agreed on beforehand, one at random in each
//! [`DISTANCE_NS`] of the chain's clock, the same for all workers without a word between them. Each
//! end notes its cursor when that is about to change, with all moments since it last did: it is
//! known what the cursor was at each, whoever ran. Their difference at a moment is what waited.
//!
//! A packet is in the link from the instant that its sender has done sending (`sent` of its visit)
//! until its receiver begins to take it (`begin` of the next): cursors are noted with these very
//! readings of the clock.

use catena_shm::record_ring::Record;

use super::{FLAGS_SHIFT, TIME_MASK, VisitFlags};

const DISTANCE_LOG2: u32 = 18;
/// From one moment to the next, on average.
pub const DISTANCE_NS: u64 = 1 << DISTANCE_LOG2;

/// When a moment is: at a place within its part of the time that its number decides, so that no
/// rhythm of the chain can hide between moments.
#[inline]
pub const fn moment_at(number: u64) -> u64 {
    let mut bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (number << DISTANCE_LOG2) | ((bits ^ (bits >> 31)) & (DISTANCE_NS - 1))
}

/// The first moment at `now` or later.
#[inline]
pub const fn first_from(now: u64) -> u64 {
    let number = now >> DISTANCE_LOG2;
    number + (moment_at(number) < now) as u64
}

/// What one end of a link has noted so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct CursorLog {
    /// Which tracing it belongs to; what was noted in another one counts no more.
    tracing: u64,
    /// The next moment, and when it is.
    next: u64,
    next_at: u64,
    /// The cursor since it was last noted.
    cursor: u64,
}

impl CursorLog {
    /// Whether there is anything to say before the cursor becomes another one at `now`.
    #[inline]
    pub fn is_due(&self, tracing: u64, now: u64) -> bool {
        self.tracing != tracing || self.next_at < now
    }

    /// Whether `cursor` is what was noted last.
    #[inline]
    pub const fn is_at(&self, tracing: u64, cursor: u64) -> bool {
        self.tracing == tracing && self.cursor == cursor
    }

    /// The cursor, which is `cursor` from `now` on, was what it was since it was last noted: gives
    /// what is to be said of the moments since then, if there were any.
    pub fn note(&mut self, tracing: u64, now: u64, cursor: u64) -> Option<CursorSpan> {
        let before = std::mem::replace(&mut self.cursor, cursor);
        if !self.is_due(tracing, now) {
            return None;
        }
        let next = first_from(now);
        let span = CursorSpan {
            link: 0,
            is_sender: false,
            first: self.next,
            count: u32::try_from(next.saturating_sub(self.next)).unwrap_or(u32::MAX),
            cursor: before,
        };
        let is_known = self.tracing == tracing;
        (self.tracing, self.next, self.next_at) = (tracing, next, moment_at(next));
        (is_known && span.count > 0).then_some(span)
    }
}

/// What an end of a link has said: its cursor at moments in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CursorSpan {
    /// The link plus one.
    pub link: u16,
    /// Whether it is the end that sends: packets sent; otherwise packets taken.
    pub is_sender: bool,
    /// The first moment.
    pub first: u64,
    /// How many moments.
    pub count: u32,
    /// The cursor at all of them, in packets.
    pub cursor: u64,
}

impl CursorSpan {
    /// As it lies in the ring of records.
    pub const fn to_record(&self) -> Record {
        let names = self.link as u64 | (self.is_sender as u64) << 16 | (self.count as u64) << 32;
        let first = self.first & TIME_MASK | (VisitFlags::CURSOR as u64) << FLAGS_SHIFT;
        [first, names, self.cursor, 0]
    }

    /// From a record, which anybody may have written; none if it is another kind of record.
    #[expect(clippy::cast_possible_truncation, reason = "takes fields out of words")]
    pub const fn from_record([first, names, cursor, _]: &Record) -> Option<Self> {
        if (*first >> FLAGS_SHIFT) as u8 & VisitFlags::CURSOR == 0 {
            return None;
        }
        Some(Self {
            link: *names as u16,
            is_sender: *names >> 16 & 1 != 0,
            first: *first & TIME_MASK,
            count: (*names >> 32) as u32,
            cursor: *cursor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn spans_survive_the_ring(
            (link, is_sender, count) in any::<(u16, bool, u32)>(),
            first in 0_u64..1 << 50, cursor in any::<u64>(),
        ) {
            let span = CursorSpan { link, is_sender, first, count, cursor };
            prop_assert_eq!(CursorSpan::from_record(&span.to_record()), Some(span));
        }

        /// Each moment lies in its part of the time; those from any instant on are found.
        #[test]
        fn moments_are_in_order(now in 0_u64..1 << 55) {
            let first = first_from(now);
            prop_assert!(moment_at(first) >= now);
            prop_assert!(first == 0 || moment_at(first - 1) < now);
            prop_assert!(moment_at(first) < moment_at(first + 1));
        }

        /// Whenever a cursor changes, what is said of a moment is what it was then.
        #[test]
        fn a_cursor_is_known_at_each_moment(
            steps in prop::collection::vec((1_u64..2_000_000, 0_u64..40), 1..60),
        ) {
            let (mut log, mut now, mut cursor) = (CursorLog::default(), 1_000_000, 7);
            prop_assert_eq!(log.note(1, now, cursor), None);
            let mut next = first_from(now);
            for (later, more) in steps {
                let until = now + later;
                if let Some(span) = log.note(1, until, cursor + more) {
                    prop_assert_eq!((span.first, span.cursor), (next, cursor));
                    next += u64::from(span.count);
                }
                prop_assert!(moment_at(next) >= until);
                prop_assert!(next == 0 || moment_at(next - 1) < until);
                (now, cursor) = (until, cursor + more);
            }
            // Another tracing knows nothing of what was before it.
            prop_assert_eq!(log.note(2, now + 5_000_000, cursor), None);
        }
    }
}
