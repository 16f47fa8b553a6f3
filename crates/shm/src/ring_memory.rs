//! The ring's memory as two sealed regions, one written by each side.
//!
//! ```text
//! producer's region                          consumer's region
//!    0  magic, slot count                       0  magic, slot count
//!   64  settled                                64  tail, read
//!  128  waiting, bell                         128  waiting, bell
//!                                             192  congested
//! 4096  slots, 16 bytes each
//!       staging area (`copy` links only)
//! ```
//! `waiting` and `bell` serve [`crate::bell`]. What changes at different times, or by different
//! hands, lies in different cache lines. Sizes come from the chain file, by way of the side that
//! trusts it; a region whose header says otherwise is refused at attach.
#![allow(
    unsafe_code,
    reason = "turns checked addresses in regions into references to atomics"
)]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::bell::Bell;
use crate::region::{PAGE_BYTES, Region, RegionError, Sharing};
use crate::ring::{RingMemory, SLOT_COUNT_MAX, Slot};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

const MAGIC: u64 = u64::from_le_bytes(*b"CATENA\0\x01");
const SETTLED: usize = 64;
const TAIL: usize = 64;
const READ: usize = 72;
const WAITING: usize = 128;
const BELL: usize = 132;
const CONGESTED: usize = 192;
const SLOTS: usize = PAGE_BYTES;

/// Most bytes of a staging area.
pub const STAGING_BYTES_MAX: u32 = 1 << 30;

/// Bytes of the part of a staging area that is used from the start, if the area is larger.
pub(crate) const CYCLE_BYTES: u32 = 1 << 20;

/// Bytes at the beginning of an area that are used from the start.
pub(crate) fn cycle_bytes(staging_bytes: u32) -> u32 {
    CYCLE_BYTES.min(staging_bytes / 2)
}

/// Size of a ring and of its staging area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingGeometry {
    /// Number of slots, a power of two up to [`SLOT_COUNT_MAX`].
    pub slot_count: u32,
    /// Bytes of the staging area, a power of two; 0 unless the link copies.
    pub staging_bytes: u32,
}

impl RingGeometry {
    fn slots_bytes(self) -> usize {
        (self.slot_count as usize * size_of::<Slot>()).next_multiple_of(PAGE_BYTES)
    }

    fn staging_offset(self) -> usize {
        SLOTS + self.slots_bytes()
    }

    /// Bytes of the producer's region.
    pub fn producer_bytes(self) -> usize {
        (self.staging_offset() + self.staging_bytes as usize).next_multiple_of(PAGE_BYTES)
    }

    /// Bytes of the producer's region that are used from the start.
    fn used_at_start(self) -> usize {
        self.staging_offset() + cycle_bytes(self.staging_bytes) as usize
    }

    /// Whether a ring can have this geometry.
    pub fn is_valid(self) -> bool {
        self.slot_count.is_power_of_two()
            && self.slot_count <= SLOT_COUNT_MAX
            && (self.staging_bytes == 0 || self.staging_bytes.is_power_of_two())
            && self.staging_bytes <= STAGING_BYTES_MAX
    }
}

/// Which side of a link a region belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The region with the slots.
    Producer,
    /// The region with the tail.
    Consumer,
}

/// One side's region of a ring.
#[derive(Clone, Debug)]
pub struct RingEnd {
    region: Arc<Region>,
    geometry: RingGeometry,
    side: Side,
}

