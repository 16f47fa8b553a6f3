// SPDX-License-Identifier: Apache-2.0
//! The loops of `words.rs` that carry the data, with AVX2: four words at a time, each shifted by
//! what its place demands. As in `words_avx512_simd.rs`, neighbours come from registers and not
//! from memory just written.

#![allow(unsafe_code, reason = "vector loads and stores")]

use core::arch::x86_64::*;

use super::words::{
    DATA_MASK, FIRST_BIT, LINE_WORDS, LOAD_OCTETS, Payload, ScramblerState, count_wrong,
    line_headers,
};
use crate::params::{CODEWORD_BITS, DATA_BLOCKS};
use crate::rs::Row;

/// A number for each of 32 words.
#[repr(align(32))]
struct ByWord([u64; 32]);

/// Constants of the front of a codeword, up to word 26, and of what follows.
const fn by_word(front: [u64; 32], back: [u64; 32]) -> ByWord {
    let mut table = front;
    let mut k = DATA_BLOCKS;
    while k < 32 {
        table[k] = back[k];
        k += 1;
    }
    ByWord(table)
}

/// `offset + factor·k` for word k. A shift by what is below zero or above 63 gives zero.
const fn linear(offset: u64, factor: i64) -> [u64; 32] {
    let mut table = [0; 32];
    let mut k = 0;
    while k < 32 {
        table[k] = offset.wrapping_add(factor.wrapping_mul(k as i64).cast_unsigned());
        k += 1;
    }
    table
}

/// `bits` moved up by `offset + factor·k` for word k.
const fn bits(bits: u64, offset: usize, factor: usize) -> [u64; 32] {
    let mut table = [0; 32];
    let mut k = 0;
    while k < 32 {
        let shift = offset + factor * k;
        table[k] = if shift < 64 { bits << shift } else { 0 };
        k += 1;
    }
    table
}

/// The bits below 2k.
const fn below() -> [u64; 32] {
    let mut table = [0; 32];
    let mut k = 0;
    while k < 32 {
        table[k] = (1 << (2 * k)) - 1;
        k += 1;
    }
    table
}

/// All bits but bit 2k.
const fn without_first() -> [u64; 32] {
    let mut table = bits(1, 0, 2);
    let mut k = 0;
    while k < 32 {
        table[k] = !table[k];
        k += 1;
    }
    table
}

const FIRST: u64 = FIRST_BIT as u64;
/// From line to row: the first bit of a header is taken out, what is below it moves up by one, and
/// all of it to its place; the end of the block before comes from the word before. Parity needs
/// the shifts only.
static KEPT: ByWord = by_word(without_first(), [u64::MAX; 32]);
static BELOW: ByWord = by_word(below(), [0; 32]);
static LINE_TO_ROW_UP: ByWord = by_word(linear(FIRST - 1, -1), linear(64, -2));
static LINE_TO_ROW_DOWN: ByWord = by_word(linear(64 - FIRST, 1), linear(0, 2));
/// Both bits of a header on the line.
static HEADER: ByWord = ByWord(bits(3, 0, 2));
/// Between payload and row.
static HEADER_IN_ROW: ByWord = by_word(bits(1, FIRST_BIT, 1), [0; 32]);
static ROW_UP: ByWord = ByWord(linear(FIRST + 1, 1));
static ROW_DOWN: ByWord = ByWord(linear(64 - FIRST, -1));
static ROW_DOWN_FROM_NEXT: ByWord = ByWord(linear(63 - FIRST, -1));
/// From payload to line.
static LINE_UP: ByWord = ByWord(linear(2, 2));
static LINE_DOWN: ByWord = ByWord(linear(64, -2));

/// Words `at..at + 4`.
#[inline]
#[target_feature(enable = "avx2")]
fn load(words: &[u64], at: usize) -> __m256i {
    let words = &words[at..at + 4];
    // SAFETY: 32 readable bytes; an unaligned load has no other demand.
    unsafe { _mm256_loadu_si256(words.as_ptr().cast()) }
}

/// Words `at..at + 4` of a row.
#[inline]
#[target_feature(enable = "avx2")]
fn load_row(row: &Row, at: usize) -> __m256i {
    load_octets(&row.0, 8 * at)
}

