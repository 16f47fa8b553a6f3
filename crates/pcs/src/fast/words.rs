// SPDX-License-Identifier: Apache-2.0
//! Codewords as 64-bit words: what turns line bits into rows of the Reed-Solomon codec and back,
//! and the scrambler. Every shift count is a constant of the place in the codeword, so that a
//! compiler can make vector shifts of these loops. Those that carry the data are written out for
//! vectors in `words_avx2_simd.rs` and `words_avx512_simd.rs`; `words_avx2.rs` chooses.
//!
//! Where things stand, for block k of a codeword that begins at bit 0:
//!
//! - on the line: header at 66k = 64k + 2k, payload at 64k + 2k + 2;
//! - in a row of 256 bytes, whose first byte is unused and followed by 29 zero bits: kept header
//!   bit at 37 + 65k, payload at 64k + 38 + k, parity at word 28 on, aligned.

use crate::params::{BLOCKS, CODEWORD_BITS, DATA_BLOCKS, KEPT_HEADER_BIT, PARITY_HEADERS};
use crate::rs::Row;

/// Words that hold a codeword on the line.
pub(super) const LINE_WORDS: usize = CODEWORD_BITS.div_ceil(64);
/// Octets that are read to get a codeword.
pub(super) const LOAD_OCTETS: usize = 8 * (LINE_WORDS + 1);
/// Words of a row.
const ROW_WORDS: usize = 32;
/// First word of a row that holds parity.
const PARITY_WORD: usize = 28;
/// Place of the first kept header bit in a row.
pub(super) const FIRST_BIT: usize = 37;
/// A bit for each payload block.
pub(super) const DATA_MASK: u32 = (1 << DATA_BLOCKS) - 1;

// The masks below keep the second header bit.
const _: () = assert!(KEPT_HEADER_BIT == 1 && FIRST_BIT == 8 + crate::params::PAD_BITS);

/// Bit k moved to bit 2k.
const fn spread(bits: u32) -> u64 {
    let x = bits as u64;
    let x = (x | x << 16) & 0x0000_ffff_0000_ffff;
    let x = (x | x << 8) & 0x00ff_00ff_00ff_00ff;
    let x = (x | x << 4) & 0x0f0f_0f0f_0f0f_0f0f;
    let x = (x | x << 2) & 0x3333_3333_3333_3333;
    (x | x << 1) & 0x5555_5555_5555_5555
}

/// First bits of headers, where `line_headers` has them.
const FIRST_OF_DATA: u64 = spread(DATA_MASK);
const FIRST_OF_PARITY: u64 = spread((1 << BLOCKS) - 1) & !FIRST_OF_DATA;

/// Headers of parity blocks, where `line_headers` has them.
const PARITY_ON_LINE: u64 = {
    let mut bits = 0;
    let mut i = 0;
    while i < PARITY_HEADERS.len() {
        bits |= (PARITY_HEADERS[i] as u64) << (2 * (DATA_BLOCKS + i));
        i += 1;
    }
    bits
};

/// Payload words and the kept header bit of each block: set for data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(align(32))]
pub(super) struct Payload {
    pub(super) words: [u64; DATA_BLOCKS],
    pub(super) is_data: u32,
}

/// 64 bits from bit `at` on. Nine octets from the first on must exist.
#[inline(always)]
pub(super) fn word_at(octets: &[u8], at: usize) -> u64 {
    let (octets, shift) = (&octets[at / 8..at / 8 + 9], at % 8);
    let low = octets.first_chunk().expect("nine octets");
    u64::from_le_bytes(*low) >> shift | u64::from(octets[8]) << 1 << (63 - shift)
}

#[inline(always)]
fn row_words(row: &Row) -> [u64; ROW_WORDS] {
    let (bytes, _) = row.0.as_chunks::<8>();
    core::array::from_fn(|i| u64::from_le_bytes(bytes[i]))
}

#[inline(always)]
fn row_from(words: &[u64; ROW_WORDS]) -> Row {
    let mut row = Row::ZERO;
    let (bytes, _) = row.0.as_chunks_mut::<8>();
    for (bytes, word) in bytes.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    row
}

