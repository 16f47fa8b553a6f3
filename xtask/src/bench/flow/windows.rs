//! How long bursts took on one core, and whether something else had the core meanwhile.
//!
//! A window is some bursts of one side; sides take turns, window by window. Bursts of a side and
//! of an input take about the same time, so one that takes [`GAP_US`] longer than the middle one,
//! and twice as long, was interrupted by more than the timer, and the window does not count.
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
    /// Notes a window: input and ticks of each burst, and the packets of all.
    pub(super) fn note(&mut self, mut bursts: Vec<(u8, u64)>, packets: usize, ns_per_tick: f64) {
        bursts.sort_unstable();
        let is_disturbed = bursts.chunk_by(|a, b| a.0 == b.0).any(|alike| {
            let (middle, longest) = (alike[alike.len() / 2].1, alike[alike.len() - 1].1);
            let gap = (longest - middle) as f64;
            gap * ns_per_tick > GAP_US * 1000.0 && longest > 2 * middle
        });
        if is_disturbed {
            self.rejected += 1;
            return;
        }
        let all: u64 = bursts.iter().map(|(_, ticks)| ticks).sum();
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

    fn of_one_input(ticks: &[u64]) -> Vec<(u8, u64)> {
        ticks.iter().map(|ticks| (0, *ticks)).collect()
    }

    /// Those of an input are compared with each other: new flows take longer than known ones.
    #[test]
    fn a_burst_that_has_more_to_do_is_no_pause() {
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(vec![(0, 640), (1, 64_000), (0, 640)], 192, 1.0);
        windows.note(vec![(1, 640), (1, 64_000), (1, 640)], 192, 1.0);
        assert_eq!(windows.add_to(&mut series), (2, 1));
    }

    #[test]
    fn a_window_with_a_pause_does_not_count() {
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(of_one_input(&[640, 640, 1280]), 192, 1.0);
        windows.note(of_one_input(&[640, 640, 31_000]), 192, 1.0);
        assert_eq!(windows.add_to(&mut series), (2, 1));
        assert_eq!(series.median(), Some(2560.0 / 192.0));
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(of_one_input(&[80_000, 80_000, 120_000]), 192, 1.0);
        assert_eq!(
            windows.add_to(&mut series),
            (1, 0),
            "slow bursts differ by more"
        );
    }

    #[test]
    fn a_side_that_was_always_disturbed_has_no_figure() {
        let (mut windows, mut series) = (Windows::default(), Series::default());
        windows.note(of_one_input(&[640, 640, 31_000]), 192, 1.0);
        assert_eq!(windows.add_to(&mut series), (1, 1));
        assert_eq!(series.median(), None);
        assert_eq!(series.error(), Some("disturbed in every window"));
    }
}
