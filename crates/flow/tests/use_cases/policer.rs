// SPDX-License-Identifier: Apache-2.0
//! The policer over very many random arrivals, beside a model of its window.

use std::collections::HashMap;

use super::bench::Bench;
use super::packet::udp;
use super::random::Random;

/// Arrivals of the test below. Ten million, as in `CATENA_POLICER_ARRIVALS=10000000`, take ten
/// seconds as machine code.
fn arrivals() -> u64 {
    let asked = std::env::var("CATENA_POLICER_ARRIVALS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(100_000)
}

/// As `programs/policer.yaml` says.
const INTERVAL_NS: u64 = 10_000;
const BURST: u64 = 3;
const SOURCES: u64 = 40;

/// FlowBlaze's window of a source: whether a packet passes.
fn passes(window: Option<&mut (u64, u64)>, now_ns: u64) -> bool {
    match window {
        None => true,
        Some((t_min, t_max)) if now_ns > *t_max => {
            (*t_min, *t_max) = opened(now_ns);
            true
        }
        Some((t_min, t_max)) if now_ns > *t_min => {
            (*t_min, *t_max) = (*t_min + INTERVAL_NS, *t_max + INTERVAL_NS);
            true
        }
        Some(_) => false,
    }
}

fn opened(now_ns: u64) -> (u64, u64) {
    let t_max = now_ns + INTERVAL_NS;
    (t_max - INTERVAL_NS * BURST, t_max)
}

#[test]
fn the_policer_decides_as_its_model_does() {
    let mut bench = Bench::new(include_str!("../../programs/policer.yaml"));
    let mut random = Random(0x0090_11ce);
    let frames: Vec<Vec<u8>> = (0..SOURCES as u8)
        .map(|host| {
            let from = ([11, 0, 0, host], 1024).into();
            udp(from, ([9, 9, 9, 9], 53).into(), &[])
        })
        .collect();
    let mut windows: HashMap<usize, (u64, u64)> = HashMap::new();
    let (mut passed, mut different) = (0_u64, 0_u64);
    for _ in 0..arrivals() {
        // About the rate of all, close together, or just behind each other; now and then so long
        // that all windows are over, or all flows.
        let gap_ns = match random.below(10_000) {
            0 => 70_000_000_000,
            1..=20 => 100_000,
            21..=3000 => 0,
            _ => random.below(2 * INTERVAL_NS / SOURCES),
        };
        bench.wait(gap_ns);
        if gap_ns > 60_000_000_000 {
            windows.clear();
        }
        // Few of the sources send most.
        let source = (random.below(SOURCES) * random.below(SOURCES) / SOURCES) as usize;
        let expected = passes(windows.get_mut(&source), bench.now_ns);
        windows
            .entry(source)
            .or_insert_with(|| opened(bench.now_ns));
        let found = bench.one(0, &frames[source]);
        different += u64::from((found == "out") != expected);
        passed += u64::from(expected);
    }
    let all = arrivals();
    println!("{all} arrivals, {passed} passed, {different} differences");
    assert_eq!(different, 0);
    assert!((all / 10..all * 9 / 10).contains(&passed), "{passed}");
}
