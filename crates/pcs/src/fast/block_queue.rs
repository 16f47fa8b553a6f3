// SPDX-License-Identifier: Apache-2.0
//! Blocks that wait to be sent: eight octets of payload each, as they are on the line, and a bit
//! that says data or control. Frames are copied into it once, and get their check sequence there.

use super::words::Payload;
use crate::params::DATA_BLOCKS;
use crate::transmit_room::QUEUE_BLOCKS;

/// Blocks `head..tail` of a flat area twice as large as the queue may be long. They are moved to
/// its front when they are few, so that the area in use stays in a first-level cache, and rarely,
/// so that moving costs little.
#[derive(Clone, Debug)]
pub(super) struct BlockQueue {
    octets: Box<[u8]>,
    is_data: Box<[u64]>,
    head: usize,
    tail: usize,
}

const AREA: usize = 2 * QUEUE_BLOCKS + 64;
/// Blocks taken since the last move, at least, when the rest is moved.
const MOVE_FROM: usize = 2048;

impl BlockQueue {
    pub(super) fn new() -> Self {
        Self {
            octets: vec![0; 8 * AREA].into_boxed_slice(),
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
        let is_far = self.head >= MOVE_FROM && self.head >= 2 * self.len();
        if is_far || self.tail + count > AREA {
            let first = self.head / 64 * 64;
            self.octets.copy_within(8 * first..8 * self.tail, 0);
            self.is_data.copy_within(first / 64..=self.tail / 64, 0);
            self.head -= first;
            self.tail -= first;
        }
    }

    #[inline]
    pub(super) fn push_control(&mut self, word: u64) {
        self.octets[8 * self.tail..][..8].copy_from_slice(&word.to_le_bytes());
        self.is_data[self.tail / 64] &= !(1 << (self.tail % 64));
        self.tail += 1;
    }

    /// Octets behind the last block, to be written before `push_data`; there must be room for
    /// them.
    #[inline]
    pub(super) fn octets_behind(&mut self, count: usize) -> &mut [u8] {
        &mut self.octets[8 * self.tail..][..count]
    }

    /// Makes data blocks of so many octets behind the last block, which must be a multiple of
    /// eight.
    #[inline]
    pub(super) fn push_data(&mut self, octets: usize) {
        let end = self.tail + octets / 8;
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
        let octets = &self.octets[8 * self.head..];
        if let (0, Some(octets)) = (from, octets.first_chunk::<{ 8 * DATA_BLOCKS }>()) {
            // Of constant length, so that it is no call.
            for (word, octets) in out.words.iter_mut().zip(octets.as_chunks().0) {
                *word = u64::from_le_bytes(*octets);
            }
        } else {
            for (word, octets) in out.words[from..].iter_mut().zip(octets.as_chunks().0) {
                *word = u64::from_le_bytes(*octets);
            }
        }
        let (index, shift) = (self.head / 64, self.head % 64);
        let bits = self.is_data[index] >> shift | self.is_data[index + 1] << 1 << (63 - shift);
        let bits = (bits & ((1 << count) - 1)) as u32;
        out.is_data = out.is_data & ((1 << from) - 1) | bits << from;
        self.head += count;
    }
}
