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

use std::ptr::NonNull;

pub use crate::descriptor::SLOTS_PER_BUNDLE;
use crate::descriptor::{Descriptor, kind};
use crate::packet::Packet;
use crate::pool::Violation;
use crate::prefetch;
use crate::ring_memory::MappedRing;
use crate::staging::StagingWriter;
use crate::sync::{AtomicU64, Ordering};

/// Where the entries begin.
const TABLE_OFFSET: usize = 16;
/// Where the first packet's headroom begins.
pub const PACKETS_OFFSET: u32 = 528;
/// Most bytes a bundle can have: offsets are 16 bits.
pub const BUNDLE_BYTES_MAX: usize = 1 << 16;

/// Packets start at multiples of this.
const ALIGNMENT: usize = 16;
const LINE: usize = 64;
/// How far ahead of what is written lines are fetched.
const AHEAD: usize = 8 * LINE;

/// A slot's entry: place and tag of its packet.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Entry(u64);

impl Entry {
    /// `offset` and `len` below 2^16.
    const fn new(offset: usize, len: usize, tag: u32) -> Self {
        Self((tag as u64) << 32 | (len as u64) << 16 | offset as u64)
    }

    const fn offset(self) -> u64 {
        self.0 & 0xffff
    }

    const fn len(self) -> u64 {
        self.0 >> 16 & 0xffff
    }

    const fn end(self) -> u64 {
        self.offset() + self.len()
    }

    const fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// The entry of `slot` in the bundle at `bundle`.
///
/// # Safety
/// `bundle` is a multiple of 16 and the start of [`PACKETS_OFFSET`] or more mapped bytes, which
/// stay mapped for `'a`; `slot` is below [`SLOTS_PER_BUNDLE`].
#[inline]
unsafe fn entry<'a>(bundle: NonNull<u8>, slot: u32) -> &'a AtomicU64 {
    // SAFETY: within the table, by the caller's contract, and aligned; an atomic.
    unsafe {
        bundle
            .add(TABLE_OFFSET + 8 * slot as usize)
            .cast::<AtomicU64>()
            .as_ref()
    }
}

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
    unsafe fn walk(self, mask: u64, mut each: impl FnMut(u32, u64, Entry)) -> u64 {
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

mod view;

pub use view::BundleView;

#[cfg(all(test, not(loom)))]
mod tests;