impl RingEnd {
    /// Makes this worker's side of a ring, whose first descriptor has free-running index `start`.
    ///
    /// # Errors
    /// What the kernel refused.
    ///
    /// # Panics
    /// If the geometry is not valid; chain files are checked before.
    pub fn create(side: Side, geometry: RingGeometry, start: u64) -> Result<Self, RegionError> {
        assert!(geometry.is_valid(), "{geometry:?}");
        let region = match side {
            Side::Producer => {
                Region::create("catena-ring", geometry.producer_bytes(), Sharing::ReadOnly)?
            }
            Side::Consumer => Region::create("catena-tail", PAGE_BYTES, Sharing::ReadOnly)?,
        };
        region.prefault_first(geometry.used_at_start());
        let end = Self {
            region: Arc::new(region),
            geometry,
            side,
        };
        match side {
            Side::Producer => end.word64(SETTLED).store(start, Ordering::Relaxed),
            Side::Consumer => {
                end.word64(TAIL).store(start, Ordering::Relaxed);
                end.word64(READ).store(start, Ordering::Relaxed);
            }
        }
        end.word64(8)
            .store(u64::from(geometry.slot_count), Ordering::Relaxed);
        end.word64(0).store(MAGIC, Ordering::Release);
        Ok(end)
    }

    /// Maps the other side's region for the data path, after checking seals and size. The header is
    /// not looked at: the maker could change it at any time, so it decides nothing here.
    ///
    /// # Errors
    /// What was wrong with it.
    pub fn attach(fd: OwnedFd, side: Side, geometry: RingGeometry) -> Result<Self, RegionError> {
        let end = Self::map(fd, side, geometry)?;
        end.region.prefault_first(geometry.used_at_start());
        Ok(end)
    }

    fn map(fd: OwnedFd, side: Side, geometry: RingGeometry) -> Result<Self, RegionError> {
        let len = match side {
            Side::Producer => geometry.producer_bytes(),
            Side::Consumer => PAGE_BYTES,
        };
        let region = Region::attach(fd, len, Sharing::ReadOnly)?;
        Ok(Self {
            region: Arc::new(region),
            geometry,
            side,
        })
    }

    /// Maps a region that its maker has just handed over, after checking seals, size and header,
    /// for a look now and then: no page is touched.
    ///
    /// # Errors
    /// What was wrong with it.
    pub fn inspect(fd: OwnedFd, side: Side, geometry: RingGeometry) -> Result<Self, RegionError> {
        let end = Self::map(fd, side, geometry)?;
        if !end.has_header() {
            return Err(RegionError::WrongSize {
                has: end.word64(8).load(Ordering::Relaxed),
                announced: geometry.slot_count.into(),
            });
        }
        Ok(end)
    }

    /// Whether the header is what its maker wrote at the start, and never changes if it is honest.
    pub fn has_header(&self) -> bool {
        self.word64(0).load(Ordering::Acquire) == MAGIC
            && self.word64(8).load(Ordering::Relaxed) == u64::from(self.geometry.slot_count)
    }

    /// Closes the descriptor of the memory, once the other side has it, if nothing else refers to
    /// this end.
    pub fn close_descriptor(&mut self) {
        if let Some(region) = Arc::get_mut(&mut self.region) {
            region.close_descriptor();
        }
    }

    /// The descriptor, to be passed to the other side before it is closed.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.region.fd()
    }

    /// Size of the region in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.region.len()
    }

    /// The geometry both sides agreed on.
    pub fn geometry(&self) -> RingGeometry {
        self.geometry
    }

    fn word64(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: `at` checks bounds and alignment; atomics may be shared with other processes.
        unsafe { self.region.at::<AtomicU64>(offset).as_ref() }
    }

    fn word32(&self, offset: usize) -> &AtomicU32 {
        // SAFETY: `at` checks bounds and alignment; atomics may be shared with other processes.
        unsafe { self.region.at::<AtomicU32>(offset).as_ref() }
    }

    /// This side's bell.
    pub fn bell(&self) -> Bell<'_> {
        Bell {
            waiting: self.word32(WAITING),
            rung: self.word32(BELL),
        }
    }

    /// The consumer's word to its producer: not 0 while a link further on is above its watermark.
    pub fn congested(&self) -> &AtomicU32 {
        self.word32(CONGESTED)
    }

    /// Address of the staging area, if this is the producer's side of a `copy` link.
    pub(crate) fn staging(&self) -> Option<NonNull<u8>> {
        (self.side == Side::Producer && self.geometry.staging_bytes > 0)
            .then(|| self.region.at::<u8>(self.geometry.staging_offset()))
    }
}

