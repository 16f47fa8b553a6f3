//! Tests of the table as a whole: against a model, against kills, and at its limits.

mod history;
pub(crate) mod kill;
mod limits;
#[path = "../../tests/random/mod.rs"]
mod random;
mod sparing;

use std::collections::BTreeMap;

use crate::bucket::{ALL_SLOTS, flow_in, slots};
use crate::{Cursor, Entry, Flow, FlowTable, Memory, Record};
pub(crate) use random::Random;

/// All that a table holds, by key.
pub(crate) fn contents<M: Memory>(table: &FlowTable<M>) -> BTreeMap<Vec<u64>, Record> {
    let mut all = BTreeMap::new();
    let mut cursor = Cursor::default();
    while !table.walk(&mut cursor, 7, |flow, _| {
        let record = table.record(flow).expect("visited entries are there");
        let key = record.key[..record.key_words as usize].to_vec();
        assert_eq!(table.find(&key), Some(flow));
        assert!(all.insert(key, record).is_none(), "visited twice");
    }) {}
    assert_eq!(all.len(), table.len() as usize);
    all
}

/// The policy of a number in these tests: whether an entry with this label, its first word of
/// state, gives way.
fn gives_way(policy: u64, label: u64) -> bool {
    label < 64 && policy >> label & 1 == 1
}

/// The oldest of those who give way.
fn score(policy: u64, entry: &Entry<'_>) -> Option<u64> {
    gives_way(policy, entry.state(0)).then(|| entry.used_ns())
}

/// Entries that are marked as spared, each as often as it is.
pub(crate) fn spared<M: Memory>(table: &FlowTable<M>) -> Vec<Flow> {
    let raw = table.raw();
    let marked = (0..raw.geometry.buckets).flat_map(|bucket| {
        let line = raw.bucket(bucket).expect("a bucket");
        slots(ALL_SLOTS & raw.spared(line)).filter_map(|slot| flow_in(line, slot))
    });
    marked.collect()
}

/// Marks may be missing; none may be wrong.
fn assert_right_marks<M: Memory>(table: &FlowTable<M>, policy: u64, what: &str) {
    assert_eq!(table.check(), Ok(()), "{what}");
    for flow in spared(table) {
        let label = table.state(flow, 0);
        assert!(!gives_way(policy, label), "{what}: {flow:?} gives way");
    }
}
