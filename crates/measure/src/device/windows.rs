//! Which pairs of slices a disturbance touched: the machine is looked at from time to time, and
//! what happened since the last look belongs to all pairs that lie in between. Pure.

use std::time::Duration;

use crate::traffic::conditions::Disturbance;

/// How long a window is, at least: looking takes a millisecond or two, and where the kernel counts
/// what others ran in ticks these are 10 ms.
const WINDOW_MIN: Duration = Duration::from_millis(250);

/// The windows so far, from the first slice on.
#[derive(Clone, Debug)]
pub(super) struct Windows {
    pair: Duration,
    length: Duration,
    since: Duration,
    /// Ends of a disturbed window, and what happened in it.
    disturbed: Vec<(Duration, Duration, Vec<Disturbance>)>,
}

impl Windows {
    /// None yet, over pairs of this length.
    pub(super) fn new(pair: Duration) -> Self {
        Self {
            pair,
            length: WINDOW_MIN.max(pair),
            since: Duration::ZERO,
            disturbed: Vec::new(),
        }
    }

    /// Whether a window is over at `now`. The first is over at once: what it took to start lies in
    /// it.
    pub(super) fn is_due(&self, now: Duration) -> bool {
        self.since.is_zero() || now >= self.since + self.length
    }

    /// Ends a window at `now`, with what happened in it; another begins.
    pub(super) fn close(&mut self, now: Duration, found: Vec<Disturbance>) {
        if !found.is_empty() {
            self.disturbed.push((self.since, now, found));
        }
        self.since = now;
    }

    /// What disturbed each of so many pairs, each cause once.
    pub(super) fn of_pairs(&self, count: usize) -> Vec<Vec<Disturbance>> {
        let mut pairs = vec![Vec::new(); count];
        let at = |time: Duration| time.as_secs_f64() / self.pair.as_secs_f64().max(1e-9);
        for (from, to, found) in &self.disturbed {
            let first = (at(*from).floor() as usize).min(count);
            let last = (at(*to).ceil() as usize).min(count);
            for pair in &mut pairs[first..last.max(first)] {
                pair.extend(found);
            }
        }
        for pair in &mut pairs {
            pair.sort_unstable();
            pair.dedup();
        }
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Disturbance::{Frequency, Preemption, Steal};

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A hog for one window of three, steal that goes on into the next.
    #[test]
    fn only_pairs_that_a_disturbance_touched_do_not_count() {
        let mut windows = Windows::new(ms(10));
        assert!(windows.is_due(ms(5)));
        windows.close(ms(5), vec![]);
        assert!(!windows.is_due(ms(254)) && windows.is_due(ms(255)));
        windows.close(ms(255), vec![]);
        assert!(!windows.is_due(ms(500)));
        windows.close(ms(510), vec![Preemption]);
        windows.close(ms(764), vec![Steal, Frequency]);
        windows.close(ms(1000), vec![]);
        let pairs = windows.of_pairs(100);
        let is_free = |range: std::ops::Range<usize>| pairs[range].iter().all(Vec::is_empty);
        // The pair from 250 ms on lies in two windows.
        assert!(is_free(0..25) && is_free(77..100));
        assert!(pairs[25..51].iter().all(|found| *found == [Preemption]));
        assert!(
            pairs[51..77]
                .iter()
                .all(|found| *found == [Steal, Frequency])
        );
    }

    #[test]
    fn what_happens_behind_the_last_pair_is_of_no_pair() {
        let mut windows = Windows::new(ms(300));
        windows.close(ms(1), vec![]);
        assert!(!windows.is_due(ms(300)) && windows.is_due(ms(301)));
        windows.close(ms(600), vec![]);
        windows.close(ms(900), vec![Steal]);
        assert_eq!(windows.of_pairs(2), [vec![], vec![]]);
        assert_eq!(
            windows.of_pairs(5)[1..],
            [vec![], vec![Steal], vec![], vec![]]
        );
    }
}
