//! The floor: what must be done for a packet at least, by a bare loop over bare memory.
//!
//! A record for each session, found by its number without any search; its first line is read and
//! written in front of the packet as headers of a tunnel would be, and counters in its second line
//! are advanced. Lines are asked for a burst ahead.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;
use std::time::{Duration, Instant};

use catena_measure::stats::random::Random;
use catena_shm::prefetch;

use super::super::flow::workload::{BURST, BURSTS, fastest};
use super::traffic::Pattern;

const PACKET: usize = 256;
/// Two lines: what is read, what is counted.
type Record = [u64; 16];

/// Records of sessions, and packets.
pub(super) struct Floor {
    records: Vec<Record>,
    random: Random,
}

impl Floor {
    pub(super) fn new(sessions: u32) -> Self {
        let records = (0..u64::from(sessions)).map(|at| [at; 16]).collect();
        Self {
            records,
            random: Random::new(1),
        }
    }

    /// Millions of packets per second.
    pub(super) fn rate(&mut self, pattern: Pattern, time: Duration) -> f64 {
        let mut packets = vec![[0u8; PACKET]; BURST * BURSTS];
        let mut drawn = vec![0usize; BURST * BURSTS];
        let Self { records, random } = self;
        fastest(time, || {
            for at in &mut drawn {
                *at = pattern.draw(random, records.len());
            }
            let started = Instant::now();
            for (places, packets) in drawn.chunks(BURST).zip(packets.chunks_mut(BURST)) {
                for at in places {
                    prefetch::line(&records[*at][0]);
                    prefetch::line(&records[*at][8]);
                }
                for (at, packet) in places.iter().zip(packets) {
                    let record = &mut records[*at];
                    // As long as the headers of a tunnel over IPv4, with Ethernet and QFI.
                    let words = packet.as_chunks_mut::<8>().0;
                    for (to, word) in words.iter_mut().zip(&record[..8]) {
                        *to = word.to_be_bytes();
                    }
                    record[8] += 1;
                    record[9] += PACKET as u64;
                }
            }
            black_box(&packets);
            started.elapsed()
        })
    }
}
