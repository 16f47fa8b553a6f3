//! Goal: whatever is done to a table, it holds what a map would hold, and entries end when sorted
//! deadlines say.
//! Method: thousands of random histories on tables of many shapes, beside a `HashMap` of entries
//! whose deadlines are searched one by one; parts are compared after each step, all at the end.

use std::collections::HashMap;

use super::{Random, assert_right_marks, contents, gives_way, score};
use crate::{
    Ended, Entry, Eviction, Fate, FlowTable, HeapMemory, Inserted, Refusal, Shape, Timeouts, Why,
};

const HISTORIES: u64 = if cfg!(debug_assertions) {
    2_000
} else {
    20_000
};
const STEPS: u64 = 120;

/// What the model knows of a flow.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    state: Vec<u64>,
    used_ns: u64,
    idle_ns: u64,
    hard_ns: u64,
}

impl Known {
    fn new(shape: &Shape, timeouts: Timeouts, now_ns: u64) -> Self {
        Self {
            state: vec![0; shape.state_words as usize],
            used_ns: now_ns,
            idle_ns: timeouts.idle_ns,
            hard_ns: match timeouts.hard_ns {
                0 => u64::MAX,
                hard => now_ns + hard,
            },
        }
    }

    fn deadline_ns(&self) -> Option<u64> {
        let idle_ns = (self.idle_ns != 0).then(|| self.used_ns + self.idle_ns);
        let hard_ns = (self.hard_ns != u64::MAX).then_some(self.hard_ns);
        idle_ns.into_iter().chain(hard_ns).min()
    }
}

