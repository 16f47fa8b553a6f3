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
//! A link is a ring in shared memory: `ring_tx.rs` and `ring_rx.rs` are its two ends,
//! `counters.rs` has what they count. For comparison, a link of the chain file may be a TCP
//! connection; then it is a port at either end (`tcp.rs`, `worker/ends.rs`).

pub(crate) mod counters;
mod ring_rx;
mod ring_tx;
pub mod tcp;

pub use crate::packet::bytes_of;
pub use counters::{Dropped, OCCUPANCY_CLASSES, RxCounters, TxCounters};
pub use ring_rx::{Inlet, RxLink};
pub use ring_tx::TxLink;

#[cfg(test)]
mod read_only_tests;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod waiting_tests;
