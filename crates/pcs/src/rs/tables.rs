// SPDX-License-Identifier: Apache-2.0
//! Constant vectors of the Reed-Solomon codec, made when the crate is compiled.
//!
//! A row is 256 bytes: byte m stands for Z^(255-m), so byte 255 is the constant term and byte 0 is
//! no part of any codeword. "By nibble" means a vector of 32 constants c twice, once as c & 15 and
//! once as c >> 4: the two index operands of byte shuffles with a row of `gf256::MUL`.

use crate::gf256::{ORDER, mul_const, products};
use crate::rs::{PARITY, ROW};

/// A vector of 32 constants, by nibble.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Nibbles(pub(super) [u8; 2 * PARITY]);

/// Z^(255-m) mod G(Z) for the data bytes m of a row, coefficient of Z^31 first.
pub(super) static REMAINDER: [Nibbles; ROW - PARITY] = remainder_table();
/// alpha^(j(255-m)) for j = 0..31.
pub(super) static SYNDROME: [Nibbles; ROW] = syndrome_table();
/// `CHIEN[k-1][g]` is alpha^(mk) for the 32 bytes m of group g: what coefficient k of a locator is
/// multiplied by to evaluate it at the inverse of the position of byte m.
pub(super) static CHIEN: [[Nibbles; ROW / PARITY]; PARITY / 2] = chien_table();
/// A root of y^2 + y = c by c; zero where there is none, and for c = 0.
pub(super) static QUADRATIC: [u8; 256] = quadratic_table();
/// Remainder table of one byte: `FEEDBACK[b]` is b·Z^32 mod G(Z), as four little-endian words
/// whose first byte is the coefficient of Z^31.
pub(super) static FEEDBACK: [[u64; 4]; 256] = feedback_table();

/// G(Z) without its leading term, coefficient of Z^31 first. IEEE 802.3 76.3.2.4.1: the roots are
/// alpha^0 to alpha^31.
pub(super) const GENERATOR: [u8; PARITY] = generator();

const fn generator() -> [u8; PARITY] {
    // Lowest power first while multiplying by (Z - alpha^i).
    let mut g = [0_u8; PARITY + 1];
    g[0] = 1;
    let mut root = 1;
    let mut i = 0;
    while i < PARITY {
        let mut j = i + 1;
        while j > 0 {
            g[j] = g[j - 1] ^ mul_const(g[j], root);
            j -= 1;
        }
        g[0] = mul_const(g[0], root);
        root = mul_const(root, 2);
        i += 1;
    }
    let mut high_first = [0; PARITY];
    let mut i = 0;
    while i < PARITY {
        high_first[i] = g[PARITY - 1 - i];
        i += 1;
    }
    high_first
}

const fn by_nibble(values: &[u8; PARITY]) -> Nibbles {
    let mut out = [0; 2 * PARITY];
    let mut i = 0;
    while i < PARITY {
        out[i] = values[i] & 15;
        out[PARITY + i] = values[i] >> 4;
        i += 1;
    }
    Nibbles(out)
}

/// value·Z mod G(Z).
const fn times_z(value: &[u8; PARITY]) -> [u8; PARITY] {
    let top = value[0];
    let mut out = [0; PARITY];
    let mut i = 0;
    while i < PARITY {
        let next = if i + 1 < PARITY { value[i + 1] } else { 0 };
        out[i] = next
            ^ if top == 0 {
                0
            } else {
                mul_const(top, GENERATOR[i])
            };
        i += 1;
    }
    out
}

const fn remainder_table() -> [Nibbles; ROW - PARITY] {
    let mut table = [Nibbles([0; 2 * PARITY]); ROW - PARITY];
    // Byte 223 stands for Z^32, whose remainder is G without its leading term.
    let mut value = GENERATOR;
    let mut m = ROW - PARITY - 1;
    while m > 0 {
        table[m] = by_nibble(&value);
        value = times_z(&value);
        m -= 1;
    }
    table
}

/// Powers of alpha.
pub(super) const EXP: [u8; ORDER] = exp_table();

const fn exp_table() -> [u8; ORDER] {
    let mut table = [0; ORDER];
    let mut value = 1;
    let mut i = 0;
    while i < ORDER {
        table[i] = value;
        value = mul_const(value, 2);
        i += 1;
    }
    table
}

const fn syndrome_table() -> [Nibbles; ROW] {
    let exp = exp_table();
    let mut table = [Nibbles([0; 2 * PARITY]); ROW];
    let mut m = 1;
    while m < ROW {
        let mut values = [0; PARITY];
        let mut j = 0;
        while j < PARITY {
            values[j] = exp[(ROW - 1 - m) * j % ORDER];
            j += 1;
        }
        table[m] = by_nibble(&values);
        m += 1;
    }
    table
}

