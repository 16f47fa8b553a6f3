// SPDX-License-Identifier: Apache-2.0
//! The choice between the loops of `words.rs`, as they are or compiled for AVX2, and those that
//! are written out for AVX2 and for AVX-512.

#![allow(unsafe_code, reason = "calls behind a run-time feature check")]

use super::words::{self, Payload, ScramblerState};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use super::{words_avx2_simd, words_avx512_simd};
use crate::rs::Row;
use crate::simd::{Level, Simd};

/// Defines a function that runs one of `words` at a level, with AVX2 and AVX-512 as named.
macro_rules! at_level {
    (
        $by_avx2:path,
        $by_avx512:path,
        $name:ident($($argument:ident: $kind:ty),* $(,)?) $(-> $result:ty)?
    ) => {
        #[doc = concat!("`words::", stringify!($name), "` with the instructions of this level.")]
        #[inline]
        pub(super) fn $name(simd: Simd, $($argument: $kind),*) $(-> $result)? {
            #[cfg(all(target_arch = "x86_64", not(miri)))]
            {
                #[target_feature(enable = "avx2,bmi2,popcnt")]
                fn with_avx2($($argument: $kind),*) $(-> $result)? {
                    $by_avx2($($argument),*)
                }
                #[target_feature(
                    enable = "avx2,bmi2,popcnt,avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2"
                )]
                fn with_avx512($($argument: $kind),*) $(-> $result)? {
                    $by_avx512($($argument),*)
                }
                if simd.level() >= Level::Avx512 {
                    // SAFETY: a `Simd` of this level exists only where the processor has all of
                    // these.
                    return unsafe { with_avx512($($argument),*) };
                }
                if simd.level() >= Level::Avx2 {
                    // SAFETY: a `Simd` of this level exists only where the processor has AVX2,
                    // BMI2 and POPCNT.
                    return unsafe { with_avx2($($argument),*) };
                }
            }
            let _ = (simd, Level::Scalar);
            words::$name($($argument),*)
        }
    };
}

at_level!(
    words_avx2_simd::load_codewords,
    words_avx512_simd::load_codewords,
    load_codewords(
        line: &[u8],
        at: usize,
        rows: &mut [Row],
        wrong: &mut [u8]
    )
);
at_level!(
    words_avx2_simd::descramble_rows,
    words_avx512_simd::descramble_rows,
    descramble_rows(
        rows: &[Row],
        last: &mut u64,
        out: &mut [Payload]
    )
);
at_level!(
    words_avx2_simd::scramble_into_rows,
    words_avx512_simd::scramble_into_rows,
    scramble_into_rows(
        payload: &mut [Payload],
        state: &mut ScramblerState,
        rows: &mut [Row]
    )
);
at_level!(
    words_avx2_simd::store_codewords,
    words_avx512_simd::store_codewords,
    store_codewords(
        payload: &[Payload],
        rows: &[Row],
        line: &mut [u8],
        at: usize
    )
);
at_level!(
    words::copy_words,
    words::copy_words,
    copy_words(from: &[u8], shift: usize, to: &mut [u8])
);
at_level!(
    words::distances,
    words::distances,
    distances(low: u64, high: u64, pattern: u64) -> [u8; 64]
);
