//! Containers for workers: the engine that runs them, and what it leaves.
//!
//! A container is run by podman or docker from an image with the `catena` binary, and gets nothing
//! but the folder of the workers' socket: no network (unless TCP links reach it: then the engine's
//! bridge), no capability, an unprivileged user, a read-only root, no new privileges, no image
//! pulled, and no system call but those that workers need. Its worker connects, shows the token
//! that its environment holds, and from then on all memory comes and goes as descriptors over that
//! connection.
//!
//! - A worker's exit is told by a descriptor of its process; until it has connected, by the
//!   engine's client. The client outlives the worker by the time that the engine needs to tidy up;
//!   nobody waits for it before the chain stops.
//! - Containers carry the socket's folder as a label. Who holds the lock of that folder knows that
//!   any such container is a leftover of a supervisor that was killed, and removes it.
//!
//! Environment: `CATENA_CONTAINER_ENGINE` names the engine; `CATENA_CONTAINER_OPTIONS` go before
//! the engine's subcommand, `CATENA_CONTAINER_RUN_OPTIONS` behind `run`.
//!
//! With the engine `join` nothing is started here: somebody else runs the containers (a compose
//! tool), and their workers join. The token of each lies beside the socket, readable by this user
//! alone, from when the worker is wanted until it has come. Such a worker is ended by ending its
//! connection; whoever started it starts it again, and it waits for its next token.

mod filter;
mod inherited;
mod limits;

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::chain::{Chain, Mode};
use crate::placement::Placement;
use crate::supervisor::container::limits::{
    PRIVATE_BYTES_MAX, TASKS_MAX, maps_users, own_limits, user_of,
};
use crate::supervisor::runtime_dir::RuntimeDir;
use crate::supervisor::start_error::SpawnError;

/// Engines, in the order in which they are tried.
const ENGINES: [&str; 2] = ["podman", "docker"];
/// What stands for an engine where containers are somebody else's.
pub(super) const JOIN: &str = "join";
/// How long an engine may take to answer a question or to remove a container.
const ENGINE_PATIENCE: Duration = Duration::from_secs(10);
/// How often an engine is told to kill a container that is not there yet.
const KILL_EVERY: Duration = Duration::from_millis(200);
/// Where a container finds the socket's folder.
const MOUNT_POINT: &str = "/run/catena";
/// Label of a container: the folder mounted into it.
const LABEL: &str = "catena.sockets";

/// What a chain's containers are run from.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    engine: &'static str,
    /// Folder with the socket.
    socket_dir: PathBuf,
    /// The list of system calls that workers may use; none where workers join.
    system_calls: Option<PathBuf>,
    /// User and group of the containers.
    user: String,
}

/// The containers of a chain, as far as they are not workers.
#[derive(Debug)]
pub(super) struct Containers {
    /// What they are run from.
    pub(super) plan: Plan,
    /// Connections that have not shown a token.
    pub(super) strangers: Vec<OwnedFd>,
    /// Those whose workers have ended, until the engine has removed them.
    pub(super) departing: Vec<Container>,
}

/// What a container is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Network {
    /// Nothing.
    None,
    /// The engine's bridge, by a pair of virtual interfaces.
    Bridge,
}

/// A container that runs a worker.
#[derive(Debug)]
pub struct Container {
    pub(super) engine: &'static str,
    pub(super) name: String,
    /// `podman run` or `docker run`, and the descriptor that tells its exit; none where workers
    /// join, and where another supervisor has started it.
    client: Option<(Child, OwnedFd)>,
    /// The worker's process, once it has connected.
    pub(super) worker: Option<Process>,
    /// Clients that were told to kill it.
    killers: Vec<Child>,
    /// Whether its worker had come to another supervisor, which has died.
    pub(super) is_inherited: bool,
}

/// A worker's process, as seen from outside its container.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) pid: Option<Pid>,
    pub(super) exit: OwnedFd,
}

