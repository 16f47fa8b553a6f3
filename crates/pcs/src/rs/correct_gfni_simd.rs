// SPDX-License-Identifier: Apache-2.0
//! Correction with AVX-512 and GFNI. The key equation is solved for 32 rows at once, whose number
//! of steps is that of the worst row; positions and values are found row by row.
//!
//! All of it happens in the field of GFNI (`tables_gfni.rs`), so that products of variables and
//! inverses are instructions.

#![allow(unsafe_code, reason = "vector loads and stores")]

use core::arch::x86_64::*;

use super::factors_avx2::{load_half, store, store_half};
use super::lanes_avx2::hand_out;
use super::tables_gfni::{FROM_AES, IDENTITY, PLACES, POWERS, TO_AES, Vector};
use super::{Code, Correction, ERRORS_MAX, LANES, PARITY, ROW, Row, apply};

/// Coefficients of the locators of 32 rows, lowest first, and the degree of each; beyond 16 there
/// is no locator.
struct Locators {
    coefficients: [__m256i; ERRORS_MAX + 1],
    degrees: [u8; LANES],
}

/// A product of all lanes by the element whose bit matrix it is.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
pub(super) fn times(matrix: u64, vector: __m256i) -> __m256i {
    let matrix = _mm256_set1_epi64x(matrix.cast_signed());
    _mm256_gf2p8affine_epi64_epi8::<0>(vector, matrix)
}

/// The reformulated inversionless recursion of Berlekamp and Massey with a lane per row. What
/// `correct_avx2.rs` keeps in one vector is two here: discrepancies, which move down, and locator,
/// which stays where it is while its predecessor moves up.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn locators(syndromes: &[__m256i; PARITY]) -> Locators {
    let zero = _mm256_setzero_si256();
    let one = _mm256_set1_epi8(1);
    let mut now = *syndromes;
    let mut before = *syndromes;
    let mut locator = [zero; ERRORS_MAX + 1];
    let mut former = [zero; ERRORS_MAX + 2];
    (locator[0], former[1]) = (one, one);
    let mut gamma = one;
    let mut balance = zero;
    let mut any = now.iter().fold(zero, |any, &v| _mm256_or_si256(any, v));
    let mut step = 0;
    while step < PARITY && _mm256_testz_si256(any, any) == 0 {
        let discrepancy = now[0];
        let grows = _mm256_test_epi8_mask(discrepancy, discrepancy) & !_mm256_movepi8_mask(balance);
        let product = |next, former| {
            _mm256_xor_si256(
                _mm256_gf2p8mul_epi8(gamma, next),
                _mm256_gf2p8mul_epi8(discrepancy, former),
            )
        };
        any = zero;
        for i in 0..PARITY - 1 - step {
            let next = now[i + 1];
            now[i] = product(next, before[i]);
            any = _mm256_or_si256(any, now[i]);
            before[i] = _mm256_mask_mov_epi8(before[i], grows, next);
        }
        for j in (0..=(step + 1).min(ERRORS_MAX)).rev() {
            let (old, moving) = (locator[j], former[j]);
            locator[j] = product(old, moving);
            former[j + 1] = _mm256_mask_mov_epi8(moving, grows, old);
        }
        former[0] = zero;
        gamma = _mm256_mask_mov_epi8(gamma, grows, discrepancy);
        let all = _mm256_set1_epi8(-1);
        let more = _mm256_sub_epi8(balance, all);
        balance = _mm256_mask_mov_epi8(more, grows, _mm256_xor_si256(balance, all));
        step += 1;
    }
    let mut balances = [0; LANES];
    store(&mut balances, balance);
    Locators {
        coefficients: locator,
        degrees: balances
            .map(|balance| ((step as i32 - i32::from(balance.cast_signed())) / 2) as u8),
    }
}

