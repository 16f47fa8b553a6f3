//! The control socket of a running chain: one request and one answer per connection, both JSON.
//!
//! Both sides live here. The socket has mode 0600 and the supervisor checks the peer's
//! credentials; a request that does not parse gets an error for an answer. A text is sent in
//! records of at most [`RECORD_BYTES`], and ends where its sender stops sending: a chain file or
//! the status of a large chain is longer than one record may be. The supervisor waits only briefly
//! for whoever asks.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use catena_engine::chain::values::config_changes;
use catena_engine::chain::{Chain, Mode, ValueChange};
use catena_engine::probe::ProbeSettings;
use catena_engine::supervisor::adoption::{Orphan, orphan};
use catena_engine::supervisor::probing::ProbeMap;
use catena_engine::supervisor::runtime_dir::{control_path, default_root};
use catena_engine::supervisor::status::Status;
use catena_shm::fd_passing;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, connect, shutdown,
    socket_with,
};
use serde::{Deserialize, Serialize};

use super::Failure;
use super::asking_each::of_each;
use crate::seats::SEATS;

/// Longest record: well below what one message may be, and a few fit into the socket's queue.
const RECORD_BYTES: usize = 32 << 10;
const _: () = assert!(RECORD_BYTES <= fd_passing::MESSAGE_BYTES_MAX);
/// Longest text: a chain file of 1 MiB whose every character is escaped.
pub(super) const TEXT_BYTES_MAX: usize = 8 << 20;
/// How long a connection may take: its supervisor may be stopped, and its queue full.
const DIAL_PATIENCE: Duration = Duration::from_secs(2);
/// How long the supervisor waits for whoever asked for the end.
const SUPERVISOR_PATIENCE: Duration = Duration::from_millis(200);
/// How long an answer may take: NFs are given 2 s.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// How long each of several chains may take that are only looked at: one that asks an NF takes 2 s.
const LIST_PATIENCE: Duration = Duration::from_secs(3);
/// How long a chain may take to drain (5 s) and to stop (15 s), and an engine to take away all of
/// its containers, one after the other.
const STOP_PATIENCE: Duration = Duration::from_secs(120);

/// What can be asked of a running chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Request {
    /// Its status.
    Status,
    /// Stop it, draining it first; the answer is its last status.
    Stop,
    /// Become this.
    Apply(Wish),
    /// What that would come to, and whether it could be now.
    Plan(Wish),
    /// What control requests have changed of what it was started from.
    Drift,
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
    /// What a change would come to, or has come to.
    Planned(Box<Planned>),
    /// What it was started from, and nodes with their configurations there and as they run.
    Drift(Source, Vec<(String, serde_json::Value, serde_json::Value)>),
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
    /// What was asked for is too much for what is allowed here, and nothing was begun: why.
    Refused(String),
}

/// What a chain is to become.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Wish {
    /// What it is to be as.
    pub(crate) source: Source,
    /// Whether nothing stays of what control requests have changed.
    pub(crate) discards: bool,
}

/// What a change would come to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Planned {
    /// The steps for people; empty if there are none.
    pub(crate) text: String,
    /// The same for machines.
    pub(crate) actions: serde_json::Value,
    /// What else people are to know.
    pub(crate) remarks: Vec<String>,
    /// What stays of that which control requests have changed: `old` is in the file, `new` runs.
    pub(crate) amended: Vec<Amended>,
    /// Why it would be refused.
    pub(crate) refusal: Option<String>,
}

/// What control requests have changed of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Amended {
    /// Its name in the chain file.
    pub(crate) node: String,
    /// The values.
    pub(crate) values: Vec<ValueChange>,
}

