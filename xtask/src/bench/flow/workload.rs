//! What is looked up, and how fast: the same work as in `rte_hash.c`, on our table and on bare
//! memory.
//!
//! SPDX-License-Identifier: Apache-2.0

use std::hint::black_box;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use catena_flow::{Eviction, FlowTable, Shape, Timeouts};
use catena_measure::stats::random::Random;
use catena_shm::prefetch;
use catena_shm::region::{Region, Sharing};

/// Keys in a call.
pub(crate) const BURST: usize = 64;
/// Calls between two looks at the clock.
pub(crate) const BURSTS: usize = 16;
/// Slices of a run, of which the fastest counts. What another process takes away is then no part
/// of the figure, unless it takes part of every slice.
const SLICES: u32 = 8;
/// Words of a key.
const KEY_WORDS: usize = 2;
const SECOND_NS: u64 = 1_000_000_000;

/// What is done with the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// All are there.
    Hit,
    /// None is there.
    Miss,
    /// One in so many is new: it is inserted, and the oldest flow removed.
    Churn(u32),
    /// All are new, and the table is full: each is looked up and refused.
    Attack,
    /// All are new, and the table is full: for each, an old one of its bucket goes.
    Evict,
}

/// The key of a flow: as random as addresses and ports, and never the same twice.
fn key_of(flow: u64) -> [u64; KEY_WORDS] {
    let z = flow.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    [z ^ (z >> 27), flow]
}

/// A table that is full of flows, and what comes to it.
#[derive(Debug)]
pub(super) struct Workload {
    table: FlowTable<Region>,
    flows: u64,
    oldest: u64,
    next: u64,
    strangers: u64,
    random: Random,
    now_ns: u64,
    /// New flows that churn owes.
    owed: f64,
    keys: Vec<[u64; KEY_WORDS]>,
    fresh: [usize; BURSTS],
    is_huge: bool,
}

impl Workload {
    /// A table with `flows` flows, all that it can hold, with so many words of state each.
    pub(super) fn new(flows: u32, state_words: u32) -> Result<Self, String> {
        let shape = Shape::new(KEY_WORDS as u32, state_words, flows);
        let words = shape.words().map_err(|error| error.to_string())?;
        let region = Region::create_huge("flow-bench", words * 8, Sharing::ReadOnly);
        let region = region.map_err(|error| error.to_string())?;
        region.prefault();
        let is_huge = region.is_huge();
        let mut table = FlowTable::create(region, &shape, [0x5eed, 0xfeed], 0)
            .map_err(|error| error.to_string())?;
        for flow in 0..u64::from(flows) {
            table
                .insert(&key_of(flow), Timeouts::idle(60 * SECOND_NS), flow)
                .map_err(|refusal| format!("flow {flow}: {refusal}"))?;
        }
        Ok(Self {
            table,
            flows: u64::from(flows),
            oldest: 0,
            next: u64::from(flows),
            strangers: 1 << 40,
            random: Random::new(1),
            now_ns: u64::from(flows),
            owed: 0.0,
            keys: vec![[0; KEY_WORDS]; BURST * BURSTS],
            fresh: [0; BURSTS],
            is_huge,
        })
    }

    /// Whether the table lies on huge pages.
    pub(super) fn is_huge(&self) -> bool {
        self.is_huge
    }

    /// Lays out the keys of a block of bursts; in churn, new flows stand first in each.
    fn prepare(&mut self, work: Work) {
        for fresh in &mut self.fresh {
            *fresh = 0;
            if let Work::Churn(one_in) = work {
                self.owed += BURST as f64 / f64::from(one_in);
                *fresh = self.owed as usize;
                self.owed -= *fresh as f64;
            }
        }
        // The oldest flows go meanwhile.
        let margin = (BURST * BURSTS / 4) as u64;
        let mut first = self.next;
        for (at, key) in self.keys.iter_mut().enumerate() {
            let flow = if at % BURST < self.fresh[at / BURST] {
                first += 1;
                first - 1
            } else if matches!(work, Work::Miss | Work::Attack | Work::Evict) {
                self.strangers += 1;
                self.strangers
            } else {
                self.oldest + margin + self.random.below(self.flows - margin)
            };
            *key = key_of(flow);
        }
    }

    fn run(&mut self, work: Work) {
        let timeouts = Timeouts::idle(60 * SECOND_NS);
        for (keys, fresh) in self.keys.chunks(BURST).zip(self.fresh) {
            let mut found = [None; BURST];
            self.now_ns += 1000;
            self.table
                .lookup(keys.as_flattened(), self.now_ns, &mut found);
            black_box(&found);
            match work {
                Work::Attack => {
                    for key in keys {
                        let _ = black_box(self.table.insert(key, timeouts, self.now_ns));
                    }
                }
                Work::Evict => {
                    let eviction = Eviction::OldestIdle;
                    for key in keys {
                        let table = &mut self.table;
                        let now_ns = self.now_ns;
                        let _ = black_box(table.insert_evicting(
                            key,
                            timeouts,
                            now_ns,
                            eviction,
                            |_, _| (),
                        ));
                    }
                }
                _ => {}
            }
            for key in &keys[..fresh] {
                if let Some(flow) = self.table.find(&key_of(self.oldest)) {
                    self.table.remove(flow);
                }
                self.oldest += 1;
                let _ = black_box(self.table.insert(key, timeouts, self.now_ns));
                self.next += 1;
            }
        }
    }

    /// Millions of keys per second.
    pub(super) fn rate(&mut self, work: Work, time: Duration) -> f64 {
        self.prepare(work);
        self.run(work);
        fastest(time, || {
            self.prepare(work);
            let started = Instant::now();
            self.run(work);
            started.elapsed()
        })
    }

    /// Millions per second of what cannot be had for less: two lines of the same memory, at random
    /// places, both asked for in time.
    pub(super) fn floor(&mut self, time: Duration) -> f64 {
        let words = self.table.memory().words();
        let lines = words.len() as u64 / 8;
        let mut places = vec![[0usize; 2]; BURST * BURSTS];
        let random = &mut self.random;
        fastest(time, || {
            for place in &mut places {
                *place = [0; 2].map(|_| random.below(lines) as usize * 8);
            }
            let started = Instant::now();
            let mut sum = 0u64;
            for burst in places.chunks(BURST / 2) {
                for [one, other] in burst {
                    prefetch::line(&words[*one]);
                    prefetch::line(&words[*other]);
                }
                for [one, other] in burst {
                    let load = |at: usize| words[at].load(Ordering::Relaxed);
                    sum = sum.wrapping_add(load(*one) ^ load(*other));
                }
            }
            black_box(sum);
            started.elapsed()
        })
    }
}

/// Millions of keys per second in the fastest slice, of blocks that take so long each.
pub(crate) fn fastest(time: Duration, mut block: impl FnMut() -> Duration) -> f64 {
    let mut best = 0.0f64;
    for _ in 0..SLICES {
        let (mut spent, mut keys) = (Duration::ZERO, 0);
        while spent < time / SLICES {
            spent += block();
            keys += BURST * BURSTS;
        }
        best = best.max(keys as f64 / spent.as_secs_f64() / 1e6);
    }
    best
}
