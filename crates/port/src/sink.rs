//! `sink`: takes every packet and forgets it; with `verify`, tells what became of a generator's.
//!
//! Last step of a packet's life. The engine counts packets and bytes of every port; verification
//! adds, by the numbers that a [`generator`](crate::generator) wrote into the packets, what was
//! lost, duplicated, reordered or damaged on the way. A flow counts from sequence number 0, so a
//! sink that is opened later than the generator counts what it has missed as lost.
//!
//! Per flow it keeps the next expected number and which of the [`WINDOW`] before it have come. An
//! older one is `stale`: too late to tell a reordered packet from a second copy.
//!
//! Limits: 24 bytes for each of [`FLOW_COUNT_MAX`] flows, touched when used.

use catena_engine::config::parse_config;
use catena_engine::nf::Nanos;
use catena_engine::own_counters::CounterSink;
use catena_engine::port::{Port, PortKind, PortNeeds, PortRole, RxBurst, RxState, TxBurst};
use catena_wire::checksum::Sum;
use catena_wire::dissect::{Dissected, Transport};
use catena_wire::ip::Addresses;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::generator::{FLOW_COUNT_MAX, numbers_in};

/// How many numbers of a flow are looked back at.
pub const WINDOW: u64 = 128;

/// What to look at.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
struct Config {
    /// Check the sequence numbers and checksums of packets from a `generator`.
    verify: bool,
}

/// The chain file's entry.
pub const KIND: PortKind = PortKind {
    name: "sink",
    summary: "Takes every packet, and checks the numbers of a generator's",
    counters: &[
        "packets",
        "bytes",
        "verified",
        "lost",
        "duplicated",
        "reordered",
        "stale",
        "corrupted",
        "unnumbered",
    ],
    drop_reasons: &[],
    needs: PortNeeds::NONE,
    schema: || schemars::schema_for!(Config),
    check: |config| {
        parse_config::<Config>(config)?;
        Ok(PortRole::of(false, true))
    },
    open: |config, _| {
        let config: Config = crate::opening::parse(config)?;
        Ok(Box::new(Sink {
            packets: 0,
            bytes: 0,
            verification: config.verify.then(Verification::new),
        }))
    },
};

#[derive(Debug)]
struct Sink {
    packets: u64,
    bytes: u64,
    verification: Option<Verification>,
}

impl Port for Sink {
    fn rx(&mut self, _burst: &mut RxBurst<'_>, _now: Nanos) -> RxState {
        RxState::Finished
    }

    fn tx(&mut self, burst: &mut TxBurst<'_>, _now: Nanos) -> usize {
        burst.read(|bytes| self.see(bytes));
        burst.count()
    }

    fn counters(&self, out: &mut CounterSink<'_>) {
        out.extend([("packets", self.packets), ("bytes", self.bytes)]);
        if let Some(verification) = &self.verification {
            out.extend(verification.report());
        }
    }
}

impl Sink {
    #[inline]
    fn see(&mut self, bytes: &[u8]) {
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        if let Some(verification) = &mut self.verification {
            verification.see(bytes);
        }
    }
}

/// What is known of the flows.
#[derive(Debug)]
struct Verification {
    /// The number after the highest that has come, by flow.
    next: Vec<u64>,
    /// Which of the last [`WINDOW`] numbers have come, by flow; bit 0 is the highest.
    seen: Vec<u128>,
    expected: u64,
    unique: u64,
    duplicated: u64,
    reordered: u64,
    stale: u64,
    corrupted: u64,
    unnumbered: u64,
}

impl Verification {
    fn new() -> Self {
        let count = FLOW_COUNT_MAX as usize;
        Self {
            next: vec![0; count],
            seen: vec![0; count],
            expected: 0,
            unique: 0,
            duplicated: 0,
            reordered: 0,
            stale: 0,
            corrupted: 0,
            unnumbered: 0,
        }
    }

    fn see(&mut self, frame: &[u8]) {
        match numbers(frame) {
            Numbers::None => self.unnumbered += 1,
            Numbers::Corrupted => self.corrupted += 1,
            Numbers::Are { flow, sequence } => self.note(flow, sequence),
        }
    }

    fn note(&mut self, flow: usize, sequence: u64) {
        let (Some(next), Some(seen)) = (self.next.get_mut(flow), self.seen.get_mut(flow)) else {
            self.corrupted += 1;
            return;
        };
        // No generator gets there, and the number after it does not exist.
        if sequence == u64::MAX {
            self.corrupted += 1;
            return;
        }
        if sequence >= *next {
            let step = sequence - *next + 1;
            *seen = match u32::try_from(step) {
                Ok(step) => seen.checked_shl(step).unwrap_or(0) | 1,
                Err(_) => 1,
            };
            *next += step;
            self.expected = self.expected.saturating_add(step);
            self.unique += 1;
            return;
        }
        let age = *next - 1 - sequence;
        if age >= WINDOW {
            self.stale += 1;
        } else if *seen >> age & 1 == 1 {
            self.duplicated += 1;
        } else {
            *seen |= 1 << age;
            self.unique += 1;
            self.reordered += 1;
        }
    }

