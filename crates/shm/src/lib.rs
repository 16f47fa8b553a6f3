//! Shared memory for chains: regions, pools, rings, counters, and waiting.
//!
//! This crate is the floor under a packet's life. It holds every line of `unsafe` that shared
//! memory needs, and nothing that knows of network functions or chain files.
//!
//! - [`region`]: sealed memfds and their mappings; who may write is held by the MMU.
//! - [`packet`]: the handle of one packet in a pool's buffer.
//! - [`pmc`]: cycles and instructions of a thread, where the machine lets user space read them.
//! - [`pool`]: buffers of one size, allocated by one owner, checked by everybody else.
//! - [`descriptor`]: the 16 bytes that travel through a ring.
//! - [`bundle`]: buffers that hold many packets.
//! - [`ring`]: the single-producer single-consumer ring, generic over its memory; model-checked.
//! - [`ring_memory`]: the ring's memory as two sealed regions, one per side.
//! - [`snapshots`]: private copies of packets that another process may still write.
//! - [`staging`]: the byte area through which `copy` links pass packets.
//! - [`state`]: memory of a network function that outlives it.
//! - [`offload`]: what a packet's sender left to a network card.
//! - [`prefetch`]: cache lines fetched before they are needed.
//! - [`bell`]: sleeping without losing a wake-up, on futexes that the peer cannot write.
//! - [`counters`]: counter blocks that any process can read.
//! - [`record_ring`]: records of probes, which any process can read.
//! - [`fd_passing`]: messages with file descriptors over Unix sockets.
//! - [`peer`]: the process at the other end of a Unix socket.
//! - [`confine`]: what a process that runs NFs may not do.
//! - [`schedule`]: how long a thread may be kept waiting for a core.
//! - [`tsc`]: the calibrated clock.
//! - `floor` (a feature): bare loops, beside which benchmarks set their figures.
//!
//! Trust: whatever another process can write is loaded once with an atomic, checked, then used.

pub mod anonymous;
pub mod bell;
pub mod bundle;
pub mod confine;
pub mod counters;
pub mod descriptor;
pub mod fd_passing;
#[cfg(all(feature = "floor", not(loom)))]
pub mod floor;
pub mod offload;
pub mod packet;
pub mod peer;
pub mod pmc;
pub mod pool;
pub mod prefetch;
pub mod record_ring;
pub mod region;
pub mod ring;
pub mod ring_memory;
pub mod schedule;
pub mod snapshots;
pub mod staging;
pub mod state;
pub mod sync;
pub mod tsc;

pub use descriptor::Descriptor;
pub use packet::Packet;
