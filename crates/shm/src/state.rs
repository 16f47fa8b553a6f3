//! Memory of a network function that outlives it: its tables, counts and sessions.
//!
//! Beside a packet's life. The supervisor makes it ([`create`]) and keeps the descriptor; the
//! worker
//! that runs the function maps it ([`StateRegion::attach`]); a successor, after a kill or a change
//! of the chain, maps the same memory and finds it as it was left. In it lie offsets, never
//! pointers, and whatever a kill can leave there is for the function to mend.
//!
//! One mapping at a time: the kernel holds a lock on the memory for whoever has it mapped, and
//! takes it back when that process is gone. So a function has its memory as plain bytes. Memory
//! that functions use at the same time ([`StateRegion::attach_shared`]) is atomic words to all of
//! them.
#![allow(
    unsafe_code,
    reason = "makes a slice of a mapping that nobody else has"
)]

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

use crate::region::{Region, RegionError, Sharing};

/// Most bytes of one region.
pub const STATE_BYTES_MAX: usize = 64 << 30;

/// Why memory cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// It could not be made or mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Somebody has it.
    #[error("its memory is still mapped by another process or function")]
    Taken,
    /// It is smaller than what is to lie in it.
    #[error("its memory has fewer than {0} bytes")]
    Short(usize),
    /// The lock that keeps others out could not be asked for.
    #[error("the lock on its memory: {0}")]
    Lock(Errno),
}

/// Makes memory of `len` bytes (rounded up to pages), on huge pages if there are enough, all zero.
/// Its size is sealed. No page of it exists before it is used. Gives its descriptor and its size.
///
/// # Errors
/// What the kernel refused.
pub fn create(len: usize) -> Result<(OwnedFd, usize), RegionError> {
    // Mapped for a moment only: that is when huge pages are set aside, and they stay so.
    let region = Region::create_huge("catena-state", len.max(1), Sharing::ReadWrite)?;
    let fd = region.fd().try_clone_to_owned();
    let fd = fd.map_err(|error| RegionError::Os {
        step: "duplicate",
        len,
        source: Errno::from_io_error(&error).unwrap_or(Errno::MFILE),
    })?;
    Ok((fd, region.len()))
}

/// Memory of a function, mapped by its worker: at most one function at a time has it.
#[derive(Clone, Debug)]
pub struct StateRegion(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    region: Region,
    is_taken: AtomicBool,
    /// Holds the lock, an open file of its own; released last. None for who looks in meanwhile.
    _lock: Option<OwnedFd>,
}

impl StateRegion {
    /// Maps memory that [`create`] made, `len` bytes, unless somebody has it mapped.
    ///
    /// # Errors
    /// [`StateError::Taken`]; what was wrong with the memory; what the kernel refused.
    pub fn attach(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        Self::attach_locked(fd, len, FlockOperation::NonBlockingLockExclusive)
    }

    /// Maps memory of several functions, `len` bytes, unless somebody has it for itself alone. All
    /// that map it so use it as atomic words ([`StateWords`]), at the same time.
    ///
    /// # Errors
    /// As [`StateRegion::attach`].
    pub fn attach_shared(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        Self::attach_locked(fd, len, FlockOperation::NonBlockingLockShared)
    }

    fn attach_locked(fd: OwnedFd, len: usize, lock: FlockOperation) -> Result<Self, StateError> {
        // A lock belongs to an open file, and all copies of a descriptor are one: so it is opened
        // anew, for this mapping alone.
        let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
        let own = rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
        let own = own.map_err(StateError::Lock)?;
        match flock(&own, lock) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Err(StateError::Taken),
            Err(error) => return Err(StateError::Lock(error)),
        }
        let region = Region::attach(fd, len, Sharing::ReadWrite)?;
        Ok(Self(Arc::new(Mapped {
            region,
            is_taken: AtomicBool::new(false),
            _lock: Some(own),
        })))
    }

    /// Maps memory that a function may have mapped, `len` bytes: for whoever changes it while that
    /// function stands still, or after its end. Both use it as atomic words ([`StateWords`]), so
    /// one that does not stand still spoils values, and nothing else.
    ///
    /// # Errors
    /// What was wrong with the memory; what the kernel refused.
    pub fn attach_beside(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        let region = Region::attach(fd, len, Sharing::ReadWrite)?;
        Ok(Self(Arc::new(Mapped {
            region,
            is_taken: AtomicBool::new(false),
            _lock: None,
        })))
    }

    /// The first `len` bytes of the memory, for one function, until it lets go of it.
    ///
    /// # Errors
    /// [`StateError::Short`]; [`StateError::Taken`] while another function of this process has it.
    pub fn take(&self, len: usize) -> Result<State, StateError> {
        if len > self.0.region.len() {
            return Err(StateError::Short(len));
        }
        // Acquire pairs with the Release in `State::drop`: what the last one wrote is seen.
        if self.0.is_taken.swap(true, Ordering::Acquire) {
            return Err(StateError::Taken);
        }
        Ok(State {
            region: self.clone(),
            len,
        })
    }
}

