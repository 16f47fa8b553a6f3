//! A line's length: bits that are under way between the two ends of a simulated fibre.

use crate::line_bits::{copy_bits, move_bits};

/// A fixed number of bits between what goes in and what comes out. At first they are dark.
#[derive(Debug)]
pub(super) struct DelayLine {
    bits: usize,
    /// What is under way, and room for a chunk behind it: as long as the longest chunk so far.
    line: Vec<u8>,
}

impl DelayLine {
    /// A line of so many bits.
    pub(super) fn new(bits: usize) -> Self {
        Self {
            bits,
            line: vec![0; bits.div_ceil(8)],
        }
    }

    /// Sends bits `start..start + len` of `chunk` in, and puts what comes out in their place.
    pub(super) fn pass(&mut self, chunk: &mut [u8], start: usize, len: usize) {
        if self.bits == 0 || len == 0 {
            return;
        }
        let reach = (self.bits + len).div_ceil(8);
        if self.line.len() < reach {
            self.line.resize(reach, 0);
        }
        copy_bits(chunk, start, &mut self.line, self.bits, len);
        copy_bits(&self.line, 0, chunk, start, len);
        move_bits(&mut self.line, len, 0, self.bits);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_goes_in_comes_out_so_many_bits_later(
            delay in 0_usize..300,
            chunks in prop::collection::vec((any::<u64>(), 0_usize..8, 0_usize..57), 1..20),
        ) {
            let mut line = DelayLine::new(delay);
            let (mut sent, mut received) = (vec![false; delay], Vec::new());
            for (word, start, len) in chunks {
                let mut chunk = word.to_le_bytes();
                let bits = |chunk: &[u8; 8]| {
                    let word = u64::from_le_bytes(*chunk);
                    (start..start + len).map(|bit| word >> bit & 1 == 1).collect::<Vec<_>>()
                };
                sent.extend(bits(&chunk));
                line.pass(&mut chunk, start, len);
                received.extend(bits(&chunk));
                // Bits around them stay.
                let mask = (1_u64 << len).wrapping_sub(1) << start;
                prop_assert_eq!(u64::from_le_bytes(chunk) & !mask, word & !mask);
            }
            prop_assert_eq!(&sent[..received.len()], received.as_slice());
        }
    }
}
