//! Goal: who is spared when a table is full is asked once, and nobody is passed over who may give
//! way: after kills, changes of the policy and of entries, and where marks and counts end.
//! Method: a policy by labels; calls of its score are counted. Random histories beside a model that
//! knows no marks are in `history`.

use std::sync::atomic::Ordering;

use super::kill::{copy_of, killed_after};
use super::{Random, assert_right_marks, contents, score, spared};
use crate::bucket::Home;
use crate::{
    Defect, Ended, Entry, Fate, Flow, FlowTable, HeapMemory, Inserted, KeyedHash, Memory, Refusal,
    Shape, Timeouts,
};

/// Entries with label 1 give way, others are spared.
const POLICY: u64 = 0b10;
const SHAPE: Shape = Shape {
    tick_ns: 16,
    ..Shape::new(1, 2, 40)
};
const NOW: u64 = 100_000;

/// A full table of flows with labels 0, 2 and 3, under the policy; half of them have a timeout.
fn full() -> FlowTable<HeapMemory> {
    let mut table = FlowTable::on_heap(&SHAPE, [1, 2], 0).expect("a table");
    table.set_sparing(POLICY);
    for key in 0..u64::from(SHAPE.capacity) {
        let timeouts = Timeouts::idle(key % 2 * 5000);
        let inserted = table.insert(&[key], timeouts, NOW - 40 + key);
        let flow = inserted.expect("there is room").flow();
        table.set_state(flow, 0, [0, 2, 3][key as usize % 3]);
    }
    table
}

/// Asks for entries of these keys, by a policy. Gives the keys of those who gave way, and how often
/// somebody was asked.
fn ask<M: Memory>(
    table: &mut FlowTable<M>,
    policy: u64,
    keys: std::ops::Range<u64>,
) -> (Vec<u64>, usize) {
    let (mut gone, mut asked) = (Vec::new(), 0);
    for key in keys {
        let was_full = table.is_full();
        let counted = |entry: &Entry<'_>| {
            asked += 1;
            score(policy, entry)
        };
        let inserted = table.insert_sparing(&[key], Timeouts::NONE, NOW, counted, |_, entry| {
            gone.push(entry.key(0));
        });
        if was_full && gone.is_empty() {
            assert_eq!(inserted, Err(Refusal::Full));
        }
    }
    (gone, asked)
}

const STRANGERS: std::ops::Range<u64> = 1000..1200;

#[test]
fn who_is_spared_is_asked_once() {
    let mut table = full();
    let (gone, asked) = ask(&mut table, POLICY, STRANGERS);
    assert_eq!((gone.len(), asked), (0, 40));
    assert_eq!(spared(&table).len(), 40);
    assert_right_marks(&table, POLICY, "asked");
    assert_eq!(ask(&mut table, POLICY, STRANGERS), (vec![], 0));
    assert_eq!(table.counters().full, 400);
    // Whoever asks by another way asks all.
    let mut asked = 0;
    let count = |_: &Entry<'_>| {
        asked += 1;
        None
    };
    assert_eq!(table.victim(&[1000], NOW, count), None);
    assert!(asked > 0);
    // A successor with the same policy goes on.
    let (mut next, _) = FlowTable::attach(table.memory(), &SHAPE, NOW).expect("a table");
    next.set_sparing(POLICY);
    assert_eq!(ask(&mut next, POLICY, STRANGERS), (vec![], 0));
}

#[test]
fn who_may_give_way_from_now_on_is_asked_again() {
    let mut table = full();
    ask(&mut table, POLICY, STRANGERS);
    let flow = table.find(&[7]).expect("it is there");
    table.unspare(flow);
    table.set_state(flow, 0, 1);
    assert_eq!(spared(&table).len(), 39);
    assert_eq!(ask(&mut table, POLICY, STRANGERS), (vec![7], 1));
    // In its place there is somebody new, whom nobody has asked.
    assert_eq!(spared(&table).len(), 39);
    // What is over is asked again, whatever it becomes.
    let kept = |ended: Ended<'_>| {
        ended.entry.set_state(0, 1);
        Fate::Keep(Timeouts::NONE)
    };
    table.expire(NOW + 6000, 1000, kept);
    assert_right_marks(&table, POLICY, "kept");
    assert_eq!(spared(&table).len(), 20);
}

