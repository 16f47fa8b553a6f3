//! Messages with file descriptors over a Unix socket: the only way memory changes hands.
//!
//! Control path. A message is one record of a SOCK_SEQPACKET socket, at most [`MESSAGE_BYTES_MAX`]
//! long, with at most [`FDS_MAX`] descriptors. A message with more is refused whole and every
//! descriptor that came with it is closed, so a peer can exhaust neither memory nor descriptors.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};

/// Longest message.
pub const MESSAGE_BYTES_MAX: usize = 128 << 10;
/// Most descriptors in a message.
pub const FDS_MAX: usize = 16;

/// What arrived.
#[derive(Debug)]
pub struct Message {
    /// The text.
    pub bytes: Vec<u8>,
    /// The descriptors, close-on-exec.
    pub fds: Vec<OwnedFd>,
}

/// Sends one message. Waits while the socket's queue is full, unless the socket does not block.
///
/// # Errors
/// The kernel's reason; `MSGSIZE` if a limit is exceeded.
pub fn send(socket: impl AsFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
    if bytes.len() > MESSAGE_BYTES_MAX || fds.len() > FDS_MAX {
        return Err(Errno::MSGSIZE);
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    loop {
        match sendmsg(
            &socket,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        ) {
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Receives one message; `None` when the peer has closed.
///
/// # Errors
/// The kernel's reason; `MSGSIZE` if the message exceeds a limit (it is consumed, its descriptors
/// are closed); `AGAIN` on a socket that does not block.
pub fn receive(socket: impl AsFd) -> Result<Option<Message>, Errno> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Ok(received) => break received,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    };
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    if received
        .flags
        .intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC)
    {
        return Err(Errno::MSGSIZE);
    }
    if received.bytes == 0 && fds.is_empty() {
        return Ok(None);
    }
    bytes.truncate(received.bytes);
    Ok(Some(Message { bytes, fds }))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(
            AddressFamily::UNIX,
            SocketType::SEQPACKET,
            SocketFlags::CLOEXEC,
            None,
        )
        .unwrap()
    }

    #[test]
    fn text_and_descriptors_arrive_together() {
        let (ours, theirs) = pair();
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&memory, 12345).unwrap();
        send(&ours, b"hello", &[memory.as_fd()]).unwrap();
        let message = receive(&theirs).unwrap().unwrap();
        assert_eq!(message.bytes, b"hello");
        assert_eq!(rustix::fs::fstat(&message.fds[0]).unwrap().st_size, 12345);
    }

    #[test]
    fn a_closed_peer_is_the_end() {
        let (ours, theirs) = pair();
        drop(ours);
        assert!(receive(&theirs).unwrap().is_none());
    }

    #[test]
    fn too_many_descriptors_are_closed_and_the_next_message_arrives() {
        let (ours, theirs) = pair();
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let many = vec![memory.as_fd(); FDS_MAX + 3];
        let mut space = vec![MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FDS_MAX + 3))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        ancillary.push(SendAncillaryMessage::ScmRights(&many));
        let count = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        sendmsg(
            &ours,
            &[IoSlice::new(b"x")],
            &mut ancillary,
            SendFlags::NOSIGNAL,
        )
        .unwrap();
        send(&ours, b"next", &[]).unwrap();
        let before = count();
        assert_eq!(receive(&theirs).unwrap_err(), Errno::MSGSIZE);
        assert!(
            count() <= before + 2,
            "descriptors of a refused message stay open"
        );
        assert_eq!(receive(&theirs).unwrap().unwrap().bytes, b"next");
    }

    #[test]
    fn a_message_over_the_limit_is_refused_by_the_sender() {
        let (ours, _theirs) = pair();
        let long = vec![0; MESSAGE_BYTES_MAX + 1];
        assert_eq!(send(&ours, &long, &[]), Err(Errno::MSGSIZE));
    }
}
