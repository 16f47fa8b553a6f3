//! Who connects to whom on TCP links: the handshake, in the worker's control thread.
//!
//! The receiver of a link listens; its sender is told where, connects, and says the link's
//! question; the receiver says the link's answer. Both are random, from the supervisor, and known
//! to these two workers alone, so neither a stranger that connects nor one that has taken over a
//! port gets or gives a packet. Only then does the data path get the connection.
//!
//! A sender whose connection ends tries again, less and less often, until the supervisor gives it
//! another address. Nothing here waits: the control thread serves sockets as they become ready.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketFlags, SocketType, ipproto, sockopt};

use crate::link::tcp::prepare;
use crate::protocol::{Bind, LinkSecret};
use crate::worker::address::{gateway_address, listening_address};

/// Events with these numbers, and those above, are the connector's.
pub(super) const FIRST_EVENT: u64 = 1 << 32;
/// Connections that have not said who they are, at most; the oldest gives way.
const STRANGERS_MAX: usize = 16;
/// Senders that the kernel lets wait while the control thread is busy.
const QUEUE: i32 = 16;
const RETRY_MIN: Duration = Duration::from_millis(1);
const RETRY_MAX: Duration = Duration::from_millis(200);

/// A socket that listens, and where.
#[derive(Debug)]
pub(super) struct Door {
    /// Index of the link.
    pub(super) link: usize,
    /// Where.
    pub(super) address: SocketAddrV4,
    socket: OwnedFd,
    event: u64,
}

impl Door {
    /// Listens for the sender of `link` on a port that the kernel chooses.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub(super) fn open(link: usize, bind: Bind) -> Result<Self, String> {
        let ip = listening_address(bind)?;
        let failed = |error: Errno| format!("cannot listen on {ip}: {error}");
        let socket = tcp_socket().map_err(failed)?;
        net::bind(&socket, &SocketAddrV4::new(ip, 0)).map_err(failed)?;
        net::listen(&socket, QUEUE).map_err(failed)?;
        let name = net::getsockname(&socket).map_err(failed)?;
        let address = SocketAddrV4::try_from(name).map_err(failed)?;
        Ok(Self {
            link,
            address,
            socket,
            event: 0,
        })
    }
}

fn tcp_socket() -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (family, kind) = (AddressFamily::INET, SocketType::STREAM);
    let socket = net::socket_with(family, kind, flags, Some(ipproto::TCP))?;
    prepare(&socket)?;
    Ok(socket)
}

/// A connection for the data path.
#[derive(Debug)]
pub(super) enum Joined {
    /// One to receive from.
    Receive(usize, Arc<OwnedFd>),
    /// One to send to, or none any more.
    Send(usize, Option<Arc<OwnedFd>>),
}

/// A connection to a door of which it is not known yet who made it.
#[derive(Debug)]
struct Stranger {
    link: usize,
    socket: OwnedFd,
    event: u64,
    said: Vec<u8>,
}

/// A sender's way to its receiver.
#[derive(Debug)]
struct Call {
    link: usize,
    address: SocketAddrV4,
    event: u64,
    stage: Stage,
    delay: Duration,
}

#[derive(Debug)]
enum Stage {
    /// To be tried again.
    Waiting(Instant),
    /// The kernel connects.
    Connecting(OwnedFd),
    /// The question is said; so much of the answer has come.
    Asking(OwnedFd, Vec<u8>),
    /// The data path has it.
    Up(Arc<OwnedFd>),
}

/// Everything about connections that the control thread of a worker keeps.
#[derive(Debug)]
pub(super) struct Connector {
    watch: Arc<OwnedFd>,
    secrets: Vec<LinkSecret>,
    doors: Vec<Door>,
    strangers: VecDeque<Stranger>,
    calls: Vec<Call>,
    last_event: u64,
}

impl Connector {
    /// Serves `doors`, whose events `watch` is to give.
    ///
    /// # Errors
    /// What the kernel refuses.
    pub(super) fn new(
        watch: Arc<OwnedFd>,
        secrets: Vec<LinkSecret>,
        doors: Vec<Door>,
    ) -> Result<Self, Errno> {
        let mut connector = Self {
            watch,
            secrets,
            doors: Vec::new(),
            strangers: VecDeque::new(),
            calls: Vec::new(),
            last_event: FIRST_EVENT,
        };
        for mut door in doors {
            door.event = connector.register(&door.socket, EventFlags::IN)?;
            connector.doors.push(door);
        }
        Ok(connector)
    }

