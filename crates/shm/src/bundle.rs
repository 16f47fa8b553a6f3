//! Bundles: buffers that hold many small packets, which pass a link in one hand-over.
//!
//! Between NFs: the sending side of a link packs what it has in hand into a bundle
//! ([`BundleWriter`]), the receiving side makes ordinary packets of it, which NFs change in place.
//! `docs/adr/0010-bundles-are-buffers-of-many-packets.md` has the reasons.
//!
//! ```text
//!    0  count of slots used (u16), headroom (u16), 4 bytes of zero, link and epoch (u64)
//!   16  64 entries of 8 bytes: offset in the buffer (u16), length (u16), tag (u32)
//!  528  packets in the order of their slots, each with its headroom in front, each starting at a
//!       multiple of 16 from which it reaches over no more cache lines than it must
//! ```
//!
//! The first 16 bytes are for whoever looks at a dump: nothing believes them. An entry is read
//! once, as one word, and checked in 64 bits. What a packet may grow into is what lies between it
//! and the end of the slot before it, by that slot's entry: ends never grow, so two holders of
//! packets of one bundle, in one process or in two, never reach the same byte.
#![allow(
    unsafe_code,
    reason = "writes and reads entries and packets in raw memory of a pool or staging area"
)]

mod table;
mod view;

use std::ptr::NonNull;

pub use crate::descriptor::SLOTS_PER_BUNDLE;
use crate::descriptor::{Descriptor, Violation, kind};
use crate::packet::Packet;
use crate::prefetch;
use crate::ring_memory::MappedRing;
use crate::staging::StagingWriter;
use crate::sync::{AtomicU64, Ordering};
pub(crate) use table::BundlePlace;
pub use table::PACKETS_OFFSET;
use table::{Entry, LINE, TABLE_OFFSET, entry};
pub use view::BundleView;

/// Most bytes a bundle can have: offsets are 16 bits.
pub const BUNDLE_BYTES_MAX: usize = 1 << 16;

/// Packets start at multiples of this.
const ALIGNMENT: usize = 16;
/// How far ahead of what is written lines are fetched.
const AHEAD: usize = 8 * LINE;

/// A mask of the lowest `count` slots.
#[inline]
const fn lowest(count: u32) -> u64 {
    if count == 0 {
        0
    } else {
        u64::MAX >> (SLOTS_PER_BUNDLE - count)
    }
}

/// Where a packet of `len` bytes starts, if it is put behind one that ends at `end`: it shares a
/// cache line with its neighbour only if it takes no further one for that.
#[inline]
const fn start_behind(end: usize, len: usize, headroom: usize) -> usize {
    let start = (end + headroom).next_multiple_of(ALIGNMENT);
    if start % LINE + len > len.next_multiple_of(LINE) {
        return start.next_multiple_of(LINE);
    }
    start
}

/// Where a packet of `len` bytes ends, if it is put behind one that ends at `end`.
#[inline]
pub const fn end_behind(end: usize, len: usize, headroom: u32) -> usize {
    start_behind(end, len, headroom as usize) + len
}

/// Bytes of a bundle of packets with these lengths, in this order.
pub fn bytes_of(lens: impl IntoIterator<Item = usize>, headroom: u32) -> usize {
    lens.into_iter().fold(PACKETS_OFFSET as usize, |end, len| {
        end_behind(end, len, headroom)
    })
}

/// Fills a bundle.
///
/// Dropped unfinished, its buffer is lost to its pool.
#[must_use = "a bundle that is not finished keeps its buffer"]
#[derive(Debug)]
pub struct BundleWriter {
    bundle: NonNull<u8>,
    /// Where the bundle starts in its pool.
    offset: u32,
    count: u32,
    limit: usize,
    headroom: usize,
    /// Where the last packet ends.
    end: usize,
    /// Lines below this have been fetched.
    fetched: usize,
}

// SAFETY: the writer is the only one who holds the bytes, like a packet.
unsafe impl Send for BundleWriter {}

impl BundleWriter {
    /// Begins a bundle of at most `limit` bytes.
    ///
    /// # Safety
    /// `[bundle, bundle+limit)` is writable memory that stays mapped while this exists, and that
    /// nobody else uses; `bundle` is a multiple of 16.
    #[inline]
    pub(crate) unsafe fn at(bundle: NonNull<u8>, offset: u32, limit: usize, headroom: u32) -> Self {
        let fetched = (PACKETS_OFFSET as usize + headroom as usize) & !(LINE - 1);
        Self {
            bundle,
            offset,
            count: 0,
            limit: limit.min(BUNDLE_BYTES_MAX),
            headroom: headroom as usize,
            end: PACKETS_OFFSET as usize,
            fetched,
        }
    }

