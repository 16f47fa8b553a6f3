//! One entry: its handle, a view of it, and a copy that can leave its table.
//!
//! What a lookup gives for a packet, and what an NF reads and writes then.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hash::KEY_WORDS_MAX;
use crate::shape::STATE_WORDS_MAX;
use crate::stamp::{LIVE, TIME_MAX};

/// The number of an entry, good until that entry is removed, evicted or expires.
///
/// Entries never change their number. Numbers of ended entries are given to new ones, so handles
/// are not kept beyond a burst, except by who ends entries himself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow(NonZeroU32);

impl Flow {
    /// The handle of a number counted from 0; none for `u32::MAX`.
    #[inline(always)]
    pub fn new(index: u32) -> Option<Self> {
        NonZeroU32::new(index.wrapping_add(1)).map(Self)
    }

    /// The number, from 0 and below the capacity: for arrays of the caller's own beside the table.
    #[inline(always)]
    pub fn index(self) -> usize {
        self.0.get() as usize - 1
    }

    /// From a link: the low half of a word, a number plus 1.
    #[inline(always)]
    pub(crate) fn from_low(word: u64) -> Option<Self> {
        NonZeroU32::new(word as u32).map(Self)
    }
}

/// A view of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Key, stamp, state.
    pub(crate) words: &'a [AtomicU64],
    pub(crate) key_words: usize,
}

impl Entry<'_> {
    /// A word of the key; 0 beyond its width.
    pub fn key(&self, word: usize) -> u64 {
        let key = self.words.get(..self.key_words).unwrap_or_default();
        key.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// A word of the state; 0 beyond its width.
    #[inline]
    pub fn state(&self, word: usize) -> u64 {
        let word = self.words.get(self.key_words + 1 + word);
        word.map_or(0, |word| word.load(Ordering::Relaxed))
    }

    /// The words of the state.
    #[inline]
    pub fn state_words(&self) -> &[AtomicU64] {
        self.words.get(self.key_words + 1..).unwrap_or_default()
    }

    /// Writes a word of the state; `false`, and nothing, beyond its width.
    #[inline]
    pub fn set_state(&self, word: usize, value: u64) -> bool {
        let word = self.words.get(self.key_words + 1 + word);
        word.map(|word| word.store(value, Ordering::Release))
            .is_some()
    }

    /// When it was used last, in ns.
    pub fn used_ns(&self) -> u64 {
        self.stamp() & TIME_MAX
    }

    /// Whether somebody lives here.
    pub fn is_live(&self) -> bool {
        self.stamp() & LIVE != 0
    }

    fn stamp(&self) -> u64 {
        let stamp = self.words.get(self.key_words);
        stamp.map_or(0, |stamp| stamp.load(Ordering::Relaxed))
    }
}

/// A copy of an entry: for snapshots and for hand-over to another table of the same widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Words of the key that count.
    pub key_words: u32,
    /// Words of the state that count.
    pub state_words: u32,
    /// The key; 0 beyond its width.
    pub key: [u64; KEY_WORDS_MAX],
    /// The state; 0 beyond its width.
    pub state: [u64; STATE_WORDS_MAX],
    /// When it was used last, in ns.
    pub used_ns: u64,
    /// Nanoseconds without use after which it ends; 0: however long.
    pub idle_ns: u64,
    /// The time at which it ends in any case, in ns; `u64::MAX`: never.
    pub hard_ns: u64,
}

impl Record {
    /// Words that [`Record::write`] writes for these widths.
    pub const fn words(key_words: u32, state_words: u32) -> usize {
        key_words as usize + state_words as usize + 3
    }

    /// Writes it as words: key, state, then the three times. `false`, and nothing, if `out` is not
    /// exactly [`Record::words`] long or a width is out of range.
    pub fn write(&self, out: &mut [u64]) -> bool {
        let (Some(key), Some(state)) = (
            self.key.get(..self.key_words as usize),
            self.state.get(..self.state_words as usize),
        ) else {
            return false;
        };
        if out.len() != Self::words(self.key_words, self.state_words) {
            return false;
        }
        let times = [self.used_ns, self.idle_ns, self.hard_ns];
        for (out, word) in out.iter_mut().zip(key.iter().chain(state).chain(&times)) {
            *out = *word;
        }
        true
    }

    /// What [`Record::write`] wrote for these widths; none if the length or a width is wrong.
    pub fn read(key_words: u32, state_words: u32, words: &[u64]) -> Option<Self> {
        let (keys, states) = (key_words as usize, state_words as usize);
        if words.len() != Self::words(key_words, state_words) {
            return None;
        }
        let mut record = Self {
            key_words,
            state_words,
            key: [0; KEY_WORDS_MAX],
            state: [0; STATE_WORDS_MAX],
            used_ns: words[keys + states],
            idle_ns: words[keys + states + 1],
            hard_ns: words[keys + states + 2],
        };
        record.key.get_mut(..keys)?.copy_from_slice(&words[..keys]);
        let state = record.state.get_mut(..states)?;
        state.copy_from_slice(&words[keys..keys + states]);
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_its_words() {
        let mut record = Record {
            key_words: 2,
            state_words: 3,
            key: [0; KEY_WORDS_MAX],
            state: [0; STATE_WORDS_MAX],
            used_ns: 6,
            idle_ns: 7,
            hard_ns: 8,
        };
        record.key[..2].copy_from_slice(&[1, 2]);
        record.state[..3].copy_from_slice(&[3, 4, 5]);
        let mut words = [0; 8];
        assert!(record.write(&mut words));
        assert_eq!(words, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(Record::read(2, 3, &words), Some(record));
        assert_eq!(Record::read(2, 4, &words), None);
        assert_eq!(Record::read(9, 4, &[0; 16]), None);
        assert!(!record.write(&mut words[..7]));
        assert!(
            !Record {
                key_words: 9,
                ..record
            }
            .write(&mut [0; 15])
        );
    }

    #[test]
    fn handles_number_entries_from_0() {
        assert_eq!(Flow::new(0).map(Flow::index), Some(0));
        assert_eq!(Flow::new(u32::MAX), None);
        assert_eq!(Flow::from_low(1 << 32), None);
        assert_eq!(size_of::<Option<Flow>>(), 4);
    }
}
