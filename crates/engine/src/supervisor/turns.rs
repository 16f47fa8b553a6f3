//! What the supervisor has seen of a data path's turns. `watchdog` looks.

use std::time::{Duration, Instant};

/// How long a data path may stand still until it is called stuck.
pub(super) const SHOWN_AFTER: Duration = Duration::from_secs(2);
/// What passes between two looks counts for so long at most: when the whole machine has stood
/// still, everybody did.
const LOOK_COUNTS_FOR: Duration = Duration::from_millis(500);

/// What the supervisor has seen of a data path's turns.
#[derive(Debug, Default)]
pub(super) struct Watch {
    turns: u64,
    looked: Option<Instant>,
    pub(super) still: Duration,
}

impl Watch {
    /// The data path has made so many turns by `now`.
    pub(super) fn look(&mut self, turns: u64, now: Instant) {
        let passed = self
            .looked
            .map(|before| now.saturating_duration_since(before));
        let is_first = self.looked.replace(now).is_none();
        if is_first || turns != self.turns {
            self.still = Duration::ZERO;
        } else {
            self.still += passed.unwrap_or_default().min(LOOK_COUNTS_FOR);
        }
        self.turns = turns;
    }

    /// Whether it has stood still for so long that it is called stuck.
    pub(super) fn is_stuck(&self) -> bool {
        self.still >= SHOWN_AFTER
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_path_that_stands_still_is_stuck_and_one_that_turns_is_not() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        let at = |ms: u64| start + Duration::from_millis(ms);
        for tick in 0..100 {
            watch.look(tick, at(tick * 100));
            assert_eq!(watch.still, Duration::ZERO);
        }
        for step in 1..20 {
            watch.look(99, at(9_900 + step * 100));
            assert!(!watch.is_stuck(), "{step}");
        }
        watch.look(99, at(11_900));
        assert!(watch.is_stuck());
        watch.look(100, at(12_000));
        assert_eq!(watch.still, Duration::ZERO);
    }

    /// A machine that was paused, or a supervisor that was: nobody turned, and nobody is to blame.
    #[test]
    fn one_look_after_a_long_time_proves_nothing() {
        let (mut watch, start) = (Watch::default(), Instant::now());
        watch.look(7, start);
        watch.look(7, start + Duration::from_secs(3600));
        assert!(!watch.is_stuck());
        watch.look(8, start + Duration::from_secs(3601));
        assert_eq!(watch.still, Duration::ZERO);
    }
}
