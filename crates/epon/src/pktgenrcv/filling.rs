//! What frames and raw chunks are filled with; sender and receiver make the same.

use crate::bit_errors::Random;

/// Addresses and EtherType.
pub(super) const HEADERS_LEN: usize = 14;
/// Octets that fillings are cut out of.
const PATTERN_LEN: usize = 1 << 15;

/// Octets that frames and raw chunks are filled with; the same on both sides.
#[derive(Debug)]
pub(super) struct Pattern(Vec<u8>);

impl Pattern {
    pub(super) fn new() -> Self {
        let mut random = Random::new(0x4550_4f4e);
        let words = (0..PATTERN_LEN / 8).flat_map(|_| random.bits().to_le_bytes());
        Self(words.collect())
    }

    /// The filling of the frame with this number.
    #[inline]
    pub(super) fn of_frame(&self, sequence: u64, len: usize) -> &[u8] {
        // A prime, so that neighbours differ; below half of the pattern. Frames have at most half.
        let start = (sequence.wrapping_mul(67) % (PATTERN_LEN as u64 / 2)) as usize;
        &self.0[start..start + len]
    }

    /// The filling of a raw chunk with this number, piece by piece.
    pub(super) fn of_chunk(&self, number: u32, len: usize) -> impl Iterator<Item = &[u8]> {
        let start = number as usize % 256;
        let whole = &self.0[start..start + PATTERN_LEN - 256];
        let pieces = (0..len).step_by(whole.len());
        pieces.map(move |at| &whole[..whole.len().min(len - at)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_chunk_is_filled_with_all_of_the_pattern_but_where_others_begin() {
        let pattern = Pattern::new();
        for number in [0, 255] {
            let lens: Vec<_> = pattern.of_chunk(number, 40_000).map(<[u8]>::len).collect();
            assert_eq!(lens, [32_512, 7_488], "{number}");
        }
    }
}
