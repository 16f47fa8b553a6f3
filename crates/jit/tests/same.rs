// SPDX-License-Identifier: Apache-2.0
//! Goal: compiled code does what the interpreter does.
//! Method: the fuzz target's function, fed with random bytes of many lengths: a random program and
//! random bursts of packets each, run by both, all that can be seen compared. What differs is made
//! smaller as long as it differs, and printed; the seed is fixed, so that it comes again.

#[path = "../../../fuzz/src/jit.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
#[allow(dead_code, reason = "the fuzz target's entry is not called here")]
mod entries;

#[path = "../../flow/tests/random/mod.rs"]
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind, set_hook, take_hook};

use random::Random;

/// Random cases. A failure names its case's bytes.
const CASES: usize = 3000;
/// Tries to make a failing case smaller.
const SHRINK_TRIES: usize = 2000;

fn fails(input: &[u8]) -> bool {
    catch_unwind(AssertUnwindSafe(|| entries::compare(input))).is_err()
}

/// A case that fails too, with parts taken out and bytes made zero.
fn smaller(mut input: Vec<u8>) -> Vec<u8> {
    let mut tries = 0;
    let mut size = input.len() / 2;
    while size > 0 && tries < SHRINK_TRIES {
        let mut at = 0;
        while at < input.len() && tries < SHRINK_TRIES {
            tries += 2;
            let end = (at + size).min(input.len());
            let without = [&input[..at], &input[end..]].concat();
            let mut zeroed = input.clone();
            zeroed[at..end].fill(0);
            if fails(&without) {
                input = without;
            } else {
                if zeroed != input && fails(&zeroed) {
                    input = zeroed;
                }
                at += size;
            }
        }
        size /= 2;
    }
    input
}

#[test]
fn compiled_code_does_what_the_interpreter_does() {
    let mut random = Random(0x0ca7_e4a1);
    let mut packets = 0;
    for case in 0..CASES {
        let len = random.below([200, 600, 1500, 4000][case % 4]) as usize;
        let input = random.bytes(len);
        match catch_unwind(AssertUnwindSafe(|| entries::compare(&input))) {
            Ok(count) => packets += count,
            Err(_) => {
                // Failures on the way would fill the screen.
                let hook = take_hook();
                set_hook(Box::new(|_| {}));
                let input = smaller(input);
                set_hook(hook);
                println!("case {case}: differs on {input:02x?}");
                let panic = catch_unwind(AssertUnwindSafe(|| entries::compare(&input)));
                resume_unwind(panic.err().unwrap_or_else(|| Box::new("it did differ")));
            }
        }
    }
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        assert!(packets > 5 * CASES, "{packets} packets were compared");
    }
}
