// SPDX-License-Identifier: Apache-2.0
//! Loads and stores, and products of a vector by one element with AVX2: two byte shuffles and an
//! addition (`gf256::MUL`).

#![allow(unsafe_code, reason = "vector loads and stores")]

use core::arch::x86_64::*;

use super::PARITY;
use super::tables::Nibbles;
use crate::gf256::MUL;

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load(bytes: &[u8; 32]) -> __m256i {
    // SAFETY: 32 readable bytes; an unaligned load has no other demand.
    unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store(bytes: &mut [u8; 32], value: __m256i) {
    // SAFETY: 32 writable bytes; an unaligned store has no other demand.
    unsafe { _mm256_storeu_si256(bytes.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load_half(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 readable bytes; an unaligned load has no other demand.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn store_half(bytes: &mut [u8; 16], value: __m128i) {
    // SAFETY: 16 writable bytes; an unaligned store has no other demand.
    unsafe { _mm_storeu_si128(bytes.as_mut_ptr().cast(), value) }
}

/// 16 bytes of a row or buffer from `at`.
#[inline]
pub(super) fn sixteen(bytes: &[u8], at: usize) -> &[u8; 16] {
    bytes[at..at + 16].try_into().expect("16 bytes")
}

/// 32 bytes of a row or buffer from `at`.
#[inline]
fn thirty_two(bytes: &[u8], at: usize) -> &[u8; 32] {
    bytes[at..at + 32].try_into().expect("32 bytes")
}

/// A vector in halves of four bits, as index operands of shuffles.
#[derive(Clone, Copy)]
pub(super) struct Split {
    pub(super) low: __m256i,
    pub(super) high: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn split(vector: __m256i) -> Split {
    let mask = _mm256_set1_epi8(15);
    Split {
        low: _mm256_and_si256(vector, mask),
        high: _mm256_and_si256(_mm256_srli_epi16::<4>(vector), mask),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn constants(nibbles: &Nibbles) -> Split {
    Split {
        low: load(thirty_two(&nibbles.0, 0)),
        high: load(thirty_two(&nibbles.0, PARITY)),
    }
}

/// An element, as the two tables of its products.
#[derive(Clone, Copy)]
pub(super) struct Factor {
    pub(super) low: __m256i,
    pub(super) high: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn factor(element: u8) -> Factor {
    factor_of(&MUL.0[usize::from(element)])
}

/// A factor from its row of `gf256::MUL`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn factor_of(row: &[u8; 32]) -> Factor {
    Factor {
        low: _mm256_broadcastsi128_si256(load_half(sixteen(row, 0))),
        high: _mm256_broadcastsi128_si256(load_half(sixteen(row, 16))),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn times(factor: Factor, vector: Split) -> __m256i {
    _mm256_xor_si256(
        _mm256_shuffle_epi8(factor.low, vector.low),
        _mm256_shuffle_epi8(factor.high, vector.high),
    )
}
