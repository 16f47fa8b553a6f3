// SPDX-License-Identifier: Apache-2.0
//! Goal: the entry functions of the fuzz targets hold on a stable compiler, in every test run.
//! Method: the same functions as in `fuzz/`, fed with random bytes and with valid packets that were
//! mutated and cut, from a fixed seed. A failure prints the input; it needs no seed to repeat.

#[path = "../../../fuzz/src/wire.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

mod packets;

use packets::{Random, seeds};
use std::panic::{AssertUnwindSafe, catch_unwind};

const ITERATIONS: usize = 200_000;

#[test]
fn entry_functions_hold_on_generated_bytes() {
    let mut random = Random(0x0ca7_e4a0_57a7_1c05);
    let seeds = seeds();
    for iteration in 0..ITERATIONS {
        let input = if iteration % 4 == 0 {
            let len = random.below(120);
            random.bytes(len)
        } else {
            let mut packet = seeds[random.below(seeds.len())].clone();
            random.mutate(&mut packet);
            packet
        };
        let (name, entry) = entries::ALL[random.below(entries::ALL.len())];
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}

/// A generator whose packets all fail to parse would test nothing.
#[test]
fn valid_packets_are_dissected() {
    let found = seeds()
        .iter()
        .filter_map(|seed| catena_wire::dissect::Dissected::parse(seed).ok())
        .filter(|found| found.ip.is_some())
        .count();
    assert!(found >= 7, "only {found}");
    for (_, entry) in entries::ALL {
        seeds().iter().for_each(|seed| entry(seed));
    }
}
