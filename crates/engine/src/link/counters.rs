//! What the two ends of a link count, and what a sender is told that a link could not take.

use crate::aggregation::PackCounters;
use crate::drop_reason::DropReason;

/// Counters of the sending side, in the order of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TxCounters {
    /// Packets published.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Times the receiver was woken.
    pub wakes: u64,
    /// Turns in which the sender held back because the link was full.
    pub blocked: u64,
    /// Impossible cursors of the receiver.
    pub violations: u64,
    /// What aggregation did.
    pub packed: PackCounters,
}

/// Number of occupancy classes: 0, 1, 2-3, 4-7, ... packets found waiting.
pub const OCCUPANCY_CLASSES: usize = 12;

/// Counters of the receiving side, in the order of their words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RxCounters {
    /// Packets taken.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Descriptors no honest peer would send.
    pub violations: u64,
    /// Packets discarded as too old (`drop_head`), or for want of a buffer (`copy`).
    pub discarded: u64,
    /// How many packets a pull took, by powers of two.
    pub occupancy: [u64; OCCUPANCY_CLASSES],
}

/// What a link could not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Packets, freed already.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Why.
    pub reason: DropReason,
}
