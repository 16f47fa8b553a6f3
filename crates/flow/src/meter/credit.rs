//! Credits: what a rate earns and a packet costs, in whole numbers, and what a meter says of it.

/// Nanoseconds of a second: also the credits that one unit of a cost is worth.
pub const SECOND_NS: u64 = 1_000_000_000;

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
pub(super) fn credits(burst: u64) -> Result<u64, MeterError> {
    let max = u64::MAX / SECOND_NS;
    burst
        .checked_mul(SECOND_NS)
        .ok_or(MeterError::Burst { burst, max })
}

/// A bucket that is missing `missing` of `depth` credits, after some of `earned` went into it; what
/// did not fit is given back.
pub(super) fn refill(missing: &mut u64, earned: u128) -> u128 {
    let taken = earned.min(u128::from(*missing));
    // At most `missing`, so it fits.
    *missing -= u64::try_from(taken).unwrap_or(*missing);
    earned - taken
}

/// Whether a bucket of `depth` credits that misses `missing` has `cost` left.
pub(super) fn holds(depth: u64, missing: u64, cost: u64) -> bool {
    depth.saturating_sub(missing) >= cost
}