    fn report(&self) -> [(&'static str, u64); 7] {
        [
            ("verified", self.unique),
            ("lost", self.expected - self.unique),
            ("duplicated", self.duplicated),
            ("reordered", self.reordered),
            ("stale", self.stale),
            ("corrupted", self.corrupted),
            ("unnumbered", self.unnumbered),
        ]
    }
}

/// What a frame says of its place among those of a generator.
enum Numbers {
    /// It is not a generator's, or too short for numbers.
    None,
    /// It has the mark of a generator and a wrong checksum.
    Corrupted,
    /// Its flow and sequence number.
    Are { flow: usize, sequence: u64 },
}

fn numbers(frame: &[u8]) -> Numbers {
    let Ok(found) = Dissected::parse(frame) else {
        return Numbers::None;
    };
    let (Some(ip), Transport::Udp { .. }) = (&found.ip, found.transport) else {
        return Numbers::None;
    };
    let Some((flow, sequence)) = numbers_in(&frame[found.payload..found.end]) else {
        return Numbers::None;
    };
    let datagram = &frame[found.l4..found.end];
    // RFC 768: a checksum of zero is none.
    if datagram[6..8] != [0, 0] {
        let addresses = match ip.addresses {
            Addresses::V4 { .. } => &frame[found.l3 + 12..found.l3 + 20],
            Addresses::V6 { .. } => &frame[found.l3 + 8..found.l3 + 40],
        };
        // Fits: the datagram is at most as long as IP says in 16 bits.
        let len = Sum::of_u16(datagram.len() as u16);
        let sum = Sum::of(addresses) + Sum::of_u16(17) + len + Sum::of(datagram);
        if !sum.is_valid() {
            return Numbers::Corrupted;
        }
    }
    Numbers::Are {
        flow: flow as usize,
        sequence,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::generator;
    use crate::port_bench::PortBench;

    fn generated(config: &serde_json::Value) -> Vec<Vec<u8>> {
        let mut bench = PortBench::open(&generator::KIND, config, Path::new(".")).unwrap();
        let (packets, _) = bench.rx_all(64);
        packets.into_iter().map(|(_, bytes)| bytes).collect()
    }

    fn verifying() -> PortBench {
        PortBench::open(&KIND, &json!({ "verify": true }), Path::new(".")).unwrap()
    }

    fn counts(bench: &PortBench, names: &[&str]) -> Vec<u64> {
        names.iter().map(|name| bench.counter(name)).collect()
    }

    const NAMES: &[&str] = &[
        "verified",
        "lost",
        "duplicated",
        "reordered",
        "stale",
        "corrupted",
    ];

    #[test]
    fn a_perfect_chain_loses_nothing() {
        for protocol in ["udp", "udp6"] {
            let frames = generated(&json!({
                "count": 300, "flows": 7, "size": [82, 1000], "protocol": protocol, "vlan": 5,
            }));
            let mut bench = verifying();
            assert_eq!(bench.tx(&frames), 300);
            assert_eq!(counts(&bench, NAMES), [300, 0, 0, 0, 0, 0]);
            assert_eq!(counts(&bench, &["packets", "bytes"]), [300, 300 * 541]);
        }
    }

    #[test]
    fn each_fault_has_its_counter() {
        let mut frames = generated(&json!({ "count": 400, "size": 80 }));
        let mut bench = verifying();
        let late = frames[1].clone();
        frames.swap(10, 12);
        frames.remove(20);
        frames.remove(20);
        frames.insert(30, frames[29].clone());
        frames[50][60] ^= 0x10;
        frames.push(late);
        frames.push(vec![0; 60]);
        assert_eq!(bench.tx(&frames), frames.len());
        // 10 and 11 came after 12. The damaged one is lost too.
        assert_eq!(counts(&bench, NAMES), [397, 3, 1, 2, 1, 1]);
        assert_eq!(bench.counter("unnumbered"), 1);
    }

    #[test]
    fn a_leap_in_the_numbers_is_loss_and_does_not_overflow() {
        let mut verification = Verification::new();
        for sequence in [0, 1 << 40, u64::MAX - 1, u64::MAX, 5] {
            verification.note(3, sequence);
        }
        verification.note(FLOW_COUNT_MAX as usize, 0);
        let [(_, unique), (_, lost), .., (_, corrupted), _] = verification.report();
        assert_eq!((unique, lost, corrupted), (3, u64::MAX - 3, 2));
    }

    #[test]
    fn without_verification_there_are_only_counts() {
        let mut bench = PortBench::open(&KIND, &json!({}), Path::new(".")).unwrap();
        assert_eq!(bench.tx(&[[0; 60], [1; 60]]), 2);
        assert_eq!(bench.port().report(), [("packets", 2), ("bytes", 120)]);
        assert_eq!(bench.rx(1).state, RxState::Finished);
        assert_eq!(bench.close(), Ok(()));
    }
}
