//! Flow tables for packet rates.
//!
//! A [`FlowTable`] finds the entry of a packet's flow, keeps a few words of state there and ends it
//! when it has been idle. It is made for a data path: it never allocates, locks or grows, every
//! operation has a bound, keys are looked up a burst at a time, and time is an argument.
//!
//! # A worked example
//!
//! Two words of key (addresses and ports), one of state (a packet count), at most 1000 flows that
//! end after 30 seconds without a packet:
//!
//! ```
//! use catena_flow::{Ended, Fate, FlowTable, HeapMemory, Inserted, Shape, Timeouts};
//!
//! let shape = Shape::new(2, 1, 1000);
//! let memory = HeapMemory::new(shape.words()?);
//! let seed = [0x5eed, 0xfeed]; // from the kernel's random numbers, per boot
//! let mut table = FlowTable::create(memory, &shape, seed, 0)?;
//! let timeouts = Timeouts::idle(30_000_000_000);
//!
//! // A burst of three packets, the second and third of one flow.
//! let now_ns = 1_000_000;
//! let burst = [[0x0a000001_0a000002, 0x0035_9c40], [0x0a000003_0a000004, 0x01bb_9c41],
//!              [0x0a000003_0a000004, 0x01bb_9c41]];
//! let mut found = [None; 3];
//! table.lookup(burst.as_flattened(), now_ns, &mut found);
//! for (key, found) in burst.iter().zip(found) {
//!     let flow = match found {
//!         Some(flow) => flow,
//!         // The second packet of a new flow finds what the first has made.
//!         None => match table.insert(key, timeouts, now_ns) {
//!             Ok(Inserted::New(flow) | Inserted::Present(flow)) => flow,
//!             Err(refusal) => panic!("{refusal}"), // or a drop with its own reason
//!         },
//!     };
//!     table.set_state(flow, 0, table.state(flow, 0) + 1);
//! }
//! assert_eq!(table.len(), 2);
//! assert_eq!(table.state(table.find(&burst[2]).unwrap(), 0), 2);
//!
//! // Half a minute later both have ended, at most 64 of them in one turn.
//! let mut packets = 0;
//! table.expire(now_ns + 30_002_000_000, 64, |ended: Ended<'_>| {
//!     packets += ended.entry.state(0);
//!     Fate::Remove
//! });
//! assert_eq!((table.len(), packets), (0, 3));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What it promises
//!
//! - **Bounds.** A lookup reads at most two buckets and an entry, or, by a chance of one in some
//!   thousands, a few more entries. An insertion looks at no more than 64 buckets. Expiry handles
//!   as many entries as it is told to. A full table says [`Refusal::Full`].
//! - **Attacks.** Keys are hashed with a secret per table, so that nobody can fill one bucket.
//!   Keys that are not in the table cost one line of memory each, mostly; those that a full table
//!   refuses because its policy spares whoever is there, two
//!   ([`FlowTable::insert_sparing`]).
//! - **Kills.** The memory may be shared ([`Memory`]) and holds no address. A process that is
//!   killed at any instruction leaves a table to which a successor can attach
//!   ([`FlowTable::attach`]): each entry is there or not, with its state. A word of state is
//!   written whole; several words are written in the order of the calls.
//! - **Sharing.** One thread owns a table. Flows are split between threads by shard
//!   ([`KeyedHash::shard`]), each with a table of its own; an entry changes tables by
//!   [`FlowTable::extract`] and [`FlowTable::insert_record`].
//!
//! # What is where
//!
//! - [`FlowTable`]: lookups, insertion, eviction, timeouts, iteration, records.
//! - [`Shape`]: widths and capacity, and the memory they take.
//! - [`meter`]: GCRA, srTCM, trTCM and the sliding window, as state of a few words.
//! - [`KeyedHash`]: the hash, for shards.

//! - [`program`], [`efsm`], [`nf`]: programs over tables, documents of them, and the NF `flow`;
//!   [`simulate`]: a program beside any chain; [`packet_test`]: test files for one.
//! - [`nat44`], [`ipfix`]: the NFs of these names: NAPT for IPv4, and telemetry of flows.

#![forbid(unsafe_code)]

// Tests share files with those in `tests/`, which name the crate.
#[cfg(test)]
extern crate self as catena_flow;

use catena_engine::nf::NfKind;

mod bucket;
mod counters;
pub mod efsm;
mod flow;
mod hash;
pub mod ipfix;
mod kept;
mod memory;
pub mod meter;
pub mod nat44;
pub mod nf;
pub mod packet_test;
pub mod program;
mod raw;
mod shape;
pub mod simulate;
mod stamp;
mod table;
mod wheel;

#[cfg(test)]
mod tests;

/// Every NF of this crate.
pub const NFS: &[&NfKind] = &[&nf::KIND, &nat44::KIND, &ipfix::KIND];

pub use counters::Counters;
pub use flow::{Entry, Flow, Record};
pub use hash::{KEY_WORDS_MAX, KeyedHash};
pub use memory::{HeapMemory, LINE_BYTES, Memory};
pub use shape::{CAPACITY_MAX, HEADER_WORDS, STATE_WORDS_MAX, Shape, ShapeError};
pub use table::FlowTable;
pub use table::attach::{AttachError, Attached};
pub use table::check::Defect;
pub use table::evict::Eviction;
pub use table::expire::{Ended, Expired, Fate, Timeouts, Why};
pub use table::insert::{Inserted, Refusal};
pub use table::lookup::BURST_MAX;
pub use table::walk::Cursor;
