//! What `nat44` tells whoever must know later which subscriber had an address and port.
//!
//! Beside packets: `translator` notes that a block begins or ends to be somebody's, and
//! `nf control` takes the notes away. One event for a block, not for a flow (RFC 6888 section 4,
//! RFC 7422). What is refused for a limit is noted once a second for each limit, so that a flood
//! makes no flood of notes. Limit: as many as the setting `log` says, of which those that tell what
//! is kept or refused have half; what comes then is lost, and counted.

use std::collections::VecDeque;

use super::why::Why;

/// Limits whose refusals are noted.
const LIMITS: [Why; 5] = [
    Why::SessionsFull,
    Why::SubscriberSessions,
    Why::SubscriberPorts,
    Why::SubscribersFull,
    Why::NoBlock,
];
/// From one note of a limit's refusals to the next.
const REFUSALS_NS: u64 = 1_000_000_000;

/// What became of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// It is the subscriber's from now on.
    Assigned,
    /// It was the subscriber's until now.
    Released,
    /// It is the subscriber's still, after a restart or a change of the chain: whatever was not
    /// asked for before is lost with the process.
    Kept,
    /// The subscriber got no session, for this limit; how many were refused for it, whosoever's,
    /// since that was noted before.
    Refused(Why, u64),
}

impl What {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Released => "released",
            Self::Kept => "kept",
            Self::Refused(..) => "refused",
        }
    }
}

/// One note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// When, on the chain's clock; none of what is kept, which began in another life.
    pub(super) at_ns: Option<u64>,
    pub(super) what: What,
    pub(super) inside: u32,
    /// The block: its address and ports; none of what is refused.
    pub(super) block: Option<(u32, [u16; 2])>,
}

/// Notes that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Event>,
    capacity: usize,
    pub(super) lost: u64,
    /// Of each limit: from when on it is noted again, and refusals since it was.
    refusals: [(u64, u64); LIMITS.len()],
}

impl Log {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::with_capacity(capacity),
            capacity,
            lost: 0,
            refusals: [(0, 0); LIMITS.len()],
        }
    }

    /// Counts what is refused to a subscriber, and notes it if none was noted for a while.
    pub(super) fn refuse(&mut self, why: Why, inside: u32, now_ns: u64) {
        let Some(at) = LIMITS.iter().position(|limit| *limit == why) else {
            return;
        };
        let (next_ns, count) = &mut self.refusals[at];
        *count += 1;
        if now_ns < *next_ns {
            return;
        }
        *next_ns = now_ns.saturating_add(REFUSALS_NS);
        let what = What::Refused(why, std::mem::take(count));
        self.note(Event {
            at_ns: Some(now_ns),
            what,
            inside,
            block: None,
        });
    }

    pub(super) fn note(&mut self, event: Event) {
        // A start with many blocks leaves room for what happens then, and so do refusals.
        let room = match event.what {
            What::Kept | What::Refused(..) => self.capacity / 2,
            What::Assigned | What::Released => self.capacity,
        };
        if self.events.len() < room {
            self.events.push_back(event);
        } else {
            self.lost += 1;
        }
    }

    /// Takes up to so many away, the oldest first.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = Event> {
        self.events.drain(..count.min(self.events.len()))
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }
}
