//! Bundle pools: the account of slots, and checks of bundles that arrive.
//!
//! Between the pool's owner and the links: as `pool`, but the unit of account is a slot of a buffer
//! (unit = buffer index * 64 + slot). A buffer is on the free list exactly while none of its slots
//! is alive, that is in hand or out.
#![allow(
    unsafe_code,
    reason = "makes packets from checked offsets in a mapping"
)]

use super::geometry::PoolGeometry;
use super::link_set::LinkSet;
use super::owner::PoolOwner;
use super::units::slots;
use super::view::PoolView;
use crate::bundle::{self, BundlePlace, BundleView, BundleWriter, PACKETS_OFFSET};
use crate::descriptor::{Descriptor, SLOTS_PER_BUNDLE, Violation, kind};
use crate::packet::Packet;
use crate::prefetch;
use crate::snapshots::{self, Refused, Snapshots};

/// Lines of the next bundle that are fetched when one is begun: from the start, and of its packets.
const LINES_AHEAD: [usize; 6] = [0, 64, 512, 576, 640, 704];

impl PoolOwner {
    #[inline]
    fn bytes_per_buffer(&self) -> usize {
        1 << self.geometry.log2_stride
    }

    /// A buffer of a bundle pool for a new bundle, or none if all are in use, or this is none. Then
    /// [`PoolOwner::bundle_bytes`] and [`PoolOwner::check_copied`], or [`PoolOwner::free_bundle`].
    #[inline]
    pub fn alloc_bundle(&mut self) -> Option<u32> {
        if !self.geometry.bundles {
            return None;
        }
        let index = self.free_bundles.pop_front()?;
        if let Some(next) = self.free_bundles.front() {
            let offset = (*next as usize) << self.geometry.log2_stride;
            for line in LINES_AHEAD {
                // SAFETY: a buffer of a bundle pool has 1024 bytes or more, and lies in the pool.
                prefetch::for_writing(unsafe { self.region.base().add(offset + line) });
            }
        }
        Some(index)
    }

    /// Puts back a buffer from [`PoolOwner::alloc_bundle`] in which nothing was made.
    ///
    /// # Panics
    /// If a packet of it is alive.
    pub fn free_bundle(&mut self, index: u32) {
        assert_eq!(self.alive[index as usize], 0, "packets of the bundle live");
        self.free_bundles.push_front(index);
    }

    /// Begins a bundle in a buffer of its own, with `headroom` bytes in front of each packet. None
    /// if all buffers are in use, or this is no bundle pool.
    #[inline]
    pub fn begin_bundle(&mut self, headroom: u32) -> Option<BundleWriter> {
        let index = self.alloc_bundle()?;
        let offset = index << self.geometry.log2_stride;
        // SAFETY: the buffer lies in the pool, which the owner may write and which stays mapped for
        // the worker's life; it was on the free list, so nobody uses it; buffers start at multiples
        // of their size.
        Some(unsafe {
            let start = self.region.base().add(offset as usize);
            BundleWriter::at(start, offset, self.bytes_per_buffer(), headroom)
        })
    }

    /// Ends a bundle of this pool: its packets are in hand. Gives the descriptor that names them
    /// all, or none, and the buffer back, if there are none. `mark`: as [`BundleWriter::finish`].
    #[inline]
    pub fn finish_bundle(&mut self, bundle: BundleWriter, mark: u64) -> Option<Descriptor> {
        let (offset, mask) = bundle.finish(mark);
        let index = offset >> self.geometry.log2_stride;
        if mask == 0 {
            self.free_bundle(index);
            return None;
        }
        self.alive[index as usize] = mask;
        Some(Descriptor::bundle(self.id, offset, mask))
    }

    /// A packet of `len` undefined bytes in the bundle that is being filled, or in a new one, with
    /// `headroom` bytes in front. None if there is no buffer, or the packet is too large or empty.
    /// [`PoolOwner::close_bundle`] ends it.
    #[inline]
    pub fn alloc_bundled(&mut self, len: usize, headroom: u32) -> Option<Packet> {
        if self.open.as_ref().is_none_or(|bundle| !bundle.fits(len)) {
            self.close_bundle();
            self.open = Some(self.begin_bundle(headroom)?);
        }
        let bundle = self.open.as_mut()?;
        let (slot, start) = bundle.reserve(len, 0)?;
        let offset = bundle.offset();
        let log2 = self.geometry.log2_stride;
        self.alive[(offset >> log2) as usize] |= 1 << slot;
        #[expect(clippy::cast_possible_truncation, reason = "within a buffer of 64 KiB")]
        let (start, len) = (start as u32, len as u32);
        // SAFETY: `[start, start + len)` was reserved in a buffer of this pool, for this packet
        // alone; the owner's mapping is writable and lives as long as the worker.
        let packet =
            unsafe { Packet::at(self.region.base(), offset + start, len, self.id, log2, true) };
        Some(packet.in_slot(slot, headroom.into()))
    }

