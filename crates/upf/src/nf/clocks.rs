//! The clocks of the machine, which the NF looks at once, when it is built: later the
//! time comes with each call.

use std::time::{SystemTime, UNIX_EPOCH};

use catena_wire::pfcp::value::Time;
use rustix::time::{ClockId, clock_gettime};

use crate::config::Config;
use crate::usage::WallClock;

/// The wall clock now, beside the engine's: read once, when the NF is built.
pub(super) fn wall_clock(config: &Config) -> WallClock {
    let epoch = i128::from(Time::UNIX_EPOCH) * 1_000_000_000;
    if let Some(seconds) = config.simulated_epoch {
        let zero_ns = epoch + i128::from(seconds) * 1_000_000_000;
        return WallClock { zero_ns };
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ns = unix.map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0));
    WallClock {
        zero_ns: epoch + unix_ns - i128::from(monotonic_ns()),
    }
}

/// The engine's clock now: read once, when the NF is built.
pub(super) fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    let ns = i128::from(now.tv_sec) * 1_000_000_000 + i128::from(now.tv_nsec);
    u64::try_from(ns).unwrap_or(0)
}
