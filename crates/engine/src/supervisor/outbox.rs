//! Records on their way to a worker: sent at once while it reads, kept in order while it does not.
//!
//! The supervisor never waits for a worker. What the socket does not take now is kept here and sent
//! when it has room again; a worker that leaves more than [`RECORDS_MAX`] records or [`BYTES_MAX`]
//! bytes waiting does not read, and is ended for it.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use catena_shm::fd_passing;
use rustix::io::Errno;

/// Records that may wait: more than the largest chain needs to introduce a worker.
pub(super) const RECORDS_MAX: usize = 4096;
/// Their bytes.
pub(super) const BYTES_MAX: usize = 4 << 20;

/// A record that waits, with memory to be passed on.
#[derive(Debug)]
struct Waiting {
    bytes: Vec<u8>,
    memory: Option<Arc<OwnedFd>>,
}

/// What waits for one worker.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    refused: Option<String>,
}

/// Records for one worker, in order. Sending changes nothing else of a worker, so that whoever may
/// look at it may send to it.
#[derive(Debug, Default)]
pub(super) struct Outbox(RefCell<Queue>);

impl Outbox {
    /// Sends a record, or keeps it until the worker reads. A connection that has ended is found
    /// when it is next read from.
    pub(super) fn send(&self, socket: &OwnedFd, bytes: Vec<u8>, memory: Option<&Arc<OwnedFd>>) {
        let mut queue = self.0.borrow_mut();
        let queue = &mut *queue;
        if queue.refused.is_some() {
            return;
        }
        let record = Waiting {
            bytes,
            memory: memory.cloned(),
        };
        if queue.waiting.is_empty() && queue.try_send(socket, &record) {
            return;
        }
        if queue.waiting.len() == RECORDS_MAX || queue.bytes + record.bytes.len() > BYTES_MAX {
            queue.refused = Some(format!(
                "it does not read its control connection: {} records wait for it",
                queue.waiting.len()
            ));
            queue.waiting.clear();
            return;
        }
        queue.bytes += record.bytes.len();
        queue.waiting.push_back(record);
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn flush(&self, socket: &OwnedFd) {
        let mut queue = self.0.borrow_mut();
        let queue = &mut *queue;
        while let Some(record) = queue.waiting.pop_front() {
            if !queue.try_send(socket, &record) {
                queue.waiting.push_front(record);
                return;
            }
            queue.bytes -= record.bytes.len();
        }
    }

    /// Whether records wait for the socket to have room.
    pub(super) fn has_waiting(&self) -> bool {
        !self.0.borrow().waiting.is_empty()
    }

    /// Why the worker can be told nothing more, if so; once.
    pub(super) fn take_refusal(&self) -> Option<String> {
        self.0.borrow_mut().refused.take()
    }
}

impl Queue {
    /// Whether `record` is dealt with: sent, or of no use to anybody.
    fn try_send(&mut self, socket: &OwnedFd, record: &Waiting) -> bool {
        let memory = record.memory.as_ref().map(|fd| fd.as_fd());
        match fd_passing::send(socket, &record.bytes, memory.as_slice()) {
            Err(Errno::AGAIN) => false,
            // The end of the connection is read as such.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => true,
            Err(error) => {
                self.refused = Some(format!("a record cannot be sent to it: {error}"));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        fcntl_setfl(&ours, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
        (ours, theirs)
    }

    #[test]
    fn what_a_slow_reader_leaves_waiting_arrives_in_order() {
        let (ours, theirs) = pair();
        let outbox = Outbox::default();
        let count = 3000_u32;
        for number in 0..count {
            outbox.send(&ours, number.to_le_bytes().repeat(100), None);
        }
        assert!(outbox.has_waiting(), "the socket took it all");
        for number in 0..count {
            let message = fd_passing::receive(&theirs).unwrap().unwrap();
            assert_eq!(message.bytes[..4], number.to_le_bytes());
            outbox.flush(&ours);
        }
        assert!(!outbox.has_waiting() && outbox.take_refusal().is_none());
    }

    #[test]
    fn one_that_does_not_read_is_given_up_and_costs_no_more() {
        let (ours, _theirs) = pair();
        let outbox = Outbox::default();
        for _ in 0..2 * RECORDS_MAX {
            outbox.send(&ours, vec![0; 2000], None);
        }
        assert!(outbox.0.borrow().bytes <= BYTES_MAX && !outbox.has_waiting());
        let why = outbox.take_refusal().unwrap();
        assert!(why.contains("does not read"), "{why}");
    }

    #[test]
    fn a_record_that_no_socket_takes_is_said() {
        let (ours, _theirs) = pair();
        let outbox = Outbox::default();
        outbox.send(&ours, vec![0; fd_passing::MESSAGE_BYTES_MAX + 1], None);
        assert!(outbox.take_refusal().unwrap().contains("cannot be sent"));
        assert!(!outbox.has_waiting());
    }
}
