//! Cycles and instructions of a thread in user space, read without a system call.
//!
//! Beside a packet's life, for the worker's probes. The kernel counts for a thread
//! (`perf_event_open(2)`) and says, in a page that it shares, in which of the processor's counters:
//! `rdpmc` reads that, and what the page says of the time before is added (the protocol of
//! `struct perf_event_mmap_page` in linux/perf_event.h).
//!
//! Many machines have none of this: virtual ones without counters, containers whose filter refuses
//! the call. Then [`ThreadCounters::open`] says why, and nothing is read.
#![allow(unsafe_code, reason = "perf_event_open, its page, and rdpmc")]

use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI64, AtomicU16, AtomicU32, AtomicU64, Ordering, compiler_fence};

/// What a thread had done in user space when it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Cycles of its core's clock.
    pub cycles: u64,
    /// Instructions.
    pub instructions: u64,
}

impl Counted {
    /// What was done since `earlier`.
    #[must_use]
    pub const fn since(&self, earlier: &Self) -> Self {
        Self {
            cycles: self.cycles.saturating_sub(earlier.cycles),
            instructions: self.instructions.saturating_sub(earlier.instructions),
        }
    }
}

/// Why counters cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum PmcError {
    /// `perf_event_open` refused.
    #[error(
        "the kernel offers no counter of {event} ({error}): a virtual machine without counters, a \
         system call filter, or kernel.perf_event_paranoid above 2"
    )]
    Open {
        /// Which.
        event: &'static str,
        /// What the kernel said.
        error: std::io::Error,
    },
    /// The page could not be mapped.
    #[error("the page of a counter cannot be mapped: {0}")]
    Map(rustix::io::Errno),
    /// The kernel counts, but does not let user space read.
    #[error(
        "user space may not read counters here; where /sys/bus/event_source/devices/cpu/rdpmc is \
         there, write 1 to it"
    )]
    NotForUsers,
}

/// `struct perf_event_attr`, in its first published size.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const HARDWARE: u32 = 0;
const CYCLES: (u64, &str) = (0, "cycles");
const INSTRUCTIONS: (u64, &str) = (1, "instructions");
/// Leave out what the kernel and a hypervisor do.
const USER_ONLY: u64 = 1 << 5 | 1 << 6;
/// Close the descriptor on exec.
const CLOSE_ON_EXEC: u64 = 1 << 3;

/// The beginning of `struct perf_event_mmap_page`, which the kernel writes.
#[repr(C)]
#[derive(Debug, Default)]
struct Page {
    version: AtomicU32,
    compat_version: AtomicU32,
    lock: AtomicU32,
    index: AtomicU32,
    offset: AtomicI64,
    time_enabled: AtomicU64,
    time_running: AtomicU64,
    capabilities: AtomicU64,
    width: AtomicU16,
}

/// `cap_user_rdpmc` among the capabilities.
const USER_RDPMC: u64 = 1 << 2;
/// The kernel changes the page when it takes the core away, or moves the counter; more often than
/// this in a row it does not.
const ATTEMPTS: u32 = 8;

impl Page {
    /// The event's count: what the page says, and what counter `index - 1` says since. `None` where
    /// no counter is assigned just now, or user space may not read it.
    #[inline]
    fn read(&self, counter: impl Fn(u32) -> u64) -> Option<u64> {
        for _ in 0..ATTEMPTS {
            // The kernel writes on the core that this thread is on, in between its instructions:
            // what must not be moved is moved by the compiler only.
            let sequence = self.lock.load(Ordering::Relaxed);
            compiler_fence(Ordering::SeqCst);
            let index = self.index.load(Ordering::Relaxed);
            if index == 0 || self.capabilities.load(Ordering::Relaxed) & USER_RDPMC == 0 {
                return None;
            }
            let offset = self.offset.load(Ordering::Relaxed);
            let width = self.width.load(Ordering::Relaxed);
            let since = sign_extended(counter(index - 1), width);
            compiler_fence(Ordering::SeqCst);
            if self.lock.load(Ordering::Relaxed) == sequence {
                return Some(offset.wrapping_add(since).cast_unsigned());
            }
        }
        None
    }
}

