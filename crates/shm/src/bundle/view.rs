//! A view of a bundle: packets that arrived by one descriptor, in hand together.
//!
//! For NFs that take whole bundles: between [`crate::pool::PoolView::bundle`] and the descriptor by
//! which what is left of it goes on. It spares a handle per packet, which is most of what a small
//! packet costs an NF that does little.
#![allow(unsafe_code, reason = "bytes of packets are raw memory of a pool")]

use super::table::{BundlePlace, Entry};
use crate::descriptor::{Descriptor, SLOTS_PER_BUNDLE};
use crate::packet::Packet;

/// Packets of one bundle, in hand.
///
/// Like a [`crate::packet::Packet`] it is the only handle of them in use; whoever holds it passes
/// them on or frees them.
#[must_use = "packets that are not passed on or freed keep their buffer"]
#[derive(Debug)]
pub struct BundleView {
    place: BundlePlace,
    mask: u64,
}

// SAFETY: the only handle of its packets, as a packet is; the mapping outlives it.
unsafe impl Send for BundleView {}

impl BundleView {
    /// The packets of `mask`, which is not 0, in the bundle at `place`.
    ///
    /// # Safety
    /// As [`BundlePlace::packets`], while this exists.
    #[inline]
    pub(crate) unsafe fn at(place: BundlePlace, mask: u64) -> Self {
        // SAFETY: a table is in the buffer, by the contract.
        unsafe { place.prefetch(mask) };
        Self { place, mask }
    }

    /// The pool that its buffer is of.
    #[inline]
    pub fn pool(&self) -> u16 {
        self.place.pool
    }

    /// Number of its buffer in the pool.
    #[inline]
    pub fn buffer_index(&self) -> u32 {
        self.place.offset >> self.place.log2_stride
    }

    /// The slots in hand, bad ones included.
    #[inline]
    pub fn mask(&self) -> u64 {
        self.mask
    }

    /// The descriptor by which the slots of `mask`, which are in hand, go on.
    #[inline]
    pub fn descriptor(&self, mask: u64) -> Descriptor {
        debug_assert!(mask != 0 && mask & !self.mask == 0, "slots not in hand");
        Descriptor::bundle(self.place.pool, self.place.offset, mask)
    }

    /// Gives `each` slot and bytes of every packet, in order. Gives the mask of slots whose entries
    /// are bad: these have no bytes.
    #[inline]
    pub fn each(&self, mut each: impl FnMut(u32, &[u8])) -> u64 {
        self.walk(|slot, start, len| {
            // SAFETY: `walk` gives places in the buffer that are this view's alone.
            each(slot, unsafe { std::slice::from_raw_parts(start, len) });
        })
    }

    /// As [`BundleView::each`], to change the bytes.
    ///
    /// # Panics
    /// If the pool is mapped for reading only; a checked chain has no such NF on such a link.
    #[inline]
    pub fn each_mut(&mut self, mut each: impl FnMut(u32, &mut [u8])) -> u64 {
        assert!(self.place.writable, "packets of an ro link are read only");
        self.walk(|slot, start, len| {
            // SAFETY: `walk` gives places in the buffer that are this view's alone, one after the
            // other; `&mut self` says that nobody else reads them now; the mapping is writable.
            each(slot, unsafe { std::slice::from_raw_parts_mut(start, len) });
        })
    }

    /// Looks at all entries, and has the packets fetched. Gives the sum of their bytes and the mask
    /// of slots whose entries are bad.
    #[inline]
    pub fn check(&self) -> (u64, u64) {
        let mut bytes = 0;
        let note = |_, _, entry: Entry| {
            bytes += entry.len();
            // SAFETY: offsets of good entries lie in the buffer, which is mapped.
            let start = unsafe { self.place.start.add(entry.offset() as usize) };
            crate::prefetch::for_reading(start);
        };
        // SAFETY: by the constructor's contract.
        let bad = unsafe { self.place.walk(self.mask, note) };
        (bytes, bad)
    }

    /// The marks of all its packets, laid over each other: 0 if probes follow none of them.
    #[inline]
    pub fn any_mark(&self) -> u16 {
        let mut marks = 0;
        self.each_mark(|_, mark| marks |= mark);
        marks
    }

    /// Gives `each` slot and mark of every packet, in order, by the bundle's table. Slots whose
    /// entries are bad have no packet, and are left out.
    #[inline]
    pub fn each_mark(&self, mut each: impl FnMut(u32, u16)) {
        let note = |slot, _, entry: Entry| each(slot, entry.mark());
        // SAFETY: by the constructor's contract.
        unsafe { self.place.walk(self.mask, note) };
    }

    /// Takes the slots of `mask`, which are in hand, out of this view, as one of their own.
    pub fn split_off(&mut self, mask: u64) -> Self {
        debug_assert_eq!(mask & !self.mask, 0, "slots not in hand");
        self.mask &= !mask;
        Self {
            place: self.place,
            mask,
        }
    }

    /// Leaves the slots of `mask` to the caller, who has them go home.
    pub fn leave(&mut self, mask: u64) {
        self.mask &= !mask;
    }

    /// Gives `each` a handle of every packet, in order. Gives the mask of slots whose entries are
    /// bad: these have no packet, and are the caller's.
    #[inline]
    pub fn into_packets(self, each: impl FnMut(Packet)) -> u64 {
        // SAFETY: by the constructor's contract; this view is used up, so that no other handle of
        // its slots exists.
        unsafe { self.place.packets(self.mask, each) }
    }

    /// Gives `each` slot and handle of every packet, in order, and writes back to the bundle's
    /// table what it changes. Gives the change of the sum of bytes, and the mask of slots that it
    /// could not be written back for: the table may only be read here. Their handles go to `stuck`.
    #[inline]
    pub fn each_packet(
        &mut self,
        mut each: impl FnMut(u32, &mut Packet),
        mut stuck: impl FnMut(u32, Packet),
    ) -> (i64, u64) {
        let (mut change, mut stuck_slots) = (0, 0);
        let give = |mut packet: Packet| {
            let (slot, before) = (packet.slot(), packet.len() as i64);
            each(slot, &mut packet);
            change += packet.len() as i64 - before;
            if !packet.rewrite() {
                stuck_slots |= 1 << slot;
                stuck(slot, packet);
            }
        };
        // SAFETY: by the constructor's contract; `&mut self` says that no other handle of its slots
        // is in use, and each is forgotten before the next.
        unsafe { self.place.packets(self.mask, give) };
        (change, stuck_slots)
    }

    /// Gives each good packet's slot, start and length. The whole table is read first, so that the
    /// packets come from other caches side by side.
    #[inline(always)]
    fn walk(&self, mut each: impl FnMut(u32, *mut u8, usize)) -> u64 {
        // SAFETY: by the constructor's contract the buffer is mapped; offsets have 16 bits, and
        // those of good entries lie in the buffer.
        let start = |entry: Entry| unsafe { self.place.start.add(entry.offset() as usize) };
        let mut entries = [Entry(0); SLOTS_PER_BUNDLE as usize];
        let note = |slot, _, entry| {
            crate::prefetch::for_reading(start(entry));
            entries[slot as usize] = entry;
        };
        // SAFETY: by the constructor's contract.
        let bad = unsafe { self.place.walk(self.mask, note) };
        let mut rest = self.mask & !bad;
        while rest != 0 {
            let slot = rest.trailing_zeros();
            rest &= rest - 1;
            let entry = entries[slot as usize];
            each(slot, start(entry).as_ptr(), entry.len() as usize);
        }
        bad
    }
}
