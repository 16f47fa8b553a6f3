//! Bare loops for benchmarks: what two cores must do at least to pass packets of 64 bytes.
//!
//! No packet of a chain comes here: `cargo xtask bench` sets its figures beside these (feature
//! `floor`, off otherwise).
//!
//! Two threads over one memfd. The sender writes each packet in full and publishes a descriptor of
//! 16 bytes; the receiver looks at descriptors, reads each packet in full and stores one cursor per
//! burst. Sequence words, buffers in FIFO order and fetching ahead are what any such path needs;
//! accounts, checks, NFs, and taking turns with anything else are left out.
#![allow(
    unsafe_code,
    reason = "plain loads and stores of memory that two threads share by a protocol"
)]

use std::fmt;
use std::io;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};

use crate::tsc::{ticks, ticks_after_loads};

/// Buffers of 128 bytes in which a packet has the second line, as in the smallest pool.
const BUFFERS: u64 = 8192;
const STRIDE: u64 = 128;
const LINE: u64 = 64;
/// Packets of a bundle, and buffers of so many lines for them.
const BUNDLE: u64 = 64;
const BUNDLES: u64 = 128;
/// Fetched ahead of what is written or read.
const AHEAD: u64 = 12;

/// Where things lie: the ring, the receiver's cursor, then packets.
const CURSOR: usize = 1 << 16;
const PACKETS: usize = 1 << 17;
const PACKET_BYTES: usize = 1 << 20;
const BYTES: usize = 1 << 21;

/// What the loops do with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// Written into a buffer of its own, read there.
    Plain,
    /// Written, copied into the staging area, copied out, read.
    Copy,
    /// Written among 64 that share a descriptor, read there.
    Bundle,
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plain => "bare loop",
            Self::Copy => "bare loop, copied twice",
            Self::Bundle => "bare loop, 64 to a descriptor",
        })
    }
}

/// A ring and packets in a memfd, on huge pages where there are some.
#[derive(Debug)]
pub struct Loops {
    start: NonNull<u8>,
    work: Work,
    slots: u64,
    burst: u64,
}

// SAFETY: the memory is shared by the protocol of the two loops: a line is written by the sender
// only while its descriptor is not published, and read by the receiver only while it is.
unsafe impl Sync for Loops {}

impl Drop for Loops {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and no reference into it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), BYTES) };
    }
}

impl Loops {
    /// For `slots` packets in flight, a power of two up to 4,096, in bursts of at most 64.
    ///
    /// # Errors
    /// What the kernel says against the memory.
    ///
    /// # Panics
    /// If the numbers are others.
    pub fn new(work: Work, slots: u64, burst: u64) -> io::Result<Self> {
        assert!(slots.is_power_of_two() && slots * 16 <= CURSOR as u64 && burst <= BUNDLE);
        let map = |flags| -> io::Result<NonNull<u8>> {
            let fd = rustix::fs::memfd_create("floor", MemfdFlags::CLOEXEC | flags)?;
            rustix::fs::ftruncate(&fd, BYTES as u64)?;
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            let at = std::ptr::null_mut();
            // SAFETY: a new mapping at a place of the kernel's choice.
            let start =
                unsafe { rustix::mm::mmap(at, BYTES, protection, MapFlags::SHARED, &fd, 0)? };
            NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
        };
        let huge = map(MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB);
        let start = huge.or_else(|_| map(MemfdFlags::empty()))?;
        for page in (0..BYTES).step_by(4096) {
            // SAFETY: within the mapping, which nobody else uses yet.
            unsafe { start.add(page).write_volatile(0) };
        }
        Ok(Self {
            start,
            work,
            slots,
            burst,
        })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        assert!(offset + 8 <= PACKETS);
        // SAFETY: within the mapping; all callers give multiples of 8.
        unsafe { self.start.add(offset).cast::<AtomicU64>().as_ref() }
    }

    #[inline(always)]
    fn slot(&self, index: u64) -> [&AtomicU64; 2] {
        #[expect(clippy::cast_possible_truncation, reason = "below 2^16")]
        let offset = ((index & (self.slots - 1)) * 16) as usize;
        // SAFETY: slots lie in front of `CURSOR`.
        unsafe {
            let slot = self.start.add(offset).cast::<AtomicU64>();
            [slot.as_ref(), slot.add(1).as_ref()]
        }
    }

    /// The line of packet `index` in its buffer.
    #[inline(always)]
    fn packet(&self, index: u64) -> NonNull<[u64; 8]> {
        #[expect(clippy::cast_possible_truncation, reason = "within the packets")]
        let offset = match self.work {
            Work::Plain => ((index % BUFFERS) * STRIDE + STRIDE - LINE) as usize,
            Work::Copy | Work::Bundle => ((index % (BUNDLES * BUNDLE)) * LINE) as usize,
        };
        debug_assert!(offset + 64 <= PACKET_BYTES);
        // SAFETY: the packets lie in the mapping, and this in them: 8192 strides, or lines, are at
        // most `PACKET_BYTES`.
        unsafe { self.start.add(PACKETS + offset).cast() }
    }

    /// The sequence of a slot for `index`: its lap, never 0.
    #[inline(always)]
    fn sequence(&self, index: u64) -> u64 {
        index / self.slots + 1
    }