    /// Whether a packet of `len` bytes has room.
    #[inline]
    pub fn fits(&self, len: usize) -> bool {
        let start = start_behind(self.end, len, self.headroom);
        self.count < SLOTS_PER_BUNDLE && len <= self.limit.saturating_sub(start)
    }

    /// Copies a packet into the next slot, and says which; none if it has no room or no bytes.
    #[inline]
    pub fn add(&mut self, bytes: &[u8], tag: u32) -> Option<u32> {
        let (slot, start) = self.reserve(bytes.len(), tag)?;
        // SAFETY: `start + len` is at most `limit`, so the bytes lie in the bundle, which only this
        // writer uses; the source is this process's own or a packet in hand.
        unsafe { copy(bytes, self.bundle.add(start)) };
        Some(slot)
    }

    /// Takes the next slot for a packet of `len` bytes, which are undefined, and says which it is
    /// and where in the bundle it starts; none if it has no room or no bytes.
    #[inline]
    pub(crate) fn reserve(&mut self, len: usize, tag: u32) -> Option<(u32, usize)> {
        if len == 0 || !self.fits(len) {
            return None;
        }
        let slot = self.count;
        let start = start_behind(self.end, len, self.headroom);
        let word = Entry::new(start, len, tag).0;
        // SAFETY: the table lies in front of `start`, so it lies in the bundle, and `slot` is below
        // the maximum.
        unsafe { entry(self.bundle, slot) }.store(word, Ordering::Relaxed);
        self.count += 1;
        self.end = start + len;
        self.fetch_ahead(slot);
        Some((slot, start))
    }

    /// Start of the bundle in its pool.
    #[inline]
    pub(crate) fn offset(&self) -> u32 {
        self.offset
    }

    #[inline]
    fn fetch_ahead(&mut self, slot: u32) {
        // A line of the table holds eight entries; the first was fetched with the buffer.
        if slot.is_multiple_of(8) {
            // SAFETY: at most where the packets begin, so in the bundle.
            let line = unsafe { self.bundle.add(TABLE_OFFSET + 8 * slot as usize + LINE) };
            prefetch::for_writing(line);
        }
        let wanted = (self.end + AHEAD).min(self.limit);
        while self.fetched < wanted {
            // SAFETY: below `limit`, so in the bundle.
            prefetch::for_writing(unsafe { self.bundle.add(self.fetched) });
            self.fetched += LINE;
        }
    }

    /// Packets so far.
    #[inline]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes so far, table included.
    #[inline]
    pub fn used(&self) -> usize {
        self.end
    }

    /// Writes the bundle's first words: `mark` is for dumps, by convention link and epoch. Gives
    /// the start of the buffer in its pool and the mask of the slots used.
    #[inline]
    pub fn finish(self, mark: u64) -> (u32, u64) {
        if self.count > 0 {
            let word = u64::from(self.count) | (self.headroom as u64 & 0xffff) << 16;
            // SAFETY: the first 16 bytes of the bundle, which has at least a table, since a packet
            // lies behind it; an aligned atomic.
            let words = unsafe { self.bundle.cast::<[AtomicU64; 2]>().as_ref() };
            words[0].store(word, Ordering::Relaxed);
            words[1].store(mark, Ordering::Relaxed);
        }
        (self.offset, lowest(self.count))
    }
}

/// Copies small packets without a call.
///
/// # Safety
/// `to` is the start of as many writable bytes as there are in `bytes`, and these do not overlap.
#[inline]
unsafe fn copy(bytes: &[u8], to: NonNull<u8>) {
    /// The first and the last N bytes, which may overlap each other.
    ///
    /// # Safety
    /// As `copy`; `bytes` has N to 2 N bytes.
    #[inline]
    unsafe fn both_ends<const N: usize>(bytes: &[u8], to: NonNull<u8>) {
        let back = bytes.len() - N;
        let (from, to) = (bytes.as_ptr(), to.as_ptr());
        // SAFETY: by the contract, `[0, N)` and `[len - N, len)` lie in both.
        unsafe {
            let front = from.cast::<[u8; N]>().read();
            let end = from.add(back).cast::<[u8; N]>().read();
            to.cast::<[u8; N]>().write(front);
            to.add(back).cast::<[u8; N]>().write(end);
        }
    }
    // SAFETY: the caller's contract, and the lengths are matched.
    unsafe {
        match bytes.len() {
            33..=64 => both_ends::<32>(bytes, to),
            65..=128 => both_ends::<64>(bytes, to),
            len => std::ptr::copy_nonoverlapping(bytes.as_ptr(), to.as_ptr(), len),
        }
    }
}