#[test]
fn nobody_who_was_used_at_this_instant_is_marked() {
    let mut table = full();
    let flow = table.find(&[7]).expect("it is there");
    table.touch(flow, NOW);
    ask(&mut table, POLICY, STRANGERS);
    assert!(spared(&table).len() == 39 && !spared(&table).contains(&flow));
}

#[test]
fn marks_end_with_their_policy_however_often_it_changes() {
    let mut table = full();
    for round in 0..200 {
        let policy = [POLICY, POLICY << 32, 0][round % 3];
        table.set_sparing(policy);
        assert_eq!(spared(&table), [], "round {round}");
        let (gone, asked) = ask(&mut table, policy, STRANGERS);
        let is_first = asked == 40;
        assert!(
            gone.is_empty() && is_first == (policy != 0),
            "round {round}"
        );
        assert_right_marks(&table, policy, "changed");
        table.set_sparing(policy);
        assert_eq!(spared(&table).len(), if is_first { 40 } else { 0 });
    }
}

#[test]
fn a_mark_on_an_empty_slot_is_a_defect() {
    let mut table = full();
    let flow = table.find(&[7]).expect("it is there");
    let (bucket, slot) = table.raw().slot_of(table.home(&[7]), flow).expect("a slot");
    ask(&mut table, POLICY, STRANGERS);
    assert!(table.remove(flow));
    assert_eq!(table.check(), Ok(()));
    table.raw().spare(bucket, slot);
    assert_eq!(table.check(), Err(Defect::Spared { bucket, slot }));
}

type Change = fn(&mut FlowTable<&HeapMemory>);

/// Changes under the policy that they say.
const CHANGES: &[(&str, u64, Change)] = &[
    ("refuse", POLICY, |table| {
        ask(table, POLICY, STRANGERS);
    }),
    ("give way", POLICY, |table| {
        for key in [3, 4, 5] {
            if let Some(flow) = table.find(&[key]) {
                table.unspare(flow);
                table.set_state(flow, 0, 1);
            }
        }
        ask(table, POLICY, STRANGERS);
    }),
    ("keep", POLICY, |table| {
        table.expire(NOW + 6000, 8, |ended: Ended<'_>| {
            ended.entry.set_state(0, 1);
            Fate::Keep(Timeouts::idle(300))
        });
        ask(table, POLICY, STRANGERS);
    }),
    ("another policy", 0b1000, |table| {
        table.set_sparing(0b1000);
        ask(table, 0b1000, STRANGERS);
    }),
    ("no policy and another", 0b100, |table| {
        table.set_sparing(0);
        for key in 0..40 {
            if let Some(flow) = table.find(&[key]) {
                table.set_state(flow, 0, 2);
            }
        }
        table.set_sparing(0b100);
        ask(table, 0b100, 1000..1002);
    }),
];