    /// Gives `each` up to `count` packets of `len` undefined bytes that lie together in a new
    /// bundle, with `headroom` bytes in front of each. Says how many: what fits one bundle, none if
    /// there is no buffer.
    #[inline]
    pub fn fill_bundle(
        &mut self,
        count: usize,
        len: usize,
        headroom: u32,
        mut each: impl FnMut(Packet),
    ) -> usize {
        let Some(mut bundle) = self.begin_bundle(headroom) else {
            return 0;
        };
        let (base, pool, log2) = (self.region.base(), self.id, self.geometry.log2_stride);
        let offset = bundle.offset();
        let mut made = 0;
        while made < count
            && let Some((slot, start)) = bundle.reserve(len, 0)
        {
            #[expect(clippy::cast_possible_truncation, reason = "within a buffer of 64 KiB")]
            let (start, len) = (start as u32, len as u32);
            // SAFETY: `[start, start + len)` was reserved in a buffer of this pool, for this packet
            // alone; the owner's mapping is writable and lives as long as the worker.
            let packet = unsafe { Packet::at(base, offset + start, len, pool, log2, true) };
            each(packet.in_slot(slot, headroom.into()));
            made += 1;
        }
        let (_, mask) = bundle.finish(0);
        let index = offset >> log2;
        self.alive[index as usize] = mask;
        if mask == 0 {
            self.free_bundles.push_front(index);
        }
        made
    }

    /// Ends the bundle that [`PoolOwner::alloc_bundled`] is filling; its packets stay in hand.
    #[inline]
    pub fn close_bundle(&mut self) {
        if let Some(bundle) = self.open.take() {
            let (offset, _) = bundle.finish(0);
            let index = offset >> self.geometry.log2_stride;
            if self.alive[index as usize] == 0 {
                self.free_bundles.push_front(index);
            }
        }
    }

    #[inline]
    pub(super) fn is_open(&self, index: u32) -> bool {
        let offset = index << self.geometry.log2_stride;
        self.open
            .as_ref()
            .is_some_and(|bundle| bundle.offset() == offset)
    }

    /// The first `len` bytes of a buffer from [`PoolOwner::alloc_bundle`], to copy a whole bundle
    /// into. None if it has fewer, or packets of it are alive.
    pub fn bundle_bytes(&mut self, index: u32, len: usize) -> Option<&mut [u8]> {
        let free = *self.alive.get(index as usize)? == 0;
        if !free || len > self.bytes_per_buffer() {
            return None;
        }
        let offset = (index as usize) << self.geometry.log2_stride;
        // SAFETY: within the buffer; no packet of it exists, and plain packets of a bundle pool
        // never do; the mapping is writable.
        Some(unsafe {
            let start = self.region.base().add(offset);
            std::slice::from_raw_parts_mut(start.as_ptr(), len)
        })
    }

    /// Makes packets of a bundle of `count` slots that was copied in `len` bytes into the buffer
    /// `index` from [`PoolOwner::alloc_bundle`]; they are in hand then. Gives the mask of slots
    /// whose entries are bad, 0 if none is: these have no packet, and nobody owes them. If no slot
    /// is good the buffer is free again.
    ///
    /// What lay in the buffer before, behind `len`, is in no packet.
    ///
    /// # Errors
    /// [`Violation`] if no bundle can have that length or count; the buffer is free again.
    #[inline]
    pub fn check_copied(
        &mut self,
        index: u32,
        len: usize,
        count: u32,
        each: impl FnMut(Packet),
    ) -> Result<u64, Violation> {
        assert_eq!(self.alive[index as usize], 0, "packets of the bundle live");
        let mask = bundle::copied_mask(len, count).filter(|_| len <= self.bytes_per_buffer());
        let Some(mask) = mask else {
            self.free_bundles.push_front(index);
            return Err(Violation);
        };
        let offset = index << self.geometry.log2_stride;
        let place = BundlePlace {
            // SAFETY: a buffer of this pool.
            start: unsafe { self.region.base().add(offset as usize) },
            offset,
            limit: len as u64,
            pool: self.id,
            log2_stride: self.geometry.log2_stride,
            writable: true,
        };
        // SAFETY: a buffer of this pool, which the owner may write; none of its packets exists.
        let bad = unsafe { place.packets(mask, each) };
        self.alive[index as usize] = mask & !bad;
        if mask == bad {
            self.free_bundles.push_front(index);
        }
        Ok(bad)
    }

