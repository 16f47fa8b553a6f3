//! Memory of a network function that outlives it: its tables, counts and sessions.
//!
//! Beside a packet's life. The supervisor makes it ([`create`]) and keeps the descriptor; the
//! worker that runs the function maps it ([`StateRegion::attach`]); a successor, after a kill or a
//! change of the chain, maps the same memory and finds it as it was left. In it lie offsets, never
//! pointers, and whatever a kill can leave there is for the function to mend.
//!
//! One mapping at a time: the kernel holds a lock on the memory for whoever has it mapped, and
//! takes it back when that process is gone. So a function can have its memory as plain bytes
//! ([`State`]). Memory that others use at the same time ([`SharedRegion`]) is atomic words
//! ([`StateWords`]) to all of them: no slice of its bytes is ever made.
#![allow(
    unsafe_code,
    reason = "makes a slice of a mapping that nobody else has, and words of any"
)]

use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
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

/// A mapping with its lock, which is released last: an open file of its own.
#[derive(Debug)]
struct Locked {
    region: Region,
    /// None for who looks in meanwhile.
    _lock: Option<OwnedFd>,
}

impl Locked {
    fn attach(fd: OwnedFd, len: usize, lock: FlockOperation) -> Result<Self, StateError> {
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
        Ok(Self {
            region: Region::attach(fd, len, Sharing::ReadWrite)?,
            _lock: Some(own),
        })
    }
}

/// Memory of a function, mapped by its worker: at most one function at a time has it.
#[derive(Clone, Debug)]
pub struct StateRegion(Arc<Mapped>);

#[derive(Debug)]
struct Mapped {
    is_taken: AtomicBool,
    locked: Locked,
}

impl StateRegion {
    /// Maps memory that [`create`] made, `len` bytes, unless somebody has it mapped.
    ///
    /// # Errors
    /// [`StateError::Taken`]; what was wrong with the memory; what the kernel refused.
    pub fn attach(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        let locked = Locked::attach(fd, len, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self(Arc::new(Mapped {
            is_taken: AtomicBool::new(false),
            locked,
        })))
    }

