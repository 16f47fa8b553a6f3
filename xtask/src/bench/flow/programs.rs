//! `bench flow-programs`: packets through stateful programs, interpreted and as machine code.
//!
//! The two engines take turns in each round, over the same packets. A figure is the fastest of 8
//! slices of a round, and the median over rounds.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::time::{Duration, Instant};

use catena_shm::tsc;

use super::super::extent::Extent;
use super::super::huge_pages::HugePages;
use super::super::report::{Row, Target};
use super::super::series::Series;
use super::traffic::{Sample, Traffic};
use super::words;

const SIZES: [u32; 3] = [1_000, 100_000, 1_000_000];
const SAMPLES: [Sample; 3] = [Sample::Policer, Sample::Balancer, Sample::Offload];
/// What comes: packets of flows that are there, or also such of new flows.
const WORKS: [(Option<u64>, &str); 2] = [(None, "hits"), (Some(100), "1 % new flows")];
/// Pages of 2 MB for the largest table.
const HUGE_PAGES: u64 = 128;
const CALIBRATION: Duration = Duration::from_millis(50);

/// What is measured of a program at one number of flows.
#[derive(Default)]
struct Measured {
    compiled: [Series; WORKS.len()],
    interpreted: [Series; WORKS.len()],
}

fn measure(sample: Sample, flows: u32, time: Duration, into: &mut Measured) {
    for is_compiled in [true, false] {
        let compile = || catena_jit::compile(&sample.program(flows)?);
        let compiled = is_compiled.then(compile).transpose();
        let traffic = compiled.and_then(|compiled| Traffic::new(sample, flows, compiled));
        let series = if is_compiled {
            &mut into.compiled
        } else {
            &mut into.interpreted
        };
        match traffic {
            Ok(mut traffic) => {
                for ((new_in, _), series) in WORKS.into_iter().zip(series) {
                    series.push(traffic.rate(new_in, time));
                }
            }
            Err(error) => series.iter_mut().for_each(|one| one.push(Err(&error))),
        }
    }
}

fn rows(all: &[(Sample, u32, Measured)], ns_per_tick: f64) -> Vec<Row> {
    let mut rows = Vec::new();
    for (sample, flows, measured) in all {
        for (at, (_, work)) in WORKS.iter().enumerate() {
            let metric = format!("{}, {work}, {} flows", sample.name(), words(*flows));
            let peer = Some(("interpreter", &measured.interpreted[at]));
            let is_largest = *flows == 1_000_000 && at == 0;
            let target = match sample {
                Sample::Policer if is_largest => Some(Target::AtLeast(12.0)),
                Sample::Balancer if is_largest => Some(Target::AtLeast(8.0)),
                Sample::Offload if is_largest => Some(Target::AtLeast(6.0)),
                Sample::Balancer if *flows == 1_000 && at == 0 => Some(Target::RatioAtLeast(4.0)),
                _ => None,
            };
            let own = &measured.compiled[at];
            rows.push(Row::new(&*metric, "M/s", own, peer, target));
            let cycles = |series: &Series| series.inverse(1000.0 / ns_per_tick);
            let interpreted = cycles(&measured.interpreted[at]);
            let peer = Some(("interpreter", &interpreted));
            let metric = format!("{metric}: of a packet");
            rows.push(Row::new(metric, "cycles", &cycles(own), peer, None));
        }
    }
    rows
}

/// How long programs take to be made into machine code, for the notes.
fn compile_times() -> Vec<String> {
    let time = |sample: Sample| {
        let program = sample.program(1000)?;
        let started = Instant::now();
        catena_jit::compile(&program)?;
        let ms = started.elapsed().as_secs_f64() * 1000.0;
        Ok::<_, String>(format!("{} is compiled in {ms:.1} ms", sample.name()))
    };
    SAMPLES
        .into_iter()
        .filter_map(|sample| time(sample).ok())
        .collect()
}

/// Measures; gives rows and notes.
pub(in super::super) fn run(rounds: u32, extent: Extent) -> (Vec<Row>, Vec<String>) {
    let time = extent.slice(80, 200);
    let _huge_pages = HugePages::reserve(HUGE_PAGES);
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let mut all = Vec::new();
    for flows in SIZES {
        for sample in SAMPLES {
            all.push((sample, flows, Measured::default()));
        }
    }
    for round in 0..rounds {
        let filled = all.iter_mut().filter(|(_, flows, _)| extent.fills(*flows));
        for (sample, flows, measured) in filled {
            let of = words(*flows);
            eprintln!(
                "round {}/{rounds}: {}, {of} flows",
                round + 1,
                sample.name()
            );
            measure(*sample, *flows, time, measured);
        }
    }
    let mut notes = vec![
        "one thread, bursts of 64, packets in memory: parsing, key, lookup, code, storing; no \
         ports and no links"
            .to_owned(),
        "policer and balancer: 60 B and the FCS; offload: 78 B, uplink to the edge".to_owned(),
        "cycles are of the time stamp counter; new flows replace the oldest of their bucket"
            .to_owned(),
    ];
    notes.extend(compile_times());
    for (sample, flows, measured) in &all {
        for (at, (_, work)) in WORKS.iter().enumerate() {
            let name = format!("{}, {work}, {} flows", sample.name(), words(*flows));
            notes.extend(measured.compiled[at].note(&name, "M/s"));
            let name = format!("{name}, interpreter");
            notes.extend(measured.interpreted[at].note(&name, "M/s"));
        }
    }
    (rows(&all, ns_per_tick), notes)
}