    /// Takes a packet of a bundle back, which is in hand.
    #[inline]
    pub fn free_slot(&mut self, packet: Packet) {
        debug_assert!(packet.is_bundled() && packet.pool() == self.id);
        self.free_slots(packet.buffer_index(), 1 << packet.slot());
    }
}

impl PoolGeometry {
    /// Units that a descriptor names: of packets that are on the way, or of what goes home. Indices
    /// are as the descriptor has them, in the pool or not.
    pub fn units_of(self, descriptor: &Descriptor) -> Vec<u32> {
        let buffer = descriptor.offset >> self.log2_stride;
        let of_group = |group: u32, mask| {
            slots(mask).map(move |slot| group.wrapping_mul(SLOTS_PER_BUNDLE) + slot)
        };
        if let Some(buffers) = descriptor.returned() {
            buffers.collect()
        } else if let Some((group, mask)) = descriptor.returned_slots() {
            of_group(group, mask).collect()
        } else if !self.bundles {
            vec![buffer]
        } else if descriptor.kind == kind::BUNDLE {
            of_group(buffer, descriptor.mask()).collect()
        } else {
            let slot = descriptor.bundled_parts().map(|(slot, ..)| slot);
            slot.into_iter()
                .flat_map(|slot| of_group(buffer, 1 << slot))
                .collect()
        }
    }
}

impl PoolOwner {
    /// Notes that what `descriptor` names, which is of this pool, leaves by link number `link`.
    #[inline]
    pub fn send_out_described(&mut self, descriptor: &Descriptor, link: u8) {
        let index = descriptor.offset >> self.geometry.log2_stride;
        if descriptor.kind == kind::BUNDLE {
            self.send_out_slots(index, descriptor.mask(), link);
        } else if let Some((slot, ..)) = descriptor.bundled_parts() {
            self.send_out_slots(index, 1 << slot, link);
        } else {
            self.send_out(index, link);
        }
    }

    /// Takes a unit home, as [`PoolOwner::take_home`] or [`PoolOwner::take_home_slots`].
    ///
    /// # Errors
    /// [`Violation`] if it is not out by one of `links`; nothing changes then.
    pub fn take_unit_home(&mut self, unit: u32, links: &LinkSet) -> Result<(), Violation> {
        if !self.geometry.bundles {
            return self.take_home(unit, links);
        }
        let (index, slot) = (unit / SLOTS_PER_BUNDLE, unit % SLOTS_PER_BUNDLE);
        self.take_home_slots(index, 1 << slot, links)
    }
}

impl PoolView {
    /// What a `BUNDLE` descriptor names, as one.
    ///
    /// The descriptor must be a private copy. Slots whose entries in the table are bad are in the
    /// receiver's hands like the others: they are to be returned, so that the owner's account stays
    /// exact, and to be counted as violations of whoever sent them.
    ///
    /// # Errors
    /// [`Violation`] if the descriptor names no bundle of this pool, or this process may only read
    /// it; nothing is in hand then.
    #[inline]
    pub fn bundle(&self, descriptor: &Descriptor) -> Result<BundleView, Violation> {
        let place = self.bundle_place(descriptor)?;
        if !place.writable {
            return Err(Violation);
        }
        // SAFETY: a whole buffer with room for a table, checked in 64 bits on a private copy; the
        // sender gave the slots up by publishing the descriptor, and whoever breaks that rule is a
        // member of this pool's trust group; the mapping lives as long as the worker.
        Ok(unsafe { BundleView::at(place, descriptor.mask()) })
    }

    /// As [`PoolView::bundle`], with table and packets in a copy, until [`Snapshots::forget`] is
    /// called. For pools that this process may only read.
    ///
    /// # Errors
    /// [`Refused`] if the descriptor names no bundle of this pool, or there is no place for the
    /// copy; nothing is in hand then.
    pub fn copied_bundle(
        &self,
        descriptor: &Descriptor,
        snapshots: &mut Snapshots,
    ) -> Result<BundleView, Refused> {
        let place = self.bundle_place(descriptor)?;
        let (table, whole) = (PACKETS_OFFSET as usize, self.buffer_bytes());
        // SAFETY: a whole buffer in the mapping, with room for a table.
        let start = unsafe { snapshots.copy_of(place.start, table, whole) };
        let copy = BundlePlace {
            start: start.ok_or(Refused::Full)?,
            writable: false,
            ..place
        };
        let mask = descriptor.mask();
        // SAFETY: the copy has room for all of the buffer, and its table is there; what its entries
        // say lies within the buffer, and is copied before anybody else looks.
        unsafe {
            let end = copy.end_of(mask);
            snapshots::copy(place.start.add(table), copy.start.add(table), end - table);
            Ok(BundleView::at(copy, mask))
        }
    }

