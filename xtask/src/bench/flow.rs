//! `bench flow`: the flow table alone, by number of flows, beside DPDK's rte_hash and bare memory.
//!
//! One thread looks keys up, 64 at a time, in a table that is full of flows. Keys are made anew for
//! each burst, so that all of the table is used, and outside the time that counts. rte_hash does
//! the same in a small C program that is built here.
//!
//! SPDX-License-Identifier: Apache-2.0

mod bare;
pub(crate) mod dnat;
pub(crate) mod nftables;
pub(super) mod programs;
mod rte_hash;
mod samples;
mod traffic;
mod windows;
pub(super) mod workload;

use std::path::Path;
use std::time::Duration;

use super::extent::Extent;
use super::huge_pages::HugePages;
use super::report::{Row, Target};
use super::series::Series;
use workload::{Work, Workload};

const SIZES: [u32; 4] = [1_000, 100_000, 1_000_000, 10_000_000];
/// Pages of 2 MB for the largest table: rte_hash wants 1.25 GiB for 10 M flows, ours less.
const HUGE_PAGES: u64 = 720;
/// Words of state: with a key of two words, an entry of 32 bytes, as large as rte_hash's.
const STATE_WORDS: u32 = 1;
/// With a key of two words, an entry of a whole line.
const STATE_WORDS_LINE: u32 = 5;

/// Workloads, how they are called, and what the C program calls them.
const WORKS: [(Work, &str, Option<&str>); 6] = [
    (Work::Hit, "hits", Some("hit")),
    (Work::Miss, "misses", Some("miss")),
    (Work::Attack, "full, random keys, refused", Some("attack")),
    (Work::Churn(100), "1 % new flows", Some("churn1")),
    (Work::Churn(10), "10 % new flows", Some("churn10")),
    (Work::Evict, "full, random keys, evicting", None),
];

/// What is measured at one number of flows.
#[derive(Default)]
struct Measured {
    own: [Series; WORKS.len()],
    peer: [Series; WORKS.len()],
    floor: Series,
    line: Series,
}

fn measure(flows: u32, time: Duration, peer: &rte_hash::RteHash, into: &mut Measured) -> bool {
    let mut is_huge = false;
    match Workload::new(flows, STATE_WORDS) {
        Ok(mut workload) => {
            is_huge = workload.is_huge();
            for ((work, ..), own) in WORKS.iter().zip(&mut into.own) {
                own.push(Ok::<_, String>(workload.rate(*work, time)));
            }
            into.floor.push(Ok::<_, String>(workload.floor(time)));
        }
        Err(error) => {
            let all = into.own.iter_mut().chain([&mut into.floor]);
            all.for_each(|series| series.push(Err(&error)));
        }
    }
    // The first table has given its memory back by now.
    let line = Workload::new(flows, STATE_WORDS_LINE);
    into.line
        .push(line.map(|mut workload| workload.rate(Work::Hit, time)));
    let rates = peer.rates(flows, time, is_huge);
    for ((.., name), peer) in WORKS.iter().zip(&mut into.peer) {
        if let Some(name) = name {
            peer.push(
                rates
                    .as_ref()
                    .map_err(Clone::clone)
                    .and_then(|rates| rates.of(name)),
            );
        }
    }
    is_huge
}

/// Flows in words.
fn words(flows: u32) -> String {
    match flows {
        1_000_000.. => format!("{} M", flows / 1_000_000),
        _ => format!("{} k", flows / 1_000),
    }
}

fn rows(all: &[Measured]) -> Vec<Row> {
    let unit = "M/s";
    let mut rows = Vec::new();
    for (flows, measured) in SIZES.iter().zip(all) {
        for (at, (work, name, peer)) in WORKS.iter().enumerate() {
            let metric = format!("{name}, {} flows", words(*flows));
            let target =
                matches!(work, Work::Hit | Work::Miss).then_some(Target::RatioAtLeast(1.5));
            let peer = peer.map(|_| ("rte_hash", &measured.peer[at]));
            rows.push(Row::new(metric, unit, &measured.own[at], peer, target));
        }
        let metric = format!("hits with 40 B of state, {} flows", words(*flows));
        rows.push(Row::new(metric, unit, &measured.line, None, None));
        let metric = format!("hits beside two random lines, {} flows", words(*flows));
        let floor = Some(("bare memory", &measured.floor));
        rows.push(Row::new(metric, unit, &measured.own[0], floor, None));
        let metric = format!("full, random keys, beside hits, {} flows", words(*flows));
        let hits = Some(("itself, hits", &measured.own[0]));
        let target = Some(Target::RatioAtLeast(0.5));
        rows.push(Row::new(metric, unit, &measured.own[2], hits, target));
    }
    let (small, large) = (&all[1], &all[3]);
    let hits = Some(("itself, 100 k", &small.own[0]));
    let target = Some(Target::RatioAtLeast(0.6));
    rows.push(Row::new(
        "hits, 10 M flows beside 100 k",
        unit,
        &large.own[0],
        hits,
        target,
    ));
    rows
}

/// Measures; gives rows and notes.
pub(super) fn run(rounds: u32, extent: Extent, work_dir: &Path) -> (Vec<Row>, Vec<String>) {
    let time = extent.slice(80, 200);
    let peer = rte_hash::RteHash::build(work_dir);
    let _huge_pages = (extent != Extent::Brief).then(|| HugePages::reserve(HUGE_PAGES));
    let mut all: Vec<Measured> = SIZES.iter().map(|_| Measured::default()).collect();
    let mut is_huge = false;
    for round in 0..rounds {
        let sizes = SIZES.iter().zip(&mut all);
        for (flows, measured) in sizes.filter(|(flows, _)| extent.fills(**flows)) {
            eprintln!("round {}/{rounds}: {} flows", round + 1, words(*flows));
            is_huge = measure(*flows, time, &peer, measured);
        }
    }
    let pages = if is_huge {
        "tables lie on huge pages"
    } else {
        "tables lie on pages of 4 KiB, since the machine has no huge pages free (vm.nr_hugepages)"
    };
    let mut notes = vec![
        format!("{pages}; rte_hash likewise"),
        "a figure is the fastest of 8 slices of a round, and the median over rounds; rte_hash is \
         measured in the same way"
            .to_owned(),
        "keys of 16 B, 8 B of state, bursts of 64; rte_hash with rte_hash_crc, which needs no \
         secret, and `entries` equal to the number of flows"
            .to_owned(),
        "hits also stamp their entries; new flows have an idle timeout and replace the oldest"
            .to_owned(),
    ];
    for (flows, measured) in SIZES.iter().zip(&all) {
        for (at, (_, name, _)) in WORKS.iter().enumerate() {
            let name = format!("{name}, {} flows", words(*flows));
            notes.extend(measured.own[at].note(&name, "M/s"));
            notes.extend(measured.peer[at].note(&format!("rte_hash, {name}"), "M/s"));
        }
    }
    (rows(&all), notes)
}
