// SPDX-License-Identifier: Apache-2.0
//! Goal: the entry functions of the fuzz targets hold on a stable compiler, in every test run.
//! Method: the same functions as in `fuzz/`, fed with random bytes of many lengths and densities.

#[path = "../../../fuzz/src/pcs.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

mod line;

use line::Random;
use std::panic::{AssertUnwindSafe, catch_unwind};

const ITERATIONS: usize = 400;

#[test]
fn entry_functions_hold_on_generated_bytes() {
    let mut random = Random(0x0ca7_e4a0);
    for iteration in 0..ITERATIONS {
        let limit = [4, 40, 300, 1500][random.below(4)];
        let len = random.below(limit);
        let mut input = random.bytes(len);
        if iteration % 3 == 0 {
            // Few errors: most bytes zero.
            let keep = random.below(24);
            input.iter_mut().skip(keep).for_each(|byte| *byte = 0);
        }
        if iteration % 5 == 0 {
            input.splice(0..0, [b'C', b'A', b'T', b'L', b'I', b'N', b'E', b'1', 0, 3]);
        }
        let (name, entry) = entries::ALL[random.below(entries::ALL.len())];
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
