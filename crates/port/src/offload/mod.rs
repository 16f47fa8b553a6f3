//! What a sender on this host left to a network card: checksums, and cutting large packets apart.
//!
//! Between the kernel and a port, both ways. A packet that the kernel hands over with something
//! left open is either *carried* (it goes through the chain as it is, with a number that says what
//! is open, [`Offload`](catena_engine::packet::Offload)) or made whole on entry: its checksum
//! completed, or cut apart ([`catena_engine::segments`]). One that has
//! been carried goes back to the kernel with a header made anew of its own headers ([`vnet`]).
//!
//! All of it is pure: bytes in, bytes out.

pub(crate) mod pending;
pub(crate) mod vnet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What becomes of packets that their sender left to a network card to finish.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Segments {
    /// They are cut apart and their checksums completed before the chain gets them.
    #[default]
    Cut,
    /// They go through the chain as they are.
    Carry,
}

/// A packet shorter than this is always completed on entry: to sum its bytes costs less than to
/// keep it from sharing a buffer with others.
pub(crate) const CARRIED_LEN_MIN: usize = 513;
/// Most queues of a TAP (`MAX_TAP_QUEUES`), and of a fanout group.
pub(crate) const QUEUES_MAX: u16 = 64;

/// Names of the counters that [`pending::Pending`] and ports give.
pub(crate) const COUNTERS: [&str; 3] = ["carried", "cut_apart", "segments"];