/// The memory of one function, which nobody else has.
#[derive(Debug)]
pub struct State {
    region: StateRegion,
    len: usize,
}

impl Deref for State {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let region = &self.region.0.region;
        // SAFETY: so many bytes are mapped, checked in `StateRegion::take`, while `self` holds the
        // region. Nobody else refers to them as bytes: `is_taken` is set while a `State` of this
        // mapping lives, the lock keeps every other mapping out that is made by
        // `StateRegion::attach` (those of `attach_shared` and `attach_beside` use atomic words
        // only), and the supervisor, which has the descriptor, maps it only before it hands it out.
        // The size is sealed.
        unsafe { std::slice::from_raw_parts(region.base().as_ptr(), self.len) }
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut [u8] {
        let region = &self.region.0.region;
        // SAFETY: as above; `self` is borrowed exclusively, and the mapping is writable.
        unsafe { std::slice::from_raw_parts_mut(region.base().as_ptr(), self.len) }
    }
}

impl Drop for State {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `StateRegion::take`.
        self.region.0.is_taken.store(false, Ordering::Release);
    }
}

/// Memory of a function as words that several places of it may refer to: for tables that lie in
/// it.
///
/// Words begin on a line of 64 bytes; what lies in front of it, if anything, is left out.
pub struct StateWords {
    /// From `Box::into_raw`; freed in `drop`, after the last use of the words.
    owner: *mut (dyn DerefMut<Target = [u8]> + Send),
    words: *const AtomicU64,
    count: usize,
}

/// Bytes of a cache line, on which the words of a [`StateWords`] begin.
pub const STATE_LINE_BYTES: usize = 64;

impl StateWords {
    /// Takes memory that nobody else has, as a function gets it.
    pub fn new(memory: Box<dyn DerefMut<Target = [u8]> + Send>) -> Self {
        let owner = Box::into_raw(memory);
        // SAFETY: just made of a box, so it is valid, and nobody else refers to it. The slice is
        // good until its owner is used again or dropped, which happens in `drop` only.
        let bytes = unsafe { (*owner).deref_mut() };
        let start = bytes
            .as_mut_ptr()
            .align_offset(STATE_LINE_BYTES)
            .min(bytes.len());
        let rest = &mut bytes[start..];
        let count = rest.len() / size_of::<AtomicU64>();
        let words = match count {
            // What is left may not even be aligned.
            0 => std::ptr::NonNull::dangling().as_ptr(),
            _ => rest.as_mut_ptr().cast(),
        };
        Self {
            owner,
            words,
            count,
        }
    }

    /// The words.
    #[inline(always)]
    pub fn words(&self) -> &[AtomicU64] {
        // SAFETY: so many words lie in the slice that `owner` gave, aligned to a line, or there are
        // none; it is not used otherwise while `self` lives; any bytes are a number.
        unsafe { std::slice::from_raw_parts(self.words, self.count) }
    }
}

