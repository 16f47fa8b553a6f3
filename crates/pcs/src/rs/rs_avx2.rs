// SPDX-License-Identifier: Apache-2.0
//! The codec with AVX2. A product of a vector by one element is two byte shuffles and an addition
//! (`gf256::MUL`).
//!
//! Two shapes occur. In `weighted_sum` the vector is constant and the element varies: a sum over
//! the bytes of a row, each times its vector. In `transform_avx2.rs` the element is constant and
//! the vector holds the same byte of 32 rows.

#![allow(
    unsafe_code,
    reason = "vector loads and calls behind a run-time feature check"
)]

use core::arch::x86_64::*;

use super::correct_avx2::correct_rows;
use super::lanes_avx2::hand_out;
use super::tables::{Nibbles, PARITY_MATRIX, REMAINDER, SYNDROME};
use super::transform_avx2::transform;
use super::{Code, Correction, LANES, PARITY, ROW, Row, Syndromes};
use crate::gf256::MUL;
use crate::simd::{Level, Simd};

/// From this many rows on, the transform over 32 lanes is faster than row by row.
const TRANSFORM_FROM: usize = 12;

pub(super) fn encode_rows(simd: Simd, rows: &mut [Row]) {
    assert!(simd.level() >= Level::Avx2);
    // SAFETY: a `Simd` of this level exists only where the processor has AVX2, PCLMULQDQ and
    // POPCNT.
    unsafe { encode_all(rows) }
}

pub(super) fn decode_rows(simd: Simd, code: Code, rows: &mut [Row], verdicts: &mut [Correction]) {
    assert!(simd.level() >= Level::Avx2);
    // SAFETY: as above.
    unsafe { decode_all(code, rows, verdicts) }
}

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
    low: __m256i,
    high: __m256i,
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

/// Sum of constant vectors, each times one byte of the row, for two rows at a time, so that the
/// constants are loaded once. `table[i]` belongs to byte `first + i`.
#[inline]
#[target_feature(enable = "avx2")]
fn weighted_sum_of_two(table: &[Nibbles], rows: [&[u8]; 2]) -> [__m256i; 2] {
    let mut sums = [_mm256_setzero_si256(); 4];
    for ((constant, &one), &two) in table.iter().zip(rows[0]).zip(rows[1]) {
        let vector = constants(constant);
        let (one, two) = (factor(one), factor(two));
        sums[0] = _mm256_xor_si256(sums[0], _mm256_shuffle_epi8(one.low, vector.low));
        sums[1] = _mm256_xor_si256(sums[1], _mm256_shuffle_epi8(one.high, vector.high));
        sums[2] = _mm256_xor_si256(sums[2], _mm256_shuffle_epi8(two.low, vector.low));
        sums[3] = _mm256_xor_si256(sums[3], _mm256_shuffle_epi8(two.high, vector.high));
    }
    [
        _mm256_xor_si256(sums[0], sums[1]),
        _mm256_xor_si256(sums[2], sums[3]),
    ]
}

#[inline]
#[target_feature(enable = "avx2")]
fn weighted_sum(table: &[Nibbles], row: &[u8]) -> __m256i {
    let mut sums = [_mm256_setzero_si256(); 2];
    for (constant, &byte) in table.iter().zip(row) {
        let (vector, byte) = (constants(constant), factor(byte));
        sums[0] = _mm256_xor_si256(sums[0], _mm256_shuffle_epi8(byte.low, vector.low));
        sums[1] = _mm256_xor_si256(sums[1], _mm256_shuffle_epi8(byte.high, vector.high));
    }
    _mm256_xor_si256(sums[0], sums[1])
}

#[inline]
pub(super) fn parity_of(row: &mut Row) -> &mut [u8; PARITY] {
    (&mut row.0[ROW - PARITY..])
        .try_into()
        .expect("32 parity bytes")
}

#[target_feature(enable = "avx2")]
fn encode_all(rows: &mut [Row]) {
    for rows in rows.chunks_mut(LANES) {
        if rows.len() >= TRANSFORM_FROM {
            encode_lanes(rows);
        } else {
            encode_few(rows);
        }
    }
}

