//! The device's entry: a bounded buffer in front of the chain, as a NIC's ring is in front of a
//! device.
//!
//! RFC 1242 counts a frame as lost that was offered and did not come out; a line does not wait. A
//! chain whose first link blocks makes the generator wait, so what is due meanwhile goes into this
//! buffer, and what is due while it is full is lost at that moment. Waiting in it is the device's
//! latency. What became due while the generator itself did not run is the tester's: it waits here
//! as well, behind what came before it, but takes no place from the device's.
//!
//! Pure: the generator says what time it is and whether the chain takes anything.

use std::collections::VecDeque;

use super::source::{Due, Source};

/// Packets that the buffer holds unless told otherwise: the default ring of common NICs.
pub const ENTRY_SIZE: u32 = 512;
/// Most that it may be told.
pub const ENTRY_SIZE_MAX: u32 = 65_536;
/// Packets of the tester's that wait at most; what is due beyond is never sent, and its fault.
const TESTER_COUNT_MAX: usize = 65_536;

/// A packet that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    pub(super) due: Due,
    /// How late the tester was with it; the rest of its lateness is the device's.
    pub(super) late_ns: u64,
    /// Whether it takes a place in the buffer.
    is_charged: bool,
}

/// What was due and found no place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Packets that the device lost.
    pub(super) lost: u64,
    /// Packets that the tester could not keep.
    pub(super) unsent: u64,
}

/// The buffer.
#[derive(Debug)]
pub(super) struct EntryBuffer {
    size: usize,
    waiting: VecDeque<Waiting>,
    /// How many of them take a place.
    charged: usize,
    /// Whether the chain takes nothing.
    is_blocked: bool,
    /// What was due up to here and was not sent is the tester's: the chain would have taken it.
    ready_ns: u64,
}

impl EntryBuffer {
    /// An empty buffer for `size` packets.
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            waiting: VecDeque::with_capacity(size),
            charged: 0,
            is_blocked: false,
            ready_ns: 0,
        }
    }

    /// Whether packets have to go through it: the chain took nothing, or some wait.
    #[inline]
    pub(super) fn is_used(&self) -> bool {
        self.is_blocked || !self.waiting.is_empty()
    }

    /// Whether nothing waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether the chain took nothing when last asked.
    #[inline]
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The chain takes nothing from now on, until [`Self::unblock`].
    pub(super) fn block(&mut self) {
        self.is_blocked = true;
    }

    /// The chain takes packets again.
    #[inline]
    pub(super) fn unblock(&mut self) {
        self.is_blocked = false;
    }

    /// The chain would have taken all that is due by `now_ns`: what is still there is the tester's.
    #[inline]
    pub(super) fn ready(&mut self, now_ns: u64) {
        self.ready_ns = now_ns;
    }

    /// Takes in what is due by `now_ns`; says what found no place.
    pub(super) fn admit(&mut self, source: &mut Source, now_ns: u64) -> Refused {
        let mut refused = Refused::default();
        while let Some(due) = source.take_due(now_ns) {
            let due_ns = due.planned.due_ns;
            let is_charged = due_ns > self.ready_ns;
            let late_ns = if is_charged {
                if self.charged >= self.size {
                    refused.lost += u64::from(!due.is_warmup);
                    continue;
                }
                self.charged += 1;
                0
            } else {
                if self.waiting.len() - self.charged >= TESTER_COUNT_MAX {
                    refused.unsent += u64::from(!due.is_warmup);
                    continue;
                }
                now_ns - due_ns
            };
            self.waiting.push_back(Waiting {
                due,
                late_ns,
                is_charged,
            });
        }
        refused
    }

    /// The packet that has waited longest.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Waiting> {
        let found = self.waiting.pop_front()?;
        self.charged -= usize::from(found.is_charged);
        Some(found)
    }

    /// Puts back what [`Self::pop`] gave.
    pub(super) fn put_back(&mut self, found: Waiting) {
        self.charged += usize::from(found.is_charged);
        self.waiting.push_front(found);
    }

    /// Gives up what waits.
    pub(super) fn give_up(&mut self) -> Refused {
        let mut refused = Refused::default();
        while let Some(found) = self.pop() {
            if found.due.is_warmup {
                continue;
            }
            if found.is_charged {
                refused.lost += 1;
            } else {
                refused.unsent += 1;
            }
        }
        refused
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::profile::Profile;
    use crate::traffic::plan::Plan;

    fn source(rate: &str) -> Source {
        let profile = Profile::from_json(&json!({ "load": { "rate": rate } })).unwrap();
        Source::new(Plan::new(&profile, Path::new(".")).unwrap())
    }

    #[test]
    fn what_is_due_while_it_is_full_is_lost() {
        let mut source = source("1Mpps");
        let mut buffer = EntryBuffer::new(4);
        source.take_due(0);
        buffer.block();
        // Due at 1,000 to 10,000 ns.
        let refused = buffer.admit(&mut source, 10_500);
        assert_eq!((refused.lost, refused.unsent), (6, 0));
        let kept: Vec<_> = std::iter::from_fn(|| buffer.pop())
            .map(|waiting| (waiting.due.planned.sequence, waiting.late_ns))
            .collect();
        assert_eq!(kept, [(1, 0), (2, 0), (3, 0), (4, 0)]);
        buffer.unblock();
        assert!(!buffer.is_used());
    }

    #[test]
    fn what_the_tester_was_late_with_takes_no_place() {
        let mut source = source("1Mpps");
        let mut buffer = EntryBuffer::new(2);
        buffer.ready(3500);
        buffer.block();
        let refused = buffer.admit(&mut source, 6500);
        assert_eq!((refused.lost, refused.unsent), (1, 0));
        let late: Vec<_> = std::iter::from_fn(|| buffer.pop())
            .map(|waiting| waiting.late_ns)
            .collect();
        assert_eq!(late, [6500, 5500, 4500, 3500, 0, 0]);
    }

    #[test]
    fn the_tester_s_have_a_limit_too_and_what_is_given_up_keeps_its_cause() {
        let mut source = source("1Gpps");
        let mut buffer = EntryBuffer::new(3);
        buffer.ready(99_999);
        buffer.block();
        let refused = buffer.admit(&mut source, 100_004);
        assert_eq!((refused.lost, refused.unsent), (2, 100_000 - 65_536));
        let waiting = buffer.pop().unwrap();
        buffer.put_back(waiting);
        let refused = buffer.give_up();
        assert_eq!((refused.lost, refused.unsent), (3, 65_536));
        assert!(buffer.is_empty());
    }
}