impl Amended {
    /// Of a node, by its configuration in the file and as it runs.
    pub(crate) fn of(
        (node, written, runs): (String, serde_json::Value, serde_json::Value),
    ) -> Self {
        let values = config_changes(&written, &runs);
        Self { node, values }
    }
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

impl Source {
    /// As it is kept for whoever takes the chain over.
    pub(crate) fn origin(&self) -> String {
        // A path that is no text cannot be kept; then the chain cannot be taken over.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The chain that such a text stands for.
    pub(crate) fn read(origin: &str) -> Result<Chain, String> {
        let source: Self = serde_json::from_str(origin).map_err(|error| error.to_string())?;
        let registry = crate::registry::registry();
        let checked = Chain::parse(&source.text, &source.dir, &registry, source.mode);
        checked
            .map(|checked| checked.chain)
            .map_err(|errors| errors.to_string())
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
        Ok((Answer::Refused(reason), _)) => Err(Failure::input(reason)),
        Ok(answer) => Ok(answer),
        Err(AskError::NotRunning) => {
            if let Orphan::Left(left) = orphan(&default_root(), name) {
                return Err(Failure::running(format!(
                    "chain \"{name}\" runs without a supervisor, for another {} s; take it over \
                     with `catena run FILE --adopt`, or end it with `catena stop {name}`",
                    left.as_secs()
                )));
            }
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
        Errno::AGAIN => AskError::Late(DIAL_PATIENCE),
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

/// Names of chains that run: somebody has their control socket, also if he does not answer now.
pub(crate) fn running_chains() -> Vec<String> {
    let is_there = |name: &str| {
        let dialled = dial(&control_path(&default_root(), name));
        matches!(dialled, Ok(_) | Err(Errno::AGAIN))
    };
    let dialled = of_each(folders(), is_there).into_iter();
    let running = dialled.filter(|(_, is_there)| *is_there);
    running.map(|(name, _)| name).collect()
}

/// The status of each chain that runs, asked at the same time; or why it gave none. Those that end
/// meanwhile do not run.
pub(crate) fn statuses() -> Vec<(String, Result<Status, AskError>)> {
    let status_of = |name: &str| {
        let path = control_path(&default_root(), name);
        match exchange(&path, &Request::Status, LIST_PATIENCE)? {
            Answer::Status(status) => Ok(*status),
            other => Err(AskError::Failed(format!("{other:?}"))),
        }
    };
    let mut statuses = of_each(folders(), status_of);
    let has_ended = |error: &AskError| matches!(error, AskError::NotRunning | AskError::Ended);
    statuses.retain(|(_, status)| !status.as_ref().is_err_and(has_ended));
    statuses
}

/// Names of chains that run without a supervisor, and for how long they will.
pub(crate) fn orphans() -> Vec<(String, Duration)> {
    let orphans = folders()
        .into_iter()
        .filter_map(|name| match orphan(&default_root(), &name) {
            Orphan::Left(left) => Some((name, left)),
            Orphan::No => None,
        });
    orphans.collect()
}

/// Names of chains that have a folder, in order.
fn folders() -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(default_root()) else {
        return Vec::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.ends_with(".lock")).collect();
    names.sort();
    names
}

fn dial(path: &Path) -> rustix::io::Result<OwnedFd> {
    let address = SocketAddrUnix::new(path)?;
    let kind = SocketType::SEQPACKET;
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None)?;
    // A listener whose queue is full would make this wait for ever.
    set_socket_timeout(&socket, Timeout::Send, Some(DIAL_PATIENCE))?;
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

/// The supervisor's side: connections whose requests have not come whole. None of them can make it
/// wait.
#[derive(Debug, Default)]
pub(crate) struct Visitors {
    waiting: Vec<Visitor>,
}

/// Most of them; the one that has waited longest gives way.
const VISITORS_MAX: usize = SEATS;
/// How long a request may take to come.
const VISITOR_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
struct Visitor {
    socket: OwnedFd,
    text: Vec<u8>,
    since: Instant,
}

/// What a visitor has come to.
enum Visit {
    Waits,
    Request(Result<Request, String>),
}

impl Visitors {
    /// Their sockets: readable when there is more of a request.
    pub(crate) fn sockets(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.waiting.iter().map(|visitor| visitor.socket.as_fd())
    }

    /// Takes in a connection, whose socket does not block.
    pub(crate) fn admit(&mut self, socket: OwnedFd) {
        if self.waiting.len() == VISITORS_MAX {
            self.waiting.remove(0);
        }
        self.waiting.push(Visitor {
            socket,
            text: Vec::new(),
            since: Instant::now(),
        });
    }

    /// Reads what has come; gives the requests that are whole, or why one never will be.
    pub(crate) fn take_requests(&mut self) -> Vec<(OwnedFd, Result<Request, String>)> {
        let mut taken = Vec::new();
        for mut visitor in std::mem::take(&mut self.waiting) {
            match visitor.read() {
                Visit::Waits => self.waiting.push(visitor),
                Visit::Request(request) => taken.push((visitor.socket, request)),
            }
        }
        taken
    }
}

impl Visitor {
    fn read(&mut self) -> Visit {
        let failed = |reason: String| Visit::Request(Err(reason));
        loop {
            match fd_passing::receive(&self.socket) {
                Ok(Some(record)) => self.text.extend(record.bytes),
                Ok(None) => {
                    let request = serde_json::from_slice(&self.text);
                    return Visit::Request(
                        request.map_err(|error| format!("not a request: {error}")),
                    );
                }
                Err(Errno::AGAIN) if self.since.elapsed() < VISITOR_PATIENCE => {
                    return Visit::Waits;
                }
                Err(Errno::AGAIN) => {
                    return failed(format!("no request within {VISITOR_PATIENCE:?}"));
                }
                Err(error) => return failed(error.to_string()),
            }
            if self.text.len() > TEXT_BYTES_MAX {
                return failed(format!("a request has at most {TEXT_BYTES_MAX} bytes"));
            }
        }
    }
}

/// The supervisor's side: answers, waiting only briefly.
pub(crate) fn answer(socket: &OwnedFd, answer: &Answer) {
    send_answer(socket, answer, None, SUPERVISOR_PATIENCE);
}

/// The supervisor's side: answers, perhaps with memory, without waiting at all. Where too many read
/// too slowly, the connection is closed unanswered.
pub(crate) fn answer_aside(socket: OwnedFd, answer: Answer, memory: Option<OwnedFd>) {
    static AT_WORK: AtomicUsize = AtomicUsize::new(0);
    // Counts threads and guards no memory: Relaxed.
    if AT_WORK.fetch_add(1, Ordering::Relaxed) >= ANSWERS_MAX {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let thread = std::thread::Builder::new().name("answer".to_owned());
    let spawned = thread.spawn(move || {
        send_answer(&socket, &answer, memory.as_ref(), VISITOR_PATIENCE);
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    });
    if spawned.is_err() {
        AT_WORK.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Answers on their way, at most.
const ANSWERS_MAX: usize = SEATS;

fn send_answer(socket: &OwnedFd, answer: &Answer, memory: Option<&OwnedFd>, patience: Duration) {
    let fds: Vec<_> = memory.iter().map(|fd| fd.as_fd()).collect();
    let blocks =
        fcntl_getfl(socket).and_then(|flags| fcntl_setfl(socket, flags - OFlags::NONBLOCK));
    if let (Ok(()), Ok(mut bytes)) = (blocks, serde_json::to_vec(answer)) {
        if bytes.len() > TEXT_BYTES_MAX {
            let reason = format!("the answer has {} bytes", bytes.len());
            let error = Answer::Error(format!("{reason}, at most {TEXT_BYTES_MAX} are sent"));
            bytes = serde_json::to_vec(&error).unwrap_or_default();
        }
        // Whoever asked may be gone.
        let _ = send_text(socket, &bytes, &fds, patience);
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

    /// A visitor's own end.
    fn visit(visitors: &mut Visitors) -> OwnedFd {
        let (ours, theirs) = pair();
        fcntl_setfl(&theirs, fcntl_getfl(&theirs).unwrap() | OFlags::NONBLOCK).unwrap();
        visitors.admit(theirs);
        ours
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
    fn silent_peers_cost_the_supervisor_nothing_and_are_given_up() {
        let mut visitors = Visitors::default();
        let silent: Vec<_> = (0..VISITORS_MAX).map(|_| visit(&mut visitors)).collect();
        let talks = visit(&mut visitors);
        assert_eq!(visitors.waiting.len(), VISITORS_MAX, "the oldest gives way");
        assert!(visitors.take_requests().is_empty());
        send_text(&talks, b"\"status\"", &[], ANSWER_PATIENCE).unwrap();
        let taken = visitors.take_requests();
        assert_eq!(taken.len(), 1);
        assert_eq!(taken[0].1, Ok(Request::Status));
        for visitor in &mut visitors.waiting {
            visitor.since -= 2 * VISITOR_PATIENCE;
        }
        let late = visitors.take_requests();
        assert_eq!(late.len(), VISITORS_MAX - 1);
        assert!(late.iter().all(|(_, request)| request.is_err()));
        drop(silent);
    }

    #[test]
    fn what_is_no_request_is_an_error() {
        let mut visitors = Visitors::default();
        let ours = visit(&mut visitors);
        send_text(&ours, b"{\"launch\": 1}", &[], ANSWER_PATIENCE).unwrap();
        let taken = visitors.take_requests().remove(0).1;
        assert!(taken.unwrap_err().contains("not a request"));
    }
}
