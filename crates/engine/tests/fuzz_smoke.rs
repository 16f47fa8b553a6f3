//! The entry functions of the fuzz targets for hostile peers hold on a stable compiler, in every
//! test run: random bytes, words that are nearly right, and records that were changed, from a fixed
//! seed.

#[path = "../../../fuzz/src/peer.rs"]
#[allow(
    unreachable_pub,
    reason = "public for the fuzz targets, private to this test"
)]
mod entries;

use std::panic::{AssertUnwindSafe, catch_unwind};

use catena_engine::protocol::{FromWorker, RegionName, ToWorker};

const ITERATIONS: u64 = 100_000;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// Descriptors, most of them with fields at or near what is allowed.
fn descriptors(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..random.next() % 17 {
        let near = |random: &mut Random| match random.next() % 4 {
            0 => random.next() & 0xffff_ffff,
            1 => u64::from(u32::MAX) - random.next() % 4,
            _ => random.next() % 260,
        };
        let bundled = 0x40 | random.next() & 0x3f;
        let kinds = [
            0,
            0,
            0x11,
            0x12,
            0x13,
            0x14,
            0x20,
            0x20,
            bundled,
            random.next() & 0xff,
        ];
        let kind = kinds[(random.next() % 10) as usize];
        let pool = [random.next() % 8, 1, 63, 64, random.next() & 0xff];
        let pool = pool[(random.next() % 8).saturating_sub(3) as usize];
        let offset = match random.next() % 3 {
            0 => (random.next() % 5) << 13,
            1 => (random.next() % 5) << 13 | (528 + random.next() % 64),
            _ => near(random),
        };
        bytes.extend((kind << 56 | pool << 48 | near(random)).to_le_bytes());
        bytes.extend((near(random) << 32 | offset).to_le_bytes());
    }
    bytes
}

fn record(random: &mut Random) -> Vec<u8> {
    let (from, to) = (random.next() as usize, random.next() as usize);
    let records = [
        serde_json::to_vec(&FromWorker::Made {
            region: RegionName::LaneProducer { from, to },
            len: from,
        }),
        serde_json::to_vec(&FromWorker::Violation {
            region: RegionName::Pool(3),
            count: random.next(),
        }),
        serde_json::to_vec(&ToWorker::Reclaim {
            number: 1,
            links: vec![1, 2],
            pool: 2,
            buffers: vec![1, 2, 3],
        }),
    ];
    let which = random.next() as usize % records.len();
    let mut bytes = records[which].as_ref().unwrap().clone();
    for _ in 0..random.next() % 4 {
        let at = random.next() as usize % bytes.len();
        bytes[at] = b"{}[]\":,09-e.a\\\0\xff"[random.next() as usize % 16];
    }
    bytes
}

#[test]
fn entry_functions_hold_on_what_a_hostile_peer_may_say() {
    let mut random = Random(0x0ca7_e4a0_57a7_1c05);
    for iteration in 0..ITERATIONS {
        let (name, entry) = entries::ALL[(random.next() % 3) as usize];
        let input = match (iteration % 4, name) {
            (0, _) => (0..random.next() % 200)
                .map(|_| random.next().to_le_bytes()[0])
                .collect(),
            (_, "peer_records") => record(&mut random),
            _ => descriptors(&mut random),
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| entry(&input))) {
            println!("{name} fails on {input:02x?}");
            std::panic::resume_unwind(panic);
        }
    }
}
