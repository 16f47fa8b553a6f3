//! The table of a bundle: where its packets lie, as whoever made it says, and what of that is true.
//!
//! Between a descriptor that names slots of a bundle and the packets that are made of them. An
//! entry is read once, as one word, and checked in 64 bits.
#![allow(unsafe_code, reason = "reads entries and makes packets in raw memory")]

use std::ptr::NonNull;

use crate::packet::Packet;
use crate::prefetch;
use crate::sync::{AtomicU64, Ordering};

/// Where the entries begin.
pub(super) const TABLE_OFFSET: usize = 16;
/// Where the first packet's headroom begins.
pub const PACKETS_OFFSET: u32 = 528;
/// Bytes of a cache line.
pub(super) const LINE: usize = 64;

/// A slot's entry: place and tag of its packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub(super) u64);

impl Entry {
    /// `offset` and `len` below 2^16.
    pub(super) const fn new(offset: usize, len: usize, tag: u32) -> Self {
        Self((tag as u64) << 32 | (len as u64) << 16 | offset as u64)
    }

    pub(super) const fn offset(self) -> u64 {
        self.0 & 0xffff
    }

    pub(super) const fn len(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    pub(super) const fn end(self) -> u64 {
        self.offset() + self.len()
    }

    pub(super) const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The upper half of the tag, as in a packet's metadata.
    pub(super) const fn mark(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// The entry of `slot` in the bundle at `bundle`.
///
/// # Safety
/// `bundle` is a multiple of 16 and the start of [`PACKETS_OFFSET`] or more mapped bytes, which
/// stay mapped for `'a`; `slot` is below [`SLOTS_PER_BUNDLE`](super::SLOTS_PER_BUNDLE).
#[inline]
pub(super) unsafe fn entry<'a>(bundle: NonNull<u8>, slot: u32) -> &'a AtomicU64 {
    // SAFETY: within the table, by the caller's contract, and aligned; an atomic.
    unsafe {
        bundle
            .add(TABLE_OFFSET + 8 * slot as usize)
            .cast::<AtomicU64>()
            .as_ref()
    }
}

/// A bundle in this process's mapping of a pool, or in a copy: what its packets are made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BundlePlace {
    /// Start of the buffer, or of the copy.
    pub start: NonNull<u8>,
    /// Start of the buffer in the pool.
    pub offset: u32,
    /// Bytes of the buffer that count.
    pub limit: u64,
    pub pool: u16,
    pub log2_stride: u8,
    pub writable: bool,
}

impl BundlePlace {
    /// Gives slot, floor and entry of the packets of `mask` in ascending order, and the mask of
    /// slots whose entries are bad. What lies between floor and start of a packet is its headroom.
    ///
    /// A good entry lies behind the end of all that was given before it and of the slot in front of
    /// it, and within the limit. So no two packets overlap, headroom included, whatever the table
    /// says; and none reaches a packet of another view, if the others keep to the protocol.
    ///
    /// # Safety
    /// The buffer is mapped, has [`PACKETS_OFFSET`] bytes or more, and starts at a multiple of 16.
    #[inline(always)]
    pub(super) unsafe fn walk(self, mask: u64, mut each: impl FnMut(u32, u64, Entry)) -> u64 {
        // SAFETY: a table is in the buffer, by the contract; slots below 64 are asked for.
        let read = |slot| Entry(unsafe { entry(self.start, slot) }.load(Ordering::Relaxed));
        let (mut rest, mut bad) = (mask, 0);
        let (mut floor, mut next) = (u64::from(PACKETS_OFFSET), 0);
        while rest != 0 {
            let slot = rest.trailing_zeros();
            rest &= rest - 1;
            if slot != next {
                // The packet in front belongs to another view.
                floor = floor.max(read(slot - 1).end());
            }
            next = slot + 1;
            let entry = read(slot);
            if entry.len() == 0 || entry.offset() < floor || entry.end() > self.limit {
                bad |= 1 << slot;
                continue;
            }
            each(slot, floor, entry);
            floor = entry.end();
        }
        bad
    }

    /// Gives the packets of `mask` in ascending order, and the mask of slots whose entries are bad.
    ///
    /// # Safety
    /// As [`BundlePlace::walk`], and: the mapping stays valid while the packets exist; no handles
    /// of the slots of `mask` are in use; if `writable`, the mapping is.
    #[inline]
    pub(crate) unsafe fn packets(self, mask: u64, mut each: impl FnMut(Packet)) -> u64 {
        let give = |slot, floor, entry: Entry| {
            #[expect(clippy::cast_possible_truncation, reason = "fields of 16 bits")]
            let (offset, len) = (entry.offset() as u32, entry.len() as u32);
            // SAFETY: `walk` found it to lie in the buffer, and apart from all other packets given.
            let packet = unsafe {
                let (data, named) = (
                    self.start.add(offset as usize),
                    (self.pool, self.log2_stride),
                );
                Packet::lying_at(data, self.offset + offset, len, named, self.writable)
            }
            .in_slot(slot, entry.offset() - floor)
            .with_metadata(entry.tag());
            packet.prefetch();
            each(packet);
        };
        // SAFETY: the caller's contract.
        unsafe { self.walk(mask, give) }
    }

    /// Behind the last good packet of `mask`, from the start of the buffer; behind the table, if
    /// there is none.
    ///
    /// # Safety
    /// As [`BundlePlace::walk`].
    pub(crate) unsafe fn end_of(self, mask: u64) -> usize {
        let mut end = u64::from(PACKETS_OFFSET);
        // SAFETY: the caller's contract.
        unsafe { self.walk(mask, |_, _, entry| end = entry.end()) };
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^17")]
        let end = end as usize;
        end
    }

    /// Bytes of the good packets of `mask`.
    ///
    /// # Safety
    /// As [`BundlePlace::walk`].
    pub(crate) unsafe fn bytes_of(self, mask: u64) -> u64 {
        let mut bytes = 0;
        // SAFETY: the caller's contract.
        unsafe { self.walk(mask, |_, _, entry| bytes += entry.len()) };
        bytes
    }

    /// Starts to fetch the lines of the table that `mask` needs.
    ///
    /// # Safety
    /// As [`BundlePlace::packets`].
    #[inline]
    pub(crate) unsafe fn prefetch(self, mask: u64) {
        let first = TABLE_OFFSET + 8 * mask.trailing_zeros() as usize;
        let last = TABLE_OFFSET + 8 * (63 - (mask | 1).leading_zeros()) as usize;
        for line in (first / LINE)..=(last / LINE) {
            // SAFETY: a line of the table, in the buffer.
            prefetch::for_reading(unsafe { self.start.add(line * LINE) });
        }
    }
}
