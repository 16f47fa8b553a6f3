//! What a URR's record says of its limits to packets: how far off the nearest is.
//!
//! Between the rules of a session and packets, which read it in place of all limits (`usage`).

use crate::stored::Stored;

/// How many octets may pass, in both directions together, before a packet may bring more than
/// itself. What a record says of it is known in place alone: a URR that is read, changed and
/// written as a value has none, so that its next packet goes the long way and finds it anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room;

impl Stored for Room {
    const LEN: usize = u64::LEN;

    fn load(_: &[u8]) -> Self {
        Self
    }

    #[inline]
    fn store(&self, bytes: &mut [u8]) {
        0u64.store(bytes);
    }
}
