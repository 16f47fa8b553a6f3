//! The keeper: a process that does nothing but hold a chain's estate while its supervisor lives,
//! and hand it to another when it has died.
//!
//! It maps no memory, speaks to no worker and decides one thing: who supervises. While somebody
//! does, everybody else is refused; so of two that would take over, one does. When a supervisor has
//! died, the chain is an orphan: its workers go on, for as long as the chain file allows, and are
//! killed then. A keeper that was given no book ends the chain at once: it had not come up.
//!
//! Who asks must be of this user or root, and no worker of the chain.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use catena_shm::fd_passing::{self, FDS_MAX};
use catena_shm::peer;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{SocketFlags, accept_with};
use rustix::process::{Signal, pidfd_send_signal};
use serde::{Deserialize, Serialize};

use crate::protocol::VERSION;
use crate::protocol::parts::{Incoming, Outgoing};

/// First bytes of what a supervisor says: the door and the limit, descriptors, a book, the end.
pub(super) const OPEN: u8 = b'O';
/// Descriptors by key.
pub(super) const PARK: u8 = b'P';
/// The book, which names every key that is still needed.
pub(super) const BOOK: u8 = b'B';
/// There is nothing left to keep.
pub(super) const END: u8 = b'E';

/// Longest text.
pub(super) const TEXT_BYTES_MAX: usize = 256 << 20;
/// Callers that have not said what they want, at most; the oldest gives way.
const CALLERS_MAX: usize = 16;
/// How long one may take to say it, or to take what it is given.
const CALLER_PATIENCE: Duration = Duration::from_secs(5);

/// What callers ask. This and [`Reply`] stay as they are in all versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Call {
    /// Who supervises?
    Who,
    /// Let me.
    Adopt {
        /// The caller's protocol version.
        version: u32,
    },
    /// Kill all workers, if nobody supervises them.
    Kill,
}

/// What they are answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Reply {
    /// Somebody supervises.
    Supervised {
        /// Its process.
        pid: u32,
    },
    /// Nobody does.
    Orphaned {
        /// Until its end, in milliseconds.
        left_ms: u64,
    },
    /// Descriptors, by these keys.
    Parcels(Vec<String>),
    /// All descriptors have come; the book follows as a record of its own.
    Book,
    /// The workers are no more.
    Killed,
    /// No, and why.
    Refused(String),
}

/// What a supervisor says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Opening {
    /// Its process.
    pub(super) pid: u32,
    /// How long the chain may be an orphan, in milliseconds.
    pub(super) limit_ms: u64,
}

/// What was heard of the supervisor.
enum Said {
    Something,
    Nothing,
    /// There is nothing left to keep.
    Last,
}

/// What the keeper reads of a book.
#[derive(Debug, Default, Deserialize)]
struct Heads {
    keys: std::collections::BTreeSet<String>,
    pids: Vec<u32>,
}

struct Keeper {
    /// Who supervises, and its process.
    supervisor: Option<(OwnedFd, u32)>,
    incoming: Incoming,
    door: OwnedFd,
    limit: Duration,
    /// Since when nobody has supervised: the last to write a book. Whoever takes over and goes at
    /// once gives the chain no more time.
    orphan_since: Option<Instant>,
    parked: BTreeMap<String, OwnedFd>,
    book: Vec<u8>,
    pids: Vec<u32>,
    callers: Vec<(OwnedFd, Instant)>,
}

/// Keeps the estate of the chain whose supervisor is at the other end of `supervisor`. Returns when
/// there is nothing left to keep.
///
/// # Errors
/// What the kernel refused, or a supervisor that does not say what one says first.
pub fn keep(supervisor: OwnedFd) -> Result<(), Errno> {
    let mut incoming = Incoming::new(TEXT_BYTES_MAX);
    let (opening, door) = loop {
        // It may be gone before it has said anything: then there is nothing to keep.
        let Some(message) = fd_passing::receive(&supervisor)? else {
            return Ok(());
        };
        let Some(record) = incoming.take(message).map_err(|_| Errno::PROTO)? else {
            continue;
        };
        let text = record.bytes.strip_prefix(&[OPEN]).ok_or(Errno::PROTO)?;
        let opening: Opening = serde_json::from_slice(text).map_err(|_| Errno::PROTO)?;
        let door = record.fds.into_iter().next().ok_or(Errno::PROTO)?;
        break (opening, door);
    };
    unblock(&supervisor)?;
    let mut keeper = Keeper {
        supervisor: Some((supervisor, opening.pid)),
        incoming,
        door,
        limit: Duration::from_millis(opening.limit_ms),
        orphan_since: None,
        parked: BTreeMap::new(),
        book: Vec::new(),
        pids: Vec::new(),
        callers: Vec::new(),
    };
    while keeper.serve()? {}
    Ok(())
}

