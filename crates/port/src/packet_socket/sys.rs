//! Kernel binding of the packet socket: the shared receive ring and the socket options.
//!
//! Who may touch a piece of the ring (a block, or in TPACKET_V2 a slot), by its status word:
//!
//! | status        | kernel                        | this process                             |
//! |---------------|-------------------------------|------------------------------------------|
//! | kernel (0)    | reads and writes the piece    | reads the status word, nothing else      |
//! | user (bit 0)  | reads the status word         | reads the piece, then writes status 0    |
//!
//! Pieces change hands in ring order. This process never writes anything but a status word, and
//! reads one with Acquire before, and writes one with Release after, everything it reads of the
//! piece; the kernel's barriers in `prb_close_block`, `__packet_set_status` and
//! `__packet_get_status` are the other halves.
#![allow(
    unsafe_code,
    reason = "the ring is memory shared with the kernel, and packet options have no safe wrapper"
)]

use std::array;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

use super::frame::RxInfo;
use super::header::{
    BLOCK_HEADER_LEN, BLOCK_STATUS_AT, BlockHeader, FrameHeader, V2_HEADER_LEN, V3_HEADER_LEN,
    VNET_LEN, WORD_LEN,
};
use super::options::Delivery;

/// What the kernel calls a frame in TPACKET_V3, where it only has to divide the block.
const NOMINAL_FRAME_BYTES: usize = 2048;
/// Slots are allocated in blocks of this size, so that the kernel needs few allocations.
const SLOT_BLOCK_BYTES: usize = 64 << 10;

/// The receive ring of one socket, mapped.
#[derive(Debug)]
pub(super) struct Ring {
    map: Mapping,
    shape: Shape,
    /// The piece to read next.
    piece: usize,
    /// Where reading stopped in that piece, if it is a block that was begun.
    begun: Option<Cursor>,
    /// Frames and blocks left out because a header did not fit its piece.
    malformed: u64,
}

#[derive(Clone, Copy, Debug)]
enum Shape {
    Blocks { size: usize, count: usize },
    Slots { size: usize, count: usize },
}

/// Position in a block that this process holds.
#[derive(Clone, Copy, Debug)]
struct Cursor {
    frames_left: u32,
    /// Offset of the next frame in the ring.
    next: usize,
    /// Offset in the ring at which the block's frames have ended.
    end: usize,
}

impl Ring {
    /// Gives `socket` a receive ring and maps it. `delivery` has passed its check.
    pub(super) fn map(socket: BorrowedFd<'_>, delivery: Delivery) -> Result<Self, Errno> {
        let narrow = |number: usize| u32::try_from(number).map_err(|_| Errno::INVAL);
        let shape = match delivery {
            Delivery::Blocks {
                block_size_bytes: size,
                block_count: count,
                retire,
            } => {
                set_option(
                    socket,
                    libc::PACKET_VERSION,
                    &libc::tpacket_versions::TPACKET_V3,
                )?;
                let request = libc::tpacket_req3 {
                    tp_block_size: narrow(size)?,
                    tp_block_nr: narrow(count)?,
                    tp_frame_size: narrow(NOMINAL_FRAME_BYTES)?,
                    tp_frame_nr: narrow(size / NOMINAL_FRAME_BYTES * count)?,
                    tp_retire_blk_tov: u32::try_from(retire.as_millis())
                        .map_err(|_| Errno::INVAL)?,
                    tp_sizeof_priv: 0,
                    tp_feature_req_word: 0,
                };
                set_option(socket, libc::PACKET_RX_RING, &request)?;
                Shape::Blocks { size, count }
            }
            Delivery::Frames {
                slot_size_bytes: size,
                slot_count: count,
            } => {
                set_option(
                    socket,
                    libc::PACKET_VERSION,
                    &libc::tpacket_versions::TPACKET_V2,
                )?;
                // All three are powers of two, so slots fill blocks and blocks the ring.
                let block_size = SLOT_BLOCK_BYTES.max(size).min(size * count);
                let request = libc::tpacket_req {
                    tp_block_size: narrow(block_size)?,
                    tp_block_nr: narrow(size * count / block_size)?,
                    tp_frame_size: narrow(size)?,
                    tp_frame_nr: narrow(count)?,
                };
                set_option(socket, libc::PACKET_RX_RING, &request)?;
                Shape::Slots { size, count }
            }
        };
        let (Shape::Blocks { size, count } | Shape::Slots { size, count }) = shape;
        Ok(Self {
            map: Mapping::of(socket, size * count)?,
            shape,
            piece: 0,
            begun: None,
            malformed: 0,
        })
    }

    pub(super) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Shows up to `limit` frames to `each`, in the order of arrival, and returns how many. Gives
    /// every piece back to the kernel once its last frame was shown. `each` may lower the limit, to
    /// 0 to be shown no more. No system call.
    pub(super) fn recv(
        &mut self,
        limit: &Cell<usize>,
        mut each: impl FnMut(&[u8], &RxInfo),
    ) -> usize {
        match self.shape {
            Shape::Blocks { size, count } => self.recv_blocks(size, count, limit, &mut each),
            Shape::Slots { size, count } => self.recv_slots(size, count, limit, &mut each),
        }
    }

