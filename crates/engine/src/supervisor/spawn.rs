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
use std::sync::mpsc::channel;

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use crate::chain::registry::Registry;
pub use crate::supervisor::body::Body;
pub use crate::supervisor::start_error::SpawnError;
use crate::worker::serve::serve;

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
    let (lives, ended) = channel();
    let handle = std::thread::Builder::new()
        .name(format!("{worker}-ctl").chars().take(15).collect())
        .spawn(move || {
            // Closed when the thread ends, however it does.
            let _lives = lives;
            serve(theirs, &token, &registry)
        })
        .map_err(|error| failed(worker, error))?;
    Ok((Body::Thread(Some(handle), ended), ours))
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
const KEPT_VARIABLES: [&str; 4] = ["LD_LIBRARY_PATH", "RUST_BACKTRACE", "CATENA_DPDK", "HOME"];

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