impl Keeper {
    /// Serves what has happened; false when there is nothing left to keep.
    fn serve(&mut self) -> Result<bool, Errno> {
        let left = self.left();
        if left.is_some_and(|left| left.is_zero()) {
            self.kill();
            return Ok(false);
        }
        let fds = std::iter::once(self.door.as_fd());
        let fds = fds.chain(self.callers.iter().map(|(socket, _)| socket.as_fd()));
        let fds = fds.chain(self.supervisor.iter().map(|(socket, _)| socket.as_fd()));
        let mut fds: Vec<PollFd<'_>> = fds
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        // Callers that say nothing are let go of in time.
        let caller = (!self.callers.is_empty()).then_some(CALLER_PATIENCE);
        let wait = left.into_iter().chain(caller).min();
        // Rounded up, so that what is due is due then.
        let wait = wait.map(|wait| wait + Duration::from_millis(1));
        let wait = wait.and_then(|wait| Timespec::try_from(wait).ok());
        match poll(&mut fds, wait.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        let has_spoken = self.supervisor.is_some() && ready.last() == Some(&true);
        // To the end: whoever calls because it has died must not be told that it lives.
        while has_spoken && self.supervisor.is_some() {
            match self.hear_supervisor() {
                Said::Something => {}
                Said::Nothing => break,
                Said::Last => return Ok(false),
            }
        }
        let now = Instant::now();
        let callers = std::mem::take(&mut self.callers);
        for (index, (socket, since)) in callers.into_iter().enumerate() {
            if ready[index + 1] {
                if !self.answer(socket) {
                    return Ok(false);
                }
            } else if now - since < CALLER_PATIENCE {
                self.callers.push((socket, since));
            }
        }
        if ready[0]
            && let Ok(socket) = accept_with(&self.door, SocketFlags::CLOEXEC)
        {
            if self.callers.len() == CALLERS_MAX {
                self.callers.remove(0);
            }
            self.callers.push((socket, now));
        }
        Ok(true)
    }

    /// How long the chain may be an orphan from now on, if it is one.
    fn left(&self) -> Option<Duration> {
        let since = self.orphan_since.filter(|_| self.supervisor.is_none())?;
        Some(self.limit.saturating_sub(since.elapsed()))
    }

    /// One message of the supervisor, or its end.
    fn hear_supervisor(&mut self) -> Said {
        let Some((socket, _)) = &self.supervisor else {
            return Said::Nothing;
        };
        let record = match fd_passing::receive(socket) {
            Ok(Some(message)) => self.incoming.take(message),
            Err(Errno::AGAIN) => return Said::Nothing,
            Ok(None) | Err(_) => return self.orphaned(),
        };
        let record = match record {
            Ok(Some(record)) => record,
            Ok(None) => return Said::Something,
            Err(_) => return self.orphaned(),
        };
        let Some((kind, text)) = record.bytes.split_first() else {
            return Said::Something;
        };
        match *kind {
            PARK => {
                let keys: Vec<String> = serde_json::from_slice(text).unwrap_or_default();
                self.parked.extend(keys.into_iter().zip(record.fds));
            }
            BOOK => {
                let heads: Heads = serde_json::from_slice(text).unwrap_or_default();
                self.parked.retain(|key, _| heads.keys.contains(key));
                self.pids = heads.pids;
                self.book = text.to_vec();
                self.orphan_since = None;
            }
            END => return Said::Last,
            _ => {}
        }
        Said::Something
    }

    /// The supervisor has died.
    fn orphaned(&mut self) -> Said {
        self.supervisor = None;
        self.incoming = Incoming::new(TEXT_BYTES_MAX);
        self.orphan_since.get_or_insert_with(Instant::now);
        if self.book.is_empty() {
            // It had not come up: nobody could take it over.
            return Said::Last;
        }
        Said::Nothing
    }

    /// Answers one who has called; false when there is nothing left to keep.
    fn answer(&mut self, socket: OwnedFd) -> bool {
        let _ = set_socket_timeout(&socket, Timeout::Send, Some(CALLER_PATIENCE));
        let Ok(Some(message)) = fd_passing::receive(&socket) else {
            return true;
        };
        let call = serde_json::from_slice(&message.bytes);
        let refused = |why: &str| Reply::Refused(why.to_owned());
        let reply = match (call, self.admits(&socket)) {
            (_, Err(why)) => Reply::Refused(why),
            (Err(error), Ok(())) => Reply::Refused(format!("not a request: {error}")),
            (Ok(Call::Who), Ok(())) => self.who(),
            (Ok(_), Ok(())) if self.supervisor.is_some() => self.who(),
            (Ok(Call::Kill), Ok(())) => {
                self.kill();
                let _ = say(&socket, &Reply::Killed, &[]);
                return false;
            }
            (Ok(Call::Adopt { version }), Ok(())) if version != VERSION => refused(
                "its workers were started by another version of catena; take it over with that \
                 one, or end it with `catena stop`",
            ),
            (Ok(Call::Adopt { .. }), Ok(())) => {
                let pid = peer::credentials(&socket).ok().and_then(|peer| peer.pid);
                let pid = pid.map_or(0, |pid| pid.as_raw_nonzero().get().unsigned_abs());
                // One that dies meanwhile leaves all as it was.
                if self.hand_over(&socket).is_ok() && unblock(&socket).is_ok() {
                    self.supervisor = Some((socket, pid));
                }
                return true;
            }
        };
        let _ = say(&socket, &reply, &[]);
        true
    }

    fn who(&self) -> Reply {
        match &self.supervisor {
            Some((_, pid)) => Reply::Supervised { pid: *pid },
            None => Reply::Orphaned {
                left_ms: self.left().map_or(0, |left| {
                    u64::try_from(left.as_millis()).unwrap_or(u64::MAX)
                }),
            },
        }
    }

    /// Whether a caller may ask anything.
    fn admits(&self, socket: &OwnedFd) -> Result<(), String> {
        let peer = peer::credentials(socket).map_err(|error| error.to_string())?;
        let own = rustix::process::getuid().as_raw();
        admitted(peer, own, &self.pids)
    }

    fn hand_over(&self, socket: &OwnedFd) -> Result<(), Errno> {
        let parked: Vec<_> = self.parked.iter().collect();
        for parcels in parked.chunks(FDS_MAX) {
            let keys = parcels.iter().map(|(key, _)| (*key).clone()).collect();
            let fds: Vec<BorrowedFd<'_>> = parcels.iter().map(|(_, fd)| fd.as_fd()).collect();
            say(socket, &Reply::Parcels(keys), &fds)?;
        }
        say(socket, &Reply::Book, &[])?;
        Outgoing::new(self.book.clone()).send(socket, &[])
    }

    /// Ends every worker that is in the book.
    fn kill(&self) {
        for (key, process) in &self.parked {
            if key.starts_with("process ") {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
    }
}

/// Whether `peer` may be told of a chain of user `own` whose workers are `pids`.
fn admitted(peer: peer::Peer, own: u32, pids: &[u32]) -> Result<(), String> {
    if ![own, 0].contains(&peer.uid) {
        return Err("it belongs to another user".to_owned());
    }
    let pid = peer
        .pid
        .map(|pid| pid.as_raw_nonzero().get().unsigned_abs());
    if pid.is_none_or(|pid| pids.contains(&pid)) {
        return Err("this process is one of its workers, or cannot be named".to_owned());
    }
    Ok(())
}

/// What comes over `socket` from now on is not waited for.
fn unblock(socket: &OwnedFd) -> Result<(), Errno> {
    fcntl_setfl(socket, fcntl_getfl(socket)? | OFlags::NONBLOCK)
}

fn say(socket: &OwnedFd, reply: &Reply, fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    let bytes = serde_json::to_vec(reply).map_err(|_| Errno::INVAL)?;
    Outgoing::new(bytes).send(socket, fds)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::thread::JoinHandle;

    use rustix::net::{
        AddressFamily, SocketAddrUnix, SocketType, bind, connect, listen, socket_with, socketpair,
    };

    use super::*;

    const KIND: SocketType = SocketType::SEQPACKET;

    fn address(dir: &Path) -> SocketAddrUnix {
        SocketAddrUnix::new(dir.join("keeper.sock")).unwrap()
    }

    fn socket() -> OwnedFd {
        socket_with(AddressFamily::UNIX, KIND, SocketFlags::CLOEXEC, None).unwrap()
    }

    /// A keeper at work, and its supervisor's end.
    fn start(dir: &Path, limit_ms: u64) -> (OwnedFd, JoinHandle<Result<(), Errno>>) {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, KIND, SocketFlags::CLOEXEC, None).unwrap();
        let door = socket();
        bind(&door, &address(dir)).unwrap();
        listen(&door, 8).unwrap();
        let keeper = std::thread::spawn(move || keep(theirs));
        let text = serde_json::to_vec(&Opening { pid: 7, limit_ms }).unwrap();
        tell(&ours, OPEN, &text, &[door.as_fd()]);
        (ours, keeper)
    }

    fn tell(socket: &OwnedFd, kind: u8, text: &[u8], fds: &[BorrowedFd<'_>]) {
        let bytes = [&[kind][..], text].concat();
        Outgoing::new(bytes).send(socket, fds).unwrap();
    }

    fn record(socket: &OwnedFd) -> fd_passing::Message {
        let mut incoming = Incoming::new(TEXT_BYTES_MAX);
        loop {
            let message = fd_passing::receive(socket).unwrap().unwrap();
            if let Some(record) = incoming.take(message).unwrap() {
                return record;
            }
        }
    }

    fn call(dir: &Path, call: &Call) -> (OwnedFd, Reply, usize) {
        let socket = socket();
        connect(&socket, &address(dir)).unwrap();
        let text = serde_json::to_vec(call).unwrap();
        Outgoing::new(text).send(&socket, &[]).unwrap();
        let record = record(&socket);
        let reply = serde_json::from_slice(&record.bytes).unwrap();
        (socket, reply, record.fds.len())
    }

    const BOOK_TEXT: &[u8] = br#"{"keys":["a","b"],"pids":[],"rest":1}"#;

    #[test]
    fn one_caller_gets_the_last_whole_book_once_the_supervisor_is_dead() {
        let dir = tempfile::tempdir().unwrap();
        let (supervisor, keeper) = start(dir.path(), 600_000);
        let file = std::fs::File::open("/dev/null").unwrap();
        let keys = br#"["a","b","c"]"#;
        tell(&supervisor, PARK, keys, &[file.as_fd(); 3]);
        tell(&supervisor, BOOK, BOOK_TEXT, &[]);
        let adopt = |version| call(dir.path(), &Call::Adopt { version });
        assert_eq!(adopt(VERSION).1, Reply::Supervised { pid: 7 });
        // It dies in the middle of the next book: ASCII's record separator says that more follows.
        let half = [&[0x1e, BOOK][..], br#"{"keys":[]"#].concat();
        fd_passing::send(&supervisor, &half, &[]).unwrap();
        drop(supervisor);
        let left = call(dir.path(), &Call::Who).1;
        assert!(matches!(left, Reply::Orphaned { left_ms } if left_ms > 500_000));
        let Reply::Refused(why) = adopt(VERSION ^ 1).1 else {
            panic!("another version must be refused");
        };
        assert!(why.contains("another version"), "{why}");
        let (heir, reply, count) = adopt(VERSION);
        let kept = vec!["a".to_owned(), "b".to_owned()];
        assert_eq!((reply, count), (Reply::Parcels(kept), 2));
        assert_eq!(record(&heir).bytes, br#""book""#);
        assert_eq!(record(&heir).bytes, BOOK_TEXT);
        let own = rustix::process::getpid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        assert_eq!(adopt(VERSION).1, Reply::Supervised { pid: own });
        assert_eq!(
            call(dir.path(), &Call::Kill).1,
            Reply::Supervised { pid: own }
        );
        tell(&heir, END, &[], &[]);
        keeper.join().unwrap().unwrap();
    }

    #[test]
    fn an_orphan_has_its_time_and_no_more() {
        let dir = tempfile::tempdir().unwrap();
        let (supervisor, keeper) = start(dir.path(), 50);
        tell(&supervisor, BOOK, BOOK_TEXT, &[]);
        drop(supervisor);
        keeper.join().unwrap().unwrap();
    }

    #[test]
    fn a_chain_that_had_not_come_up_is_nobodys() {
        let dir = tempfile::tempdir().unwrap();
        let (supervisor, keeper) = start(dir.path(), 600_000);
        drop(supervisor);
        keeper.join().unwrap().unwrap();
    }

    #[test]
    fn other_users_and_workers_of_the_chain_are_refused() {
        let peer = |pid, uid| peer::Peer {
            pid: rustix::process::Pid::from_raw(pid),
            uid,
        };
        assert!(admitted(peer(5, 1000), 1000, &[6]).is_ok());
        assert!(admitted(peer(5, 0), 1000, &[6]).is_ok());
        assert!(admitted(peer(5, 1001), 1000, &[6]).is_err());
        assert!(admitted(peer(6, 1000), 1000, &[6]).is_err());
        assert!(
            admitted(peer(0, 1000), 1000, &[6]).is_err(),
            "nobody can be named"
        );
    }
}