/// Parity of up to 32 rows from the syndromes that they have without it: a product by a constant
/// matrix.
#[target_feature(enable = "avx2")]
fn encode_lanes(rows: &mut [Row]) {
    for row in rows.iter_mut() {
        parity_of(row).fill(0);
    }
    let syndromes = transform(rows);
    let zero = _mm256_setzero_si256();
    let mut parts = [Split {
        low: zero,
        high: zero,
    }; PARITY];
    for (part, syndrome) in parts.iter_mut().zip(syndromes) {
        *part = split(syndrome);
    }
    let mut parity = [zero; PARITY];
    for (pair, weights) in parity
        .chunks_exact_mut(2)
        .zip(PARITY_MATRIX.chunks_exact(2))
    {
        let mut sums = [zero; 2];
        for (k, &part) in parts.iter().enumerate() {
            sums[0] = _mm256_xor_si256(sums[0], times(factor(weights[0][k]), part));
            sums[1] = _mm256_xor_si256(sums[1], times(factor(weights[1][k]), part));
        }
        pair.copy_from_slice(&sums);
    }
    hand_out(&parity, |lane, parity| {
        if let Some(row) = rows.get_mut(lane) {
            store(parity_of(row), parity);
        }
    });
}

#[target_feature(enable = "avx2")]
fn encode_few(rows: &mut [Row]) {
    const DATA: core::ops::Range<usize> = 1..ROW - PARITY;
    let mut pairs = rows.chunks_exact_mut(2);
    for pair in &mut pairs {
        let data = [&pair[0].0[DATA], &pair[1].0[DATA]];
        let [one, two] = weighted_sum_of_two(&REMAINDER[DATA], data);
        store(parity_of(&mut pair[0]), one);
        store(parity_of(&mut pair[1]), two);
    }
    for row in pairs.into_remainder() {
        let parity = weighted_sum(&REMAINDER[DATA], &row.0[DATA]);
        store(parity_of(row), parity);
    }
}

#[target_feature(enable = "avx2,pclmulqdq,popcnt")]
fn decode_all(code: Code, rows: &mut [Row], verdicts: &mut [Correction]) {
    verdicts[..rows.len()].fill(Correction::Clean);
    if rows.len() < TRANSFORM_FROM {
        let mut syndromes = [Syndromes::ZERO; LANES];
        let wrong = one_by_one(rows, &mut syndromes);
        if wrong != 0 {
            correct_rows(code, rows, verdicts, wrong, &syndromes);
        }
        return;
    }
    let sums = transform(rows);
    let wrong = lanes_not_zero(&sums) & (u32::MAX >> (LANES - rows.len()));
    if wrong != 0 {
        let mut syndromes = [Syndromes::ZERO; LANES];
        hand_out(&sums, |lane, values| {
            store(syndromes[lane].values_mut(), values);
        });
        correct_rows(code, rows, verdicts, wrong, &syndromes);
    }
}

/// A bit for each lane that is not zero in all vectors.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes_not_zero(vectors: &[__m256i; PARITY]) -> u32 {
    let zero = _mm256_setzero_si256();
    let any = vectors
        .iter()
        .fold(zero, |any, &vector| _mm256_or_si256(any, vector));
    !_mm256_movemask_epi8(_mm256_cmpeq_epi8(any, zero)) as u32
}

/// Syndromes of each row by itself; a bit per row that is not clean.
#[target_feature(enable = "avx2")]
fn one_by_one(rows: &[Row], syndromes: &mut [Syndromes; LANES]) -> u32 {
    let mut wrong = 0;
    let note = |lane: usize, sum: __m256i, syndromes: &mut [Syndromes; LANES]| {
        if _mm256_testz_si256(sum, sum) == 0 {
            store(syndromes[lane].values_mut(), sum);
            return 1 << lane;
        }
        0
    };
    let mut lane = 0;
    while lane + 1 < rows.len() {
        let pair = [&rows[lane].0[1..], &rows[lane + 1].0[1..]];
        let [one, two] = weighted_sum_of_two(&SYNDROME[1..], pair);
        wrong |= note(lane, one, syndromes);
        wrong |= note(lane + 1, two, syndromes);
        lane += 2;
    }
    if lane < rows.len() {
        let sum = weighted_sum(&SYNDROME[1..], &rows[lane].0[1..]);
        wrong |= note(lane, sum, syndromes);
    }
    wrong
}
