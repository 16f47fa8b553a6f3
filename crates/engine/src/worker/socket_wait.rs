//! Sleeping until a socket has something, for workers whose links are connections.
//!
//! Every connection of the data path is registered once, edge-triggered, so that going to sleep
//! costs one system call, however many there are. Edges from before the last look are cleared
//! before it: what comes later ends the sleep at once. The worker's doorbell rings here too, by an
//! event descriptor.
//!
//! A worker that also has rings must sleep on their futexes: then its control thread watches this
//! descriptor, and rings.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, epoll, eventfd, poll};
use rustix::io::Errno;

/// Below this, a wait is given to the kernel in nanoseconds: the other way knows milliseconds.
const FINE: Duration = Duration::from_millis(2);
/// Edges that are cleared at once; more only end the next sleep early.
const EVENTS: usize = 16;

/// What a worker with such links sleeps on.
#[derive(Debug)]
pub struct SocketWait {
    epoll: OwnedFd,
    bell: Arc<OwnedFd>,
}

impl SocketWait {
    /// Nothing but the bell yet.
    ///
    /// # Errors
    /// No descriptors are left.
    pub fn new() -> Result<Self, Errno> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let wait = Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            bell: Arc::new(bell),
        };
        wait.add(&wait.bell)?;
        Ok(wait)
    }

    /// By writing a number to it, anybody ends the sleep.
    pub fn bell(&self) -> Arc<OwnedFd> {
        self.bell.clone()
    }

    /// From now on `socket` ends the sleep, until it is closed.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub fn add(&self, socket: impl AsFd) -> Result<(), Errno> {
        use epoll::EventFlags as Flags;
        let flags = Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET;
        epoll::add(&self.epoll, socket, epoll::EventData::new_u64(0), flags)
    }

    /// Clears what has been said so far; to be called before the last look.
    pub fn clear(&self) {
        self.wait(Duration::ZERO);
    }

    /// Sleeps until something happens after the last look, or time is up.
    pub fn sleep(&self, time: Duration) {
        if time >= FINE {
            return self.wait(time);
        }
        if let Ok(time) = Timespec::try_from(time) {
            let mut fds = [PollFd::new(&self.epoll, PollFlags::IN)];
            let _ = poll(&mut fds, Some(&time));
        }
    }

    fn wait(&self, time: Duration) {
        // What happened does not matter: the next turn looks at every socket.
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS];
        // Whole milliseconds, rounded down: what is left is waited for finely.
        let time = Timespec {
            tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: i64::from(time.subsec_millis()) * 1_000_000,
        };
        let _ = epoll::wait(&self.epoll, &mut events[..], Some(&time));
    }
}

impl AsFd for SocketWait {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.epoll.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::net::UnixStream;
    use std::time::Instant;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn what_happens_after_the_last_look_ends_the_sleep() {
        let wait = SocketWait::new().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        wait.add(&near).unwrap();
        wait.clear();
        let start = Instant::now();
        far.write_all(&[1]).unwrap();
        wait.sleep(LONG);
        wait.clear();
        rustix::io::write(wait.bell(), &1_u64.to_ne_bytes()).unwrap();
        wait.sleep(LONG);
        wait.clear();
        drop(far);
        wait.sleep(LONG);
        assert!(start.elapsed() < LONG / 2);
    }

    #[test]
    fn old_news_does_not_end_it() {
        let wait = SocketWait::new().unwrap();
        let (near, mut far) = UnixStream::pair().unwrap();
        wait.add(&near).unwrap();
        far.write_all(&[1]).unwrap();
        wait.clear();
        for time in [Duration::from_micros(300), Duration::from_millis(3)] {
            let start = Instant::now();
            wait.sleep(time);
            assert!(start.elapsed() >= time);
        }
    }
}
