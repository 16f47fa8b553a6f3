// SPDX-License-Identifier: Apache-2.0
//! CRC-32 by folding with carry-less multiplication (PCLMULQDQ).
//!
//! A register of 128 bits is moved on by 128 bits with two products by constants x^n mod P, in the
//! bit-reversed form of the check sequence. Four registers run side by side over 64 bytes a step,
//! are folded into one, which is reduced by Barrett's method.

#![allow(
    unsafe_code,
    reason = "vector loads and calls behind a run-time feature check"
)]

use super::fcs_table;
use crate::simd::{Level, Simd};

/// Goes on with a register over octets.
pub(super) fn update(simd: Simd, crc: u32, octets: &[u8]) -> u32 {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if simd.level() >= Level::Avx2 && octets.len() >= 32 {
        // SAFETY: a `Simd` of this level exists only where the processor has PCLMULQDQ.
        return unsafe { imp::fold(crc, octets) };
    }
    let _ = (simd, Level::Scalar);
    fcs_table::update(crc, octets)
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use core::arch::x86_64::*;

    /// x^(4·128+32), x^(4·128-32), x^(128+32) and x^(128-32) mod P, bit-reversed and shifted.
    const BY_FOUR: (i64, i64) = (0x1_5444_2bd4, 0x1_c6e4_1596);
    const BY_ONE: (i64, i64) = (0x1_7519_97d0, 0x0_ccaa_009e);
    /// x^64 mod P, P, and x^64 / P, bit-reversed.
    const BY_32_BITS: i64 = 0x1_63cd_6124;
    const P_AND_QUOTIENT: (i64, i64) = (0x1_db71_0641, 0x1_f701_1641);
    /// A window of 16 bytes at 16 + n of this shifts a register by n bytes, as index operand of a
    /// byte shuffle: to higher places for negative n.
    const SHIFTS: [u8; 48] = {
        let mut table = [0x80; 48];
        let mut i = 0;
        while i < 16 {
            table[16 + i] = i as u8;
            i += 1;
        }
        table
    };

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

    #[inline]
    #[target_feature(enable = "sse2,ssse3")]
    fn shifted(register: __m128i, by: &[u8]) -> __m128i {
        let by = by.first_chunk().expect("a window of 16 bytes");
        _mm_shuffle_epi8(register, load(by))
    }

    /// The register of 32 bits that one of 128 stands for.
    #[inline]
    #[target_feature(enable = "sse4.1,pclmulqdq")]
    fn reduced(register: __m128i) -> u32 {
        let low = _mm_set_epi32(0, 0, 0, -1);
        let by_one = _mm_set_epi64x(BY_ONE.1, BY_ONE.0);
        let by_32 = _mm_set_epi64x(0, BY_32_BITS);
        let barrett = _mm_set_epi64x(P_AND_QUOTIENT.1, P_AND_QUOTIENT.0);
        let product = _mm_clmulepi64_si128::<0x10>(register, by_one);
        let sum = _mm_xor_si128(_mm_srli_si128::<8>(register), product);
        let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(sum, low), by_32);
        let sum = _mm_xor_si128(_mm_srli_si128::<4>(sum), product);
        let quotient = _mm_clmulepi64_si128::<0x10>(_mm_and_si128(sum, low), barrett);
        let product = _mm_clmulepi64_si128::<0x00>(_mm_and_si128(quotient, low), barrett);
        _mm_extract_epi32::<1>(_mm_xor_si128(sum, product)).cast_unsigned()
    }

    /// Needs 32 octets. Zeros in front leave a register of zero as it is: the octets are taken to
    /// be preceded by as many as make whole blocks of 16, and the first register is added to the
    /// first four octets, wherever they are.
    #[target_feature(enable = "sse4.1,pclmulqdq")]
    pub(super) fn fold(crc: u32, octets: &[u8]) -> u32 {
        let odd = octets.len() % 16;
        let (blocks, _) = octets[odd..].as_chunks::<16>();
        let first = _mm_cvtsi32_si128(crc.cast_signed());
        let front = octets.first_chunk().expect("32 octets");
        let front = _mm_xor_si128(load(front), first);
        let by_one = _mm_set_epi64x(BY_ONE.1, BY_ONE.0);
        let front = shifted(front, &SHIFTS[odd..]);
        let second = _mm_xor_si128(load(&blocks[0]), shifted(first, &SHIFTS[16 + odd..]));
        let mut register = folded(front, by_one, second);
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
        reduced(register)
    }
}
