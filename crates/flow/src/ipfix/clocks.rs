//! The clocks of the machine, which `ipfix` looks at once, when it is built: records tell the wall
//! clock, and later the time comes with each call.

use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

use super::config::Settings;

/// The wall clock, since 1970 in ns, when the engine's clock shows 0.
pub(super) fn epoch_ns(settings: &Settings) -> u64 {
    if let Some(seconds) = settings.simulated_epoch {
        return u64::from(seconds) * 1_000_000_000;
    }
    let unix = SystemTime::now().duration_since(UNIX_EPOCH);
    let unix_ns = unix.map_or(0, |since| since.as_nanos());
    let now = clock_gettime(ClockId::Monotonic);
    let seconds = u128::try_from(now.tv_sec).unwrap_or(0);
    let monotonic_ns = seconds * 1_000_000_000 + u128::try_from(now.tv_nsec).unwrap_or(0);
    u64::try_from(unix_ns.saturating_sub(monotonic_ns)).unwrap_or(0)
}
