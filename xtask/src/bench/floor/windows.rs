//! Short windows of a loop that never waits, and which of them were disturbed.
//!
//! A loop looks at the counter once per burst. From one look to the next takes far less than
//! [`GAP_US`]; where it takes more, the core was taken away: by another thread, by the host
//! (steal), or by the kernel. Such a window does not count, whichever side it happened to.
//!
//! SPDX-License-Identifier: Apache-2.0

use catena_shm::tsc::ticks;

use super::super::series::median;

/// Length of a window.
const WINDOW_US: f64 = 5_000.0;
/// Longest time between two looks of a loop that has its core to itself. The timer's interrupt
/// takes less.
const GAP_US: f64 = 30.0;

/// What one thread saw of each window since a start that all threads share.
#[derive(Debug)]
pub(super) struct Windows {
    start: u64,
    window: u64,
    gap: u64,
    last: u64,
    current: usize,
    /// By window: packets at its end, and whether it was disturbed.
    ends: Vec<(u64, bool)>,
    disturbed: bool,
}

impl Windows {
    /// Windows from `start` on.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "thousands of ticks"
    )]
    pub(super) fn new(start: u64, ns_per_tick: f64) -> Self {
        let ticks_of = |us: f64| (us * 1000.0 / ns_per_tick) as u64;
        Self {
            start,
            window: ticks_of(WINDOW_US),
            gap: ticks_of(GAP_US),
            last: start,
            current: 0,
            ends: Vec::with_capacity(4096),
            disturbed: false,
        }
    }

    /// Notes that `packets` have passed by now.
    #[inline(always)]
    pub(super) fn look(&mut self, packets: u64) {
        self.look_at(ticks(), packets);
    }

    #[inline(always)]
    fn look_at(&mut self, now: u64, packets: u64) {
        let is_pause = now.saturating_sub(self.last) > self.gap;
        self.disturbed |= is_pause;
        self.last = now;
        if now.saturating_sub(self.start) >= self.window * (self.current as u64 + 1) {
            self.end_window(now, packets, is_pause);
        }
    }

    #[cold]
    fn end_window(&mut self, now: u64, packets: u64, is_pause: bool) {
        // What a gap has skipped was disturbed, and so was what it began in.
        let current = ((now - self.start) / self.window) as usize;
        while self.current < current {
            self.ends.push((packets, self.disturbed));
            self.current += 1;
        }
        // A pause that ends in this window lies in it, too.
        self.disturbed = is_pause;
    }
}

/// Ticks per packet of the undisturbed windows: of the receiver's packets, and of neither side
/// disturbed. The first window is start-up.
pub(super) struct Undisturbed {
    /// Median; none if there is no such window.
    pub(super) ticks_per_packet: Option<f64>,
    pub(super) windows: usize,
    pub(super) rejected: usize,
}

impl Undisturbed {
    pub(super) fn of(sender: &Windows, receiver: &Windows) -> Self {
        let both = sender.ends.iter().zip(&receiver.ends);
        let ends: Vec<(u64, bool)> = both
            .map(|((_, theirs), (packets, ours))| (*packets, *theirs || *ours))
            .collect();
        let mut good = Vec::new();
        for pair in ends.windows(2) {
            let (before, (packets, disturbed)) = (pair[0].0, pair[1]);
            if !disturbed && packets > before {
                good.push(receiver.window as f64 / (packets - before) as f64);
            }
        }
        Self {
            ticks_per_packet: median(&good),
            windows: ends.len().saturating_sub(1),
            rejected: ends.len().saturating_sub(1) - good.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn windows() -> Windows {
        // A tick is a nanosecond: windows of 5,000,000 ticks, gaps of 30,000.
        Windows::new(0, 1.0)
    }

    #[test]
    fn a_window_in_which_either_side_paused_does_not_count() {
        let (mut sender, mut receiver) = (windows(), windows());
        for now in (0..=40_000_000).step_by(10_000) {
            sender.look_at(now, now);
            // From 12 to 16 ms, in the third and fourth window, the receiver has no core.
            if !(12_000_000..16_000_000).contains(&now) {
                receiver.look_at(now, now / 100);
            }
        }
        let both = Undisturbed::of(&sender, &receiver);
        assert_eq!((both.windows, both.rejected), (7, 2));
        assert_eq!(both.ticks_per_packet, Some(100.0));
    }

    #[test]
    fn windows_of_a_loop_that_never_ran_give_nothing() {
        let none = Undisturbed::of(&windows(), &windows());
        assert_eq!((none.ticks_per_packet, none.windows), (None, 0));
    }
}
