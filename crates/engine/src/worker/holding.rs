//! What an NF of a worker holds, and when it is asked for it.
//!
//! Beside the path of a packet, between two turns: see [`crate::nf::Nf::emit`].

use crate::nf::{Hold, Nanos};
use crate::worker::work::Work;

/// An NF's packets between turns, and its next instant.
#[derive(Debug, Default)]
pub struct Holding {
    /// Its packets.
    pub hold: Hold,
    /// Whether it is asked at all.
    pub emits: bool,
    /// Whether something has happened since it was last asked.
    pub is_due: bool,
    /// Whether it found no room, or no buffer.
    pub waits: bool,
    /// When it asked to be asked.
    pub next: Option<Nanos>,
}

impl Holding {
    /// Of a node that begins its work.
    pub fn of(work: &Work) -> Self {
        let mut holding = Self::default();
        holding.begin(work);
        holding
    }

    /// An NF begins its work, with nothing held.
    pub fn begin(&mut self, work: &Work) {
        self.emits = matches!(work, Work::Nf(nf) if nf.emits());
        (self.is_due, self.waits, self.next) = (self.emits, false, None);
    }

    /// Whether it is to be asked at `now`, if there is room at an output.
    #[inline]
    pub fn is_to_be_asked(&self, now: Nanos) -> bool {
        self.is_due || self.waits || self.next.is_some_and(|next| next <= now)
    }
}

#[cfg(test)]
#[path = "holding_tests.rs"]
mod tests;