const fn chien_table() -> [[Nibbles; ROW / PARITY]; PARITY / 2] {
    let exp = exp_table();
    let mut table = [[Nibbles([0; 2 * PARITY]); ROW / PARITY]; PARITY / 2];
    let mut k = 0;
    while k < PARITY / 2 {
        let mut group = 0;
        while group < ROW / PARITY {
            let mut values = [0; PARITY];
            let mut i = 0;
            while i < PARITY {
                values[i] = exp[(group * PARITY + i) * (k + 1) % ORDER];
                i += 1;
            }
            table[k][group] = by_nibble(&values);
            group += 1;
        }
        k += 1;
    }
    table
}

const fn quadratic_table() -> [u8; 256] {
    let mut table = [0; 256];
    let mut y = 2;
    while y < 256 {
        table[mul_const(y as u8, y as u8 ^ 1) as usize] = y as u8;
        y += 1;
    }
    table
}

const fn feedback_table() -> [[u64; 4]; 256] {
    let mut table = [[0; 4]; 256];
    let mut b = 1;
    while b < 256 {
        let mut i = 0;
        while i < PARITY {
            let product = mul_const(b as u8, GENERATOR[i]) as u64;
            table[b][i / 8] |= product << (8 * (i % 8));
            i += 1;
        }
        b += 1;
    }
    table
}

/// `PARITY_MATRIX[i][j]` is what syndrome j of a row without parity contributes to parity byte i:
/// the coefficient of Z^(31-i) of the polynomial that is one at alpha^j and zero at other roots.
pub(super) static PARITY_MATRIX: [[u8; PARITY]; PARITY] = parity_matrix();

pub(super) const fn parity_matrix() -> [[u8; PARITY]; PARITY] {
    let exp = exp_table();
    let mut matrix = [[0; PARITY]; PARITY];
    let mut j = 0;
    while j < PARITY {
        // G(Z) / (Z - root), highest power first, and its value at the root.
        let root = exp[j];
        let mut quotient = [0; PARITY];
        let (mut coefficient, mut value) = (1, 0);
        let mut i = 0;
        while i < PARITY {
            quotient[i] = coefficient;
            value = mul_const(value, root) ^ coefficient;
            coefficient = GENERATOR[i] ^ mul_const(coefficient, root);
            i += 1;
        }
        let mut scale = 0;
        while mul_const(value, exp[scale]) != 1 {
            scale += 1;
        }
        let mut i = 0;
        while i < PARITY {
            matrix[i][j] = mul_const(quotient[i], exp[scale]);
            i += 1;
        }
        j += 1;
    }
    matrix
}

/// A row of `gf256::MUL`.
type Products = [u8; 32];

/// The last step of the transform, of length 17, for outputs j = 0 to 14 and j + 15:
/// `SEVENTEENTHS[j][c-1]` has the products by alpha^(15cj) and by alpha^(15c(j+15)).
pub(super) static SEVENTEENTHS: [[[Products; 2]; 16]; 15] = {
    let mut table = [[[[0; 32]; 2]; 16]; 15];
    let mut j = 0;
    while j < 15 {
        let mut c = 1;
        while c < 17 {
            table[j][c - 1] = [seventeenth(j, c), seventeenth(j + 15, c)];
            c += 1;
        }
        j += 1;
    }
    table
};

/// The same for outputs 30 and 31.
pub(super) static LAST_SEVENTEENTHS: [[Products; 16]; 2] = {
    let mut table = [[[0; 32]; 16]; 2];
    let mut j = 0;
    while j < 2 {
        let mut c = 1;
        while c < 17 {
            table[j][c - 1] = seventeenth(j + 30, c);
            c += 1;
        }
        j += 1;
    }
    table
};

/// Products by alpha^(15cj).
const fn seventeenth(j: usize, c: usize) -> Products {
    products(EXP[15 * c * j % ORDER])
}

/// One step of the transform of length 255 = 3·5·17: byte of the row that holds the coefficient of
/// Z^(85a+51b+15c), by c, then b, then a.
pub(super) static SPLIT: [[[u8; 3]; 5]; 17] = split_table();

const fn split_table() -> [[[u8; 3]; 5]; 17] {
    let mut table = [[[0; 3]; 5]; 17];
    let mut c = 0;
    while c < 17 {
        let mut b = 0;
        while b < 5 {
            let mut a = 0;
            while a < 3 {
                let exponent = (85 * a + 51 * b + 15 * c) % ORDER;
                table[c][b][a] = (ROW - 1 - exponent) as u8;
                a += 1;
            }
            b += 1;
        }
        c += 1;
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_has_the_published_coefficients() {
        let published = "744034AE367E10C2A221219DB0C5E10C3B37FDE4942FB3B9188AFD148E37AC58";
        let own: String = GENERATOR.iter().map(|c| format!("{c:02X}")).collect();
        assert_eq!(own, published);
    }
}
