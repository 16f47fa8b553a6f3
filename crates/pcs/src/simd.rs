// SPDX-License-Identifier: Apache-2.0
//! Which vector instructions the fast path may use: asked once when a transmitter or receiver is
//! made, so that the packet path never asks.

/// A level of vector instructions that this processor has. A value can be made only by asking the
/// processor, so holding one is the proof that calls behind it are sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simd(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Scalar,
    /// AVX2, and with it carry-less multiplication (PCLMULQDQ) and POPCNT.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "no such processor")
    )]
    Avx2,
    /// What AVX2 has, and AVX-512 (F, BW, DQ, VL, VBMI, VBMI2) with products in GF(2^8) (GFNI).
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "no such processor")
    )]
    Avx512,
}

impl Simd {
    /// Portable code only.
    pub const SCALAR: Self = Self(Level::Scalar);

    /// The best level of this processor.
    pub fn best() -> Self {
        Self::all().last().unwrap_or(Self::SCALAR)
    }

    /// Every level of this processor, the slowest first.
    pub fn all() -> impl Iterator<Item = Self> {
        [Self::SCALAR]
            .into_iter()
            .chain(has_avx2().then_some(Self(Level::Avx2)))
            .chain((has_avx2() && has_avx512()).then_some(Self(Level::Avx512)))
    }

    /// Its name, for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            Level::Scalar => "scalar",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    pub(crate) fn level(self) -> Level {
        self.0
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("pclmulqdq")
        && is_x86_feature_detected!("popcnt")
        && is_x86_feature_detected!("bmi2")
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("gfni")
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_avx512() -> bool {
    false
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn has_avx2() -> bool {
    false
}
