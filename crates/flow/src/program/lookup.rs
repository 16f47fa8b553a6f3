//! The first half of a burst at an element: keys of all packets, and one lookup for all of them.
//!
//! Before the element's code ([`run`](super::run)). Headers are found once, in front of the first
//! element; keys lie one behind the other, so that they are looked up where they were made.

use crate::table::lookup::BURST_MAX;
use crate::{KEY_WORDS_MAX, Memory};

use super::env::Outcome;
use super::frame::Frame;
use super::interpret::Unwatched;
use super::ir::{Key, KeyPart};
use super::run::{Arrival, Decision, Part, Place, Running, Sight};

impl<M: Memory> Running<M> {
    /// First step of packet `index` of a burst at an element: its headers and its key. The first
    /// packet comes first.
    #[inline]
    pub fn make_key<F: Frame>(
        &mut self,
        element: usize,
        index: usize,
        frame: &mut F,
        arrival: Arrival,
    ) {
        if element == 0 {
            self.begin(index, frame.bytes());
        }
        if index == 0 {
            self.key_count = 0;
        }
        self.places[index] = Place::default();
        let Some(table) = &self.flows[element] else {
            return;
        };
        if self.packets[index].is_done || self.key_count >= BURST_MAX {
            return;
        }
        let at = self.key_count * table.shape().key_words as usize;
        if self.run_key((element, Part::Key), index, frame, arrival, at) {
            let has_update = self.loaded.program.elements[element].update.is_some();
            self.places[index] = Place {
                has_key: true,
                has_update: has_update
                    && self.run_key((element, Part::Update), index, frame, arrival, at),
                key: self.key_count as u16,
            };
            self.key_count += 1;
        }
    }

    #[inline]
    fn begin(&mut self, index: usize, bytes: &[u8]) {
        let packet = &mut self.packets[index];
        packet.headers.find(bytes);
        packet.is_done = packet.headers.is_malformed() && !self.loaded.program.takes_malformed;
        packet.decision = packet.is_done.then_some(Decision::Malformed);
        (packet.clones, packet.mirrors) = (0, 0);
        self.loaded.arrived.keep(index, bytes);
        let count = self.loaded.program.metadata.len();
        // To fill nothing is slow: a masked store to where nothing is mapped is done by microcode.
        if count > 0 {
            self.loaded.metadata[index * count..][..count].fill(0);
        }
    }

    /// Makes a key: from word `at` on of all keys, or that of an update. Whether there is one.
    #[inline]
    fn run_key<F: Frame>(
        &mut self,
        (element, part): (usize, Part),
        index: usize,
        frame: &mut F,
        arrival: Arrival,
        at: usize,
    ) -> bool {
        let words = match part {
            Part::Update => Some(&mut self.updates[index]),
            _ => self.keys[at..].first_chunk_mut(),
        };
        let Some(words) = words else {
            return false;
        };
        let loaded = &mut *self.loaded;
        if let Some(compiled) = &mut loaded.compiled {
            let sight = Sight {
                bytes: frame.bytes(),
                headers: &self.packets[index].headers,
                arrival,
            };
            let count = loaded.metadata_count;
            let metadata = &mut loaded.metadata[index * count..][..count];
            if let Some(has_key) = compiled.key(element, part, sight, metadata, words) {
                return has_key;
            }
        }
        self.run_key_in_env((element, part), index, frame, arrival, at)
    }

    /// As [`Running::run_key`], by code that needs more than to see the packet.
    fn run_key_in_env(
        &mut self,
        (element, part): (usize, Part),
        index: usize,
        frame: &mut dyn Frame,
        arrival: Arrival,
        at: usize,
    ) -> bool {
        let place = (element, part);
        let mut outcome = Outcome::default();
        let facts = (arrival, [false; 2]);
        self.run_part(place, index, frame, facts, &mut outcome, &mut Unwatched);
        let element = &self.loaded.program.elements[element];
        let (key, words) = match (part, &element.update) {
            (Part::Update, Some(key)) => (key, Some(&mut self.updates[index])),
            _ => (&element.key, self.keys[at..].first_chunk_mut()),
        };
        words.is_some_and(|words| {
            *words = [0; KEY_WORDS_MAX];
            pack_key(key, &self.loaded.slots, words)
        })
    }

    /// Second step of a burst of `count` packets at an element: all flows at once.
    pub fn look_up(&mut self, element: usize, count: usize, now_ns: u64) {
        (self.has_inserted, self.has_removed) = (false, false);
        let Some(table) = self.flows.get_mut(element).and_then(Option::as_mut) else {
            return;
        };
        let words = table.shape().key_words as usize;
        let keys = self.key_count.min(count);
        let found = &mut self.found[..keys];
        table.lookup(&self.keys[..keys * words], now_ns, found);
    }
}

/// Packs slots into the words of a key; whether there is one.
pub(super) fn pack_key(key: &Key, slots: &[u128], words: &mut [u64; KEY_WORDS_MAX]) -> bool {
    if slots
        .get(usize::from(key.present))
        .is_none_or(|present| *present == 0)
    {
        return false;
    }
    for part in &key.parts {
        let value = slots.get(usize::from(part.slot)).copied().unwrap_or(0);
        part.put(value, words);
    }
    true
}

impl KeyPart {
    /// Puts a value where it lies in a key of a verified program; nothing is there yet.
    #[inline(always)]
    pub(crate) fn put(&self, value: u128, words: &mut [u64; KEY_WORDS_MAX]) {
        let word = usize::from(self.word);
        words[word] |= (value as u64) << self.shift;
        if self.width > 64 {
            words[word + 1] |= (value >> 64) as u64;
        }
    }
}
