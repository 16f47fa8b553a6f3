// SPDX-License-Identifier: Apache-2.0
//! Reed-Solomon with 32 parity octets over GF(2^8): RS(255,223) of 10G-EPON. The fast path.
//!
//! A codeword lies in a [`Row`] of 256 bytes, right-aligned: data, then P31..P0. What precedes the
//! data is zero and is not sent. Encoding is a sum of constant vectors, one per data byte. Decoding
//! takes three steps:
//!
//! 1. syndromes: 32 rows at once by a transform of length 255 = 3·5·17 whose lanes are rows, or row
//!    by row as a sum of constant vectors. All zero: the row is clean, and that is all;
//! 2. the locator by a recursion of Berlekamp and Massey that keeps future discrepancies in
//!    vectors: when all of them are zero the rest of the 32 steps is skipped, so that v errors cost
//!    2v steps;
//! 3. positions by evaluation at every byte of the row, values by Forney's formula; with AVX2, one
//!    and two errors in closed form.
//!
//! A row is corrected only if the locator has as many distinct roots as its degree, all inside the
//! part that was sent: by construction the result is then a codeword. Anything else leaves the row
//! as it was.
//!
//! IEEE 802.3 76.3.2.4.1 (field, generator with roots alpha^0..alpha^31).

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod correct_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod correct_gfni_simd;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod factors_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod lanes_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod locator_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod products_simd;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rs_avx2;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod rs_gfni_simd;
mod scalar;
mod tables;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod tables_gfni;
#[cfg(test)]
mod tests;
#[cfg(all(target_arch = "x86_64", not(miri)))]
mod transform_avx2;

use crate::simd::{Level, Simd};

/// Parity octets of a codeword.
pub const PARITY: usize = 32;
/// Symbol errors that can be corrected.
pub const ERRORS_MAX: usize = PARITY / 2;
/// Bytes of a row.
pub const ROW: usize = 256;
/// Rows that are decoded at once where there are that many.
pub const LANES: usize = 32;

/// A codeword, right-aligned in 256 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct Row(pub [u8; ROW]);

impl Row {
    /// All zero, which is a codeword.
    pub const ZERO: Self = Self([0; ROW]);
}

/// What became of a codeword.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Correction {
    /// No error was found.
    #[default]
    Clean,
    /// Errors were found and corrected.
    Corrected {
        /// Symbols that were wrong.
        symbols: u8,
        /// Bits that arrived as 1 and were 0.
        ones: u8,
        /// Bits that arrived as 0 and were 1.
        zeros: u8,
    },
    /// More errors than can be corrected; the row is as it arrived.
    Uncorrectable,
}

/// Which bytes of a row are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// First byte of a row that is part of the codeword.
    first_byte: u8,
    /// Bits of that byte that are sent.
    first_mask: u8,
}

impl Code {
    /// RS(255,223) with all octets sent.
    pub const FULL: Self = Self {
        first_byte: 1,
        first_mask: 0xff,
    };
    /// RS(255,223) of 10G-EPON: 29 zero bits in front are not sent (IEEE 802.3 76.3.2.4.1), so
    /// that octets D222 to D220 and bits 0 to 4 of D219 cannot be wrong.
    pub const EPON: Self = Self {
        first_byte: 4,
        first_mask: 0xe0,
    };

    /// Whether an error cannot be one: its value, to be added to this byte, is zero, or in bits
    /// that are not sent.
    #[inline(always)]
    const fn is_outside(self, byte: u8, value: u8) -> bool {
        value == 0
            || byte <= self.first_byte && (byte < self.first_byte || value & !self.first_mask != 0)
    }

    /// Data octets of a codeword, counting one that is sent in part.
    pub const fn data_len(self) -> usize {
        ROW - PARITY - self.first_byte as usize
    }
}

/// Encoder and decoder of one code.
#[derive(Clone, Copy, Debug)]
pub struct Codec {
    code: Code,
    simd: Simd,
}

/// Syndromes, with zeros in front so that vectors shifted by up to 16 bytes can be loaded.
#[derive(Clone, Copy)]
#[repr(align(16))]
struct Syndromes([u8; ERRORS_MAX + PARITY]);

impl Syndromes {
    const ZERO: Self = Self([0; ERRORS_MAX + PARITY]);

