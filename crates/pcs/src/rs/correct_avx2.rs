// SPDX-License-Identifier: Apache-2.0
//! Correction of one row with AVX2, from its syndromes: locator, positions, values.
//!
//! The locator comes from the reformulated inversionless recursion of Berlekamp and Massey: one
//! vector holds this discrepancy, the coming ones and the locator, and each step is two products of
//! a vector by an element.

use core::arch::x86_64::*;

use super::rs_avx2::{
    constants, factor, load, load_half, sixteen, split, store, store_half, times,
};
use super::tables::{CHIEN, POSITION_LOG};
use super::{Code, Correction, ERRORS_MAX, PARITY, ROW, Row, Syndromes, apply};
use crate::gf256::{EXP, LOG, MUL, ORDER};

/// A polynomial of 64 coefficients, lowest first.
#[derive(Clone, Copy)]
struct Wide {
    low: __m256i,
    high: __m256i,
}

/// Divides by x: each coefficient moves one place down.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_down(p: Wide) -> Wide {
    let zero = _mm256_setzero_si256();
    let middle = _mm256_permute2x128_si256::<0x21>(p.low, p.high);
    let top = _mm256_permute2x128_si256::<0x21>(p.high, zero);
    Wide {
        low: _mm256_alignr_epi8::<1>(middle, p.low),
        high: _mm256_alignr_epi8::<1>(top, p.high),
    }
}

/// The error locator of a row, lowest coefficient first, and its degree; none if no locator of
/// degree up to 16 makes the syndromes.
#[inline]
#[target_feature(enable = "avx2")]
fn locator(syndromes: &Syndromes) -> Option<([u8; ERRORS_MAX + 1], usize)> {
    // Coefficient 48 is where the locator starts; it moves down with each step, and from
    // coefficient 0 on stand the discrepancies of this and the coming steps.
    const START: usize = 3 * ERRORS_MAX;
    let mut one = [0; 32];
    one[START - 32] = 1;
    let zero = _mm256_setzero_si256();
    let mut delta = Wide {
        low: load(syndromes.values()),
        high: load(&one),
    };
    let mut theta = (split(delta.low), split(delta.high));
    let mut gamma = factor(1);
    let mut balance = 0_i32;
    let mut step = 0;
    loop {
        if step == PARITY {
            break;
        }
        let zeros = _mm256_movemask_epi8(_mm256_cmpeq_epi8(delta.low, zero)) as u32;
        if zeros | !(u32::MAX >> step) == u32::MAX {
            break;
        }
        let discrepancy = _mm256_extract_epi8::<0>(delta.low) as u8;
        let shifted = shift_down(delta);
        let parts = (split(shifted.low), split(shifted.high));
        let weight = factor(discrepancy);
        delta = Wide {
            low: _mm256_xor_si256(times(gamma, parts.0), times(weight, theta.0)),
            high: _mm256_xor_si256(times(gamma, parts.1), times(weight, theta.1)),
        };
        if discrepancy != 0 && balance >= 0 {
            theta = parts;
            gamma = weight;
            balance = -balance - 1;
        } else {
            balance += 1;
        }
        step += 1;
    }
    let degree = (step as i32 - balance) / 2;
    let degree = usize::try_from(degree).ok()?;
    if degree == 0 || degree > ERRORS_MAX {
        return None;
    }
    let mut coefficients = [0; 64];
    let (low, high) = coefficients.split_at_mut(32);
    store(low.try_into().expect("32 bytes"), delta.low);
    store(high.try_into().expect("32 bytes"), delta.high);
    let start = START - step;
    let mut locator = [0; ERRORS_MAX + 1];
    locator.copy_from_slice(&coefficients[start..=start + ERRORS_MAX]);
    Some((locator, degree))
}

