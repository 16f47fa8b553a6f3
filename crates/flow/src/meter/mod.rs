//! Meters: whether a flow keeps to its rate, as state machines of two or three words.
//!
//! Beside a packet's entry: a program reads a meter's words from the flow's state, asks, and writes
//! them back. A meter's words start as zeros, which stand for a flow that has sent nothing. All
//! arithmetic is exact: rates are whole numbers per second, time whole nanoseconds, and no
//! rounding adds up however long a flow lasts.
//!
//! | meter | standard | asks | words |
//! |---|---|---|---|
//! | [`Gcra`] | ITU-T I.371 annex A | one rate, one burst | 2 |
//! | [`SrTcm`] | RFC 2697 | one rate, two bursts, three colours | 3 |
//! | [`TrTcm`] | RFC 2698 | two rates, two bursts, three colours | 3 |
//! | [`Window`] | FlowBlaze's policer | one interval, one burst, packets only | 2 |
//!
//! A cost is what a rate counts: 1 for rates in packets per second, a length for rates in bytes.
//! The time that a meter is given may stand still, and one that runs backwards earns no credit
//! twice.

mod gcra;
mod single_rate;
mod two_rate;
mod window;

pub use gcra::{Gcra, GcraState};
pub use single_rate::{SrTcm, SrTcmState};
pub use two_rate::{TrTcm, TrTcmState};
pub use window::{Window, WindowState};

/// Nanoseconds of a second: also the credits that one unit of a cost is worth.
const SECOND_NS: u64 = 1_000_000_000;

/// What a meter says of a packet (RFC 2697 section 3, RFC 2698 section 3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Colour {
    /// Within the committed rate and burst.
    Green,
    /// Beyond it, within what is granted on top.
    Yellow,
    /// Beyond that too.
    Red,
}

/// Why a meter cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MeterError {
    /// A rate of nothing.
    #[error("a rate is at least 1 per second")]
    Rate,
    /// A burst of nothing, or one that cannot be counted.
    #[error("a burst is at least 1 and at most {max}, not {burst}")]
    Burst {
        /// What was asked for.
        burst: u64,
        /// The most there can be.
        max: u64,
    },
    /// The peak rate is below the committed rate.
    #[error("the peak rate {peak} is below the committed rate {committed}")]
    Peak {
        /// Peak rate.
        peak: u64,
        /// Committed rate.
        committed: u64,
    },
}

/// A burst in credits.
fn credits(burst: u64) -> Result<u64, MeterError> {
    let max = u64::MAX / SECOND_NS;
    burst
        .checked_mul(SECOND_NS)
        .ok_or(MeterError::Burst { burst, max })
}

/// A bucket that is missing `missing` of `depth` credits, after some of `earned` went into it; what
/// did not fit is given back.
fn refill(missing: &mut u64, earned: u128) -> u128 {
    let taken = earned.min(u128::from(*missing));
    // At most `missing`, so it fits.
    *missing -= u64::try_from(taken).unwrap_or(*missing);
    earned - taken
}

/// Whether a bucket of `depth` credits that misses `missing` has `cost` left.
fn holds(depth: u64, missing: u64, cost: u64) -> bool {
    depth.saturating_sub(missing) >= cost
}

#[cfg(test)]
mod tests;
