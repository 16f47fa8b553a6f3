// SPDX-License-Identifier: Apache-2.0
//! Goal: the entry functions of the fuzz targets hold on a stable compiler, in every test run.
//! Method: the same functions as in `fuzz/`, fed with random bytes of many lengths.

#[path = "../../../fuzz/src/flow.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

use std::panic::{AssertUnwindSafe, catch_unwind};

const ITERATIONS: usize = 5_000;

#[test]
fn entry_functions_hold_on_generated_bytes() {
    let mut state = 0x0ca7_e4a0u64;
    let mut random = || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32
    };
    for iteration in 0..ITERATIONS {
        let limit = [8, 40, 300, 2000][random() as usize % 4];
        let len = random() as usize % limit;
        let mut input: Vec<u8> = (0..len).map(|_| random() as u8).collect();
        // The header with its lists is a third of the memory; links are what matters.
        if iteration % 2 == 0 {
            for change in input.get_mut(1..).unwrap_or_default().chunks_exact_mut(5) {
                change[1] &= 3;
            }
        }
        // Half of the inputs leave the identity alone.
        if let Some(first) = input.first_mut().filter(|_| iteration % 16 != 0) {
            *first &= 0x7f;
        }
        let (name, entry) = entries::ALL[usize::from(iteration % 8 == 7)];
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
