//! The single rate three colour marker (RFC 2697).
//!
//! One rate fills two buckets, the committed one first and the excess one with what runs over.
//! State are the credits that each bucket misses and the time up to which they are counted.

use super::credit::{Colour, MeterError, SECOND_NS, credits, holds, refill};

/// Committed information rate, committed burst size and excess burst size (section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SrTcm {
    cir: u64,
    cbs: u64,
    ebs: u64,
}

/// What the buckets miss. Zeros: both are full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SrTcmState {
    at_ns: u64,
    committed: u64,
    excess: u64,
}

impl SrTcmState {
    /// As three words of a flow's state.
    pub fn words(self) -> [u64; 3] {
        [self.at_ns, self.committed, self.excess]
    }

    /// From three words of a flow's state. Any words are a state.
    pub fn from_words([at_ns, committed, excess]: [u64; 3]) -> Self {
        Self {
            at_ns,
            committed,
            excess,
        }
    }
}

impl SrTcm {
    /// `cir` per second, bursts `cbs` and `ebs`; one of the bursts may be 0 (section 2).
    ///
    /// # Errors
    /// A rate of 0, no burst at all, or one above 1.8e10.
    pub fn new(cir_per_s: u64, cbs: u64, ebs: u64) -> Result<Self, MeterError> {
        if cir_per_s == 0 {
            return Err(MeterError::Rate);
        }
        if cbs == 0 && ebs == 0 {
            let max = u64::MAX / SECOND_NS;
            return Err(MeterError::Burst { burst: 0, max });
        }
        Ok(Self {
            cir: cir_per_s,
            cbs: credits(cbs)?,
            ebs: credits(ebs)?,
        })
    }

    /// Committed information rate, committed and excess burst size; these two in credits,
    /// [`SECOND_NS`] for a unit.
    pub fn terms(&self) -> [u64; 3] {
        [self.cir, self.cbs, self.ebs]
    }

    /// The colour of a packet (section 3). `before` is the colour that it came with; a colour-blind
    /// meter says green.
    #[inline]
    pub fn colour(&self, state: &mut SrTcmState, now_ns: u64, cost: u32, before: Colour) -> Colour {
        let elapsed_ns = now_ns.saturating_sub(state.at_ns);
        let earned = u128::from(elapsed_ns) * u128::from(self.cir);
        state.at_ns = state.at_ns.max(now_ns);
        let over = refill(&mut state.committed, earned);
        refill(&mut state.excess, over);
        let cost = u64::from(cost) * SECOND_NS;
        if before == Colour::Green && holds(self.cbs, state.committed, cost) {
            state.committed += cost;
            Colour::Green
        } else if before != Colour::Red && holds(self.ebs, state.excess, cost) {
            state.excess += cost;
            Colour::Yellow
        } else {
            Colour::Red
        }
    }
}
