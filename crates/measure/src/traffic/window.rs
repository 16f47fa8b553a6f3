//! What a device holds when a trial begins and when it ends: counted by the receiver, as what
//! arrives later than that.
//!
//! Pure. A receiver does not know when the generator began; it knows when the first packet that
//! came was due, and how long warm-up and trial are. A device that blocks fills up while it is
//! offered more than it passes on. What it holds at the end comes all the same, and counts as
//! forwarded; what it held at the beginning is the warm-up's, and does not.

use catena_engine::units::Span;
use schemars::JsonSchema;
use serde::Deserialize;

use super::tick_rate::TickRate;

/// How long a trial is.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WindowConfig {
    /// The `warmup` of the generator; none without it.
    warmup: Option<Span>,
    /// Its `duration`.
    duration: Span,
}

/// A trial's beginning and end, once a packet has come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window {
    warmup: u64,
    length: u64,
    /// Tick at which the trial begins.
    begin: Option<u64>,
}

impl Window {
    pub(super) fn new(config: &WindowConfig, rate: TickRate) -> Self {
        Self {
            warmup: config.warmup.map_or(0, |span| rate.ticks(span.ns)),
            length: rate.ticks(config.duration.ns),
            begin: None,
        }
    }

    /// Whether a packet of the warm-up, due at tick `intended`, arrives behind it.
    #[inline]
    pub(super) fn is_behind_warmup(&mut self, intended: u64, received: u64) -> bool {
        let warmup = self.warmup;
        received >= *self.begin.get_or_insert(intended.saturating_add(warmup))
    }

    /// Whether a packet of the trial, due at tick `intended`, arrives behind its end.
    #[inline]
    pub(super) fn is_behind_end(&mut self, intended: u64, received: u64) -> bool {
        let begin = *self.begin.get_or_insert(intended);
        received >= begin.saturating_add(self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(warmup_ns: u64) -> Window {
        let span = |ns| Span { ns };
        let config = WindowConfig {
            warmup: (warmup_ns > 0).then(|| span(warmup_ns)),
            duration: span(1000),
        };
        Window::new(&config, TickRate::from_ns_per_tick(1.0))
    }

    #[test]
    fn a_trial_begins_a_warm_up_behind_the_first_packet_s_due_time() {
        let mut window = window(500);
        // Due at 10,000: the trial is from 10,500 to 11,500.
        assert!(!window.is_behind_warmup(10_000, 10_400));
        assert!(!window.is_behind_warmup(10_200, 10_499));
        assert!(window.is_behind_warmup(10_300, 10_500));
        assert!(!window.is_behind_end(10_500, 11_499));
        assert!(window.is_behind_end(11_000, 11_500));
    }

    /// A device may write what it likes into its packets.
    #[test]
    fn a_packet_that_was_due_at_the_end_of_time_ends_nothing() {
        assert!(!window(500).is_behind_warmup(u64::MAX, 10_000));
        let mut window = window(0);
        assert!(!window.is_behind_end(u64::MAX - 1, 10_000));
        assert!(!window.is_behind_end(10_000, 12_000));
    }

    #[test]
    fn without_a_warm_up_it_begins_with_its_own_first_packet() {
        let mut window = window(0);
        assert!(!window.is_behind_end(10_000, 10_999));
        assert!(window.is_behind_end(10_100, 11_000));
    }
}
