// SPDX-License-Identifier: Apache-2.0
//! GF(2^8) modulo x^8+x^4+x^3+x^2+1, as tables made when the crate is compiled.
//!
//! IEEE 802.3 76.3.2.4.1 names the field by its primitive polynomial (0x11D) and its primitive
//! element (0x02). The reference path does not use these tables: it multiplies bit by bit.

/// x^8+x^4+x^3+x^2+1 with its leading term.
pub const POLYNOMIAL: u16 = 0x11d;
/// Number of non-zero elements, which is the order of the primitive element.
pub const ORDER: usize = 255;
/// What `LOG` holds for zero: so large that `EXP` gives zero for every sum with it.
const LOG_OF_ZERO: u16 = 512;

/// `EXP[i]` is alpha^i for i up to 510; zero from 512 on, where sums with the log of zero land.
pub(crate) static EXP: [u8; 1025] = exp_table();
/// Discrete logarithm; 512 for zero.
pub(crate) static LOG: [u16; 256] = log_table();
/// Logarithm of the inverse; 512 for zero.
pub(crate) static INVERSE_LOG: [u16; 256] = inverse_log_table();

/// Products by nibble: `MUL[a][n]` is a·n, `MUL[a][16 + n]` is a·(n << 4).
///
/// A byte shuffle with such a row multiplies a whole vector by `a`.
///
/// Aligned, so that no load of half a row runs across two lines of the cache.
pub(crate) static MUL: Products = Products(mul_table());

/// Rows of products by nibble.
#[repr(align(32))]
pub(crate) struct Products(pub(crate) [[u8; 32]; 256]);

/// Product of two elements.
#[inline]
pub fn mul(a: u8, b: u8) -> u8 {
    EXP[usize::from(LOG[usize::from(a)] + LOG[usize::from(b)])]
}

/// Multiplicative inverse; zero for zero.
#[inline]
pub fn inverse(a: u8) -> u8 {
    if a == 0 {
        return 0;
    }
    EXP[ORDER - usize::from(LOG[usize::from(a)])]
}

/// alpha to the power of `exponent`.
#[inline]
pub fn power(exponent: usize) -> u8 {
    EXP[exponent % ORDER]
}

/// Product for tables: shift and reduce.
pub(crate) const fn mul_const(a: u8, b: u8) -> u8 {
    let mut sum = 0_u16;
    let mut shifted = a as u16;
    let mut bit = 0;
    while bit < 8 {
        if b >> bit & 1 == 1 {
            sum ^= shifted;
        }
        shifted <<= 1;
        if shifted & 0x100 != 0 {
            shifted ^= POLYNOMIAL;
        }
        bit += 1;
    }
    sum as u8
}

const fn exp_table() -> [u8; 1025] {
    let mut table = [0; 1025];
    let mut value = 1;
    let mut i = 0;
    while i <= 510 {
        table[i] = value;
        value = mul_const(value, 2);
        i += 1;
    }
    table
}

const fn log_table() -> [u16; 256] {
    let exp = exp_table();
    let mut table = [LOG_OF_ZERO; 256];
    let mut i = 0;
    while i < ORDER {
        table[exp[i] as usize] = i as u16;
        i += 1;
    }
    table
}

const fn inverse_log_table() -> [u16; 256] {
    let mut table = log_table();
    let mut a = 1;
    while a < 256 {
        table[a] = ORDER as u16 - table[a];
        a += 1;
    }
    table
}

const fn mul_table() -> [[u8; 32]; 256] {
    let mut table = [[0; 32]; 256];
    let mut a = 0;
    while a < 256 {
        table[a] = products(a as u8);
        a += 1;
    }
    table
}

/// Products of an element by nibble, as in `MUL`.
pub(crate) const fn products(a: u8) -> [u8; 32] {
    let mut row = [0; 32];
    let mut n = 0;
    while n < 16 {
        row[n] = mul_const(a, n as u8);
        row[16 + n] = mul_const(a, (n as u8) << 4);
        n += 1;
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_agree_with_shift_and_reduce() {
        for a in 0..=255_u8 {
            for b in 0..=255_u8 {
                let row = &MUL.0[usize::from(a)];
                let by_nibble = row[usize::from(b & 15)] ^ row[16 + usize::from(b >> 4)];
                assert_eq!(mul(a, b), mul_const(a, b));
                assert_eq!(by_nibble, mul_const(a, b));
            }
            assert_eq!(mul(a, inverse(a)), u8::from(a != 0));
        }
    }
}
