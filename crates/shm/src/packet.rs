//! The handle of one packet: which buffer it lies in, where it starts, how long it is.
//!
//! A packet is what NFs work on. It is made by [`crate::pool`] only: by the owner's `alloc`, or
//! from a descriptor that has passed every check. Whoever holds the handle holds the buffer;
//! handles are neither copied nor dropped silently on the data path, but moved into a link or freed
//! to their pool.
//!
//! ```text
//! |<---------------- buffer: 2^log2_stride bytes ---------------->|
//! | headroom            | bytes: len                   | tailroom |
//!                        ^ offset in the pool
//! ```
//!
//! In a bundle the buffer is shared among packets, and headroom is what lies between this packet
//! and the one before it (see [`crate::bundle`]). A handle never reaches beyond that, nor behind
//! the end that it once had.
//!
//! What exclusivity means here: between taking a descriptor and giving it on, this process is the
//! only one that touches the bytes, *if all processes that may write the pool follow the protocol*.
//! Those are the members of one trust group. Where this process may only read the pool, the handle
//! points at a private copy ([`crate::snapshots`]): its maker need not be a member.
#![allow(
    unsafe_code,
    reason = "packet bytes are raw memory of a pool; this file turns them into slices"
)]

use std::fmt;
use std::ptr::NonNull;

use crate::descriptor::{POOL_BITS, SLOTS_PER_BUNDLE};
use crate::offload::{LEN_BITS, Offload};

/// A packet in a pool's buffer.
///
/// Three words, written and read whole: a handle is moved several times per hop, and a word put
/// together from smaller stores would stall each time it is loaded.
#[must_use = "a packet that is not passed on or freed keeps its buffer"]
pub struct Packet {
    data: NonNull<u8>,
    /// Offset in the pool (high half) and length (low half).
    place: u64,
    /// Metadata (high half); headroom left (8 bits), slot (6), bundled (1), writable (1), moved
    /// (1), where the first two and the last count for packets of a bundle only; log2 of the stride
    /// (5), pool (10). Of a packet that lies alone, the first two are what is left to a card.
    info: u64,
}

const HEADROOM_SHIFT: u32 = 24;
const SLOT_SHIFT: u32 = 18;
/// Where headroom and slot stand of a packet in a bundle.
const OFFLOAD_SHIFT: u32 = SLOT_SHIFT;
const OFFLOAD_MASK: u64 = 0x3fff << OFFLOAD_SHIFT;
const BUNDLED: u64 = 1 << 17;
const WRITABLE_SHIFT: u32 = 16;
/// The bundle's table says another place, length or tag.
const MOVED: u64 = 1 << 15;
const LOG2_SHIFT: u32 = POOL_BITS;
const LOG2_MASK: u64 = 0x1f;
const POOL_MASK: u64 = (1 << POOL_BITS) - 1;

// SAFETY: a packet is the only handle of its buffer (see the file's header), so it may move to
// another thread like any owned memory; the mapping it points into outlives it (`pool` keeps
// mappings for the worker's whole life).
unsafe impl Send for Packet {}

