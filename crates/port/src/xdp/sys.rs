//! Kernel binding of AF_XDP: the four rings of a socket, and what an interface says of itself.
//!
//! A ring lies in memory that the kernel and this process share: two indices that count for ever,
//! modulo 2^32, a word of flags, and a power of two of entries. One side writes entries and then
//! `producer`, the other reads entries and then writes `consumer`:
//!
//! | ring | written by | entry | what it says |
//! |---|---|---|---|
//! | fill | process | address | here is an empty buffer |
//! | receive | kernel | descriptor | here is a packet |
//! | transmit | process | descriptor | send this packet |
//! | completion | kernel | address | that buffer has been sent |
//!
//! An index is stored with Release after the entries were written or read, and loaded with Acquire
//! before they are; the kernel's `smp_store_release` and `smp_load_acquire` of
//! `net/xdp/xsk_queue.h` are the other halves. What the kernel says is checked all the same.
#![allow(
    unsafe_code,
    reason = "rings are memory shared with the kernel, and some options have no safe wrapper"
)]

use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::net::xdp::{XdpRingFlags, XdpRingOffset};

/// `struct xdp_desc`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    /// Offset from the start of the memory that was registered.
    pub(super) address: u64,
    pub(super) len: u32,
    pub(super) options: u32,
}

/// What may stand in a ring: any bits are a value of it.
pub(super) trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for Descriptor {}

/// A ring's memory, unmapped on drop, and where its parts are.
#[derive(Debug)]
struct Ring<T> {
    base: NonNull<u8>,
    len: usize,
    producer: usize,
    consumer: usize,
    flags: Option<usize>,
    entries: usize,
    /// Number of entries less one.
    mask: u32,
    entry: PhantomData<T>,
}

// SAFETY: the mapping belongs to the process, not to a thread, and this value is its only user in
// the process.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T: Entry> Ring<T> {
    /// Maps a ring of `count` entries, a power of two; `page_offset` says which of the socket's.
    fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        count: u32,
    ) -> Result<Self, Errno> {
        let offset = |value: u64| usize::try_from(value).map_err(|_| Errno::OVERFLOW);
        let entries = offset(at.desc)?;
        let len = entries + count as usize * size_of::<T>();
        let is_word = |at: usize| at.is_multiple_of(4) && at + 4 <= len;
        let (producer, consumer) = (offset(at.producer)?, offset(at.consumer)?);
        let flags = at.flags.map(offset).transpose()?;
        let words_fit = [producer, consumer].into_iter().chain(flags).all(is_word);
        if !count.is_power_of_two() || !words_fit || !entries.is_multiple_of(align_of::<T>()) {
            return Err(Errno::INVAL);
        }
        // SAFETY: the kernel picks an unused range, so no memory in use is replaced.
        let base = unsafe {
            rustix::mm::mmap(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                socket,
                page_offset,
            )
        }?;
        Ok(Self {
            base: NonNull::new(base.cast()).ok_or(Errno::NOMEM)?,
            len,
            producer,
            consumer,
            flags,
            entries,
            mask: count - 1,
            entry: PhantomData,
        })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: `map` has checked that the word lies in the mapping and is aligned; the mapping
        // lives as long as `self`; on this side it is used as an atomic only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(at).cast()) }
    }

    /// Where entry number `index`, modulo the ring, lies.
    fn place(&self, index: u32) -> *mut T {
        let at = self.entries + (index & self.mask) as usize * size_of::<T>();
        // SAFETY: masked, so one of the entries, all of which lie in the mapping.
        unsafe { self.base.as_ptr().add(at).cast() }
    }

    fn read(&self, index: u32) -> T {
        // SAFETY: aligned and in the mapping (`map`, `place`); any bits are a value (`Entry`).
        // Volatile: read once.
        unsafe { self.place(index).read_volatile() }
    }

    fn write(&mut self, index: u32, entry: T) {
        // SAFETY: aligned and in the mapping (`map`, `place`); the kernel reads it only once it is
        // published.
        unsafe { self.place(index).write_volatile(entry) }
    }

    fn needs_wakeup(&self) -> bool {
        let flag = XdpRingFlags::XDP_RING_NEED_WAKEUP.bits();
        let flags = self.flags.map(|at| self.word(at).load(Ordering::Relaxed));
        flags.is_none_or(|flags| flags & flag != 0)
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        // SAFETY: the range is the one that `map` mapped, and no borrow of `self` is left.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// A ring that this process writes: fill, transmit.
#[derive(Debug)]
pub(super) struct Outgoing<T> {
    ring: Ring<T>,
    /// Next entry to be written.
    next: u32,
    /// The kernel's index when it was last looked at.
    consumed: u32,
}

impl<T: Entry> Outgoing<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        count: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, page_offset, at, count)?;
        let (next, consumed) = (0, 0);
        Ok(Self {
            ring,
            next,
            consumed,
        })
    }

    /// Entries that can be written.
    pub(super) fn free(&mut self) -> u32 {
        self.ring.mask + 1 - self.pending()
    }

    /// Entries that the kernel has not taken yet.
    pub(super) fn pending(&mut self) -> u32 {
        // Pairs with the kernel's release after it has read entries.
        let consumed = self.ring.word(self.ring.consumer).load(Ordering::Acquire);
        if self.next.wrapping_sub(consumed) <= self.ring.mask + 1 {
            self.consumed = consumed;
        }
        self.next.wrapping_sub(self.consumed)
    }

    /// Whether the kernel has taken all that was published.
    pub(super) fn is_taken(&self) -> bool {
        // Nothing is read on the strength of it.
        self.ring.word(self.ring.consumer).load(Ordering::Relaxed) == self.next
    }

    /// Writes an entry; [`Outgoing::publish`] shows it. There must be a free one.
    pub(super) fn push(&mut self, entry: T) {
        self.ring.write(self.next, entry);
        self.next = self.next.wrapping_add(1);
    }

    pub(super) fn publish(&mut self) {
        // Pairs with the kernel's acquire before it reads entries.
        let producer = self.ring.word(self.ring.producer);
        producer.store(self.next, Ordering::Release);
    }

    /// Whether the kernel has to be called to look at it.
    pub(super) fn needs_wakeup(&self) -> bool {
        self.ring.needs_wakeup()
    }

    /// What the kernel has not taken yet.
    pub(super) fn left(&mut self) -> Vec<T> {
        let count = self.pending();
        let first = self.next.wrapping_sub(count);
        (0..count)
            .map(|at| self.ring.read(first.wrapping_add(at)))
            .collect()
    }
}

