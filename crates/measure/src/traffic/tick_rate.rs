//! How fast the time-stamp counter runs, for turning schedules into ticks and ticks into time.

use std::time::Duration;

use catena_shm::tsc;

/// Ticks and nanoseconds, each as a multiple of the other in parts of 2^32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TickRate {
    ticks_per_ns: u64,
    ns_per_tick: u64,
}

const ONE: f64 = (1_u64 << 32) as f64;

impl TickRate {
    /// The rate at which a tick takes `ns` nanoseconds.
    pub fn from_ns_per_tick(ns: f64) -> Self {
        Self {
            ticks_per_ns: (ONE / ns).round() as u64,
            ns_per_tick: (ONE * ns).round() as u64,
        }
    }

    /// Measures it over `span`; 20 ms give some 10 ppm.
    pub fn measure(span: Duration) -> Self {
        Self::from_ns_per_tick(tsc::ns_per_tick(span))
    }

    /// Ticks in `ns` nanoseconds.
    #[inline]
    pub const fn ticks(self, ns: u64) -> u64 {
        ((ns as u128 * self.ticks_per_ns as u128) >> 32) as u64
    }

    /// Nanoseconds in `ticks`.
    #[inline]
    pub const fn ns(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.ns_per_tick as u128) >> 32) as u64
    }

    /// Nanoseconds in a tick.
    pub fn ns_per_tick(self) -> f64 {
        self.ns_per_tick as f64 / ONE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_is_where_it_was() {
        let rate = TickRate::from_ns_per_tick(1.0 / 2.25);
        for ns in [0, 1, 1_000, 86_400_000_000_000] {
            let back = rate.ns(rate.ticks(ns));
            assert!(ns.abs_diff(back) <= 1 + ns / 1_000_000_000, "{ns} {back}");
        }
        assert_eq!(rate.ticks(4), 9);
    }

    #[test]
    fn this_machine_has_a_plausible_rate() {
        let rate = TickRate::measure(Duration::from_millis(2)).ns_per_tick();
        assert!((0.05..=100.0).contains(&rate), "{rate}");
    }
}
