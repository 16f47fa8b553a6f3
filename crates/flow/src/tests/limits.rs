//! Goal: at every limit a table does what it says: full, crowded, jumps of the clock, stale
//! handles, wrong widths, memory that is none.

use std::sync::atomic::Ordering;

use super::{Random, contents};
use crate::bucket::Home;
use crate::{
    AttachError, Cursor, Ended, Eviction, Fate, Flow, FlowTable, HeapMemory, Inserted, KeyedHash,
    Memory, Refusal, Shape, Timeouts,
};

const SECOND: u64 = 1_000_000_000;

fn table(shape: Shape) -> FlowTable<HeapMemory> {
    FlowTable::on_heap(&shape, [1, 2], 0).expect("a table")
}

fn insert(table: &mut FlowTable<HeapMemory>, key: &[u64], idle_ns: u64, now_ns: u64) -> Flow {
    let inserted = table.insert(key, Timeouts::idle(idle_ns), now_ns);
    inserted.expect("there is room").flow()
}

#[test]
fn every_entry_can_be_used_and_the_next_is_refused() {
    let mut table = table(Shape::new(1, 1, 50_000));
    for key in 0..50_000 {
        assert!(!table.is_full());
        insert(&mut table, &[key], 0, key);
    }
    assert!(table.is_full());
    assert_eq!(
        table.insert(&[50_000], Timeouts::NONE, 0),
        Err(Refusal::Full)
    );
    assert!(matches!(
        table.insert(&[7], Timeouts::NONE, 0),
        Ok(Inserted::Present(_))
    ));
    assert_eq!(table.check(), Ok(()));
    let counters = table.counters();
    assert_eq!(
        (counters.inserts, counters.full, counters.crowded),
        (50_000, 1, 0)
    );
    assert_eq!(counters.refused(), 1);
    let mut found = [None; 256];
    let keys: Vec<u64> = (49_872..50_128).collect();
    assert_eq!(table.lookup(&keys, 0, &mut found), 128);
    assert!(found[..128].iter().all(Option::is_some) && found[128..].iter().all(Option::is_none));
    // What is refused whole is counted nowhere, nor is what is only looked at.
    assert_eq!(table.lookup(&keys[1..], 0, &mut found), 0);
    assert_eq!(found, [None; 256]);
    assert_eq!(table.peek(&keys, &mut found), 128);
    assert_eq!(
        (table.counters().hits, table.counters().misses()),
        (128, 128)
    );
}

#[test]
fn entries_that_all_meet_in_two_buckets_are_moved_and_then_refused() {
    // Six buckets; keys of one tag that belong to bucket 0 first.
    let shape = Shape::new(1, 1, 30);
    let hash = KeyedHash::new([1, 2]);
    let home = |key: u64| Home::new(hash.hash(&[key]), 6);
    let first = (0..).find(|key| home(*key).bucket == 0 && home(*key).other(6) != 0);
    let wanted = home(first.expect("a key"));
    let mut same = (0..).filter(|key| home(*key) == wanted);
    let mut table = table(shape);
    // Strangers in its other bucket, which can go elsewhere.
    let other = wanted.other(6);
    let moves_on =
        |key: &u64| home(*key).bucket == other && ![0, other].contains(&home(*key).other(6));
    let strangers: Vec<u64> = (0..).filter(moves_on).take(8).collect();
    for key in &strangers {
        insert(&mut table, &[*key], 0, 0);
    }
    let twenty: Vec<u64> = same.by_ref().take(20).collect();
    for key in &twenty {
        insert(&mut table, &[*key], 0, 0);
        assert_eq!(table.check(), Ok(()));
    }
    assert_eq!(table.counters().moves, 8);
    let one_more = same.next().expect("a key");
    assert_eq!(
        table.insert(&[one_more], Timeouts::NONE, 0),
        Err(Refusal::Crowded)
    );
    assert_eq!((table.counters().crowded, table.len()), (1, 28));
    assert_eq!(table.check(), Ok(()));
    assert!(
        strangers
            .iter()
            .chain(&twenty)
            .all(|key| table.find(&[*key]).is_some())
    );
    // Eviction makes room there too.
    let timeouts = Timeouts::NONE;
    let mut gone = 0;
    let inserted = table.insert_evicting(&[one_more], timeouts, 1, Eviction::OldestIdle, |_, _| {
        gone += 1;
    });
    assert!(matches!(inserted, Ok(Inserted::New(_))));
    assert_eq!(
        (gone, table.counters().evicted, table.check()),
        (1, 1, Ok(()))
    );
}