impl Containers {
    /// What the chain needs for its containers; none if it has none.
    ///
    /// # Errors
    /// No engine has the image.
    pub(super) fn for_chain(
        chain: &Chain,
        placement: &Placement,
        runtime: &RuntimeDir,
    ) -> Result<Option<Self>, SpawnError> {
        let mut workers = placement.workers.iter();
        let Some(worker) = workers.find(|worker| worker.mode == Mode::Container) else {
            return Ok(None);
        };
        let plan = Plan::new(image_of(chain), runtime).map_err(|reason| SpawnError {
            worker: worker.name.clone(),
            reason,
        })?;
        Ok(Some(Self {
            plan,
            strangers: Vec::new(),
            departing: Vec::new(),
        }))
    }

    /// Removes what a supervisor that was killed may have left: the lock of the socket's folder is
    /// ours, so nobody uses it.
    pub(super) fn remove_leftovers(&self) {
        self.plan.remove_others(&[]);
    }

    /// What becomes readable when somebody connects or shows a token.
    pub(super) fn doors<'a>(
        &'a self,
        runtime: &'a RuntimeDir,
    ) -> impl Iterator<Item = &'a OwnedFd> {
        std::iter::once(runtime.worker_listener()).chain(&self.strangers)
    }
}

impl Plan {
    fn new(image: &str, runtime: &RuntimeDir) -> Result<Self, String> {
        let asked = std::env::var("CATENA_CONTAINER_ENGINE").ok();
        let socket_dir = runtime.worker_dir();
        if asked.as_deref() == Some(JOIN) {
            return Ok(Self {
                engine: JOIN,
                socket_dir,
                system_calls: None,
                user: String::new(),
            });
        }
        let is_asked = |engine: &&str| asked.as_deref().is_none_or(|name| name == *engine);
        let mut reasons = Vec::new();
        for engine in ENGINES.into_iter().filter(is_asked) {
            match ask(engine, &["image", "inspect", "--format", "{{.Id}}", image]) {
                Ok(_) => {
                    let list = filter::leave_in(runtime.path())
                        .map_err(|error| format!("the list of system calls: {error}"))?;
                    let are_mapped = maps_users(engine, |args| ask(engine, args))
                        .map_err(|why| format!("{engine} does not say who it runs as: {why}"))?;
                    return Ok(Self {
                        engine,
                        user: user_of(&socket_dir, are_mapped),
                        socket_dir,
                        system_calls: Some(list),
                    });
                }
                Err(reason) => reasons.push(format!("{engine}: {reason}")),
            }
        }
        if reasons.is_empty() {
            return Err(format!(
                "CATENA_CONTAINER_ENGINE is \"{}\"; the engines known are {}, and {JOIN} where \
                 containers are started by others",
                asked.unwrap_or_default(),
                ENGINES.join(" and ")
            ));
        }
        Err(format!(
            "no container engine has the image {image} ({}); build it with `cargo xtask image`, or \
             run the chain with --mode process",
            reasons.join("; ")
        ))
    }

