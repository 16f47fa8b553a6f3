//! Private copies of packets that another process may still write.
//!
//! Between a link and whoever looks at a packet. Memory that is mapped for reading only has a maker
//! who can write it at every moment, and who is trusted with nothing across an `ro` link. So no
//! reference is ever made into it: a packet of such a pool is copied once, when it is taken from
//! its link, and all that looks at it in this worker looks at the copy, at one value. By a link
//! that shares memory the original goes on, by its descriptor.
//!
//! Copies are made in two steps: a place for each packet of a burst first, while its bytes are on
//! their way from another core, then all bytes ([`Snapshots::fill`]). They last until the turn ends
//! ([`Snapshots::forget`]), when a worker has given all such packets on.
//!
//! Limit: 256 packets of the largest buffers, or 4 MiB, whichever is less, but 4 packets at least.
//! What finds no place stays in its link for the next turn.
#![allow(
    unsafe_code,
    reason = "copies bytes out of a peer's mapping into memory that packets point at"
)]

use std::ptr::NonNull;

use crate::descriptor::Violation;
use crate::prefetch;

/// Copies start at multiples of this: a cache line.
const ALIGNMENT: usize = 64;
/// Packets of the largest buffers for which there is always room, and in how many bytes of it.
const COUNT: usize = 256;
const BYTES: usize = 4 << 20;
const COUNT_MIN: usize = 4;

/// Why no packet was made of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// No honest peer would have sent it.
    Violation,
    /// There is no place for a copy before this turn has ended.
    Full,
}

impl From<Violation> for Refused {
    fn from(_: Violation) -> Self {
        Self::Violation
    }
}

/// Memory for the copies of one worker.
#[derive(Debug, Default)]
pub struct Snapshots {
    /// Zeroed when it is made, and never looked at but through the packets that lie in it.
    memory: Option<Memory>,
    /// Bytes taken, a multiple of [`ALIGNMENT`].
    taken: usize,
    waiting: Vec<Waiting>,
}

/// Bytes that are to be copied.
#[derive(Debug)]
struct Waiting {
    from: NonNull<u8>,
    to: NonNull<u8>,
    len: usize,
}

/// Memory by its address, since packets point into it.
#[derive(Debug)]
struct Memory {
    start: NonNull<u64>,
    words: usize,
    /// Bytes in front of the first cache line.
    skip: usize,
}

// SAFETY: it is plain memory that this value alone hands out places of.
unsafe impl Send for Memory {}
// SAFETY: mappings outlive it, as with packets; only the one that holds it copies.
unsafe impl Send for Waiting {}

impl Memory {
    fn new(len: usize) -> Self {
        // Zeroed by the kernel: pages exist once they are used.
        let words = vec![0_u64; (len + ALIGNMENT).div_ceil(8)].into_boxed_slice();
        let count = words.len();
        let start = NonNull::from(Box::leak(words)).cast::<u64>();
        Self {
            start,
            words: count,
            skip: start.cast::<u8>().align_offset(ALIGNMENT),
        }
    }

    /// Bytes that can be handed out.
    fn len(&self) -> usize {
        8 * self.words - self.skip
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let slice = NonNull::slice_from_raw_parts(self.start, self.words);
        // SAFETY: made of such a box, and dropped once.
        drop(unsafe { Box::from_raw(slice.as_ptr()) });
    }
}

impl Snapshots {
    /// Makes room for packets of buffers with `buffer_bytes` bytes. On the control path, while no
    /// copy is in use.
    pub fn make_room_for(&mut self, buffer_bytes: usize) {
        let wanted = (COUNT * buffer_bytes)
            .min(BYTES)
            .max(COUNT_MIN * buffer_bytes);
        if self
            .memory
            .as_ref()
            .is_none_or(|memory| memory.len() < wanted)
        {
            self.memory = Some(Memory::new(wanted));
            self.waiting.reserve(COUNT);
        }
    }

    /// A place for `len` bytes, a multiple of a cache line; none if all are taken. Old bytes or
    /// zeros lie there.
    fn place(&mut self, len: usize) -> Option<NonNull<u8>> {
        let memory = self.memory.as_ref()?;
        let behind = self.taken.checked_add(len)?;
        if behind > memory.len() {
            return None;
        }
        // SAFETY: `skip + taken + len` is within the memory.
        let place = unsafe { memory.start.cast::<u8>().add(memory.skip + self.taken) };
        self.taken = behind.next_multiple_of(ALIGNMENT);
        Some(place)
    }

    /// Where the `len` bytes at `from` will be once [`Snapshots::fill`] has been called.
    ///
    /// # Safety
    /// `[from, from+len)` is mapped until then.
    pub(crate) unsafe fn begin(&mut self, from: NonNull<u8>, len: usize) -> Option<NonNull<u8>> {
        let to = self.place(len)?;
        prefetch::for_reading(from);
        self.waiting.push(Waiting { from, to, len });
        Some(to)
    }

    /// Where a copy of the `len` bytes at `from` is, and room for as many in all as `total`.
    ///
    /// # Safety
    /// `[from, from+len)` is mapped; `len` is at most `total`.
    pub(crate) unsafe fn copy_of(
        &mut self,
        from: NonNull<u8>,
        len: usize,
        total: usize,
    ) -> Option<NonNull<u8>> {
        let to = self.place(total)?;
        // SAFETY: by the contract, and `to` has `total` bytes, which nothing else uses.
        unsafe { copy(from, to, len) };
        Some(to)
    }

    /// Copies the bytes of all packets since the last call.
    #[inline]
    pub fn fill(&mut self) {
        for Waiting { from, to, len } in self.waiting.drain(..) {
            // SAFETY: `begin`'s contract, and its place, which nothing else uses.
            unsafe { copy(from, to, len) };
        }
    }

    /// All copies are out of use: whoever has a packet in one has given it on or freed it.
    #[inline]
    pub fn forget(&mut self) {
        self.taken = 0;
    }
}

/// Copies bytes that their writer may change meanwhile: then the copy is a mix of old and new,
/// which is a value like any other that a peer may send, and nothing reads them a second time.
///
/// # Safety
/// `[from, from+len)` is mapped; `to` is the start of so many bytes that nothing else uses.
pub(crate) unsafe fn copy(from: NonNull<u8>, to: NonNull<u8>, len: usize) {
    // SAFETY: the contract; a peer's mapping and memory of this process do not overlap.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), len) };
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_place_waits_for_the_next_turn() {
        let (mut snapshots, len) = (Snapshots::default(), 3 << 20);
        let foreign = vec![7_u8; len];
        let from = NonNull::from(&foreign[0]);
        // SAFETY: bytes of the vector, which lives to the end.
        let begin = |snapshots: &mut Snapshots| unsafe { snapshots.begin(from, len) };
        assert_eq!(begin(&mut snapshots), None, "no pool is to be read");
        snapshots.make_room_for(len);
        for _ in 0..2 {
            let places: Vec<_> = std::iter::from_fn(|| begin(&mut snapshots)).collect();
            assert_eq!(places.len(), COUNT_MIN);
            snapshots.fill();
            for place in places {
                assert_eq!(place.align_offset(ALIGNMENT), 0);
                // SAFETY: so many bytes of the memory, which nobody writes meanwhile.
                let copy = unsafe { std::slice::from_raw_parts(place.as_ptr(), len) };
                assert_eq!(copy, foreign);
            }
            snapshots.forget();
        }
        snapshots.make_room_for(64);
        assert!(begin(&mut snapshots).is_some(), "room once made stays");
    }
}
