//! Goal: a kill at any store leaves a table to which a successor can attach, and in which each
//! entry is as before or as after the change.
//! Method: each change is run again and again on copies of the same memory and ended by a panic
//! before its first store, its second, and so on; then somebody else attaches.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::Ordering;

use super::{Random, contents};
use crate::{Ended, Eviction, Fate, FlowTable, HeapMemory, Memory, Shape, Timeouts};

thread_local! {
    /// Stores until the kill; none while nobody is to be killed.
    static LEFT: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The panic that stands for the kill.
struct Killed;

/// Called before each store to a table's memory.
#[inline(always)]
pub(crate) fn before_store() {
    LEFT.with(|left| match left.get() {
        // Without the message of a panic.
        Some(0) => resume_unwind(Box::new(Killed)),
        Some(n) => left.set(Some(n - 1)),
        None => {}
    });
}

/// Runs something that is killed before its store number `after`; whether it got to its end.
pub(super) fn killed_after(after: u64, run: impl FnOnce()) -> bool {
    LEFT.set(Some(after));
    let ended = catch_unwind(AssertUnwindSafe(run));
    LEFT.set(None);
    match ended {
        Ok(()) => true,
        Err(panic) if panic.is::<Killed>() => false,
        Err(panic) => resume_unwind(panic),
    }
}

pub(super) fn copy_of(memory: &HeapMemory) -> HeapMemory {
    let copy = HeapMemory::new(memory.words().len());
    for (to, from) in copy.words().iter().zip(memory.words()) {
        to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    copy
}

const SHAPE: Shape = Shape {
    tick_ns: 16,
    ..Shape::new(2, 3, 40)
};
const NOW: u64 = 100_000;

fn timeouts(random: &mut Random) -> Timeouts {
    Timeouts {
        idle_ns: random.below(3) * random.below(4000),
        hard_ns: random.below(2) * random.below(90_000),
    }
}

/// A table with some past.
fn used(random: &mut Random, flows: u64) -> HeapMemory {
    let memory = HeapMemory::new(SHAPE.words().expect("a shape"));
    let mut table = FlowTable::create(memory, &SHAPE, [random.next(), 1], 0).expect("a table");
    for key in 0..flows {
        let timeouts = timeouts(random);
        let inserted = table.insert(&[key, 7], timeouts, NOW - random.below(5000));
        let flow = inserted.expect("there is room").flow();
        table.set_state(flow, 1, key + 1);
    }
    for key in (0..flows).filter(|key| key % 5 == 0) {
        let flow = table.find(&[key, 7]).expect("inserted");
        table.remove(flow);
    }
    copy_of(table.memory())
}

fn attach(memory: &HeapMemory) -> FlowTable<&HeapMemory> {
    FlowTable::attach(memory, &SHAPE, NOW).expect("a table").0
}

type Change = fn(&mut FlowTable<&HeapMemory>);

/// Each change, and whether it is one: all of it has happened, or nothing.
const CHANGES: &[(&str, bool, Change)] = &[
    ("insert", true, |table| {
        let timeouts = Timeouts {
            idle_ns: 500,
            hard_ns: 10_000,
        };
        let _ = table.insert(&[1000, 7], timeouts, NOW);
    }),
    ("evict", false, |table| {
        let timeouts = Timeouts::idle(500);
        let eviction = Eviction::OldestIdle;
        let _ = table.insert_evicting(&[1000, 7], timeouts, NOW + 1, eviction, |_, _| ());
    }),
    ("remove", true, |table| {
        if let Some(flow) = table.find(&[11, 7]) {
            table.remove(flow);
        }
    }),
    ("hand over", false, |table| {
        if let Some(mut record) = table.find(&[12, 7]).and_then(|flow| table.extract(flow)) {
            record.key[0] = 2000;
            let _ = table.insert_record(&record, NOW);
        }
    }),
    ("look up", false, |table| {
        table.lookup(&[11, 7, 12, 7, 99, 99, 13, 7], NOW + 50, &mut [None; 4]);
    }),
    ("expire", false, |table| {
        table.expire(NOW + 2500, 100, |_: Ended<'_>| Fate::Remove);
    }),
    ("expire far", false, |table| {
        table.expire(NOW + (1 << 40), 100, |_: Ended<'_>| Fate::Remove);
    }),
    ("roll back", false, |table| {
        table.expire(NOW + 2500, 20, |ended: Ended<'_>| {
            ended.entry.set_state(0, 9);
            Fate::Keep(Timeouts::idle(300))
        });
    }),
    ("other timeouts", false, |table| {
        for key in 0..40 {
            if let Some(flow) = table.find(&[key, 7]) {
                table.set_timeouts(flow, Timeouts::idle(30), NOW);
            }
        }
    }),
];

#[test]
fn a_kill_at_any_store_of_any_change_leaves_a_sound_table() {
    let mut random = Random(77);
    let mut kills = 0;
    for flows in [0, 1, 30, 40, 40] {
        let memory = used(&mut random, flows);
        let before = contents(&attach(&memory));
        for (name, is_one, change) in CHANGES {
            let whole = copy_of(&memory);
            change(&mut attach(&whole));
            let after = contents(&attach(&whole));
            for at in 0.. {
                let killed = copy_of(&memory);
                let mut table = attach(&killed);
                if killed_after(at, || change(&mut table)) {
                    break;
                }
                kills += 1;
                let successor = FlowTable::attach(&killed, &SHAPE, NOW + 1);
                let (mut successor, attached) = successor.expect("a table");
                assert_eq!(attached.lost, 0, "{name}, store {at}");
                assert_eq!(successor.check(), Ok(()), "{name}, store {at}");
                let now = contents(&successor);
                for key in before.keys().chain(after.keys()).chain(now.keys()) {
                    let is = now.get(key).map(|record| record.state);
                    let was = before.get(key).map(|record| record.state);
                    let will_be = after.get(key).map(|record| record.state);
                    assert!(is == was || is == will_be, "{name}, store {at}: {key:?}");
                }
                let keys: Vec<_> = now.keys().collect();
                let is_all = keys == before.keys().collect::<Vec<_>>()
                    || keys == after.keys().collect::<Vec<_>>();
                assert!(is_all || !is_one, "{name}, store {at}");
                // It goes on working.
                change(&mut successor);
                assert_eq!(successor.check(), Ok(()), "{name} again, store {at}");
            }
        }
    }
    assert!(kills > 3_000, "{kills} kills are no test");
}

fn recover(memory: &HeapMemory) {
    let _ = FlowTable::recover(memory, &SHAPE, NOW);
}

fn make(memory: &HeapMemory) {
    let _ = FlowTable::create(memory, &SHAPE, [1, 2], NOW);
}

#[test]
fn a_kill_while_attaching_or_making_leaves_a_table_or_none() {
    let mut random = Random(78);
    let memory = used(&mut random, 40);
    let before = contents(&attach(&memory));
    for at in 0.. {
        let killed = copy_of(&memory);
        if killed_after(at, || recover(&killed)) {
            assert!(at > 1000);
            break;
        }
        let (table, attached) = FlowTable::attach(&killed, &SHAPE, NOW).expect("a table");
        assert_eq!((attached.is_rebuilt, attached.lost), (at > 0, 0));
        assert_eq!(table.check(), Ok(()), "store {at}");
        assert_eq!(contents(&table), before, "store {at}");
    }
    for at in 0.. {
        let killed = copy_of(&memory);
        if killed_after(at, || make(&killed)) {
            break;
        }
        match FlowTable::attach(&killed, &SHAPE, NOW) {
            Ok((table, _)) => assert_eq!((at, contents(&table)), (0, before.clone())),
            Err(error) => assert_eq!(error, crate::AttachError::NoTable),
        }
    }
}
