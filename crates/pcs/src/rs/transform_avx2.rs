// SPDX-License-Identifier: Apache-2.0
//! Syndromes of 32 rows at once with AVX2: a transform of length 255 split as 3 x 5 x 17 whose
//! lanes are rows, some 870 products in place of 8064.

#![allow(
    unsafe_code,
    reason = "memory that is not cleared before it is written"
)]

use core::arch::x86_64::*;

use super::factors_avx2::{Factor, factor, factor_of, split, times};
use super::lanes_avx2::{Unset, columns};
use super::tables::{LAST_SEVENTEENTHS, SEVENTEENTHS, SPLIT};
use super::{PARITY, ROW, Row};
use crate::gf256::EXP;

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

/// Syndrome j of up to 32 rows in vector j.
#[target_feature(enable = "avx2")]
pub(super) fn transform(rows: &[Row]) -> [__m256i; PARITY] {
    let mut memory = Unset::<ROW>::new();
    let bytes = columns(rows, &mut memory);
    let third = factor(EXP[85]);
    let fifth = FifthFactors {
        golden: factor(EXP[51] ^ EXP[204]),
        w1: factor(EXP[51]),
        w3: factor(EXP[153]),
        w4: factor(EXP[204]),
    };
    // By output of the first two transforms (j mod 3, j mod 5), then by c.
    let mut memory = Unset::<{ 3 * 5 * 17 }>::new();
    let partial = memory.places();
    for (c, by_b) in SPLIT.iter().enumerate() {
        let mut by_a = [[_mm256_setzero_si256(); 5]; 3];
        for (b, places) in by_b.iter().enumerate() {
            let x = places.map(|byte| bytes[usize::from(byte)]);
            for (a, y) in transform_3(x, third).into_iter().enumerate() {
                by_a[a][b] = y;
            }
        }
        for (a, x) in by_a.into_iter().enumerate() {
            for (b, y) in transform_5(x, &fifth).into_iter().enumerate() {
                partial[(a * 5 + b) * 17 + c].write(y);
            }
        }
    }
    // SAFETY: a, b and c have gone through all of their values, 3, 5 and 17.
    let partial = unsafe { memory.vectors() }.as_chunks::<17>().0;
    let mut sums = [_mm256_setzero_si256(); PARITY];
    for (first, roots) in SEVENTEENTHS.iter().enumerate() {
        let x = &partial[first % 3 * 5 + first % 5];
        let (mut one, mut two) = (x[0], x[0]);
        for (vector, [of_one, of_two]) in x[1..].iter().zip(roots) {
            let vector = split(*vector);
            one = _mm256_xor_si256(one, times(factor_of(of_one), vector));
            two = _mm256_xor_si256(two, times(factor_of(of_two), vector));
        }
        (sums[first], sums[first + 15]) = (one, two);
    }
    for (last, roots) in LAST_SEVENTEENTHS.iter().enumerate() {
        let x = &partial[last % 3 * 5 + last % 5];
        sums[last + 30] = x[1..].iter().zip(roots).fold(x[0], |sum, (vector, root)| {
            _mm256_xor_si256(sum, times(factor_of(root), split(*vector)))
        });
    }
    sums
}
