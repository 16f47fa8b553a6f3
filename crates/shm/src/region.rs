//! Sealed shared memory: a memfd and its mapping.
//!
//! Before any packet moves: each side of a link makes the memory it will write, maps it, seals it
//! and passes the descriptor on; the other side checks the seals and the size and maps it.
//!
//! | sharing | made by | seals | mapped elsewhere |
//! |---|---|---|---|
//! | [`Sharing::ReadOnly`]  | its only writer | SHRINK, GROW, FUTURE_WRITE, SEAL | read-only; the kernel refuses everything else |
//! | [`Sharing::ReadWrite`] | the pool's owner | SHRINK, GROW, SEAL | read and write, inside one trust group |
//!
//! FUTURE_WRITE (Linux 5.1) leaves the maker's mapping writable and makes every later one
//! read-only: it cannot be `mprotect`ed, reopened, truncated or punched. A received descriptor
//! without the seals is refused, since its sender could truncate it and make readers fault.
//!
//! A mapping needs no descriptor: what is mapped for use is closed, so that a long chain needs no
//! more descriptors than its supervisor keeps.
#![allow(unsafe_code, reason = "mmap and munmap")]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

/// Who may write a region's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only the process that made it.
    ReadOnly,
    /// Every process that was given it: one trust group.
    ReadWrite,
}

/// Why a region could not be made or mapped.
#[derive(Debug, thiserror::Error)]
pub enum RegionError {
    /// The kernel refused.
    #[error("shared memory of {len} bytes: {step}: {source}")]
    Os {
        /// What was being done.
        step: &'static str,
        /// Its size.
        len: usize,
        /// The kernel's answer.
        source: rustix::io::Errno,
    },
    /// The descriptor lacks the seals that protect its readers.
    #[error("shared memory from a peer is not sealed (has {has:?}, needs {needs:?})")]
    NotSealed {
        /// Seals present.
        has: SealFlags,
        /// Seals required.
        needs: SealFlags,
    },
    /// The size is not what was announced.
    #[error("shared memory from a peer has {has} bytes, announced were {announced}")]
    WrongSize {
        /// Its real size.
        has: u64,
        /// What the peer said.
        announced: u64,
    },
}

/// A mapped region.
#[derive(Debug)]
pub struct Region {
    /// None once it was closed.
    fd: Option<OwnedFd>,
    base: NonNull<u8>,
    len: usize,
    writable: bool,
    huge: bool,
}

// SAFETY: a region is memory at a fixed address; whoever reads or writes it does so through
// atomics, or through packets whose exclusivity the ring protocol gives.
unsafe impl Send for Region {}
// SAFETY: as above; no method hands out a plain reference into it.
unsafe impl Sync for Region {}

/// Bytes of a normal page; sizes of regions are rounded up to it.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a huge page.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

const SEALS_READ_WRITE: SealFlags = SealFlags::SHRINK
    .union(SealFlags::GROW)
    .union(SealFlags::SEAL);
const SEALS_READ_ONLY: SealFlags = SEALS_READ_WRITE.union(SealFlags::FUTURE_WRITE);

const fn seals(sharing: Sharing) -> SealFlags {
    match sharing {
        Sharing::ReadOnly => SEALS_READ_ONLY,
        Sharing::ReadWrite => SEALS_READ_WRITE,
    }
}

impl Region {
    /// Makes a region of `len` bytes (rounded up to pages), maps it for writing and seals it.
    /// `name` shows in `/proc/PID/maps`. Zero-filled.
    ///
    /// # Errors
    /// The step that failed and the kernel's reason.
    pub fn create(name: &str, len: usize, sharing: Sharing) -> Result<Self, RegionError> {
        Self::create_with(
            name,
            len.next_multiple_of(PAGE_BYTES),
            sharing,
            MemfdFlags::empty(),
        )
    }

    /// Like [`Region::create`] on huge pages, if the machine has enough of them free, else on
    /// normal pages; [`Region::is_huge`] says which.
    ///
    /// # Errors
    /// The step that failed and the kernel's reason.
    pub fn create_huge(name: &str, len: usize, sharing: Sharing) -> Result<Self, RegionError> {
        let rounded = len.next_multiple_of(HUGE_PAGE_BYTES);
        let flags = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        Self::create_with(name, rounded, sharing, flags)
            .or_else(|_| Self::create(name, len, sharing))
    }

    fn create_with(
        name: &str,
        len: usize,
        sharing: Sharing,
        flags: MemfdFlags,
    ) -> Result<Self, RegionError> {
        let failed = |step| move |source| RegionError::Os { step, len, source };
        let fd = rustix::fs::memfd_create(
            name,
            MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | flags,
        )
        .map_err(failed("memfd_create"))?;
        rustix::fs::ftruncate(&fd, len as u64).map_err(failed("ftruncate"))?;
        let huge = flags.contains(MemfdFlags::HUGETLB);
        let region = Self::map(fd, len, true, huge)?;
        rustix::fs::fcntl_add_seals(region.fd(), seals(sharing)).map_err(failed("seal"))?;
        Ok(region)
    }