    /// Sends until told to stop. Says once per burst how many packets it has sent.
    pub fn send(&self, stop: &AtomicBool, mut look: impl FnMut(u64)) {
        let cursor = self.word(CURSOR);
        let mut own = [[0_u64; 8]; BUNDLE as usize];
        let step = if self.work == Work::Bundle { BUNDLE } else { 1 };
        let burst = self.burst.next_multiple_of(step);
        let (mut head, mut tail) = (0_u64, 0_u64);
        while !stop.load(Ordering::Relaxed) {
            look(head);
            if head + burst - tail > self.slots {
                tail = cursor.load(Ordering::Acquire);
                continue;
            }
            for n in head..head + burst {
                fetch_for_writing(self.packet(n + AHEAD));
                let line: [u64; 8] = std::array::from_fn(|word| n.wrapping_add(word as u64));
                let to = self.packet(n);
                // SAFETY: the receiver has given the line back, by its cursor: no more than
                // `slots` packets are out, fewer than there are lines.
                unsafe {
                    if self.work == Work::Copy {
                        let private = &raw mut own[(n % BUNDLE) as usize];
                        private.write(line);
                        // Really to memory and from there, as a packet comes to a link.
                        to.write(std::hint::black_box(private).read());
                    } else {
                        to.write(line);
                    }
                }
            }
            for at in (head / step..(head + burst) / step).rev() {
                let [first, second] = self.slot(at);
                second.store(at * step, Ordering::Relaxed);
                // Release: publishes the packets; the burst's first slot comes last.
                first.store(self.sequence(at), Ordering::Release);
            }
            head += burst;
        }
    }

    /// Receives until told to stop; gives a sum of all bytes. Says once per burst how many packets
    /// it has received.
    pub fn receive(&self, stop: &AtomicBool, mut look: impl FnMut(u64)) -> u64 {
        let cursor = self.word(CURSOR);
        let mut own = [[0_u64; 8]; BUNDLE as usize];
        let step = if self.work == Work::Bundle { BUNDLE } else { 1 };
        let most = (self.burst / step).max(1);
        let (mut read, mut sum) = (0_u64, 0_u64);
        while !stop.load(Ordering::Relaxed) {
            look(read * step);
            let mut count = 0;
            while count < most {
                let [first, second] = self.slot(read + count);
                if first.load(Ordering::Acquire) != self.sequence(read + count) {
                    break;
                }
                let n = second.load(Ordering::Relaxed);
                for line in 0..step.min(AHEAD) {
                    fetch_for_reading(self.packet(n + line));
                }
                count += 1;
            }
            for n in read * step..(read + count) * step {
                if step > 1 {
                    fetch_for_reading(self.packet(n + AHEAD));
                }
                let from = self.packet(n);
                // SAFETY: the sender has published the line, and does not write it until the cursor
                // has passed it.
                let line = unsafe {
                    if self.work == Work::Copy {
                        let private = &raw mut own[(n % BUNDLE) as usize];
                        private.write(from.read());
                        std::hint::black_box(private).read()
                    } else {
                        from.read()
                    }
                };
                sum = line.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
            }
            if count > 0 {
                read += count;
                cursor.store(read * step, Ordering::Release);
            }
        }
        sum
    }

    /// Sends a packet every `gap` ticks, with the time at which it was written.
    pub fn send_paced(&self, stop: &AtomicBool, gap: u64) {
        let mut next = ticks();
        for n in 0_u64.. {
            while ticks() < next {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
            }
            next += gap;
            let now = ticks();
            let line: [u64; 8] = std::array::from_fn(|word| now.wrapping_add(word as u64));
            // SAFETY: the receiver is done with it: it was sent thousands of packets ago, and one
            // is on its way.
            unsafe { self.packet(n).write(line) };
            let [first, second] = self.slot(n);
            second.store(n, Ordering::Relaxed);
            first.store(self.sequence(n), Ordering::Release);
        }
    }

    /// Notes the one-way times of packets of [`Loops::send_paced`] in ticks, at most so many.
    pub fn receive_paced(&self, stop: &AtomicBool, into: &mut Vec<u64>, most: usize) {
        let mut read = 0_u64;
        while !stop.load(Ordering::Relaxed) && into.len() < most {
            let [first, second] = self.slot(read);
            if first.load(Ordering::Acquire) != self.sequence(read) {
                continue;
            }
            // SAFETY: published, and not written again for thousands of packets.
            let line = unsafe { self.packet(second.load(Ordering::Relaxed)).read() };
            let arrived = ticks_after_loads();
            std::hint::black_box(
                line.iter()
                    .fold(0, |sum: u64, word| sum.wrapping_add(*word)),
            );
            into.push(arrived.saturating_sub(line[0]));
            read += 1;
        }
    }
}

#[inline(always)]
fn fetch_for_reading(line: NonNull<[u64; 8]>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch changes nothing that the program sees, and cannot fault.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast_const().cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}

#[inline(always)]
fn fetch_for_writing(line: NonNull<[u64; 8]>) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        core::arch::asm!("prefetchw [{at}]", at = in(reg) line.as_ptr(),
            options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = line;
}
