//! How far a worker's ends of links are, noted while it chooses packets to follow.
//!
//! Called by `turn` behind each pull from a ring and each sending into one, with the readings of
//! the clock that visits have; and by the tick, for what has not changed for long
//! ([`crate::probe::moments`] says what for).

use super::Probe;
use crate::link::RxLink;
use crate::nf::Nanos;
use crate::probe::moments::{CursorLog, CursorSpan};
use crate::worker::graph::{InEdge, OutEdge, WorkerNode};

impl Probe {
    /// Packets have been taken from `link`, which was begun at the last reading of the clock.
    #[inline]
    pub fn note_taken(&mut self, link: &mut RxLink) {
        if self.is_choosing {
            let names = (link.number(), false);
            let cursor = link.cursor();
            self.note(&mut link.taken, names, self.last, cursor);
        }
    }

    /// A node has passed something on. What followed packets of the burst say of when, they say
    /// here; a burst without one costs a reading, which spares that in front of the next.
    #[inline]
    pub fn note_cursors(&mut self, outputs: &mut [OutEdge]) {
        if self.is_choosing {
            self.note_sent(outputs);
        }
    }

    fn note_sent(&mut self, outputs: &mut [OutEdge]) {
        let mut is_read = self.is_on && self.is_seen;
        for output in outputs {
            let OutEdge::Link(link) = output else {
                continue;
            };
            let cursor = link.cursor();
            if link.sent.is_at(self.tracing, cursor) {
                continue;
            }
            if !is_read {
                (self.last, self.is_stale, is_read) = (self.now(), false, true);
            }
            let names = (link.number(), true);
            self.note(&mut link.sent, names, self.last, cursor);
        }
    }

    /// Nothing changes in any link of `nodes` at `now`, between two turns.
    pub fn note_all(&mut self, nodes: &mut [WorkerNode], now: Nanos) {
        if !self.is_choosing {
            return;
        }
        let now = now.0.min(self.ends_at);
        for node in nodes {
            for input in &mut node.inputs {
                if let InEdge::Link(link) = input {
                    let (names, cursor) = ((link.number(), false), link.cursor());
                    self.note(&mut link.taken, names, now, cursor);
                }
            }
            for output in &mut node.outputs {
                if let OutEdge::Link(link) = output {
                    let (names, cursor) = ((link.number(), true), link.cursor());
                    self.note(&mut link.sent, names, now, cursor);
                }
            }
        }
    }

    #[inline]
    fn note(&mut self, log: &mut CursorLog, (link, is_sender): (u16, bool), now: u64, cursor: u64) {
        let span = log.note(self.tracing, now, cursor);
        if let (Some(span), Some(records)) = (span, &mut self.records) {
            let span = CursorSpan {
                link,
                is_sender,
                ..span
            };
            records.push(span.to_record());
        }
    }
}
