// SPDX-License-Identifier: Apache-2.0
//! Correction of rows with AVX2, from their syndromes: locators of all of them (`locator_avx2.rs`),
//! then positions and values row by row, in closed form for one and two errors.
//!
//! Rows are taken by number of errors, so that one makes the same turns as the one before.

use core::arch::x86_64::*;

use super::locator_avx2::{Locators, locators};
use super::rs_avx2::{constants, factor, load_half, sixteen, store, store_half, times};
use super::tables::{CHIEN, Nibbles, QUADRATIC};
use super::{Code, Correction, ERRORS_MAX, LANES, PARITY, ROW, Row, Syndromes, apply};
use crate::gf256::{LOG, MUL, ORDER, inverse, mul};

/// Vectors of a row.
const GROUPS: usize = ROW / PARITY;

/// A value for each byte of a row.
#[repr(align(32))]
struct Values([u8; ROW]);

/// Corrects the rows whose bit is set, which must be those with non-zero syndromes.
#[target_feature(enable = "avx2")]
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
    for (degree, lanes) in by_degree.into_iter().enumerate() {
        let mut lanes = lanes;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            verdicts[lane] = correct(
                code,
                &mut rows[lane],
                &syndromes[lane],
                &locators,
                (lane, degree),
            );
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn correct(
    code: Code,
    row: &mut Row,
    syndromes: &Syndromes,
    locators: &Locators,
    (lane, degree): (usize, usize),
) -> Correction {
    let coefficients = locators.coefficients(lane);
    let errors = match degree {
        1 => single(syndromes, coefficients[0]).map(|error| apply(code, row, &[error])),
        2 => double(syndromes, coefficients[0], coefficients[1])
            .map(|errors| apply(code, row, &errors)),
        3..=ERRORS_MAX => several(syndromes, &coefficients[..degree])
            .map(|errors| apply(code, row, &errors[..degree])),
        _ => None,
    };
    errors.unwrap_or(Correction::Uncorrectable)
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

/// Errors from a locator, given by its coefficients from 1 on; none unless it has as many roots.
#[inline]
#[target_feature(enable = "avx2")]
fn several(syndromes: &Syndromes, locator: &[u8]) -> Option<[(u8, u8); ERRORS_MAX]> {
    let terms = || locator.iter().zip(&CHIEN);
    let odd = evaluate(0, terms().step_by(2));
    let even = evaluate(1, terms().skip(1).step_by(2));
    let mut roots = [0_u32; GROUPS];
    for (bits, (even, odd)) in roots.iter_mut().zip(even.iter().zip(&odd)) {
        *bits = _mm256_movemask_epi8(_mm256_cmpeq_epi8(*even, *odd)) as u32;
    }
    // Byte 0 is no part of a row, and looks like byte 255.
    roots[0] &= !1;
    let count: u32 = roots.iter().map(|bits| bits.count_ones()).sum();
    if count as usize != locator.len() {
        return None;
    }
    let evaluator = evaluator(syndromes, locator);
    let terms = evaluator[1..locator.len()].iter().zip(&CHIEN);
    let (top, slope) = (values(&evaluate(evaluator[0], terms)), values(&odd));
    let mut errors = [(0, 0); ERRORS_MAX];
    let mut found = 0;
    for (group, mut bits) in roots.into_iter().enumerate() {
        while bits != 0 {
            let byte = group * PARITY + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            // Forney: evaluator over x times derivative. That is the odd part of the locator, and
            // its x the power that a code whose first root is alpha^0 asks for.
            let value = mul(top.0[byte], inverse(slope.0[byte]));
            errors[found] = (byte as u8, value);
            found += 1;
        }
    }
    Some(errors)
}

/// A polynomial at the inverses of the locations of all bytes of a row, given by its constant term
/// and others, each with the powers that it is multiplied by.
#[inline]
#[target_feature(enable = "avx2")]
fn evaluate<'a>(
    constant: u8,
    terms: impl Iterator<Item = (&'a u8, &'a [Nibbles; GROUPS])>,
) -> [__m256i; GROUPS] {
    let mut sums = [_mm256_set1_epi8(constant.cast_signed()); GROUPS];
    for (coefficient, powers) in terms {
        let coefficient = factor(*coefficient);
        for (sum, powers) in sums.iter_mut().zip(powers) {
            *sum = _mm256_xor_si256(*sum, times(coefficient, constants(powers)));
        }
    }
    sums
}

#[inline]
#[target_feature(enable = "avx2")]
fn values(vectors: &[__m256i; GROUPS]) -> Values {
    let mut out = Values([0; ROW]);
    let places = out.0.as_chunks_mut::<PARITY>().0;
    for (place, vector) in places.iter_mut().zip(vectors) {
        store(place, *vector);
    }
    out
}

/// The error evaluator, the product of syndromes and locator up to the locator's degree.
#[inline]
#[target_feature(enable = "avx2")]
fn evaluator(syndromes: &Syndromes, locator: &[u8]) -> [u8; ERRORS_MAX] {
    let mask = _mm_set1_epi8(15);
    // Zeros stand in front of the syndromes, so that a load further in front is a shift.
    let mut sum = load_half(sixteen(&syndromes.0, ERRORS_MAX));
    for (k, coefficient) in locator[..locator.len() - 1].iter().enumerate() {
        let vector = load_half(sixteen(&syndromes.0, ERRORS_MAX - 1 - k));
        let row = &MUL[usize::from(*coefficient)];
        let low = _mm_and_si128(vector, mask);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(vector), mask);
        sum = _mm_xor_si128(sum, _mm_shuffle_epi8(load_half(sixteen(row, 0)), low));
        sum = _mm_xor_si128(sum, _mm_shuffle_epi8(load_half(sixteen(row, 16)), high));
    }
    let mut out = [0; ERRORS_MAX];
    store_half(&mut out, sum);
    out
}
