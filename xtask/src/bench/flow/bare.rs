//! The floor of `flow-programs`: what no program with flows can do without.
//!
//! The same packets, a burst at a time: two addresses are read from each, all are looked up in a
//! table of the shape of the program's own, the entry's first word is read, and a word of the
//! packet is written. No headers are parsed, nothing is decided and nothing is stored.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;

use catena_engine::packet::Packet;
use catena_flow::{FlowTable, KEY_WORDS_MAX, Timeouts};
use catena_shm::region::{Region, Sharing};
use catena_shm::tsc;

use super::samples::Sample;
use super::workload::BURST;

const IDLE_NS: u64 = 3600 * 1_000_000_000;

/// A table and nothing else.
pub(super) struct Bare {
    table: FlowTable<Region>,
    sample: Sample,
    keys: Vec<u64>,
    now_ns: u64,
}

impl Bare {
    /// A table that is full of a program's flows.
    pub(super) fn new(sample: Sample, flows: u32) -> Result<Self, String> {
        let program = sample.program(flows, true)?;
        let tables = program.elements.iter().filter_map(|one| one.flows.as_ref());
        let shape = tables.map(|flows| flows.shape).next();
        let shape = shape.ok_or("a program without flows")?;
        let words = shape.words().map_err(|error| error.to_string())?;
        let region = Region::create_huge("flow-floor", words * 8, Sharing::ReadOnly);
        let region = region.map_err(|error| error.to_string())?;
        region.prefault();
        let mut table = FlowTable::create(region, &shape, [0x5eed, 0xfeed], 0)
            .map_err(|error| error.to_string())?;
        let key_words = shape.key_words as usize;
        for flow in 0..u64::from(flows) {
            let mut key = [0; KEY_WORDS_MAX];
            key[0] = u64::from_le_bytes(sample.addresses(flow));
            table
                .insert(&key[..key_words], Timeouts::idle(IDLE_NS), flow)
                .map_err(|refusal| format!("flow {flow}: {refusal}"))?;
        }
        Ok(Self {
            table,
            sample,
            keys: vec![0; BURST * key_words],
            now_ns: u64::from(flows),
        })
    }

    /// Sends bursts of later packets through; adds input and ticks of each to `times`.
    pub(super) fn run(
        &mut self,
        packets: &mut [Packet],
        times: &mut Vec<(u8, u64)>,
    ) -> Result<(), String> {
        let at = self.sample.addresses_at();
        let key_words = self.table.shape().key_words as usize;
        let mut hits = 0;
        for packets in packets.chunks_mut(BURST) {
            let started = tsc::ticks();
            self.now_ns += 5000;
            for (packet, key) in packets.iter().zip(self.keys.chunks_mut(key_words)) {
                let word = packet.bytes().get(at..).and_then(<[u8]>::first_chunk);
                key[0] = u64::from_le_bytes(word.copied().unwrap_or_default());
            }
            let keys = &self.keys[..packets.len() * key_words];
            let mut found = [None; BURST];
            hits += self
                .table
                .lookup(keys, self.now_ns, &mut found[..packets.len()]);
            for (packet, flow) in packets.iter_mut().zip(found) {
                let value = flow.map_or(0, |flow| self.table.state(flow, 0));
                let to = packet.bytes_mut().first_chunk_mut::<8>();
                to.into_iter().for_each(|to| *to = value.to_le_bytes());
            }
            black_box(&packets);
            times.push((0, tsc::ticks() - started));
        }
        match hits == packets.len() {
            true => Ok(()),
            false => Err(format!("floor: {hits} of {} packets found", packets.len())),
        }
    }
}
