//! The staging area of a `copy` link: packets pass through it, so nothing but the ring is shared.
//!
//! The producer copies each packet into the next free bytes of the area, which lies behind the
//! slots in the memory that only it can write, and publishes a descriptor with the position. The
//! consumer copies the bytes out into a buffer of its own. Packets lie densely, each at a multiple
//! of a cache line, in ring order; bytes are free again when the consumer's tail has passed their
//! descriptor.
#![allow(unsafe_code, reason = "copies bytes in and out of a peer's mapping")]

use std::collections::VecDeque;
use std::ptr::NonNull;

use crate::descriptor::Descriptor;
use crate::pool::Violation;
use crate::ring_memory::MappedRing;

/// Packets start at multiples of this.
const ALIGNMENT: u64 = 64;

/// The producer's account of the staging area.
#[derive(Debug)]
pub struct StagingWriter {
    size: u64,
    next: u64,
    freed: u64,
    /// For each descriptor not yet given back: where its bytes end.
    ends: VecDeque<u64>,
    first: u64,
    /// Length of the largest packet so far.
    largest: u64,
}

/// What [`StagingWriter::room`] reckons with until a larger packet has been seen.
const LARGEST_AT_START: u64 = 2048;

impl StagingWriter {
    /// For a ring whose next descriptor has index `start`, with `staging_bytes` (a power of two)
    /// and `slot_count` slots.
    pub fn new(start: u64, staging_bytes: u32, slot_count: u32) -> Self {
        Self {
            size: staging_bytes.into(),
            next: 0,
            freed: 0,
            ends: VecDeque::with_capacity(slot_count as usize),
            first: start,
            largest: LARGEST_AT_START.min(u64::from(staging_bytes)),
        }
    }

    /// Frees the bytes of descriptors below `tail`.
    pub fn release(&mut self, tail: u64) {
        while self.first < tail {
            let Some(end) = self.ends.pop_front() else {
                break;
            };
            self.freed = end;
            self.first += 1;
        }
    }

    /// Whether a packet of `len` bytes can ever pass.
    pub fn can_ever_take(&self, len: usize) -> bool {
        len as u64 <= self.size
    }

