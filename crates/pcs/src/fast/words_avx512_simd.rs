// SPDX-License-Identifier: Apache-2.0
//! The loops of `words.rs` that carry the data, with AVX-512: eight words at a time, each shifted
//! by what its place demands. Neighbours come from registers, never from memory just written,
//! since a load across several stores waits until they are done.

#![allow(unsafe_code, reason = "vector loads and stores")]

use core::arch::x86_64::*;

use super::words::{
    DATA_MASK, FIRST_BIT, LINE_WORDS, LOAD_OCTETS, Payload, ScramblerState, count_wrong,
    line_headers,
};
use crate::params::{CODEWORD_BITS, DATA_BLOCKS};
use crate::rs::Row;

/// A number for each of 32 words; those that do not occur are shifts that leave zero.
type Shifts = [u64; 32];

/// Shift counts or bits by word. Counts below zero or above 63 give zero.
const fn by_word(factor: u64, offset: u64, is_bit: bool) -> Shifts {
    let mut table = [0; 32];
    let mut k = 0;
    while k < 32 {
        let value = offset.wrapping_add(factor.wrapping_mul(k as u64));
        table[k] = match (is_bit, value < 64) {
            (false, _) => value,
            (true, true) => 1 << value,
            (true, false) => 0,
        };
        k += 1;
    }
    table
}

/// The front of one table, the back of another, from word 27 on.
const fn joined(front: Shifts, back: Shifts) -> Shifts {
    let mut table = front;
    let mut k = DATA_BLOCKS;
    while k < 32 {
        table[k] = back[k];
        k += 1;
    }
    table
}

const MINUS: u64 = u64::MAX;
const FIRST: u64 = FIRST_BIT as u64;
static HEADER_IN_ROW: Shifts = by_word(1, FIRST, true);
static ROW_UP: Shifts = by_word(1, FIRST + 1, false);
static ROW_DOWN: Shifts = by_word(MINUS, 63 - FIRST + 1, false);
static ROW_DOWN_FROM_NEXT: Shifts = by_word(MINUS, 63 - FIRST, false);
/// Both bits of a header on the line.
static HEADER: Shifts = {
    let mut table = by_word(2, 0, true);
    let mut k = 0;
    while k < 32 {
        table[k] *= 3;
        k += 1;
    }
    table
};
static LINE_UP: Shifts = by_word(2, 2, false);
static LINE_DOWN: Shifts = by_word(MINUS - 1, 64, false);
/// From line to row: the beginning of a block down and up, the end of the block before up and
/// down, or down from the word before.
static BEGIN_DOWN: Shifts = joined(by_word(2, 1, false), by_word(0, 64, false));
static BEGIN_UP: Shifts = by_word(1, FIRST, false);
static END_UP: Shifts = by_word(MINUS - 1, 64, false);
static END_DOWN: Shifts = joined(by_word(MINUS, 27, false), by_word(0, 0, false));
static BEFORE_DOWN: Shifts = joined(by_word(1, 27, false), by_word(2, 0, false));

/// Words `at..at + 8`, those beyond the end zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn load(words: &[u64], at: usize) -> __m512i {
    let words = words.get(at..).unwrap_or(&[]);
    let mask = 0xff_u16 >> 8_usize.saturating_sub(words.len());
    // SAFETY: words outside the mask are not read; those inside are part of the slice.
    unsafe { _mm512_maskz_loadu_epi64(mask as u8, words.as_ptr().cast()) }
}

/// Octets `at..at + 64`.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_octets(octets: &[u8], at: usize) -> __m512i {
    let octets = &octets[at..at + 64];
    // SAFETY: 64 readable bytes; an unaligned load has no other demand.
    unsafe { _mm512_loadu_si512(octets.as_ptr().cast()) }
}

