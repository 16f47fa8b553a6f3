// SPDX-License-Identifier: Apache-2.0
//! Entry functions of the fuzz targets: bytes in, a panic if a promise of the code breaks.
//!
//! Each is called by one target in `fuzz_targets/` with the input of the fuzzer, and by an ordinary
//! test with generated input, so that `cargo test` runs them all without a fuzzer.

pub mod bundle;
pub mod flow;
pub mod ipfix;
pub mod jit;
pub mod nat44;
pub mod pcs;
pub mod peer;
pub mod wire;
