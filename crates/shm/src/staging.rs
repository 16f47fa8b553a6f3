//! The staging area of a `copy` link: packets pass through it, so nothing but the ring is shared.
//!
//! The producer copies each packet into free bytes of the area, which lies behind the slots in the
//! memory that only it can write, and publishes a descriptor with the position. The consumer copies
//! the bytes out into a buffer of its own. Bytes are free again when the consumer's tail has passed
//! their descriptor.
//!
//! The area has two parts. In the *cycle*, packets lie densely, each at a multiple of a cache line,
//! in ring order, over and over the same bytes, so that these stay in the caches. What finds no
//! room there goes to the *reserve*, which holds a whole burst of the largest packets: how many may
//! be sent must be known before their lengths are. Its pages exist only once they have been used.
#![allow(unsafe_code, reason = "copies bytes in and out of a peer's mapping")]

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::descriptor::{Descriptor, Violation};
use crate::packet::Packet;
use crate::prefetch;
use crate::ring_memory::{CYCLE_BYTES, MappedRing, STAGING_BYTES_MAX, cycle_bytes};

/// Packets start at multiples of this.
const ALIGNMENT: u64 = 64;

/// How far ahead of a packet the bytes of later ones are fetched: as many lines as a core keeps
/// under way at once.
const AHEAD: u64 = 12 * ALIGNMENT;

/// Bytes of a staging area, a power of two, that always takes `packet_count` more packets of up to
/// `len_max` bytes when [`StagingWriter::has_room`]; none if that is more than an area can have.
pub fn bytes_for(packet_count: u32, len_max: u32) -> Option<u32> {
    let reserve = packet_count.checked_mul(len_max.next_multiple_of(ALIGNMENT as u32))?;
    let bytes = reserve
        .checked_add(CYCLE_BYTES)?
        .checked_next_power_of_two()?;
    (bytes <= STAGING_BYTES_MAX).then_some(bytes)
}

/// The producer's account of the staging area.
#[derive(Debug)]
pub struct StagingWriter {
    /// Bytes of the cycle, a power of two, and of the reserve behind it.
    cycle: u64,
    reserve: u64,
    /// Free-running positions in the cycle: of the next packet, and of the first byte in use.
    next: u64,
    freed: u64,
    /// Bytes of the reserve below this have been used since it was last empty.
    reserve_next: u64,
    /// For each descriptor in the reserve: the index behind its packets.
    reserved: VecDeque<u64>,
    /// By the slot of a descriptor's last packet: where the cycle is used up to.
    ends: Vec<u64>,
    /// Index of the next packet to be staged.
    index: u64,
    /// Index of the first packet not yet given back.
    first: u64,
}

impl StagingWriter {
    /// For a ring whose next descriptor has index `start`, with `staging_bytes` (a power of two)
    /// and `slot_count` slots.
    pub fn new(start: u64, staging_bytes: u32, slot_count: u32) -> Self {
        let cycle = cycle_bytes(staging_bytes);
        Self {
            cycle: cycle.into(),
            reserve: (staging_bytes - cycle).into(),
            next: 0,
            freed: 0,
            reserve_next: 0,
            reserved: VecDeque::with_capacity(slot_count as usize),
            ends: vec![0; slot_count as usize],
            index: start,
            first: start,
        }
    }

    fn end_of(&mut self, index: u64) -> &mut u64 {
        let slots = self.ends.len() as u64;
        #[expect(clippy::cast_possible_truncation, reason = "below the slot count")]
        let slot = (index & (slots - 1)) as usize;
        &mut self.ends[slot]
    }

    /// Frees the bytes of descriptors below `tail`.
    pub fn release(&mut self, tail: u64) {
        let tail = tail.min(self.index);
        if tail > self.first {
            self.freed = *self.end_of(tail - 1);
            self.first = tail;
        }
        while self.reserved.front().is_some_and(|behind| *behind <= tail) {
            self.reserved.pop_front();
        }
        if self.reserved.is_empty() {
            self.reserve_next = 0;
        }
    }

    /// Whether a burst surely fits now, whatever the lengths. While the reserve is in use it does
    /// not; nor while half of the cycle is, so that the reserve is used for large packets only.
    pub fn has_room(&self) -> bool {
        !self.is_fuller_than(4)
    }