    /// Starts a worker's container, or leaves its token for one that joins: it will connect.
    ///
    /// # Errors
    /// The engine's client cannot be started, or the token not be written.
    pub(super) fn start(
        &self,
        worker: &str,
        chain: &Chain,
        epoch: u32,
        token: &str,
        (network, shared_bytes): (Network, u64),
    ) -> Result<Container, SpawnError> {
        let failed = |error: std::io::Error| SpawnError {
            worker: worker.to_owned(),
            reason: format!("{}: {error}", self.engine),
        };
        if self.engine == JOIN {
            self.leave_token(worker, token).map_err(failed)?;
            return Ok(Container {
                engine: self.engine,
                name: worker.to_owned(),
                client: None,
                worker: None,
                killers: Vec::new(),
                is_inherited: false,
            });
        }
        let chain_name = &chain.name;
        // Two supervisors may run chains of the same name from different folders.
        let name = format!(
            "catena-{chain_name}-{}-{epoch}-{}",
            as_file_name(worker),
            std::process::id()
        );
        let socket_dir = self.socket_dir.display();
        let mut command = engine_command(self.engine);
        command.args(["run", "--rm", "--pull", "never", "--name", &name]);
        command.args(["--label", &format!("{LABEL}={socket_dir}")]);
        let network = match network {
            Network::None => "none",
            Network::Bridge => "bridge",
        };
        command.args(["--network", network, "--user", &self.user]);
        command.args(["--cap-drop", "ALL", "--security-opt", "no-new-privileges"]);
        let memory = format!("{}b", shared_bytes.saturating_add(PRIVATE_BYTES_MAX));
        command.args(["--memory", &memory, "--pids-limit", TASKS_MAX]);
        if let Some(list) = &self.system_calls {
            command.args(["--security-opt", &format!("seccomp={}", list.display())]);
        }
        command.args(["--read-only", "--mount"]);
        command.arg(format!(
            "type=bind,source={socket_dir},target={MOUNT_POINT},readonly"
        ));
        if self.engine == "podman" {
            command.args(own_limits());
            // Else it makes /tmp and others writable, in memory.
            command.arg("--read-only-tmpfs=false");
        }
        if let Ok(options) = std::env::var("CATENA_CONTAINER_RUN_OPTIONS") {
            command.args(options.split_whitespace());
        }
        command.args(["--env", "CATENA_TOKEN", image_of(chain)]);
        command.args(["worker", "--socket"]);
        command.arg(format!("{MOUNT_POINT}/worker.sock"));
        command.args(["--label", &format!("{chain_name}/{worker}")]);
        let client = command
            .env("CATENA_TOKEN", token)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let client_exit = pidfd_open(Pid::from_child(&client), PidfdFlags::empty())
            .map_err(|error| failed(error.into()))?;
        Ok(Container {
            engine: self.engine,
            name,
            client: Some((client, client_exit)),
            worker: None,
            killers: Vec::new(),
            is_inherited: false,
        })
    }
}

impl Plan {
    /// Leaves the token of a worker that is to join. It appears at once, all of it.
    fn leave_token(&self, worker: &str, token: &str) -> std::io::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;
        let part = self
            .socket_dir
            .join(format!("{}.part", as_file_name(worker)));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(&part)?.write_all(token.as_bytes())?;
        std::fs::rename(part, self.token_path(worker))
    }

    fn token_path(&self, worker: &str) -> PathBuf {
        token_path(&self.socket_dir, worker)
    }
}

/// Where the token of a worker that is to join lies, in the folder of the workers' socket.
pub fn token_path(socket_dir: &Path, worker: &str) -> PathBuf {
    socket_dir.join(format!("{}.token", as_file_name(worker)))
}

/// A worker's name as engines and folders take it: no name in a chain file has what stands for the
/// mark before a shard's number.
fn as_file_name(worker: &str) -> String {
    worker.replace('/', "_")
}

/// The image that a chain's containers are run from.
fn image_of(chain: &Chain) -> &str {
    chain.run.image.as_deref().unwrap_or("catena-worker")
}

fn engine_command(engine: &str) -> Command {
    let mut command = Command::new(engine);
    if let Ok(options) = std::env::var("CATENA_CONTAINER_OPTIONS") {
        command.args(options.split_whitespace());
    }
    command
}

/// What an engine answers to a question.
fn ask(engine: &str, args: &[&str]) -> Result<String, String> {
    let mut child = match engine_command(engine)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
    {
        Ok(child) => child,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err("not installed".to_owned());
        }
        Err(error) => return Err(error.to_string()),
    };
    let exit = pidfd_open(Pid::from_child(&child), PidfdFlags::empty());
    // Answers are short: they fit a pipe.
    if exit.is_ok_and(|exit| !is_readable_within(&exit, ENGINE_PATIENCE)) {
        let _ = child.kill();
        let _ = child.wait();
        return Err(format!("no answer within {ENGINE_PATIENCE:?}"));
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    let (mut answer, mut complaint) = (String::new(), String::new());
    if let (Some(mut out), Some(mut err)) = (child.stdout.take(), child.stderr.take()) {
        let _ = out.read_to_string(&mut answer);
        let _ = err.read_to_string(&mut complaint);
    }
    if status.success() {
        return Ok(answer);
    }
    let line = complaint.lines().rfind(|line| !line.trim().is_empty());
    Err(line.unwrap_or(&status.to_string()).trim().to_owned())
}