    /// How many packets surely fit now, if they are no larger than the largest so far; at least 1
    /// when the area is empty, so that a larger one can pass.
    pub fn room(&self) -> usize {
        let free = self.size - (self.next - self.freed);
        let room = free.saturating_sub(self.largest) / self.largest;
        let room = if self.next == self.freed {
            room.max(1)
        } else {
            room
        };
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// Copies `bytes` into the area of `ring` and gives the descriptor to publish, or none if there
    /// is no room now. The caller publishes it before staging another one that it may not publish.
    pub fn stage(&mut self, ring: &MappedRing, bytes: &[u8], tag: u32) -> Option<Descriptor> {
        let descriptor = self.stage_with(ring, bytes.len(), |to| {
            // SAFETY: `to` is the start of so many bytes that only this function writes; `bytes` is
            // this process's memory.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        })?;
        Some(Descriptor { tag, ..descriptor })
    }

    /// Takes the next free `len` bytes of the area of `ring` and lets `fill` write them; `fill` is
    /// given their address, a multiple of a cache line. None if there is no room now.
    #[inline]
    pub(crate) fn stage_with(
        &mut self,
        ring: &MappedRing,
        len: usize,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<Descriptor> {
        let len = len as u64;
        self.largest = self.largest.max(len);
        let mut start = self.next;
        if (start & (self.size - 1)) + len > self.size {
            start = (start & !(self.size - 1)) + self.size;
        }
        let end = (start + len).next_multiple_of(ALIGNMENT);
        if end - self.freed > self.size {
            return None;
        }
        let offset = start & (self.size - 1);
        let area = ring.producer.staging()?;
        // SAFETY: `offset + len` lies within the area (wrapped above), which this side alone writes
        // and which no published descriptor covers (`freed` bound).
        fill(unsafe { area.add(usize::try_from(offset).ok()?) });
        self.next = end;
        self.ends.push_back(end);
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within an area of at most 1 GiB"
        )]
        Some(Descriptor {
            len: len as u32,
            offset: offset as u32,
            ..Descriptor::default()
        })
    }
}

/// Checks where a descriptor's bytes lie in the staging area; gives their length.
///
/// # Errors
/// [`Violation`] if they do not lie within it.
pub fn check(ring: &MappedRing, descriptor: &Descriptor) -> Result<usize, Violation> {
    let size = u64::from(ring.producer.geometry().staging_bytes);
    let (offset, len) = (u64::from(descriptor.offset), u64::from(descriptor.len));
    if descriptor.kind != crate::descriptor::kind::PACKET || len == 0 || offset + len > size {
        return Err(Violation);
    }
    usize::try_from(len).map_err(|_| Violation)
}

/// Copies the bytes of a descriptor that [`check`] has passed into `to`, which has that length.
///
/// # Errors
/// [`Violation`] if the descriptor does not fit `to` or the area.
pub fn copy_out(
    ring: &MappedRing,
    descriptor: &Descriptor,
    to: &mut [u8],
) -> Result<(), Violation> {
    if check(ring, descriptor)? != to.len() {
        return Err(Violation);
    }
    let area = ring.producer.staging().ok_or(Violation)?;
    // SAFETY: bounds checked above; `to` is this process's memory. The producer may change the
    // bytes meanwhile if it breaks the protocol: then the copy is garbage, which every NF must
    // expect of a peer across a trust border, and nothing reads the area a second time.
    unsafe {
        let from = area.add(descriptor.offset as usize);
        std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_mut_ptr(), to.len());
    }
    Ok(())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::ring::{Consumer, Producer};
    use crate::ring_memory::{RingEnd, RingGeometry, Side};
    use proptest::prelude::*;

    proptest! {
        /// Any sequence of sizes and any pace of the consumer: bytes arrive as sent, in order.
        #[test]
        fn packets_arrive_as_sent(
            lens in prop::collection::vec(1_usize..900, 1..120),
            pace in prop::collection::vec(0_usize..6, 1..120),
        ) {
            let geometry = RingGeometry { slot_count: 8, staging_bytes: 2048 };
            let ring = MappedRing::new(
                RingEnd::create(Side::Producer, geometry, 0).unwrap(),
                RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
            );
            let mut producer = Producer::new(ring.clone(), 0);
            let mut consumer = Consumer::new(ring.clone(), 0);
            let mut staging = StagingWriter::new(0, geometry.staging_bytes, geometry.slot_count);
            // The 1 at the end: a consumer that never takes anything would never end.
            let mut pace = pace.into_iter().chain([1]).cycle();
            let mut got = Vec::new();
            let mut sent = 0;
            while got.len() < lens.len() {
                while sent < lens.len() {
                    let bytes = vec![u8::try_from(sent % 251).unwrap(); lens[sent]];
                    if producer.room(1) == 0 { break; }
                    staging.release(producer.tail_seen());
                    let Some(descriptor) = staging.stage(&ring, &bytes, 0) else {
                        producer.room(u32::MAX);
                        staging.release(producer.tail_seen());
                        break;
                    };
                    prop_assert_eq!(producer.push([descriptor].into_iter()), 1);
                    producer.settle();
                    sent += 1;
                }
                let mut descriptors = Vec::new();
                let max = pace.next().unwrap().max(usize::from(got.len() % 3 == 0));
                consumer.pull(max, &mut descriptors);
                for descriptor in descriptors {
                    let mut bytes = vec![0; check(&ring, &descriptor).unwrap()];
                    copy_out(&ring, &descriptor, &mut bytes).unwrap();
                    got.push(bytes);
                }
                consumer.commit();
            }
            for (index, bytes) in got.iter().enumerate() {
                prop_assert_eq!(bytes.len(), lens[index]);
                prop_assert!(bytes.iter().all(|byte| usize::from(*byte) == index % 251));
            }
        }
    }

    #[test]
    fn descriptors_outside_the_area_are_refused() {
        let geometry = RingGeometry {
            slot_count: 8,
            staging_bytes: 2048,
        };
        let ring = MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        );
        for (offset, len) in [
            (0, 0),
            (0, 2049),
            (2048, 1),
            (u32::MAX, u32::MAX),
            (2000, 49),
        ] {
            let descriptor = Descriptor {
                offset,
                len,
                ..Descriptor::default()
            };
            assert_eq!(check(&ring, &descriptor), Err(Violation));
        }
    }
}
