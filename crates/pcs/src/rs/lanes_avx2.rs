// SPDX-License-Identifier: Apache-2.0
//! Between rows and lanes with AVX2: a vector for each byte of a row that holds this byte of 32
//! rows, and back.

#![allow(
    unsafe_code,
    reason = "memory that is not cleared before it is written"
)]

use core::arch::x86_64::*;
use core::mem::MaybeUninit;

use super::factors_avx2::{load_half, sixteen};
use super::{LANES, PARITY, ROW, Row};

/// Vectors that are written before they are read. To clear such memory would take as long as an
/// eighth of the transform that it is for.
pub(super) struct Unset<const N: usize>([MaybeUninit<__m256i>; N]);

impl<const N: usize> Unset<N> {
    #[inline]
    pub(super) fn new() -> Self {
        Self([const { MaybeUninit::uninit() }; N])
    }

    #[inline]
    pub(super) fn places(&mut self) -> &mut [MaybeUninit<__m256i>; N] {
        &mut self.0
    }

    /// All vectors.
    ///
    /// # Safety
    ///
    /// Each must have been written.
    #[inline]
    pub(super) unsafe fn vectors(&self) -> &[__m256i; N] {
        // SAFETY: `MaybeUninit` has the layout of what it holds, which the caller has written.
        unsafe { &*self.0.as_ptr().cast() }
    }
}

/// Transposes 16 x 16 bytes in each half of 16 vectors: four rounds of a perfect shuffle.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_halves(mut rows: [__m256i; 16]) -> [__m256i; 16] {
    for _ in 0..4 {
        let mut next = rows;
        for i in 0..8 {
            next[2 * i] = _mm256_unpacklo_epi8(rows[i], rows[i + 8]);
            next[2 * i + 1] = _mm256_unpackhi_epi8(rows[i], rows[i + 8]);
        }
        rows = next;
    }
    rows
}

/// Columns of up to 32 rows: vector m holds byte m of each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn columns<'a>(rows: &[Row], memory: &'a mut Unset<ROW>) -> &'a [__m256i; ROW] {
    const NONE: Row = Row::ZERO;
    if let Some(rows) = rows.first_chunk::<LANES>() {
        fill_columns(|lane| &rows[lane], memory);
    } else {
        let mut lanes = [&NONE; LANES];
        for (lane, row) in lanes.iter_mut().zip(rows) {
            *lane = row;
        }
        fill_columns(|lane| lanes[lane], memory);
    }
    // SAFETY: `fill_columns` writes all of them.
    unsafe { memory.vectors() }
}

/// Writes each vector of `memory`.
#[inline]
#[target_feature(enable = "avx2")]
fn fill_columns<'a>(row: impl Fn(usize) -> &'a Row, memory: &mut Unset<ROW>) {
    const { assert!(ROW.is_multiple_of(16)) };
    let groups = memory.places().as_chunks_mut::<16>().0;
    for (group, places) in groups.iter_mut().enumerate() {
        let mut vectors = [_mm256_setzero_si256(); 16];
        for (lane, vector) in vectors.iter_mut().enumerate() {
            let low = load_half(sixteen(&row(lane).0, 16 * group));
            let high = load_half(sixteen(&row(lane + 16).0, 16 * group));
            *vector = _mm256_set_m128i(high, low);
        }
        for (place, vector) in places.iter_mut().zip(transpose_halves(vectors)) {
            place.write(vector);
        }
    }
}

/// From lanes back to rows: gives the 32 bytes of each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn hand_out(vectors: &[__m256i; PARITY], mut put: impl FnMut(usize, __m256i)) {
    let half = |from: usize| -> [__m256i; 16] {
        vectors[from..from + 16]
            .try_into()
            .expect("16 of 32 vectors")
    };
    let (front, back) = (transpose_halves(half(0)), transpose_halves(half(16)));
    for (lane, (front, back)) in front.into_iter().zip(back).enumerate() {
        put(lane, _mm256_permute2x128_si256::<0x20>(front, back));
        put(lane + 16, _mm256_permute2x128_si256::<0x31>(front, back));
    }
}
