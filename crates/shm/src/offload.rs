//! What the sender of a packet left to a network card: its checksum, and to cut it into segments.
//!
//! Part of a packet's handle ([`crate::packet`]) and of its descriptor ([`crate::descriptor`]). It
//! is one small number, since all else stands in the packet's own headers: where the checksum lies,
//! and which protocol is to be cut. So there is nothing in it that could point anywhere, and
//! whoever completes or sends the packet reads the headers anew, whoever wrote the number (ADR 29).

/// Log2 of the bytes that a packet may have with which something is left open.
pub(crate) const LEN_BITS: u32 = 18;
/// Bits of an [`Offload`].
const OFFLOAD_BITS: u32 = 14;

/// Most payload of a segment.
pub const SEGMENT_BYTES_MAX: usize = (1 << OFFLOAD_BITS) - 1;

/// What is left to be done to a packet before it is on a wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offload(u16);

impl Offload {
    /// Nothing: the packet is as it will be on the wire.
    pub const NONE: Self = Self(0);
    /// The field of its TCP or UDP checksum holds the sum of the pseudo header only.
    pub const CHECKSUM: Self = Self(1);

    /// That it is to be cut into packets with so many bytes of payload, 2 to
    /// [`SEGMENT_BYTES_MAX`], and the checksum of each computed.
    pub fn segments_of(bytes: usize) -> Option<Self> {
        let is_possible = (2..=SEGMENT_BYTES_MAX).contains(&bytes);
        is_possible.then_some(Self(u16::try_from(bytes).ok()?))
    }

    /// Bytes of payload of its segments, if it is to be cut.
    #[inline]
    pub const fn segment_bytes(self) -> Option<u16> {
        if self.0 > 1 { Some(self.0) } else { None }
    }

    /// Whether nothing is left to be done.
    #[inline]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    #[inline]
    pub(crate) const fn bits(self) -> u16 {
        self.0
    }

    /// The lowest bits of a number: each of their values says something.
    #[inline]
    pub(crate) const fn from_bits(bits: u64) -> Self {
        Self((bits & ((1 << OFFLOAD_BITS) - 1)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_limits_and_the_lowest_bits_say_all() {
        for bytes in [0, 1, SEGMENT_BYTES_MAX + 1, usize::MAX] {
            assert_eq!(Offload::segments_of(bytes), None);
        }
        for bytes in [2, 1448, SEGMENT_BYTES_MAX] {
            let offload = Offload::segments_of(bytes).unwrap();
            assert_eq!(offload.segment_bytes().map(usize::from), Some(bytes));
            let bits = u64::from(offload.bits()) | 1 << OFFLOAD_BITS | 1 << 40;
            assert_eq!(Offload::from_bits(bits), offload);
        }
        assert!(Offload::NONE.is_none() && Offload::default().is_none());
        assert_eq!(Offload::CHECKSUM.segment_bytes(), None);
        assert!(!Offload::CHECKSUM.is_none());
    }
}