    /// Where the bundle lies that a descriptor names, if it is whole and has room for a table.
    #[inline]
    fn bundle_place(&self, descriptor: &Descriptor) -> Result<BundlePlace, Violation> {
        let (offset, stride) = (u64::from(descriptor.offset), 1_u64 << self.log2_stride);
        if descriptor.kind != kind::BUNDLE
            || !self.holds_bundles()
            || descriptor.mask() == 0
            || offset & (stride - 1) != 0
            || offset + stride > self.region.len() as u64
        {
            return Err(Violation);
        }
        Ok(BundlePlace {
            // SAFETY: within the region, checked above.
            start: unsafe { self.region.base().add(descriptor.offset as usize) },
            offset: descriptor.offset,
            limit: stride,
            pool: self.id,
            log2_stride: self.log2_stride,
            writable: self.region.is_writable(),
        })
    }

    /// Whether this is a pool of bundles; their entries reach 64 KiB.
    #[inline]
    fn holds_bundles(&self) -> bool {
        self.bundles && (10..=16).contains(&self.log2_stride)
    }

    /// The packet that a `BUNDLED` descriptor names, as [`PoolView::packet`].
    #[inline(never)]
    pub(super) fn bundled(&self, descriptor: &Descriptor) -> Result<Packet, Violation> {
        let (slot, len, headroom) = self.check_bundled(descriptor)?;
        if !self.region.is_writable() {
            return Err(Violation);
        }
        // SAFETY: as in `bundle`: bounds checked above, headroom included; the sender gave up the
        // slot, which these bytes are.
        let packet = unsafe {
            let (base, log2) = (self.region.base(), self.log2_stride);
            Packet::at(base, descriptor.offset, len, self.id, log2, true)
        };
        let mut packet = packet.in_slot(slot, headroom);
        packet.set_metadata(descriptor.tag);
        packet.prefetch();
        Ok(packet)
    }

    /// Slot, length and headroom of the packet that a `BUNDLED` descriptor names, if all of it lies
    /// behind the table in one buffer of this pool.
    #[inline]
    pub(super) fn check_bundled(
        &self,
        descriptor: &Descriptor,
    ) -> Result<(u32, u32, u64), Violation> {
        let (slot, len, headroom) = descriptor.bundled_parts().ok_or(Violation)?;
        let (offset, stride) = (u64::from(descriptor.offset), 1_u64 << self.log2_stride);
        let within = offset & (stride - 1);
        let fits = len != 0
            && within >= u64::from(PACKETS_OFFSET) + headroom
            && within + len <= stride
            && offset + len <= self.region.len() as u64;
        if !self.holds_bundles() || !fits {
            return Err(Violation);
        }
        #[expect(clippy::cast_possible_truncation, reason = "16 bits")]
        let len = len as u32;
        Ok((slot, len, headroom))
    }

    /// Units that a descriptor of this pool names, and the bytes of their packets: nothing that it
    /// names is looked at, but a bundle's table.
    ///
    /// # Errors
    /// [`Violation`] if the descriptor names no packets of this pool.
    pub fn named(&self, descriptor: &Descriptor) -> Result<Named, Violation> {
        let buffer = descriptor.offset >> self.log2_stride;
        if let Ok(place) = self.bundle_place(descriptor) {
            // SAFETY: a whole buffer in the mapping, with room for a table.
            let bytes = unsafe { place.bytes_of(descriptor.mask()) };
            let (group, mask) = (buffer, descriptor.mask());
            return Ok(Named { group, mask, bytes });
        }
        if self.bundles {
            let (slot, len, _) = self.check_bundled(descriptor)?;
            let (group, mask, bytes) = (buffer, 1 << slot, len.into());
            return Ok(Named { group, mask, bytes });
        }
        if !self.fits(descriptor) {
            return Err(Violation);
        }
        let (group, unit) = (buffer / SLOTS_PER_BUNDLE, buffer % SLOTS_PER_BUNDLE);
        let (mask, bytes) = (1 << unit, descriptor.len.into());
        Ok(Named { group, mask, bytes })
    }
}

/// What a descriptor names, in units of account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// Their group.
    pub group: u32,
    /// Which of the group.
    pub mask: u64,
    /// Bytes of their packets.
    pub bytes: u64,
}

#[cfg(all(test, not(loom)))]
mod tests;
