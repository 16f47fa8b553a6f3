// SPDX-License-Identifier: Apache-2.0
//! CRC-32 by folding with carry-less multiplication (PCLMULQDQ).
//!
//! A register of 128 bits is moved on by 128 bits with two products by constants x^n mod P, in the
//! bit-reversed form of the check sequence. Four registers run side by side over 64 bytes a step,
//! are folded into one, and its 16 bytes go through the table.

#![allow(
    unsafe_code,
    reason = "vector loads and calls behind a run-time feature check"
)]

use super::fcs;
use crate::simd::{Level, Simd};

/// Goes on with a register over octets.
pub(super) fn update(simd: Simd, crc: u32, octets: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if simd.level() >= Level::Avx2 && octets.len() >= 32 {
        // SAFETY: a `Simd` of this level exists only where the processor has PCLMULQDQ.
        return unsafe { imp::fold(crc, octets) };
    }
    let _ = (simd, Level::Scalar);
    fcs::update(crc, octets)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use core::arch::x86_64::*;

    /// x^(4·128+32), x^(4·128-32), x^(128+32) and x^(128-32) mod P, bit-reversed and shifted.
    const BY_FOUR: (i64, i64) = (0x1_5444_2bd4, 0x1_c6e4_1596);
    const BY_ONE: (i64, i64) = (0x1_7519_97d0, 0x0_ccaa_009e);

    #[inline]
    #[target_feature(enable = "sse2")]
    fn load(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: 16 readable bytes; an unaligned load has no other demand.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }

    #[inline]
    #[target_feature(enable = "sse2,pclmulqdq")]
    fn folded(register: __m128i, by: __m128i, next: __m128i) -> __m128i {
        let low = _mm_clmulepi64_si128::<0x00>(register, by);
        let high = _mm_clmulepi64_si128::<0x11>(register, by);
        _mm_xor_si128(_mm_xor_si128(low, high), next)
    }

    #[target_feature(enable = "sse2,pclmulqdq")]
    pub(super) fn fold(crc: u32, octets: &[u8]) -> u32 {
        let (blocks, rest) = octets.as_chunks::<16>();
        let first = _mm_cvtsi32_si128(crc.cast_signed());
        let by_one = _mm_set_epi64x(BY_ONE.1, BY_ONE.0);
        let mut register = _mm_xor_si128(load(&blocks[0]), first);
        let mut left = &blocks[1..];
        if blocks.len() >= 8 {
            let by_four = _mm_set_epi64x(BY_FOUR.1, BY_FOUR.0);
            let mut lanes = [register, load(&left[0]), load(&left[1]), load(&left[2])];
            let (fours, ones) = left[3..].as_chunks::<4>();
            for four in fours {
                for (lane, block) in lanes.iter_mut().zip(four) {
                    *lane = folded(*lane, by_four, load(block));
                }
            }
            register = lanes[0];
            for lane in &lanes[1..] {
                register = folded(register, by_one, *lane);
            }
            left = ones;
        }
        for block in left {
            register = folded(register, by_one, load(block));
        }
        let mut bytes = [0; 16];
        // SAFETY: 16 writable bytes; an unaligned store has no other demand.
        unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), register) };
        let crc = super::fcs::update(0, &bytes);
        super::fcs::update(crc, rest)
    }
}
