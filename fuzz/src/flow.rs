// SPDX-License-Identifier: Apache-2.0
//! `catena-flow`: whatever stands in a table's memory, attaching and using it ends without a panic,
//! and a recovered table is sound.

use std::sync::atomic::Ordering;

use catena_flow::{Cursor, Ended, Eviction, Fate, FlowTable, HeapMemory, Memory, Shape, Timeouts};

const SHAPE: Shape = Shape {
    tick_ns: 16,
    ..Shape::new(2, 3, 24)
};
const NOW_NS: u64 = 1 << 20;

/// A table with entries, timers, guests in other buckets and free places.
fn sound() -> HeapMemory {
    let memory = HeapMemory::new(SHAPE.words().expect("a shape"));
    let mut table = FlowTable::create(&memory, &SHAPE, [3, 5], 0).expect("a table");
    for key in 0..24u64 {
        let timeouts = Timeouts {
            idle_ns: key % 3 * 1000,
            hard_ns: key % 2 * 700_000,
        };
        let _ = table.insert(&[key, 1], timeouts, NOW_NS - key);
    }
    for key in [3, 9, 20] {
        if let Some(flow) = table.find(&[key, 1]) {
            table.remove(flow);
        }
    }
    memory
}

/// A bit of everything.
fn use_all<M: Memory>(table: &mut FlowTable<M>) {
    let keys: Vec<[u64; 2]> = (0..40).map(|key| [key, 1]).collect();
    let mut found = vec![None; keys.len()];
    let hits = table.lookup(keys.as_flattened(), NOW_NS + 1, &mut found);
    assert_eq!(hits, found.iter().flatten().count());
    for (flow, key) in found.iter().flatten().zip(0..) {
        table.set_state(*flow, 0, key);
        if key % 4 == 0 {
            table.set_timeouts(*flow, Timeouts::idle(key), NOW_NS);
        }
    }
    let _ = (table.next_expiry_ns(), table.is_full(), table.counters());
    let expired = table.expire(NOW_NS + 900, 100, |_: Ended<'_>| Fate::Remove);
    assert!(expired.looked_at <= 100);
    for key in 100..130 {
        let timeouts = Timeouts::idle(key);
        let eviction = Eviction::OldestIdle;
        let _ = table.insert_evicting(&[key, 1], timeouts, NOW_NS + 5, eviction, |_, _| ());
    }
    let mut flows = Vec::new();
    let mut cursor = Cursor::default();
    while !table.walk(&mut cursor, 5, |flow, _| flows.push(flow)) {}
    for flow in flows {
        if let Some(record) = table.extract(flow) {
            let _ = table.insert_record(&record, NOW_NS + 6);
        }
    }
    table.expire(u64::MAX, 1000, |_: Ended<'_>| Fate::Keep(Timeouts::hard(9)));
}

/// Bytes as changes to the memory of a sound table: where, and what stands there then.
pub fn flow_attach(data: &[u8]) {
    let Some((first, changes)) = data.split_first() else {
        return;
    };
    let memory = sound();
    let words = memory.words();
    for change in changes.chunks_exact(5) {
        let place = usize::from(u16::from_le_bytes([change[0], change[1]])) % words.len();
        // Small numbers, links and extremes, by the kind of change.
        let value = match change[2] % 4 {
            0 => u64::from(change[3]),
            1 => u64::from(change[3]) << 32 | u64::from(change[4]),
            2 => words[place].load(Ordering::Relaxed) ^ 1 << (change[3] % 64),
            _ => (u64::MAX << (change[3] % 64)).wrapping_add(u64::from(change[4])),
        };
        // The identity's line is left alone by most inputs, or nothing else would be tried.
        if place >= 8 || first & 0x80 != 0 {
            words[place].store(value, Ordering::Relaxed);
        }
    }
    if first & 1 == 0 {
        if let Ok((mut table, attached)) = FlowTable::attach(&memory, &SHAPE, NOW_NS) {
            if attached.is_rebuilt {
                assert_eq!(table.check(), Ok(()));
            }
            use_all(&mut table);
        }
    } else if let Ok((mut table, _)) = FlowTable::recover(&memory, &SHAPE, NOW_NS) {
        assert_eq!(table.check(), Ok(()));
        use_all(&mut table);
        assert_eq!(table.check(), Ok(()));
    }
}

/// Bytes as the whole memory.
pub fn flow_memory(data: &[u8]) {
    let shape = Shape::new(1, 1, 3);
    let memory = HeapMemory::new(shape.words().expect("a shape"));
    for (word, bytes) in memory.words().iter().zip(data.chunks_exact(8)) {
        let value = bytes.try_into().map_or(0, u64::from_le_bytes);
        word.store(value, Ordering::Relaxed);
    }
    if let Ok((table, _)) = FlowTable::recover(&memory, &shape, NOW_NS) {
        assert_eq!(table.check(), Ok(()));
    }
}

/// A function of this file.
pub type Entry = fn(&[u8]);

/// Every function above, by name.
pub const ALL: [(&str, Entry); 2] = [("flow_attach", flow_attach), ("flow_memory", flow_memory)];
