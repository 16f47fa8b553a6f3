//! Workers whose containers are somebody else's: they wait for their chain, and join it.
//!
//! The supervisor leaves a token for each worker that it wants beside its socket; who can read it
//! may be that worker. A worker that ends badly is started again by whoever started it, and waits
//! for its next token: here, where there are several to a container, by the first process, else by
//! the compose tool (`restart: on-failure`).

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use catena_engine::supervisor::container::token_path;
use catena_engine::worker::serve::serve;
use rustix::event::{Timespec, poll};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use rustix::process::{Signal, set_parent_process_death_signal};

use super::{Failure, Outcome};
use crate::bench::registry;

/// How often the folder is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Set for a worker that another process of this program has started: the number of that process.
const CHILD: &str = "CATENA_JOINING_CHILD";

/// Joins the chain as these workers; returns when they have been stopped.
///
/// # Errors
/// A worker ended otherwise.
pub(super) fn run(folder: &Path, names: &[String]) -> Outcome {
    match names {
        [name] => join(folder, name),
        names => oversee(folder, names),
    }
}

fn join(folder: &Path, name: &str) -> Outcome {
    let failed = |error: &dyn std::fmt::Display| Failure::running(format!("{name}: {error}"));
    if let Ok(parent) = std::env::var(CHILD) {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        // One that has died before this call tells nobody.
        if std::os::unix::process::parent_id().to_string() != parent {
            return Err(failed(&"the process that started it has ended"));
        }
    }
    let (socket, token) = loop {
        let Ok(token) = std::fs::read_to_string(token_path(folder, name)) else {
            wait();
            continue;
        };
        match dial(&folder.join("worker.sock")) {
            Ok(socket) => break (socket, token),
            // The chain has just ended, or a killed one left its folder.
            Err(rustix::io::Errno::NOENT | rustix::io::Errno::CONNREFUSED) => wait(),
            Err(error) => return Err(failed(&error)),
        }
    };
    serve(socket, &token, &registry()).map_err(|error| failed(&error))?;
    Ok(ExitCode::SUCCESS)
}

fn wait() {
    let timeout = Timespec::try_from(LOOK_EVERY).ok();
    // Nothing to wait for but the time.
    let _ = poll(&mut [], timeout.as_ref());
}

/// A process for each worker, started again until it has been stopped in order.
fn oversee(folder: &Path, names: &[String]) -> Outcome {
    let program = std::env::current_exe().map_err(Failure::running)?;
    let start = |name: &String| -> Result<Child, Failure> {
        let words: [&OsStr; 5] = [
            "worker".as_ref(),
            "--join".as_ref(),
            folder.as_ref(),
            "--as".as_ref(),
            name.as_ref(),
        ];
        let mut command = Command::new(&program);
        command.args(words);
        command.env(CHILD, std::process::id().to_string());
        command.spawn().map_err(Failure::running)
    };
    let mut children = Vec::new();
    for name in names {
        children.push((name, start(name)?));
    }
    while !children.is_empty() {
        let mut left = Vec::new();
        for (name, mut child) in children {
            match child.try_wait().map_err(Failure::running)? {
                None => left.push((name, child)),
                Some(status) if status.success() => {}
                Some(_) => left.push((name, start(name)?)),
            }
        }
        children = left;
        wait();
    }
    Ok(ExitCode::SUCCESS)
}

/// A connection to a supervisor's socket.
pub(super) fn dial(path: &Path) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}
