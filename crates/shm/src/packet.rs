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
//! What exclusivity means here: between taking a descriptor and giving it on, this process is the
//! only one that touches the bytes, *if all processes that may write the pool follow the protocol*.
//! Those are the members of one trust group; a chain across groups uses `copy` links, whose packets
//! lie in memory that no other process can write.
#![allow(
    unsafe_code,
    reason = "packet bytes are raw memory of a pool; this file turns them into slices"
)]

use std::fmt;
use std::ptr::NonNull;

/// A packet in a pool's buffer.
///
/// Three words, written and read whole: a handle is moved several times per hop, and a word put
/// together from smaller stores would stall each time it is loaded.
#[must_use = "a packet that is not passed on or freed keeps its buffer"]
pub struct Packet {
    data: NonNull<u8>,
    /// Offset in the pool (high half) and length (low half).
    place: u64,
    /// Tag (high half), then writable, log2 of the stride, pool, a byte each.
    info: u64,
}

const WRITABLE_SHIFT: u32 = 16;
const LOG2_SHIFT: u32 = 8;

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
    /// buffer is in use; if `writable`, the mapping is.
    #[inline]
    pub(crate) unsafe fn at(
        base: NonNull<u8>,
        offset: u32,
        len: u32,
        pool: u8,
        log2_stride: u8,
        writable: bool,
    ) -> Self {
        // SAFETY: `offset` lies within the mapping, by the caller's contract.
        let data = unsafe { base.add(offset as usize) };
        Self {
            data,
            place: u64::from(offset) << 32 | u64::from(len),
            info: u64::from(writable) << WRITABLE_SHIFT
                | u64::from(log2_stride) << LOG2_SHIFT
                | u64::from(pool),
        }
    }

    #[inline]
    fn set_place(&mut self, offset: u32, len: u32) {
        self.place = u64::from(offset) << 32 | u64::from(len);
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes the low half")]
    fn len32(&self) -> u32 {
        self.place as u32
    }

    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "takes a byte")]
    fn log2_stride(&self) -> u8 {
        (self.info >> LOG2_SHIFT) as u8
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
    #[expect(clippy::cast_possible_truncation, reason = "takes a byte")]
    pub fn pool(&self) -> u8 {
        self.info as u8
    }

    /// Index of its buffer in the pool.
    #[inline]
    pub fn buffer_index(&self) -> u32 {
        self.offset() >> self.log2_stride()
    }

    /// Whether this process may change it.
    #[inline]
    pub fn is_writable(&self) -> bool {
        self.info >> WRITABLE_SHIFT & 1 == 1
    }

    /// Metadata that travels with it through links; 0 when received.
    #[inline]
    pub fn tag(&self) -> u32 {
        (self.info >> 32) as u32
    }

    /// Sets the metadata.
    #[inline]
    pub fn set_tag(&mut self, tag: u32) {
        self.info = u64::from(tag) << 32 | self.info & 0xffff_ffff;
    }

    /// Free bytes in front.
    #[inline]
    pub fn headroom(&self) -> usize {
        (self.offset() & self.offset_mask()) as usize
    }

    /// Free bytes behind.
    #[inline]
    pub fn tailroom(&self) -> usize {
        (1 << self.log2_stride()) - self.headroom() - self.len()
    }

    fn offset_mask(&self) -> u32 {
        (1 << self.log2_stride()) - 1
    }

    /// Grows the packet by `count` bytes in front, contents undefined, for a header.
    ///
    /// # Errors
    /// [`NoRoom`] if the headroom is smaller; the packet is unchanged.
    pub fn push_front(&mut self, count: usize) -> Result<(), NoRoom> {
        if count > self.headroom() {
            return Err(NoRoom);
        }
        self.move_start_back(u32::try_from(count).map_err(|_| NoRoom)?);
        Ok(())
    }

    fn move_start_back(&mut self, count: u32) {
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
        // SAFETY: less than `len`, so the start stays within the packet.
        self.data = unsafe { self.data.add(count as usize) };
        self.set_place(self.offset() + count, self.len32() - count);
        Ok(())
    }

    /// Grows or shrinks the packet at its end to `len` bytes; new bytes are undefined.
    ///
    /// # Errors
    /// [`NoRoom`] if `len` is 0 or the tailroom is too small; the packet is unchanged.
    pub fn set_len(&mut self, len: usize) -> Result<(), NoRoom> {
        if len == 0 || len > self.len() + self.tailroom() {
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
            .finish()
    }
}
