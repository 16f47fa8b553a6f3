//! `bench pcs`: the 10G-EPON coding sublayer on one core, stage by stage and whole, beside libfec.
//!
//! Rates are line bits of the codewords handled per second, so that each can be compared with the
//! line rate of 10.3125 Gb/s. libfec runs in a small C program that is built here.
//!
//! SPDX-License-Identifier: Apache-2.0

mod libfec;
mod workload;

use std::path::Path;
use std::time::{Duration, Instant};

use catena_pcs::Simd;
use catena_pcs::params::{CODEWORD_BITS, LINE_RATE_BPS};

use super::extent::Extent;
use super::report::{Row, Target};
use super::series::Series;
use workload::{Direction, RsDecode, RsEncode, Stages, Work, receive, transmit};

/// Bit error rates of the whole receive direction.
const BERS: [f64; 6] = [0.0, 1e-5, 1e-4, 1e-3, 2e-3, 5e-3];
/// Wrong symbols per codeword, for Reed-Solomon alone.
const ERRORS: core::ops::RangeInclusive<usize> = 0..=16;
const LINE_RATE_GBPS: f64 = LINE_RATE_BPS as f64 / 1e9;

/// A measurement with its values by round.
struct Measured {
    metric: String,
    peer: Option<&'static str>,
    target: Option<Target>,
    work: Box<dyn Work>,
    own: Series,
    peer_values: Series,
    peer_run: Option<libfec::Run>,
}

impl Measured {
    fn new(metric: impl Into<String>, work: impl Work + 'static) -> Self {
        Self {
            metric: metric.into(),
            peer: None,
            target: None,
            work: Box::new(work),
            own: Series::default(),
            peer_values: Series::default(),
            peer_run: None,
        }
    }

    fn target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    fn beside(mut self, run: libfec::Run) -> Self {
        self.peer = Some("libfec");
        self.peer_run = Some(run);
        self
    }
}

/// Everything that is measured at a level, in the order of the report; stages by themselves only
/// at the best one.
fn measurements(simd: Simd) -> Vec<Measured> {
    let mut all = Vec::new();
    if simd == Simd::best() {
        for (name, work) in Stages::all(simd) {
            all.push(Measured::new(format!("{name}, {}", simd.name()), work));
        }
    }
    let encode = Measured::new(format!("RS encode, {}", simd.name()), RsEncode::new(simd));
    all.push(encode.beside(libfec::Run::Encode));
    for errors in ERRORS {
        let metric = format!("RS decode, {errors} errors, {}", simd.name());
        let measured = Measured::new(metric, RsDecode::new(simd, errors));
        let measured = measured.beside(libfec::Run::Decode(errors));
        all.push(measured.target(Target::RatioAtLeast(80.0)));
    }
    for frame_len in [64, 1518] {
        let metric = format!("transmit, {frame_len} B, {}", simd.name());
        let measured = Measured::new(metric, transmit(simd, Direction::Downstream, frame_len));
        all.push(measured.target(Target::AtLeast(LINE_RATE_GBPS)));
    }
    for ber in BERS {
        let metric = format!("receive, 1518 B, BER {ber}, {}", simd.name());
        let measured = Measured::new(metric, receive(simd, Direction::Downstream, 1518, ber));
        all.push(match ber {
            b if b <= 1e-4 => measured.target(Target::AtLeast(1.8 * LINE_RATE_GBPS)),
            b if b <= 1e-3 => measured.target(Target::AtLeast(LINE_RATE_GBPS)),
            _ => measured,
        });
    }
    for ber in [1e-4, 1e-3] {
        let metric = format!("receive, 64 B, BER {ber}, {}", simd.name());
        all.push(Measured::new(
            metric,
            receive(simd, Direction::Downstream, 64, ber),
        ));
    }
    let metric = format!(
        "receive upstream bursts, 1518 B, BER 0.0001, {}",
        simd.name()
    );
    all.push(Measured::new(
        metric,
        receive(simd, Direction::Upstream, 1518, 1e-4),
    ));
    all
}

