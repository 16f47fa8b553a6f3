//! The packet: bytes in a pool's buffer and a little metadata.
//!
//! Defined where its memory is, in [`catena_shm::packet`]; named here because it is one of the four
//! nouns of a chain.

pub use catena_shm::offload::{Offload, SEGMENT_BYTES_MAX};
pub use catena_shm::packet::{NoRoom, Packet};

/// Bytes of all of `packets`.
pub fn bytes_of(packets: &[Packet]) -> u64 {
    packets.iter().map(|packet| packet.len() as u64).sum()
}