/// A counter of `width` bits, which counts up from a negative number.
#[inline]
const fn sign_extended(value: u64, width: u16) -> i64 {
    let unused = 64_u32.saturating_sub(width as u32);
    match unused {
        64 => 0,
        unused => (value << unused).cast_signed() >> unused,
    }
}

/// A counter of the processor.
#[cfg(target_arch = "x86_64")]
#[inline]
fn rdpmc(counter: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: only called with a number from a page whose `cap_user_rdpmc` is set, while the page
    // is mapped: the kernel then lets this process execute the instruction. It touches no memory.
    unsafe {
        core::arch::asm!(
            "rdpmc", in("ecx") counter, lateout("eax") low, lateout("edx") high,
            options(nomem, nostack, preserves_flags),
        );
    }
    u64::from(high) << 32 | u64::from(low)
}

/// Elsewhere [`ThreadCounters::open`] gives nothing to read.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn rdpmc(_counter: u32) -> u64 {
    0
}

/// One counter of a thread.
#[derive(Debug)]
struct Event {
    page: NonNull<Page>,
    /// Held open: the kernel counts as long.
    _fd: OwnedFd,
}

// SAFETY: the page is read by atomics only and unmapped when the one owner is dropped.
unsafe impl Send for Event {}

impl Event {
    /// Begins to count for the calling thread.
    fn open((config, event): (u64, &'static str)) -> Result<Self, PmcError> {
        let attributes = Attributes {
            kind: HARDWARE,
            size: u32::try_from(size_of::<Attributes>()).unwrap_or(0),
            config,
            flags: USER_ONLY,
            ..Attributes::default()
        };
        let (this_thread, any_core, no_group) = (0, -1, -1);
        // SAFETY: the structure lives through the call and has the size that it names; the kernel
        // only reads it.
        let fd = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                this_thread,
                any_core,
                no_group,
                CLOSE_ON_EXEC,
            )
        };
        let Ok(fd @ 0..) = i32::try_from(fd) else {
            let error = std::io::Error::last_os_error();
            return Err(PmcError::Open { event, error });
        };
        // SAFETY: the kernel has just given this descriptor to nobody else.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        // SAFETY: a new mapping where the kernel likes it, of one page, for reading.
        let page = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                rustix::param::page_size(),
                rustix::mm::ProtFlags::READ,
                rustix::mm::MapFlags::SHARED,
                fd.as_fd(),
                0,
            )
        };
        let page = NonNull::new(page.map_err(PmcError::Map)?.cast::<Page>());
        let page = page.ok_or(PmcError::Map(rustix::io::Errno::FAULT))?;
        Ok(Self { page, _fd: fd })
    }

    #[inline]
    fn read(&self) -> Option<u64> {
        // SAFETY: the mapping lives as long as `self`, is aligned to pages and larger than a
        // `Page`; the kernel writes it, which atomics allow.
        let page = unsafe { self.page.as_ref() };
        page.read(rdpmc)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        // SAFETY: `open` mapped exactly this, and nothing refers to it any more. A failure leaves a
        // page mapped, no more.
        let _ =
            unsafe { rustix::mm::munmap(self.page.as_ptr().cast(), rustix::param::page_size()) };
    }
}

/// The counters of the thread that opened them.
#[derive(Debug)]
pub struct ThreadCounters {
    cycles: Event,
    instructions: Event,
}

impl ThreadCounters {
    /// Begins to count for the calling thread: only there do the numbers mean something.
    ///
    /// # Errors
    /// What this machine, its kernel or its settings lack.
    pub fn open() -> Result<Self, PmcError> {
        let counters = Self {
            cycles: Event::open(CYCLES)?,
            instructions: Event::open(INSTRUCTIONS)?,
        };
        if cfg!(target_arch = "x86_64") && counters.read().is_some() {
            Ok(counters)
        } else {
            Err(PmcError::NotForUsers)
        }
    }

