// SPDX-License-Identifier: Apache-2.0
//! The key equation with AVX2: locators of several rows, a few steps of each in turn, so that the
//! wait for a discrepancy of one row is spent on the others.
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

use super::factors_avx2::{factor, load, split, store, times};
use super::{ERRORS_MAX, LANES, PARITY, Syndromes};
use crate::gf256::{EXP, LOG, ORDER};

/// 32 bytes in the order of a vector.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct Bytes([u8; 32]);

impl Bytes {
    const ZERO: Self = Self([0; 32]);
}

/// What a row holds, between zeros: coefficients beyond the last are read as zero.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct Held([u8; 64]);

impl Held {
    const FRONT: usize = 16;

    #[inline]
    fn bytes(&mut self) -> &mut [u8; 32] {
        (&mut self.0[Self::FRONT..Self::FRONT + 32])
            .try_into()
            .expect("32 bytes in the middle")
    }
}

/// Locators by row. Rows that were not asked for have none.
pub(super) struct Locators {
    held: [Held; LANES],
    degrees: [u8; LANES],
    steps: [u8; LANES],
}

impl Locators {
    /// Degree of a row's locator; above 16 there are too many errors.
    #[inline]
    pub(super) fn degree(&self, lane: usize) -> usize {
        self.degrees[lane].into()
    }

    /// 17 coefficients of a row's locator, the first of which, one, may be read as zero instead.
    #[inline]
    pub(super) fn coefficients(&self, lane: usize) -> &[u8; ERRORS_MAX + 1] {
        let first = Held::FRONT + PARITY - 1 - usize::from(self.steps[lane]);
        self.held[lane].0[first..]
            .first_chunk()
            .expect("16 zeros behind what is held")
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

/// What is kept of rows between steps.
struct Work {
    found: Locators,
    corrections: [Bytes; LANES],
    inverses: [u16; LANES],
}

/// The same of one row, in registers.
#[derive(Clone, Copy)]
struct State {
    now: __m256i,
    correction: __m256i,
    /// Logarithm of the inverse of the discrepancy that belongs to the correction.
    inverse: u16,
    degree: u8,
}

/// Locators of the rows whose bit is set, from their syndromes, none of which may be all zero.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn locators(wrong: u32, syndromes: &[Syndromes; LANES]) -> Locators {
    let mut work = Work {
        found: Locators {
            held: [Held([0; 64]); LANES],
            degrees: [0; LANES],
            steps: [0; LANES],
        },
        corrections: [Bytes::ZERO; LANES],
        inverses: [0; LANES],
    };
    // The first correction is x: coefficient 1 is one, and syndromes move up by a place.
    let one = _mm256_set_epi64x(1 << 56, 0, 0, 0);
    let below = _mm256_set_epi64x(i64::MAX >> 7, -1, -1, -1);
    let mut lanes = wrong;
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        let syndromes = load(syndromes[lane].values());
        store(work.found.held[lane].bytes(), syndromes);
        let correction = _mm256_or_si256(_mm256_and_si256(syndromes, below), one);
        store(&mut work.corrections[lane].0, correction);
    }
    // One error takes two steps, and few errors are frequent.
    let mut at_work = steps::<2>(&mut work, wrong, 0);
    at_work = steps::<2>(&mut work, at_work, 2);
    let mut step = 4;
    while at_work != 0 && step < PARITY {
        at_work = steps::<4>(&mut work, at_work, step);
        step += 4;
    }
    work.found
}

/// So many steps of the rows whose bit is set; a bit for each that is not done then.
#[inline]
#[target_feature(enable = "avx2")]
fn steps<const COUNT: usize>(work: &mut Work, rows: u32, first: usize) -> u32 {
    let left = load(&LEFT[first + COUNT].0);
    let (mut lanes, mut not_done) = (rows, rows);
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        let found = &mut work.found;
        let mut state = State {
            now: load(found.held[lane].bytes()),
            correction: load(&work.corrections[lane].0),
            inverse: work.inverses[lane],
            degree: found.degrees[lane],
        };
        for step in first..first + COUNT {
            state = after_step(state, step);
        }
        store(found.held[lane].bytes(), state.now);
        store(&mut work.corrections[lane].0, state.correction);
        work.inverses[lane] = state.inverse;
        found.degrees[lane] = state.degree;
        found.steps[lane] = (first + COUNT) as u8;
        let is_done = _mm256_testz_si256(state.now, left) as u32;
        not_done &= !(is_done << lane);
    }
    not_done
}

#[inline]
#[target_feature(enable = "avx2")]
fn after_step(state: State, step: usize) -> State {
    let State {
        now, correction, ..
    } = state;
    let discrepancy = _mm256_cvtsi256_si32(now) as u8;
    let log = LOG[usize::from(discrepancy)];
    let quotient = EXP[usize::from(log + state.inverse)];
    let upper = _mm256_permute2x128_si256::<0x81>(now, now);
    let moved = _mm256_alignr_epi8::<1>(upper, now);
    let change = times(factor(quotient), split(correction));
    let now = _mm256_xor_si256(moved, change);
    let (mark, others) = &MARKS[step];
    let (mark, others) = (load(&mark.0), load(&others.0));
    if discrepancy != 0 && 2 * usize::from(state.degree) <= step {
        // The locator before this step is the next correction, times x.
        let correction = _mm256_or_si256(_mm256_and_si256(moved, others), mark);
        return State {
            now,
            correction,
            inverse: ORDER as u16 - log,
            degree: step as u8 + 1 - state.degree,
        };
    }
    State {
        now,
        // What was a discrepancy is now the place of coefficient 1, which is zero.
        correction: _mm256_and_si256(correction, others),
        ..state
    }
}
