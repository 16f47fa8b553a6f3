//! Flows go to other shards, beside a model of random ones: none is lost, none is in two shards,
//! and each keeps its registers and timeouts, whoever is killed on the way.

use std::collections::BTreeMap;

use serde_json::json;

use super::super::planned::plan;
use super::*;
use crate::HeapMemory;
use crate::tests::{Random, contents};
use crate::{Record, Timeouts};

const SEED: u64 = 0x51de;
const ELEMENTS: usize = 2;

fn config(flows: u32) -> Value {
    let element = |name: &str| {
        json!({"name": name, "key": ["ip.src", "l4.src_port"], "idle": "30s", "flows": flows,
            "registers": {"packets": 32, "mark": 64},
            "transitions": [{"do": ["flow.packets = flow.packets + 1", "output(out)"]}]})
    };
    json!({"program": {
        "globals": {
            "seen": {"width": 16, "scope": "merged", "count": 3},
            "own": {"width": 32, "scope": "per_core"},
        },
        "elements": [element("first"), element("second")],
    }})
}

/// Memory of shards that outlives who has it, as the supervisor's regions do.
struct Regions {
    planned: Planned,
    all: Vec<Arc<HeapMemory>>,
}

/// Element and key, with all else that is known of a flow.
type Model = BTreeMap<(usize, Vec<u64>), Record>;

impl Regions {
    fn new(flows: u32) -> Self {
        let planned = plan(&config(flows)).unwrap();
        Self {
            planned,
            all: Vec::new(),
        }
    }

    fn make(&mut self, count: usize) {
        while self.all.len() < count {
            let memory = Arc::new(HeapMemory::new(self.planned.layout.words));
            let made = self
                .planned
                .layout
                .create(&self.planned.program, &memory, random_seed, 0);
            assert!(made.is_ok());
            self.all.push(memory);
        }
    }

    fn ground(&self, shard: usize) -> Ground<Portion<HeapMemory>> {
        let Planned {
            layout, program, ..
        } = &self.planned;
        layout.attach(program, &self.all[shard], u64::MAX).unwrap()
    }

    /// As the supervisor begins it, whatever was left before.
    fn mover(&self, count: u16) -> Flows<Portion<HeapMemory>> {
        let shards = (0..self.all.len()).map(|shard| Shard {
            number: u16::try_from(shard).ok().filter(|number| *number < count),
            ground: self.ground(shard),
        });
        Flows::over(
            self.planned.program.clone(),
            choice(count),
            shards.collect(),
        )
    }

    /// Every flow in every shard, each of which is the right one.
    fn contents(&self, count: u16) -> Model {
        let buckets = Buckets::of(count);
        let hash = KeyedHash::new([SEED, SEED_OF_SHARDS]);
        let mut model = Model::new();
        for shard in 0..self.all.len() {
            for (element, table) in self.ground(shard).flows.iter().flatten().enumerate() {
                assert_eq!(table.check(), Ok(()));
                for (key, record) in contents(table) {
                    let right = usize::from(buckets.shard_of(hash.hash(&key)));
                    assert_eq!(right, shard, "with {count} shards");
                    assert_eq!(model.insert((element, key), record), None, "in two shards");
                }
            }
        }
        model
    }