    /// The first `len` bytes of the memory, for one function, until it lets go of it.
    ///
    /// # Errors
    /// [`StateError::Short`]; [`StateError::Taken`] while another function of this process has it.
    pub fn take(&self, len: usize) -> Result<State, StateError> {
        if len > self.0.locked.region.len() {
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

impl State {
    /// As words: for a function whose memory somebody else may come to use as words, too
    /// ([`SharedRegion::attach_beside`]). No slice of its bytes is made.
    pub fn into_words(self) -> StateWords {
        let (base, len) = (self.region.0.locked.region.base(), self.len);
        // SAFETY: so many bytes are mapped for writing, checked in `StateRegion::take`, while
        // `self` holds the region, and the size is sealed. Who else has them mapped is as
        // `SharedRegion` says, and uses words only: no `State` gives bytes of them any more.
        unsafe { StateWords::over(base, len, Box::new(self)) }
    }
}

impl Deref for State {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        let region = &self.region.0.locked.region;
        // SAFETY: so many bytes are mapped, checked in `StateRegion::take`, while `self` holds the
        // region. Nobody else refers to them: `is_taken` is set while a `State` of this mapping
        // lives, and the lock keeps out every other mapping that takes one, shared ones among
        // them. Without a lock only `SharedRegion::attach_beside` maps it, which is for memory of
        // functions that have words of it (`State::into_words`): of those no `State` is left. The
        // supervisor, which has the descriptor, maps it otherwise only before it hands it out. The
        // size is sealed.
        unsafe { std::slice::from_raw_parts(region.base().as_ptr(), self.len) }
    }
}

impl DerefMut for State {
    fn deref_mut(&mut self) -> &mut [u8] {
        let region = &self.region.0.locked.region;
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

/// Memory that others use at the same time, mapped: there is no way from it to bytes, to atomic
/// words only.
#[derive(Clone, Debug)]
pub struct SharedRegion(Arc<Locked>);

impl SharedRegion {
    /// Maps memory of several functions, `len` bytes, unless somebody has it for itself alone
    /// ([`StateRegion::attach`]). All that map it so use it at the same time.
    ///
    /// # Errors
    /// As [`StateRegion::attach`].
    pub fn attach(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        let locked = Locked::attach(fd, len, FlockOperation::NonBlockingLockShared)?;
        Ok(Self(Arc::new(locked)))
    }

    /// Maps memory that a function may have mapped, `len` bytes: for whoever changes it while that
    /// function stands still, or after its end. The function must have it as words
    /// ([`State::into_words`]): one that does not stand still then spoils values, and nothing else.
    ///
    /// # Errors
    /// What was wrong with the memory; what the kernel refused.
    pub fn attach_beside(fd: OwnedFd, len: usize) -> Result<Self, StateError> {
        Ok(Self(Arc::new(Locked {
            region: Region::attach(fd, len, Sharing::ReadWrite)?,
            _lock: None,
        })))
    }

    /// The first `len` bytes of it as words.
    ///
    /// # Errors
    /// [`StateError::Short`].
    pub fn words(&self, len: usize) -> Result<StateWords, StateError> {
        if len > self.0.region.len() {
            return Err(StateError::Short(len));
        }
        // SAFETY: so many bytes are mapped for writing while the clone holds the region, and the
        // size is sealed. All that have it mapped refer to it as words: this type gives nothing
        // else, and memory that is a `State` elsewhere is so only as `attach_beside` says.
        Ok(unsafe { StateWords::over(self.0.region.base(), len, Box::new(self.clone())) })
    }
}

/// Memory of a function as words that several places of it may refer to: for tables that lie in
/// it.
///
/// Words begin on a line of 64 bytes; what lies in front of it, if anything, is left out.
pub struct StateWords {
    /// Who has the memory, from `Box::into_raw`; freed in `drop`, after the last use of the words.
    owner: *mut dyn Send,
    words: *const AtomicU64,
    count: usize,
}

/// Bytes of a cache line, on which the words of a [`StateWords`] begin.
pub const STATE_LINE_BYTES: usize = 64;

impl StateWords {
    /// Takes bytes that nobody else has, as a function gets them.
    pub fn new(memory: Box<dyn DerefMut<Target = [u8]> + Send>) -> Self {
        let owner = Box::into_raw(memory);
        // SAFETY: just made of a box, so it is valid, and nobody else refers to it. The slice is
        // good until its owner is used again or dropped, which happens in `drop` only.
        let bytes = unsafe { (*owner).deref_mut() };
        Self::within(bytes.as_mut_ptr(), bytes.len(), owner)
    }

    /// The words of `len` bytes from `base` on, of which no slice is made.
    ///
    /// # Safety
    /// They must be mapped for writing as long as `owner` lives, and whoever else refers to them in
    /// that time does so as words.
    unsafe fn over(base: NonNull<u8>, len: usize, owner: Box<dyn Send>) -> Self {
        Self::within(base.as_ptr(), len, Box::into_raw(owner))
    }

    /// Finds where words begin, and reads nothing.
    fn within(base: *mut u8, len: usize, owner: *mut dyn Send) -> Self {
        let start = base.align_offset(STATE_LINE_BYTES).min(len);
        let count = (len - start) / size_of::<AtomicU64>();
        let words = match count {
            // What is left may not even be aligned.
            0 => NonNull::dangling().as_ptr(),
            _ => base.wrapping_add(start).cast(),
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
        // SAFETY: so many words lie in the memory that `owner` has, aligned to a line, or there are
        // none; whoever uses it otherwise while `self` lives uses words, too; any bytes are a
        // number.
        unsafe { std::slice::from_raw_parts(self.words, self.count) }
    }
}

impl Drop for StateWords {
    fn drop(&mut self) {
        // SAFETY: from `Box::into_raw` in `new` or `over`, freed here only, and no word is referred
        // to any more.
        drop(unsafe { Box::from_raw(self.owner) });
    }
}

// SAFETY: the owner may be sent, and words are atomics, whoever else has them.
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
        let shared = || SharedRegion::attach(fd.try_clone().unwrap(), len);
        let alone = || StateRegion::attach(fd.try_clone().unwrap(), len);
        let both = [(); 2].map(|()| shared().unwrap().words(100).unwrap());
        assert_eq!(both.each_ref().map(|one| one.words().len()), [12; 2]);
        count_at_once(&both);
        assert!(matches!(alone(), Err(StateError::Taken)));
        drop(both);
        let one = alone().unwrap();
        assert!(matches!(shared(), Err(StateError::Taken)));
        drop(one);
        assert!(shared().is_ok());
        let beyond = shared().unwrap().words(len + 1);
        assert!(matches!(beyond, Err(StateError::Short(_))));
    }

    #[test]
    fn who_has_words_alone_shares_them_with_whoever_comes_beside() {
        let (fd, len) = create(100).unwrap();
        let region = StateRegion::attach(fd.try_clone().unwrap(), len).unwrap();
        let own = region.take(100).unwrap().into_words();
        let beside = SharedRegion::attach_beside(fd.try_clone().unwrap(), len).unwrap();
        count_at_once(&[own, beside.words(100).unwrap()]);
        // Words let go of it as bytes do.
        assert!(region.take(1).is_ok());
    }

    fn count_at_once(both: &[StateWords; 2]) {
        std::thread::scope(|scope| {
            for words in both {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        words.words()[1].fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(both[0].words()[1].load(Ordering::Relaxed), 20_000);
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