/// The row of payload words and kept header bits.
#[inline(always)]
pub(super) fn pack_row(payload: &[u64; BLOCKS], is_data: u32) -> Row {
    let mut words = [0; ROW_WORDS];
    let header = |k: usize| u64::from(is_data >> k & 1) << (FIRST_BIT + k);
    words[0] = header(0) | payload[0] << (FIRST_BIT + 1);
    for k in 1..DATA_BLOCKS - 1 {
        words[k] = header(k) | payload[k] << (FIRST_BIT + 1 + k) | payload[k - 1] >> (27 - k);
    }
    words[26] = header(26) | payload[25] >> 1;
    words[27] = payload[26];
    words[PARITY_WORD..].copy_from_slice(&payload[DATA_BLOCKS..]);
    row_from(&words)
}

/// Payload words and kept header bits of a row.
#[inline(always)]
pub(super) fn unpack_row(row: &Row) -> Payload {
    let words = row_words(row);
    let mut payload = Payload::default();
    let mut is_data = 0;
    for k in 0..DATA_BLOCKS - 1 {
        payload.words[k] = words[k] >> (FIRST_BIT + 1 + k) | words[k + 1] << (26 - k);
        is_data |= (words[k] >> (FIRST_BIT + k) & 1) << k;
    }
    payload.words[26] = words[27];
    payload.is_data = (is_data | words[26] >> 63 << 26) as u32;
    payload
}

/// Reads codewords that follow each other from bit `at` on into rows; counts headers that are not
/// what they must be. From the first octet of each on `LOAD_OCTETS` must exist.
#[inline(always)]
pub(super) fn load_codewords(line: &[u8], at: usize, rows: &mut [Row], wrong: &mut [u8]) {
    for (i, (row, wrong)) in rows.iter_mut().zip(wrong).enumerate() {
        let at = at + i * CODEWORD_BITS;
        let shift = at % 8;
        let (source, _) = line[at / 8..at / 8 + LOAD_OCTETS].as_chunks::<8>();
        let source = |k: usize| u64::from_le_bytes(source[k]);
        let mut words = [0; LINE_WORDS];
        for (k, word) in words.iter_mut().enumerate() {
            *word = source(k) >> shift | source(k + 1) << 1 << (63 - shift);
        }
        let headers = words[..BLOCKS].iter().enumerate();
        let headers = headers.fold(0, |sum, (k, word)| sum | word & 3 << (2 * k));
        *wrong = count_wrong(headers);
        *row = row_of_line(&words);
    }
}

/// Headers that are not what they must be, given those of all blocks, that of block k from bit 2k
/// on.
#[inline(always)]
pub(super) fn count_wrong(headers: u64) -> u8 {
    let same = !(headers ^ headers >> 1) & FIRST_OF_DATA;
    let different = headers ^ PARITY_ON_LINE;
    let different = (different | different >> 1) & FIRST_OF_PARITY;
    (same | different).count_ones() as u8
}

/// Headers of all blocks, that of block k from bit 2k on.
#[inline(always)]
pub(super) fn line_headers(is_data: u32) -> u64 {
    let second = spread(is_data & DATA_MASK);
    PARITY_ON_LINE | second << 1 | second ^ FIRST_OF_DATA
}

/// The row of a codeword on the line. Kept header bit and payload of a block are 65 bits in a row
/// on the line too, so that a word of the row is the end of one run and the beginning of the next.
#[inline(always)]
fn row_of_line(line: &[u64; LINE_WORDS]) -> Row {
    let mut words = [0; ROW_WORDS];
    words[0] = line[0] >> 1 << FIRST_BIT;
    for k in 1..DATA_BLOCKS {
        let end = line[k] << (64 - 2 * k) >> (27 - k) | line[k - 1] >> (27 + k);
        words[k] = line[k] >> (2 * k + 1) << (FIRST_BIT + k) | end;
    }
    for k in DATA_BLOCKS - 1..BLOCKS {
        words[k + 1] = line[k] >> (2 * k + 2) | line[k + 1] << (62 - 2 * k);
    }
    row_from(&words)
}