/// Octets `at..at + 32`.
#[inline]
#[target_feature(enable = "avx2")]
fn load_octets(octets: &[u8], at: usize) -> __m256i {
    let octets = &octets[at..at + 32];
    // SAFETY: as above; the order of octets is that of this processor.
    unsafe { _mm256_loadu_si256(octets.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(octets: &mut [u8], value: __m256i) {
    let octets = octets.first_chunk_mut::<32>().expect("room for a vector");
    // SAFETY: 32 writable bytes; an unaligned store has no other demand.
    unsafe { _mm256_storeu_si256(octets.as_mut_ptr().cast(), value) }
}

/// Words of a payload, `at..at + 4`; word 27 is zero.
#[inline]
#[target_feature(enable = "avx2")]
fn load_payload(words: &[u64; DATA_BLOCKS], at: usize) -> __m256i {
    if at + 4 <= DATA_BLOCKS {
        return load(words, at);
    }
    // Not words 23 to 26, moved: in the scrambler, word 23 is still on its way to the cache.
    let [first, second, third] = *words[at..].first_chunk().expect("three words");
    let [first, second, third] = [first, second, third].map(u64::cast_signed);
    _mm256_set_epi64x(0, third, second, first)
}

/// As many of four words as there is room for, from `at` on: all, or three.
#[inline]
#[target_feature(enable = "avx2")]
fn store_payload(words: &mut [u64; DATA_BLOCKS], at: usize, value: __m256i) {
    if let Some(words) = words[at..].first_chunk_mut::<4>() {
        // SAFETY: 32 writable bytes; an unaligned store has no other demand.
        return unsafe { _mm256_storeu_si256(words.as_mut_ptr().cast(), value) };
    }
    let two = words[at..].first_chunk_mut::<2>().expect("three words");
    // SAFETY: 16 writable bytes; an unaligned store has no other demand.
    unsafe { _mm_storeu_si128(two.as_mut_ptr().cast(), _mm256_castsi256_si128(value)) }
    words[at + 2] = _mm256_extract_epi64::<2>(value).cast_unsigned();
}

/// Each word moved to the place behind it, the last to the front.
#[inline]
#[target_feature(enable = "avx2")]
fn turned_up(words: __m256i) -> __m256i {
    _mm256_permute4x64_epi64::<0b10_01_00_11>(words)
}

/// The words before those that `turned` holds turned up; `turned_before` is the same of the four
/// words before.
#[inline]
#[target_feature(enable = "avx2")]
fn neighbours(turned: __m256i, turned_before: __m256i) -> __m256i {
    _mm256_blend_epi32::<0b0000_0011>(turned, turned_before)
}

/// Words one to three, then the first of `next`.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated_down(words: __m256i, next: __m256i) -> __m256i {
    let joined = _mm256_blend_epi32::<0b0000_0011>(words, next);
    _mm256_permute4x64_epi64::<0b00_11_10_01>(joined)
}

#[inline]
#[target_feature(enable = "avx2")]
fn constant(table: &ByWord, at: usize) -> __m256i {
    load(&table.0, at)
}

#[inline]
#[target_feature(enable = "avx2")]
fn xor(a: __m256i, b: __m256i, c: __m256i) -> __m256i {
    _mm256_xor_si256(_mm256_xor_si256(a, b), c)
}

/// All four words added by "or".
#[inline]
#[target_feature(enable = "avx2")]
fn gathered(words: __m256i) -> u64 {
    let half = _mm256_extracti128_si256::<1>(words);
    let half = _mm_or_si128(half, _mm256_castsi256_si128(words));
    let one = _mm_or_si128(half, _mm_unpackhi_epi64(half, half));
    _mm_cvtsi128_si64(one).cast_unsigned()
}

/// 64 bits of each word of `low` and what is above them, `high`, from bit `shift` on.
#[inline]
#[target_feature(enable = "avx2")]
fn funnel(low: __m256i, high: __m256i, shift: __m256i) -> __m256i {
    let rest = _mm256_sub_epi64(_mm256_set1_epi64x(64), shift);
    _mm256_or_si256(_mm256_srlv_epi64(low, shift), _mm256_sllv_epi64(high, rest))
}

/// `words::load_codewords`.
#[target_feature(enable = "avx2,popcnt")]
pub(super) fn load_codewords(line: &[u8], at: usize, rows: &mut [Row], wrong: &mut [u8]) {
    for (i, (row, wrong)) in rows.iter_mut().zip(wrong).enumerate() {
        let at = at + i * CODEWORD_BITS;
        let source = line[at / 8..]
            .first_chunk::<LOAD_OCTETS>()
            .expect("a word behind the codeword");
        let shift = _mm256_set1_epi64x((at % 8) as i64);
        let zero = _mm256_setzero_si256();
        let (mut turned_before, mut headers) = (zero, zero);
        for k in (0..LINE_WORDS).step_by(4) {
            let words = funnel(
                load_octets(source, 8 * k),
                load_octets(source, 8 * k + 8),
                shift,
            );
            headers = _mm256_or_si256(headers, _mm256_and_si256(words, constant(&HEADER, k)));
            let turned = turned_up(words);
            let before = neighbours(turned, turned_before);
            turned_before = turned;
            let kept = _mm256_and_si256(words, constant(&KEPT, k));
            let below = _mm256_and_si256(words, constant(&BELOW, k));
            let block = _mm256_add_epi64(kept, below);
            let in_row = _mm256_or_si256(
                _mm256_sllv_epi64(block, constant(&LINE_TO_ROW_UP, k)),
                _mm256_srlv_epi64(before, constant(&LINE_TO_ROW_DOWN, k)),
            );
            store(&mut row.0[8 * k..], in_row);
        }
        *wrong = count_wrong(gathered(headers));
    }
}

/// A word without its scrambling, given what was sent and the word sent before it.
#[inline]
#[target_feature(enable = "avx2")]
fn descrambled(words: __m256i, before: __m256i) -> __m256i {
    let near = xor(
        words,
        _mm256_slli_epi64::<39>(words),
        _mm256_slli_epi64::<58>(words),
    );
    xor(
        near,
        _mm256_srli_epi64::<25>(before),
        _mm256_srli_epi64::<6>(before),
    )
}

/// `words::descramble_rows`.
#[target_feature(enable = "avx2")]
pub(super) fn descramble_rows(rows: &[Row], last: &mut u64, out: &mut [Payload]) {
    let mut turned_before = _mm256_set1_epi64x(last.cast_signed());
    for (row, out) in rows.iter().zip(out) {
        let mut headers = _mm256_setzero_si256();
        let mut words = headers;
        for k in (0..DATA_BLOCKS).step_by(4) {
            let (low, high) = (load_row(row, k), load_row(row, k + 1));
            let in_row = constant(&HEADER_IN_ROW, k);
            headers = _mm256_or_si256(headers, _mm256_and_si256(low, in_row));
            words = _mm256_or_si256(
                _mm256_srlv_epi64(low, constant(&ROW_UP, k)),
                _mm256_sllv_epi64(high, constant(&ROW_DOWN_FROM_NEXT, k)),
            );
            let turned = turned_up(words);
            let before = neighbours(turned, turned_before);
            turned_before = turned;
            store_payload(&mut out.words, k, descrambled(words, before));
        }
        out.is_data = (gathered(headers) >> FIRST_BIT) as u32 & DATA_MASK;
        // Word 26, the third of the last four, is before what follows.
        turned_before = _mm256_permute4x64_epi64::<0b10_10_10_10>(words);
    }
    let word = _mm256_castsi256_si128(turned_before);
    *last = _mm_cvtsi128_si64(word).cast_unsigned();
}

/// `words::scramble_into_rows`. Two passes without feedback in vectors, the third word by word,
/// then all rows, when the words are no longer on their way to the cache.
#[target_feature(enable = "avx2")]
pub(super) fn scramble_into_rows(
    payload: &mut [Payload],
    state: &mut ScramblerState,
    rows: &mut [Row],
) {
    for payload in payload.iter_mut() {
        scramble_codeword(&mut payload.words, state);
    }
    for (payload, row) in payload.iter().zip(rows) {
        let headers = _mm256_set1_epi64x((u64::from(payload.is_data) << FIRST_BIT).cast_signed());
        let mut turned_before = _mm256_setzero_si256();
        for k in (0..DATA_BLOCKS).step_by(4) {
            let words = load_payload(&payload.words, k);
            let turned = turned_up(words);
            let before = neighbours(turned, turned_before);
            turned_before = turned;
            let in_row = _mm256_or_si256(
                _mm256_sllv_epi64(words, constant(&ROW_UP, k)),
                _mm256_srlv_epi64(before, constant(&ROW_DOWN, k)),
            );
            let headers = _mm256_and_si256(headers, constant(&HEADER_IN_ROW, k));
            store(&mut row.0[8 * k..], _mm256_or_si256(in_row, headers));
        }
    }
}

/// `words::scramble_codeword`.
#[inline]
#[target_feature(enable = "avx2")]
fn scramble_codeword(words: &mut [u64; DATA_BLOCKS], state: &mut ScramblerState) {
    let mut input_before = _mm256_set1_epi64x(state.input.cast_signed());
    let [far, near] = state.once.map(u64::cast_signed);
    let mut once_before = _mm256_set_epi64x(near, far, near, far);
    let mut once_turned = _mm256_set1_epi64x(near);
    let mut history = state.output;
    let (mut input, mut once) = (input_before, once_before);
    for k in (0..DATA_BLOCKS).step_by(4) {
        input = load_payload(words, k);
        let turned = turned_up(input);
        once = descrambled(input, neighbours(turned, input_before));
        input_before = turned;
        let turned = turned_up(once);
        let near = neighbours(turned, once_turned);
        let far = _mm256_permute2x128_si256::<0x21>(once_before, once);
        (once_turned, once_before) = (turned, once);
        let near = xor(
            once,
            _mm256_slli_epi64::<14>(near),
            _mm256_slli_epi64::<52>(near),
        );
        let thrice = xor(
            near,
            _mm256_srli_epi64::<50>(far),
            _mm256_srli_epi64::<12>(far),
        );
        let mut four = [0; 4];
        // SAFETY: 32 writable bytes; an unaligned store has no other demand.
        unsafe { _mm256_storeu_si256(four.as_mut_ptr().cast(), thrice) }
        for (word, value) in words[k..].iter_mut().zip(four) {
            let [far, middle, near, newest] = history;
            // In this order they are four shifts. Near and middle, or middle and far, would be made
            // two shifts over two words each, which are slow.
            let before = (near << 28 ^ far >> 24) ^ (middle << 40 ^ middle >> 36);
            *word = value ^ before;
            history = [middle, near, newest, *word];
        }
    }
    // The last word is the third of the last four.
    state.input = _mm256_extract_epi64::<2>(input).cast_unsigned();
    state.once = [
        _mm256_extract_epi64::<1>(once).cast_unsigned(),
        _mm256_extract_epi64::<2>(once).cast_unsigned(),
    ];
    state.output = history;
}

/// `words::store_codewords`.
#[target_feature(enable = "avx2")]
pub(super) fn store_codewords(payload: &[Payload], rows: &[Row], line: &mut [u8], at: usize) {
    for (i, (payload, row)) in payload.iter().zip(rows).enumerate() {
        let at = at + i * CODEWORD_BITS;
        let (line, shift) = (&mut line[at / 8..(at + CODEWORD_BITS).div_ceil(8)], at % 8);
        let count = _mm256_set1_epi64x(64 - shift as i64);
        // Bits around the codeword stay: in its first octet, and in its last.
        let used = (shift + CODEWORD_BITS) % 8;
        let kept_front = line[0] & ((1 << shift) - 1);
        let kept_back = line[line.len() - 1] & if used == 0 { 0 } else { 0xff << used };
        let headers = _mm256_set1_epi64x(line_headers(payload.is_data).cast_signed());
        let zero = _mm256_setzero_si256();
        let parity = load_row(row, 28);
        let (mut turned_before, mut below) = (zero, zero);
        for k in (0..LINE_WORDS).step_by(4) {
            // Parity is blocks 27 to 30.
            let blocks = match k {
                24 => {
                    let first = _mm256_permute4x64_epi64::<0>(parity);
                    let three = load_payload(&payload.words, k);
                    _mm256_blend_epi32::<0b1100_0000>(three, first)
                }
                28 => rotated_down(parity, zero),
                _ => load_payload(&payload.words, k),
            };
            let turned = turned_up(blocks);
            let before = neighbours(turned, turned_before);
            turned_before = turned;
            let words = _mm256_or_si256(
                _mm256_or_si256(
                    _mm256_sllv_epi64(blocks, constant(&LINE_UP, k)),
                    _mm256_srlv_epi64(before, constant(&LINE_DOWN, k)),
                ),
                _mm256_and_si256(headers, constant(&HEADER, k)),
            );
            let turned = turned_up(words);
            store(
                &mut line[8 * k..],
                funnel(neighbours(turned, below), words, count),
            );
            below = turned;
        }
        line[0] |= kept_front;
        if let Some(octet) = line.get_mut(8 * LINE_WORDS) {
            // What the shift moved out of the last word, 62 bits of which are used.
            let top = _mm256_castsi256_si128(below);
            let top = _mm_cvtsi128_si64(top).cast_unsigned();
            *octet = (top >> 1 >> (63 - shift)) as u8 | kept_back;
        } else {
            line[8 * LINE_WORDS - 1] |= kept_back;
        }
    }
}
