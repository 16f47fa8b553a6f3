//! The link: a one-way edge between two NFs of different workers.
//!
//! The hop in a packet's life: [`TxLink::send`] publishes a burst of packets as descriptors,
//! [`RxLink::pull`] turns arrived descriptors into packets. What the two sides may do to each
//! other's memory is the link's trust: `shared` and `ro` pass the packet where it lies, `copy`
//! passes it through the staging area into a buffer of the receiver's own.
//!
//! Who owns the packet: `send` takes it (sent, or dropped with a reason); `pull` gives it. A link
//! knows nothing of chains, NFs or workers.
//!
//! A link is a ring in shared memory: `ring_tx.rs` and `ring_rx.rs` are its two ends. Here is what
//! both sides, and those who count, speak of. For comparison, a link of the chain file may be a TCP
//! connection; then it is a port at either end (`tcp.rs`, `worker/ends.rs`).

use catena_shm::ring_memory::MappedRing;

use crate::aggregation::PackCounters;
use crate::drop_reason::DropReason;
use crate::packet::Packet;

mod ring_rx;
mod ring_tx;
pub mod tcp;

pub use ring_rx::RxLink;
pub use ring_tx::TxLink;

/// A consumer whose producer may be replaced while it runs.
pub type Inlet = catena_shm::ring::Inlet<MappedRing>;

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

/// Bytes of all of `packets`.
pub fn bytes_of(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}

#[cfg(test)]
mod read_only_tests;
#[cfg(test)]
mod waiting_tests;
