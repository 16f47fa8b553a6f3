// SPDX-License-Identifier: Apache-2.0
//! RS(255,223) as the standard defines it, by arithmetic on single bits, with no table.
//!
//! Encoding divides by G(Z), one symbol a step (IEEE 802.3 76.3.2.4.1). Decoding is by Peterson's
//! method, which shares nothing with the recursion of the fast path: the locator solves a system of
//! linear equations in the syndromes, found by elimination; then every position is tried; then the
//! error values solve a second system.

use crate::rs::{Correction, ERRORS_MAX, PARITY};

/// Symbols of a codeword.
const LEN: usize = 255;
/// Symbols in front that are not sent, and of the next one the bits that are.
const ZERO_SYMBOLS: usize = 3;
const SENT_BITS: u8 = 0b1110_0000;

/// Product modulo x^8+x^4+x^3+x^2+1, bit by bit.
fn product(a: u8, b: u8) -> u8 {
    let mut sum = 0_u8;
    for bit in (0..8).rev() {
        let carry = sum & 0x80 != 0;
        sum <<= 1;
        if carry {
            sum ^= 0b0001_1101;
        }
        if b >> bit & 1 == 1 {
            sum ^= a;
        }
    }
    sum
}

/// The element whose product with `a` is one, by trying a^254.
fn inverse(a: u8) -> u8 {
    (0..254).fold(1, |power, _| product(power, a))
}

fn alpha(exponent: usize) -> u8 {
    (0..exponent % LEN).fold(1, |power, _| product(power, 2))
}

/// G(Z), highest power first.
fn generator() -> Vec<u8> {
    let mut g = vec![1];
    for root in (0..PARITY).map(alpha) {
        // g·Z + g·root.
        let shifted = g.iter().copied().chain([0]);
        let scaled = [0].into_iter().chain(g.iter().map(|&c| product(c, root)));
        g = shifted.zip(scaled).map(|(a, b)| a ^ b).collect();
    }
    g
}

/// P31 to P0 of data D222 to D0.
///
/// # Panics
///
/// If there are not 223 octets.
pub fn parity(data: &[u8]) -> [u8; PARITY] {
    assert_eq!(data.len(), LEN - PARITY, "223 octets of data");
    let g = generator();
    let mut rest = data.to_vec();
    rest.extend([0; PARITY]);
    for i in 0..data.len() {
        let lead = rest[i];
        for (j, &c) in g.iter().enumerate() {
            rest[i + j] ^= product(c, lead);
        }
    }
    rest[data.len()..].try_into().expect("32 octets are left")
}

/// Value of the word at alpha^power; its first symbol belongs to Z^254.
fn evaluate(word: &[u8; LEN], power: usize) -> u8 {
    let x = alpha(power);
    word.iter().fold(0, |sum, &c| product(sum, x) ^ c)
}

/// Solves a square system given as rows with the right side last; none if it is singular.
fn solve(mut rows: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    let n = rows.len();
    for column in 0..n {
        let pivot = (column..n).find(|&row| rows[row][column] != 0)?;
        rows.swap(column, pivot);
        let scale = inverse(rows[column][column]);
        rows[column]
            .iter_mut()
            .for_each(|c| *c = product(*c, scale));
        for row in 0..n {
            let factor = rows[row][column];
            if row != column && factor != 0 {
                let pivot_row = rows[column].clone();
                for (c, p) in rows[row].iter_mut().zip(pivot_row) {
                    *c ^= product(p, factor);
                }
            }
        }
    }
    Some(rows.into_iter().map(|row| row[n]).collect())
}

/// Corrects up to 16 symbols in place, with the marks of 10G-EPON: a correction in what is not sent
/// is refused.
pub fn decode(word: &mut [u8; LEN]) -> Correction {
    let syndromes: Vec<u8> = (0..PARITY).map(|j| evaluate(word, j)).collect();
    if syndromes.iter().all(|&s| s == 0) {
        return Correction::Clean;
    }
    // The largest count of errors for which the system has one solution.
    for count in (1..=ERRORS_MAX).rev() {
        let system = (0..count)
            .map(|row| syndromes[row..=row + count].to_vec())
            .collect();
        if let Some(solution) = solve(system) {
            // solution[i] is the locator's coefficient of degree count - i.
            let locator: Vec<u8> = [1].into_iter().chain(solution.into_iter().rev()).collect();
            return correct(word, &syndromes, &locator);
        }
    }
    Correction::Uncorrectable
}

fn correct(word: &mut [u8; LEN], syndromes: &[u8], locator: &[u8]) -> Correction {
    let is_root = |exponent: &usize| {
        let x = alpha(LEN - exponent);
        locator.iter().rev().fold(0, |sum, &c| product(sum, x) ^ c) == 0
    };
    let exponents: Vec<usize> = (0..LEN).filter(is_root).collect();
    let count = locator.len() - 1;
    if exponents.len() != count {
        return Correction::Uncorrectable;
    }
    let system = (0..count)
        .map(|j| {
            let powers = exponents.iter().map(|&e| alpha(e * j));
            powers.chain([syndromes[j]]).collect()
        })
        .collect();
    let Some(values) = solve(system) else {
        return Correction::Uncorrectable;
    };
    let mut corrected = *word;
    for (&exponent, &value) in exponents.iter().zip(&values) {
        corrected[LEN - 1 - exponent] ^= value;
    }
    let is_outside = corrected[..ZERO_SYMBOLS] != word[..ZERO_SYMBOLS]
        || (corrected[ZERO_SYMBOLS] ^ word[ZERO_SYMBOLS]) & !SENT_BITS != 0;
    let is_codeword = (0..PARITY).all(|j| evaluate(&corrected, j) == 0);
    if is_outside || !is_codeword {
        return Correction::Uncorrectable;
    }
    let bits = |of: fn(u8, u8) -> u8| -> u8 {
        let counts = word.iter().zip(&corrected).map(|(&w, &c)| of(w, c));
        counts.map(|changed| changed.count_ones() as u8).sum()
    };
    let verdict = Correction::Corrected {
        symbols: count as u8,
        ones: bits(|was, is| was & !is),
        zeros: bits(|was, is| !was & is),
    };
    *word = corrected;
    verdict
}
