//! The 16 bytes that travel through a ring: where a packet lies, or which buffers come home.
//!
//! ```text
//! word 0   63        56 55       48 47          32 31                               0
//!         | kind (8)   | pool (8)  | sequence (16)| len (32)                         |
//! word 1  | tag (32)                              | offset (32)                      |
//! ```
//! Four descriptors share a cache line. The sequence is the update flag: it is written by the ring,
//! not here. A descriptor from another process says nothing until [`crate::pool`] has checked it.

/// One descriptor, without its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// What the other fields mean; see [`kind`].
    pub kind: u8,
    /// Pool of the buffer.
    pub pool: u8,
    /// Length of the packet in bytes.
    pub len: u32,
    /// Offset of its first byte in the pool's memory (or in the staging area of a `copy` link).
    pub offset: u32,
    /// Free for the packet's metadata.
    pub tag: u32,
}

/// Values of [`Descriptor::kind`].
pub mod kind {
    /// A packet at `offset`, `len` bytes long.
    pub const PACKET: u8 = 0;
    /// `RETURN + n`, n in 1..=3: n buffers go home; `len`, `offset`, `tag` are their indices.
    pub const RETURN: u8 = 0x10;
}

/// Buffers that one return descriptor can carry.
pub const RETURNS_PER_DESCRIPTOR: usize = 3;

const SEQUENCE_SHIFT: u32 = 32;
const RETURN_ONE: u8 = kind::RETURN + 1;
const RETURN_TWO: u8 = kind::RETURN + 2;

impl Descriptor {
    /// The first word, with the ring's `sequence`.
    pub const fn word0(self, sequence: u16) -> u64 {
        (self.kind as u64) << 56
            | (self.pool as u64) << 48
            | (sequence as u64) << SEQUENCE_SHIFT
            | self.len as u64
    }

    /// The second word.
    pub const fn word1(self) -> u64 {
        (self.tag as u64) << 32 | self.offset as u64
    }

    /// The sequence in a first word.
    #[expect(clippy::cast_possible_truncation, reason = "takes 16 bits")]
    pub const fn sequence_of(word0: u64) -> u16 {
        (word0 >> SEQUENCE_SHIFT) as u16
    }

    /// The descriptor in two words.
    #[expect(clippy::cast_possible_truncation, reason = "takes fields out of words")]
    pub const fn from_words(word0: u64, word1: u64) -> Self {
        Self {
            kind: (word0 >> 56) as u8,
            pool: (word0 >> 48) as u8,
            len: word0 as u32,
            offset: word1 as u32,
            tag: (word1 >> 32) as u32,
        }
    }

    /// A descriptor that carries up to three buffer indices of `pool` home.
    ///
    /// # Panics
    /// If there is no index, or more than three.
    pub fn returning(pool: u8, indices: &[u32]) -> Self {
        assert!(!indices.is_empty() && indices.len() <= RETURNS_PER_DESCRIPTOR);
        let at = |n: usize| indices.get(n).copied().unwrap_or(0);
        #[expect(clippy::cast_possible_truncation, reason = "at most 3")]
        let kind = kind::RETURN + indices.len() as u8;
        Self {
            kind,
            pool,
            len: at(0),
            offset: at(1),
            tag: at(2),
        }
    }

    /// Adds a buffer index to a return descriptor of the same pool, if there is room.
    #[inline]
    pub fn add_return(&mut self, pool: u8, index: u32) -> bool {
        if self.pool != pool {
            return false;
        }
        match self.kind {
            RETURN_ONE => self.offset = index,
            RETURN_TWO => self.tag = index,
            _ => return false,
        }
        self.kind += 1;
        true
    }

    /// The buffer indices that come home, if this is a return descriptor of valid form.
    pub fn returned(&self) -> Option<impl DoubleEndedIterator<Item = u32> + use<>> {
        let count = self.kind.checked_sub(kind::RETURN)? as usize;
        if count == 0 || count > RETURNS_PER_DESCRIPTOR {
            return None;
        }
        Some([self.len, self.offset, self.tag].into_iter().take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip_and_keep_the_sequence() {
        let descriptor = Descriptor {
            kind: 0x12,
            pool: 7,
            len: u32::MAX,
            offset: 0x8000_0001,
            tag: 0xdead_beef,
        };
        let (word0, word1) = (descriptor.word0(0x8123), descriptor.word1());
        assert_eq!(Descriptor::from_words(word0, word1), descriptor);
        assert_eq!(Descriptor::sequence_of(word0), 0x8123);
    }

    #[test]
    fn returns_carry_one_to_three_indices() {
        for indices in [&[5][..], &[5, 6], &[5, 6, 7]] {
            let descriptor = Descriptor::returning(3, indices);
            assert!(descriptor.returned().unwrap().eq(indices.iter().copied()));
        }
        let mut grown = Descriptor::returning(3, &[5]);
        assert!(!grown.add_return(4, 6), "another pool");
        assert!(grown.add_return(3, 6) && grown.add_return(3, 7) && !grown.add_return(3, 8));
        assert_eq!(grown, Descriptor::returning(3, &[5, 6, 7]));
        assert!(Descriptor::default().returned().is_none());
        assert!(
            Descriptor {
                kind: 0x14,
                ..Descriptor::default()
            }
            .returned()
            .is_none()
        );
    }
}
