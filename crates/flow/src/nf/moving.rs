//! Flows go to other shards: when a node gets more of them or fewer, each entry moves to the shard
//! to which splitters send its packets from now on.
//!
//! Beside packets, in the supervisor, while the shards stand still. A flow's key in its table is
//! what splitters hash, so an entry says itself where it belongs. It keeps its registers, when it
//! was used, and its timeouts. It is copied before it is removed: whoever is killed in between
//! leaves it in both, and whoever goes on then removes the old one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use catena_engine::shard::Choice;
use catena_engine::shard::moving::{Moved, Mover, ShardMemory};
use catena_engine::shard::table::Buckets;
use catena_shm::state::StateWords;
use serde_json::Value;

use super::STATE;
use super::planned::{Planned, plan_of_checked};
use super::sharding::SEED_OF_SHARDS;
use crate::hash::random_seed;
use crate::program::field::ones;
use crate::program::ir::{Program, Scope};
use crate::program::layout::{Ground, Layout, Portion};
use crate::{Cursor, Flow, FlowTable, KeyedHash, Memory};

/// See [`MakeMover`](catena_engine::shard::moving::MakeMover).
pub(super) fn mover(
    config: &Value,
    choice: Choice,
    shards: Vec<ShardMemory>,
) -> Result<Box<dyn Mover>, String> {
    let Planned {
        program, layout, ..
    } = plan_of_checked(config)?;
    let mut opened = Vec::new();
    for memory in shards {
        opened.extend(open(&program, &layout, memory)?);
    }
    Ok(Box::new(Flows::over(program, choice, opened)))
}

/// The flows of a shard.
struct Shard<M> {
    /// None if it goes.
    number: Option<u16>,
    ground: Ground<M>,
}

/// A shard that goes and has nothing is left out.
fn open(
    program: &Program,
    layout: &Layout,
    memory: ShardMemory,
) -> Result<Option<Shard<Portion<StateWords>>>, String> {
    let ShardMemory {
        shard: number,
        mut regions,
    } = memory;
    let words = regions.remove(STATE);
    let memory = Arc::new(words.ok_or("the memory of a shard is missing")?);
    let ground = match (layout.attach(program, &memory, u64::MAX), number) {
        (Ok(ground), _) => ground,
        // It has not come to make its table.
        (Err(_), Some(_)) => layout
            .create(program, &memory, random_seed, 0)
            .map_err(|error| error.to_string())?,
        (Err(_), None) => return Ok(None),
    };
    Ok(Some(Shard { number, ground }))
}

/// Where each shard is among those that were opened.
struct Places(Vec<Option<usize>>);

impl Places {
    fn of<M>(shards: &[Shard<M>], count: u16) -> Self {
        let place = |number| shards.iter().position(|shard| shard.number == Some(number));
        Self((0..count).map(place).collect())
    }

    fn get(&self, shard: u8) -> Option<usize> {
        self.0.get(usize::from(shard)).copied().flatten()
    }
}

struct Flows<M> {
    program: Program,
    shards: Vec<Shard<M>>,
    places: Places,
    hash: KeyedHash,
    buckets: Buckets,
    /// Shard, by its place, and element: whose flows are looked at.
    at: (usize, usize),
    cursor: Cursor,
    /// Flows to be moved, with where they go.
    found: Vec<(Flow, usize)>,
    moved: Moved,
}

impl<M: Memory + Send> Mover for Flows<M> {
    fn step(&mut self, budget: u32) -> bool {
        let (at, element) = self.at;
        let Some(shard) = self.shards.get(at) else {
            return false;
        };
        let is_end = match shard.ground.flows.get(element) {
            None => {
                self.merge_registers(at);
                self.at = (at + 1, 0);
                return true;
            }
            Some(None) => true,
            Some(Some(table)) => {
                let Self {
                    hash,
                    buckets,
                    places,
                    found,
                    ..
                } = self;
                let words = table.shape().key_words as usize;
                table.walk(&mut self.cursor, budget, |flow, entry| {
                    let mut key = [0; crate::KEY_WORDS_MAX];
                    for (word, value) in key[..words].iter_mut().enumerate() {
                        *value = entry.key(word);
                    }
                    let shard = buckets.shard_of(hash.hash(&key[..words]));
                    let place = places.get(shard).filter(|place| *place != at);
                    found.extend(place.map(|place| (flow, place)));
                })
            }
        };
        self.carry(at, element);
        if is_end {
            self.at = (at, element + 1);
            self.cursor = Cursor::default();
        }
        true
    }

    fn moved(&self) -> Moved {
        self.moved
    }
}

impl<M: Memory> Flows<M> {
    fn over(program: Program, choice: Choice, shards: Vec<Shard<M>>) -> Self {
        Self {
            hash: KeyedHash::new([choice.seed, SEED_OF_SHARDS]),
            buckets: Buckets::of(choice.shards),
            places: Places::of(&shards, choice.shards),
            shards,
            program,
            at: (0, 0),
            cursor: Cursor::default(),
            found: Vec::new(),
            moved: Moved::default(),
        }
    }

    /// Moves what was found in a shard.
    fn carry(&mut self, at: usize, element: usize) {
        for (flow, place) in std::mem::take(&mut self.found) {
            let from = table_of(&mut self.shards, at, element);
            let Some(record) = from.and_then(|table| table.record(flow)) else {
                continue;
            };
            let to = table_of(&mut self.shards, place, element);
            // It was used at no later time than it says.
            match to.map(|table| table.insert_record(&record, u64::MAX)) {
                Some(Ok(_)) => self.moved.entries += 1,
                Some(Err(_)) | None => self.moved.lost += 1,
            }
            if let Some(table) = table_of(&mut self.shards, at, element) {
                table.remove(flow);
            }
        }
    }

    /// What a shard that goes has added to sums over all shards is the first one's from now on.
    fn merge_registers(&mut self, at: usize) {
        let (Some(first), None) = (self.places.get(0), self.shards[at].number) else {
            return;
        };
        let (from, to) = (&self.shards[at].ground, &self.shards[first].ground);
        let (from, to) = (from.globals.words(), to.globals.words());
        let starts = Layout::global_starts(&self.program);
        let globals = self.program.globals.iter().zip(starts);
        for (global, start) in globals.filter(|(global, _)| global.scope == Scope::Merged) {
            for index in start..start + global.count {
                let (Some(from), Some(to)) = (from.get(index as usize), to.get(index as usize))
                else {
                    return;
                };
                // Nobody else writes here. Release: a kill leaves stores in order.
                let value = from.load(Ordering::Relaxed).wrapping_sub(global.initial);
                let sum = to.load(Ordering::Relaxed).wrapping_add(value);
                to.store(sum & ones(global.width) as u64, Ordering::Release);
                from.store(global.initial, Ordering::Release);
            }
        }
    }
}

fn table_of<M>(shards: &mut [Shard<M>], place: usize, element: usize) -> Option<&mut FlowTable<M>> {
    shards
        .get_mut(place)?
        .ground
        .flows
        .get_mut(element)?
        .as_mut()
}

#[cfg(test)]
#[path = "moving_tests.rs"]
mod tests;
