//! The time of day that belongs to a time of the engine: for timestamps in files, nothing else.

use catena_engine::nf::Nanos;
use catena_shm::tsc;

/// The distance between the two clocks, taken once: a step of the wall clock while a port is open
/// does not make its timestamps jump.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WallClock {
    /// Nanoseconds since 1970 when the engine's clock showed 0.
    epoch_ns: i128,
}

impl WallClock {
    /// Reads both clocks. The engine's is the kernel's monotonic one.
    pub(crate) fn read() -> Self {
        Self {
            epoch_ns: tsc::epoch_ns(),
        }
    }

    /// Nanoseconds since 1970 at `now`.
    pub(crate) fn at(self, now: Nanos) -> u64 {
        u64::try_from(self.epoch_ns + i128::from(now.0)).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    #[test]
    fn engine_time_becomes_time_of_day() {
        let clock = WallClock::read();
        assert_eq!(clock.at(Nanos(5_000)) - clock.at(Nanos(2_000)), 3_000);
        let now = Nanos(tsc::kernel_ns());
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let off_by = u128::from(clock.at(now)).abs_diff(wall.as_nanos());
        assert!(off_by < 1_000_000_000, "{off_by} ns");
    }
}
