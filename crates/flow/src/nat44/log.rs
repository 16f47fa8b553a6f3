//! What `nat44` tells whoever must know later which subscriber had an address and port.
//!
//! Beside packets: `translator` notes that a block begins or ends to be somebody's, and
//! `nf control` takes the notes away. One event for a block, not for a flow (RFC 6888 section 4,
//! RFC 7422). Limit: as many as the setting `log` says, of which those that tell what is kept have
//! half; what comes then is lost, and counted.

use std::collections::VecDeque;

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
}

impl What {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Assigned => "assigned",
            Self::Released => "released",
            Self::Kept => "kept",
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
    pub(super) outside: u32,
    pub(super) ports: [u16; 2],
}

/// Notes that nobody has taken yet.
#[derive(Debug)]
pub(super) struct Log {
    events: VecDeque<Event>,
    capacity: usize,
    pub(super) lost: u64,
}

impl Log {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            events: VecDeque::with_capacity(capacity),
            capacity,
            lost: 0,
        }
    }

    pub(super) fn note(&mut self, event: Event) {
        // A start with many blocks leaves room for what happens then.
        let room = match event.what {
            What::Kept => self.capacity / 2,
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
