//! How long bursts took on one core, and whether something else had the core meanwhile.
//!
//! A window is some bursts of one side; sides take turns, window by window. Bursts of a side take
//! about the same time, so one that takes [`GAP_US`] longer than the middle one, and twice as long,
//! was interrupted by more than the timer, and the window does not count.
//!
//! SPDX-License-Identifier: Apache-2.0

use super::super::series::{Series, median};

/// As in the floors of other benchmarks.
const GAP_US: f64 = 30.0;

/// Windows of one side.
#[derive(Debug, Default)]
pub(super) struct Windows {
    ticks_per_packet: Vec<f64>,
    rejected: usize,
    error: Option<String>,
}

impl Windows {
    /// Notes a window: ticks of each burst, and the packets of all.
    pub(super) fn note(&mut self, mut bursts: Vec<u64>, packets: usize, ns_per_tick: f64) {
        bursts.sort_unstable();
        let middle = bursts.get(bursts.len() / 2).copied().unwrap_or_default();
        let longest = bursts.last().copied().unwrap_or_default();
        let gap = (longest - middle) as f64;
        if gap * ns_per_tick > GAP_US * 1000.0 && longest > 2 * middle {
            self.rejected += 1;
            return;
        }
        let all: u64 = bursts.iter().sum();
        self.ticks_per_packet.push(all as f64 / packets as f64);
    }

    /// Notes that a window could not be measured.
    pub(super) fn fail(&mut self, error: String) {
        self.error.get_or_insert(error);
    }

    /// Adds the median of the windows that count to `into`; gives how many there were, and how
    /// many of them do not count.
    pub(super) fn add_to(self, into: &mut Series) -> (usize, usize) {
        let all = self.ticks_per_packet.len() + self.rejected;
        let disturbed = || "disturbed in every window".to_owned();
        into.push(match self.error {
            Some(error) => Err(error),
            None => median(&self.ticks_per_packet).ok_or_else(disturbed),
        });
        (all, self.rejected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_with_a_pause_does_not_count() {
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(vec![640, 640, 1280], 192, 1.0);
        windows.note(vec![640, 640, 31_000], 192, 1.0);
        assert_eq!(windows.add_to(&mut series), (2, 1));
        assert_eq!(series.median(), Some(2560.0 / 192.0));
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(vec![80_000, 80_000, 120_000], 192, 1.0);
        assert_eq!(
            windows.add_to(&mut series),
            (1, 0),
            "slow bursts differ by more"
        );
    }

    #[test]
    fn a_side_that_was_always_disturbed_has_no_figure() {
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(vec![640, 640, 31_000], 192, 1.0);
        assert_eq!(windows.add_to(&mut series), (1, 1));
        assert_eq!(series.median(), None);
        assert_eq!(series.error(), Some("disturbed in every window"));
    }
}
