// SPDX-License-Identifier: Apache-2.0
//! Line bits that a receiver has taken in and not yet used, as words. Chunks of any size at any bit
//! offset come in; what reads them sees one stream.

use super::words::{LINE_WORDS, word_at};
use super::words_avx2::copy_words;
use crate::params::CODEWORD_BITS;
use crate::simd::Simd;

/// Codewords that fit; small enough to stay in a first-level cache.
pub(super) const CODEWORDS: usize = 40;
const WORDS: usize = CODEWORDS * CODEWORD_BITS / 64;

/// Bits `start..end` of words; two words behind the last may be read and hold anything.
#[derive(Clone, Debug)]
pub(super) struct LineBuffer {
    words: Box<[u64]>,
    start: usize,
    end: usize,
}

impl LineBuffer {
    pub(super) fn new() -> Self {
        Self {
            words: vec![0; WORDS + LINE_WORDS + 2].into_boxed_slice(),
            start: 0,
            end: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.end - self.start
    }

    pub(super) fn words(&self) -> &[u64] {
        &self.words
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
        word_at(&self.words, self.start + at)
    }

    /// Takes bits from `offset` on, as many as fit of `len`; returns how many.
    pub(super) fn append(&mut self, simd: Simd, line: &[u8], offset: usize, len: usize) -> usize {
        let first = self.start / 64;
        if first > 0 {
            self.words.copy_within(first..=self.end / 64, 0);
            self.start -= 64 * first;
            self.end -= 64 * first;
        }
        let count = len.min(64 * WORDS - self.end);
        let (mut from, upto) = (offset, offset + count);
        // Up to a word's border, whole words while 16 bytes can be read, then the rest.
        let to_border = (64 - self.end % 64) % 64;
        from = self.put(line, from, upto.min(from + to_border));
        if self.end.is_multiple_of(64) {
            let readable = (line.len() - from / 8) / 8;
            let words = ((upto - from) / 64).min(readable.saturating_sub(1));
            let to = self.end / 64;
            copy_words(
                simd,
                &line[from / 8..],
                from % 8,
                &mut self.words[to..to + words],
            );
            from += 64 * words;
            self.end += 64 * words;
        }
        self.put(line, from, upto);
        count
    }

    /// Appends bits `from..upto`, up to 56 at a time; returns `upto`.
    fn put(&mut self, line: &[u8], mut from: usize, upto: usize) -> usize {
        while from < upto {
            let room = 64 - self.end % 64;
            let count = (upto - from).min(room).min(56);
            let mut bytes = [0; 8];
            let source = &line[from / 8..(from + count).div_ceil(8)];
            bytes[..source.len()].copy_from_slice(source);
            let bits = u64::from_le_bytes(bytes) >> (from % 8) & ((1 << count) - 1);
            let (index, shift) = (self.end / 64, self.end % 64);
            let below = self.words[index] & !(u64::MAX << shift);
            self.words[index] = below | bits << shift;
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
