// SPDX-License-Identifier: Apache-2.0
//! Constants of the codec with GFNI, made when the crate is compiled.
//!
//! A product by a constant is a bit matrix, whatever the field. A product of two variables exists
//! only modulo x^8+x^4+x^3+x+1 (0x11B); key equation, positions and values are therefore worked
//! out in that field, which has the same structure: `TO_AES` carries elements over, `FROM_AES`
//! back.

use super::tables::parity_matrix;
use super::{ERRORS_MAX, PARITY, ROW};
use crate::gf256::{ORDER, POLYNOMIAL, mul_const};

/// x^8+x^4+x^3+x+1, the polynomial that is built into GFNI.
const AES_POLYNOMIAL: u16 = 0x11b;

/// The bit matrix of a linear map, given by the images of 1, 2, 4, ... 128, as GFNI wants it:
/// the row that makes bit i stands in byte 7-i.
const fn matrix(images: [u8; 8]) -> u64 {
    let mut out = 0;
    let mut i = 0;
    while i < 8 {
        let mut j = 0;
        while j < 8 {
            out |= ((images[j] >> i & 1) as u64) << (8 * (7 - i) + j);
            j += 1;
        }
        i += 1;
    }
    out
}

/// The matrix of a product by an element.
pub(super) const fn product(element: u8) -> u64 {
    let mut images = [0; 8];
    let mut j = 0;
    while j < 8 {
        images[j] = mul_const(element, 1 << j);
        j += 1;
    }
    matrix(images)
}

/// The map that changes nothing.
pub(super) const IDENTITY: u64 = product(1);

const fn mul_aes(a: u8, b: u8) -> u8 {
    let mut sum = 0_u16;
    let mut shifted = a as u16;
    let mut bit = 0;
    while bit < 8 {
        if b >> bit & 1 == 1 {
            sum ^= shifted;
        }
        shifted <<= 1;
        if shifted & 0x100 != 0 {
            shifted ^= AES_POLYNOMIAL;
        }
        bit += 1;
    }
    sum as u8
}

/// Value of the polynomial of our field at an element of the other.
const fn polynomial_at(element: u8) -> u8 {
    let mut value = 0;
    let mut bit = 9;
    while bit > 0 {
        bit -= 1;
        value = mul_aes(value, element) ^ (POLYNOMIAL >> bit & 1) as u8;
    }
    value
}

/// Powers of the image of alpha: a root of our polynomial in the other field.
const IMAGES: [u8; ORDER] = {
    let mut root = 2;
    while polynomial_at(root) != 0 {
        root += 1;
    }
    let mut out = [1; ORDER];
    let mut i = 1;
    while i < ORDER {
        out[i] = mul_aes(out[i - 1], root);
        i += 1;
    }
    out
};

/// The map to the field of GFNI.
pub(super) const TO_AES: u64 = {
    let mut images = [0; 8];
    let mut j = 0;
    while j < 8 {
        images[j] = IMAGES[j];
        j += 1;
    }
    matrix(images)
};

/// The map back.
pub(super) const FROM_AES: u64 = {
    let mut images = [0; 8];
    let mut element = 1;
    let mut i = 0;
    while i < ORDER {
        if IMAGES[i].is_power_of_two() {
            images[IMAGES[i].trailing_zeros() as usize] = element;
        }
        element = mul_const(element, 2);
        i += 1;
    }
    matrix(images)
};

const EXP: [u8; ORDER] = {
    let mut table = [1; ORDER];
    let mut i = 1;
    while i < ORDER {
        table[i] = mul_const(table[i - 1], 2);
        i += 1;
    }
    table
};

/// The last step of the transform: `SEVENTEENTH[j][c-1]` multiplies by alpha^(15cj).
pub(super) static SEVENTEENTH: [[u64; 16]; PARITY] = {
    let mut table = [[0; 16]; PARITY];
    let mut j = 0;
    while j < PARITY {
        let mut c = 1;
        while c < 17 {
            table[j][c - 1] = product(EXP[15 * c * j % ORDER]);
            c += 1;
        }
        j += 1;
    }
    table
};

/// The matrix of `parity_matrix`, each element as a matrix of bits.
pub(super) static PARITY_PRODUCTS: [[u64; PARITY]; PARITY] = {
    let mut table = [[0; PARITY]; PARITY];
    let mut i = 0;
    while i < PARITY {
        let mut k = 0;
        while k < PARITY {
            table[i][k] = product(MATRIX[i][k]);
            k += 1;
        }
        i += 1;
    }
    table
};

const MATRIX: [[u8; PARITY]; PARITY] = parity_matrix();

/// 64 bytes, as one vector.
#[repr(align(64))]
pub(super) struct Vector(pub(super) [u8; 64]);

/// `POWERS[k-1]` is alpha^(mk) for the bytes m of a row, in the field of GFNI: what coefficient k
/// of a locator is multiplied by to evaluate it at the inverse of the position of byte m.
pub(super) static POWERS: [[Vector; ROW / 64]; ERRORS_MAX] = {
    let mut table = [const { [const { Vector([0; 64]) }; ROW / 64] }; ERRORS_MAX];
    let mut k = 1;
    while k <= ERRORS_MAX {
        let mut m = 0;
        while m < ROW {
            table[k - 1][m / 64].0[m % 64] = IMAGES[m * k % ORDER];
            m += 1;
        }
        k += 1;
    }
    table
};

/// The bytes of a row, by number.
pub(super) static PLACES: [Vector; ROW / 64] = {
    let mut table = [const { Vector([0; 64]) }; ROW / 64];
    let mut m = 0;
    while m < ROW {
        table[m / 64].0[m % 64] = m as u8;
        m += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gf256::mul;

    /// What GFNI does with a matrix and a byte.
    fn map(matrix: u64, byte: u8) -> u8 {
        (0..8).fold(0, |out, i| {
            let row = (matrix >> (8 * (7 - i))) as u8;
            out | (((row & byte).count_ones() & 1) as u8) << i
        })
    }

    #[test]
    fn matrices_multiply_and_maps_keep_products() {
        for a in 0..=255_u8 {
            assert_eq!(map(FROM_AES, map(TO_AES, a)), a);
            assert_eq!(map(IDENTITY, a), a);
            for b in 0..=255_u8 {
                assert_eq!(map(product(a), b), mul(a, b));
                let there = mul_aes(map(TO_AES, a), map(TO_AES, b));
                assert_eq!(there, map(TO_AES, mul(a, b)));
            }
        }
    }
}