    /// Maps a descriptor received from a peer, after checking its seals and size, and closes it.
    ///
    /// # Errors
    /// [`RegionError::NotSealed`], [`RegionError::WrongSize`], or the kernel's reason.
    pub fn attach(fd: OwnedFd, len: usize, sharing: Sharing) -> Result<Self, RegionError> {
        let mut region = Self::take_over(fd, len, sharing)?;
        region.close_descriptor();
        Ok(region)
    }

    /// As [`Region::attach`], and keeps the descriptor, to be passed on.
    ///
    /// # Errors
    /// As [`Region::attach`].
    pub fn take_over(fd: OwnedFd, len: usize, sharing: Sharing) -> Result<Self, RegionError> {
        Self::check(&fd, len, sharing)?;
        let huge = rustix::fs::fstatfs(&fd)
            .is_ok_and(|stat| usize::try_from(stat.f_bsize) == Ok(HUGE_PAGE_BYTES));
        Self::map(fd, len, sharing == Sharing::ReadWrite, huge)
    }

    /// What [`Region::attach`] checks, without mapping: for whoever only passes memory on.
    ///
    /// # Errors
    /// As [`Region::attach`].
    pub fn check(fd: impl AsFd, len: usize, sharing: Sharing) -> Result<(), RegionError> {
        let failed = |step| move |source| RegionError::Os { step, len, source };
        let has = rustix::fs::fcntl_get_seals(&fd).map_err(failed("read seals"))?;
        let needs = seals(sharing);
        if !has.contains(needs) {
            return Err(RegionError::NotSealed { has, needs });
        }
        let stat = rustix::fs::fstat(&fd).map_err(failed("fstat"))?;
        if u64::try_from(stat.st_size) != Ok(len as u64) {
            return Err(RegionError::WrongSize {
                has: u64::try_from(stat.st_size).unwrap_or(0),
                announced: len as u64,
            });
        }
        Ok(())
    }