    /// The counts now; `None` if the kernel has assigned the counters to somebody else just now.
    #[inline]
    pub fn read(&self) -> Option<Counted> {
        Some(Counted {
            cycles: self.cycles.read()?,
            instructions: self.instructions.read()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// A page as the kernel writes it for a counter that is assigned.
    fn page(offset: i64, width: u16) -> Page {
        Page {
            lock: 6.into(),
            index: 3.into(),
            offset: offset.into(),
            capabilities: USER_RDPMC.into(),
            width: width.into(),
            ..Page::default()
        }
    }

    #[test]
    fn the_page_has_the_kernels_layout() {
        assert_eq!(size_of::<Attributes>(), 64);
        let at = [
            std::mem::offset_of!(Page, lock),
            std::mem::offset_of!(Page, index),
            std::mem::offset_of!(Page, offset),
            std::mem::offset_of!(Page, capabilities),
            std::mem::offset_of!(Page, width),
        ];
        assert_eq!(at, [8, 12, 16, 40, 48]);
    }

    proptest! {
        /// The kernel sets a counter to less than zero, and `offset` so that the sum is right.
        #[test]
        fn what_the_kernel_and_the_counter_say_adds_up(
            count in 0_u64..1 << 62, start in 1_u64..1 << 30, since in 0_u64..1 << 29,
            width in 32_u16..=64,
        ) {
            let counter = since.wrapping_sub(start);
            let mask = u64::MAX >> (64 - u32::from(width));
            let page = page((count + start).cast_signed(), width);
            let read = page.read(|index| {
                assert_eq!(index, 2);
                counter & mask
            });
            prop_assert_eq!(read, Some(count + since));
        }

        #[test]
        fn signs_are_extended_from_any_width(value in any::<i64>(), width in 1_u16..=64) {
            let unused = 64 - u32::from(width);
            let expected = value << unused >> unused;
            let garbage = if unused > 0 { 0xa5a5_a5a5_a5a5_a5a5 << width } else { 0 };
            let low = expected.cast_unsigned() & (u64::MAX >> unused);
            prop_assert_eq!(sign_extended(low | garbage, width), expected);
        }
    }

    #[test]
    fn a_page_that_changes_meanwhile_is_read_again() {
        let page = page(100, 48);
        let reads = Cell::new(0);
        let read = page.read(|_| {
            reads.set(reads.get() + 1);
            if reads.get() < 3 {
                // The kernel moved the event to another counter: neither number belongs to the
                // other.
                page.lock.fetch_add(2, Ordering::Relaxed);
                page.offset.fetch_add(1000, Ordering::Relaxed);
            }
            7
        });
        assert_eq!((read, reads.get()), (Some(2107), 3));
        let never = page.read(|_| {
            page.lock.fetch_add(2, Ordering::Relaxed);
            reads.set(reads.get() + 1);
            7
        });
        assert_eq!((never, reads.get()), (None, 3 + ATTEMPTS));
    }

    #[test]
    fn a_counter_that_is_not_assigned_or_not_for_users_is_not_read() {
        let unassigned = page(1, 48);
        unassigned.index.store(0, Ordering::Relaxed);
        let forbidden = page(1, 48);
        forbidden.capabilities.store(!USER_RDPMC, Ordering::Relaxed);
        for page in [unassigned, forbidden] {
            assert_eq!(page.read(|_| panic!("the counter was read")), None);
        }
    }

    /// Where there are counters they count; elsewhere the reason is told.
    #[test]
    fn this_machine_counts_or_says_why_not() {
        let counters = match ThreadCounters::open() {
            Ok(counters) => counters,
            Err(error) => {
                let why = error.to_string();
                assert!(
                    why.contains("the kernel offers") || why.contains("may not read"),
                    "{why}"
                );
                return;
            }
        };
        let before = counters.read().unwrap();
        let sum: u64 = (0..100_000_u64).map(std::hint::black_box).sum();
        let done = counters.read().unwrap().since(&before);
        assert!(
            sum > 0 && done.instructions > 100_000 && done.cycles > 10_000,
            "{done:?}"
        );
    }
}
