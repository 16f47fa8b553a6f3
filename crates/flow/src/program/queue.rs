//! What a program sends beside its verdicts, until somebody takes it: packets of its own making and
//! events.
//!
//! Filled on the data path, emptied by the NF when there is room on its links, or when somebody
//! asks for events. Both are bounded, made once, and count what they had no room for.

use std::collections::VecDeque;

use crate::KEY_WORDS_MAX;

use super::ir::Program;
use super::mirror::MIRROR_LEN_MAX;
use super::template::{TEMPLATE_FIELD_COUNT_MAX, TEMPLATE_LEN_MAX, Template};

/// Packets that wait for room.
pub const EMISSION_COUNT_MAX: usize = 256;
/// Events that wait to be asked for.
pub const NOTICE_COUNT_MAX: usize = 1024;
/// Values of an event.
pub const NOTICE_VALUE_COUNT_MAX: usize = 8;

/// The key of a flow, zeros behind its last word.
pub type KeyWords = [u64; KEY_WORDS_MAX];

/// A packet that code has asked for, and that is not made yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    template: u16,
    output: u8,
    values: [u128; TEMPLATE_FIELD_COUNT_MAX],
}

/// Packets of a program's own making, and copies of such as came.
#[derive(Debug)]
pub struct Emissions {
    /// What the code in hand has asked for, with room for [`EMISSION_COUNT_MAX`].
    asked: Vec<Asked>,
    /// A ring of places of the same size.
    bytes: Vec<u8>,
    place_len: usize,
    /// How many places there are.
    places: usize,
    /// Output and length of each packet that waits, in order.
    waiting: VecDeque<(u8, usize)>,
    first: usize,
    /// Packets that were made and found room here.
    pub made: u64,
    /// Those of them that have left.
    pub sent: u64,
    /// Packets that found no room here, or for which there is no buffer that is long enough.
    pub lost: u64,
}

impl Emissions {
    /// Room for what a program sends, if it sends anything.
    pub fn of(program: &Program) -> Self {
        if program.mirrors() {
            Self::new(EMISSION_COUNT_MAX, MIRROR_LEN_MAX)
        } else if program.makes_packets() {
            Self::new(EMISSION_COUNT_MAX, TEMPLATE_LEN_MAX)
        } else {
            Self::none()
        }
    }

    /// Room for nothing.
    pub fn none() -> Self {
        Self::new(0, TEMPLATE_LEN_MAX)
    }

    fn new(places: usize, place_len: usize) -> Self {
        Self {
            asked: Vec::with_capacity(places),
            bytes: vec![0; places * place_len],
            place_len,
            places,
            waiting: VecDeque::with_capacity(places),
            first: 0,
            made: 0,
            sent: 0,
            lost: 0,
        }
    }

    /// Asks for a packet of a template, which is made by [`Emissions::make`].
    pub(super) fn ask(&mut self, template: u16, output: u8, values: &[u128]) {
        if self.asked.len() == self.places {
            self.lost += 1;
            return;
        }
        let mut asked = Asked {
            template,
            output,
            values: [0; TEMPLATE_FIELD_COUNT_MAX],
        };
        let count = values.len().min(TEMPLATE_FIELD_COUNT_MAX);
        asked.values[..count].copy_from_slice(&values[..count]);
        self.asked.push(asked);
    }

    /// Makes what was asked for.
    #[inline]
    pub(super) fn make(&mut self, templates: &[Template]) {
        if !self.asked.is_empty() {
            self.make_asked(templates);
        }
    }

    #[inline(never)]
    fn make_asked(&mut self, templates: &[Template]) {
        let mut asked = std::mem::take(&mut self.asked);
        for one in asked.drain(..) {
            if let Some(template) = templates.get(usize::from(one.template)) {
                self.push(one.output, template.bytes.len(), |out| {
                    template.fill(&one.values, out);
                });
            }
        }
        self.asked = asked;
    }

    /// Nothing comes of what was asked for: the packet in hand is dropped, since its flow has no
    /// place, and whoever gets an answer would not know of what.
    pub(super) fn withdraw(&mut self) {
        self.asked.clear();
    }

