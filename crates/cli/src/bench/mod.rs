//! What `catena bench` measures with: a source that writes every byte of every packet, a sink that
//! reads them, and the chains between the two.
//!
//! They run in the ordinary engine over ordinary links, so a benchmark measures what a chain pays.
//! The ports are not for chains of users: `generator` and `sink` are.
//!
//! A stamp is the counter's reading ([`catena_shm::tsc::ticks`]) in bytes 16 to 23, behind the
//! Ethernet header, which NFs may change. Shorter packets carry none.

pub(crate) mod chains;
mod sink;
mod source;

use std::ops::Range;
use std::sync::Arc;

use catena_engine::chain::registry::Registry;

/// Where a packet's stamp is.
const STAMP: Range<usize> = 16..24;

/// The registry of users, with the ports of benchmarks.
pub(crate) fn registry() -> Arc<Registry> {
    let mut registry = (*crate::registry::registry()).clone();
    registry.ports.extend([&source::KIND, &sink::KIND]);
    Arc::new(registry)
}