/// No room for the header in front of or behind the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Packet {
    /// The packet at `offset` of the pool mapped at `base`.
    ///
    /// # Safety
    /// `base` is the start of a mapping that stays valid while the packet exists; `[offset,
    /// offset+len)` lies in one buffer of `2^log2_stride` bytes within it; no other handle of that
    /// buffer is in use, or none of that slot if `in_slot` follows; if `writable`, the mapping is.
    #[inline]
    pub(crate) unsafe fn at(
        base: NonNull<u8>,
        offset: u32,
        len: u32,
        pool: u16,
        log2_stride: u8,
        writable: bool,
    ) -> Self {
        // SAFETY: `offset` lies within the mapping; the rest is the caller's contract.
        unsafe {
            let data = base.add(offset as usize);
            Self::lying_at(data, offset, len, (pool, log2_stride), writable)
        }
    }

    /// The packet at `offset` of a pool, which is named with log2 of its stride, and with its bytes
    /// at `data`.
    ///
    /// # Safety
    /// As [`Packet::at`], where `data` is that place in the mapping, or, if not `writable`, that of
    /// as many bytes that nobody writes while the packet is looked at.
    #[inline]
    pub(crate) unsafe fn lying_at(
        data: NonNull<u8>,
        offset: u32,
        len: u32,
        (pool, log2_stride): (u16, u8),
        writable: bool,
    ) -> Self {
        Self {
            data,
            place: u64::from(offset) << 32 | u64::from(len),
            info: u64::from(writable) << WRITABLE_SHIFT
                | u64::from(log2_stride) << LOG2_SHIFT
                | u64::from(pool),
        }
    }

    /// Makes this the packet in `slot` of its bundle, with `headroom` bytes left to it: 255 at
    /// most. What lies further in front, and what lies behind, belongs to other packets.
    #[inline]
    pub(crate) fn in_slot(mut self, slot: u32, headroom: u64) -> Self {
        self.info |= BUNDLED | u64::from(slot) << SLOT_SHIFT;
        self.set_headroom_left(headroom);
        self
    }

    #[inline]
    fn set_headroom_left(&mut self, headroom: u64) {
        self.info = self.info & !(0xff << HEADROOM_SHIFT) | headroom.min(0xff) << HEADROOM_SHIFT;
    }

    /// Whether the bundle's table may say another place, length or tag than the handle.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        self.info & MOVED != 0
    }

    /// Start of its buffer.
    #[inline]
    pub(crate) fn buffer_start(&self) -> NonNull<u8> {
        // SAFETY: the packet starts so many bytes behind the start of its buffer.
        unsafe { self.data.sub(self.offset_in_buffer()) }
    }

    /// Offset of its first byte in its buffer.
    #[inline]
    pub(crate) fn offset_in_buffer(&self) -> usize {
        (self.offset() & self.offset_mask()) as usize
    }

    #[inline]
    fn set_place(&mut self, offset: u32, len: u32) {
        self.info |= MOVED;
        self.place = u64::from(offset) << 32 | u64::from(len);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the low half")]
    fn len32(&self) -> u32 {
        self.place as u32
    }

    /// Log2 of the bytes of its buffer; 0 in a bundle, where it cannot grow behind.
    #[inline]
    pub fn buffer_log2(&self) -> u8 {
        if self.is_bundled() {
            return 0;
        }
        self.log2_stride()
    }

    #[inline]
    fn log2_stride(&self) -> u8 {
        (self.info >> LOG2_SHIFT & LOG2_MASK) as u8
    }

    /// Its bytes, from the Ethernet header on.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `data..data+len` lies in this packet's buffer (constructor and the methods below
        // keep that); no other handle of it is in use.
        unsafe { std::slice::from_raw_parts(self.data.as_ptr(), self.len32() as usize) }
    }

    /// Its bytes, to be changed.
    ///
    /// # Panics
    /// If this process may only read the packet (it came over an `ro` link). Chain files are
    /// checked so that NFs which declare `Access::Write` never meet such packets.
    #[inline]
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(
            self.is_writable(),
            "a packet from an `ro` link cannot be changed"
        );
        // SAFETY: as in `bytes`, and the mapping is writable.
        unsafe { std::slice::from_raw_parts_mut(self.data.as_ptr(), self.len32() as usize) }
    }

    /// Starts to fetch the first cache line of its bytes.
    #[inline]
    pub(crate) fn prefetch(&self) {
        crate::prefetch::for_reading(self.data);
    }

    /// Length in bytes, without FCS.
    #[inline]
    #[expect(
        clippy::len_without_is_empty,
        reason = "a packet of no bytes has no use"
    )]
    pub fn len(&self) -> usize {
        self.len32() as usize
    }

    /// Offset of the first byte in its pool.
    #[inline]
    pub fn offset(&self) -> u32 {
        (self.place >> 32) as u32
    }

    /// Pool of its buffer.
    #[inline]
    pub fn pool(&self) -> u16 {
        (self.info & POOL_MASK) as u16
    }

    /// Index of its buffer in the pool.
    #[inline]
    pub fn buffer_index(&self) -> u32 {
        self.offset() >> self.log2_stride()
    }

    /// Offset of its buffer in the pool.
    #[inline]
    pub fn buffer_offset(&self) -> u32 {
        self.offset() & !self.offset_mask()
    }

    /// Whether it lies in a bundle, with other packets in the same buffer.
    #[inline]
    pub fn is_bundled(&self) -> bool {
        self.info & BUNDLED != 0
    }

    /// Whether both lie in bundles, and in the same one.
    #[inline]
    pub fn shares_bundle(&self, other: &Self) -> bool {
        const SAME: u64 = BUNDLED | LOG2_MASK << LOG2_SHIFT | POOL_MASK;
        let differs = (self.info ^ other.info) & SAME;
        let apart = (self.place ^ other.place) >> 32 >> self.log2_stride();
        differs | apart == 0 && self.is_bundled()
    }

    /// Its slot in its bundle; any number for a packet that lies alone in its buffer.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes 6 bits")]
    pub fn slot(&self) -> u32 {
        (self.info >> SLOT_SHIFT) as u32 & 0x3f
    }

    /// Its unit of account in the pool: the buffer, or the slot of a bundle pool.
    #[inline]
    pub fn unit(&self) -> u32 {
        if self.is_bundled() {
            self.buffer_index() * SLOTS_PER_BUNDLE + self.slot()
        } else {
            self.buffer_index()
        }
    }

    /// Log2 of the bytes that the units of one group take in the pool (see
    /// [`crate::pool::UnitRun`]).
    #[inline]
    fn group_log2(&self) -> u8 {
        self.log2_stride() + if self.is_bundled() { 0 } else { 6 }
    }

    /// The group of its unit: its bundle's buffer, or its slab of buffers.
    #[inline]
    pub(crate) fn unit_group(&self) -> u32 {
        self.offset() >> self.group_log2()
    }

    /// Which unit of its group it is.
    #[inline]
    pub(crate) fn unit_in_group(&self) -> u32 {
        if self.is_bundled() {
            self.slot()
        } else {
            self.buffer_index() % SLOTS_PER_BUNDLE
        }
    }

    /// Whether both are of one group.
    #[inline]
    pub(crate) fn shares_group(&self, other: &Self) -> bool {
        const SAME: u64 = BUNDLED | LOG2_MASK << LOG2_SHIFT | POOL_MASK;
        let differs = (self.info ^ other.info) & SAME;
        let apart = (self.place ^ other.place) >> 32 >> other.group_log2();
        differs | apart == 0
    }

    /// Whether this process may change it.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.info >> WRITABLE_SHIFT & 1 == 1
    }

    /// Metadata that travels with it through links: its mark (high half) and its tag.
    #[inline]
    pub fn metadata(&self) -> u32 {
        (self.info >> 32) as u32
    }

    /// Sets mark and tag, as they came over a link.
    #[inline]
    pub fn set_metadata(&mut self, metadata: u32) {
        self.info = u64::from(metadata) << 32 | self.info & 0xffff_ffff | MOVED;
    }

    /// What NFs tell each other of it; 0 when received.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes 16 bits")]
    pub fn tag(&self) -> u16 {
        (self.info >> 32) as u16
    }

    /// Sets what NFs further on are told.
    #[inline]
    pub fn set_tag(&mut self, tag: u16) {
        self.set_metadata(self.metadata() & 0xffff_0000 | u32::from(tag));
    }

    /// By which number probes follow it through the chain; 0 if they do not.
    #[inline]
    pub fn mark(&self) -> u16 {
        (self.info >> 48) as u16
    }

    /// Has probes follow it by that number.
    #[inline]
    pub fn set_mark(&mut self, mark: u16) {
        self.set_metadata(u32::from(mark) << 16 | u32::from(self.tag()));
    }

    /// What its sender left to a network card.
    #[inline]
    pub fn offload(&self) -> Offload {
        if self.is_bundled() {
            return Offload::NONE;
        }
        Offload::from_bits(self.info >> OFFLOAD_SHIFT)
    }

    /// Sets what is left to a network card. Ports do, and who completes the packet.
    ///
    /// # Errors
    /// [`NoRoom`] if it lies in a bundle, or is too long: then it must be as on the wire.
    pub fn set_offload(&mut self, offload: Offload) -> Result<(), NoRoom> {
        let is_possible = !self.is_bundled() && self.len32() >> LEN_BITS == 0;
        if !is_possible && !offload.is_none() {
            return Err(NoRoom);
        }
        if !self.is_bundled() {
            let bits = u64::from(offload.bits()) << OFFLOAD_SHIFT;
            self.info = self.info & !OFFLOAD_MASK | bits;
        }
        Ok(())
    }

    /// The metadata that the bundle's table says.
    #[inline]
    pub(crate) fn with_metadata(mut self, metadata: u32) -> Self {
        self.info |= u64::from(metadata) << 32;
        self
    }

    /// Free bytes in front; of a packet in a bundle, 255 at most.
    #[inline]
    pub fn headroom(&self) -> usize {
        if self.is_bundled() {
            return (self.info >> HEADROOM_SHIFT & 0xff) as usize;
        }
        self.offset_in_buffer()
    }

    /// Free bytes behind; none in a bundle, even after shrinking.
    #[inline]
    pub fn tailroom(&self) -> usize {
        if self.is_bundled() {
            return 0;
        }
        (1 << self.log2_stride()) - self.headroom() - self.len()
    }

    fn offset_mask(&self) -> u32 {
        (1 << self.log2_stride()) - 1
    }

    /// Grows the packet by `count` bytes in front, contents undefined, for a header.
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom is smaller, or this process may only read it; the packet is
    /// unchanged.
    pub fn push_front(&mut self, count: usize) -> Result<(), NoRoom> {
        if count > self.headroom() || !self.is_writable() {
            return Err(NoRoom);
        }
        self.move_start_back(u32::try_from(count).map_err(|_| NoRoom)?);
        Ok(())
    }

    fn move_start_back(&mut self, count: u32) {
        if self.is_bundled() {
            self.set_headroom_left(self.headroom() as u64 - u64::from(count));
        }
        // SAFETY: at most the headroom, so the start stays in the buffer.
        self.data = unsafe { self.data.sub(count as usize) };
        self.set_place(self.offset() - count, self.len32() + count);
    }

    /// Removes `count` bytes in front.
    ///
    /// # Errors
    /// [`NoRoom`] if the packet is not longer than that; it is unchanged.
    pub fn pull_front(&mut self, count: usize) -> Result<(), NoRoom> {
        if count >= self.len() {
            return Err(NoRoom);
        }
        let count = u32::try_from(count).map_err(|_| NoRoom)?;
        if self.is_bundled() {
            self.set_headroom_left(self.headroom() as u64 + u64::from(count));
        }
        // SAFETY: less than `len`, so the start stays within the packet.
        self.data = unsafe { self.data.add(count as usize) };
        self.set_place(self.offset() + count, self.len32() - count);
        Ok(())
    }

    /// Makes it the `len` bytes at `offset` of its pool, where a device says that it has written a
    /// packet. Whoever has the handle has the whole buffer.
    ///
    /// # Errors
    /// [`NoRoom`] if these are none, or not all in this packet's buffer, or the buffer is shared
    /// with other packets; the packet is unchanged.
    #[inline]
    pub fn lie_at(&mut self, offset: u32, len: u32) -> Result<(), NoRoom> {
        let within = offset & self.offset_mask();
        let end = u64::from(within) + u64::from(len);
        let is_here = offset & !self.offset_mask() == self.buffer_offset();
        if self.is_bundled() || !is_here || len == 0 || end > 1 << self.log2_stride() {
            return Err(NoRoom);
        }
        // SAFETY: checked above: the bytes lie in the buffer that this is the only handle of.
        self.data = unsafe { self.buffer_start().add(within as usize) };
        self.set_place(offset, len);
        Ok(())
    }

    /// Grows or shrinks the packet at its end to `len` bytes; new bytes are undefined.
    ///
    /// # Errors
    /// [`NoRoom`] if `len` is 0, the tailroom is too small, or it is to grow and this process may
    /// only read it; the packet is unchanged.
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        let room = if self.is_writable() {
            self.tailroom()
        } else {
            0
        };
        if len == 0 || len > self.len() + room {
            return Err(NoRoom);
        }
        let len = u32::try_from(len).map_err(|_| NoRoom)?;
        self.set_place(self.offset(), len);
        Ok(())
    }
}

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Packet")
            .field("pool", &self.pool())
            .field("offset", &self.offset())
            .field("len", &self.len())
            .field("slot", &self.is_bundled().then(|| self.slot()))
            .finish()
    }
}