    /// Registers of the program, added up over shards.
    fn registers(&self) -> Vec<u64> {
        let mut sums = vec![0; 4];
        for shard in 0..self.all.len() {
            let ground = self.ground(shard);
            for (sum, word) in sums.iter_mut().zip(ground.globals.words()) {
                *sum += word.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

fn choice(shards: u16) -> Choice {
    Choice {
        shards,
        seed: SEED,
        input: 0,
    }
}

/// Puts a random flow into the shard that splitters would send its packets to.
fn arrive(regions: &Regions, model: &mut Model, count: u16, random: &mut Random) {
    let element = random.below(ELEMENTS as u64) as usize;
    let key_words = regions.ground(0).flows[element]
        .as_ref()
        .unwrap()
        .shape()
        .key_words;
    let key: Vec<u64> = (0..key_words).map(|_| random.below(1 << 40)).collect();
    let hash = KeyedHash::new([SEED, SEED_OF_SHARDS]).hash(&key);
    let mut ground = regions.ground(usize::from(Buckets::of(count).shard_of(hash)));
    let table = ground.flows[element].as_mut().unwrap();
    let now = random.below(1 << 50);
    let timeouts = Timeouts {
        idle_ns: random.below(1 << 45),
        hard_ns: random.below(1 << 52),
    };
    let flow = table.insert(&key, timeouts, now).unwrap().flow();
    for word in 0..table.shape().state_words as usize {
        table.set_state(flow, word, random.below(u64::MAX));
    }
    let record = table.record(flow).unwrap();
    model.insert((element, key), record);
}

#[test]
fn flows_are_where_their_packets_go_whatever_the_number_of_shards_and_whoever_is_killed() {
    let mut random = Random(0x5eed);
    let mut regions = Regions::new(4000);
    let mut model = Model::new();
    let mut count = 1_u16;
    regions.make(1);
    for round in 0..40 {
        for _ in 0..random.below(60) {
            arrive(&regions, &mut model, count, &mut random);
        }
        count = 1 + random.below(9) as u16;
        regions.make(count.into());
        // Somebody begins, some of them are killed, and another begins anew.
        for _ in 0..random.below(3) {
            let mut mover = regions.mover(count);
            for _ in 0..random.below(12) {
                mover.step(1 + random.below(20) as u32);
            }
            drop(mover);
            leave_in_both(&regions, count);
        }
        let mut mover = regions.mover(count);
        while mover.step(1 + random.below(100) as u32) {}
        assert_eq!(mover.moved().lost, 0);
        assert_eq!(
            regions.contents(count),
            model,
            "round {round}, {count} shards"
        );
    }
    assert!(model.len() > 800, "{}", model.len());
}

/// A kill between the two halves of a move: one flow has been copied, and not removed.
fn leave_in_both(regions: &Regions, count: u16) {
    let (hash, buckets) = (KeyedHash::new([SEED, SEED_OF_SHARDS]), Buckets::of(count));
    for shard in 0..regions.all.len() {
        let ground = regions.ground(shard);
        let table = ground.flows[0].as_ref().unwrap();
        for (key, record) in contents(table) {
            let right = usize::from(buckets.shard_of(hash.hash(&key)));
            if right != shard {
                let mut to = regions.ground(right);
                let copied = to.flows[0].as_mut().unwrap();
                assert!(copied.insert_record(&record, u64::MAX).is_ok());
                return;
            }
        }
    }
}

#[test]
fn sums_over_shards_stay_and_those_of_one_shard_go_with_it() {
    let mut regions = Regions::new(100);
    regions.make(4);
    for shard in 0..4 {
        for word in regions.ground(shard).globals.words().iter().take(4) {
            word.store(30_000 + shard as u64, Ordering::Relaxed);
        }
    }
    let mut mover = regions.mover(2);
    while mover.step(10) {}
    // Of 16 bits, as the program would have counted on.
    let first = regions.ground(0);
    let word = |at: usize| first.globals.words()[at].load(Ordering::Relaxed);
    // By name: first the one that is each shard's own.
    assert_eq!((word(0), word(1)), (30_000, word(3)));
    let of_first = word(3);
    assert_eq!(of_first, (30_000_u64 + 30_002 + 30_003) & 0xffff);
    assert_eq!(regions.registers()[3], of_first + 30_001);
}

#[test]
fn what_finds_no_room_is_counted() {
    let mut random = Random(7);
    let mut regions = Regions::new(40);
    let mut model = Model::new();
    regions.make(4);
    for _ in 0..120 {
        arrive(&regions, &mut model, 4, &mut random);
    }
    let mut mover = regions.mover(1);
    while mover.step(10) {}
    let moved = mover.moved();
    let left = regions.contents(1);
    assert!(moved.lost > 0 && moved.entries > 0, "{moved:?}");
    assert_eq!(left.len() as u64 + moved.lost, 120);
    assert!(left.iter().all(|(key, record)| model[key] == *record));
}