    /// A packet for an output; lost if there is no room.
    pub fn push(&mut self, output: u8, len: usize, fill: impl FnOnce(&mut [u8])) {
        if self.waiting.len() == self.places || len > self.place_len {
            self.lost += 1;
            return;
        }
        let place = (self.first + self.waiting.len()) % self.places;
        fill(&mut self.bytes[place * self.place_len..][..len]);
        self.waiting.push_back((output, len));
        self.made += 1;
    }

    /// The packet that has waited longest: its output and bytes.
    pub fn first(&self) -> Option<(u8, &[u8])> {
        let (output, len) = *self.waiting.front()?;
        Some((output, &self.bytes[self.first * self.place_len..][..len]))
    }

    /// It has been sent.
    pub fn pop(&mut self) {
        self.sent += u64::from(self.take());
    }

    /// It never will be.
    pub fn give_up(&mut self) {
        self.lost += u64::from(self.take());
    }

    fn take(&mut self) -> bool {
        let is_there = self.waiting.pop_front().is_some();
        if is_there {
            self.first = (self.first + 1) % self.places;
        }
        is_there
    }

    /// Whether none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

/// Something that a program tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// When, in ns.
    pub now_ns: u64,
    /// The event: a number of the program's.
    pub event: u16,
    /// How many values there are.
    pub count: u8,
    /// The values. Of a flow's change of state: labels, the one before and the one behind; the one
    /// before alone if the flow has ended.
    pub values: [u128; NOTICE_VALUE_COUNT_MAX],
    /// The key of the flow that has changed; zeros for other events.
    pub key: KeyWords,
}

impl Notice {
    /// Its values.
    pub fn values(&self) -> &[u128] {
        &self.values[..usize::from(self.count)]
    }
}

/// Events of a program.
#[derive(Debug)]
pub struct Notices {
    waiting: VecDeque<Notice>,
    capacity: usize,
    /// Events that had no room.
    pub lost: u64,
}

impl Notices {
    /// Room for events, if the program tells some.
    pub fn new(is_used: bool) -> Self {
        let capacity = if is_used { NOTICE_COUNT_MAX } else { 0 };
        Self {
            waiting: VecDeque::with_capacity(capacity),
            capacity,
            lost: 0,
        }
    }

    /// An event; lost if there is no room.
    pub fn push(&mut self, now_ns: u64, event: u16, values: &[u128]) {
        self.push_of(now_ns, event, values, KeyWords::default());
    }

    /// An event about a flow; lost if there is no room.
    pub fn push_of(&mut self, now_ns: u64, event: u16, values: &[u128], key: KeyWords) {
        if self.waiting.len() == self.capacity {
            self.lost += 1;
            return;
        }
        let mut notice = Notice {
            now_ns,
            event,
            count: values.len().min(NOTICE_VALUE_COUNT_MAX) as u8,
            values: [0; NOTICE_VALUE_COUNT_MAX],
            key,
        };
        for (to, from) in notice.values.iter_mut().zip(values) {
            *to = *from;
        }
        self.waiting.push_back(notice);
    }

    /// Loses all that wait.
    pub fn forget(&mut self) {
        self.lost += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// The event that has waited longest.
    pub fn pop(&mut self) -> Option<Notice> {
        self.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each packet counts once: as sent, as lost, or as one that waits.
    #[test]
    fn what_cannot_be_sent_is_lost_and_not_sent() {
        let mut emissions = Emissions::new(3, 4);
        for byte in 0..5 {
            emissions.push(byte, 2, |to| to.fill(byte));
        }
        emissions.push(9, 5, |_| panic!("there is no room for it"));
        let counts = |of: &Emissions| (of.made, of.sent, of.lost, of.waiting.len());
        assert_eq!(counts(&emissions), (3, 0, 3, 3));
        emissions.pop();
        assert_eq!(emissions.first(), Some((1, &[1, 1][..])));
        emissions.give_up();
        assert_eq!(counts(&emissions), (3, 1, 4, 1));
        emissions.pop();
        emissions.pop();
        emissions.give_up();
        assert_eq!(counts(&emissions), (3, 2, 4, 0));
    }
}
