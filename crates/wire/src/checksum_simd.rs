// SPDX-License-Identifier: Apache-2.0
//! The Internet checksum over long data, with vector instructions on x86-64.
//!
//! Only `checksum.rs` calls this. SSE2 is part of x86-64 and needs no check; AVX2 is looked for
//! once, at the first call, with CPUID, because `core` has no run-time feature detection. Other
//! processors, and interpreters of Rust's intermediate code, take the portable path.
//!
//! How: each vector of 32-bit words is split into 64-bit lanes, low halves by a mask and high
//! halves by a shift, and both are added. A lane grows by less than 2^33 per block, so it cannot
//! overflow below 2^31 blocks; packets are at most some thousand.

#![allow(
    unsafe_code,
    reason = "vector loads and a call behind a run-time feature check"
)]

/// The sum of the whole blocks at the front of `bytes`, as native-endian 32-bit words and not yet
/// folded, and the bytes that are left. Blocks have an even length, so both parts may be added.
#[inline]
pub(crate) fn sum_blocks(bytes: &[u8]) -> (u64, &[u8]) {
    imp::sum_blocks(bytes)
}

/// The name of what [`sum_blocks`] uses here.
pub(crate) fn backend() -> &'static str {
    imp::backend()
}

/// A form of [`sum_blocks`].
#[cfg(test)]
pub(crate) type SumBlocks = fn(&[u8]) -> (u64, &[u8]);

/// Every form of [`sum_blocks`] that this machine can run, by name.
#[cfg(test)]
pub(crate) fn backends() -> Vec<(&'static str, SumBlocks)> {
    imp::backends()
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use core::arch::x86_64::*;
    use core::sync::atomic::{AtomicU8, Ordering};

    #[inline]
    pub(super) fn sum_blocks(bytes: &[u8]) -> (u64, &[u8]) {
        if has_avx2() { avx2(bytes) } else { sse2(bytes) }
    }

    pub(super) fn backend() -> &'static str {
        if has_avx2() { "avx2" } else { "sse2" }
    }

    #[cfg(test)]
    #[allow(
        clippy::type_complexity,
        reason = "a type alias would be longer than its one use"
    )]
    pub(super) fn backends() -> Vec<(&'static str, super::SumBlocks)> {
        let mut all: Vec<(&'static str, super::SumBlocks)> = vec![("sse2", sse2)];
        if has_avx2() {
            all.push(("avx2", avx2));
        }
        all
    }

    fn avx2(bytes: &[u8]) -> (u64, &[u8]) {
        assert!(has_avx2());
        let (blocks, rest) = bytes.as_chunks::<32>();
        // SAFETY: the assertion above holds, so the processor has AVX2 and the system saves its
        // registers.
        (unsafe { sum_avx2(blocks) }, rest)
    }

    fn sse2(bytes: &[u8]) -> (u64, &[u8]) {
        let (blocks, rest) = bytes.as_chunks::<16>();
        // SAFETY: SSE2 is part of every x86-64 processor.
        (unsafe { sum_sse2(blocks) }, rest)
    }

    #[target_feature(enable = "avx2")]
    fn sum_avx2(blocks: &[[u8; 32]]) -> u64 {
        let low_halves = _mm256_set1_epi64x(0xffff_ffff);
        let mut low = _mm256_setzero_si256();
        let mut high = _mm256_setzero_si256();
        for block in blocks {
            // SAFETY: `block` is 32 readable bytes, and an unaligned load has no other demand.
            let words = unsafe { _mm256_loadu_si256(block.as_ptr().cast()) };
            low = _mm256_add_epi64(low, _mm256_and_si256(words, low_halves));
            high = _mm256_add_epi64(high, _mm256_srli_epi64::<32>(words));
        }
        let lanes = _mm256_add_epi64(low, high);
        let pair = _mm_add_epi64(
            _mm256_castsi256_si128(lanes),
            _mm256_extracti128_si256::<1>(lanes),
        );
        sum_lanes(pair)
    }

    #[target_feature(enable = "sse2")]
    fn sum_sse2(blocks: &[[u8; 16]]) -> u64 {
        let low_halves = _mm_set1_epi64x(0xffff_ffff);
        let mut low = _mm_setzero_si128();
        let mut high = _mm_setzero_si128();
        for block in blocks {
            // SAFETY: `block` is 16 readable bytes, and an unaligned load has no other demand.
            let words = unsafe { _mm_loadu_si128(block.as_ptr().cast()) };
            low = _mm_add_epi64(low, _mm_and_si128(words, low_halves));
            high = _mm_add_epi64(high, _mm_srli_epi64::<32>(words));
        }
        sum_lanes(_mm_add_epi64(low, high))
    }

    #[target_feature(enable = "sse2")]
    #[inline]
    fn sum_lanes(pair: __m128i) -> u64 {
        let total = _mm_add_epi64(pair, _mm_unpackhi_epi64(pair, pair));
        _mm_cvtsi128_si64(total) as u64
    }

    const UNKNOWN: u8 = 0;
    const NO: u8 = 1;
    const YES: u8 = 2;

    /// Relaxed is enough: the value depends on nothing else, and threads that race to set it all
    /// store the same.
    static AVX2: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    fn has_avx2() -> bool {
        match AVX2.load(Ordering::Relaxed) {
            UNKNOWN => {
                let found = detect_avx2();
                AVX2.store(if found { YES } else { NO }, Ordering::Relaxed);
                found
            }
            known => known == YES,
        }
    }

    /// Intel SDM volume 1, 14.7.1: OSXSAVE and AVX, then XCR0 shows that the system saves XMM and
    /// YMM registers, then AVX2.
    #[cold]
    fn detect_avx2() -> bool {
        const OSXSAVE_AND_AVX: u32 = 1 << 27 | 1 << 28;
        const XMM_AND_YMM: u64 = 1 << 1 | 1 << 2;
        const AVX2: u32 = 1 << 5;
        let (leaf_max, _) = __get_cpuid_max(0);
        if leaf_max < 7 || __cpuid(1).ecx & OSXSAVE_AND_AVX != OSXSAVE_AND_AVX {
            return false;
        }
        // SAFETY: OSXSAVE is set, so the instruction exists and is enabled.
        let saved = unsafe { _xgetbv(0) };
        saved & XMM_AND_YMM == XMM_AND_YMM && __cpuid_count(7, 0).ebx & AVX2 != 0
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    pub(super) fn sum_blocks(bytes: &[u8]) -> (u64, &[u8]) {
        (0, bytes)
    }

    pub(super) fn backend() -> &'static str {
        "portable"
    }

    #[cfg(test)]
    pub(super) fn backends() -> Vec<(&'static str, super::SumBlocks)> {
        vec![("portable", sum_blocks)]
    }
}
