//! What runs a worker: how it is known to have ended, and how it is made to.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Signal, pidfd_send_signal};

use crate::supervisor::container::Container;
use crate::worker::serve_error::ServeError;

/// What runs a worker.
#[derive(Debug)]
pub enum Body {
    /// A thread of this process, and a channel that is closed at its end.
    Thread(
        Option<JoinHandle<Result<(), ServeError>>>,
        Receiver<Infallible>,
    ),
    /// A process, and the descriptor that tells its exit.
    Process(Child, OwnedFd),
    /// A container.
    Container(Container),
    /// A process that another supervisor has started: its number, and the descriptor that tells its
    /// exit. How it ended is told to nobody.
    Adopted(u32, OwnedFd),
}

impl Body {
    /// Process id, where there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Thread(..) => None,
            Self::Process(child, _) => Some(child.id()),
            Self::Adopted(pid, _) => Some(*pid),
            Self::Container(container) => container.pid(),
        }
    }

    /// The descriptor that becomes readable at its exit.
    pub fn exit_fd(&self) -> Option<&OwnedFd> {
        match self {
            Self::Process(_, pidfd) | Self::Adopted(_, pidfd) => Some(pidfd),
            Self::Container(container) => container.exit_fd(),
            Self::Thread(..) => None,
        }
    }

    /// Whether another supervisor has started it: how it ends is told to nobody.
    pub fn is_adopted(&self) -> bool {
        match self {
            Self::Adopted(..) => true,
            Self::Container(container) => container.is_inherited,
            Self::Thread(..) | Self::Process(..) => false,
        }
    }

    /// Whether somebody else started it.
    pub fn has_joined(&self) -> bool {
        matches!(self, Self::Container(container) if container.has_joined())
    }

    /// Kills it, if it can be killed: a worker that broke the protocol. A thread ends by itself
    /// when its connection does.
    pub fn kill(&mut self) {
        match self {
            Self::Thread(..) => {}
            #[cfg(test)]
            Self::Adopted(pid, _) if crate::supervisor::simulation::kill(*pid) => {}
            Self::Process(_, pidfd) | Self::Adopted(_, pidfd) => {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
            Self::Container(container) => container.kill(),
        }
    }

    /// Waits until it has ended, if it is a thread: nothing can make one, so it may live for ever.
    /// Says whether it has.
    pub fn ends_within(&self, patience: Duration) -> bool {
        let Self::Thread(_, ended) = self else {
            return true;
        };
        ended.recv_timeout(patience) != Err(RecvTimeoutError::Timeout)
    }

    /// Waits for its end and says how it ended. Only after its exit is known or has been asked for.
    pub fn reap(&mut self) -> String {
        match self {
            Self::Thread(handle, _) => match handle.take().map(JoinHandle::join) {
                Some(Ok(Ok(()))) | None => "ended".to_owned(),
                Some(Ok(Err(error))) => error.to_string(),
                Some(Err(_)) => "panicked".to_owned(),
            },
            Self::Process(child, _) => child
                .wait()
                .map_or_else(|error| error.to_string(), |status| status.to_string()),
            Self::Container(container) => container.how_it_ended(),
            Self::Adopted(_, pidfd) => {
                // Nobody's child is waited for: its exit is certain when this is readable.
                let _ = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], None);
                "ended; how is not known, since another supervisor had started it".to_owned()
            }
        }
    }
}
