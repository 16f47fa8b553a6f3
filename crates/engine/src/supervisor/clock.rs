//! What time it is to the supervisor, and what it measures of the machine: in one place, so that a
//! simulation can say both.

use std::time::{Duration, Instant};

use catena_shm::tsc::Clock;

use crate::wait::{WaitBasis, measure};

/// Now.
pub(super) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = super::simulation::now() {
        return now;
    }
    Instant::now()
}

/// Whether the supervisor on this thread is simulated, with its workers.
#[cfg(test)]
pub(super) fn is_simulated() -> bool {
    super::simulation::now().is_some()
}

/// The clock of the data path, and what waiting costs `pollers` on `cores` here; takes about 40 ms.
pub(super) fn measured(pollers: usize, cores: usize) -> (Clock, WaitBasis) {
    #[cfg(test)]
    if is_simulated() {
        return super::simulation::measured(pollers, cores);
    }
    let clock = Clock::calibrate(Duration::from_millis(10));
    (clock, measure(pollers, cores))
}
