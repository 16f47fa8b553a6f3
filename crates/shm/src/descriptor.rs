//! The 16 bytes that travel through a ring: where a packet lies, or which buffers come home.
//!
//! ```text
//! word 0   63      58 57         48 47          32 31                               0
//!         | kind (6) | pool (10)   | sequence (16)| len (32)                         |
//! word 1  | tag (32)                              | offset (32)                      |
//! ```
//! Four descriptors share a cache line. The sequence is the update flag: it is written by the ring,
//! not here.
//!
//! | kind | len | offset | tag |
//! |---|---|---|---|
//! | `PACKET` | bytes | first byte in the pool, or in the area | metadata |
//! | `OPEN` | bytes (18 bits), offload (14) | first byte in the pool | metadata |
//! | `RETURN + n` | buffer index | second index, if n > 1 | third index, if n > 2 |
//! | `BUNDLE` | slots 0 to 31 | start of the buffer in the pool | slots 32 to 63 |
//! | `STAGED_BUNDLE` | bytes | first byte in the area | count of slots |
//! | `RETURN_UNITS` | units 0 to 31 | group | units 32 to 63 |
//! | `BUNDLED` | bytes (16 bits), headroom left (8), slot (8) | first byte in the pool | metadata |
//!
//! A group is the buffer of a bundle, whose units are its slots, or a slab of 64 neighbouring
//! buffers.
//!
//! In a staging area there is no pool: there `pool` of a `PACKET` is log2 of the bytes of the
//! buffer that it lay in, or 0, so that the receiver can give it as much room.
//!
//! A descriptor from another process says nothing until [`crate::pool`] has checked it.

use crate::offload::{LEN_BITS, Offload};

/// One descriptor, without its sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// What the other fields mean; see [`kind`].
    pub kind: u8,
    /// Pool of the buffer, below [`POOL_COUNT_MAX`].
    pub pool: u16,
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
    /// A packet of which something is left to a network card ([`crate::offload`]).
    pub const OPEN: u8 = 0x08;
    /// `RETURN + n`, n in 1..=3: n buffers go home; `len`, `offset`, `tag` are their indices.
    pub const RETURN: u8 = 0x10;
    /// Packets of the bundle that starts at `offset`: those in the mask of `len` and `tag`.
    pub const BUNDLE: u8 = 0x20;
    /// A bundle of `tag` packets in a staging area: `len` bytes from `offset` on.
    pub const STAGED_BUNDLE: u8 = 0x21;
    /// The units of the mask go home: slots of the bundle in the buffer with index `offset`, or in
    /// a plain pool buffers of the slab with that number.
    pub const RETURN_UNITS: u8 = 0x30;
    /// One packet of a bundle; the bundle's table is not read.
    pub const BUNDLED: u8 = 0x28;
}

/// Packets that one bundle can hold.
pub const SLOTS_PER_BUNDLE: u32 = 64;

/// Buffers that one return descriptor can carry.
pub const RETURNS_PER_DESCRIPTOR: usize = 3;

/// Pools that a descriptor can tell apart.
pub const POOL_COUNT_MAX: usize = 1 << POOL_BITS;

const SEQUENCE_SHIFT: u32 = 32;
const POOL_SHIFT: u32 = 48;
pub(crate) const POOL_BITS: u32 = 10;
const KIND_SHIFT: u32 = POOL_SHIFT + POOL_BITS;
/// Where the slot of a `BUNDLED` packet begins in `len`.
const SLOT_SHIFT: u32 = 24;
const RETURN_ONE: u8 = kind::RETURN + 1;
const RETURN_TWO: u8 = kind::RETURN + 2;

