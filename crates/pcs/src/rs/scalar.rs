// SPDX-License-Identifier: Apache-2.0
//! The codec without vector instructions: a remainder by a table of one byte, which is the parity
//! when encoding and zero for a clean codeword when decoding.

use super::tables::FEEDBACK;
use super::{Code, Correction, ERRORS_MAX, PARITY, ROW, Row, Syndromes, apply};
use crate::gf256::{ORDER, inverse, mul, power};

/// Remainder of Z^32 times the data by G(Z), coefficient of Z^31 in the lowest byte.
fn remainder(data: &[u8]) -> [u64; 4] {
    let mut state = [0_u64; 4];
    for &byte in data {
        let row = &FEEDBACK[usize::from(state[0] as u8 ^ byte)];
        state = [
            (state[0] >> 8 | state[1] << 56) ^ row[0],
            (state[1] >> 8 | state[2] << 56) ^ row[1],
            (state[2] >> 8 | state[3] << 56) ^ row[2],
            (state[3] >> 8) ^ row[3],
        ];
    }
    state
}

pub(super) fn encode(row: &mut Row) {
    let state = remainder(&row.0[..ROW - PARITY]);
    for (out, word) in row.0[ROW - PARITY..].chunks_exact_mut(8).zip(state) {
        out.copy_from_slice(&word.to_le_bytes());
    }
}

/// Syndromes of a row, from the 32 coefficients of its remainder; none if it is clean.
fn syndromes(row: &Row) -> Option<Syndromes> {
    let state = remainder(&row.0[..ROW - PARITY]);
    let mut difference = [0_u8; PARITY];
    for (out, word) in difference.chunks_exact_mut(8).zip(state) {
        out.copy_from_slice(&word.to_le_bytes());
    }
    for (out, received) in difference.iter_mut().zip(&row.0[ROW - PARITY..]) {
        *out ^= received;
    }
    if difference == [0; PARITY] {
        return None;
    }
    let mut syndromes = Syndromes::ZERO;
    for (j, syndrome) in syndromes.values_mut().iter_mut().enumerate() {
        let root = power(j);
        *syndrome = difference
            .iter()
            .fold(0, |sum, &coefficient| mul(sum, root) ^ coefficient);
    }
    Some(syndromes)
}

/// Berlekamp and Massey: the shortest recurrence that makes the syndromes, and its length.
fn locator(syndromes: &[u8; PARITY]) -> ([u8; PARITY + 1], usize) {
    let mut current = [0_u8; PARITY + 1];
    let mut previous = [0_u8; PARITY + 1];
    (current[0], previous[0]) = (1, 1);
    let (mut length, mut gap, mut last) = (0, 1, 1);
    for n in 0..PARITY {
        let discrepancy = (1..=length).fold(syndromes[n], |sum, i| {
            sum ^ mul(current[i], syndromes[n - i])
        });
        if discrepancy == 0 {
            gap += 1;
            continue;
        }
        let factor = mul(discrepancy, inverse(last));
        let before = current;
        for i in gap..=PARITY {
            current[i] ^= mul(factor, previous[i - gap]);
        }
        if 2 * length <= n {
            (length, previous, last, gap) = (n + 1 - length, before, discrepancy, 1);
        } else {
            gap += 1;
        }
    }
    (current, length)
}

/// Value of the first `count` coefficients at alpha^`exponent`.
fn evaluate(coefficients: &[u8], exponent: usize) -> u8 {
    let x = power(exponent);
    coefficients.iter().rev().fold(0, |sum, &c| mul(sum, x) ^ c)
}

pub(super) fn decode(code: Code, row: &mut Row) -> Correction {
    let Some(syndromes) = syndromes(row) else {
        return Correction::Clean;
    };
    let (locator, count) = locator(syndromes.values());
    if count == 0 || count > ERRORS_MAX {
        return Correction::Uncorrectable;
    }
    let locator = &locator[..=count];
    let mut evaluator = [0_u8; ERRORS_MAX];
    for (i, value) in evaluator.iter_mut().enumerate().take(count) {
        *value = (0..=i).fold(0, |sum, j| sum ^ mul(syndromes.values()[j], locator[i - j]));
    }
    // The formal derivative: odd coefficients, one place down.
    let mut derivative = [0_u8; ERRORS_MAX];
    for k in (1..=count).step_by(2) {
        derivative[k - 1] = locator[k];
    }
    let mut errors = [(0, 0); ERRORS_MAX];
    let mut found = 0;
    for byte in 1..ROW {
        // The inverse of alpha^(255-byte) is alpha^byte.
        if evaluate(locator, byte) != 0 {
            continue;
        }
        if found == count {
            return Correction::Uncorrectable;
        }
        let slope = evaluate(&derivative[..count], byte);
        let value = mul(evaluate(&evaluator[..count], byte), inverse(slope));
        errors[found] = (byte as u8, mul(value, power(ORDER - byte % ORDER)));
        found += 1;
    }
    if found != count {
        return Correction::Uncorrectable;
    }
    apply(code, row, &errors[..count])
}
