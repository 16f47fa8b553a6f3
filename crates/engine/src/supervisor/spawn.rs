//! Starting a worker: as a thread, a process, or a container. All three speak the same protocol.
//!
//! - `thread`: the worker's end of a socket pair goes to a thread of this process.
//! - `process`: this binary again, with the socket as its standard input; in a process group of its
//!   own, so that Ctrl-C reaches the supervisor alone.
//! - `container`: an engine runs an image; the worker connects and shows its token (`container`).

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::chain::registry::Registry;
use crate::supervisor::container::Container;
use crate::worker::serve::{ServeError, serve};

/// What runs a worker.
#[derive(Debug)]
pub enum Body {
    /// A thread of this process.
    Thread(Option<JoinHandle<Result<(), ServeError>>>),
    /// A process, and the descriptor that tells its exit.
    Process(Child, OwnedFd),
    /// A container.
    Container(Container),
    /// A process that another supervisor has started: its number, and the descriptor that tells its
    /// exit. How it ended is told to nobody.
    Adopted(u32, OwnedFd),
}

/// A worker that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start worker {worker}: {reason}")]
pub struct SpawnError {
    /// Name of the worker.
    pub worker: String,
    /// Why, and what to do.
    pub reason: String,
}

fn failed(worker: &str, reason: impl std::fmt::Display) -> SpawnError {
    SpawnError {
        worker: worker.to_owned(),
        reason: reason.to_string(),
    }
}

/// A connected pair of control sockets, ours first; ours does not block.
fn control_pair(worker: &str) -> Result<(OwnedFd, OwnedFd), SpawnError> {
    let pair = || {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) = socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
        fcntl_setfl(&ours, fcntl_getfl(&ours)? | OFlags::NONBLOCK)?;
        Ok((ours, theirs))
    };
    pair().map_err(|error: Errno| failed(worker, error))
}

/// Starts a worker as a thread; gives the supervisor's end of its control connection.
///
/// # Errors
/// What the kernel refused.
pub fn thread(
    worker: &str,
    token: &str,
    registry: &Arc<Registry>,
) -> Result<(Body, OwnedFd), SpawnError> {
    let (ours, theirs) = control_pair(worker)?;
    let (token, registry) = (token.to_owned(), registry.clone());
    let handle = std::thread::Builder::new()
        .name(format!("{worker}-ctl").chars().take(15).collect())
        .spawn(move || serve(theirs, &token, &registry))
        .map_err(|error| failed(worker, error))?;
    Ok((Body::Thread(Some(handle)), ours))
}

/// Starts the keeper of chain `chain`; gives the supervisor's end of the connection to it.
///
/// # Errors
/// What the kernel refused.
pub fn keeper(chain: &str, program: &Path) -> Result<(Option<Child>, OwnedFd), SpawnError> {
    let pair = || {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)
    };
    let (ours, theirs) = pair().map_err(|error| failed("keeper", error))?;
    #[cfg(test)]
    if crate::supervisor::clock::is_simulated() {
        crate::supervisor::simulation::keep(theirs);
        return Ok((None, ours));
    }
    let child = Command::new(program)
        .args(["keeper", "--label", chain])
        .env_clear()
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed("keeper", format!("{}: {error}", program.display())))?;
    Ok((Some(child), ours))
}

/// Variables of the environment that a worker is given, if they are set: where a library that a
/// port loads is found, and whether a panic shows its way.
const KEPT_VARIABLES: [&str; 2] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE"];

/// Starts a worker as a process; gives the supervisor's end of its control connection.
///
/// # Errors
/// What the kernel refused.
pub fn process(
    worker: &str,
    chain: &str,
    token: &str,
    (program, outlives): (&Path, bool),
) -> Result<(Body, OwnedFd), SpawnError> {
    let (ours, theirs) = control_pair(worker)?;
    #[cfg(test)]
    if crate::supervisor::clock::is_simulated() {
        return Ok((crate::supervisor::simulation::start(theirs, token), ours));
    }
    let mut command = Command::new(program);
    command.args(["worker", "--label", &format!("{chain}/{worker}")]);
    if outlives {
        // Whoever reads what the chain says at its end would wait for this one as well.
        command.arg("--outlives").stdout(Stdio::null());
    }
    let child = command
        // What this process was told is none of a worker's business.
        .env_clear()
        .envs(
            KEPT_VARIABLES
                .iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .env("CATENA_TOKEN", token)
        .stdin(Stdio::from(theirs))
        .process_group(0)
        .spawn()
        .map_err(|error| failed(worker, format!("{}: {error}", program.display())))?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(worker, error))?;
    Ok((Body::Process(child, pidfd), ours))
}

impl Body {
    /// Process id, where there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Thread(_) => None,
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
            Self::Thread(_) => None,
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
            Self::Thread(_) => {}
            #[cfg(test)]
            Self::Adopted(pid, _) if crate::supervisor::simulation::kill(*pid) => {}
            Self::Process(_, pidfd) | Self::Adopted(_, pidfd) => {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
            Self::Container(container) => container.kill(),
        }
    }

    /// Waits for its end and says how it ended. Only after its exit is known or has been asked for.
    pub fn reap(&mut self) -> String {
        match self {
            Self::Thread(handle) => match handle.take().map(JoinHandle::join) {
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