/// A ring that the kernel writes: receive, completion.
#[derive(Debug)]
pub(super) struct Incoming<T> {
    ring: Ring<T>,
    /// Next entry to be read.
    next: u32,
    /// The kernel's index when it was last looked at.
    produced: u32,
}

impl<T: Entry> Incoming<T> {
    pub(super) fn map(
        socket: BorrowedFd<'_>,
        page_offset: u64,
        at: &XdpRingOffset,
        count: u32,
    ) -> Result<Self, Errno> {
        let ring = Ring::map(socket, page_offset, at, count)?;
        let (next, produced) = (0, 0);
        Ok(Self {
            ring,
            next,
            produced,
        })
    }

    /// The next entry, if there is one.
    pub(super) fn pull(&mut self) -> Option<T> {
        if self.next == self.produced {
            // Pairs with the kernel's release after it has written entries.
            let produced = self.ring.word(self.ring.producer).load(Ordering::Acquire);
            if produced.wrapping_sub(self.next) > self.ring.mask + 1 {
                return None;
            }
            self.produced = produced;
        }
        if self.next == self.produced {
            return None;
        }
        let entry = self.ring.read(self.next);
        self.next = self.next.wrapping_add(1);
        Some(entry)
    }

    /// Gives the kernel back what was read.
    pub(super) fn release(&mut self) {
        // Pairs with the kernel's acquire before it writes entries.
        let consumer = self.ring.word(self.ring.consumer);
        consumer.store(self.next, Ordering::Release);
    }
}

/// Options of `SOL_SOCKET` that `libc` does not have.
const PREFER_BUSY_POLL: libc::c_int = 69;
const BUSY_POLL: libc::c_int = 46;
const BUSY_POLL_BUDGET: libc::c_int = 70;

/// Sets an option of `SOL_SOCKET` whose value is a number.
fn set_number(socket: BorrowedFd<'_>, option: libc::c_int, value: i32) -> Result<(), Errno> {
    let len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is readable for its own size and outlives the call.
    answer(unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const value).cast(),
            len,
        )
    })
}

/// Has calls of this socket do the driver's work, for `us` microseconds at most and for `budget`
/// packets, rather than an interrupt of its own (Linux 5.11).
pub(super) fn set_busy_poll(socket: BorrowedFd<'_>, us: u32, budget: u16) -> Result<(), Errno> {
    let us = i32::try_from(us).map_err(|_| Errno::INVAL)?;
    set_number(socket, PREFER_BUSY_POLL, 1)?;
    set_number(socket, BUSY_POLL, us)?;
    set_number(socket, BUSY_POLL_BUDGET, budget.into())
}

/// A number among the options of `SOL_SOCKET`.
fn number(socket: BorrowedFd<'_>, option: libc::c_int) -> Result<i32, Errno> {
    let mut value: i32 = 0;
    let mut len = size_of::<i32>() as libc::socklen_t;
    // SAFETY: the value is as long as said and, with its length, outlives the call.
    answer(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw mut value).cast(),
            &raw mut len,
        )
    })?;
    Ok(value)
}