impl Packet {
    /// Makes the bundle's table say where this packet lies now, and its tag, so that it can travel
    /// as part of a `BUNDLE`. False if that cannot be, and it has to travel by itself: it was
    /// changed and the table may not be written here, or it does not lie in a bundle.
    ///
    /// The entry is written only if it differs: the line may be in several caches.
    #[inline]
    pub fn rewrite(&self) -> bool {
        if !self.is_bundled() {
            return false;
        }
        if !self.has_moved() {
            return true;
        }
        if !self.is_writable() {
            return false;
        }
        // SAFETY: a bundled packet lies in a buffer that starts with a table; buffers are multiples
        // of their size, 1 KiB or more.
        let entry = unsafe { entry(self.buffer_start(), self.slot()) };
        let now = Entry::new(self.offset_in_buffer(), self.len(), self.metadata()).0;
        if entry.load(Ordering::Relaxed) == now {
            return true;
        }
        entry.store(now, Ordering::Relaxed);
        true
    }

    /// The descriptor of a packet in a bundle, by itself.
    #[inline]
    pub(crate) fn bundled_descriptor(&self) -> Descriptor {
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a buffer has 2^16 bytes, and its table comes first; headroom has 8 bits"
        )]
        let room = (self.len() as u16, self.headroom() as u8);
        Descriptor::bundled(
            self.slot(),
            self.pool(),
            self.offset(),
            room,
            self.metadata(),
        )
    }
}

impl StagingWriter {
    /// Builds a bundle of `count` packets in `len` bytes (see [`bytes_of`]) in the area of `ring`
    /// and gives the descriptor to publish, or none if there is no room now. As with
    /// [`StagingWriter::stage_packet`], the caller publishes it before it stages anything else.
    ///
    /// `fill` adds just these packets, in the order for which `len` was computed.
    #[inline]
    pub fn stage_bundle(
        &mut self,
        ring: &MappedRing,
        (len, count): (usize, u32),
        headroom: u32,
        mark: u64,
        fill: impl FnOnce(&mut BundleWriter),
    ) -> Option<Descriptor> {
        if len <= PACKETS_OFFSET as usize || len > BUNDLE_BYTES_MAX {
            return None;
        }
        let mut made = (0, 0);
        let offset = self.stage_with(ring, len, count, |to| {
            // SAFETY: `len` bytes in the area, which only this side writes, and which nothing else
            // uses until the descriptor is published; staged bytes start at a cache line.
            let mut bundle = unsafe { BundleWriter::at(to, 0, len, headroom) };
            fill(&mut bundle);
            debug_assert_eq!(bundle.count(), count, "as many as room was taken for");
            made = (bundle.used(), bundle.count());
            bundle.finish(mark);
        })?;
        #[expect(clippy::cast_possible_truncation, reason = "at most 2^16")]
        Some(Descriptor::staged_bundle(offset, made.0 as u32, made.1))
    }
}

/// What a descriptor of a bundle in a staging area says: the descriptor of its bytes as if they
/// were one packet, with which [`crate::staging`] checks and copies them, and the count of its
/// packets.
///
/// # Errors
/// [`Violation`] if it is none, or no bundle can have that length or count.
pub fn staged(descriptor: &Descriptor) -> Result<(Descriptor, u32), Violation> {
    let (len, count) = (descriptor.len as usize, descriptor.tag);
    if descriptor.kind != kind::STAGED_BUNDLE
        || len <= PACKETS_OFFSET as usize
        || len > BUNDLE_BYTES_MAX
        || count == 0
        || count > SLOTS_PER_BUNDLE
    {
        return Err(Violation);
    }
    let bytes = Descriptor {
        kind: kind::PACKET,
        tag: 0,
        ..*descriptor
    };
    Ok((bytes, count))
}

/// Checks what [`crate::pool::PoolOwner::check_copied`] needs, and gives the mask of the slots.
pub(crate) fn copied_mask(len: usize, count: u32) -> Option<u64> {
    let fits = len > PACKETS_OFFSET as usize && count > 0 && count <= SLOTS_PER_BUNDLE;
    fits.then(|| lowest(count))
}

#[cfg(all(test, not(loom)))]
mod tests;
