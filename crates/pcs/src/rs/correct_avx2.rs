// SPDX-License-Identifier: Apache-2.0
//! Correction of rows with AVX2, from their syndromes: locators of all of them (`locator_avx2.rs`),
//! then positions and values row by row, in closed form for one and two errors.
//!
//! Rows are taken by number of errors, so that one makes the same turns as the one before. Sums of
//! products of two variables are carry-less products (`products_simd.rs`).

use core::arch::x86_64::*;

use super::factors_avx2::{constants, factor, store, times};
use super::locator_avx2::{Locators, locators};
use super::products_simd::{Evaluator, evaluator};
use super::tables::{CHIEN, QUADRATIC};
use super::{Code, Correction, ERRORS_MAX, LANES, PARITY, ROW, Row, Syndromes, apply};
use crate::gf256::{EXP, INVERSE_LOG, LOG, ORDER, inverse, mul};

/// Vectors of a row.
const GROUPS: usize = ROW / PARITY;

/// A value for each byte of a row.
#[repr(align(32))]
struct Values([u8; ROW]);

/// Corrects the rows whose bit is set, which must be those with non-zero syndromes.
#[target_feature(enable = "avx2,pclmulqdq,popcnt")]
pub(super) fn correct_rows(
    code: Code,
    rows: &mut [Row],
    verdicts: &mut [Correction],
    wrong: u32,
    syndromes: &[Syndromes; LANES],
) {
    let locators = locators(wrong, syndromes);
    // Rows by degree; none has degree zero, and all above 16 are alike.
    let mut by_degree = [0_u32; ERRORS_MAX + 2];
    let mut left = wrong;
    while left != 0 {
        let lane = left.trailing_zeros() as usize;
        left &= left - 1;
        by_degree[locators.degree(lane).min(ERRORS_MAX + 1)] |= 1 << lane;
    }
    for (degree, mut lanes) in by_degree.into_iter().enumerate() {
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let (row, syndromes) = (&mut rows[lane], &syndromes[lane]);
            verdicts[lane] = correct(code, row, syndromes, &locators, (lane, degree));
        }
    }
}

#[inline]
#[target_feature(enable = "avx2,pclmulqdq,popcnt")]
fn correct(
    code: Code,
    row: &mut Row,
    syndromes: &Syndromes,
    locators: &Locators,
    (lane, degree): (usize, usize),
) -> Correction {
    let coefficients = locators.coefficients(lane);
    let verdict = match degree {
        1 => single(syndromes, coefficients[1]).map(|error| apply(code, row, &[error])),
        2 => double(syndromes, coefficients[1], coefficients[2])
            .map(|errors| apply(code, row, &errors)),
        3..=ERRORS_MAX => several(code, row, syndromes, coefficients, degree),
        _ => None,
    };
    verdict.unwrap_or(Correction::Uncorrectable)
}

/// Byte of a row that stands for this power of Z, given as an element other than zero.
#[inline]
fn byte_at(location: u8) -> u8 {
    (ORDER - usize::from(LOG[usize::from(location)])) as u8
}

/// The one error, as its byte and the value to add.
#[inline]
fn single(syndromes: &Syndromes, location: u8) -> Option<(u8, u8)> {
    (location != 0).then(|| (byte_at(location), syndromes.values()[0]))
}

/// Two errors from sum and product of their locations: with y the root of y^2 + y = product/sum^2
/// the locations are y·sum and (y+1)·sum.
#[inline]
fn double(syndromes: &Syndromes, sum: u8, product: u8) -> Option<[(u8, u8); 2]> {
    let by_sum = inverse(sum);
    let root = QUADRATIC[usize::from(mul(product, mul(by_sum, by_sum)))];
    if sum == 0 || root == 0 {
        return None;
    }
    let one = mul(root, sum);
    let two = one ^ sum;
    let [first, second, ..] = *syndromes.values();
    let value = mul(second ^ mul(first, two), by_sum);
    Some([(byte_at(one), value), (byte_at(two), first ^ value)])
}

/// Corrects a row by a locator of this degree, if it has as many roots and all errors lie in what
/// was sent.
#[inline]
#[target_feature(enable = "avx2,pclmulqdq,popcnt")]
fn several(
    code: Code,
    row: &mut Row,
    syndromes: &Syndromes,
    locator: &[u8; ERRORS_MAX + 1],
    degree: usize,
) -> Option<Correction> {
    let odd = half_at_all(locator, degree, 1);
    let even = half_at_all(locator, degree, 2);
    let mut slopes = Values([0; ROW]);
    let mut roots = [0_u32; GROUPS];
    let places = slopes.0.as_chunks_mut::<PARITY>().0;
    for (group, place) in places.iter_mut().enumerate() {
        // At a root both halves are the same.
        let is_root = _mm256_cmpeq_epi8(even[group], odd[group]);
        roots[group] = _mm256_movemask_epi8(is_root) as u32;
        store(place, odd[group]);
    }
    // Byte 0 is no part of a row, and looks like byte 255.
    roots[0] &= !1;
    let count: u32 = roots.iter().map(|bits| bits.count_ones()).sum();
    if count as usize != degree {
        return None;
    }
    let evaluator: Evaluator = evaluator(syndromes, locator, degree);
    // The row is corrected while errors are found, and put back if one is outside.
    let mut errors = [(0, 0); ERRORS_MAX];
    let (mut found, mut ones, mut all, mut is_outside) = (0, 0, 0, false);
    for (group, mut bits) in roots.into_iter().enumerate() {
        while bits != 0 {
            let byte = group * PARITY + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // Forney: evaluator over x times derivative. That is the odd part of the locator, and
            // its x the power that a code whose first root is alpha^0 asks for.
            let top = LOG[usize::from(evaluator.at(byte))];
            let rest = INVERSE_LOG[usize::from(slopes.0[byte])];
            let value = EXP[usize::from(top + rest)];
            is_outside |= code.is_outside(byte as u8, value);
            let received = &mut row.0[byte];
            ones += (*received & value).count_ones();
            all += value.count_ones();
            *received ^= value;
            errors[found % ERRORS_MAX] = (byte as u8, value);
            found += 1;
        }
    }
    if is_outside {
        for (byte, value) in &errors[..degree] {
            row.0[usize::from(*byte)] ^= value;
        }
        return None;
    }
    Some(Correction::Corrected {
        symbols: degree as u8,
        ones: ones as u8,
        zeros: (all - ones) as u8,
    })
}

/// The odd (`first` is 1) or even (2) part of a locator, at the inverses of the locations of all
/// bytes of a row.
#[inline]
#[target_feature(enable = "avx2")]
fn half_at_all(locator: &[u8; ERRORS_MAX + 1], degree: usize, first: usize) -> [__m256i; GROUPS] {
    let constant = if first == 1 { 0 } else { 1 };
    let mut sums = [_mm256_set1_epi8(constant); GROUPS];
    let mut k = first;
    while k <= degree.min(ERRORS_MAX) {
        let coefficient = factor(locator[k]);
        for (sum, powers) in sums.iter_mut().zip(&CHIEN[k - 1]) {
            *sum = _mm256_xor_si256(*sum, times(coefficient, constants(powers)));
        }
        k += 2;
    }
    sums
}
