//! The floor of a benchmark: the same work by bare loops, measured in the same round.
//!
//! A peer says what others reach; the floor says what the machine could. It moves packets of
//! 64 bytes between two pinned threads as [`catena_shm::floor`] describes, in three ways: each
//! packet in a buffer of its own, copied both ways through a dense staging area, and 64 to a
//! descriptor. For lone packets the floor is a bare ring at the pace of `catena bench hop`: two
//! threads that answer each other at once would be no floor, since their reads and writes overlap.
//!
//! SPDX-License-Identifier: Apache-2.0

mod windows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use catena_shm::floor::Loops;
pub(crate) use catena_shm::floor::Work;
use catena_shm::tsc;
use rustix::thread::{CpuSet, sched_setaffinity};

use windows::{Undisturbed, Windows};

/// Packets per burst of the loops.
const BURST: u64 = 64;
/// As `catena bench hop` does.
const HOP_GAP: Duration = Duration::from_micros(20);
/// How long the counter is measured against the kernel's clock.
const CALIBRATION: Duration = Duration::from_millis(20);

/// What the loops gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Floor {
    pub(crate) ns_per_packet: f64,
    /// Windows measured, and those of them that were disturbed and do not count.
    pub(crate) windows: usize,
    pub(crate) rejected: usize,
}

/// The time per packet of 64 bytes with `slots` packets in flight, a power of two up to 2,048.
///
/// # Errors
/// A sentence, if the loops could not run or were disturbed all the time.
pub(crate) fn rate(
    work: Work,
    slots: u64,
    span: Duration,
    cores: [usize; 2],
) -> Result<Floor, String> {
    let loops = Loops::new(work, slots, BURST).map_err(|error| format!("floor: {error}"))?;
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let start = tsc::ticks();
    let windows = || Windows::new(start, ns_per_tick);
    let (sent, received) = beside(
        cores,
        span,
        |stop| {
            let mut windows = windows();
            loops.send(stop, |packets| windows.look(packets));
            windows
        },
        |stop| {
            let mut windows = windows();
            std::hint::black_box(loops.receive(stop, |packets| windows.look(packets)));
            windows
        },
    )?;
    let measured = Undisturbed::of(&sent, &received);
    let ticks = measured.ticks_per_packet;
    let ticks = ticks.ok_or("floor: the loops were disturbed in every window")?;
    Ok(Floor {
        ns_per_packet: ticks * ns_per_tick,
        windows: measured.windows,
        rejected: measured.rejected,
    })
}

/// Median and 99th percentile of the one-way time of lone packets, in nanoseconds.
///
/// # Errors
/// As [`rate`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "microseconds in ticks"
)]
pub(crate) fn hop(span: Duration, cores: [usize; 2]) -> Result<(f64, f64), String> {
    let loops = Loops::new(Work::Plain, 1024, 1).map_err(|error| format!("floor: {error}"))?;
    let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
    let gap = (HOP_GAP.as_nanos() as f64 / ns_per_tick) as u64;
    let most = (span.as_nanos() / HOP_GAP.as_nanos()) as usize;
    let ((), mut times) = beside(
        cores,
        span,
        |stop| loops.send_paced(stop, gap),
        |stop| {
            let mut times = Vec::with_capacity(most);
            loops.receive_paced(stop, &mut times, most);
            times
        },
    )?;
    times.sort_unstable();
    let at = |percent: usize| times.get(times.len() * percent / 100).copied();
    let (p50, p99) = at(50).zip(at(99)).ok_or("floor: no packet arrived")?;
    Ok((p50 as f64 * ns_per_tick, p99 as f64 * ns_per_tick))
}

/// The time per packet of 64 bytes that one thread writes, swaps the MAC addresses of `length`
/// times, and reads: bursts that stay in its first cache. The fastest of its windows, since nothing
/// but other work makes one slower.
///
/// # Errors
/// As [`rate`].
pub(crate) fn inline(length: usize, span: Duration, core: usize) -> Result<f64, String> {
    /// Bursts between two looks at the clock.
    const WINDOW: u32 = 4096;
    let thread = std::thread::spawn(move || -> Result<f64, String> {
        pin(core)?;
        let ns_per_tick = tsc::ns_per_tick(CALIBRATION);
        let mut packets = [[0_u8; 64]; BURST as usize];
        let (mut word, mut sum, mut least) = (0_u64, 0_u64, u64::MAX);
        let until = Instant::now() + span;
        while Instant::now() < until {
            let start = tsc::ticks();
            for _ in 0..WINDOW {
                for packet in &mut packets {
                    word = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
                    let words = packet.as_chunks_mut::<8>().0;
                    for (n, to) in words.iter_mut().enumerate() {
                        *to = word.wrapping_add(n as u64).to_le_bytes();
                    }
                }
                for _ in 0..length {
                    // Each NF has the whole burst before the next one.
                    for packet in std::hint::black_box(&mut packets) {
                        let (destination, rest) = packet.split_at_mut(6);
                        destination.swap_with_slice(&mut rest[..6]);
                    }
                }
                for packet in std::hint::black_box(&packets) {
                    let words = packet.as_chunks::<8>().0;
                    let add =
                        |sum: u64, word: &[u8; 8]| sum.wrapping_add(u64::from_le_bytes(*word));
                    sum = words.iter().fold(sum, add);
                }
            }
            least = least.min(tsc::ticks() - start);
        }
        std::hint::black_box(sum);
        let packets = f64::from(WINDOW) * BURST as f64;
        Ok(least as f64 * ns_per_tick / packets)
    });
    let ended = |_| "floor: a loop panicked".to_owned();
    thread.join().map_err(ended)?
}

/// Runs both at once, each on its core, for `span`.
fn beside<A: Send, B: Send>(
    [core_a, core_b]: [usize; 2],
    span: Duration,
    first: impl FnOnce(&AtomicBool) -> A + Send,
    second: impl FnOnce(&AtomicBool) -> B + Send,
) -> Result<(A, B), String> {
    if core_a == core_b {
        return Err("floor: needs two cores".to_owned());
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let a = scope.spawn(|| pin(core_a).map(|()| first(&stop)));
        let b = scope.spawn(|| pin(core_b).map(|()| second(&stop)));
        std::thread::sleep(span);
        stop.store(true, Ordering::Relaxed);
        let ended = |_| "floor: a loop panicked".to_owned();
        Ok((a.join().map_err(ended)??, b.join().map_err(ended)??))
    })
}

fn pin(core: usize) -> Result<(), String> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| format!("floor: core {core}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::super::cacheline::first_two_cores;
    use super::*;

    #[test]
    fn every_loop_moves_packets() {
        let cores = first_two_cores().expect("a core to run on");
        if cores[0] == cores[1] {
            println!("SKIP: the loops need two cores");
            return;
        }
        for (work, slots) in [
            (Work::Plain, 1024),
            (Work::Copy, 1024),
            (Work::Bundle, 2048),
        ] {
            // On a busy machine every window may be disturbed; then nothing must be said.
            match rate(work, slots, Duration::from_millis(60), cores) {
                Ok(floor) => assert!(floor.ns_per_packet > 0.1 && floor.rejected < floor.windows),
                Err(reason) => assert!(reason.contains("every window"), "{reason}"),
            }
        }
        let (p50, p99) = hop(Duration::from_millis(60), cores).expect("packets arrive");
        assert!(p50 > 1.0 && p99 >= p50);
    }
}
