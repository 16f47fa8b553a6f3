// SPDX-License-Identifier: Apache-2.0
//! Line bits that a receiver has taken in and not yet used. Chunks of any size at any bit offset
//! come in; what reads them sees one stream.

use super::words::{LOAD_OCTETS, word_at};
use super::words_avx2::copy_words;
use crate::params::CODEWORD_BITS;
use crate::simd::Simd;

/// Codewords that fit; small enough to stay in a first-level cache.
pub(super) const CODEWORDS: usize = 40;
const BITS: usize = CODEWORDS * CODEWORD_BITS;

/// Bits `start..end` of octets; as many octets as a codeword is read with stand behind the last,
/// and hold anything.
#[derive(Clone, Debug)]
pub(super) struct LineBuffer {
    octets: Box<[u8]>,
    start: usize,
    end: usize,
}

impl LineBuffer {
    pub(super) fn new() -> Self {
        Self {
            octets: vec![0; BITS.div_ceil(8) + LOAD_OCTETS].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.octets
    }

    pub(super) fn start(&self) -> usize {
        self.start
    }

    pub(super) fn consume(&mut self, count: usize) {
        debug_assert!(count <= self.len());
        self.start += count;
    }

    /// 64 bits that begin `at` bits behind the start.
    pub(super) fn word(&self, at: usize) -> u64 {
        word_at(&self.octets, self.start + at)
    }

    /// Takes bits from `offset` on, as many as fit of `len`; returns how many.
    pub(super) fn append(&mut self, simd: Simd, line: &[u8], offset: usize, len: usize) -> usize {
        let first = self.start / 8;
        if first > 0 {
            self.octets.copy_within(first..self.end.div_ceil(8), 0);
            self.start -= 8 * first;
            self.end -= 8 * first;
        }
        let count = len.min(BITS - self.end);
        let (mut from, upto) = (offset, offset + count);
        // Up to an octet's border, whole words while 16 octets can be read, then the rest.
        let to_border = (8 - self.end % 8) % 8;
        from = self.put(line, from, upto.min(from + to_border));
        if self.end.is_multiple_of(8) {
            let readable = (line.len() - from / 8) / 8;
            let words = ((upto - from) / 64).min(readable.saturating_sub(1));
            let to = &mut self.octets[self.end / 8..][..8 * words];
            copy_words(simd, &line[from / 8..], from % 8, to);
            from += 64 * words;
            self.end += 64 * words;
        }
        self.put(line, from, upto);
        count
    }

    /// Appends bits `from..upto`, up to 56 at a time; returns `upto`.
    fn put(&mut self, line: &[u8], mut from: usize, upto: usize) -> usize {
        while from < upto {
            let count = (upto - from).min(56);
            let mut octets = [0; 8];
            let source = &line[from / 8..(from + count).div_ceil(8)];
            octets[..source.len()].copy_from_slice(source);
            let bits = u64::from_le_bytes(octets) >> (from % 8) & ((1 << count) - 1);
            let (index, shift) = (self.end / 8, self.end % 8);
            let below = u64::from(self.octets[index]) & ((1 << shift) - 1);
            self.octets[index..index + 8].copy_from_slice(&(below | bits << shift).to_le_bytes());
            self.end += count;
            from += count;
        }
        from
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bits_come_out_as_they_went_in(
            line in prop::collection::vec(any::<u8>(), 1..400),
            cuts in prop::collection::vec(1_usize..900, 1..20),
            offset in 0_usize..8, skip in 0_usize..64,
        ) {
            for simd in Simd::all() {
                let mut buffer = LineBuffer::new();
                let bit = |i: usize| u64::from(line[i / 8] >> (i % 8) & 1);
                let end = 8 * line.len();
                let mut at = offset;
                for cut in cuts.iter().cycle() {
                    let count = (*cut).min(end - at);
                    prop_assert_eq!(buffer.append(simd, &line, at, count), count);
                    at += count;
                    if at == end {
                        break;
                    }
                }
                prop_assert_eq!(buffer.len(), end - offset);
                buffer.consume(skip.min(buffer.len()));
                buffer.append(simd, &line, 0, 0);
                for i in 0..buffer.len() {
                    prop_assert_eq!(buffer.word(i) & 1, bit(offset + skip + i));
                }
            }
        }
    }
}
