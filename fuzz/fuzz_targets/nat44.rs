// SPDX-License-Identifier: Apache-2.0
//! Fuzzes `catena_fuzz::nat44::nat44`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| catena_fuzz::nat44::nat44(data));
