//! Iteration, copies and hand-over: beside packets, a bounded part at a time.
//!
//! Entries never change their number, so a walk by number visits whoever stays throughout exactly
//! once, and whoever comes or goes meanwhile at most once.

use std::sync::atomic::Ordering;

use super::FlowTable;
use crate::flow::{Entry, Flow, Record};
use crate::memory::Memory;
use crate::raw::TIME_MAX;

/// How far a walk has come. The default is the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cursor {
    next: u32,
}

impl Cursor {
    /// At a place that [`Cursor::place`] gave before, of a walk of the same table.
    pub fn at(place: u32) -> Self {
        Self { next: place }
    }

    /// Where the walk goes on, for who asks again later.
    pub fn place(&self) -> u32 {
        self.next
    }
}

impl<M: Memory> FlowTable<M> {
    /// Visits entries from where `cursor` stands and looks at no more than `budget` places. Gives
    /// whether the walk is at its end.
    ///
    /// Between two steps the table may be changed. A visit may not; to remove what it sees, it
    /// notes the handles.
    pub fn walk(
        &self,
        cursor: &mut Cursor,
        budget: u32,
        mut visit: impl FnMut(Flow, Entry<'_>),
    ) -> bool {
        let raw = self.raw();
        let end = raw.fresh();
        let until = cursor.next.saturating_add(budget).min(end);
        for flow in (cursor.next..until).filter_map(Flow::new) {
            let entry = raw.view(flow);
            if entry.is_live() {
                visit(flow, entry);
            }
        }
        cursor.next = until.max(cursor.next);
        cursor.next >= end
    }

    /// A copy of an entry; none if nobody lives there. A snapshot is a walk with copies; it is
    /// restored by [`FlowTable::insert_record`], also into a table of another capacity.
    pub fn record(&self, flow: Flow) -> Option<Record> {
        let raw = self.raw();
        let entry = self.entry(flow)?;
        let mut record = Record {
            key_words: self.shape.key_words,
            state_words: self.shape.state_words,
            key: [0; _],
            state: [0; _],
            used_ns: entry.used_ns().min(TIME_MAX),
            idle_ns: raw.idle_ns(flow),
            hard_ns: raw.hard_ns(flow),
        };
        raw.read_key(flow, &mut record.key[..self.geometry.key_words]);
        let state = entry.words.get(self.geometry.key_words + 1..);
        for (copy, word) in record.state.iter_mut().zip(state.unwrap_or_default()) {
            *copy = word.load(Ordering::Relaxed);
        }
        Some(record)
    }

    /// Takes an entry out: the first half of a hand-over to another shard.
    pub fn extract(&mut self, flow: Flow) -> Option<Record> {
        let record = self.record(flow)?;
        self.remove(flow);
        Some(record)
    }
}
