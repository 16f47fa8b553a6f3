//! Tests of the table as a whole: against a model, against kills, and at its limits.

mod history;
pub(crate) mod kill;
mod limits;

use std::collections::BTreeMap;

use crate::{Cursor, FlowTable, Memory, Record};

/// xorshift64*, seeded per test.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(limit)) >> 64) as u64
    }
}

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
