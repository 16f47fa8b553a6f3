//! The control socket of a running chain: one request and one answer per connection, both JSON.
//!
//! Both sides live here. The socket has mode 0600 and the supervisor checks the peer's
//! credentials; a request that does not parse gets an error for an answer. A text is sent in
//! records of at most [`RECORD_BYTES`], and ends where its sender stops sending: a chain file or
//! the status of a large chain is longer than one record may be. The supervisor waits only briefly
//! for whoever asks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use catena_engine::chain::Mode;
use catena_engine::probe::ProbeSettings;
use catena_engine::supervisor::probing::ProbeMap;
use catena_engine::supervisor::runtime_dir::{control_path, default_root};
use catena_engine::supervisor::status::Status;
use catena_shm::fd_passing;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown,
    socket_with,
};
use serde::{Deserialize, Serialize};

use super::Failure;

/// Longest record: well below what one message may be, and a few fit into the socket's queue.
const RECORD_BYTES: usize = 32 << 10;
const _: () = assert!(RECORD_BYTES <= fd_passing::MESSAGE_BYTES_MAX);
/// Longest text: a chain file of 1 MiB whose every character is escaped.
pub(super) const TEXT_BYTES_MAX: usize = 8 << 20;
/// How long the supervisor waits for whoever asks.
const SUPERVISOR_PATIENCE: Duration = Duration::from_millis(200);
/// How long an answer may take: NFs are given 2 s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long a chain may take to drain (5 s) and to stop (10 s).
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// What can be asked of a running chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Its status.
    Status,
    /// Stop it, draining it first; the answer is its last status.
    Stop,
    /// What it was started from.
    Chain,
    /// Become this.
    Apply(Source),
    /// What its probes are to note.
    Probe(ProbeSettings),
    /// What the numbers in its probes' records stand for, and whose records there are.
    ProbeMap,
    /// The page that a worker's probes write into.
    ProbePage {
        /// Number of the worker.
        worker: usize,
    },
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
    /// What it was started from.
    Chain(Source),
    /// The steps that were taken.
    Applied {
        /// For people; empty if there was nothing to do.
        text: String,
        /// For machines.
        actions: serde_json::Value,
    },
    /// The NF's answer.
    Control(serde_json::Value),
    /// Its probes note what was asked.
    Probing,
    /// What numbers stand for, and which life of which worker has a page.
    ProbeMap(Box<ProbeMap>, Vec<(usize, u32)>),
    /// A page, whose descriptor comes along.
    ProbePage {
        /// Which life of the worker writes it.
        epoch: u32,
        /// Its size in bytes.
        len: usize,
    },
    /// It could not be done, and why.
    Error(String),
}

/// What a chain was started from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// Text of the chain file.
    pub(crate) text: String,
    /// Its folder, absolute.
    pub(crate) dir: PathBuf,
    /// The mode given on the command line.
    pub(crate) mode: Option<Mode>,
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
        ask(&self.name()?, request)
    }

    /// The chain's status.
    pub(crate) fn status(&self) -> Result<Status, Failure> {
        status_in(self.ask(&Request::Status)?)
    }

    /// The chain's name.
    pub(crate) fn name(&self) -> Result<String, Failure> {
        if let Some(name) = &self.chain {
            return Ok(name.clone());
        }
        match running_chains().as_slice() {
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

/// Asks the chain of that name.
pub(crate) fn ask(name: &str, request: &Request) -> Result<Answer, Failure> {
    ask_for_memory(name, request).map(|(answer, _)| answer)
}

/// Asks the chain of that name; descriptors may come with the answer.
pub(crate) fn ask_for_memory(
    name: &str,
    request: &Request,
) -> Result<(Answer, Vec<OwnedFd>), Failure> {
    let patience = match request {
        Request::Stop => STOP_PATIENCE,
        _ => ANSWER_PATIENCE,
    };
    let path = control_path(&default_root(), name);
    match exchange_memory(&path, request, patience) {
        Ok((Answer::Error(reason), _)) => Err(Failure::running(reason)),
        Ok(answer) => Ok(answer),
        Err(AskError::NotRunning) => {
            let hint = match running_chains().as_slice() {
                [] => "; no chain is".to_owned(),
                names => format!("; running: {}", names.join(", ")),
            };
            Err(Failure::running(format!(
                "chain \"{name}\" is not running{hint}"
            )))
        }
        Err(error) => Err(Failure::running(format!("chain \"{name}\" {error}"))),
    }
}

/// The status in an answer to a question for it.
pub(crate) fn status_in(answer: Answer) -> Result<Status, Failure> {
    match answer {
        Answer::Status(status) => Ok(*status),
        other => Err(unexpected(&other)),
    }
}

/// An answer to another question.
pub(crate) fn unexpected(answer: &Answer) -> Failure {
    Failure::running(format!("the chain gave an unexpected answer: {answer:?}"))
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AskError {
    /// Nobody listens.
    NotRunning,
    /// It ended before it answered.
    Ended,
    /// It took too long.
    Late(Duration),
    /// Anything else.
    Failed(String),
}

impl std::fmt::Display for AskError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotRunning => write!(f, "is not running"),
            Self::Ended => write!(f, "ended before it answered"),
            Self::Late(patience) => write!(f, "did not answer within {patience:?}"),
            Self::Failed(reason) => write!(f, "cannot be asked: {reason}"),
        }
    }
}

/// Asks whoever listens at `path`.
pub(crate) fn exchange(
    path: &Path,
    request: &Request,
    patience: Duration,
) -> Result<Answer, AskError> {
    exchange_memory(path, request, patience).map(|(answer, _)| answer)
}

