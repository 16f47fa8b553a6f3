//! How a worker's control thread reaches its data path: a flag, and a bell that ends its sleep.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use catena_shm::bell::{self, WaitWord};

/// How the data path is reached from the control thread.
#[derive(Debug, Default)]
pub struct Doorbell {
    flag: AtomicBool,
    /// Whether control halves have sent something.
    has_values: AtomicBool,
    rung: AtomicU32,
    /// Rung too, for a data path that sleeps on sockets.
    event: Option<Arc<OwnedFd>>,
}

impl Doorbell {
    /// The bell of a data path; `event` is an event descriptor that it may sleep on.
    pub fn new(event: Option<Arc<OwnedFd>>) -> Self {
        Self {
            event,
            ..Self::default()
        }
    }

    /// Wakes the data path and makes it look at its commands.
    pub fn command(&self) {
        self.flag.store(true, Ordering::Release);
        self.wake();
    }

    /// Wakes the data path and makes it take what control halves have sent.
    pub(super) fn values(&self) {
        self.has_values.store(true, Ordering::Release);
        self.command();
    }

    /// Whether control halves have sent something since this was asked.
    pub(super) fn take_values(&self) -> bool {
        self.has_values.swap(false, Ordering::Acquire)
    }

    /// The data path has not taken everything: it goes on after its next turn.
    pub(super) fn has_more_values(&self) {
        self.has_values.store(true, Ordering::Relaxed);
        self.flag.store(true, Ordering::Release);
    }

    /// Whether there are commands; looked at every turn, so the flag is written only if there are.
    #[inline]
    pub(super) fn is_rung(&self) -> bool {
        self.flag.load(Ordering::Relaxed) && self.flag.swap(false, Ordering::Acquire)
    }

    /// Wakes the data path: a port may have packets.
    pub fn wake(&self) {
        self.rung.fetch_add(1, Ordering::Release);
        bell::wake(&self.rung);
        if let Some(event) = &self.event {
            // Full after 2^64 rings; that it is not empty is all that counts.
            let _ = rustix::io::write(event, &1_u64.to_ne_bytes());
        }
    }

    /// Whether there are commands that have not been looked at.
    pub(super) fn has_command(&self) -> bool {
        self.flag.load(Ordering::Acquire)
    }

    /// What to sleep on, so that ringing ends the sleep.
    pub(super) fn word(&self) -> WaitWord {
        WaitWord::new(&self.rung, self.rung.load(Ordering::Acquire))
    }
}