    fn map(fd: OwnedFd, len: usize, writable: bool, huge: bool) -> Result<Self, RegionError> {
        let protection = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a new mapping at an address the kernel chooses aliases nothing.
        let address = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                MapFlags::SHARED,
                &fd,
                0,
            )
        }
        .map_err(|source| RegionError::Os {
            step: "mmap",
            len,
            source,
        })?;
        let base = NonNull::new(address.cast::<u8>()).ok_or(RegionError::Os {
            step: "mmap",
            len,
            source: rustix::io::Errno::FAULT,
        })?;
        Ok(Self {
            fd: Some(fd),
            base,
            len,
            writable,
            huge,
        })
    }

    /// Touches every page, so that the data path meets no page fault and the memory is charged to
    /// the process that asked for it.
    pub fn prefault(&self) {
        self.prefault_first(self.len);
    }

    /// As [`Region::prefault`], but only the first `len` bytes.
    pub fn prefault_first(&self, len: usize) {
        let len = len.min(self.len);
        let advice = if self.writable {
            rustix::mm::Advice::LinuxPopulateWrite
        } else {
            rustix::mm::Advice::LinuxPopulateRead
        };
        // SAFETY: populates pages of our own mapping; contents do not change. A kernel before 5.14
        // refuses, and the pages then fault one by one, which is only slower.
        let _ = unsafe { rustix::mm::madvise(self.base.as_ptr().cast(), len, advice) };
    }

    /// Size in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a region is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether this mapping may be written.
    pub fn is_writable(&self) -> bool {
        self.writable
    }

    /// Whether it lies on huge pages.
    pub fn is_huge(&self) -> bool {
        self.huge
    }

    /// The descriptor, to be passed to a peer.
    ///
    /// # Panics
    /// If it was closed ([`Region::close_descriptor`]): a mistake of the caller.
    pub fn fd(&self) -> BorrowedFd<'_> {
        let fd = self.fd.as_ref().expect("memory that is passed on is open");
        fd.as_fd()
    }

    /// Closes the descriptor, once all who need the memory have it. The mapping stays.
    pub fn close_descriptor(&mut self) {
        self.fd = None;
    }

    /// The whole region as words, for state that outlives a process. Empty if this mapping is
    /// read-only, since a store would fault. Whoever else maps the region may write it at any time.
    pub fn words(&self) -> &[AtomicU64] {
        if !self.writable {
            return &[];
        }
        // SAFETY: the mapping is page-aligned, `len` bytes long, writable and lives as long as
        // `self`; atomics may be written by others while they are shared.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().cast(), self.len / 8) }
    }

    /// Start of the mapping.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Address of a `T` at `offset`, which must lie in the region and be aligned.
    ///
    /// # Panics
    /// If it does not: layouts are computed by this crate, never taken from a peer.
    pub(crate) fn at<T>(&self, offset: usize) -> NonNull<T> {
        assert!(
            offset.is_multiple_of(align_of::<T>()) && offset + size_of::<T>() <= self.len,
            "layout outside its region"
        );
        // SAFETY: `offset` was checked to lie within the mapping.
        unsafe { self.base.add(offset) }.cast()
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `map` mapped; holders of addresses into it keep the region in
        // an `Arc`.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.len) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_read_only_region_cannot_be_mapped_for_writing_by_others() {
        let ours = Region::create("test", 100, Sharing::ReadOnly).unwrap();
        assert_eq!(ours.len(), PAGE_BYTES);
        let fd = ours.fd().try_clone_to_owned().unwrap();
        // SAFETY: a new mapping at an address the kernel chooses; expected to fail.
        let attempt = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                PAGE_BYTES,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &fd,
                0,
            )
        };
        assert_eq!(attempt.unwrap_err(), rustix::io::Errno::PERM);
        let theirs = Region::attach(fd, PAGE_BYTES, Sharing::ReadOnly).unwrap();
        assert!(!theirs.is_writable());
        // SAFETY: changes the protection of our own mapping; expected to fail.
        let attempt = unsafe {
            rustix::mm::mprotect(
                theirs.base.as_ptr().cast(),
                PAGE_BYTES,
                rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE,
            )
        };
        assert_eq!(attempt.unwrap_err(), rustix::io::Errno::ACCESS);
    }

    #[test]
    fn what_the_maker_writes_the_peer_sees() {
        use crate::sync::{AtomicU64, Ordering};
        let ours = Region::create("test", 64, Sharing::ReadOnly).unwrap();
        let fd = ours.fd().try_clone_to_owned().unwrap();
        let theirs = Region::attach(fd, ours.len(), Sharing::ReadOnly).unwrap();
        // SAFETY: an atomic in a live mapping.
        unsafe { ours.at::<AtomicU64>(8).as_ref() }.store(42, Ordering::Release);
        // SAFETY: as above.
        let seen = unsafe { theirs.at::<AtomicU64>(8).as_ref() }.load(Ordering::Acquire);
        assert_eq!(seen, 42);
    }

    /// Descriptors of this process that are the memory called `name`.
    fn open_descriptors(name: &str) -> usize {
        let all = std::fs::read_dir("/proc/self/fd").unwrap();
        let links = all.filter_map(|one| std::fs::read_link(one.unwrap().path()).ok());
        links
            .filter(|to| to.to_string_lossy().contains(name))
            .count()
    }

    #[test]
    fn what_is_mapped_stays_when_its_descriptors_are_closed() {
        use crate::sync::{AtomicU64, Ordering};
        let name = "region-that-is-closed";
        let mut ours = Region::create(name, 64, Sharing::ReadOnly).unwrap();
        let copy = || ours.fd().try_clone_to_owned().unwrap();
        let theirs = Region::attach(copy(), ours.len(), Sharing::ReadOnly).unwrap();
        assert_eq!(
            open_descriptors(name),
            1,
            "who maps memory keeps no descriptor"
        );
        let heir = Region::take_over(copy(), ours.len(), Sharing::ReadOnly).unwrap();
        assert_eq!(open_descriptors(name), 2, "who passes it on does");
        drop(heir);
        ours.close_descriptor();
        assert_eq!(open_descriptors(name), 0);
        // SAFETY: an atomic in a live mapping.
        unsafe { ours.at::<AtomicU64>(8).as_ref() }.store(42, Ordering::Release);
        // SAFETY: as above.
        let seen = unsafe { theirs.at::<AtomicU64>(8).as_ref() }.load(Ordering::Acquire);
        assert_eq!(seen, 42);
    }

    #[test]
    fn an_unsealed_descriptor_is_refused() {
        let fd = rustix::fs::memfd_create("test", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&fd, PAGE_BYTES as u64).unwrap();
        let error = Region::attach(fd, PAGE_BYTES, Sharing::ReadOnly).unwrap_err();
        assert!(matches!(error, RegionError::NotSealed { .. }), "{error}");
    }

    #[test]
    fn a_wrong_size_is_refused() {
        let ours = Region::create("test", PAGE_BYTES, Sharing::ReadWrite).unwrap();
        let fd = ours.fd().try_clone_to_owned().unwrap();
        let error = Region::attach(fd, 2 * PAGE_BYTES, Sharing::ReadWrite).unwrap_err();
        assert!(matches!(error, RegionError::WrongSize { .. }), "{error}");
    }

    #[test]
    fn truncating_a_region_is_impossible() {
        let ours = Region::create("test", PAGE_BYTES, Sharing::ReadWrite).unwrap();
        assert!(rustix::fs::ftruncate(ours.fd(), 0).is_err());
    }
}
