//! Stream time and the engine's clock: 32 bits of quanta in a packet, 64 bits of nanoseconds here.

use catena_engine::nf::Nanos;
use catena_wire::mpcp::QUANTUM_NS;

/// Quanta of the engine's clock.
pub(super) const fn quanta_at(now: Nanos) -> u64 {
    now.0 / QUANTUM_NS
}

/// When the engine's clock shows `quanta`.
pub(super) const fn nanos_at(quanta: u64) -> Nanos {
    Nanos(quanta.saturating_mul(QUANTUM_NS))
}

/// The instant with these low 32 bits that is nearest to `now`.
pub(super) const fn widen(instant: u32, now: u64) -> u64 {
    now.saturating_add_signed(super::super::quanta_between(now as u32, instant) as i64)
}
