//! The upstream at the OLT's receiver as one line of time: what is handed out, and what is left
//! between.
//!
//! An ONU that is far away cannot send before its GATE has reached it and its light has come back.
//! The line would be idle until then; ONUs nearer by are given that gap. So nobody waits for the
//! round trip of another, and slots are in the order in which they can be used, not in that in
//! which they were asked for.

use super::super::ONU_COUNT_MAX;

/// Gaps that are remembered; more are left idle.
const GAPS_MAX: usize = 2 * ONU_COUNT_MAX;

/// Time that nobody has, between the end of a slot and the begin of the next.
#[derive(Clone, Copy, Debug)]
struct Gap {
    from: u64,
    to: u64,
}

/// What is handed out of the upstream. Instants are of the OLT's clock.
#[derive(Debug)]
pub(super) struct Timeline {
    guard: u64,
    /// All is handed out up to here, but for gaps.
    free_at: u64,
    /// In order.
    gaps: Vec<Gap>,
}

impl Timeline {
    /// Nothing is handed out before `now`.
    pub(super) fn new(now: u64, guard: u32) -> Self {
        Self {
            guard: guard.into(),
            free_at: now,
            gaps: Vec::with_capacity(GAPS_MAX),
        }
    }

    /// Until when something is handed out.
    pub(super) const fn end(&self) -> u64 {
        self.free_at
    }

    /// Hands out `length`, from `earliest` on: in the first gap that holds it with a guard on
    /// either side, or behind all others. Gives where it begins.
    pub(super) fn take(&mut self, earliest: u64, length: u64, now: u64) -> u64 {
        self.gaps.retain(|gap| gap.to > now);
        let begin = |gap: &Gap| earliest.max(gap.from + self.guard);
        let holds = |gap: &Gap| begin(gap) + length + self.guard <= gap.to;
        if let Some(place) = self.gaps.iter().position(holds) {
            let gap = self.gaps.remove(place);
            let from = begin(&gap);
            self.leave(place, from + length, gap.to);
            self.leave(place, gap.from, from);
            return from;
        }
        self.take_last(earliest, length)
    }

    /// Takes the last of the line: a window that nobody may be beside.
    pub(super) fn take_last(&mut self, earliest: u64, length: u64) -> u64 {
        let from = earliest.max(self.free_at + self.guard);
        let place = self.gaps.len();
        self.leave(place, self.free_at, from);
        self.free_at = from + length;
        from
    }

    fn leave(&mut self, place: usize, from: u64, to: u64) {
        if to > from + 2 * self.guard && self.gaps.len() < GAPS_MAX {
            self.gaps.insert(place, Gap { from, to });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_gap_is_filled_from_its_front_and_what_is_left_of_it_is_kept() {
        let mut line = Timeline::new(0, 10);
        assert_eq!(line.take(1000, 500, 0), 1000);
        // 10..990 is left, less a guard on either side.
        assert_eq!(line.take(0, 981, 0), 1510, "longer than the gap");
        assert_eq!(line.take(0, 100, 0), 10);
        assert_eq!(line.take(300, 100, 0), 300);
        assert_eq!(line.take(0, 170, 0), 120, "between the two");
        assert_eq!(line.take(0, 580, 0), 410, "to the end");
        assert_eq!(line.end(), 1510 + 981);
        assert_eq!(line.take(0, 20, 0), 2501, "none is left");
    }

    #[test]
    fn gaps_that_have_passed_are_forgotten_and_few_are_kept() {
        let mut line = Timeline::new(0, 10);
        for round in 0..1000 {
            line.take(1000 * (round + 1), 10, 0);
        }
        assert_eq!(line.gaps.len(), 64);
        let end = line.end();
        line.take(0, 10_000_000, end);
        assert!(line.gaps.is_empty());
        // Up to the quantum in which it ends.
        let mut line = Timeline::new(0, 10);
        line.take(1000, 10, 0);
        for (now, kept) in [(999, 1), (1000, 0)] {
            line.take(0, 10_000, now);
            assert_eq!(line.gaps.len(), kept, "{now}");
        }
    }

    #[test]
    fn a_gap_without_room_between_its_guards_is_none() {
        for (from, kept) in [(20, 0), (21, 1)] {
            let mut line = Timeline::new(0, 10);
            assert_eq!(line.take(from, 100, 0), from);
            assert_eq!(line.gaps.len(), kept, "{from}");
        }
    }

    proptest! {
        #[test]
        fn what_is_handed_out_never_overlaps(
            wishes in prop::collection::vec((0_u64..5000, 1_u64..900, any::<bool>()), 1..200),
        ) {
            let mut line = Timeline::new(0, 16);
            let mut taken = Vec::new();
            let mut now = 0;
            for (wait, length, is_last) in wishes {
                let earliest = now + wait;
                let from = match is_last && wait < 500 {
                    true => line.take_last(earliest, length),
                    false => line.take(earliest, length, now),
                };
                prop_assert!(from >= earliest);
                taken.push((from, from + length));
                now += 100;
            }
            taken.sort_unstable();
            for pair in taken.windows(2) {
                prop_assert!(pair[0].1 + 16 <= pair[1].0, "{pair:?}");
            }
        }
    }
}