/// Both sides of a ring, as one worker maps them: its own writable, the other's read-only.
#[derive(Clone, Debug)]
pub struct MappedRing {
    /// The side with the slots.
    pub producer: RingEnd,
    /// The side with the tail.
    pub consumer: RingEnd,
    slots: NonNull<Slot>,
    settled: NonNull<AtomicU64>,
    tail: NonNull<AtomicU64>,
    read: NonNull<AtomicU64>,
}

// SAFETY: the addresses point into regions that the two ends keep alive; all access is atomic.
unsafe impl Send for MappedRing {}

impl MappedRing {
    /// Joins the two sides.
    ///
    /// # Panics
    /// If the sides are exchanged or their geometries differ: a mistake of the caller.
    pub fn new(producer: RingEnd, consumer: RingEnd) -> Self {
        assert!(producer.side == Side::Producer && consumer.side == Side::Consumer);
        assert_eq!(producer.geometry, consumer.geometry);
        Self {
            slots: producer.region.at(SLOTS),
            settled: producer.region.at(SETTLED),
            tail: consumer.region.at(TAIL),
            read: consumer.region.at(READ),
            producer,
            consumer,
        }
    }
}

impl RingMemory for MappedRing {
    #[inline]
    fn slot_count(&self) -> u32 {
        self.producer.geometry.slot_count
    }

    #[inline]
    fn slot(&self, position: u32) -> &Slot {
        debug_assert!(position < self.slot_count());
        // SAFETY: the ring passes positions below the slot count, all of which lie in the
        // producer's region (`producer_bytes`); slots are atomics.
        unsafe { self.slots.add(position as usize).as_ref() }
    }

    #[inline]
    fn settled(&self) -> &AtomicU64 {
        // SAFETY: from `Region::at` of a region that `producer` keeps alive.
        unsafe { self.settled.as_ref() }
    }

    #[inline]
    fn tail(&self) -> &AtomicU64 {
        // SAFETY: from `Region::at` of a region that `consumer` keeps alive.
        unsafe { self.tail.as_ref() }
    }

    #[inline]
    fn read(&self) -> &AtomicU64 {
        // SAFETY: from `Region::at` of a region that `consumer` keeps alive.
        unsafe { self.read.as_ref() }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::descriptor::Descriptor;
    use crate::ring::{Consumer, Producer};

    fn handed_over(end: &RingEnd) -> RingEnd {
        let fd = end.fd().try_clone_to_owned().unwrap();
        RingEnd::attach(fd, end.side, end.geometry).unwrap()
    }

    #[test]
    fn descriptors_cross_two_mappings() {
        let geometry = RingGeometry {
            slot_count: 8,
            staging_bytes: 0,
        };
        let ours = RingEnd::create(Side::Producer, geometry, 0).unwrap();
        let theirs = RingEnd::create(Side::Consumer, geometry, 0).unwrap();
        let mut producer = Producer::new(MappedRing::new(ours.clone(), handed_over(&theirs)), 0);
        let mut consumer = Consumer::new(MappedRing::new(handed_over(&ours), theirs), 0);
        let mut got = Vec::new();
        for lap in 0..5 {
            let sent: Vec<_> = (0..8)
                .map(|n| Descriptor {
                    offset: lap * 8 + n,
                    ..Descriptor::default()
                })
                .collect();
            assert_eq!(producer.push(sent.iter().copied()), 8);
            producer.settle();
            got.clear();
            assert_eq!(consumer.pull(16, &mut got), 8);
            consumer.commit();
            assert_eq!(got, sent);
        }
    }

    #[test]
    fn another_geometry_is_refused() {
        let geometry = RingGeometry {
            slot_count: 8,
            staging_bytes: 0,
        };
        let ours = RingEnd::create(Side::Producer, geometry, 0).unwrap();
        let fd = ours.fd().try_clone_to_owned().unwrap();
        let other = RingGeometry {
            slot_count: 16,
            staging_bytes: 0,
        };
        assert!(RingEnd::inspect(fd, Side::Producer, other).is_err());
    }
}
