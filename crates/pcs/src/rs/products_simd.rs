// SPDX-License-Identifier: Apache-2.0
//! Sums of products in GF(2^8) by carry-less multiplication (PCLMULQDQ).
//!
//! Four elements in slots of 16 bits are a polynomial. A product of two of them has seven slots of
//! 15 bits, none of which runs into the next: coefficients of a product of polynomials over the
//! field, not yet reduced. With the elements of one in reverse order its slot 3 is the sum of the
//! products of elements at the same place.

#![allow(unsafe_code, reason = "vector loads")]

use core::arch::x86_64::*;

use super::tables::EXP;
use super::{ERRORS_MAX, ROW, Syndromes};
use crate::gf256::{ORDER, mul_const};

/// Powers of x = alpha^byte for each byte of a row: in slot s of word c of four
/// the power 4c + 3 - s.
#[repr(align(32))]
struct Powers([[[u64; 2]; 2]; ROW]);

static POWERS: Powers = {
    let mut table = [[[0; 2]; 2]; ROW];
    let mut byte = 0;
    while byte < ROW {
        let mut k = 0;
        while k < ERRORS_MAX {
            let power = EXP[byte * k % ORDER] as u64;
            table[byte][k / 8][k / 4 % 2] |= power << (16 * (3 - k % 4));
            k += 1;
        }
        byte += 1;
    }
    Powers(table)
};

/// Bits 8 to 14 of a product, reduced.
static REDUCED: [u8; 128] = {
    let mut table = [0; 128];
    let mut high = 0;
    while high < 128 {
        // x^8 as x^7 times x.
        table[high] = mul_const(mul_const(high as u8, 0x80), 2);
        high += 1;
    }
    table
};

/// `REDUCED` by nibble: of bits 8 to 11, and of bits 12 to 14.
static REDUCED_BY_NIBBLE: [[u8; 16]; 2] = {
    let mut table = [[0; 16]; 2];
    let mut n = 0;
    while n < 16 {
        table[0][n] = REDUCED[n];
        if n < 8 {
            table[1][n] = REDUCED[n << 4];
        }
        n += 1;
    }
    table
};

#[inline]
#[target_feature(enable = "sse2")]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: 16 readable bytes; an unaligned load has no other demand.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn load_words(words: &[u64; 2]) -> __m128i {
    // SAFETY: as above.
    unsafe { _mm_loadu_si128(words.as_ptr().cast()) }
}

/// The error evaluator of a row, 16 coefficients in slots.
pub(super) struct Evaluator {
    low: __m128i,
    high: __m128i,
    /// Whether coefficients 8 to 15 may differ from zero.
    is_long: bool,
}

/// Eight elements in slots, from the front or the back half of 16.
#[inline]
#[target_feature(enable = "sse4.1")]
fn slots(elements: __m128i) -> [__m128i; 2] {
    [
        _mm_cvtepu8_epi16(elements),
        _mm_cvtepu8_epi16(_mm_srli_si128::<8>(elements)),
    ]
}

/// Reduces products in slots.
#[inline]
#[target_feature(enable = "ssse3")]
fn reduced(products: __m128i) -> __m128i {
    let [low, high] = [load(&REDUCED_BY_NIBBLE[0]), load(&REDUCED_BY_NIBBLE[1])];
    let kept = _mm_and_si128(products, _mm_set1_epi16(0xff));
    let first = _mm_and_si128(_mm_srli_epi16::<8>(products), _mm_set1_epi16(15));
    // Entry 0 of each table is zero, so that the upper byte of a slot stays zero.
    let first = _mm_shuffle_epi8(low, first);
    let second = _mm_shuffle_epi8(high, _mm_srli_epi16::<12>(products));
    _mm_xor_si128(_mm_xor_si128(kept, first), second)
}

/// Product of syndromes and a locator of this degree, up to its degree. The locator's first
/// coefficient is taken to be one.
#[inline]
#[target_feature(enable = "sse4.1,pclmulqdq")]
pub(super) fn evaluator(
    syndromes: &Syndromes,
    locator: &[u8; ERRORS_MAX + 1],
    degree: usize,
) -> Evaluator {
    let locator = load(locator.first_chunk().expect("16 of 17 coefficients"));
    let locator = _mm_or_si128(locator, _mm_cvtsi32_si128(1));
    let [a, a_high] = slots(locator);
    let syndromes = load(syndromes.values().first_chunk().expect("16 of 32"));
    let [b, b_high] = slots(syndromes);
    let add = |a, b| _mm_xor_si128(a, b);
    // Words of a polynomial are called 0 to 3; `at_i` is the sum of products of words whose numbers
    // add up to i, seven slots from slot 4i on.
    let at_0 = _mm_clmulepi64_si128::<0x00>(a, b);
    let cross = add(
        _mm_clmulepi64_si128::<0x01>(a, b),
        _mm_clmulepi64_si128::<0x10>(a, b),
    );
    let low = reduced(add(at_0, _mm_slli_si128::<8>(cross)));
    if degree <= ERRORS_MAX / 2 {
        return Evaluator {
            low,
            high: _mm_setzero_si128(),
            is_long: false,
        };
    }
    let at_2 = add(
        _mm_clmulepi64_si128::<0x11>(a, b),
        add(
            _mm_clmulepi64_si128::<0x00>(a_high, b),
            _mm_clmulepi64_si128::<0x00>(a, b_high),
        ),
    );
    let at_3 = add(
        add(
            _mm_clmulepi64_si128::<0x10>(a, b_high),
            _mm_clmulepi64_si128::<0x01>(a, b_high),
        ),
        add(
            _mm_clmulepi64_si128::<0x10>(a_high, b),
            _mm_clmulepi64_si128::<0x01>(a_high, b),
        ),
    );
    let high = add(at_2, _mm_slli_si128::<8>(at_3));
    Evaluator {
        low,
        high: reduced(add(high, _mm_srli_si128::<8>(cross))),
        is_long: true,
    }
}

impl Evaluator {
    /// Its value at the inverse of the location of a byte.
    #[inline]
    #[target_feature(enable = "sse4.1,pclmulqdq")]
    pub(super) fn at(&self, byte: usize) -> u8 {
        let [first, second] = &POWERS.0[byte];
        let powers = load_words(first);
        let mut sum = _mm_xor_si128(
            _mm_clmulepi64_si128::<0x00>(self.low, powers),
            _mm_clmulepi64_si128::<0x11>(self.low, powers),
        );
        if self.is_long {
            let powers = load_words(second);
            let more = _mm_xor_si128(
                _mm_clmulepi64_si128::<0x00>(self.high, powers),
                _mm_clmulepi64_si128::<0x11>(self.high, powers),
            );
            sum = _mm_xor_si128(sum, more);
        }
        let slot = (_mm_cvtsi128_si64(sum).cast_unsigned() >> 48) as usize;
        slot as u8 ^ REDUCED[slot >> 8 & 127]
    }
}