#[test]
fn policies_evict_whom_they_say_and_nobody_who_is_in_use_now() {
    // Two buckets; all keys belong to the same one first.
    let shape = Shape::new(1, 1, 7);
    let hash = KeyedHash::new([1, 2]);
    let keys = (0..).filter(|key| Home::new(hash.hash(&[*key]), 2).bucket == 0);
    let keys: Vec<u64> = keys.take(8).collect();
    let policies = [
        Eviction::OldestIdle,
        Eviction::Lowest(0),
        Eviction::Highest(0),
    ];
    for (policy, victim) in policies.into_iter().zip([3, 5, 1]) {
        let mut table = table(shape);
        for (at, value) in [50, 90, 50, 50, 50, 10, 50].into_iter().enumerate() {
            let flow = insert(&mut table, &[keys[at]], 0, if at == 3 { 1 } else { 2 });
            table.set_state(flow, 0, value);
        }
        let mut gone = None;
        let show = |_, entry: crate::Entry<'_>| gone = Some(entry.key(0));
        let inserted = table.insert_evicting(&[keys[7]], Timeouts::NONE, 9, policy, show);
        assert!(matches!(inserted, Ok(Inserted::New(_))));
        assert_eq!(
            (gone, table.find(&[keys[victim]])),
            (Some(keys[victim]), None)
        );
        for key in &keys {
            if let Some(flow) = table.find(&[*key]) {
                table.touch(flow, 30);
            }
        }
        let key = [keys[victim]];
        let refused = table.insert_evicting(&key, Timeouts::NONE, 30, policy, |_, _| ());
        assert_eq!(refused, Err(Refusal::Full), "all are in use now");
        // A policy of the caller's own may spare anybody.
        let score = |entry: &crate::Entry<'_>| (entry.key(0) == keys[2]).then_some(1);
        let inserted = table.insert_choosing(&key, Timeouts::NONE, 31, score, |_, _| ());
        assert!(matches!(inserted, Ok(Inserted::New(_))));
        assert_eq!((table.find(&[keys[2]]), table.check()), (None, Ok(())));
    }
}

