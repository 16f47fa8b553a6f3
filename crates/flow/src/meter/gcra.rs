//! The generic cell rate algorithm (ITU-T I.371 annex A, virtual scheduling), for packets or bytes.
//!
//! The state is one instant: when the flow would have earned all that it has sent. A packet passes
//! if that instant, moved on by the packet's cost, is no further ahead of now than the burst is
//! worth. It equals a bucket of `burst` that starts full and fills at `rate`.

use super::credit::{MeterError, SECOND_NS, credits};

/// A rate and a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    rate: u64,
    /// What a cost of 1 takes, and the whole burst.
    one: Span,
    limit: Span,
}

/// A time, exact: nanoseconds and a fraction of one in units of 1 / rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Span {
    ns: u64,
    fraction: u64,
}

/// The theoretical arrival time. Zeros: nothing was sent yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GcraState(Span);

impl GcraState {
    /// As two words of a flow's state.
    pub fn words(self) -> [u64; 2] {
        [self.0.ns, self.0.fraction]
    }

    /// From two words of a flow's state. Any words are a state.
    pub fn from_words([ns, fraction]: [u64; 2]) -> Self {
        Self(Span { ns, fraction })
    }
}

impl Gcra {
    /// Lets `rate_per_s` pass per second and `burst` at once after a pause, both in packets or both
    /// in bytes.
    ///
    /// # Errors
    /// A rate or a burst of 0, or a burst above 1.8e10.
    pub fn new(rate_per_s: u64, burst: u64) -> Result<Self, MeterError> {
        if rate_per_s == 0 {
            return Err(MeterError::Rate);
        }
        if burst == 0 {
            let max = u64::MAX / SECOND_NS;
            return Err(MeterError::Burst { burst, max });
        }
        let span = |credits: u64| Span {
            ns: credits / rate_per_s,
            fraction: credits % rate_per_s,
        };
        Ok(Self {
            rate: rate_per_s,
            one: span(SECOND_NS),
            limit: span(credits(burst)?),
        })
    }

    /// Its rate, what a cost of 1 takes, and the whole burst: nanoseconds and a fraction of one in
    /// units of 1 / rate, as in [`GcraState::words`].
    pub fn terms(&self) -> (u64, [u64; 2], [u64; 2]) {
        let words = |span: Span| [span.ns, span.fraction];
        (self.rate, words(self.one), words(self.limit))
    }

    /// What [`Gcra::new`] of this rate and burst and [`Gcra::passes`] say together, for whoever has
    /// a meter's terms with its state: it makes no more of the meter than the packet needs, which
    /// is one division while the flow keeps to its rate, instead of three.
    ///
    /// # Errors
    /// As [`Gcra::new`].
    #[inline]
    pub fn charge(
        (rate_per_s, burst): (u64, u64),
        state: &mut GcraState,
        now_ns: u64,
        cost: u32,
    ) -> Result<bool, MeterError> {
        let now = Span {
            ns: now_ns,
            fraction: 0,
        };
        let is_full = state.0 <= now && rate_per_s > 0 && burst > 0;
        if !is_full || burst > u64::MAX / SECOND_NS {
            return Ok(Self::new(rate_per_s, burst)?.passes(state, now_ns, cost));
        }
        let passes = u64::from(cost) <= burst;
        if passes {
            let credits = u64::from(cost) * SECOND_NS;
            state.0 = Span {
                ns: now_ns.saturating_add(credits / rate_per_s),
                fraction: credits % rate_per_s,
            };
        }
        Ok(passes)
    }

    /// Whether a packet of this cost passes at `now_ns`; if so, it is charged.
    #[inline]
    pub fn passes(&self, state: &mut GcraState, now_ns: u64, cost: u32) -> bool {
        let now = Span {
            ns: now_ns,
            fraction: 0,
        };
        // A state that another rate has left may have a fraction that is none.
        let stored = Span {
            ns: state.0.ns,
            fraction: state.0.fraction.min(self.rate - 1),
        };
        let next = self.sum(stored.max(now), self.span(cost));
        let passes = next <= self.sum(now, self.limit);
        if passes {
            state.0 = next;
        }
        passes
    }

    /// Charges a packet that passes whatever the rate says, as one that is guaranteed elsewhere:
    /// those that are not pass the later. No more than two bursts are owed at once.
    pub fn owe(&self, state: &mut GcraState, now_ns: u64, cost: u32) {
        let now = Span {
            ns: now_ns,
            fraction: 0,
        };
        let stored = Span {
            ns: state.0.ns,
            fraction: state.0.fraction.min(self.rate - 1),
        };
        let next = self.sum(stored.max(now), self.span(cost));
        let most = self.sum(self.sum(now, self.limit), self.limit);
        state.0 = next.min(most);
    }

    #[inline]
    fn span(&self, cost: u32) -> Span {
        if cost == 1 {
            return self.one;
        }
        let credits = u64::from(cost) * SECOND_NS;
        Span {
            ns: credits / self.rate,
            fraction: credits % self.rate,
        }
    }

    #[inline]
    fn sum(&self, one: Span, other: Span) -> Span {
        // Both are below the rate; their sum may not fit.
        let (fraction, is_over) = one.fraction.overflowing_add(other.fraction);
        let carry = is_over || fraction >= self.rate;
        Span {
            ns: one
                .ns
                .saturating_add(other.ns)
                .saturating_add(u64::from(carry)),
            fraction: if carry {
                fraction.wrapping_sub(self.rate)
            } else {
                fraction
            },
        }
    }
}
