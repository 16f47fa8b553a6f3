// SPDX-License-Identifier: Apache-2.0
//! The key equation with AVX2: locators of several rows, a step of each in turn, so that the wait
//! for a discrepancy of one row is spent on the others.
//!
//! The recursion is that of Berlekamp and Massey with the future discrepancies kept, as in the
//! reformulated one, but with a division by the last discrepancy in place of a second product: a
//! quotient of two elements is a sum of logarithms. At step s the 32 bytes of a row hold
//!
//! - the coming discrepancies in bytes 0 to 31-s: coefficients s to 31 of syndromes times locator;
//! - coefficients 1 to s of the locator in bytes 32-s to 31. Coefficient 0 is one, and is not kept.
//!
//! A step moves all of it down by a byte, and adds the same of an earlier locator times x^m (the
//! correction), which stands still.

use core::arch::x86_64::*;

use super::rs_avx2::{factor, load, split, store, times};
use super::{LANES, PARITY, Syndromes};
use crate::gf256::{EXP, LOG, ORDER};

/// 32 bytes in the order of a vector.
#[derive(Clone, Copy)]
#[repr(align(32))]
pub(super) struct Bytes(pub(super) [u8; 32]);

impl Bytes {
    const ZERO: Self = Self([0; 32]);
}

/// What is kept of a row between steps.
#[derive(Clone, Copy)]
struct Recursion {
    now: Bytes,
    correction: Bytes,
    /// Logarithm of the inverse of the discrepancy that belongs to the correction.
    inverse: u16,
    degree: u8,
    steps: u8,
}

/// Locators by row. Rows that were not asked for have none.
pub(super) struct Locators([Recursion; LANES]);

impl Locators {
    /// Degree of a row's locator; above 16 there are too many errors.
    pub(super) fn degree(&self, lane: usize) -> usize {
        self.0[lane].degree.into()
    }

    /// Coefficients 1, 2 and so on of a row's locator, as many as its degree and more.
    pub(super) fn coefficients(&self, lane: usize) -> &[u8] {
        let row = &self.0[lane];
        &row.now.0[PARITY - usize::from(row.steps)..]
    }
}

/// One at the byte where coefficient 1 of a correction stands that is made in step s, and all ones
/// at other bytes.
static MARKS: [(Bytes, Bytes); PARITY] = {
    let mut table = [(Bytes::ZERO, Bytes([0xff; 32])); PARITY];
    let mut step = 0;
    while step + 1 < PARITY {
        let byte = PARITY - 2 - step;
        table[step].0.0[byte] = 1;
        table[step].1.0[byte] = 0;
        step += 1;
    }
    table
};

/// Ones at the discrepancies that are left after so many steps.
static LEFT: [Bytes; PARITY + 1] = {
    let mut table = [Bytes::ZERO; PARITY + 1];
    let mut steps = 0;
    while steps <= PARITY {
        let mut byte = 0;
        while byte + steps < PARITY {
            table[steps].0[byte] = 0xff;
            byte += 1;
        }
        steps += 1;
    }
    table
};

/// Locators of the rows whose bit is set, from their syndromes, none of which may be all zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn locators(mut wrong: u32, syndromes: &[Syndromes; LANES]) -> Locators {
    let mut rows = [Recursion {
        now: Bytes::ZERO,
        correction: Bytes::ZERO,
        inverse: 0,
        degree: 0,
        steps: 0,
    }; LANES];
    let mut at_work = [0_u8; LANES];
    let mut count = 0;
    while wrong != 0 {
        let lane = wrong.trailing_zeros() as usize;
        wrong &= wrong - 1;
        let row = &mut rows[lane];
        let syndromes = load(syndromes[lane].values());
        store(&mut row.now.0, syndromes);
        // The first correction is x: coefficient 1 is one, and syndromes move up by a place.
        let one = _mm256_set_epi64x(1 << 56, 0, 0, 0);
        let below = _mm256_set_epi64x(i64::MAX >> 7, -1, -1, -1);
        let correction = _mm256_or_si256(_mm256_and_si256(syndromes, below), one);
        store(&mut row.correction.0, correction);
        at_work[count] = lane as u8;
        count += 1;
    }
    for step in 0..PARITY {
        let left = load(&LEFT[step + 1].0);
        let mut going_on = 0;
        for i in 0..count {
            let lane = at_work[i];
            let row = &mut rows[usize::from(lane) % LANES];
            let now = step_of(row, step);
            row.steps = step as u8 + 1;
            at_work[going_on] = lane;
            going_on += usize::from(_mm256_testz_si256(now, left) == 0);
        }
        count = going_on;
        if count == 0 {
            break;
        }
    }
    Locators(rows)
}

/// One step of a row; gives what it holds then.
#[inline]
#[target_feature(enable = "avx2")]
fn step_of(row: &mut Recursion, step: usize) -> __m256i {
    let now = load(&row.now.0);
    let correction = load(&row.correction.0);
    let discrepancy = _mm256_cvtsi256_si32(now) as u8;
    let log = LOG[usize::from(discrepancy)];
    let quotient = EXP[usize::from(log + row.inverse)];
    let upper = _mm256_permute2x128_si256::<0x81>(now, now);
    let moved = _mm256_alignr_epi8::<1>(upper, now);
    let change = times(factor(quotient), split(correction));
    let next = _mm256_xor_si256(moved, change);
    store(&mut row.now.0, next);
    let (mark, others) = &MARKS[step];
    let others = load(&others.0);
    if discrepancy != 0 && 2 * usize::from(row.degree) <= step {
        // The locator before this step is the next correction, times x.
        let kept = _mm256_and_si256(moved, others);
        store(&mut row.correction.0, _mm256_or_si256(kept, load(&mark.0)));
        row.degree = step as u8 + 1 - row.degree;
        row.inverse = ORDER as u16 - log;
    } else {
        // What was a discrepancy is now the place of coefficient 1, which is zero.
        store(&mut row.correction.0, _mm256_and_si256(correction, others));
    }
    next
}