impl Drop for StateWords {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw` in `new`, freed here only, and no word is referred to
        // any more.
        drop(unsafe { Box::from_raw(self.owner) });
    }
}

// SAFETY: the owner may be sent, and words are atomics in memory that it alone gives access to.
unsafe impl Send for StateWords {}
// SAFETY: what is shared are atomics; the owner is not touched before `drop`.
unsafe impl Sync for StateWords {}

impl std::fmt::Debug for StateWords {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateWords")
            .field("count", &self.count)
            .finish()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn words_begin_on_a_line_and_outlive_whoever_had_them() {
        let (fd, len) = create(10_000).unwrap();
        let copy = || fd.try_clone().unwrap();
        let take = || {
            StateRegion::attach(copy(), len)
                .unwrap()
                .take(10_000)
                .unwrap()
        };
        let words = StateWords::new(Box::new(take()));
        assert_eq!(words.words().len(), 1250);
        assert_eq!(words.words().as_ptr().align_offset(STATE_LINE_BYTES), 0);
        words.words()[1249].store(7, Ordering::Relaxed);
        assert!(matches!(
            StateRegion::attach(copy(), len),
            Err(StateError::Taken)
        ));
        drop(words);
        assert_eq!(
            StateWords::new(Box::new(take())).words()[1249].load(Ordering::Relaxed),
            7
        );
        for bytes in [0, 1, 7, 63, 64, 1000] {
            let words = StateWords::new(Box::new(vec![0; bytes]));
            assert!(words.words().len() <= bytes / 8);
            assert!(
                words
                    .words()
                    .iter()
                    .all(|word| word.load(Ordering::Relaxed) == 0)
            );
        }
    }

    #[test]
    fn a_successor_finds_what_was_left() {
        let (fd, len) = create(10_000).unwrap();
        let copy = || fd.try_clone().unwrap();
        assert!(len >= 10_000);
        let first = StateRegion::attach(copy(), len).unwrap();
        let mut state = first.take(10_000).unwrap();
        assert!(state.iter().all(|byte| *byte == 0));
        state[9_999] = 7;
        drop((state, first));
        let second = StateRegion::attach(copy(), len).unwrap();
        assert_eq!(second.take(10_000).unwrap()[9_999], 7);
    }

    #[test]
    fn nobody_has_it_twice() {
        let (fd, len) = create(1).unwrap();
        let copy = || fd.try_clone().unwrap();
        let region = StateRegion::attach(copy(), len).unwrap();
        let taken = |result: Result<_, StateError>| matches!(result, Err(StateError::Taken));
        assert!(taken(StateRegion::attach(copy(), len).map(drop)));
        let state = region.take(1).unwrap();
        assert!(taken(region.take(1).map(drop)));
        assert!(region.take(1 << 30).is_err());
        drop(state);
        let state = region.take(1).unwrap();
        drop(region);
        // The mapping lives as long as the function has it.
        assert!(taken(StateRegion::attach(copy(), len).map(drop)));
        drop(state);
        assert!(StateRegion::attach(copy(), len).is_ok());
    }

    #[test]
    fn several_have_it_at_once_if_all_say_so() {
        let (fd, len) = create(100).unwrap();
        let shared = || StateRegion::attach_shared(fd.try_clone().unwrap(), len);
        let alone = || StateRegion::attach(fd.try_clone().unwrap(), len);
        let both =
            [(); 2].map(|()| StateWords::new(Box::new(shared().unwrap().take(100).unwrap())));
        std::thread::scope(|scope| {
            for words in &both {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        words.words()[1].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(both[0].words()[1].load(Ordering::Relaxed), 20_000);
        assert!(matches!(alone(), Err(StateError::Taken)));
        drop(both);
        let one = alone().unwrap();
        assert!(matches!(shared(), Err(StateError::Taken)));
        drop(one);
        assert!(shared().is_ok());
    }

    #[test]
    fn its_size_cannot_change() {
        let (fd, len) = create(1).unwrap();
        assert!(rustix::fs::ftruncate(&fd, 0).is_err());
        assert!(StateRegion::attach(fd, len + 4096).is_err());
    }

    /// Tens of gigabytes cost nothing before they are used.
    #[test]
    fn what_is_not_used_costs_nothing() {
        let (fd, len) = create(32 << 30).unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_blocks, 0);
        let region = StateRegion::attach(fd.try_clone().unwrap(), len).unwrap();
        let mut state = region.take(len).unwrap();
        state[31 << 30] = 1;
        let pages = rustix::fs::fstat(&fd).unwrap().st_blocks * 512;
        assert!((1..=4 << 20).contains(&pages), "{pages}");
    }
}
