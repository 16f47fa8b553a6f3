//! Flows that do not give way when their table is full, by their state: marked in the table, so
//! that a flood of new flows does not read them again and again ([`FlowTable::insert_sparing`]).
//!
//! Behind an element's code, before what it has written is stored (`store.rs`): a flow that comes
//! into a state in which it gives way is asked again from then on.

use crate::{Flow, FlowTable, Memory};

use super::env::FlowWords;
use super::field::ones;
use super::ir::{Flows, Program, WhenFull};

impl Flows {
    /// Number of the policy by which flows are spared: 0 if none is. Layouts of the same number
    /// have the same labels in the same place, so that states say it all.
    fn sparing(&self) -> u64 {
        match self.when_full {
            WhenFull::EvictOldestIn(states) => states,
            _ => 0,
        }
    }

    /// Whether flows in a state may give way.
    pub(super) fn gives_way(&self, label: u64) -> bool {
        match self.when_full {
            WhenFull::EvictOldestIn(states) => label < 64 && states >> label & 1 == 1,
            _ => true,
        }
    }

    /// The label in a flow's words.
    #[inline]
    pub(super) fn label_of(&self, word: impl FnOnce(usize) -> u64) -> u64 {
        self.registers.first().map_or(0, |label| {
            word(usize::from(label.word)) >> label.shift & ones(label.width) as u64
        })
    }
}

/// Says to each element's table which flows its program spares.
pub(super) fn set_sparing<M: Memory>(tables: &mut [Option<FlowTable<M>>], program: &Program) {
    for (table, element) in tables.iter_mut().zip(&program.elements) {
        if let (Some(table), Some(flows)) = (table, &element.flows) {
            table.set_sparing(flows.sparing());
        }
    }
}

/// Before words are put over those of a flow that there was before: if by its new state it may give
/// way, and by its old one not, it is asked again.
#[inline]
pub(super) fn unspare<M: Memory>(
    table: &mut FlowTable<M>,
    flows: &Flows,
    flow: Flow,
    words: &FlowWords,
) {
    if flows.sparing() == 0 {
        return;
    }
    let mut is_written = false;
    let to = flows.label_of(|at| {
        is_written = words.written() >> at & 1 == 1;
        match is_written {
            true => words.over(at, table.state(flow, at)),
            false => 0,
        }
    });
    if is_written && flows.gives_way(to) {
        let from = flows.label_of(|at| table.state(flow, at));
        if !flows.gives_way(from) {
            table.unspare(flow);
        }
    }
}

#[cfg(test)]
#[path = "sparing_tests.rs"]
mod tests;
