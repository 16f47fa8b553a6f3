//! Tests of the table as a whole: against a model, against kills, and at its limits.

mod history;
pub(crate) mod kill;
mod limits;
#[path = "../../tests/random/mod.rs"]
mod random;

use std::collections::BTreeMap;

use crate::{Cursor, FlowTable, Memory, Record};
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
