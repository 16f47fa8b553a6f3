//! Large memory of one process, on huge pages where the kernel gives them.
//!
//! Beside a packet's life. A table of many flows is read at random places: on normal pages nearly
//! every look into it begins with a walk through the page tables, which takes longer than the line
//! itself, longest in a virtual machine. Nothing here is shared, and all is gone with the process.
//! Transparent huge pages are asked for, which the machine may have turned off
//! (`/sys/kernel/mm/transparent_hugepage/enabled`); then these are normal pages.
//! JUSTIFICATION: `cargo xtask bench upf`.
#![allow(
    unsafe_code,
    reason = "maps memory, and makes slices of a mapping that nobody else has"
)]

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

/// Memory of zeros, as bytes.
#[derive(Debug)]
pub struct Anonymous {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping belongs to this value alone, as a `Vec`'s memory does.
unsafe impl Send for Anonymous {}
// SAFETY: as for `Send`; a shared reference only reads.
unsafe impl Sync for Anonymous {}

impl Anonymous {
    /// Memory of `len` bytes, at least one; each is there before this returns, so that no packet
    /// meets a page fault.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new(len: usize) -> Result<Self, Errno> {
        let len = len.max(1);
        // SAFETY: a new mapping at an address that the kernel chooses aliases nothing.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        }?;
        let base = NonNull::new(address.cast::<u8>()).ok_or(Errno::FAULT)?;
        let mut memory = Self { base, len };
        let advise = |advice| {
            // SAFETY: of our own mapping, whose contents stay as they are.
            unsafe { rustix::mm::madvise(base.as_ptr().cast(), len, advice) }
        };
        // Without, the memory is only slower.
        let _ = advise(Advice::LinuxHugepage);
        if advise(Advice::LinuxPopulateWrite).is_err() {
            // Linux before 5.14, or a sandbox that does not let it: page by page.
            memory
                .iter_mut()
                .step_by(4096)
                .for_each(|byte| *byte = std::hint::black_box(0));
        }
        Ok(memory)
    }
}

impl Deref for Anonymous {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped for as long as `self` lives, and belong to it.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.len) }
    }
}

impl DerefMut for Anonymous {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`; `self` is borrowed alone.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.len) }
    }
}

impl Drop for Anonymous {
    fn drop(&mut self) {
        // SAFETY: unmaps what `new` has mapped; every borrow of it has ended.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

/// Memory of zeros, as words that are shared between references. Its first word begins a page.
#[derive(Debug)]
pub struct AnonymousWords(Anonymous);

impl AnonymousWords {
    /// So many words, at least one.
    ///
    /// # Errors
    /// What the kernel refused.
    pub fn new(len: usize) -> Result<Self, Errno> {
        let bytes = len.max(1).checked_mul(size_of::<AtomicU64>());
        Anonymous::new(bytes.ok_or(Errno::NOMEM)?).map(Self)
    }

    /// The words.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        let Anonymous { base, len } = &self.0;
        // SAFETY: so many bytes are mapped, from the front of a page on, for as long as `self`
        // lives; nobody has them as bytes, since the mapping inside is never lent.
        unsafe { std::slice::from_raw_parts(base.as_ptr().cast(), len / size_of::<AtomicU64>()) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    #[test]
    fn memory_is_zero_and_keeps_what_is_written() {
        let mut memory = Anonymous::new(5 << 20).unwrap();
        assert_eq!(memory.len(), 5 << 20);
        assert!(memory.iter().all(|byte| *byte == 0));
        memory[(5 << 20) - 1] = 7;
        assert_eq!(memory.last(), Some(&7));
        assert_eq!(Anonymous::new(0).unwrap().len(), 1);
    }

    #[test]
    fn words_begin_a_page() {
        let memory = AnonymousWords::new(1000).unwrap();
        let words = memory.words();
        assert_eq!((words.len(), words.as_ptr().align_offset(4096)), (1000, 0));
        words[999].store(9, Ordering::Relaxed);
        assert_eq!(memory.words()[999].load(Ordering::Relaxed), 9);
        assert!(AnonymousWords::new(usize::MAX).is_err());
    }
}
