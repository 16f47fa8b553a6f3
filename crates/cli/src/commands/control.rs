//! The control socket of a running chain: one request, one answer, both JSON.
//!
//! Both sides live here. The socket has mode 0600 and the supervisor checks the peer's credentials;
//! a request that does not parse gets an error for an answer.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use catena_engine::supervisor::runtime_dir::{control_path, default_root};
use catena_engine::supervisor::status::Status;
use catena_shm::fd_passing;
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
use serde::{Deserialize, Serialize};

use super::Failure;

/// What can be asked of a running chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Its status.
    Status,
    /// Stop it, draining it first.
    Stop,
    /// A request to one of its NFs.
    Control {
        /// Name of the node.
        node: String,
        /// The request.
        request: serde_json::Value,
    },
}

/// What it answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// Its status.
    Status(Box<Status>),
    /// Done, or begun.
    Ok,
    /// The NF's answer.
    Control(serde_json::Value),
    /// It could not be done, and why.
    Error(String),
}

/// Where chains run: for commands that ask one.
#[derive(Debug, clap::Args)]
pub(crate) struct Target {
    /// Name of the chain; may be left out if only one runs
    pub(crate) chain: Option<String>,
}

impl Target {
    /// Asks the chain.
    pub(crate) fn ask(&self, request: &Request) -> Result<Answer, Failure> {
        let name = self.name()?;
        let path = control_path(&default_root(), &name);
        let not_running = |_| Failure::running(format!("chain \"{name}\" is not running"));
        let socket = dial(&path).map_err(not_running)?;
        let failed =
            |error: rustix::io::Errno| Failure::running(format!("chain \"{name}\": {error}"));
        let bytes = serde_json::to_vec(request).map_err(Failure::running)?;
        fd_passing::send(&socket, &bytes, &[]).map_err(failed)?;
        let message = fd_passing::receive(&socket).map_err(failed)?;
        let message = message.ok_or_else(|| Failure::running(format!("chain \"{name}\" ended")))?;
        match serde_json::from_slice(&message.bytes).map_err(Failure::running)? {
            Answer::Error(reason) => Err(Failure::running(reason)),
            answer => Ok(answer),
        }
    }

    fn name(&self) -> Result<String, Failure> {
        if let Some(name) = &self.chain {
            return Ok(name.clone());
        }
        let running = running_chains();
        match running.as_slice() {
            [one] => Ok(one.clone()),
            [] => Err(Failure::running("no chain is running")),
            many => {
                let names = many.join(", ");
                Err(Failure::input(format!(
                    "several chains are running; name one of: {names}"
                )))
            }
        }
    }
}

/// Names of chains whose control socket answers.
fn running_chains() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(default_root()) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names
        .filter(|name| dial(&control_path(&default_root(), name)).is_ok())
        .collect();
    names.sort();
    names
}

fn dial(path: &PathBuf) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// The supervisor's side: reads the request of an accepted connection, waiting only briefly.
pub(crate) fn read_request(socket: &OwnedFd) -> Result<Request, String> {
    let patience = Some(Duration::from_millis(200));
    rustix::net::sockopt::set_socket_timeout(socket, rustix::net::sockopt::Timeout::Recv, patience)
        .and_then(|()| {
            rustix::net::sockopt::set_socket_timeout(
                socket,
                rustix::net::sockopt::Timeout::Send,
                patience,
            )
        })
        .map_err(|error| error.to_string())?;
    let message = fd_passing::receive(socket).map_err(|error| error.to_string())?;
    let message = message.ok_or("no request")?;
    serde_json::from_slice(&message.bytes).map_err(|error| format!("not a request: {error}"))
}

/// The supervisor's side: answers.
pub(crate) fn answer(socket: &OwnedFd, answer: &Answer) {
    if let Ok(bytes) = serde_json::to_vec(answer) {
        // Whoever asked may be gone.
        let _ = fd_passing::send(socket, &bytes, &[]);
    }
}