#[test]
fn a_kill_at_any_store_leaves_no_wrong_mark() {
    let mut marked = full();
    ask(&mut marked, POLICY, STRANGERS);
    // Where the next policy begins eras anew.
    let mut last = full();
    for policy in [1, POLICY].repeat(31) {
        last.set_sparing(policy);
    }
    ask(&mut last, POLICY, STRANGERS);
    assert_eq!(
        (last.raw().get(crate::raw::at::ERA), spared(&last).len()),
        (63, 40)
    );
    let mut kills = 0;
    for memory in [full(), marked, last].map(|table| copy_of(table.memory())) {
        for (name, policy, change) in CHANGES {
            for at in 0.. {
                let killed = copy_of(&memory);
                let (mut table, _) = FlowTable::attach(&killed, &SHAPE, NOW).expect("a table");
                if killed_after(at, || change(&mut table)) {
                    break;
                }
                kills += 1;
                let what = format!("{name}, store {at}");
                // By whatever policy the killed one went.
                let (table, attached) = FlowTable::attach(&killed, &SHAPE, NOW).expect("a table");
                assert_eq!(attached.lost, 0, "{what}");
                let was = killed.words()[crate::raw::at::SPARING].load(Ordering::Relaxed);
                assert_right_marks(&table, was, &what);
                for policy in [POLICY, *policy] {
                    let copy = copy_of(&killed);
                    let (mut next, _) = FlowTable::attach(copy, &SHAPE, NOW).expect("a table");
                    next.set_sparing(policy);
                    assert_right_marks(&next, policy, &what);
                    ask(&mut next, policy, 2000..2010);
                    assert_right_marks(&next, policy, &what);
                }
            }
        }
    }
    assert!(kills > 500, "{kills} kills are no test");
}

#[test]
fn how_many_are_away_is_counted_to_62() {
    // Keys that all belong to one bucket first: ten find room there.
    let shape = Shape::new(1, 1, 2000);
    let hash = KeyedHash::new([1, 2]);
    let mut table = FlowTable::on_heap(&shape, [1, 2], 0).expect("a table");
    let buckets = table.raw().geometry.buckets;
    let home = |key: u64| Home::new(hash.hash(&[key]), buckets);
    let alike = |key: &u64| home(*key).bucket == 7 && home(*key).other(buckets) != 7;
    let keys: Vec<u64> = (0..).filter(alike).take(90).collect();
    let insert = |table: &mut FlowTable<HeapMemory>, key: u64| {
        let inserted = table.insert(&[key], Timeouts::NONE, 0);
        assert!(matches!(inserted, Ok(Inserted::New(_))));
        assert_eq!(table.check(), Ok(()));
    };
    for (at, key) in keys.iter().enumerate() {
        insert(&mut table, *key);
        let away = at.saturating_sub(9).min(63);
        assert_eq!(table.raw().away(7), away as u64, "{at}");
    }
    for key in &keys {
        let flow: Option<Flow> = table.find(&[*key]);
        assert!(table.remove(flow.expect("it is there")));
        assert_eq!((table.check(), table.raw().away(7)), (Ok(()), 63));
    }
    for key in &keys {
        insert(&mut table, *key);
    }
    assert_eq!(contents(&table).len(), 90);
    // Whoever builds it anew counts again.
    for key in &keys[20..] {
        let flow = table.find(&[*key]).expect("it is there");
        table.remove(flow);
    }
    let (table, _) = FlowTable::recover(table.memory(), &shape, 0).expect("a table");
    assert_eq!((table.raw().away(7), table.check()), (10, Ok(())));
}

#[test]
fn a_table_of_the_version_before_is_taken_over() {
    let table = full();
    let memory = copy_of(table.memory());
    let before = contents(&table);
    let words = memory.words();
    words[1].store(1, Ordering::Relaxed);
    // What stood there then: a count of 16 bits where marks are now, and nothing above guests.
    let mut random = Random(9);
    let geometry = table.raw().geometry;
    for bucket in words[geometry.buckets_at..geometry.entries_at].chunks(8) {
        bucket[2].fetch_or((random.next() & 0xffff) << 32, Ordering::Relaxed);
    }
    let (mut table, attached) = FlowTable::attach(&memory, &SHAPE, NOW).expect("a table");
    assert!(attached.is_rebuilt && attached.lost == 0);
    assert_eq!(
        (words[1].load(Ordering::Relaxed), table.check()),
        (2, Ok(()))
    );
    assert_eq!((contents(&table), spared(&table)), (before, vec![]));
    assert_eq!(ask(&mut table, POLICY, STRANGERS).0, [0; 0]);
    assert_eq!(spared(&table).len(), 40);
}