/// What portable code does where there are no vector instructions.
fn fall_back() -> Vec<Measured> {
    let (simd, down) = (Simd::SCALAR, Direction::Downstream);
    vec![
        Measured::new("transmit, 1518 B, scalar", transmit(simd, down, 1518)),
        Measured::new(
            "receive, 1518 B, BER 0, scalar",
            receive(simd, down, 1518, 0.0),
        ),
        Measured::new(
            "receive, 1518 B, BER 0.001, scalar",
            receive(simd, down, 1518, 1e-3),
        ),
    ]
}

/// Slices of a run, of which the fastest counts.
const SLICES: u32 = 8;

/// Codeword bits per second in the fastest of a few slices, in Gb/s. What another process takes
/// away is then no part of the figure, unless it takes part of every slice.
fn rate(work: &mut dyn Work, time: Duration) -> f64 {
    work.run();
    let slice = || {
        let started = Instant::now();
        let mut codewords = 0;
        loop {
            codewords += work.run();
            let elapsed = started.elapsed();
            if elapsed >= time / SLICES {
                return (codewords * CODEWORD_BITS) as f64 / elapsed.as_secs_f64() / 1e9;
            }
        }
    };
    core::iter::repeat_with(slice)
        .take(SLICES as usize)
        .fold(0.0, f64::max)
}

/// Half of the sublayer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Coding {
    /// Frames to line bits.
    Transmit,
    /// Line bits to frames, at this bit error rate.
    Receive(f64),
}

/// Microseconds that a chunk of `bytes` line bytes takes on one core, by the best instructions.
pub(super) fn chunk_us(coding: Coding, bytes: u32) -> f64 {
    let (simd, down) = (Simd::best(), Direction::Downstream);
    let mut work: Box<dyn Work> = match coding {
        Coding::Transmit => Box::new(transmit(simd, down, 1518)),
        Coding::Receive(ber) => Box::new(receive(simd, down, 1518, ber)),
    };
    let gbps = rate(work.as_mut(), Duration::from_millis(80));
    f64::from(bytes) * 8.0 / gbps / 1e3
}

/// What the figures stand for.
fn conditions() -> [String; 5] {
    [
        "a figure is the fastest of 8 slices of a round, and the median over rounds; libfec is \
         measured in the same way"
            .to_owned(),
        "stages by themselves: 512 codewords in, 512 out, 0.1 to 0.3 MiB each, in a \
         second-level cache"
            .to_owned(),
        "RS: 512 rows of 256 B in 16 batches, copied before each decoding: 2 x 128 KiB".to_owned(),
        "transmit: one frame, over and over, 32 codewords (8 kB) at a time to the same place; \
         what is read and written is in the first-level cache, as behind an NF that has just made \
         it"
        .to_owned(),
        "receive: 2048 codewords (512 KiB) or more in chunks of 32, read in order from the \
         second-level cache; other places of errors in each codeword"
            .to_owned(),
    ]
}

/// Measures; gives rows and notes.
pub(super) fn run(rounds: u32, extent: Extent, work_dir: &Path) -> (Vec<Row>, Vec<String>) {
    let time = extent.slice(150, 400);
    // The portable code is slow: few of its figures say all.
    let vectors = |simd: &Simd| *simd != Simd::SCALAR || *simd == Simd::best();
    let mut all: Vec<Measured> = Simd::all().filter(vectors).flat_map(measurements).collect();
    if Simd::best() != Simd::SCALAR {
        all.extend(fall_back());
    }
    let peer = libfec::Libfec::build(work_dir);
    for round in 0..rounds {
        eprintln!("round {}/{rounds}", round + 1);
        for measured in &mut all {
            measured
                .own
                .push(Ok::<_, String>(rate(measured.work.as_mut(), time)));
            if let Some(run) = measured.peer_run {
                measured.peer_values.push(peer.rate(run));
            }
        }
    }
    let mut notes = vec![format!(
        "vector instructions of this processor: up to {}",
        Simd::best().name()
    )];
    notes.extend(conditions());
    let rows = all
        .iter()
        .map(|m| {
            notes.extend(m.own.note(&m.metric, "Gb/s"));
            let peer = m.peer.map(|name| (name, &m.peer_values));
            Row::new(m.metric.clone(), "Gb/s", &m.own, peer, m.target)
        })
        .collect();
    (rows, notes)
}
