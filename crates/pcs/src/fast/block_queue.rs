// SPDX-License-Identifier: Apache-2.0
//! Blocks that wait to be sent: payload words, and a bit each that says data or control.

use super::words::Payload;
use crate::params::DATA_BLOCKS;
use crate::transmit_room::QUEUE_BLOCKS;

/// Blocks `head..tail` of a flat area twice as large as the queue may be long, so that moving to
/// its front is rare.
#[derive(Clone, Debug)]
pub(super) struct BlockQueue {
    words: Box<[u64]>,
    is_data: Box<[u64]>,
    head: usize,
    tail: usize,
}

const AREA: usize = 2 * QUEUE_BLOCKS + 64;

impl BlockQueue {
    pub(super) fn new() -> Self {
        Self {
            words: vec![0; AREA].into_boxed_slice(),
            is_data: vec![0; AREA / 64 + 1].into_boxed_slice(),
            head: 0,
            tail: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.tail - self.head
    }

    /// Makes sure that `count` more blocks have a place.
    #[inline]
    pub(super) fn make_room(&mut self, count: usize) {
        if self.head == self.tail {
            (self.head, self.tail) = (0, 0);
        }
        if self.tail + count > AREA {
            let first = self.head / 64 * 64;
            self.words.copy_within(first..self.tail, 0);
            self.is_data.copy_within(first / 64..=self.tail / 64, 0);
            self.head -= first;
            self.tail -= first;
        }
    }

    #[inline]
    pub(super) fn push_control(&mut self, word: u64) {
        self.words[self.tail] = word;
        self.is_data[self.tail / 64] &= !(1 << (self.tail % 64));
        self.tail += 1;
    }

    /// Appends octets as data blocks; their number must be a multiple of eight.
    #[inline]
    pub(super) fn push_data(&mut self, octets: &[u8]) {
        let (words, _) = octets.as_chunks::<8>();
        let end = self.tail + words.len();
        for (to, word) in self.words[self.tail..end].iter_mut().zip(words) {
            *to = u64::from_le_bytes(*word);
        }
        while self.tail < end {
            let shift = self.tail % 64;
            let count = (64 - shift).min(end - self.tail);
            let ones = u64::MAX >> (64 - count);
            self.is_data[self.tail / 64] |= ones << shift;
            self.tail += count;
        }
    }

    /// Takes blocks into a codeword from its block `from` on; there must be that many.
    #[inline]
    pub(super) fn take(&mut self, from: usize, out: &mut Payload) {
        let count = DATA_BLOCKS - from;
        let words = &self.words[self.head..self.head + count];
        out.words[from..].copy_from_slice(words);
        let (index, shift) = (self.head / 64, self.head % 64);
        let bits = self.is_data[index] >> shift | self.is_data[index + 1] << 1 << (63 - shift);
        let bits = (bits & ((1 << count) - 1)) as u32;
        out.is_data = out.is_data & ((1 << from) - 1) | bits << from;
        self.head += count;
    }
}
