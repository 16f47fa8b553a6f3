// SPDX-License-Identifier: Apache-2.0
//! Searches at every bit offset, 64 offsets at a time: for the headers of codewords (ONU) and for
//! the burst delimiter (OLT).

use super::line_buffer::LineBuffer;
use super::words_avx2::distances;
use crate::block::Block;
use crate::burst::{DELIMITER, SYNC_PATTERN, SyncWatch};
use crate::params::{BLOCK_BITS, BLOCKS, CODEWORD_BITS, DATA_BLOCKS, PARITY_HEADERS};
use crate::simd::Simd;

/// Offsets that were looked at and do not fit, and whether the one behind them does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hunt {
    pub(super) passed: usize,
    pub(super) is_found: bool,
}

/// A bit for each of the first `count` offsets of 64.
fn first_offsets(count: usize) -> u64 {
    match count {
        64.. => u64::MAX,
        count => (1 << count) - 1,
    }
}

/// Looks for the first offset from which on the headers of so many codewords fit.
pub(super) fn codewords(buffer: &LineBuffer, codewords: usize) -> Hunt {
    let window = codewords * CODEWORD_BITS;
    let offsets = (buffer.len() + 1).saturating_sub(window);
    let mut passed = 0;
    while passed < offsets {
        let left = offsets - passed;
        let fits = headers_fit(buffer, passed, codewords, first_offsets(left));
        if fits != 0 {
            passed += fits.trailing_zeros() as usize;
            return Hunt {
                passed,
                is_found: true,
            };
        }
        passed += left.min(64);
    }
    Hunt {
        passed,
        is_found: false,
    }
}

/// Which of the offsets from `at` on in `fits` have codewords behind them. Each header halves what
/// is left, those of parity quarter it, so they come first.
fn headers_fit(buffer: &LineBuffer, at: usize, codewords: usize, mut fits: u64) -> u64 {
    let parity = (DATA_BLOCKS..BLOCKS).zip(PARITY_HEADERS.map(Some));
    let order = parity.chain((0..DATA_BLOCKS).map(|block| (block, None)));
    for (block, header) in order {
        for codeword in 0..codewords {
            let at = at + codeword * CODEWORD_BITS + block * BLOCK_BITS;
            let (first, second) = (buffer.word(at), buffer.word(at + 1));
            fits &= match header {
                Some(header) => {
                    let wanted = |bit: u8| 0_u64.wrapping_sub(u64::from(bit & 1));
                    !(first ^ wanted(header)) & !(second ^ wanted(header >> 1))
                }
                None => first ^ second,
            };
            if fits == 0 {
                return 0;
            }
        }
    }
    fits
}

/// Looks for the first offset at which 66 bits differ from the delimiter in at most `errors` bits.
/// Sync patterns before it are watched, and those without a delimiter counted in `missed`.
pub(super) fn delimiter(
    simd: Simd,
    buffer: &LineBuffer,
    errors: u32,
    watch: &mut SyncWatch,
    missed: &mut u64,
) -> Hunt {
    let offsets = (buffer.len() + 1).saturating_sub(BLOCK_BITS);
    let mut passed = 0;
    while passed < offsets {
        let count = (offsets - passed).min(64);
        let (low, high) = (buffer.word(passed + 2), buffer.word(passed + 66));
        let headers = (buffer.word(passed), buffer.word(passed + 1));
        let near = |block: Block| {
            let payload = distances(simd, low, high, block.payload);
            let mut near = 0_u64;
            if payload
                .iter()
                .any(|&distance| u32::from(distance) <= errors)
            {
                for (offset, &distance) in payload[..count].iter().enumerate() {
                    let header = (headers.0 >> offset & 1) | (headers.1 >> offset & 1) << 1;
                    let in_header = (header ^ u64::from(block.header)).count_ones();
                    let is_near = u32::from(distance) + in_header <= errors;
                    near |= u64::from(is_near) << offset;
                }
            }
            near
        };
        let (found, sync) = (near(DELIMITER), near(SYNC_PATTERN));
        let before = count.min(found.trailing_zeros() as usize);
        if sync != 0 || !watch.is_idle() {
            for offset in 0..before {
                *missed += u64::from(watch.step(sync >> offset & 1 == 1));
            }
        }
        passed += before;
        if found != 0 {
            return Hunt {
                passed,
                is_found: true,
            };
        }
    }
    Hunt {
        passed,
        is_found: false,
    }
}
