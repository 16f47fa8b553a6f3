//! The clocks of the machine, which `ipfix` looks at once, when it is built: records tell the wall
//! clock, and later the time comes with each call.

use catena_shm::tsc;

use super::config::Settings;

/// The wall clock, since 1970 in ns, when the engine's clock shows 0.
pub(super) fn epoch_ns(settings: &Settings) -> u64 {
    match settings.simulated_epoch {
        Some(seconds) => u64::from(seconds) * 1_000_000_000,
        None => u64::try_from(tsc::epoch_ns()).unwrap_or(0),
    }
}