    fn register(&mut self, socket: &OwnedFd, flags: EventFlags) -> Result<u64, Errno> {
        self.last_event += 1;
        let data = epoll::EventData::new_u64(self.last_event);
        epoll::add(&*self.watch, socket, data, flags)?;
        Ok(self.last_event)
    }

    fn secret(&self, link: usize) -> Option<&LinkSecret> {
        self.secrets.iter().find(|secret| secret.link == link)
    }

    /// The receiver of `link` listens at `address`. Gives what the data path has to know.
    pub(super) fn call(&mut self, link: usize, address: SocketAddrV4) -> Option<Joined> {
        self.secret(link)?;
        let before = self.calls.iter().position(|call| call.link == link);
        let was_up = before.is_some_and(|at| match self.calls.swap_remove(at).stage {
            Stage::Up(socket) => {
                // The data path still has it: it would go on giving events.
                let _ = epoll::delete(&*self.watch, &*socket);
                true
            }
            _ => false,
        });
        self.calls.push(Call {
            link,
            address,
            event: 0,
            stage: Stage::Waiting(Instant::now()),
            delay: RETRY_MIN,
        });
        self.retry();
        was_up.then_some(Joined::Send(link, None))
    }

    /// How long until something is to be tried again.
    pub(super) fn due_in(&self) -> Option<Duration> {
        let waiting = self.calls.iter().filter_map(|call| match call.stage {
            Stage::Waiting(due) => Some(due.saturating_duration_since(Instant::now())),
            _ => None,
        });
        waiting.min()
    }

    /// Tries again what is due.
    pub(super) fn retry(&mut self) {
        let now = Instant::now();
        for at in 0..self.calls.len() {
            if matches!(self.calls[at].stage, Stage::Waiting(due) if due <= now) {
                let stage = match self.dial(self.calls[at].address) {
                    Ok((socket, event)) => {
                        self.calls[at].event = event;
                        Stage::Connecting(socket)
                    }
                    Err(_) => Stage::Waiting(self.calls[at].later()),
                };
                self.calls[at].stage = stage;
            }
        }
    }

    fn dial(&mut self, address: SocketAddrV4) -> Result<(OwnedFd, u64), String> {
        let text = |error: Errno| error.to_string();
        let ip = match *address.ip() {
            Ipv4Addr::UNSPECIFIED => gateway_address()?,
            ip => ip,
        };
        let socket = tcp_socket().map_err(text)?;
        match net::connect(&socket, &SocketAddrV4::new(ip, address.port())) {
            Ok(()) | Err(Errno::INPROGRESS) => {}
            Err(error) => return Err(text(error)),
        }
        let event = self.register(&socket, EventFlags::OUT).map_err(text)?;
        Ok((socket, event))
    }

    /// Something happened to the socket with this event number; gives what the data path has to
    /// know.
    pub(super) fn serve(&mut self, event: u64) -> Vec<Joined> {
        let mut joined = Vec::new();
        if let Some(at) = self.doors.iter().position(|door| door.event == event) {
            self.admit(at);
        } else if let Some(at) = self.strangers.iter().position(|one| one.event == event) {
            joined.extend(self.question(at));
        } else if let Some(at) = self.calls.iter().position(|call| call.event == event) {
            joined.extend(self.proceed(at));
        }
        joined
    }

    /// Lets in who waits at a door; nobody is believed yet.
    fn admit(&mut self, door: usize) {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        while let Ok(socket) = net::accept_with(&self.doors[door].socket, flags) {
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            if self.strangers.len() == STRANGERS_MAX {
                self.strangers.pop_front();
            }
            if let Ok(event) = self.register(&socket, EventFlags::IN) {
                self.strangers.push_back(Stranger {
                    link: self.doors[door].link,
                    socket,
                    event,
                    said: Vec::new(),
                });
            }
        }
    }

