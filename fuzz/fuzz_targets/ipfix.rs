// SPDX-License-Identifier: Apache-2.0
//! Fuzzes `catena_fuzz::ipfix::ipfix`.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| catena_fuzz::ipfix::ipfix(data));
