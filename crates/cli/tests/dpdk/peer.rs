//! What peers of a socket have in common that a test plays itself: messages with descriptors, and
//! memory that is shared and read and written through its descriptor, as no honest peer need be.

use std::fs::File;
use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept, bind,
    connect, listen, recvmsg, sendmsg, socket_with,
};

use super::support::PATIENCE;
use super::*;

/// A socket that somebody listens at; none while nobody does.
pub(crate) fn call(path: &Path, kind: SocketType) -> Option<OwnedFd> {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE)).unwrap();
    connect(&socket, &SocketAddrUnix::new(path).unwrap()).ok()?;
    Some(socket)
}

/// Sends a message; whether there is anybody to take it.
pub(crate) fn send(socket: &OwnedFd, bytes: &[u8], with: &[BorrowedFd<'_>]) -> bool {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !with.is_empty() {
        assert!(control.push(SendAncillaryMessage::ScmRights(with)));
    }
    let bytes = [IoSlice::new(bytes)];
    sendmsg(socket, &bytes, &mut control, SendFlags::NOSIGNAL).is_ok()
}

/// The next message, up to `len` bytes of it, and the descriptors that it brings; none once the
/// other side has hung up.
pub(crate) fn receive(socket: &OwnedFd, len: usize) -> Option<(Vec<u8>, Vec<OwnedFd>)> {
    let mut bytes = vec![0; len];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut to = [IoSliceMut::new(&mut bytes)];
    let taken = recvmsg(socket, &mut to, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let mut with = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            with.extend(descriptors);
        }
    }
    bytes.truncate(taken.bytes);
    (!bytes.is_empty()).then_some((bytes, with))
}

/// Whether the other side has hung up, or has said something.
pub(crate) fn has_news(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::IN)];
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&none)).unwrap() > 0
}

/// Whether the other side has hung up.
pub(crate) fn has_hung_up(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    let none = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&none)).unwrap() > 0
}

/// A socket at which somebody may call.
pub(crate) fn listen_at(path: &Path, kind: SocketType) -> OwnedFd {
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    bind(&socket, &SocketAddrUnix::new(path).unwrap()).unwrap();
    listen(&socket, 8).unwrap();
    socket
}

/// The next one who calls.
pub(crate) fn next_call(socket: &OwnedFd) -> OwnedFd {
    wait("a call", || has_news(socket));
    let call = accept(socket).unwrap();
    set_socket_timeout(&call, Timeout::Recv, Some(PATIENCE)).unwrap();
    call
}

/// A descriptor by which rings wake their readers; what polls does not.
pub(crate) fn bell(flags: EventfdFlags) -> OwnedFd {
    eventfd(0, flags).unwrap()
}

/// Memory that both sides have.
pub(crate) struct Memory(File);

impl Memory {
    pub(crate) fn new(len: u64) -> Self {
        let file = File::from(memfd_create("peer", MemfdFlags::CLOEXEC).unwrap());
        file.set_len(len).unwrap();
        Self(file)
    }

    pub(crate) fn of(descriptor: OwnedFd) -> Self {
        Self(File::from(descriptor))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Takes all behind `len` away from the other side, too.
    pub(crate) fn cut(&self, len: u64) {
        self.0.set_len(len).unwrap();
    }

    pub(crate) fn put(&self, at: u64, bytes: &[u8]) {
        self.0.write_all_at(bytes, at).unwrap();
    }

    pub(crate) fn put_u16(&self, at: u64, value: u16) {
        self.put(at, &value.to_le_bytes());
    }

    pub(crate) fn u16(&self, at: u64) -> u16 {
        let mut bytes = [0; 2];
        self.0.read_exact_at(&mut bytes, at).unwrap();
        u16::from_le_bytes(bytes)
    }
}

/// Waits until it is so.
pub(crate) fn wait(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

/// The other side of a port, whose rings a test moves.
pub(crate) trait Peer {
    /// Whether the chain's side has hung up: it has nothing to say once it is connected.
    fn is_alone(&self) -> bool;
    /// Writes honest descriptors for what it sends.
    fn describe_honestly(&self);
    /// Has so many more descriptors be sent.
    fn advance(&self, by: u16);
    /// Descriptors by which the chain has sent since it was connected.
    fn came(&self) -> u16;
    /// The chain may use all those again.
    fn take(&self);
}

/// Whether the chain's side lives after it has looked at what was written: it has sent three times
/// since, so that a turn lies between. Else it has hung up.
pub(crate) fn outlives(what: &str, peer: &impl Peer) -> bool {
    let (mut last, mut times) = (peer.came(), 0);
    wait(what, || {
        peer.take();
        let came = peer.came();
        times += u32::from(came != last);
        last = came;
        peer.is_alone() || times >= 3
    });
    !peer.is_alone()
}

/// How long a connection may carry nothing: a guest that calls before its last one is forgotten is
/// one that DPDK 22.11 hears and does not serve.
const UNSERVED: Duration = Duration::from_secs(3);

/// A peer that the chain has sent something to.
pub(crate) fn connected<P: Peer>(mut call: impl FnMut() -> Option<P>) -> P {
    let mut found = None;
    wait("a connection that carries packets", || {
        found = call().filter(|peer| {
            let (started, before) = (Instant::now(), peer.came());
            while peer.came() == before && !peer.is_alone() && started.elapsed() < UNSERVED {
                peer.take();
                std::thread::yield_now();
            }
            peer.came() != before && !peer.is_alone()
        });
        found.is_some()
    });
    found.unwrap()
}

/// A peer that does all right is given packets, and has its own taken: the port `left` works.
pub(crate) fn is_served<P: Peer>(
    after: &str,
    chain: &Running,
    mut call: impl FnMut() -> Option<P>,
) {
    wait(after, || {
        let peer = connected(&mut call);
        let before = received(&chain.until("a status", |_| true), "left");
        peer.describe_honestly();
        peer.advance(10);
        let mut is_served = false;
        wait(after, || {
            peer.take();
            let now = chain.until("a status", |_| true);
            is_served = received(&now, "left") >= before + 10;
            is_served || peer.is_alone()
        });
        is_served
    });
}