/// Descrambled payload of rows. `last` is the last scrambled word before them, and after.
#[inline(always)]
pub(super) fn descramble_rows(rows: &[Row], last: &mut u64, out: &mut [Payload]) {
    for (row, out) in rows.iter().zip(out) {
        // Each word and the word before it are both taken from the row: reading back words that
        // were just written, at another alignment, would wait for the writes.
        let words = row_words(row);
        let word = |k: usize| words[k] >> (FIRST_BIT + 1 + k) | words[k + 1] << (26 - k);
        out.words[0] = descrambled(*last, word(0));
        for k in 1..DATA_BLOCKS - 1 {
            out.words[k] = descrambled(word(k - 1), word(k));
        }
        out.words[26] = descrambled(word(25), words[27]);
        *last = words[27];
        let bits = |sum, k: usize| sum | (words[k] >> (FIRST_BIT + k) & 1) << k;
        out.is_data = (0..DATA_BLOCKS).fold(0, bits) as u32;
    }
}

#[inline(always)]
fn descrambled(before: u64, word: u64) -> u64 {
    word ^ (word << 39 | before >> 25) ^ (word << 58 | before >> 6)
}

/// Descrambles words; `history` has the word before them in front.
#[inline(always)]
pub(super) fn descramble_words(history: &[u64], out: &mut [u64]) {
    let words = history.iter().zip(&history[1..]);
    for (out, (&before, &word)) in out.iter_mut().zip(words) {
        *out = descrambled(before, word);
    }
}

/// Scrambles words in place. `last` is the last scrambled word before them, and after.
#[inline(always)]
pub(super) fn scramble_words(words: &mut [u64], last: &mut u64) {
    let mut before = *last;
    for word in words {
        // The bits that lie 39 and 58 places back: first those of the word before, then its own.
        let half = *word ^ (before >> 25 ^ before >> 6);
        before = half ^ half << 39 ^ half << 58;
        *word = before;
    }
    *last = before;
}

/// What a scrambler of whole codewords remembers: the last words before it, of its input, of what
/// one pass makes of it, and of its output.
#[derive(Clone, Debug)]
pub(super) struct ScramblerState {
    pub(super) input: u64,
    pub(super) once: [u64; 2],
    pub(super) output: [u64; 4],
}

impl Default for ScramblerState {
    /// As if ones without end had been sent before.
    fn default() -> Self {
        Self {
            input: u64::MAX,
            once: [u64::MAX; 2],
            output: [u64::MAX; 4],
        }
    }
}

/// Scrambles the words of a codeword.
///
/// With D = x^39 + x^58 the output is input / (1 + D), in which each word waits for the word
/// before. That is input (1 + D)(1 + D)^2 / (1 + D)^4, since squares of sums are sums of squares:
/// two passes without feedback, then one over the bits 156 and 232 places back, two words away or
/// more.
#[inline(always)]
fn scramble_codeword(words: &mut [u64; DATA_BLOCKS], state: &mut ScramblerState) {
    let mut input = [state.input; DATA_BLOCKS + 1];
    input[1..].copy_from_slice(words);
    let mut once = [0; DATA_BLOCKS + 2];
    once[..2].copy_from_slice(&state.once);
    for k in 0..DATA_BLOCKS {
        let (before, word) = (input[k], input[k + 1]);
        once[k + 2] = word ^ (word << 39 | before >> 25) ^ (word << 58 | before >> 6);
    }
    let mut output = [0; DATA_BLOCKS + 4];
    output[..4].copy_from_slice(&state.output);
    for k in 0..DATA_BLOCKS {
        let (far, near) = (once[k], once[k + 1]);
        output[k + 4] = once[k + 2] ^ (near << 14 | far >> 50) ^ (near << 52 | far >> 12);
    }
    for k in 0..DATA_BLOCKS {
        let (far, middle, near) = (output[k], output[k + 1], output[k + 2]);
        output[k + 4] ^= (near << 28 | middle >> 36) ^ (middle << 40 | far >> 24);
    }
    state.input = input[DATA_BLOCKS];
    state.once.copy_from_slice(&once[DATA_BLOCKS..]);
    state.output.copy_from_slice(&output[DATA_BLOCKS..]);
    words.copy_from_slice(&output[4..]);
}