    /// A stranger says something. Closing the socket is the answer to what is wrong.
    fn question(&mut self, at: usize) -> Option<Joined> {
        let mut stranger = self.strangers.remove(at)?;
        let secret = self.secret(stranger.link)?;
        let (question, answer) = (secret.question.clone(), secret.answer.clone());
        match hear(&stranger.socket, &mut stranger.said, question.as_bytes()) {
            Hearing::More => {
                self.strangers.push_back(stranger);
                None
            }
            Hearing::Right if say(&stranger.socket, &answer) => {
                epoll::delete(&*self.watch, &stranger.socket).ok()?;
                Some(Joined::Receive(stranger.link, Arc::new(stranger.socket)))
            }
            Hearing::Right | Hearing::Wrong => None,
        }
    }

    /// A call goes on, or has ended.
    fn proceed(&mut self, at: usize) -> Option<Joined> {
        let link = self.calls[at].link;
        let later = Stage::Waiting(self.calls[at].later());
        let stage = std::mem::replace(&mut self.calls[at].stage, later);
        let secret = self.secret(link)?;
        match stage {
            Stage::Connecting(socket) => {
                let is_up = matches!(sockopt::socket_error(&socket), Ok(Ok(())));
                if is_up && say(&socket, &secret.question) && self.expect(&socket, at) {
                    self.calls[at].stage = Stage::Asking(socket, Vec::new());
                }
                None
            }
            Stage::Asking(socket, mut said) => {
                let answer = secret.answer.clone();
                match hear(&socket, &mut said, answer.as_bytes()) {
                    Hearing::More => self.calls[at].stage = Stage::Asking(socket, said),
                    Hearing::Right => {
                        let data = epoll::EventData::new_u64(self.calls[at].event);
                        epoll::modify(&*self.watch, &socket, data, EventFlags::RDHUP).ok()?;
                        let socket = Arc::new(socket);
                        self.calls[at].delay = RETRY_MIN;
                        self.calls[at].stage = Stage::Up(socket.clone());
                        return Some(Joined::Send(link, Some(socket)));
                    }
                    Hearing::Wrong => {}
                }
                None
            }
            // Only its end is watched for.
            Stage::Up(socket) => {
                let _ = epoll::delete(&*self.watch, &*socket);
                Some(Joined::Send(link, None))
            }
            waiting @ Stage::Waiting(_) => {
                self.calls[at].stage = waiting;
                None
            }
        }
    }

    fn expect(&self, socket: &OwnedFd, at: usize) -> bool {
        let data = epoll::EventData::new_u64(self.calls[at].event);
        epoll::modify(&*self.watch, socket, data, EventFlags::IN).is_ok()
    }
}

impl Call {
    /// When to try again.
    fn later(&mut self) -> Instant {
        let due = Instant::now() + self.delay;
        self.delay = (self.delay * 2).min(RETRY_MAX);
        due
    }
}

/// What became of waiting for a word.
enum Hearing {
    More,
    Right,
    Wrong,
}

/// Reads what is still missing of a word that `expected` should be, and no more.
fn hear(socket: &OwnedFd, said: &mut Vec<u8>, expected: &[u8]) -> Hearing {
    let mut word = vec![0; expected.len() - said.len()];
    match rustix::io::read(socket, &mut word[..]) {
        Ok(0) => return Hearing::Wrong,
        Ok(count) => said.extend_from_slice(&word[..count]),
        Err(Errno::AGAIN | Errno::INTR) => return Hearing::More,
        Err(_) => return Hearing::Wrong,
    }
    if said.len() < expected.len() {
        return Hearing::More;
    }
    match is_same(said, expected) {
        true => Hearing::Right,
        false => Hearing::Wrong,
    }
}

/// Compares in a time that does not tell how much is right.
fn is_same(said: &[u8], expected: &[u8]) -> bool {
    let difference = said
        .iter()
        .zip(expected)
        .fold(0, |sum, (a, b)| sum | (a ^ b));
    said.len() == expected.len() && std::hint::black_box(difference) == 0
}

/// Says a word on a new connection, which has room for it.
fn say(socket: &OwnedFd, word: &str) -> bool {
    rustix::net::send(socket, word.as_bytes(), net::SendFlags::NOSIGNAL) == Ok(word.len())
}

#[cfg(test)]
#[path = "connect_tests.rs"]
mod tests;
