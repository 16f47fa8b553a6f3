//! Records on the control connection, whatever their size: cut into messages, put together again.
//!
//! Control path. A message that begins with `MORE` carries a part of a record, and more follow;
//! any other message ends the record, and most records are that one message. JSON holds no such
//! byte, so no record can be taken for a part. Descriptors come with the first message. A sender
//! finishes one record before it begins the next, unless it is another one that took over in the
//! middle: its first message begins with `CANCEL`, and what was begun is forgotten.
//!
//! Whoever receives keeps at most one record of a limited size, whatever the peer sends.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use catena_shm::fd_passing::{self, FDS_MAX, Message};
use rustix::io::Errno;

/// Longest record to a worker: an assignment with a chain file of 1 MiB in it, many times over.
pub const TO_WORKER_BYTES_MAX: usize = 32 << 20;
/// Longest record from a worker: the longest answer of an NF.
pub const FROM_WORKER_BYTES_MAX: usize = 8 << 20;

/// First byte of a message after which more follow: ASCII's record separator.
const MORE: u8 = 0x1e;
/// First byte of a message before which a record may have been left unfinished: ASCII's cancel.
const CANCEL: u8 = 0x18;
/// Bytes of a record in one message: few enough for several to fit into a socket's queue.
const PART_BYTES: usize = 32 << 10;
const _: () = assert!(PART_BYTES < fd_passing::MESSAGE_BYTES_MAX);

/// A record on its way out: what of it has been sent.
#[derive(Debug)]
pub struct Outgoing {
    bytes: Vec<u8>,
    sent: usize,
}

impl Outgoing {
    /// A record of which nothing has been sent.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self { bytes, sent: 0 }
    }

    /// A short record before which another may have been left unfinished.
    pub fn anew(mut bytes: Vec<u8>) -> Self {
        bytes.insert(0, CANCEL);
        Self::new(bytes)
    }

    /// All of it.
    pub fn text(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes that are still to be sent.
    pub fn left(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Sends what is left, with `memory` if nothing has been sent before.
    ///
    /// # Errors
    /// The kernel's reason. `AGAIN` if the socket takes no more now: it goes on from there when
    /// this is called again.
    pub fn send(&mut self, socket: impl AsFd, memory: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        loop {
            let memory = if self.sent == 0 { memory } else { &[] };
            let rest = &self.bytes[self.sent..];
            if rest.len() <= PART_BYTES {
                fd_passing::send(&socket, rest, memory)?;
                self.sent = self.bytes.len();
                return Ok(());
            }
            let mut part = Vec::with_capacity(PART_BYTES + 1);
            part.push(MORE);
            part.extend_from_slice(&rest[..PART_BYTES]);
            fd_passing::send(&socket, &part, memory)?;
            self.sent += PART_BYTES;
        }
    }
}

/// A record on its way in.
#[derive(Debug)]
pub struct Incoming {
    bytes: Vec<u8>,
    fds: Vec<OwnedFd>,
    limit: usize,
}

/// What the peer sent is more than a record may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a record with more than {bytes} bytes or {} descriptors", FDS_MAX)]
pub struct TooMuch {
    /// The longest record.
    pub bytes: usize,
}

impl Incoming {
    /// Nothing yet; no record may have more than `limit` bytes.
    pub fn new(limit: usize) -> Self {
        Self {
            bytes: Vec::new(),
            fds: Vec::new(),
            limit,
        }
    }

    /// Takes a message; gives the record if that was its end.
    ///
    /// # Errors
    /// [`TooMuch`]: the connection is of no use any more.
    pub fn take(&mut self, message: Message) -> Result<Option<Message>, TooMuch> {
        let Message { bytes, fds } = message;
        let (is_part, text) = match bytes.split_first() {
            Some((&MORE, rest)) => (true, rest),
            Some((&CANCEL, rest)) => {
                self.bytes.clear();
                self.fds.clear();
                (false, rest)
            }
            _ => (false, &bytes[..]),
        };
        let too_long = self.bytes.len() + text.len() > self.limit;
        if too_long || self.fds.len() + fds.len() > FDS_MAX {
            return Err(TooMuch { bytes: self.limit });
        }
        if !is_part && self.bytes.is_empty() && self.fds.is_empty() {
            let bytes = text.to_vec();
            return Ok(Some(Message { bytes, fds }));
        }
        self.fds.extend(fds);
        self.bytes.extend_from_slice(text);
        Ok((!is_part).then(|| Message {
            bytes: std::mem::take(&mut self.bytes),
            fds: std::mem::take(&mut self.fds),
        }))
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn receive(socket: &OwnedFd, incoming: &mut Incoming) -> Result<Message, TooMuch> {
        loop {
            let message = fd_passing::receive(socket).unwrap().unwrap();
            if let Some(record) = incoming.take(message)? {
                return Ok(record);
            }
        }
    }

    #[test]
    fn records_of_any_size_arrive_whole_and_in_order() {
        let sizes = [1, PART_BYTES - 1, PART_BYTES, PART_BYTES + 1, 700_001, 3];
        let (ours, theirs) = pair();
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let sender = std::thread::spawn(move || {
            for (number, size) in sizes.into_iter().enumerate() {
                let text = vec![b'a' + u8::try_from(number).unwrap(); size];
                Outgoing::new(text).send(&ours, &[memory.as_fd()]).unwrap();
            }
        });
        let mut incoming = Incoming::new(TO_WORKER_BYTES_MAX);
        for (number, size) in sizes.into_iter().enumerate() {
            let record = receive(&theirs, &mut incoming).unwrap();
            let text = vec![b'a' + u8::try_from(number).unwrap(); size];
            assert!(record.bytes == text && record.fds.len() == 1, "{size}");
        }
        sender.join().unwrap();
    }

    /// A sender that died in the middle of a record, and its successor on the same connection.
    #[test]
    fn what_was_left_unfinished_is_forgotten() {
        let (ours, theirs) = pair();
        let memory = rustix::fs::memfd_create("test", rustix::fs::MemfdFlags::CLOEXEC).unwrap();
        let begun = [&[MORE][..], &[b'x'; 999]].concat();
        fd_passing::send(&ours, &begun, &[memory.as_fd()]).unwrap();
        Outgoing::anew(b"here".to_vec()).send(&ours, &[]).unwrap();
        Outgoing::new(b"next".to_vec()).send(&ours, &[]).unwrap();
        let mut incoming = Incoming::new(TO_WORKER_BYTES_MAX);
        for text in [b"here", b"next"] {
            let record = receive(&theirs, &mut incoming).unwrap();
            assert!(record.bytes == text && record.fds.is_empty());
        }
    }

    #[test]
    fn a_record_without_end_costs_no_more_than_the_limit() {
        let mut incoming = Incoming::new(100_000);
        let part = || Message {
            bytes: [&[MORE][..], &[b'x'; 999]].concat(),
            fds: Vec::new(),
        };
        let refused = (0..).find_map(|count| incoming.take(part()).err().map(|why| (count, why)));
        assert_eq!(refused, Some((100, TooMuch { bytes: 100_000 })));
        assert!(incoming.bytes.len() <= 100_000);
    }
}