struct History {
    random: Random,
    table: Option<FlowTable<HeapMemory>>,
    model: HashMap<Vec<u64>, Known>,
    now_ns: u64,
    /// Many shapes have fewer keys than entries, many more.
    keys: u64,
    shape: Shape,
    /// By which entries are spared.
    policy: u64,
    /// Entries that were not asked, since they were known to be spared.
    passed_over: usize,
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed * 2 + 1);
        random.next();
        let shape = Shape {
            tick_ns: 16 << random.below(20),
            schema: seed,
            ..Shape::new(
                1 + random.below(8) as u32,
                1 + random.below(32) as u32,
                1 + random.below(60) as u32,
            )
        };
        let now_ns = random.next() >> (4 + random.below(50));
        let table = FlowTable::on_heap(&shape, [random.next(), seed], now_ns);
        Self {
            keys: 1 + random.below(80),
            table: Some(table.expect("a table")),
            model: HashMap::new(),
            random,
            now_ns,
            shape,
            policy: 0,
            passed_over: 0,
        }
    }

    fn table(&mut self) -> &mut FlowTable<HeapMemory> {
        self.table.as_mut().expect("there is always a table")
    }

    fn key(&mut self) -> Vec<u64> {
        let number = self.random.below(self.keys);
        let last = self.shape.key_words as u64 - 1;
        (0..=last)
            .map(|word| if word == last { number } else { word })
            .collect()
    }

    fn timeouts(&mut self) -> Timeouts {
        let span = |random: &mut Random| match random.below(3) {
            0 => 0,
            _ => random.next() >> (20 + random.below(40)),
        };
        Timeouts {
            idle_ns: span(&mut self.random),
            hard_ns: span(&mut self.random),
        }
    }

    fn step(&mut self) {
        match self.random.below(24) {
            0..=4 => self.look_up(),
            5..=9 => self.insert(),
            10 => self.insert_evicting(),
            11 => self.remove(),
            12 => self.write(),
            13 => self.change_timeouts(),
            14 => self.hand_over(),
            15 => self.attach(),
            16..=18 => {
                for _ in 0..=self.random.below(12) {
                    self.insert_sparing();
                }
            }
            19 => self.change_policy(),
            _ => {
                let ahead = self.random.next() >> (22 + self.random.below(42));
                self.now_ns += ahead;
                self.expire();
            }
        }
        let has_timers = self
            .model
            .values()
            .any(|known| known.deadline_ns().is_some());
        let first = self.model.values().filter_map(Known::deadline_ns).min();
        let tick_ns = self.shape.tick_ns;
        let next_ns = self.table().next_expiry_ns();
        assert_eq!(next_ns.is_some(), has_timers);
        if let (Some(next_ns), Some(first)) = (next_ns, first) {
            let latest = first.div_ceil(tick_ns) * tick_ns;
            assert!(
                next_ns <= latest.max(self.now_ns),
                "{next_ns} is behind {first}"
            );
        }
    }

    fn look_up(&mut self) {
        let most = [20, 20, 20, 257][self.random.below(4) as usize];
        let count = self.random.below(most);
        let keys: Vec<Vec<u64>> = (0..count).map(|_| self.key()).collect();
        let mut found = vec![None; keys.len()];
        let now_ns = self.now_ns;
        let mut seen = found.clone();
        let seen_count = self.table().peek(&keys.concat(), &mut seen);
        for (key, flow) in keys.iter().zip(&seen) {
            if let (Some(flow), Some(known)) = (flow, self.model.get(key)) {
                let table = self.table.as_ref().expect("a table");
                assert_eq!(
                    table.deadline_ns(*flow),
                    known.deadline_ns(),
                    "not marked as used"
                );
            }
        }
        let hits = self.table().lookup(&keys.concat(), now_ns, &mut found);
        assert_eq!(hits, found.iter().flatten().count());
        assert_eq!((seen_count, &seen), (hits, &found));
        for (key, found) in keys.iter().zip(found) {
            assert_eq!(found.is_some(), self.model.contains_key(key));
            if let (Some(flow), Some(known)) = (found, self.model.get_mut(key)) {
                known.used_ns = now_ns;
                let table = self.table.as_ref().expect("a table");
                assert_eq!(
                    table.entry(flow).map(|entry| entry.key(key.len() - 1)),
                    key.last().copied()
                );
                assert_eq!(table.deadline_ns(flow), known.deadline_ns());
            }
        }
    }

    fn insert(&mut self) {
        let (key, timeouts, now_ns) = (self.key(), self.timeouts(), self.now_ns);
        let is_full = self.model.len() == self.shape.capacity as usize;
        let inserted = self.table().insert(&key, timeouts, now_ns);
        match inserted {
            Ok(Inserted::Present(_)) => assert!(self.model.contains_key(&key)),
            Ok(Inserted::New(_)) => {
                let known = Known::new(&self.shape, timeouts, now_ns);
                assert!(self.model.insert(key, known).is_none());
            }
            Err(refusal) => {
                assert!(is_full && !self.model.contains_key(&key));
                assert_eq!(refusal, Refusal::Full);
            }
        }
        assert_eq!(self.table().len() as usize, self.model.len());
    }

    fn insert_evicting(&mut self) {
        let (key, timeouts, now_ns) = (self.key(), self.timeouts(), self.now_ns);
        let eviction = [
            Eviction::None,
            Eviction::OldestIdle,
            Eviction::Lowest(0),
            Eviction::Highest(0),
        ][self.random.below(4) as usize];
        let mut gone = None;
        let width = key.len();
        let inserted =
            self.table()
                .insert_evicting(&key, timeouts, now_ns, eviction, |_, entry| {
                    gone = Some((0..width).map(|word| entry.key(word)).collect::<Vec<u64>>());
                });
        assert!(gone.is_none() || eviction != Eviction::None);
        self.settle(key, timeouts, gone, inserted);
    }

    /// Behind an insertion that may have evicted somebody.
    fn settle(
        &mut self,
        key: Vec<u64>,
        timeouts: Timeouts,
        gone: Option<Vec<u64>>,
        inserted: Result<Inserted, Refusal>,
    ) {
        let was_full = self.model.len() == self.shape.capacity as usize;
        if let Some(gone) = gone {
            assert!(was_full && inserted.is_ok());
            let victim = self.model.remove(&gone).expect("a known flow");
            assert!(victim.used_ns < self.now_ns, "in use at this very instant");
        }
        match inserted {
            Ok(Inserted::New(_)) => {
                let known = Known::new(&self.shape, timeouts, self.now_ns);
                assert!(self.model.insert(key, known).is_none());
            }
            Ok(Inserted::Present(_)) => assert!(self.model.contains_key(&key)),
            Err(refusal) => assert!(was_full && refusal == Refusal::Full),
        }
    }

    fn insert_sparing(&mut self) {
        let (key, timeouts, now_ns) = (self.key(), self.timeouts(), self.now_ns);
        let is_full = self.model.len() == self.shape.capacity as usize;
        let may_evict = is_full && !self.model.contains_key(&key);
        let (victim, to_be_asked) = self.victim(&key);
        let (policy, width) = (self.policy, key.len());
        let (mut asked, mut gone) = (0, None);
        let ask = |entry: &Entry<'_>| {
            asked += 1;
            score(policy, entry)
        };
        let table = self.table.as_mut().expect("a table");
        let inserted = table.insert_sparing(&key, timeouts, now_ns, ask, |_, entry| {
            gone = Some((0..width).map(|word| entry.key(word)).collect::<Vec<u64>>());
        });
        assert_eq!(gone, victim.filter(|_| may_evict));
        if may_evict {
            self.passed_over += to_be_asked - asked;
        }
        self.settle(key, timeouts, gone, inserted);
    }

    /// Who gives way to a key if everybody is asked, and how many these are.
    fn victim(&self, key: &[u64]) -> (Option<Vec<u64>>, usize) {
        let table = self.table.as_ref().expect("a table");
        let (raw, home) = (table.raw(), table.home(key));
        let mut asked = 0;
        for bucket in [home.bucket, home.other(raw.geometry.buckets)] {
            let all = self.model.iter().map(|(key, known)| {
                let flow = table.find(key).expect("a known flow");
                (known, flow, key)
            });
            let here = all.filter(|(known, flow, key)| {
                let place = raw.slot_of(table.home(key), *flow);
                place.is_some_and(|place| place.0 == bucket) && known.used_ns < self.now_ns
            });
            let here: Vec<_> = here.collect();
            asked += here.len();
            let ready = here.into_iter();
            let ready = ready.filter(|(known, ..)| gives_way(self.policy, known.state[0]));
            if let Some(oldest) = ready.min_by_key(|(known, flow, _)| (known.used_ns, *flow)) {
                return (Some(oldest.2.clone()), asked);
            }
        }
        (None, asked)
    }

    fn change_policy(&mut self) {
        // Labels of new entries are 0: mostly they are spared.
        self.policy = self.random.below(32) & self.random.below(32);
        let policy = self.policy;
        self.table().set_sparing(policy);
    }

    fn remove(&mut self) {
        let key = self.key();
        let removed = match self.table().find(&key) {
            Some(flow) => self.table().remove(flow),
            None => false,
        };
        assert_eq!(removed, self.model.remove(&key).is_some());
    }

    fn write(&mut self) {
        let (key, value) = (self.key(), self.random.below(5));
        let word = self.random.below(u64::from(self.shape.state_words) + 1) as usize;
        if let Some(flow) = self.table().find(&key) {
            let (policy, known) = (self.policy, self.model.get_mut(&key).expect("a known flow"));
            // No more often than it must be.
            if word == 0 && gives_way(policy, value) && !gives_way(policy, known.state[0]) {
                self.table.as_mut().expect("a table").unspare(flow);
            }
            let is_word = known
                .state
                .get_mut(word)
                .map(|word| *word = value)
                .is_some();
            assert_eq!(self.table().set_state(flow, word, value), is_word);
        }
    }

    fn change_timeouts(&mut self) {
        let (key, timeouts, now_ns) = (self.key(), self.timeouts(), self.now_ns);
        if let Some(flow) = self.table().find(&key) {
            assert!(self.table().set_timeouts(flow, timeouts, now_ns));
            let known = self.model.get_mut(&key).expect("a known flow");
            let state = std::mem::take(&mut known.state);
            *known = Known {
                state,
                ..Known::new(&self.shape, timeouts, now_ns)
            };
        }
    }

    /// Out of the table and back in, by way of words.
    fn hand_over(&mut self) {
        let (key, now_ns) = (self.key(), self.now_ns);
        if let Some(flow) = self.table().find(&key) {
            let record = self.table().extract(flow).expect("it is there");
            assert_eq!(self.table().find(&key), None);
            let (keys, states) = (record.key_words, record.state_words);
            let mut words = vec![0; crate::Record::words(keys, states)];
            assert!(record.write(&mut words));
            let copy = crate::Record::read(keys, states, &words).expect("what was written");
            let inserted = self.table().insert_record(&copy, now_ns);
            assert!(matches!(inserted, Ok(Inserted::New(_))));
        }
    }

    fn attach(&mut self) {
        let memory = super::kill::copy_of(self.table().memory());
        let attach = if self.random.below(2) == 0 {
            FlowTable::attach
        } else {
            FlowTable::recover
        };
        let (table, attached) = attach(memory, &self.shape, self.now_ns).expect("a table");
        assert_eq!(
            (attached.entries as usize, attached.lost),
            (self.model.len(), 0)
        );
        self.table = Some(table);
        if self.random.below(2) == 0 {
            self.change_policy();
        }
    }

    fn expire(&mut self) {
        let most = [6, 1000][self.random.below(2) as usize];
        let budget = self.random.below(most) as u32;
        let (now_ns, shape) = (self.now_ns, self.shape);
        let kept = match self.random.below(4) {
            0 => Some(Timeouts::idle(1 + self.random.below(1 << 30))),
            _ => None,
        };
        let label = [0, 1, 2, 77][self.random.below(4) as usize];
        let Self { table, model, .. } = self;
        let table = table.as_mut().expect("a table");
        let mut removed = 0;
        let done = table.expire(now_ns, budget, |ended: Ended<'_>| {
            let key: Vec<u64> = (0..shape.key_words as usize)
                .map(|word| ended.entry.key(word))
                .collect();
            let known = model.get_mut(&key).expect("a known flow");
            assert!(
                known
                    .deadline_ns()
                    .is_some_and(|deadline| deadline <= now_ns)
            );
            assert_eq!(ended.why == Why::Hard, known.hard_ns <= now_ns);
            if let Some(timeouts) = kept {
                known.state[0] = label;
                assert!(ended.entry.set_state(0, label));
                let state = std::mem::take(&mut known.state);
                *known = Known {
                    state,
                    ..Known::new(&shape, timeouts, now_ns)
                };
                return Fate::Keep(timeouts);
            }
            model.remove(&key);
            removed += 1;
            Fate::Remove
        });
        assert_eq!(done.removed, removed);
        assert!(done.looked_at <= budget);
        if !done.is_behind {
            let late = self.model.values().filter_map(Known::deadline_ns);
            let tick_ns = shape.tick_ns;
            let late: Vec<u64> = late
                .filter(|deadline| deadline + tick_ns <= now_ns)
                .collect();
            assert_eq!(late, [0_u64; 0], "left behind at {now_ns}");
        }
    }

    fn compare(&mut self) {
        let policy = self.policy;
        assert_right_marks(self.table(), policy, "history");
        let all = contents(self.table());
        assert_eq!(all.len(), self.model.len());
        for (key, record) in all {
            let known = Known {
                state: record.state[..record.state_words as usize].to_vec(),
                used_ns: record.used_ns,
                idle_ns: record.idle_ns,
                hard_ns: record.hard_ns,
            };
            assert_eq!(self.model.get(&key), Some(&known));
        }
    }
}

#[test]
fn random_histories_leave_what_a_map_would_hold() {
    let mut passed_over = 0;
    for seed in 0..HISTORIES {
        let mut history = History::new(seed);
        for step in 0..STEPS {
            history.step();
            if step % 16 == 0 {
                history.compare();
            }
        }
        history.compare();
        passed_over += history.passed_over;
    }
    assert!(passed_over > 10_000, "{passed_over} marks are no test");
}
