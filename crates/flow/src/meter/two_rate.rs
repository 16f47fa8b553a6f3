//! The two rate three colour marker (RFC 2698).
//!
//! Two buckets that fill at rates of their own. State are the credits that each misses and the time
//! up to which they are counted.

use super::credit::{Colour, MeterError, SECOND_NS, credits, holds, refill};

/// Peak and committed information rate and burst size (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrTcm {
    cir: u64,
    cbs: u64,
    pir: u64,
    pbs: u64,
}

/// What the buckets miss. Zeros: both are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrTcmState {
    at_ns: u64,
    committed: u64,
    peak: u64,
}

impl TrTcmState {
    /// As three words of a flow's state.
    pub fn words(self) -> [u64; 3] {
        [self.at_ns, self.committed, self.peak]
    }

    /// From three words of a flow's state. Any words are a state.
    pub fn from_words([at_ns, committed, peak]: [u64; 3]) -> Self {
        Self {
            at_ns,
            committed,
            peak,
        }
    }
}

impl TrTcm {
    /// `cir` per second with burst `cbs`, `pir` per second with burst `pbs` (section 2).
    ///
    /// # Errors
    /// A rate or burst of 0, a peak rate below the committed rate, or a burst above 1.8e10.
    pub fn new(cir_per_s: u64, cbs: u64, pir_per_s: u64, pbs: u64) -> Result<Self, MeterError> {
        if cir_per_s == 0 || pir_per_s == 0 {
            return Err(MeterError::Rate);
        }
        if pir_per_s < cir_per_s {
            return Err(MeterError::Peak {
                peak: pir_per_s,
                committed: cir_per_s,
            });
        }
        if cbs == 0 || pbs == 0 {
            let max = u64::MAX / SECOND_NS;
            return Err(MeterError::Burst { burst: 0, max });
        }
        Ok(Self {
            cir: cir_per_s,
            cbs: credits(cbs)?,
            pir: pir_per_s,
            pbs: credits(pbs)?,
        })
    }

    /// Committed and peak: information rate and burst size; bursts in credits, [`SECOND_NS`] for a
    /// unit.
    pub fn terms(&self) -> [(u64, u64); 2] {
        [(self.cir, self.cbs), (self.pir, self.pbs)]
    }

    /// The colour of a packet (section 3). `before` is the colour that it came with; a colour-blind
    /// meter says green.
    #[inline]
    pub fn colour(&self, state: &mut TrTcmState, now_ns: u64, cost: u32, before: Colour) -> Colour {
        let elapsed_ns = u128::from(now_ns.saturating_sub(state.at_ns));
        state.at_ns = state.at_ns.max(now_ns);
        refill(&mut state.committed, elapsed_ns * u128::from(self.cir));
        refill(&mut state.peak, elapsed_ns * u128::from(self.pir));
        let cost = u64::from(cost) * SECOND_NS;
        if before == Colour::Red || !holds(self.pbs, state.peak, cost) {
            return Colour::Red;
        }
        state.peak += cost;
        if before == Colour::Yellow || !holds(self.cbs, state.committed, cost) {
            return Colour::Yellow;
        }
        state.committed += cost;
        Colour::Green
    }
}
