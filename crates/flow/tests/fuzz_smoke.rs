// SPDX-License-Identifier: Apache-2.0
//! Goal: the entry functions of the fuzz targets hold on a stable compiler, in every test run.
//! Method: the same functions as in `fuzz/`, fed with random bytes of many lengths.

#[path = "../../../fuzz/src/flow.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};

use random::Random;

const ITERATIONS: usize = 5_000;

#[test]
fn entry_functions_hold_on_generated_bytes() {
    let mut random = Random(0x0ca7_e4a0);
    for iteration in 0..ITERATIONS {
        let limit = [8, 40, 300, 2000][random.below(4) as usize];
        let len = random.below(limit) as usize;
        let mut input = random.bytes(len);
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
