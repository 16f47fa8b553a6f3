// SPDX-License-Identifier: Apache-2.0
//! The codec with AVX2. A product of a vector by one element is two byte shuffles and an addition
//! (`gf256::MUL`).
//!
//! Two shapes occur. In `weighted_sum` the vector is constant and the element varies: a sum over
//! the bytes of a row, each times its vector. In `transform` the element is constant and the vector
//! holds the same byte of 32 rows: a transform of length 255 split as 3 x 5 x 17, some 870 products
//! in place of 8064.

#![allow(
    unsafe_code,
    reason = "vector loads and calls behind a run-time feature check"
)]

use core::arch::x86_64::*;

use super::correct_avx2::correct;
use super::tables::{Nibbles, PARITY_MATRIX, REMAINDER, SPLIT, SYNDROME, TURN};
use super::{Code, Correction, LANES, PARITY, ROW, Row, Syndromes};
use crate::gf256::{EXP, MUL};
use crate::simd::{Level, Simd};

/// From this many rows on, the transform over 32 lanes is faster than row by row.
const TRANSFORM_FROM: usize = 12;

pub(super) fn encode_rows(simd: Simd, rows: &mut [Row]) {
    assert!(simd.level() >= Level::Avx2);
    // SAFETY: a `Simd` of this level exists only where the processor has AVX2.
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
    low: __m256i,
    high: __m256i,
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn factor(element: u8) -> Factor {
    let row = &MUL[usize::from(element)];
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

#[target_feature(enable = "avx2")]
fn decode_all(code: Code, rows: &mut [Row], verdicts: &mut [Correction]) {
    let mut syndromes = [Syndromes::ZERO; LANES];
    let mut wrong = if rows.len() >= TRANSFORM_FROM {
        all_at_once(rows, &mut syndromes)
    } else {
        one_by_one(rows, &mut syndromes)
    };
    verdicts[..rows.len()].fill(Correction::Clean);
    while wrong != 0 {
        let lane = wrong.trailing_zeros() as usize;
        wrong &= wrong - 1;
        verdicts[lane] = correct(code, &mut rows[lane], &syndromes[lane]);
    }
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

/// Transposes 16 x 16 bytes in each half of 16 vectors: four rounds of a perfect shuffle.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn transpose_halves(mut rows: [__m256i; 16]) -> [__m256i; 16] {
    for _ in 0..4 {
        let mut next = rows;
        for i in 0..8 {
            next[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        rows = next;
    }
    rows
}

/// Columns of up to 32 rows: vector m holds byte m of each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn columns(rows: &[Row], out: &mut [__m256i; ROW]) {
    const NONE: Row = Row::ZERO;
    let row = |lane: usize| rows.get(lane).unwrap_or(&NONE);
    for start in (0..ROW).step_by(16) {
        let mut group = [_mm256_setzero_si256(); 16];
        for (lane, vector) in group.iter_mut().enumerate() {
            let low = load_half(sixteen(&row(lane).0, start));
            let high = load_half(sixteen(&row(lane + 16).0, start));
            *vector = _mm256_set_m128i(high, low);
        }
        out[start..start + 16].copy_from_slice(&transpose_halves(group));
    }
}

/// Transform of length 3 over the inputs x0, x1, x2.
#[inline]
#[target_feature(enable = "avx2")]
fn transform_3(x: [__m256i; 3], third: Factor) -> [__m256i; 3] {
    let sum = _mm256_xor_si256(x[1], x[2]);
    let turned = times(third, split(sum));
    [
        _mm256_xor_si256(x[0], sum),
        _mm256_xor_si256(_mm256_xor_si256(x[0], x[2]), turned),
        _mm256_xor_si256(_mm256_xor_si256(x[0], x[1]), turned),
    ]
}

/// What `transform_5` multiplies by.
struct FifthFactors {
    /// w + 1/w, a root of x^2+x+1.
    golden: Factor,
    w1: Factor,
    w3: Factor,
    w4: Factor,
}

/// Transform of length 5. With s1 = x1+x4, s2 = x2+x3 and u = w+1/w (so that u^2 = u+1 is
/// w^2+1/w^2), outputs 1 and 4 differ by u(s1+s2)+s2 and outputs 2 and 3 by u(s1+s2)+s1.
#[inline]
#[target_feature(enable = "avx2")]
fn transform_5(x: [__m256i; 5], f: &FifthFactors) -> [__m256i; 5] {
    let add = |a, b| _mm256_xor_si256(a, b);
    let (s1, s2) = (add(x[1], x[4]), add(x[2], x[3]));
    let (both, half) = (add(s1, s2), add(x[1], x[2]));
    let (split_1, split_2) = (split(s1), split(s2));
    let golden_both = times(f.golden, split(both));
    let golden_half = add(times(f.golden, split(half)), x[0]);
    let y1 = add(
        add(golden_half, x[2]),
        add(times(f.w4, split_1), times(f.w3, split_2)),
    );
    let y2 = add(
        add(golden_half, x[1]),
        add(times(f.w3, split_1), times(f.w1, split_2)),
    );
    [
        add(x[0], both),
        y1,
        y2,
        add(y2, add(golden_both, s1)),
        add(y1, add(golden_both, s2)),
    ]
}

/// Syndromes of up to 32 rows; a bit per row that is not clean.
#[target_feature(enable = "avx2")]
fn all_at_once(rows: &[Row], syndromes: &mut [Syndromes; LANES]) -> u32 {
    let sums = transform(rows);
    let zero = _mm256_setzero_si256();
    let any = sums
        .iter()
        .fold(zero, |any, &sum| _mm256_or_si256(any, sum));
    let clean = _mm256_movemask_epi8(_mm256_cmpeq_epi8(any, zero)) as u32;
    let wrong = !clean & (u32::MAX >> (LANES - rows.len()));
    if wrong != 0 {
        hand_out(&sums, |lane, values| {
            store(syndromes[lane].values_mut(), values);
        });
    }
    wrong
}

/// Syndrome j of up to 32 rows in vector j.
#[target_feature(enable = "avx2")]
fn transform(rows: &[Row]) -> [__m256i; PARITY] {
    let zero = _mm256_setzero_si256();
    let mut bytes = [zero; ROW];
    columns(rows, &mut bytes);
    let third = factor(EXP[85]);
    let fifth = FifthFactors {
        golden: factor(EXP[51] ^ EXP[204]),
        w1: factor(EXP[51]),
        w3: factor(EXP[153]),
        w4: factor(EXP[204]),
    };
    // By output of the first two transforms (j mod 3, j mod 5), then by c.
    let mut partial = [[[zero; 17]; 5]; 3];
    for (c, by_b) in SPLIT.iter().enumerate() {
        let mut by_a = [[zero; 5]; 3];
        for (b, places) in by_b.iter().enumerate() {
            let x = places.map(|byte| bytes[usize::from(byte)]);
            for (a, y) in transform_3(x, third).into_iter().enumerate() {
                by_a[a][b] = y;
            }
        }
        for (a, x) in by_a.into_iter().enumerate() {
            for (b, y) in transform_5(x, &fifth).into_iter().enumerate() {
                partial[a][b][c] = y;
            }
        }
    }
    let mut roots = [third; 17];
    for (k, root) in roots.iter_mut().enumerate() {
        *root = factor(EXP[15 * k]);
    }
    let mut sums = [zero; PARITY];
    for first in 0..15 {
        seventeenth(&partial[first % 3][first % 5], first, &roots, &mut sums);
    }
    sums
}

/// Transform of length 17, of which only outputs `first` and `first + 15` are wanted, and
/// `first + 30` where there is such a syndrome.
#[inline]
#[target_feature(enable = "avx2")]
fn seventeenth(
    x: &[__m256i; 17],
    first: usize,
    roots: &[Factor; 17],
    sums: &mut [__m256i; PARITY],
) {
    let (mut one, mut two) = (x[0], x[0]);
    let root = |j: usize, c: usize| roots[usize::from(TURN[j][c])];
    for (c, &vector) in x.iter().enumerate().skip(1) {
        let vector = split(vector);
        one = _mm256_xor_si256(one, times(root(first, c), vector));
        two = _mm256_xor_si256(two, times(root(first + 15, c), vector));
    }
    (sums[first], sums[first + 15]) = (one, two);
    if first + 30 < PARITY {
        let mut three = x[0];
        for (c, &vector) in x.iter().enumerate().skip(1) {
            three = _mm256_xor_si256(three, times(root(first + 30, c), split(vector)));
        }
        sums[first + 30] = three;
    }
}

/// From lanes back to rows: gives the 32 bytes of each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn hand_out(vectors: &[__m256i; PARITY], mut put: impl FnMut(usize, __m256i)) {
    let half = |from: usize| -> [__m256i; 16] {
        vectors[from..from + 16]
            .try_into()
            .expect("16 of 32 vectors")
    };
    let (front, back) = (transpose_halves(half(0)), transpose_halves(half(16)));
    for (lane, (front, back)) in front.into_iter().zip(back).enumerate() {
        put(lane, _mm256_permute2x128_si256::<0x20>(front, back));
        put(lane + 16, _mm256_permute2x128_si256::<0x31>(front, back));
    }
}
