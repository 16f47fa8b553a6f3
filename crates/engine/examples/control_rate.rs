//! How many changes a second pass from the control half of an NF to its data half, and what they
//! cost the packets: `cargo run --release -p catena-engine --example control_rate`.
//!
//! A data half takes changes between bursts as a worker does, at most `BUDGET` at a time, while a
//! control half sends 200,000 a second; then the same bursts without changes. Printed: the rate,
//! and the longest that packets waited for a burst and what was taken before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catena_engine::nf::exchange::{BUDGET, DataEnd, exchange};

const RATE: u64 = 200_000;
const SECONDS: u64 = 2;

/// What a change says: a key and its new value.
struct Change {
    key: usize,
    value: u64,
}

/// Time that a burst of 32 lookups took, with what was taken before it; longest, and mean.
fn bursts(data: &DataEnd<Change, Change>, end: &AtomicBool) -> (u64, Duration, Duration) {
    let mut table = vec![0_u64; 1 << 16];
    let (mut taken, mut count, mut longest) = (0, 0_u32, Duration::ZERO);
    let began = Instant::now();
    let mut key = 1_usize;
    while !end.load(Ordering::Relaxed) {
        let start = Instant::now();
        data.drain(BUDGET, |change| {
            table[change.key % (1 << 16)] = change.value;
            taken += 1;
            Some(change)
        });
        for _ in 0..32 {
            key = key.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1) >> 3;
            std::hint::black_box(table[key % (1 << 16)]);
        }
        longest = longest.max(start.elapsed());
        count += 1;
    }
    (taken, longest, began.elapsed() / count.max(1))
}

fn measure(rate: u64) {
    let (control, data) = exchange::<Change, Change>(4096);
    let end = Arc::new(AtomicBool::new(false));
    let is_end = end.clone();
    let data_half = std::thread::spawn(move || bursts(&data, &is_end));
    let start = Instant::now();
    let (mut sent, mut busy) = (0, 0_u64);
    while start.elapsed() < Duration::from_secs(SECONDS) {
        while control.receive().is_some() {}
        let elapsed = u64::try_from(start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let due = elapsed.saturating_mul(rate) / 1_000_000;
        while sent < due {
            let change = Change {
                key: usize::try_from(sent).unwrap_or(0),
                value: sent,
            };
            if control.send(Box::new(change)).is_err() {
                busy += 1;
                break;
            }
            sent += 1;
        }
        std::thread::yield_now();
    }
    end.store(true, Ordering::Relaxed);
    let (taken, longest, mean) = data_half.join().expect("the data half");
    println!(
        "{rate:>7} changes/s asked, {:>7} taken/s, {busy} times busy; packets wait {mean:?} on \
         average, longest pause {longest:?}",
        taken / SECONDS
    );
}

fn main() {
    for rate in [0, RATE, 0, RATE] {
        measure(rate);
    }
}