    #[inline]
    fn values(&self) -> &[u8; PARITY] {
        self.0[ERRORS_MAX..]
            .try_into()
            .expect("32 bytes follow the zeros")
    }

    #[inline]
    fn values_mut(&mut self) -> &mut [u8; PARITY] {
        (&mut self.0[ERRORS_MAX..])
            .try_into()
            .expect("32 bytes follow the zeros")
    }
}

impl Codec {
    /// A codec at a level of vector instructions.
    pub fn new(code: Code, simd: Simd) -> Self {
        Self { code, simd }
    }

    /// Computes the parity of each row over its data, and writes it to the row.
    ///
    /// Bytes in front of the data must be zero.
    pub fn encode_rows(&self, rows: &mut [Row]) {
        match self.simd.level() {
            Level::Scalar => rows.iter_mut().for_each(scalar::encode),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Level::Avx2 => rs_avx2::encode_rows(self.simd, rows),
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            Level::Avx512 => rs_gfni_simd::encode_rows(self.simd, rows),
            #[cfg(not(all(target_arch = "x86_64", not(miri))))]
            Level::Avx2 | Level::Avx512 => rows.iter_mut().for_each(scalar::encode),
        }
    }

    /// Corrects each row in place and says what became of it.
    ///
    /// Bytes in front of the codeword must be zero. Work is bounded by the number of rows.
    ///
    /// # Panics
    ///
    /// If there are fewer verdicts than rows.
    pub fn decode_rows(&self, rows: &mut [Row], verdicts: &mut [Correction]) {
        assert!(verdicts.len() >= rows.len(), "a verdict for each row");
        for (rows, verdicts) in rows.chunks_mut(LANES).zip(verdicts.chunks_mut(LANES)) {
            match self.simd.level() {
                Level::Scalar => self.decode_scalar(rows, verdicts),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Level::Avx2 => rs_avx2::decode_rows(self.simd, self.code, rows, verdicts),
                #[cfg(all(target_arch = "x86_64", not(miri)))]
                Level::Avx512 => rs_gfni_simd::decode_rows(self.simd, self.code, rows, verdicts),
                #[cfg(not(all(target_arch = "x86_64", not(miri))))]
                Level::Avx2 | Level::Avx512 => self.decode_scalar(rows, verdicts),
            }
        }
    }

    fn decode_scalar(&self, rows: &mut [Row], verdicts: &mut [Correction]) {
        for (row, verdict) in rows.iter_mut().zip(verdicts) {
            *verdict = scalar::decode(self.code, row);
        }
    }

    /// Encodes one codeword given as data octets without what precedes them.
    ///
    /// # Panics
    ///
    /// If `data` has not the length of the code's data.
    pub fn parity(&self, data: &[u8]) -> [u8; PARITY] {
        let mut rows = [Row::ZERO];
        let first = usize::from(self.code.first_byte);
        rows[0].0[first..ROW - PARITY].copy_from_slice(data);
        self.encode_rows(&mut rows);
        rows[0].0[ROW - PARITY..].try_into().expect("32 octets")
    }

    /// Corrects one codeword, data octets and parity, in place.
    ///
    /// # Panics
    ///
    /// If `codeword` has not the length of the code's data and parity.
    pub fn decode(&self, codeword: &mut [u8]) -> Correction {
        let mut rows = [Row::ZERO];
        let mut verdict = [Correction::Clean];
        let first = usize::from(self.code.first_byte);
        rows[0].0[first..].copy_from_slice(codeword);
        self.decode_rows(&mut rows, &mut verdict);
        codeword.copy_from_slice(&rows[0].0[first..]);
        verdict[0]
    }
}

/// Flips what was wrong in a row, if all of it lies in what was sent.
///
/// `errors` are pairs of a byte of the row and the value to add.
#[inline(always)]
fn apply(code: Code, row: &mut Row, errors: &[(u8, u8)]) -> Correction {
    if errors
        .iter()
        .any(|&(byte, value)| code.is_outside(byte, value))
    {
        return Correction::Uncorrectable;
    }
    let (mut ones, mut all) = (0, 0);
    for &(byte, value) in errors {
        let received = &mut row.0[usize::from(byte)];
        ones += (*received & value).count_ones();
        all += value.count_ones();
        *received ^= value;
    }
    let zeros = all - ones;
    Correction::Corrected {
        symbols: errors.len() as u8,
        ones: ones as u8,
        zeros: zeros as u8,
    }
}
