//! Starting a worker: as a thread, a process, or a container. All three speak the same protocol.
//!
//! - `thread`: the worker's end of a socket pair goes to a thread of this process.
//! - `process`: this binary again, with the socket as its standard input; in a process group of its
//!   own, so that Ctrl-C reaches the supervisor alone.
//! - `container`: an engine (podman, else docker) runs the image with nothing but the socket's
//!   folder mounted, no network, no capability, a read-only root and an unprivileged user; the
//!   worker connects and shows its token.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::chain::registry::Registry;
use crate::worker::serve::{ServeError, serve};

/// What runs a worker.
#[derive(Debug)]
pub enum Body {
    /// A thread of this process.
    Thread(Option<JoinHandle<Result<(), ServeError>>>),
    /// A process, and the descriptor that tells its exit.
    Process(Child, OwnedFd),
    /// A container: the engine's client, and, once connected, the worker's process.
    Container {
        /// `podman run` or `docker run`.
        client: Child,
        /// Name of the container.
        name: String,
        /// Which engine.
        engine: &'static str,
        /// The worker's process, seen from here.
        pidfd: Option<OwnedFd>,
    },
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

/// A connected pair of control sockets.
fn control_pair(worker: &str) -> Result<(OwnedFd, OwnedFd), SpawnError> {
    socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )
    .map_err(|error| failed(worker, error))
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

/// Starts a worker as a process; gives the supervisor's end of its control connection.
///
/// # Errors
/// What the kernel refused.
pub fn process(
    worker: &str,
    chain: &str,
    token: &str,
    program: &Path,
) -> Result<(Body, OwnedFd), SpawnError> {
    let (ours, theirs) = control_pair(worker)?;
    let child = Command::new(program)
        .args(["worker", "--label", &format!("{chain}/{worker}")])
        .env("CATENA_TOKEN", token)
        .stdin(Stdio::from(theirs))
        .process_group(0)
        .spawn()
        .map_err(|error| failed(worker, format!("{}: {error}", program.display())))?;
    let pid = Pid::from_child(&child);
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(worker, error))?;
    Ok((Body::Process(child, pidfd), ours))
}

/// What a container is run from.
#[derive(Clone, Debug)]
pub struct ContainerPlan {
    /// podman or docker, as found.
    pub engine: &'static str,
    /// Image with the binary as entry point.
    pub image: String,
    /// Folder with the socket, mounted at `/run/catena`.
    pub socket_dir: PathBuf,
}

/// The engine to use: `CATENA_CONTAINER_ENGINE`, else podman, else docker.
pub fn find_engine() -> Option<&'static str> {
    let asked = std::env::var("CATENA_CONTAINER_ENGINE").ok();
    let answers = |engine: &&str| {
        asked.as_deref().is_none_or(|name| name == *engine)
            && Command::new(engine)
                .arg("--version")
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .is_ok_and(|status| status.success())
    };
    ["podman", "docker"]
        .into_iter()
        .find(|engine| answers(engine))
}

/// Starts a worker as a container; it will connect to the socket in `plan.socket_dir`.
///
/// # Errors
/// What the engine or the kernel refused.
pub fn container(
    worker: &str,
    chain: &str,
    epoch: u32,
    token: &str,
    plan: &ContainerPlan,
) -> Result<Body, SpawnError> {
    let name = format!("catena-{chain}-{worker}-{epoch}");
    let mount = format!("{}:/run/catena", plan.socket_dir.display());
    let mut command = Command::new(plan.engine);
    if let Ok(options) = std::env::var("CATENA_CONTAINER_OPTIONS") {
        command.args(options.split_whitespace());
    }
    command.args(["run", "--rm", "--name", &name, "--network", "none"]);
    command.args(["--user", "65534:65534", "--cap-drop", "ALL", "--read-only"]);
    command.args(["--security-opt", "no-new-privileges", "-v", &mount]);
    if let Ok(options) = std::env::var("CATENA_CONTAINER_RUN_OPTIONS") {
        command.args(options.split_whitespace());
    }
    command.args(["-e", "CATENA_TOKEN", &plan.image]);
    command.args([
        "worker",
        "--socket",
        "/run/catena/worker.sock",
        "--label",
        &name,
    ]);
    let client = command
        .env("CATENA_TOKEN", token)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .map_err(|error| failed(worker, format!("{}: {error}", plan.engine)))?;
    Ok(Body::Container {
        client,
        name,
        engine: plan.engine,
        pidfd: None,
    })
}

impl Body {
    /// Process id, where there is one.
    pub fn pid(&self) -> Option<u32> {
        match self {
            Self::Thread(_) => None,
            Self::Process(child, _) => Some(child.id()),
            Self::Container { client, .. } => Some(client.id()),
        }
    }

    /// The descriptor that becomes readable at its exit.
    pub fn exit_fd(&self) -> Option<&OwnedFd> {
        match self {
            Self::Process(_, pidfd) => Some(pidfd),
            Self::Container { pidfd, .. } => pidfd.as_ref(),
            Self::Thread(_) => None,
        }
    }

    /// Kills it, if it can be killed: a worker that broke the protocol. A thread ends by itself
    /// when its connection does.
    pub fn kill(&mut self) {
        match self {
            Self::Thread(_) => {}
            Self::Process(_, pidfd) => {
                let _ = pidfd_send_signal(pidfd, Signal::KILL);
            }
            Self::Container { engine, name, .. } => {
                let _ = Command::new(engine)
                    .args(["kill", name])
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .status();
            }
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
            Self::Process(child, _) | Self::Container { client: child, .. } => child
                .wait()
                .map_or_else(|error| error.to_string(), |status| status.to_string()),
        }
    }
}