#[test]
fn a_clock_that_jumps_ends_a_bounded_number_per_turn() {
    let mut table = table(Shape::new(1, 1, 1000));
    for key in 0..1000 {
        insert(&mut table, &[key], 10 * SECOND, key * 1000);
    }
    assert_eq!(
        table
            .expire(5 * SECOND, 100, |_: Ended<'_>| Fate::Remove)
            .looked_at,
        0
    );
    let jump = 100_000 * SECOND;
    let first = table.expire(jump, 100, |_: Ended<'_>| Fate::Remove);
    assert!(first.is_behind && first.removed <= 100 && first.looked_at == 100);
    // Whoever is used before his turn comes lives on.
    let used = (0..1000)
        .find(|key| table.find(&[*key]).is_some())
        .expect("most are left");
    assert_eq!(table.lookup(&[used], jump, &mut [None]), 1);
    let mut turns = 0;
    while table
        .expire(jump + turns, 100, |_: Ended<'_>| Fate::Remove)
        .is_behind
    {
        turns += 1;
        assert_eq!(table.check(), Ok(()));
    }
    assert!(turns < 100);
    assert_eq!(
        contents(&table).into_keys().collect::<Vec<_>>(),
        [vec![used]]
    );
    // Back to where it was: nothing ends, and what comes is kept.
    assert_eq!(
        table
            .expire(SECOND, 100, |_: Ended<'_>| Fate::Remove)
            .looked_at,
        0
    );
    let flow = insert(&mut table, &[5000], SECOND, 2 * SECOND);
    assert_eq!(table.deadline_ns(flow), Some(3 * SECOND));
    assert_eq!(
        table
            .expire(jump + SECOND, 100, |_: Ended<'_>| Fate::Remove)
            .removed,
        1
    );
    assert_eq!(table.find(&[5000]), None);
}

#[test]
fn a_successor_whose_clock_is_behind_lists_all_entries_anew() {
    let shape = Shape::new(1, 1, 10);
    let mut first = table(shape);
    insert(&mut first, &[1], 10 * SECOND, 500 * SECOND);
    first.expire(500 * SECOND, 10, |_: Ended<'_>| Fate::Remove);
    let memory = first.memory();
    let (same, attached) = FlowTable::attach(memory, &shape, 501 * SECOND).expect("a table");
    assert!(!attached.is_rebuilt && same.next_expiry_ns() > Some(500 * SECOND));
    let (mut table, attached) = FlowTable::attach(memory, &shape, SECOND).expect("a table");
    assert_eq!(
        (attached.is_rebuilt, attached.entries, table.check()),
        (true, 1, Ok(()))
    );
    assert_eq!(
        table
            .expire(12 * SECOND, 10, |_: Ended<'_>| Fate::Remove)
            .removed,
        1
    );
}

#[test]
fn a_packet_does_not_move_its_entry_in_the_wheel() {
    let mut table = table(Shape::new(1, 1, 10));
    let flow = insert(&mut table, &[1], SECOND, 0);
    let listed = table.next_expiry_ns();
    for now_ns in 1..100 {
        table.lookup(&[1], now_ns * SECOND / 100, &mut [None]);
    }
    assert_eq!(
        table.next_expiry_ns(),
        listed,
        "listed for its first deadline"
    );
    assert_eq!(table.deadline_ns(flow), Some(SECOND + 99 * SECOND / 100));
    let mut ended = 0;
    let mut count = |_: Ended<'_>| {
        ended += 1;
        Fate::Remove
    };
    let looks = table.expire(SECOND + SECOND / 2, 10, &mut count).looked_at;
    assert!((1..=4).contains(&looks), "{looks} looks");
    assert!(table.next_expiry_ns() > listed);
    assert_eq!(
        table.expire(2 * SECOND + SECOND / 100, 10, count).removed,
        1
    );
    assert_eq!(ended, 1);
}

#[test]
fn stale_handles_and_wrong_widths_do_nothing() {
    let mut table = table(Shape::new(2, 1, 10));
    let flow = insert(&mut table, &[1, 1], 0, 0);
    assert!(table.remove(flow));
    assert!(!table.remove(flow));
    assert!(!table.set_timeouts(flow, Timeouts::NONE, 0));
    assert!(table.entry(flow).is_none() && table.record(flow).is_none());
    assert_eq!(table.deadline_ns(flow), None);
    let far = Flow::new(u32::MAX - 1).expect("a handle");
    assert!(!table.remove(far) && !table.set_state(far, 0, 1));
    assert_eq!((table.state(far, 0), table.state_words(far).len()), (0, 0));
    assert_eq!(table.insert(&[1], Timeouts::NONE, 0), Err(Refusal::Width));
    assert_eq!(table.find(&[1, 1, 1]), None);
    let mut found = [Some(flow); 2];
    assert_eq!(table.lookup(&[1, 1, 1], 0, &mut found), 0);
    assert_eq!(found, [None; 2]);
    let many = vec![0; 2 * 257];
    assert_eq!(table.lookup(&many, 0, &mut [Some(flow); 257]), 0);
    assert_eq!(table.check(), Ok(()));
}

#[test]
fn a_walk_visits_whoever_stays_once_while_others_come_and_go() {
    let mut table = table(Shape::new(1, 1, 300));
    let mut random = Random(5);
    for key in 0..200 {
        insert(&mut table, &[key], 0, 0);
    }
    let mut seen = vec![0; 1000];
    let mut cursor = Cursor::default();
    let mut next = 200;
    while !table.walk(&mut cursor, 3, |_, entry| seen[entry.key(0) as usize] += 1) {
        // Keys from 100 on come and go; the first hundred stay.
        if let Some(flow) = table.find(&[100 + random.below(100)]) {
            table.remove(flow);
        }
        if next < 1000 && !table.is_full() {
            insert(&mut table, &[next], 0, 0);
            next += 1;
        }
    }
    assert!(seen[..100].iter().all(|count| *count == 1));
    assert!(seen[100..].iter().all(|count| *count <= 1));
}

#[test]
fn a_snapshot_is_restored_into_a_table_of_another_size() {
    let mut from = table(Shape::new(2, 2, 100));
    for key in 0..100 {
        let flow = insert(&mut from, &[key, 1], key * SECOND, key);
        from.set_state(flow, 1, key * 3);
    }
    let shape = Shape::new(2, 2, 200);
    let mut to = table(shape);
    let mut cursor = Cursor::default();
    while !from.walk(&mut cursor, 10, |flow, _| {
        let record = from.record(flow).expect("it is there");
        assert!(matches!(
            to.insert_record(&record, SECOND),
            Ok(Inserted::New(_))
        ));
    }) {}
    assert_eq!(contents(&to), contents(&from));
    let other = table(Shape::new(2, 3, 10)).insert_record(
        &from
            .record(Flow::new(0).expect("a handle"))
            .expect("it is there"),
        0,
    );
    assert_eq!(other, Err(Refusal::Width));
}

#[test]
fn other_shapes_versions_and_memories_are_refused() {
    let shape = Shape::new(2, 1, 10);
    let needed = shape.words().expect("a shape");
    let memory = HeapMemory::new(needed + 1);
    let attach = |words, shape: &Shape| FlowTable::attach(words, shape, 0).map(|_| ()).err();
    let words = &memory.words()[..needed];
    assert_eq!(attach(words, &shape), Some(AttachError::NoTable));
    assert!(FlowTable::create(words, &shape, [1, 2], 0).is_ok());
    assert_eq!(attach(words, &shape), None);
    let short = AttachError::TooSmall {
        needed,
        present: needed - 1,
    };
    assert_eq!(attach(&words[..needed - 1], &shape), Some(short));
    assert_eq!(
        attach(&memory.words()[1..], &shape),
        Some(AttachError::Misaligned)
    );
    let others = [
        Shape { schema: 1, ..shape },
        Shape {
            tick_ns: 16,
            ..shape
        },
        Shape {
            capacity: 9,
            ..shape
        },
    ];
    for other in &others {
        assert_eq!(attach(words, other), Some(AttachError::OtherShape));
    }
    words[1].store(9, Ordering::Relaxed);
    assert_eq!(attach(words, &shape), Some(AttachError::Version(9)));
    let wrong = Shape {
        key_words: 0,
        ..shape
    };
    assert!(matches!(attach(words, &wrong), Some(AttachError::Shape(_))));
}