impl Descriptor {
    /// The first word, with the ring's `sequence`.
    pub const fn word0(self, sequence: u16) -> u64 {
        (self.kind as u64) << KIND_SHIFT
            | (self.pool as u64 & (POOL_COUNT_MAX as u64 - 1)) << POOL_SHIFT
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

    /// How many indices of the ring it takes up: as many as it carries packets, so that a link's
    /// cursors count packets. At least 1 and at most [`SLOTS_PER_BUNDLE`], whatever a peer wrote.
    #[inline]
    pub const fn span(&self) -> u32 {
        match self.kind {
            kind::BUNDLE => {
                let count = self.len.count_ones() + self.tag.count_ones();
                if count == 0 { 1 } else { count }
            }
            kind::STAGED_BUNDLE => match self.tag {
                0 => 1,
                1..=SLOTS_PER_BUNDLE => self.tag,
                _ => SLOTS_PER_BUNDLE,
            },
            _ => 1,
        }
    }

    /// The descriptor in two words.
    #[expect(clippy::cast_possible_truncation, reason = "takes fields out of words")]
    pub const fn from_words(word0: u64, word1: u64) -> Self {
        Self {
            kind: (word0 >> KIND_SHIFT) as u8,
            pool: (word0 >> POOL_SHIFT) as u16 & (POOL_COUNT_MAX as u16 - 1),
            len: word0 as u32,
            offset: word1 as u32,
            tag: (word1 >> 32) as u32,
        }
    }

    /// This descriptor of a packet, saying what is left to a network card; unchanged if that is
    /// nothing, or the packet has grown too long to say it.
    #[inline]
    pub const fn left_open(mut self, offload: Offload) -> Self {
        if !offload.is_none() && self.len >> LEN_BITS == 0 {
            self.kind = kind::OPEN;
            self.len |= (offload.bits() as u32) << LEN_BITS;
        }
        self
    }

    /// The plain descriptor of an `OPEN` one, and what it says to be left open.
    #[inline]
    pub const fn opened(self) -> Option<(Self, Offload)> {
        if self.kind != kind::OPEN {
            return None;
        }
        let plain = Self {
            kind: kind::PACKET,
            len: self.len & ((1 << LEN_BITS) - 1),
            ..self
        };
        Some((plain, Offload::from_bits((self.len >> LEN_BITS) as u64)))
    }

    /// A descriptor that carries up to three buffer indices of `pool` home.
    ///
    /// # Panics
    /// If there is no index, or more than three.
    pub fn returning(pool: u16, indices: &[u32]) -> Self {
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
    pub fn add_return(&mut self, pool: u16, index: u32) -> bool {
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

/// Bundles: see [`crate::bundle`].
impl Descriptor {
    #[expect(clippy::cast_possible_truncation, reason = "takes the halves")]
    const fn with_mask(kind: u8, pool: u16, offset: u32, mask: u64) -> Self {
        Self {
            kind,
            pool,
            len: mask as u32,
            offset,
            tag: (mask >> 32) as u32,
        }
    }

    /// The packets of `mask` in the bundle whose buffer starts at `buffer_offset` of the pool.
    #[inline]
    pub const fn bundle(pool: u16, buffer_offset: u32, mask: u64) -> Self {
        Self::with_mask(kind::BUNDLE, pool, buffer_offset, mask)
    }

    /// A bundle of `count` packets that lies in a staging area: `len` bytes from `offset` on.
    #[inline]
    pub const fn staged_bundle(offset: u32, len: u32, count: u32) -> Self {
        Self {
            kind: kind::STAGED_BUNDLE,
            pool: 0,
            len,
            offset,
            tag: count,
        }
    }

    /// The slots that a `BUNDLE` or `RETURN_UNITS` descriptor names: bit n for slot n.
    #[inline]
    pub const fn mask(&self) -> u64 {
        (self.tag as u64) << 32 | self.len as u64
    }

    /// A descriptor that carries the units of `mask` in group `group` home: slots of a bundle's
    /// buffer, or buffers of a slab.
    #[inline]
    pub const fn returning_slots(pool: u16, group: u32, mask: u64) -> Self {
        Self::with_mask(kind::RETURN_UNITS, pool, group, mask)
    }

    /// Adds units to a descriptor that carries units of the same group home. False, and unchanged,
    /// if it carries something else, or one of them already.
    #[inline]
    pub const fn add_slots(&mut self, pool: u16, group: u32, mask: u64) -> bool {
        let fits = self.kind == kind::RETURN_UNITS
            && self.pool == pool
            && self.offset == group
            && self.mask() & mask == 0;
        if fits {
            *self = Self::returning_slots(pool, group, self.mask() | mask);
        }
        fits
    }

    /// Group and mask of the units that come home, if this is a descriptor of units, and not of
    /// none.
    #[inline]
    pub const fn returned_slots(&self) -> Option<(u32, u64)> {
        if self.kind != kind::RETURN_UNITS || self.mask() == 0 {
            return None;
        }
        Some((self.offset, self.mask()))
    }

    /// The packet of `len` bytes at `offset` of the pool that is in `slot` of its bundle, with
    /// `headroom` bytes left in front of it.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub const fn bundled(
        slot: u32,
        pool: u16,
        offset: u32,
        (len, headroom): (u16, u8),
        tag: u32,
    ) -> Self {
        assert!(slot < SLOTS_PER_BUNDLE);
        Self {
            kind: kind::BUNDLED,
            pool,
            len: slot << SLOT_SHIFT | (headroom as u32) << 16 | len as u32,
            offset,
            tag,
        }
    }

    /// Slot, bytes and headroom, if this is a descriptor of one packet of a bundle.
    #[inline]
    pub const fn bundled_parts(&self) -> Option<(u32, u64, u64)> {
        let slot = self.len >> SLOT_SHIFT;
        if self.kind != kind::BUNDLED || slot >= SLOTS_PER_BUNDLE {
            return None;
        }
        let (len, headroom) = (self.len & 0xffff, self.len >> 16 & 0xff);
        Some((slot, len as u64, headroom as u64))
    }
}

/// A returned or arriving buffer that cannot be what the peer says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Violation;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_of_a_bundle_travel_and_come_home_as_a_mask() {
        let mask = 0x8000_0001_0000_0003;
        let there = Descriptor::bundle(3, 4096, mask);
        assert_eq!(
            (there.kind, there.offset, there.mask()),
            (kind::BUNDLE, 4096, mask)
        );
        assert!(there.returned_slots().is_none() && there.returned().is_none());
        let mut home = Descriptor::returning_slots(3, 7, 1 << 63);
        assert!(home.add_slots(3, 7, 1 << 0) && home.add_slots(3, 7, 1 << 32));
        assert_eq!(home.returned_slots(), Some((7, 1 << 63 | 1 << 32 | 1)));
        let before = home;
        assert!(!home.add_slots(4, 7, 1 << 5), "another pool");
        assert!(!home.add_slots(3, 8, 1 << 5), "another buffer");
        assert!(!home.add_slots(3, 7, 1 << 32), "twice");
        assert!(!home.add_return(3, 7), "another kind");
        assert_eq!(home, before);
        assert!(home.returned().is_none());
        assert!(
            Descriptor::returning_slots(3, 7, 0)
                .returned_slots()
                .is_none()
        );
        assert!(!Descriptor::returning(3, &[7]).add_slots(3, 7, 1 << 1));
    }

    #[test]
    fn one_packet_of_a_bundle_says_slot_length_and_headroom() {
        for slot in 0..SLOTS_PER_BUNDLE {
            let one = Descriptor::bundled(slot, 3, 5000, (u16::MAX, 255), 9);
            assert_eq!(one.bundled_parts(), Some((slot, 65_535, 255)));
            assert!(one.returned().is_none() && one.returned_slots().is_none());
        }
        let one = Descriptor::bundled(63, 3, 5000, (60, 0), 9);
        assert_eq!((one.kind, one.tag), (kind::BUNDLED, 9));
        assert_eq!(one.len, 63 << 24 | 60);
        for kind in (0..=u8::MAX).filter(|kind| *kind != kind::BUNDLED) {
            assert!(Descriptor { kind, ..one }.bundled_parts().is_none());
        }
        let len = 64 << 24 | 60;
        assert!(Descriptor { len, ..one }.bundled_parts().is_none());
    }

    #[test]
    fn what_is_left_open_travels_beside_the_length() {
        let plain = Descriptor {
            kind: kind::PACKET,
            pool: 3,
            len: (1 << LEN_BITS) - 1,
            offset: 5000,
            tag: 9,
        };
        for offload in [Offload::CHECKSUM, Offload::segments_of(16_383).unwrap()] {
            let open = plain.left_open(offload);
            assert_eq!((open.kind, open.span()), (kind::OPEN, 1));
            assert_eq!(open.opened(), Some((plain, offload)));
            assert!(open.returned().is_none() && open.returned_slots().is_none());
            let long = Descriptor {
                len: 1 << LEN_BITS,
                ..plain
            };
            assert_eq!(long.left_open(offload), long);
        }
        assert_eq!(plain.left_open(Offload::NONE), plain);
        assert_eq!(plain.opened(), None);
    }

    #[test]
    fn words_round_trip_and_keep_the_sequence() {
        for (kind, pool) in [(0x12, 7), (0, 1023), (0x3f, 512), (0x3f, 0), (0x28, 256)] {
            let descriptor = Descriptor {
                kind,
                pool,
                len: u32::MAX,
                offset: 0x8000_0001,
                tag: 0xdead_beef,
            };
            let (word0, word1) = (descriptor.word0(0x8123), descriptor.word1());
            assert_eq!(Descriptor::from_words(word0, word1), descriptor);
            assert_eq!(Descriptor::sequence_of(word0), 0x8123);
        }
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
