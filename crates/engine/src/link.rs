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
//! A link is a ring in shared memory (`ring_tx.rs`, `ring_rx.rs`) or, for comparison, a TCP
//! connection (`tcp.rs` and its neighbours); `ends.rs` has the one face of both, `counters.rs` what
//! they count.

pub(crate) mod counters;
mod ends;
mod ring_rx;
mod ring_tx;
pub mod tcp;

pub use crate::packet::bytes_of;
pub use counters::{Dropped, OCCUPANCY_CLASSES, RxCounters, TxCounters};
pub use ends::{RxLink, TxLink};
pub use ring_rx::Inlet;

#[cfg(test)]
mod read_only_tests;
#[cfg(test)]
mod waiting_tests;
