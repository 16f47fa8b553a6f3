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
use super::factors_avx2::{Split, constants, factor, split, store, times};
use super::lanes_avx2::hand_out;
use super::tables::{Nibbles, PARITY_MATRIX, REMAINDER, SYNDROME};
use super::transform_avx2::transform;
use super::{Code, Correction, LANES, PARITY, ROW, Row, Syndromes};
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