fn is_readable_within(fd: &OwnedFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let Ok(timeout) = Timespec::try_from(left) else {
            return false;
        };
        match poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)) {
            Ok(ready) => return ready > 0,
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}

impl Container {
    /// The worker's process, once it has connected; until then the engine's client.
    pub(super) fn pid(&self) -> Option<u32> {
        match &self.worker {
            Some(process) => process
                .pid
                .map(|pid| pid.as_raw_nonzero().get().cast_unsigned()),
            None => self.client.as_ref().map(|(client, _)| client.id()),
        }
    }

    /// Readable once the worker has certainly ended; none before it has joined.
    pub(super) fn exit_fd(&self) -> Option<&OwnedFd> {
        let worker = self.worker.as_ref().map(|process| &process.exit);
        worker.or(self.client.as_ref().map(|(_, exit)| exit))
    }

    /// Whether somebody else started it.
    pub(super) fn has_joined(&self) -> bool {
        self.engine == JOIN
    }

    /// Kills the worker, or has the engine do it: where users are mapped, this process may not. One
    /// that joined from elsewhere ends when its connection does.
    pub(super) fn kill(&mut self) {
        let killed = self
            .worker
            .as_ref()
            .map(|process| pidfd_send_signal(&process.exit, Signal::KILL));
        let is_killed = matches!(killed, Some(Ok(()) | Err(Errno::SRCH)));
        if !is_killed && !self.has_joined() {
            self.killers.extend(
                engine_command(self.engine)
                    .args(["kill", &self.name])
                    .stdin(Stdio::null())
                    .stdout(Stdio::null())
                    .stderr(Stdio::null())
                    .process_group(0)
                    .spawn(),
            );
        }
    }

    /// What is known of its end now.
    pub(super) fn how_it_ended(&mut self) -> String {
        let status = self.client.as_mut().map(|(client, _)| client.try_wait());
        match status {
            Some(Ok(Some(status))) => format!("{} run: {status}", self.engine),
            None if self.has_joined() => "it left".to_owned(),
            Some(_) | None => "its container ended".to_owned(),
        }
    }

    /// Whether the engine has done with it.
    pub(super) fn is_gone(&mut self) -> bool {
        self.killers
            .retain_mut(|killer| matches!(killer.try_wait(), Ok(None)));
        let is_run = |(client, _): &mut (Child, OwnedFd)| matches!(client.try_wait(), Ok(None));
        !self.client.as_mut().is_some_and(is_run) && self.killers.is_empty()
    }

    /// Waits until the engine has removed it, and sees to it that it does.
    pub(super) fn remove(&mut self) {
        let Some((mut client, client_exit)) = self.client.take() else {
            if !self.has_joined() {
                let _ = ask(self.engine, &["rm", "--force", &self.name]);
            }
            return;
        };
        let deadline = Instant::now() + ENGINE_PATIENCE;
        while !is_readable_within(&client_exit, KILL_EVERY) {
            if Instant::now() > deadline {
                // A client that does not live to its end removes nothing.
                let _ = client.kill();
                let _ = ask(self.engine, &["rm", "--force", &self.name]);
                break;
            }
            // Told too early, the engine knew no container of this name yet.
            let has_ended = |killer: &mut Child| !matches!(killer.try_wait(), Ok(None));
            if self.killers.iter_mut().all(has_ended) {
                self.worker = None;
                self.kill();
            }
        }
        let _ = client.wait();
        for killer in &mut self.killers {
            let _ = killer.wait();
        }
    }
}