/// Corrects the rows whose bit is set in `wrong`, which must be those with non-zero syndromes.
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
pub(super) fn correct_lanes(
    code: Code,
    rows: &mut [Row],
    verdicts: &mut [Correction],
    wrong: u32,
    syndromes: &[__m256i; PARITY],
) {
    let syndromes = syndromes.map(|syndrome| times(TO_AES, syndrome));
    let locators = locators(&syndromes);
    let Locators {
        coefficients,
        degrees,
    } = &locators;
    let degree_max = degrees.iter().fold(0, |max, &degree| max.max(degree));
    // Coefficients 1 to 16, then those of the evaluator: syndromes times locator, up to its degree.
    let mut terms = [_mm256_setzero_si256(); PARITY];
    terms[..ERRORS_MAX].copy_from_slice(&coefficients[1..]);
    for k in 0..usize::from(degree_max).min(ERRORS_MAX) {
        terms[ERRORS_MAX + k] = (0..=k).fold(_mm256_setzero_si256(), |sum, i| {
            let product = _mm256_gf2p8mul_epi8(coefficients[i], syndromes[k - i]);
            _mm256_xor_si256(sum, product)
        });
    }
    let mut constants = [0; LANES];
    store(&mut constants, coefficients[0]);
    let mut by_row = [[0; PARITY]; LANES];
    hand_out(&terms, |lane, terms| store(&mut by_row[lane], terms));
    let mut wrong = wrong;
    while wrong != 0 {
        let lane = wrong.trailing_zeros() as usize;
        wrong &= wrong - 1;
        let degree = usize::from(degrees[lane]);
        verdicts[lane] = if (1..=ERRORS_MAX).contains(&degree) {
            correct(
                code,
                &mut rows[lane],
                constants[lane],
                &by_row[lane],
                degree,
            )
        } else {
            Correction::Uncorrectable
        };
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(vector: &Vector) -> __m512i {
    // SAFETY: 64 readable bytes; an unaligned load has no other demand.
    unsafe { _mm512_loadu_si512(vector.0.as_ptr().cast()) }
}

/// Stores 64 bytes from `at` on.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_at(bytes: &mut [u8; ERRORS_MAX + 64], at: usize, value: __m512i) {
    let place = &mut bytes[at..at + 64];
    // SAFETY: 64 writable bytes; an unaligned store has no other demand.
    unsafe { _mm512_storeu_si512(place.as_mut_ptr().cast(), value) }
}

/// Corrects a row by a locator of this degree, whose coefficient 0 is `constant`; `terms` are its
/// coefficients 1 to 16 and those of the evaluator.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2,gfni,popcnt")]
fn correct(
    code: Code,
    row: &mut Row,
    constant: u8,
    terms: &[u8; PARITY],
    degree: usize,
) -> Correction {
    let mut sums = [_mm512_set1_epi8(constant.cast_signed()); ROW / 64];
    for (coefficient, powers) in terms[..degree].iter().zip(&POWERS) {
        let coefficient = _mm512_set1_epi8(coefficient.cast_signed());
        for (sum, powers) in sums.iter_mut().zip(powers) {
            *sum = _mm512_xor_si512(*sum, _mm512_gf2p8mul_epi8(coefficient, load(powers)));
        }
    }
    let mut places = [0; ERRORS_MAX + 64];
    let mut points = [0; ERRORS_MAX + 64];
    let mut found = 0;
    for (group, &sum) in sums.iter().enumerate() {
        // Byte 0 is no part of a row, and looks like byte 255.
        let roots = _mm512_testn_epi8_mask(sum, sum) & !u64::from(group == 0);
        let count = roots.count_ones() as usize;
        if found + count > degree {
            return Correction::Uncorrectable;
        }
        store_at(
            &mut places,
            found,
            _mm512_maskz_compress_epi8(roots, load(&PLACES[group])),
        );
        store_at(
            &mut points,
            found,
            _mm512_maskz_compress_epi8(roots, load(&POWERS[0][group])),
        );
        found += count;
    }
    if found != degree {
        return Correction::Uncorrectable;
    }
    let mut values = [0; ERRORS_MAX];
    let points = points[..ERRORS_MAX].try_into().expect("16 bytes");
    store_half(&mut values, error_values(load_half(points), terms, degree));
    let mut errors = [(0, 0); ERRORS_MAX];
    for (error, pair) in errors.iter_mut().zip(places.into_iter().zip(values)) {
        *error = pair;
    }
    apply(code, row, &errors[..degree])
}

/// Forney's formula at up to 16 points: evaluator over the odd part of the locator. Even and odd
/// coefficients run side by side in powers of the square.
#[inline]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl,gfni")]
fn error_values(x: __m128i, terms: &[u8; PARITY], degree: usize) -> __m128i {
    let square = _mm_gf2p8mul_epi8(x, x);
    let zero = _mm_setzero_si128();
    let (mut slope, mut even, mut odd) = (zero, zero, zero);
    let next = |sum, coefficient: u8| {
        let coefficient = _mm_set1_epi8(coefficient.cast_signed());
        _mm_xor_si128(_mm_gf2p8mul_epi8(sum, square), coefficient)
    };
    for i in (0..degree.div_ceil(2)).rev() {
        slope = next(slope, terms[2 * i]);
        even = next(even, terms[ERRORS_MAX + 2 * i]);
        odd = next(odd, terms[ERRORS_MAX + 2 * i + 1]);
    }
    let top = _mm_xor_si128(even, _mm_gf2p8mul_epi8(odd, x));
    let matrix = |matrix: u64| _mm_set1_epi64x(matrix.cast_signed());
    let slope = _mm_gf2p8mul_epi8(slope, x);
    let inverse = _mm_gf2p8affineinv_epi64_epi8::<0>(slope, matrix(IDENTITY));
    let value = _mm_gf2p8mul_epi8(top, inverse);
    _mm_gf2p8affine_epi64_epi8::<0>(value, matrix(FROM_AES))
}
