//! A packet as a record of the byte stream: what stands in front of it.

use crate::packet::Packet;

/// Bytes in front of each packet.
pub const HEADER_BYTES: usize = 12;
/// Bytes at the beginning of a connection.
pub const PREFACE_BYTES: usize = 8;

/// What stands in front of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) len: u32,
    pub(super) tag: u32,
    /// Length and the bytes free behind.
    pub(super) room: u32,
}

impl Header {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "a packet fits a buffer")]
    pub(super) fn of(packet: &Packet) -> Self {
        Self {
            len: packet.len() as u32,
            tag: packet.metadata(),
            room: (packet.len() + packet.tailroom()) as u32,
        }
    }

    /// Whether the packet takes as much place as that of `other`.
    #[inline]
    pub(super) fn is_like(self, other: Self) -> bool {
        (self.len, self.room) == (other.len, other.room)
    }

    #[inline]
    pub(super) fn bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.tag.to_le_bytes());
        bytes[8..].copy_from_slice(&self.room.to_le_bytes());
        bytes
    }

    /// From the first bytes of `bytes`; zeros where there are too few.
    #[inline]
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let four = bytes.get(at..at + 4).and_then(|four| four.try_into().ok());
            u32::from_le_bytes(four.unwrap_or_default())
        };
        Self {
            len: word(0),
            tag: word(4),
            room: word(8),
        }
    }
}