    /// Whether more than so many quarters are taken of what it takes before it
    /// [has no room](Self::has_room).
    pub fn is_fuller_than(&self, quarters: u32) -> bool {
        !self.reserved.is_empty() || self.next - self.freed > self.cycle / 8 * u64::from(quarters)
    }

    /// Copies `packet` into the area of `ring` and adds the descriptor to publish, which also says
    /// how large its buffer is, to `into`. False if there is no room now.
    #[inline]
    pub fn stage_packet(
        &mut self,
        ring: &MappedRing,
        packet: &Packet,
        into: &mut Vec<Descriptor>,
    ) -> bool {
        let log2 = packet.buffer_log2();
        self.stage(ring, packet.bytes(), packet.metadata(), log2, into)
    }

    /// Copies `bytes`, which lay in a buffer of 2^`log2` bytes (0 if that is not said), into the
    /// area of `ring` and adds the descriptor to publish to `into`. False if there is no room now.
    ///
    /// Adds it rather than giving it: what is put together in memory and copied at once waits until
    /// the lines of all packets before it are this core's.
    #[inline]
    fn stage(
        &mut self,
        ring: &MappedRing,
        bytes: &[u8],
        tag: u32,
        log2: u8,
        into: &mut Vec<Descriptor>,
    ) -> bool {
        let staged = self.stage_with(ring, bytes.len(), 1, |to| {
            // SAFETY: `to` is the start of so many bytes that only this function writes; `bytes` is
            // this process's memory.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), bytes.len()) };
        });
        let Some(offset) = staged else { return false };
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within an area of at most 1 GiB"
        )]
        into.push(Descriptor {
            kind: crate::descriptor::kind::PACKET,
            pool: log2.into(),
            len: bytes.len() as u32,
            offset,
            tag,
        });
        true
    }

    /// Takes the next free `len` bytes of the area of `ring`, for a descriptor of `span` packets,
    /// and lets `fill` write them; `fill` is given their address, a multiple of a cache line. Gives
    /// where they begin in the area, or none if there is no room now.
    #[inline]
    pub(crate) fn stage_with(
        &mut self,
        ring: &MappedRing,
        len: usize,
        span: u32,
        fill: impl FnOnce(NonNull<u8>),
    ) -> Option<u32> {
        let len = len as u64;
        let behind = self.index + u64::from(span);
        if behind - self.first > self.ends.len() as u64 {
            return None;
        }
        let (offset, end) = self.place(len)?;
        let area = ring.producer.staging()?;
        // SAFETY: `offset + len` lies within the area (see `place`), which this side alone writes
        // and which no published descriptor covers (`freed` bound). What is fetched ahead lies
        // within the area, too.
        unsafe {
            let ahead = (offset + AHEAD) & (self.cycle - 1);
            prefetch::for_writing(area.add(usize::try_from(ahead).ok()?));
            fill(area.add(usize::try_from(offset).ok()?));
        }
        match end {
            Some(end) => self.next = end,
            None => {
                self.reserved.push_back(behind);
                self.reserve_next = (offset - self.cycle + len).next_multiple_of(ALIGNMENT);
            }
        }
        *self.end_of(behind - 1) = self.next;
        self.index = behind;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within an area of at most 1 GiB"
        )]
        Some(offset as u32)
    }

    /// Where in the area `len` bytes find room, and where they end in the cycle, if it is there.
    #[inline]
    fn place(&self, len: u64) -> Option<(u64, Option<u64>)> {
        let mut start = self.next;
        if (start & (self.cycle - 1)) + len > self.cycle {
            start = (start & !(self.cycle - 1)) + self.cycle;
        }
        let end = (start + len).next_multiple_of(ALIGNMENT);
        if end - self.freed <= self.cycle {
            return Some((start & (self.cycle - 1), Some(end)));
        }
        (self.reserve_next + len <= self.reserve).then_some((self.cycle + self.reserve_next, None))
    }
}

/// Bytes of the staging area that lie within it: what a descriptor named, checked once.
#[derive(Clone, Copy, Debug)]
pub struct Staged<'a> {
    from: NonNull<u8>,
    len: usize,
    ring: PhantomData<&'a MappedRing>,
}