/// Words of a row, `at..at + 8`; a word that would be the 33rd is zero.
#[inline]
#[target_feature(enable = "avx512f")]
fn load_row(row: &Row, at: usize) -> __m512i {
    let octets = &row.0[8 * at..];
    let mask = 0xff_u16 >> 8_usize.saturating_sub(octets.len() / 8);
    // SAFETY: as above, eight octets a word, in the order of this processor.
    unsafe { _mm512_maskz_loadu_epi64(mask as u8, octets.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(octets: &mut [u8], value: __m512i) {
    let octets = octets.first_chunk_mut::<64>().expect("room for a vector");
    // SAFETY: 64 writable bytes; an unaligned store has no other demand.
    unsafe { _mm512_storeu_si512(octets.as_mut_ptr().cast(), value) }
}

/// As many words as there is room for, up to eight.
#[inline]
#[target_feature(enable = "avx512f")]
fn store_words(words: &mut [u64], value: __m512i) {
    let mask = 0xff_u16 >> 8_usize.saturating_sub(words.len());
    // SAFETY: words outside the mask are not written; those inside are part of the slice.
    unsafe { _mm512_mask_storeu_epi64(words.as_mut_ptr().cast(), mask as u8, value) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn or(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xfe>(a, b, c)
}

#[inline]
#[target_feature(enable = "avx512f")]
fn xor(a: __m512i, b: __m512i, c: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0x96>(a, b, c)
}

/// `a`, and those bits of `b` that are set in `mask`.
#[inline]
#[target_feature(enable = "avx512f")]
fn with_bits(a: __m512i, b: __m512i, mask: __m512i) -> __m512i {
    _mm512_ternarylogic_epi64::<0xf8>(a, b, mask)
}

/// `words::load_codewords`.
#[target_feature(enable = "avx512f,avx512vbmi2,popcnt")]
pub(super) fn load_codewords(line: &[u8], at: usize, rows: &mut [Row], wrong: &mut [u8]) {
    for (i, (row, wrong)) in rows.iter_mut().zip(wrong).enumerate() {
        let at = at + i * CODEWORD_BITS;
        let source = line[at / 8..]
            .first_chunk::<LOAD_OCTETS>()
            .expect("a word behind the codeword");
        let shift = _mm512_set1_epi64((at % 8) as i64);
        let mut before = _mm512_setzero_si512();
        let mut headers = before;
        for k in (0..LINE_WORDS).step_by(8) {
            let words = _mm512_shrdv_epi64(
                load_octets(source, 8 * k),
                load_octets(source, 8 * k + 8),
                shift,
            );
            let neighbours = _mm512_alignr_epi64::<7>(words, before);
            before = words;
            let begin = _mm512_srlv_epi64(words, load(&BEGIN_DOWN, k));
            let end = _mm512_sllv_epi64(words, load(&END_UP, k));
            let in_row = or(
                _mm512_sllv_epi64(begin, load(&BEGIN_UP, k)),
                _mm512_srlv_epi64(end, load(&END_DOWN, k)),
                _mm512_srlv_epi64(neighbours, load(&BEFORE_DOWN, k)),
            );
            store(&mut row.0[8 * k..], in_row);
            headers = with_bits(headers, words, load(&HEADER, k));
        }
        *wrong = count_wrong(_mm512_reduce_or_epi64(headers).cast_unsigned());
    }
}

/// `words::descramble_rows`.
#[target_feature(enable = "avx512f,avx512vbmi2")]
pub(super) fn descramble_rows(rows: &[Row], last: &mut u64, out: &mut [Payload]) {
    let mut last_word = _mm512_set1_epi64(last.cast_signed());
    for (row, out) in rows.iter().zip(out) {
        let mut before = last_word;
        let mut is_data = 0;
        for k in (0..LINE_WORDS).step_by(8) {
            let (low, high) = (load_row(row, k), load_row(row, k + 1));
            let words = _mm512_or_si512(
                _mm512_srlv_epi64(low, load(&ROW_UP, k)),
                _mm512_sllv_epi64(high, load(&ROW_DOWN_FROM_NEXT, k)),
            );
            let history = _mm512_alignr_epi64::<7>(words, before);
            before = words;
            let plain = xor(
                words,
                _mm512_shldi_epi64::<39>(words, history),
                _mm512_shldi_epi64::<58>(words, history),
            );
            store_words(&mut out.words[k..], plain);
            let bits = _mm512_test_epi64_mask(low, load(&HEADER_IN_ROW, k));
            is_data |= u32::from(bits) << k;
        }
        out.is_data = is_data & DATA_MASK;
        // Word 26 is the third of the last vector.
        last_word = _mm512_permutexvar_epi64(_mm512_set1_epi64(2), before);
    }
    *last = _mm_cvtsi128_si64(_mm512_castsi512_si128(last_word)).cast_unsigned();
}

/// `words::scramble_into_rows`. Vectors end with word 26, so that the first holds the last words
/// of the codeword before.
#[target_feature(enable = "avx512f,avx512vbmi2")]
pub(super) fn scramble_into_rows(
    payload: &mut [Payload],
    state: &mut ScramblerState,
    rows: &mut [Row],
) {
    let mut input_before = _mm512_set1_epi64(state.input.cast_signed());
    let mut once_before = _mm512_maskz_expand_epi64(0b1100_0000, load(&state.once, 0));
    let mut history = state.output;
    for payload in payload.iter_mut() {
        let words = &mut payload.words;
        let (input_last, once_last) = (input_before, once_before);
        let mut last = [0; 8];
        for group in 0..4 {
            let input = match group {
                0 => _mm512_alignr_epi64::<3>(load(words, 0), input_last),
                _ => load(words, 8 * group - 5),
            };
            let near = _mm512_alignr_epi64::<7>(input, input_before);
            input_before = input;
            let mut once = xor(
                input,
                _mm512_shldi_epi64::<39>(input, near),
                _mm512_shldi_epi64::<58>(input, near),
            );
            if group == 0 {
                let kept = _mm512_alignr_epi64::<3>(once, once_last);
                once = _mm512_mask_mov_epi64(kept, 0b1110_0000, once);
            }
            let near = _mm512_alignr_epi64::<7>(once, once_before);
            let far = _mm512_alignr_epi64::<6>(once, once_before);
            once_before = once;
            let thrice = xor(
                once,
                _mm512_shldi_epi64::<14>(near, far),
                _mm512_shldi_epi64::<52>(near, far),
            );
            store_words(&mut last, thrice);
            let (from, to) = if group == 0 {
                (5, 0)
            } else {
                (0, 8 * group - 5)
            };
            for (word, value) in words[to..].iter_mut().zip(&last[from..]) {
                let [far, middle, near, newest] = history;
                // Ordered as in `words_avx2_simd.rs`.
                let before = (near << 28 ^ far >> 24) ^ (middle << 40 ^ middle >> 36);
                *word = value ^ before;
                history = [middle, near, newest, *word];
            }
        }
    }
    let mut eight = [0; 8];
    store_words(&mut eight, input_before);
    state.input = eight[7];
    store_words(&mut eight, once_before);
    state.once.copy_from_slice(&eight[6..]);
    state.output = history;
    for (payload, row) in payload.iter().zip(rows) {
        let mut before = _mm512_setzero_si512();
        for k in (0..LINE_WORDS).step_by(8) {
            let words = load(&payload.words, k);
            let neighbours = _mm512_alignr_epi64::<7>(words, before);
            before = words;
            let headers = (payload.is_data >> k) as u8;
            let packed = or(
                _mm512_maskz_mov_epi64(headers, load(&HEADER_IN_ROW, k)),
                _mm512_sllv_epi64(words, load(&ROW_UP, k)),
                _mm512_srlv_epi64(neighbours, load(&ROW_DOWN, k)),
            );
            store(&mut row.0[8 * k..], packed);
        }
    }
}

/// `words::store_codewords`.
#[target_feature(enable = "avx512f,avx512vbmi2")]
pub(super) fn store_codewords(payload: &[Payload], rows: &[Row], line: &mut [u8], at: usize) {
    for (i, (payload, row)) in payload.iter().zip(rows).enumerate() {
        let at = at + i * CODEWORD_BITS;
        let (line, shift) = (&mut line[at / 8..(at + CODEWORD_BITS).div_ceil(8)], at % 8);
        let count = _mm512_set1_epi64(shift as i64);
        // Bits around the codeword stay: in its first octet, and in its last.
        let used = (shift + CODEWORD_BITS) % 8;
        let kept_front = line[0] & ((1 << shift) - 1);
        let kept_back = line[line.len() - 1] & if used == 0 { 0 } else { 0xff << used };
        let headers = _mm512_set1_epi64(line_headers(payload.is_data).cast_signed());
        let (mut block_before, mut before) = (_mm512_setzero_si512(), _mm512_setzero_si512());
        for k in (0..LINE_WORDS).step_by(8) {
            let mut blocks = load(&payload.words, k);
            if k == 24 {
                // Parity stands from word 28 of the row on, and is blocks 27 to 30.
                let parity = load_row(row, 25);
                blocks = _mm512_mask_mov_epi64(blocks, 0b0111_1000, parity);
            }
            let neighbours = _mm512_alignr_epi64::<7>(blocks, block_before);
            block_before = blocks;
            let words = _mm512_or_si512(
                _mm512_sllv_epi64(blocks, load(&LINE_UP, k)),
                _mm512_srlv_epi64(neighbours, load(&LINE_DOWN, k)),
            );
            let words = with_bits(words, headers, load(&HEADER, k));
            let low = _mm512_alignr_epi64::<7>(words, before);
            before = words;
            store(&mut line[8 * k..], _mm512_shldv_epi64(words, low, count));
        }
        line[0] |= kept_front;
        if let Some(octet) = line.get_mut(8 * LINE_WORDS) {
            // What the shift moved out of the last word, 62 bits of which are used.
            let top = _mm512_alignr_epi64::<7>(before, before);
            let top = _mm_cvtsi128_si64(_mm512_castsi512_si128(top)).cast_unsigned();
            *octet = (top >> 1 >> (63 - shift)) as u8 | kept_back;
        } else {
            line[8 * LINE_WORDS - 1] |= kept_back;
        }
    }
}