/// Bytes of a row at which the locator is zero, a bit each.
#[inline]
#[target_feature(enable = "avx2")]
fn roots(locator: &[u8; ERRORS_MAX + 1], degree: usize) -> [u32; ROW / PARITY] {
    let mut sums = [_mm256_set1_epi8(locator[0].cast_signed()); ROW / PARITY];
    for k in 1..=degree {
        let coefficient = factor(locator[k]);
        for (sum, constant) in sums.iter_mut().zip(&CHIEN[k - 1]) {
            *sum = _mm256_xor_si256(*sum, times(coefficient, constants(constant)));
        }
    }
    let zero = _mm256_setzero_si256();
    let mut bits = [0; ROW / PARITY];
    for (bits, sum) in bits.iter_mut().zip(sums) {
        *bits = _mm256_movemask_epi8(_mm256_cmpeq_epi8(sum, zero)) as u32;
    }
    // Byte 0 is no part of a row, and looks like byte 255.
    bits[0] &= !1;
    bits
}

/// The error evaluator, the product of syndromes and locator up to the locator's degree.
#[inline]
#[target_feature(enable = "avx2")]
fn evaluator(
    syndromes: &Syndromes,
    locator: &[u8; ERRORS_MAX + 1],
    degree: usize,
) -> [u8; ERRORS_MAX] {
    let mask = _mm_set1_epi8(15);
    let mut sum = _mm_setzero_si128();
    for k in 0..degree {
        // Zeros stand in front of the syndromes, so that this is a shift by k places.
        let vector = load_half(sixteen(&syndromes.0, ERRORS_MAX - k));
        let row = &MUL[usize::from(locator[k])];
        let low = _mm_and_si128(vector, mask);
        let high = _mm_and_si128(_mm_srli_epi16::<4>(vector), mask);
        sum = _mm_xor_si128(sum, _mm_shuffle_epi8(load_half(sixteen(row, 0)), low));
        sum = _mm_xor_si128(sum, _mm_shuffle_epi8(load_half(sixteen(row, 16)), high));
    }
    let mut out = [0; ERRORS_MAX];
    store_half(&mut out, sum);
    out
}

/// Value of a polynomial given by the logarithms of its coefficients, at alpha^byte.
#[inline]
fn evaluate(logs: &[u16], byte: usize, step: usize) -> u8 {
    let powers = POSITION_LOG.iter().step_by(step);
    logs.iter().zip(powers).fold(0, |sum, (&log, power)| {
        sum ^ EXP[usize::from(log) + usize::from(power[byte])]
    })
}

#[target_feature(enable = "avx2")]
pub(super) fn correct(code: Code, row: &mut Row, syndromes: &Syndromes) -> Correction {
    let Some((locator, degree)) = locator(syndromes) else {
        return Correction::Uncorrectable;
    };
    let bits = roots(&locator, degree);
    let count: u32 = bits.iter().map(|bits| bits.count_ones()).sum();
    if count as usize != degree {
        return Correction::Uncorrectable;
    }
    let evaluator = evaluator(syndromes, &locator, degree);
    let log = |value: u8| LOG[usize::from(value)];
    let evaluator = evaluator.map(log);
    // The formal derivative has the odd coefficients, at even powers.
    let derivative: [u16; ERRORS_MAX / 2] = core::array::from_fn(|i| {
        if 2 * i < degree {
            log(locator[2 * i + 1])
        } else {
            log(0)
        }
    });
    let mut errors = [(0, 0); ERRORS_MAX];
    let mut found = 0;
    for (group, mut bits) in bits.into_iter().enumerate() {
        while bits != 0 {
            let byte = group * PARITY + bits.trailing_zeros() as usize;
            bits &= bits - 1;
            let top = log(evaluate(&evaluator[..degree], byte, 1));
            let slope = evaluate(&derivative[..degree.div_ceil(2)], byte, 2);
            if slope == 0 {
                return Correction::Uncorrectable;
            }
            // Z^(255-byte) times evaluator over derivative, all by logarithms.
            let rest = (2 * ORDER - byte - usize::from(log(slope))) % ORDER;
            errors[found] = (byte as u8, EXP[usize::from(top) + rest]);
            found += 1;
        }
    }
    apply(code, row, &errors[..degree])
}
