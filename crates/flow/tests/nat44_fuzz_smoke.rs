// SPDX-License-Identifier: Apache-2.0
//! Goal: the fuzz target of `nat44` holds on a stable compiler, in every test run.
//! Method: the same function as in `fuzz/`, fed with random bytes as packets of both sides.

#[path = "../../../fuzz/src/nat44.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

mod random;

use std::panic::{AssertUnwindSafe, catch_unwind};

use random::Random;

const ITERATIONS: usize = 400;

#[test]
fn the_entry_function_holds_on_generated_bytes() {
    let mut random = Random(0x0ca7_e4a0);
    for _ in 0..ITERATIONS {
        let len = 1 + 6 * random.below(60) as usize;
        let mut input = random.bytes(len);
        // Half of the changes fall behind the frame: it is as it was.
        for step in input[1..].chunks_exact_mut(6) {
            if step[0] & 3 != 0 {
                step[2] |= 0x80;
            }
            if step[0] & 0x0c != 0 {
                step[0] &= !0x40;
                step[4] |= 0x80;
            }
        }
        let [(name, entry)] = entries::ALL;
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
