// SPDX-License-Identifier: Apache-2.0
//! The codec with AVX-512 and GFNI. The shape is that of `rs_avx2.rs`, lanes are rows; a product
//! of 32 lanes by a constant is one instruction, a product by a bit matrix.
//!
//! Batches below `LANES_FROM` rows go through `rs_avx2.rs`, which does row by row what is few.

#![allow(
    unsafe_code,
    reason = "calls behind a run-time feature check; memory that is not cleared"
)]

use core::arch::x86_64::*;

use super::correct_gfni_simd::{correct_lanes, times};
use super::factors_avx2::store;
use super::lanes_avx2::{Unset, columns, hand_out};
use super::rs_avx2::{self, parity_of};
use super::tables::SPLIT;
use super::tables_gfni::{PARITY_PRODUCTS, SEVENTEENTH, product};
use super::{Code, Correction, LANES, PARITY, ROW, Row};
use crate::gf256::mul_const;
use crate::simd::{Level, Simd};

/// From this many rows on, work over 32 lanes is faster than row by row.
const LANES_FROM: usize = 6;

pub(super) fn encode_rows(simd: Simd, rows: &mut [Row]) {
    assert!(simd.level() >= Level::Avx512);
    for rows in rows.chunks_mut(LANES) {
        if rows.len() < LANES_FROM {
            rs_avx2::encode_rows(simd, rows);
        } else {
            // SAFETY: a `Simd` of this level exists only where the processor has AVX-512 and GFNI.
            unsafe { encode_lanes(rows) }
        }
    }
}

pub(super) fn decode_rows(simd: Simd, code: Code, rows: &mut [Row], verdicts: &mut [Correction]) {
    assert!(simd.level() >= Level::Avx512);
    if rows.len() < LANES_FROM {
        return rs_avx2::decode_rows(simd, code, rows, verdicts);
    }
    // SAFETY: as above.
    unsafe { decode_lanes(code, rows, verdicts) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn add(a: __m256i, b: __m256i) -> __m256i {
    _mm256_xor_si256(a, b)
}

/// Parity from the syndromes of rows without parity: a product by a constant matrix.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn encode_lanes(rows: &mut [Row]) {
    for row in rows.iter_mut() {
        parity_of(row).fill(0);
    }
    let syndromes = transform(rows);
    let mut parity = [_mm256_setzero_si256(); PARITY];
    let groups = PARITY_PRODUCTS.as_chunks::<4>().0;
    for (parity, weights) in parity.as_chunks_mut::<4>().0.iter_mut().zip(groups) {
        for (k, &syndrome) in syndromes.iter().enumerate() {
            for (sum, weights) in parity.iter_mut().zip(weights) {
                *sum = add(*sum, times(weights[k], syndrome));
            }
        }
    }
    hand_out(&parity, |lane, parity| {
        if let Some(row) = rows.get_mut(lane) {
            store(parity_of(row), parity);
        }
    });
}

#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
fn decode_lanes(code: Code, rows: &mut [Row], verdicts: &mut [Correction]) {
    let syndromes = transform(rows);
    let zero = _mm256_setzero_si256();
    let any = syndromes
        .iter()
        .fold(zero, |any, &syndrome| _mm256_or_si256(any, syndrome));
    let wrong = _mm256_test_epi8_mask(any, any) & (u32::MAX >> (LANES - rows.len()));
    verdicts[..rows.len()].fill(Correction::Clean);
    if wrong != 0 {
        correct_lanes(code, rows, verdicts, wrong, &syndromes);
    }
}

/// Transform of length 3, as in `rs_avx2.rs`.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn transform_3(x: [__m256i; 3]) -> [__m256i; 3] {
    const THIRD: u64 = product(power_of_alpha(85));
    let sum = add(x[1], x[2]);
    let turned = times(THIRD, sum);
    [
        add(x[0], sum),
        add(add(x[0], x[2]), turned),
        add(add(x[0], x[1]), turned),
    ]
}

/// Transform of length 5, as in `rs_avx2.rs`.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn transform_5(x: [__m256i; 5]) -> [__m256i; 5] {
    const GOLDEN: u64 = product(power_of_alpha(51) ^ power_of_alpha(204));
    const W1: u64 = product(power_of_alpha(51));
    const W3: u64 = product(power_of_alpha(153));
    const W4: u64 = product(power_of_alpha(204));
    let (s1, s2) = (add(x[1], x[4]), add(x[2], x[3]));
    let (both, half) = (add(s1, s2), add(x[1], x[2]));
    let golden_both = times(GOLDEN, both);
    let golden_half = add(times(GOLDEN, half), x[0]);
    let y1 = add(add(golden_half, x[2]), add(times(W4, s1), times(W3, s2)));
    let y2 = add(add(golden_half, x[1]), add(times(W3, s1), times(W1, s2)));
    [
        add(x[0], both),
        y1,
        y2,
        add(y2, add(golden_both, s1)),
        add(y1, add(golden_both, s2)),
    ]
}

const fn power_of_alpha(exponent: usize) -> u8 {
    let mut value = 1;
    let mut i = 0;
    while i < exponent {
        value = mul_const(value, 2);
        i += 1;
    }
    value
}

/// Syndrome j of up to 32 rows in vector j.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn transform(rows: &[Row]) -> [__m256i; PARITY] {
    let mut memory = Unset::<ROW>::new();
    let bytes = columns(rows, &mut memory);
    // By output of the first two transforms (j mod 3, j mod 5), then by c.
    let mut memory = Unset::<{ 3 * 5 * 17 }>::new();
    let partial = memory.places();
    for (c, by_b) in SPLIT.iter().enumerate() {
        let mut by_a = [[_mm256_setzero_si256(); 5]; 3];
        for (b, places) in by_b.iter().enumerate() {
            let x = places.map(|byte| bytes[usize::from(byte)]);
            for (a, y) in transform_3(x).into_iter().enumerate() {
                by_a[a][b] = y;
            }
        }
        for (a, x) in by_a.into_iter().enumerate() {
            for (b, y) in transform_5(x).into_iter().enumerate() {
                partial[(a * 5 + b) * 17 + c].write(y);
            }
        }
    }
    // SAFETY: a, b and c have gone through all of their values, 3, 5 and 17.
    let partial = unsafe { memory.vectors() }.as_chunks::<17>().0;
    let mut sums = [_mm256_setzero_si256(); PARITY];
    for first in 0..15 {
        let x = &partial[first % 3 * 5 + first % 5];
        let (mut one, mut two) = (x[0], x[0]);
        for c in 1..17 {
            one = add(one, times(SEVENTEENTH[first][c - 1], x[c]));
            two = add(two, times(SEVENTEENTH[first + 15][c - 1], x[c]));
        }
        (sums[first], sums[first + 15]) = (one, two);
        if first + 30 < PARITY {
            sums[first + 30] = (1..17).fold(x[0], |sum, c| {
                add(sum, times(SEVENTEENTH[first + 30][c - 1], x[c]))
            });
        }
    }
    sums
}