    fn recv_blocks(
        &mut self,
        size: usize,
        count: usize,
        limit: &Cell<usize>,
        each: &mut impl FnMut(&[u8], &RxInfo),
    ) -> usize {
        let mut shown = 0;
        while shown < limit.get() {
            let base = self.piece * size;
            let mut cursor = match self.begun {
                Some(cursor) => cursor,
                None if !self.map.is_ours(base + BLOCK_STATUS_AT) => break,
                None => self.begin_block(base, size),
            };
            while cursor.frames_left > 0 && shown < limit.get() {
                let at = cursor.next;
                let bytes = self
                    .map
                    .copy_words::<{ V3_HEADER_LEN / WORD_LEN }>(at, cursor.end);
                let Some(header) =
                    bytes.and_then(|bytes| FrameHeader::parse_v3(bytes.as_flattened()))
                else {
                    self.malformed += 1;
                    cursor.frames_left = 0;
                    break;
                };
                cursor.frames_left -= 1;
                // Each step is at least a header, so a walk ends; `copy` checks where it leads.
                cursor.next = at.saturating_add(header.next.max(V3_HEADER_LEN));
                // Kept before `each` runs, which may panic.
                self.begun = Some(cursor);
                shown += usize::from(self.show(at, cursor.end, &header, each));
            }
            self.begun = Some(cursor);
            if cursor.frames_left == 0 {
                self.begun = None;
                self.map.give_back(base + BLOCK_STATUS_AT);
                self.piece = (self.piece + 1) % count;
            }
        }
        shown
    }

    fn begin_block(&mut self, base: usize, size: usize) -> Cursor {
        let bytes = self
            .map
            .copy_words::<{ BLOCK_HEADER_LEN / WORD_LEN }>(base, base + size);
        match bytes.and_then(|bytes| BlockHeader::parse(bytes.as_flattened(), size)) {
            Some(header) => Cursor {
                frames_left: header.frame_count,
                next: base + header.first,
                end: base + header.end,
            },
            None => {
                self.malformed += 1;
                Cursor {
                    frames_left: 0,
                    next: base,
                    end: base,
                }
            }
        }
    }

    fn recv_slots(
        &mut self,
        size: usize,
        count: usize,
        limit: &Cell<usize>,
        each: &mut impl FnMut(&[u8], &RxInfo),
    ) -> usize {
        let mut shown = 0;
        while shown < limit.get() {
            // The status word is the first of the slot (tpacket2_hdr).
            let base = self.piece * size;
            if !self.map.is_ours(base) {
                break;
            }
            let bytes = self
                .map
                .copy_words::<{ V2_HEADER_LEN / WORD_LEN }>(base, base + size);
            match bytes.and_then(|bytes| FrameHeader::parse_v2(bytes.as_flattened())) {
                Some(header) => shown += usize::from(self.show(base, base + size, &header, each)),
                None => self.malformed += 1,
            }
            self.map.give_back(base);
            self.piece = (self.piece + 1) % count;
        }
        shown
    }

    /// Shows the frame whose header lies at `at` and whose piece ends at `end`, unless this host
    /// sent it or it does not fit. The piece is ours, as `is_ours` said.
    fn show(
        &mut self,
        at: usize,
        end: usize,
        header: &FrameHeader,
        each: &mut impl FnMut(&[u8], &RxInfo),
    ) -> bool {
        if header.is_outgoing() {
            return false;
        }
        let frame = header.place(end.saturating_sub(at)).and_then(|place| {
            let vnet = self
                .map
                .copy::<VNET_LEN>(at + place.start - VNET_LEN, end)?;
            let info = header.rx_info(&vnet)?;
            let range = at + place.start..at + place.end;
            // SAFETY: the range ends in the piece (`place`), which is this process's until
            // `give_back`; that takes place after the last use of the slice, in the callers.
            let bytes = unsafe { self.map.bytes(range) }?;
            Some((bytes, info))
        });
        match frame {
            Some((bytes, info)) => {
                each(bytes, &info);
                true
            }
            None => {
                self.malformed += 1;
                false
            }
        }
    }
}

