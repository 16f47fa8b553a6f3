//! What a sender left to a network card, done here: a checksum, or cutting a packet into segments.
//!
//! Beside the path of packets with something left open ([`Offload`](crate::packet::Offload), ADR
//! 29): kernel ports that make them whole on entry, and the NF [`cut`](crate::nfs::cut) where a
//! chain has carried them so far. Pure: bytes in, bytes out; headers are read anew, whoever said
//! what is left open.

mod cut;
mod headers;
pub mod testing;

pub use cut::Cut;
pub use headers::{Headers, TCP, UDP, complete};
