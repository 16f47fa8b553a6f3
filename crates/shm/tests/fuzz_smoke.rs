//! The entry functions of the fuzz targets for bundles hold on a stable compiler, in every test
//! run: random bytes, and steps that are nearly right, from a fixed seed.
#![cfg(not(loom))]

#[path = "../../../fuzz/src/bundle.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

use std::panic::{AssertUnwindSafe, catch_unwind};

const ITERATIONS: u64 = 30_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn one_of(&mut self, values: &[u64]) -> u64 {
        values[(self.next() % values.len() as u64) as usize]
    }
}

/// A step with fields at or near what is allowed.
fn step(random: &mut Random) -> Vec<u8> {
    let what = random.next() % 6;
    let any = random.next();
    let mask = random.next() & random.next();
    let mask = random.one_of(&[1, 3, 0xff, 0x00ff_0000, u64::MAX, mask]);
    let described = |kind: u64, offset: u64, mask: u64| {
        let (low, high) = (mask & 0xffff_ffff, mask >> 32);
        (kind << 56 | 1 << 48 | low, high << 32 | offset)
    };
    let (first, second) = match what {
        0 => (1 + any % 64, random.one_of(&[64, 1, 60, 256])),
        1 => described(0x30, any % 5, mask),
        2 => {
            let len = random.one_of(&[529, 600, 2000, 4096, 4097]);
            described(0x20, 0, (1 + any % 65) << 32 | len)
        }
        3 if any.is_multiple_of(2) => described(0x20, ((any >> 8) % 5) << 12, mask),
        3 => {
            let (headroom, len) = (random.next() % 80, random.next() % 200);
            let offset = random.one_of(&[528, 600, 4000, 16_000, 20_000, any & 0xffff_ffff]);
            described(0x40 | (any % 64), offset, headroom << 16 | len)
        }
        // An entry of a table: offset and length as they could be, or not.
        _ => {
            let offset = random.one_of(&[527, 528, 560, 700, 4000, 4095, 4096, 65_535, any]);
            let len = random.one_of(&[0, 1, 64, 96, 1000, 65_535, any >> 16]);
            let at = ((any % 4) << 12) + 16 + 8 * (any >> 8 & 63);
            (at, (offset & 0xffff) | (len & 0xffff) << 16)
        }
    };
    let mut bytes = vec![what.to_le_bytes()[0]];
    bytes.extend(first.to_le_bytes());
    bytes.extend(second.to_le_bytes());
    bytes
}

#[test]
fn entry_functions_hold_on_whatever_a_peer_writes_into_bundles() {
    let mut random = Random(0x0ca7_e4a0_f4a3_e001);
    for iteration in 0..ITERATIONS {
        let (name, entry) = entries::ALL[(random.next() % entries::ALL.len() as u64) as usize];
        let input: Vec<u8> = if iteration % 4 == 0 {
            (0..random.next() % 300)
                .map(|_| random.next().to_le_bytes()[0])
                .collect()
        } else {
            (0..random.next() % 40)
                .flat_map(|_| step(&mut random))
                .collect()
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
