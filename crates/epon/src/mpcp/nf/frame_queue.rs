//! Frames that wait in an NF's own memory: a ring of bytes, made once, of a fixed size.

use std::collections::VecDeque;

use super::super::burst_time::{FRAME_LEN_MIN, frame_octets};

/// A frame that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Waiting {
    start: usize,
    /// Its length.
    pub(super) len: usize,
    /// When it came, or is due, in quanta.
    pub(super) at: u64,
    /// What its sender wants to remember.
    pub(super) note: u16,
}

/// A queue of frames.
#[derive(Debug)]
pub(super) struct FrameQueue {
    bytes: Box<[u8]>,
    used: usize,
    waiting: VecDeque<Waiting>,
    /// Octets of what waits, with preamble, check sequence and gap.
    octets: u64,
}

/// The bytes of a frame, which may lie around the end of the memory.
type Parts<'a> = (&'a [u8], &'a [u8]);

impl FrameQueue {
    /// A queue for `size` bytes of frames.
    pub(super) fn new(size: usize) -> Self {
        Self {
            bytes: vec![0; size].into(),
            used: 0,
            waiting: VecDeque::with_capacity(size / FRAME_LEN_MIN + 1),
            octets: 0,
        }
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Octets of what waits, with preamble, check sequence and gap.
    pub(super) fn octets(&self) -> u64 {
        self.octets
    }

    /// Frames that came until `at` and together take at most `octets`, in order: how many, and what
    /// they take.
    pub(super) fn fitting(&self, octets: u64, at: u64) -> (usize, u64) {
        let mut count = 0;
        let mut sum = 0;
        for frame in &self.waiting {
            let next = sum + frame_octets(frame.len);
            if next > octets || frame.at > at {
                break;
            }
            (count, sum) = (count + 1, next);
        }
        (count, sum)
    }

    /// Adds a copy of `frame`; false if there is no room.
    pub(super) fn push(&mut self, frame: &[u8], at: u64, note: u16) -> bool {
        let takes = frame.len().max(FRAME_LEN_MIN);
        if self.used + takes > self.bytes.len() {
            return false;
        }
        let start = self.waiting.back().map_or(0, |last| {
            (last.start + last.len.max(FRAME_LEN_MIN)) % self.bytes.len()
        });
        let (head, tail) = frame.split_at(frame.len().min(self.bytes.len() - start));
        self.bytes[start..start + head.len()].copy_from_slice(head);
        self.bytes[..tail.len()].copy_from_slice(tail);
        self.used += takes;
        self.octets += frame_octets(frame.len());
        self.waiting.push_back(Waiting {
            start,
            len: frame.len(),
            at,
            note,
        });
        true
    }

    /// The first frame, in two parts where it lies around the end of the memory.
    pub(super) fn front(&self) -> Option<(Waiting, Parts<'_>)> {
        let frame = *self.waiting.front()?;
        let end = frame.start + frame.len;
        let size = self.bytes.len();
        let first = &self.bytes[frame.start..end.min(size)];
        let second = &self.bytes[..end.saturating_sub(size)];
        Some((frame, (first, second)))
    }

    /// Removes the first frame.
    pub(super) fn pop(&mut self) {
        if let Some(frame) = self.waiting.pop_front() {
            self.used -= frame.len.max(FRAME_LEN_MIN);
            self.octets -= frame_octets(frame.len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: frames come out as they went in, and memory is used to the last byte. Method: a
        /// deque of vectors as the model.
        #[test]
        fn frames_come_out_as_they_went_in(
            size in 100_usize..1000,
            steps in prop::collection::vec((any::<bool>(), 0_usize..300, any::<u8>()), 1..200),
        ) {
            let mut queue = FrameQueue::new(size);
            let mut model: VecDeque<Vec<u8>> = VecDeque::new();
            for (adds, len, fill) in steps {
                let held: usize = model.iter().map(|frame| frame.len().max(FRAME_LEN_MIN)).sum();
                if adds {
                    let frame = vec![fill; len];
                    let fits = held + len.max(FRAME_LEN_MIN) <= size;
                    prop_assert_eq!(queue.push(&frame, 0, 7), fits);
                    if fits {
                        model.push_back(frame);
                    }
                } else {
                    let found = queue.front().map(|(_, (a, b))| [a, b].concat());
                    prop_assert_eq!(found, model.pop_front());
                    queue.pop();
                }
                let octets: u64 = model.iter().map(|frame| frame_octets(frame.len())).sum();
                prop_assert_eq!(queue.octets(), octets);
                prop_assert_eq!(queue.is_empty(), model.is_empty());
            }
            let (count, sum) = queue.fitting(1000, 0);
            prop_assert!(sum <= 1000 && count <= model.len());
            prop_assert!(count == model.len() || sum + frame_octets(model[count].len()) > 1000);
        }
    }
}