fn exchange_memory(
    path: &Path,
    request: &Request,
    patience: Duration,
) -> Result<(Answer, Vec<OwnedFd>), AskError> {
    let failed = |error: &dyn ToString| AskError::Failed(error.to_string());
    let socket = dial(path).map_err(|error| match error {
        Errno::NOENT | Errno::CONNREFUSED => AskError::NotRunning,
        other => failed(&other),
    })?;
    let bytes = serde_json::to_vec(request).map_err(|error| failed(&error))?;
    if bytes.len() > TEXT_BYTES_MAX {
        let reason = format!("the request has {} bytes", bytes.len());
        return Err(failed(&format!(
            "{reason}, at most {TEXT_BYTES_MAX} are taken"
        )));
    }
    send_text(&socket, &bytes, &[], patience).map_err(|error| match error {
        Errno::PIPE | Errno::CONNRESET => AskError::Ended,
        other => failed(&other),
    })?;
    let (bytes, fds) = receive_text(&socket, patience).map_err(|error| match error {
        Errno::AGAIN => AskError::Late(patience),
        Errno::CONNRESET => AskError::Ended,
        other => failed(&other),
    })?;
    if bytes.is_empty() {
        return Err(AskError::Ended);
    }
    let answer = serde_json::from_slice(&bytes).map_err(|error| failed(&error))?;
    Ok((answer, fds))
}

/// Names of chains whose control socket answers.
pub(crate) fn running_chains() -> Vec<String> {
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

fn dial(path: &Path) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &address)?;
    Ok(socket)
}

/// Sends a text, with descriptors in its first record, and says that it is all. Each record may
/// take `patience`.
fn send_text(
    socket: &OwnedFd,
    bytes: &[u8],
    fds: &[BorrowedFd<'_>],
    patience: Duration,
) -> rustix::io::Result<()> {
    set_socket_timeout(socket, Timeout::Send, Some(patience))?;
    for (index, record) in bytes.chunks(RECORD_BYTES).enumerate() {
        let fds = if index == 0 { fds } else { &[] };
        fd_passing::send(socket, record, fds)?;
    }
    shutdown(socket, Shutdown::Write)
}

/// A text to its end, which must come within `patience`, and the descriptors of its first record;
/// empty if the peer sent nothing.
fn receive_text(
    socket: &OwnedFd,
    patience: Duration,
) -> rustix::io::Result<(Vec<u8>, Vec<OwnedFd>)> {
    let deadline = Instant::now() + patience;
    let (mut text, mut fds) = (Vec::new(), Vec::new());
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        // A timeout of 0 would be none.
        set_socket_timeout(
            socket,
            Timeout::Recv,
            Some(left.max(Duration::from_millis(1))),
        )?;
        match fd_passing::receive(socket)? {
            None => return Ok((text, fds)),
            Some(_) if left.is_zero() => return Err(Errno::AGAIN),
            Some(record) => {
                if text.is_empty() {
                    fds = record.fds;
                }
                text.extend(record.bytes);
            }
        }
        if text.len() > TEXT_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
    }
}

/// The supervisor's side: reads the request of an accepted connection, waiting only briefly.
pub(crate) fn read_request(socket: &OwnedFd) -> Result<Request, String> {
    let (text, _) = receive_text(socket, SUPERVISOR_PATIENCE).map_err(|error| error.to_string())?;
    serde_json::from_slice(&text).map_err(|error| format!("not a request: {error}"))
}

/// The supervisor's side: answers.
pub(crate) fn answer(socket: &OwnedFd, answer: &Answer) {
    answer_with(socket, answer, None);
}

/// The supervisor's side: answers, with memory.
pub(crate) fn answer_with(socket: &OwnedFd, answer: &Answer, memory: Option<&OwnedFd>) {
    let fds: Vec<_> = memory.iter().map(|fd| fd.as_fd()).collect();
    if let Ok(mut bytes) = serde_json::to_vec(answer) {
        if bytes.len() > TEXT_BYTES_MAX {
            let reason = format!("the answer has {} bytes", bytes.len());
            let error = Answer::Error(format!("{reason}, at most {TEXT_BYTES_MAX} are sent"));
            bytes = serde_json::to_vec(&error).unwrap_or_default();
        }
        // Whoever asked may be gone.
        let _ = send_text(socket, &bytes, &fds, SUPERVISOR_PATIENCE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::socketpair;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    #[test]
    fn a_text_longer_than_a_message_arrives_whole() {
        let (ours, theirs) = pair();
        let text = vec![b'x'; fd_passing::MESSAGE_BYTES_MAX * 5 + 7];
        let sent = text.clone();
        let sender = std::thread::spawn(move || send_text(&ours, &sent, &[], ANSWER_PATIENCE));
        let (arrived, _) = receive_text(&theirs, ANSWER_PATIENCE).unwrap();
        assert_eq!(arrived, text);
        sender.join().unwrap().unwrap();
    }

    #[test]
    fn a_silent_peer_costs_the_supervisor_its_patience_and_no_more() {
        let (_ours, theirs) = pair();
        let began = Instant::now();
        assert!(read_request(&theirs).is_err());
        let took = began.elapsed();
        assert!(took >= SUPERVISOR_PATIENCE / 2, "{took:?}");
        assert!(took < SUPERVISOR_PATIENCE * 10, "{took:?}");
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        let (ours, theirs) = pair();
        send_text(&ours, b"{\"launch\": 1}", &[], ANSWER_PATIENCE).unwrap();
        assert!(read_request(&theirs).unwrap_err().contains("not a request"));
    }
}
