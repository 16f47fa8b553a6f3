//! How many may ask something of a running chain at a time: on its control socket, and for metrics.
//!
//! Beside packets. Descriptors of all of them are counted before a chain starts
//! ([`ASKERS_MAX`]), so that nobody who asks takes one that a worker's successor needs.

use catena_engine::placement::descriptors::ASKERS_MAX;

/// Most visitors whose requests have not come whole, most answers on their way, most of those who
/// are told the end, and most clients of the metrics.
pub(crate) const SEATS: usize = ASKERS_MAX / DESCRIPTORS;

/// Each of these takes one for each of its seats, and an answer two: memory may go with it.
const DESCRIPTORS: usize = 5;