/// The ring's memory, unmapped on drop.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value is its only user in
// the process; nothing it holds is tied to the thread that made it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(socket: BorrowedFd<'_>, len: usize) -> Result<Self, Errno> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel picks an unused range, so no memory in use is replaced.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                socket,
                0,
            )
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, len })
    }

    fn status(&self, at: usize) -> &AtomicU32 {
        assert!(at.is_multiple_of(4) && at + 4 <= self.len);
        // SAFETY: the word lies in the mapping (asserted), which lives as long as `self`; it is
        // aligned, since a mapping starts at a page and `at` is a multiple of 4; on this side it
        // is used as an atomic only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Whether the piece whose status word lies at `at` was handed to this process. Acquire: pairs
    /// with the kernel's barrier between filling a piece and setting its status.
    fn is_ours(&self, at: usize) -> bool {
        self.status(at).load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Hands the piece back. Release: everything read of it was read before; pairs with the
    /// kernel's read of the status before it writes.
    fn give_back(&self, at: usize) {
        self.status(at)
            .store(libc::TP_STATUS_KERNEL, Ordering::Release);
    }

    /// Copies `N` bytes at `at` once, if they end at `end` or before it.
    fn copy<const N: usize>(&self, at: usize, end: usize) -> Option<[u8; N]> {
        if at.checked_add(N)? > end.min(self.len) {
            return None;
        }
        // SAFETY: the bytes lie in the mapping (checked) and any bytes are a valid array, whose
        // alignment is 1. Volatile, so that this is the only read of them.
        Some(unsafe { self.base.as_ptr().add(at).cast::<[u8; N]>().read_volatile() })
    }

    /// Copies `WORDS` words at `at` once, as [`Self::copy`] does, where `at` is aligned for them:
    /// a volatile copy of bytes is made byte by byte, too slow for every frame's header.
    fn copy_words<const WORDS: usize>(
        &self,
        at: usize,
        end: usize,
    ) -> Option<[[u8; WORD_LEN]; WORDS]> {
        let is_aligned = at.is_multiple_of(WORD_LEN);
        if !is_aligned || at.checked_add(WORDS * WORD_LEN)? > end.min(self.len) {
            return None;
        }
        Some(array::from_fn(|index| {
            // SAFETY: all words lie in the mapping and are aligned, since the mapping starts at a
            // page (both checked); any bits are a valid number. Volatile, as above.
            let word = unsafe {
                let first = self.base.as_ptr().add(at).cast::<u32>();
                first.add(index).read_volatile()
            };
            word.to_ne_bytes()
        }))
    }

    /// The bytes at `range`, if the mapping holds them.
    ///
    /// # Safety
    ///
    /// The range lies in a piece that this process holds, and that it keeps for as long as the
    /// slice lives.
    unsafe fn bytes(&self, range: Range<usize>) -> Option<&[u8]> {
        if range.start > range.end || range.end > self.len {
            return None;
        }
        // SAFETY: the range lies in the mapping (checked) and nobody writes to it (the caller).
        Some(unsafe {
            std::slice::from_raw_parts(self.base.as_ptr().add(range.start), range.len())
        })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `of` mapped, and no borrow of `self` is left. Failure
        // would mean a range that is not mapped, in which case there is nothing to undo.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Binds to an interface: from here on, `socket` receives what it has asked for.
pub(super) fn bind(socket: BorrowedFd<'_>, index: u32, protocol: u16) -> Result<(), Errno> {
    let mut address = empty_address();
    // AF_PACKET is 17.
    address.sll_family = libc::AF_PACKET as libc::c_ushort;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = i32::try_from(index).map_err(|_| Errno::NODEV)?;
    let address_len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the address is a whole sockaddr_ll of the length given, and outlives the call.
    answer(unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), address_len) })
}

/// The kind of hardware (`ARPHRD_*`) that a bound socket is bound to.
pub(super) fn hardware_kind(socket: BorrowedFd<'_>) -> Result<u16, Errno> {
    let mut address = empty_address();
    let mut address_len = size_of_val(&address) as libc::socklen_t;
    // SAFETY: the kernel writes at most the length given, which is the address's; both outlive
    // the call.
    answer(unsafe {
        libc::getsockname(
            socket.as_raw_fd(),
            (&raw mut address).cast(),
            &raw mut address_len,
        )
    })?;
    Ok(address.sll_hatype)
}

/// Counts since the last call (`tpacket_stats_v3`): frames offered, dropped, times frozen.
pub(super) fn take_statistics(socket: BorrowedFd<'_>) -> Result<[u32; 3], Errno> {
    let mut counts = [0_u32; 3];
    let mut len = size_of_val(&counts) as libc::socklen_t;
    // SAFETY: the kernel writes at most `len` bytes, the array's length; both outlive the call.
    answer(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_STATISTICS,
            (&raw mut counts).cast(),
            &raw mut len,
        )
    })?;
    Ok(counts)
}

/// Sets a packet option (`SOL_PACKET`).
pub(super) fn set_option<T: Copy>(
    socket: BorrowedFd<'_>,
    option: libc::c_int,
    value: &T,
) -> Result<(), Errno> {
    let len = size_of::<T>() as libc::socklen_t;
    let value: *const T = value;
    // SAFETY: the value is readable for its own size and outlives the call; the kernel copies it,
    // and refuses a size that does not fit the option.
    answer(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_PACKET,
            option,
            value.cast(),
            len,
        )
    })
}

/// Receives frames for all addresses of the interface for as long as `socket` is open.
pub(super) fn set_promiscuous(socket: BorrowedFd<'_>, index: u32) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(|_| Errno::NODEV)?,
        // PACKET_MR_PROMISC is 1.
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    set_option(socket.as_fd(), libc::PACKET_ADD_MEMBERSHIP, &membership)
}

fn empty_address() -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: 0,
        sll_protocol: 0,
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

fn answer(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 {
        return Err(Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO));
    }
    Ok(())
}
