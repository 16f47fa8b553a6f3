//! What a program tells when the state of a flow becomes another one, without a statement that
//! says so ([`Element::changes`](super::ir::Element::changes)).
//!
//! Behind an element's code, where its flows are stored (`store.rs`): the entry's label is compared
//! with what is put over it, whichever engine has run. A flow without an entry is in the initial
//! state, so one that is made in another state has changed; one that is forgotten, has given way or
//! whose time is over without a transition has ended.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::Entry;

use super::ir::{Element, FlowRegister, Program};
use super::queue::{KeyWords, Notices};

impl Program {
    /// Whether the events of another program have the same numbers, and are of the same elements.
    pub(super) fn tells_as(&self, other: &Self) -> bool {
        let own = self.elements.iter().map(|element| element.changes);
        let others = other.elements.iter().map(|element| element.changes);
        self.events == other.events && own.eq(others)
    }

    /// The element of whose flows an event tells changes; none for events that code tells.
    pub fn changes_of(&self, event: u16) -> Option<&Element> {
        let mut elements = self.elements.iter();
        elements.find(|element| element.changes == Some(event))
    }
}

/// Who tells changes of an element's flows: nobody, for most elements.
#[derive(Clone, Copy)]
pub(super) struct Teller<'a> {
    label: &'a FlowRegister,
    event: u16,
    now_ns: u64,
}

impl<'a> Teller<'a> {
    /// Of an element that has states and says what their changes are called.
    pub(super) fn of(element: &'a Element, now_ns: u64) -> Option<Self> {
        let event = element.changes?;
        let label = element.flows.as_ref()?.registers.first()?;
        Some(Self {
            label,
            event,
            now_ns,
        })
    }

    /// The label in an entry's state; the initial one without an entry.
    pub(super) fn label(&self, state: &[AtomicU64]) -> u64 {
        let word = state.get(usize::from(self.label.word));
        let word = word.map_or(0, |word| word.load(Ordering::Relaxed));
        word >> self.label.shift & super::field::ones(self.label.width) as u64
    }

    /// A flow that was in the state `from` is in `to`.
    pub(super) fn changed(&self, notices: &mut Notices, key: KeyWords, [from, to]: [u64; 2]) {
        if from != to {
            let values = [from, to].map(u128::from);
            notices.push_of(self.now_ns, self.event, &values, key);
        }
    }

    /// A flow has ended in the state `from`.
    pub(super) fn ended(&self, notices: &mut Notices, key: KeyWords, from: u64) {
        notices.push_of(self.now_ns, self.event, &[u128::from(from)], key);
    }
}

/// The key of an entry.
pub(super) fn key_of(entry: &Entry<'_>) -> KeyWords {
    std::array::from_fn(|word| entry.key(word))
}

/// A key of fewer words.
pub(super) fn key_words(key: &[u64]) -> KeyWords {
    std::array::from_fn(|word| key.get(word).copied().unwrap_or(0))
}
