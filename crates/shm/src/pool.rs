//! Pools: buffers of one size, allocated by one owner and checked by everybody else.
//!
//! First and last step of a packet's life. The owner ([`PoolOwner`]) hands out buffers; whoever
//! ends up with one sends its index home through a return ring. There is no shared free list, so no
//! process can corrupt another's allocation, and a killed one leaves nothing half-changed:
//!
//! - The *free list* is private memory of the owner: slabs of 64 neighbouring buffers, handed out
//!   again in the order in which they came home (see `slabs`).
//! - The *ledger*, one byte per buffer, lies in memory that only the owner writes: 0 while the
//!   buffer is at home, else the number of the link by which it left. It outlives the owner, and
//!   from it, the unfinished turn and the return rings, the undertaker knows what is still out.
//! - A buffer that comes home is taken back only if the ledger says it is out by a link that leads
//!   to the one who returns it: a peer cannot free twice, nor free what it never had.
//!
//! The unit of account is the buffer, or in a bundle pool the slot of a buffer: see `bundles`. 64
//! neighbouring units are a *group*: a slab of buffers, or the slots of one bundle. What leaves or
//! comes home together is a group's number and a mask, and in the ledger one cache line.
//!
//! [`PoolView`] is everybody else's side: it turns a descriptor into a [`Packet`](crate::Packet)
//! after checking, in 64 bits, that it lies in one buffer of the pool; where it may only read, into
//! one that lies in a copy.

mod bundles;
mod geometry;
mod link_set;
mod memory;
mod owner;
mod search;
mod slabs;
mod units;
mod view;

pub use crate::descriptor::Violation;
pub use bundles::Named;
pub use geometry::{POOL_BYTES_MAX, PoolGeometry};
pub use link_set::LinkSet;
pub use memory::PoolMemory;
pub use owner::{PoolOwner, read_ledger};
pub use search::SOUGHT;
pub use units::UnitRun;
pub use view::PoolView;

#[cfg(all(test, not(loom)))]
mod tests;