/// Rows without parity of scrambled payload.
#[inline(always)]
pub(super) fn scramble_into_rows(
    payload: &mut [Payload],
    state: &mut ScramblerState,
    rows: &mut [Row],
) {
    for (payload, row) in payload.iter_mut().zip(rows) {
        scramble_codeword(&mut payload.words, state);
        let mut words = [0; BLOCKS];
        words[..DATA_BLOCKS].copy_from_slice(&payload.words);
        *row = pack_row(&words, payload.is_data);
    }
}

/// Line words of a codeword: payload as it was packed into the row, and the row's parity.
#[inline(always)]
fn line_words(payload: &Payload, row: &Row) -> [u64; LINE_WORDS] {
    let mut words = [0; BLOCKS + 1];
    words[1..=DATA_BLOCKS].copy_from_slice(&payload.words);
    words[DATA_BLOCKS + 1..].copy_from_slice(&row_words(row)[PARITY_WORD..]);
    // words[k + 1] is block k; in front of block 0 there is nothing.
    let headers = line_headers(payload.is_data);
    let mut line = [0; LINE_WORDS];
    line[0] = headers & 3 | words[1] << 2;
    for k in 1..BLOCKS {
        let header = headers & 3 << (2 * k);
        line[k] = header | words[k + 1] << (2 * k + 2) | words[k] >> (64 - 2 * k);
    }
    line[BLOCKS] = words[BLOCKS] >> 2;
    line
}

/// Writes codewords to a line from bit `at` on; bits around them stay.
#[inline(always)]
pub(super) fn store_codewords(payload: &[Payload], rows: &[Row], line: &mut [u8], at: usize) {
    for (i, (payload, row)) in payload.iter().zip(rows).enumerate() {
        store_bits(
            &line_words(payload, row),
            CODEWORD_BITS,
            line,
            at + i * CODEWORD_BITS,
        );
    }
}

/// Writes the first `count` bits of words to a line from bit `at` on; bits around them stay.
#[inline(always)]
pub(super) fn store_bits<const N: usize>(
    words: &[u64; N],
    count: usize,
    line: &mut [u8],
    at: usize,
) {
    let shift = at % 8;
    let end = shift + count;
    let line = &mut line[at / 8..(at + count).div_ceil(8)];
    let kept_front = line[0] & ((1 << shift) - 1);
    let kept_back = match end % 8 {
        0 => 0,
        used => line[line.len() - 1] & (0xff << used),
    };
    let mut shifted = [0; N];
    shifted[0] = words[0] << shift;
    for k in 1..N {
        shifted[k] = words[k] << shift | words[k - 1] >> 1 >> (63 - shift);
    }
    let spill = words[N - 1] >> 1 >> (63 - shift);
    let (whole, rest) = line.as_chunks_mut::<8>();
    for (bytes, word) in whole.iter_mut().zip(&shifted) {
        *bytes = word.to_le_bytes();
    }
    let next = shifted.get(whole.len()).copied().unwrap_or(spill);
    for (byte, value) in rest.iter_mut().zip(next.to_le_bytes()) {
        *byte = value;
    }
    line[0] = line[0] & !((1 << shift) - 1) | kept_front;
    if !end.is_multiple_of(8) {
        let back = &mut line[end / 8];
        *back = *back & !(0xff << (end % 8)) | kept_back;
    }
}

/// Copies words of 64 bits that begin at bit `shift` of the first byte, as many as `to` has room
/// for; 8 bytes behind the last word read must exist.
#[inline(always)]
pub(super) fn copy_words(from: &[u8], shift: usize, to: &mut [u8]) {
    let (low, _) = from.as_chunks::<8>();
    let (to, _) = to.as_chunks_mut::<8>();
    for (to, pair) in to.iter_mut().zip(low.windows(2)) {
        let (low, high) = (u64::from_le_bytes(pair[0]), u64::from_le_bytes(pair[1]));
        *to = (low >> shift | high << 1 << (63 - shift)).to_le_bytes();
    }
}

/// For each of 64 bit offsets into `low` and what follows, the bits in which 64 bits from there
/// differ from a pattern.
#[inline(always)]
pub(super) fn distances(low: u64, high: u64, pattern: u64) -> [u8; 64] {
    let mut out = [0; 64];
    for (shift, out) in out.iter_mut().enumerate() {
        let window = low >> shift | high << 1 << (63 - shift);
        *out = (window ^ pattern).count_ones() as u8;
    }
    out
}
