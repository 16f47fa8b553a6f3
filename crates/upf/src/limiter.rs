//! Limits of what the UPF sends by itself, per second: it must not be made to answer at will.

use catena_flow::meter::{Gcra, GcraState};

/// Most advertisements per second, of all sessions.
pub const ADVERTISEMENTS_PER_S: u64 = 1000;

/// Limits how many Error Indications are sent.
#[derive(Debug)]
pub struct Limiter {
    meter: Option<Gcra>,
    state: GcraState,
}

impl Limiter {
    /// So many per second, none for 0.
    pub fn new(per_s: u64) -> Self {
        Self {
            meter: Gcra::new(per_s, per_s.clamp(1, 100)).ok(),
            state: GcraState::default(),
        }
    }

    pub(crate) fn passes(&mut self, now_ns: u64) -> bool {
        let meter = self.meter.as_ref();
        meter.is_some_and(|meter| meter.passes(&mut self.state, now_ns, 1))
    }
}