/// For how many microseconds calls of this socket do the driver's work, and whether that is
/// preferred to interrupts, as the kernel has it.
pub(crate) fn busy_poll(socket: BorrowedFd<'_>) -> Result<(i32, bool), Errno> {
    Ok((
        number(socket, BUSY_POLL)?,
        number(socket, PREFER_BUSY_POLL)? != 0,
    ))
}

/// A request that names an interface (`struct ifreq`): the name, and as many bytes of answer as
/// any of them has.
#[repr(C, align(8))]
struct Request {
    name: [u8; libc::IFNAMSIZ],
    answer: [u8; 24],
}

fn ask(
    socket: BorrowedFd<'_>,
    name: &str,
    request: libc::c_ulong,
    answer_in: [u8; 24],
) -> Result<[u8; 24], Errno> {
    let mut asked = Request {
        name: [0; libc::IFNAMSIZ],
        answer: answer_in,
    };
    let place = asked.name[..libc::IFNAMSIZ - 1].get_mut(..name.len());
    place.ok_or(Errno::NODEV)?.copy_from_slice(name.as_bytes());
    // SAFETY: the request is as long as `struct ifreq` and outlives the call; if it holds a
    // pointer, that is `queues`' and as long as the kernel writes.
    answer(unsafe { libc::ioctl(socket.as_raw_fd(), request as _, &raw mut asked) })?;
    Ok(asked.answer)
}

/// The interface's MTU.
pub(crate) fn mtu(socket: BorrowedFd<'_>, name: &str) -> Result<u32, Errno> {
    let [a, b, c, d, ..] = ask(socket, name, libc::SIOCGIFMTU, [0; 24])?;
    Ok(u32::from_ne_bytes([a, b, c, d]))
}

/// Whether the interface is up.
pub(crate) fn is_up(socket: BorrowedFd<'_>, name: &str) -> Result<bool, Errno> {
    let [low, high, ..] = ask(socket, name, libc::SIOCGIFFLAGS, [0; 24])?;
    Ok(i32::from(u16::from_ne_bytes([low, high])) & libc::IFF_UP != 0)
}

/// How many queues the interface has, and can have (`struct ethtool_channels`).
pub(crate) fn queues(socket: BorrowedFd<'_>, name: &str) -> Result<(u32, u32), Errno> {
    const GET_CHANNELS: u32 = 0x3c;
    let mut channels = [0_u32; 9];
    channels[0] = GET_CHANNELS;
    let at = (&raw mut channels).expose_provenance().to_ne_bytes();
    let mut argument = [0; 24];
    argument[..at.len()].copy_from_slice(&at);
    ask(socket, name, libc::SIOCETHTOOL, argument)?;
    // SAFETY: the kernel has written it; it is a local that nobody else knows.
    let [_, max_rx, _, _, max_both, rx, _, _, both] =
        unsafe { (&raw const channels).read_volatile() };
    Ok((rx + both, max_rx.max(max_both)))
}

/// The driver's name (`struct ethtool_drvinfo`).
pub(crate) fn driver(socket: BorrowedFd<'_>, name: &str) -> Result<String, Errno> {
    const GET_DRIVER: u32 = 3;
    let mut info = [0_u8; 196];
    info[..4].copy_from_slice(&GET_DRIVER.to_ne_bytes());
    let at = (&raw mut info).expose_provenance().to_ne_bytes();
    let mut argument = [0; 24];
    argument[..at.len()].copy_from_slice(&at);
    ask(socket, name, libc::SIOCETHTOOL, argument)?;
    // SAFETY: the kernel has written it; it is a local that nobody else knows.
    let info = unsafe { (&raw const info).read_volatile() };
    let text = info[4..36]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    Ok(String::from_utf8_lossy(text).into_owned())
}

/// Receives frames for all addresses of the interface for as long as `socket`, a packet socket, is
/// open.
pub(super) fn set_promiscuous(socket: BorrowedFd<'_>, index: u32) -> Result<(), Errno> {
    let membership = libc::packet_mreq {
        mr_ifindex: i32::try_from(index).map_err(|_| Errno::NODEV)?,
        // PACKET_MR_PROMISC is 1.
        mr_type: libc::PACKET_MR_PROMISC as libc::c_ushort,
        mr_alen: 0,
        mr_address: [0; 8],
    };
    let len = size_of_val(&membership) as libc::socklen_t;
    // SAFETY: the value is readable for its own size and outlives the call.
    answer(unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_ADD_MEMBERSHIP,
            (&raw const membership).cast(),
            len,
        )
    })
}

fn answer(result: libc::c_int) -> Result<(), Errno> {
    if result < 0 {
        let error = std::io::Error::last_os_error();
        return Err(Errno::from_io_error(&error).unwrap_or(Errno::IO));
    }
    Ok(())
}