/// Checks where a descriptor's bytes lie in the staging area of `ring`.
///
/// # Errors
/// [`Violation`] if they do not lie within it.
#[inline]
pub fn staged<'a>(ring: &'a MappedRing, descriptor: &Descriptor) -> Result<Staged<'a>, Violation> {
    let size = u64::from(ring.producer.geometry().staging_bytes);
    let (offset, len) = (u64::from(descriptor.offset), u64::from(descriptor.len));
    if descriptor.kind != crate::descriptor::kind::PACKET || len == 0 || offset + len > size {
        return Err(Violation);
    }
    let area = ring.producer.staging().ok_or(Violation)?;
    Ok(Staged {
        // SAFETY: within the area, checked above.
        from: unsafe { area.add(descriptor.offset as usize) },
        len: descriptor.len as usize,
        ring: PhantomData,
    })
}

impl Staged<'_> {
    /// Number of bytes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Starts to fetch the first line.
    #[inline]
    pub fn prefetch(&self) {
        prefetch::for_reading(self.from);
    }

    /// Copies the bytes into `to`.
    ///
    /// # Panics
    /// If `to` has another length.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) {
        assert_eq!(to.len(), self.len, "room for what is copied");
        // SAFETY: bounds checked when this was made; the ring keeps the area mapped; `to` is
        // this process's memory. The producer may change the bytes meanwhile if it breaks the
        // protocol: then the copy is garbage, which every NF must expect of a peer across a trust
        // border, and nothing reads the area a second time.
        unsafe { std::ptr::copy_nonoverlapping(self.from.as_ptr(), to.as_mut_ptr(), self.len) };
    }
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
                    let mut staged = Vec::new();
                    if !staging.stage(&ring, &bytes, 0, 0, &mut staged) {
                        producer.room(u32::MAX);
                        staging.release(producer.tail_seen());
                        break;
                    }
                    prop_assert_eq!(producer.push(staged.into_iter()), 1);
                    producer.settle();
                    sent += 1;
                }
                let mut descriptors = Vec::new();
                let max = pace.next().unwrap().max(usize::from(got.len() % 3 == 0));
                consumer.pull(max, &mut descriptors);
                for descriptor in descriptors {
                    let here = staged(&ring, &descriptor).unwrap();
                    let mut bytes = vec![0; here.len()];
                    here.copy_to(&mut bytes);
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

    /// A ring, of more slots than the area has room for small packets, with an area for
    /// `packet_count` packets of `len_max` bytes.
    fn ring_for(packet_count: u32, len_max: u32) -> (MappedRing, StagingWriter) {
        let geometry = RingGeometry {
            slot_count: 1 << 15,
            staging_bytes: bytes_for(packet_count, len_max).unwrap(),
        };
        let ring = MappedRing::new(
            RingEnd::create(Side::Producer, geometry, 0).unwrap(),
            RingEnd::create(Side::Consumer, geometry, 0).unwrap(),
        );
        let staging = StagingWriter::new(0, geometry.staging_bytes, geometry.slot_count);
        (ring, staging)
    }

    #[test]
    fn a_burst_of_the_largest_packets_fits_whenever_there_is_room() {
        let (ring, mut staging) = ring_for(64, 1 << 18);
        let (small, large) = (vec![1; 60], vec![2; 1 << 18]);
        let (mut sent, mut spilled) = (0, 0);
        for round in 0..100 {
            assert!(staging.has_room(), "everything was taken");
            while staging.has_room() {
                let bytes = if round % 3 == 0 { &large } else { &small };
                for _ in 0..64 {
                    assert!(staging.stage(&ring, bytes, 0, 0, &mut Vec::new()));
                    sent += 1;
                }
            }
            spilled += u32::from(!staging.reserved.is_empty());
            assert_eq!(
                !staging.reserved.is_empty(),
                round % 3 == 0,
                "small ones need no reserve"
            );
            staging.release(sent);
        }
        assert!(spilled > 30);
    }

    #[test]
    fn an_area_has_bytes_for_a_burst_or_is_refused() {
        assert_eq!(bytes_for(64, 1 << 18), Some(1 << 25));
        assert_eq!(bytes_for(32, 1 << 24), Some(1 << 30));
        assert_eq!(bytes_for(64, 1 << 24), None);
        assert_eq!(bytes_for(256, 1 << 24), None);
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
            assert_eq!(staged(&ring, &descriptor).err(), Some(Violation));
        }
    }
}
