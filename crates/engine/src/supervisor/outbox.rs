//! Records on their way to a worker: sent at once while it reads, kept in order while it does not.
//!
//! The supervisor never waits for a worker. What the socket does not take now is kept here and sent
//! when it has room again, a long record part by part. A worker that takes nothing for
//! [`PATIENCE`], or leaves more than [`BYTES_MAX`] waiting, does not read, and is ended for it.
//! What others ask of it never comes so far: see [`Outbox::has_room_for_requests`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::protocol::parts::{Outgoing, TO_WORKER_BYTES_MAX};

/// Bytes that may wait: two of the longest records.
pub(super) const BYTES_MAX: usize = 2 * TO_WORKER_BYTES_MAX;
/// Bytes that may wait when somebody asks a node something.
const REQUEST_BYTES_MAX: usize = 1 << 20;
/// For how long a worker may take nothing of what waits for it.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// What a record costs beside its text.
const RECORD_COST: usize = 128;

/// A record that waits, with memory to be passed on.
#[derive(Debug)]
struct Waiting {
    record: Outgoing,
    memory: Option<Arc<OwnedFd>>,
}

/// What waits for one worker.
#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// When it last took something, while something waits.
    took: Option<Instant>,
    refused: Option<String>,
    is_given_up: bool,
    /// Records that the worker's socket has taken whole.
    sent: u64,
    /// Whether records wait until it is written down that they are to be sent (see `estate`).
    is_journaled: bool,
    /// So many of the last that wait are not written down.
    unwritten: usize,
    /// Of a worker that was taken over: what it is asked, and how many of those that wait are its
    /// former supervisor's.
    resuming: Option<Resuming>,
}

/// A record that waits, as it is written down, and its memory.
pub(super) type Unsent = (String, Option<Arc<OwnedFd>>);

/// A worker is asked what it heard of its former supervisor; until it answers, it is told nothing
/// else.
#[derive(Debug)]
struct Resuming {
    question: Option<Waiting>,
    inherited: u64,
}

/// Records for one worker, in order. Sending changes nothing else of a worker, so that whoever may
/// look at it may send to it.
#[derive(Debug, Default)]
pub(super) struct Outbox(RefCell<Queue>);

impl Outbox {
    /// Sends a record, or keeps it until the worker reads. A connection that has ended is found
    /// when it is next read from.
    pub(super) fn send(
        &self,
        socket: &OwnedFd,
        bytes: Vec<u8>,
        memory: Option<&Arc<OwnedFd>>,
        now: Instant,
    ) {
        let mut queue = self.0.borrow_mut();
        if queue.is_given_up {
            return;
        }
        let mut record = Waiting {
            record: Outgoing::new(bytes),
            memory: memory.cloned(),
        };
        let is_next = queue.waiting.is_empty() && !queue.is_journaled && queue.resuming.is_none();
        if is_next && queue.try_send(socket, &mut record) {
            queue.sent += 1;
            return;
        }
        if queue.is_journaled {
            queue.unwritten += 1;
        }
        let cost = record.record.left() + RECORD_COST;
        if queue.bytes + cost > BYTES_MAX {
            let count = queue.waiting.len();
            let why = format!("it does not read its control connection: {count} records wait");
            return queue.give_up(why);
        }
        queue.bytes += cost;
        queue.took.get_or_insert(now);
        queue.waiting.push_back(record);
    }

    /// Sends what waits, as far as the socket takes it.
    pub(super) fn flush(&self, socket: &OwnedFd, now: Instant) {
        let mut queue = self.0.borrow_mut();
        if queue.is_held_up(socket) {
            return;
        }
        while queue.waiting.len() > queue.unwritten {
            let Some(mut waiting) = queue.waiting.pop_front() else {
                break;
            };
            let before = waiting.record.left();
            let is_done = queue.try_send(socket, &mut waiting);
            let left = waiting.record.left();
            queue.bytes = queue.bytes.saturating_sub(before - left);
            if is_done || left < before {
                queue.took = Some(now);
            }
            if !is_done {
                queue.waiting.push_front(waiting);
                return;
            }
            queue.bytes = queue.bytes.saturating_sub(left + RECORD_COST);
            queue.sent += 1;
        }
        queue.took = None;
    }

    /// From now on nothing is sent before [`Outbox::written`] says so.
    pub(super) fn journal(&self, is_journaled: bool) {
        let mut queue = self.0.borrow_mut();
        queue.is_journaled = is_journaled;
        if !is_journaled {
            queue.unwritten = 0;
        }
    }

    /// All that waits is written down and may be sent.
    pub(super) fn written(&self, socket: &OwnedFd, now: Instant) {
        self.0.borrow_mut().unwritten = 0;
        self.flush(socket, now);
    }

    /// What is to be written down: how many records were sent, and those that wait.
    pub(super) fn unsent(&self) -> (u64, Vec<Unsent>) {
        let queue = self.0.borrow();
        let text = |waiting: &Waiting| String::from_utf8_lossy(waiting.record.text()).into_owned();
        let waiting = queue.waiting.iter();
        let waiting = waiting.map(|waiting| (text(waiting), waiting.memory.clone()));
        (queue.sent, waiting.collect())
    }

    /// The outbox of a worker that is taken over, from what was written down. Nothing but
    /// `question` is sent before [`Outbox::resumed`].
    pub(super) fn inherited(sent: u64, waiting: Vec<Unsent>, question: Vec<u8>) -> Self {
        let waiting: VecDeque<Waiting> = waiting
            .into_iter()
            .map(|(text, memory)| Waiting {
                record: Outgoing::new(text.into_bytes()),
                memory,
            })
            .collect();
        let cost = |waiting: &Waiting| waiting.record.left() + RECORD_COST;
        Self(RefCell::new(Queue {
            bytes: waiting.iter().map(cost).sum(),
            resuming: Some(Resuming {
                question: Some(Waiting {
                    record: Outgoing::anew(question),
                    memory: None,
                }),
                inherited: waiting.len() as u64,
            }),
            sent,
            waiting,
            is_journaled: true,
            ..Queue::default()
        }))
    }

    /// The worker has heard so many records in all; it is sent the rest. False if that cannot be.
    pub(super) fn resumed(&self, heard: u64) -> bool {
        let mut queue = self.0.borrow_mut();
        let inherited = queue.resuming.take().map_or(0, |asked| asked.inherited);
        let Some(arrived) = heard.checked_sub(queue.sent).filter(|n| *n <= inherited) else {
            return false;
        };
        for _ in 0..arrived {
            if let Some(waiting) = queue.waiting.pop_front() {
                let cost = waiting.record.left() + RECORD_COST;
                queue.bytes = queue.bytes.saturating_sub(cost);
            }
        }
        queue.sent = heard;
        true
    }

    /// Whether records wait for the socket to have room.
    pub(super) fn has_waiting(&self) -> bool {
        let queue = self.0.borrow();
        match &queue.resuming {
            Some(asked) => asked.question.is_some(),
            None => queue.waiting.len() > queue.unwritten,
        }
    }

    /// Whether so little waits that a request to one of its nodes may be added. Requests are not
    /// the chain's own: whoever asks too much is told so, and the worker lives.
    pub(super) fn has_room_for_requests(&self) -> bool {
        self.0.borrow().bytes <= REQUEST_BYTES_MAX
    }

    /// Why the worker can be told nothing more, if so; once.
    pub(super) fn take_refusal(&self, now: Instant) -> Option<String> {
        let mut queue = self.0.borrow_mut();
        if queue.took.is_some_and(|took| now - took > PATIENCE) {
            let why = format!(
                "it does not read its control connection: nothing within {PATIENCE:?}, and {} \
                 records wait",
                queue.waiting.len()
            );
            queue.give_up(why);
        }
        queue.refused.take()
    }
}

impl Queue {
    fn give_up(&mut self, why: String) {
        self.refused = Some(why);
        self.is_given_up = true;
        self.waiting.clear();
        self.unwritten = 0;
        self.bytes = 0;
        self.took = None;
    }

    /// Whether a worker that was taken over has not answered; asks it, if that is still to be done.
    fn is_held_up(&mut self, socket: &OwnedFd) -> bool {
        let Some(mut resuming) = self.resuming.take() else {
            return false;
        };
        if let Some(mut question) = resuming.question.take()
            && !self.try_send(socket, &mut question)
        {
            resuming.question = Some(question);
        }
        self.resuming = Some(resuming);
        true
    }

    /// Whether `waiting` is dealt with: sent, or of no use to anybody.
    fn try_send(&mut self, socket: &OwnedFd, waiting: &mut Waiting) -> bool {
        let memory = waiting.memory.as_ref().map(|fd| fd.as_fd());
        match waiting.record.send(socket, memory.as_slice()) {
            Err(Errno::AGAIN) => false,
            // The end of the connection is read as such.
            Ok(()) | Err(Errno::PIPE | Errno::CONNRESET) => true,
            Err(error) => {
                self.give_up(format!("a record cannot be sent to it: {error}"));
                true
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use catena_shm::fd_passing;
    use rustix::fs::{OFlags, fcntl_setfl};
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::protocol::parts::Incoming;

    fn pair() -> (OwnedFd, OwnedFd) {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        fcntl_setfl(&ours, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
        (ours, theirs)
    }

    /// Short ones, and some that no message holds.
    #[test]
    fn what_a_slow_reader_leaves_waiting_arrives_in_order() {
        let (ours, theirs) = pair();
        let (outbox, now) = (Outbox::default(), Instant::now());
        let count = 300_u32;
        let text = |number: u32| {
            let times = if number.is_multiple_of(50) {
                100_000
            } else {
                100
            };
            number.to_le_bytes().map(|byte| byte | 0x80).repeat(times)
        };
        for number in 0..count {
            outbox.send(&ours, text(number), None, now);
        }
        assert!(outbox.has_waiting(), "the socket took it all");
        let mut incoming = Incoming::new(TO_WORKER_BYTES_MAX);
        let mut number = 0;
        while number < count {
            let message = fd_passing::receive(&theirs).unwrap().unwrap();
            if let Some(record) = incoming.take(message).unwrap() {
                assert!(record.bytes == text(number), "{number}");
                number += 1;
            }
            outbox.flush(&ours, now);
        }
        assert!(!outbox.has_waiting() && outbox.take_refusal(now + 2 * PATIENCE).is_none());
        assert_eq!(outbox.0.borrow().bytes, 0);
    }

    #[test]
    fn one_that_does_not_read_is_given_up_after_a_while_and_one_that_reads_slowly_is_not() {
        let (ours, theirs) = pair();
        let (outbox, mut now) = (Outbox::default(), Instant::now());
        for _ in 0..500 {
            outbox.send(&ours, vec![b'x'; 20_000], None, now);
        }
        assert!(!outbox.has_room_for_requests());
        for _ in 0..50 {
            now += PATIENCE;
            assert_eq!(outbox.take_refusal(now), None);
            // A few at a time: a socket has room only when enough of its queue is free.
            while fd_passing::receive(&theirs).unwrap().is_some() {
                let before = outbox.0.borrow().bytes;
                outbox.flush(&ours, now);
                if outbox.0.borrow().bytes < before {
                    break;
                }
            }
        }
        let why = outbox.take_refusal(now + 2 * PATIENCE).unwrap();
        assert!(why.contains("does not read"), "{why}");
        assert!(!outbox.has_waiting() && outbox.take_refusal(now + 9 * PATIENCE).is_none());
    }

    #[test]
    fn no_more_is_kept_than_the_limit() {
        let (ours, _theirs) = pair();
        let (outbox, now) = (Outbox::default(), Instant::now());
        for _ in 0..2 * BYTES_MAX / (1 << 20) {
            outbox.send(&ours, vec![b'x'; 1 << 20], None, now);
            assert!(outbox.0.borrow().bytes <= BYTES_MAX);
        }
        assert!(outbox.take_refusal(now).unwrap().contains("does not read"));
    }

    fn heard(socket: &OwnedFd, incoming: &mut Incoming) -> Vec<String> {
        let mut all = Vec::new();
        while let Ok(Some(message)) = fd_passing::receive(socket) {
            if let Some(record) = incoming.take(message).unwrap() {
                all.push(String::from_utf8(record.bytes).unwrap());
            }
        }
        all
    }

    /// A supervisor dies after it has written down five records, of which the worker has heard
    /// four.
    #[test]
    fn a_worker_that_is_taken_over_is_told_the_rest_and_nothing_twice() {
        let (ours, theirs) = pair();
        fcntl_setfl(&theirs, OFlags::RDWR | OFlags::NONBLOCK).unwrap();
        let (outbox, now) = (Outbox::default(), Instant::now());
        let mut incoming = Incoming::new(TO_WORKER_BYTES_MAX);
        let say = |outbox: &Outbox, text: &str| {
            outbox.send(&ours, text.as_bytes().to_vec(), None, now);
        };
        outbox.journal(true);
        say(&outbox, "one");
        say(&outbox, "two");
        outbox.flush(&ours, now);
        assert!(heard(&theirs, &mut incoming).is_empty() && !outbox.has_waiting());
        outbox.written(&ours, now);
        assert_eq!(heard(&theirs, &mut incoming), ["one", "two"]);
        for text in ["three", "four", "five"] {
            say(&outbox, text);
        }
        let (sent, unsent) = outbox.unsent();
        assert_eq!((sent, unsent.len()), (2, 3));
        let successor = Outbox::inherited(sent, unsent.clone(), b"how far?".to_vec());
        say(&successor, "six");
        successor.written(&ours, now);
        assert_eq!(heard(&theirs, &mut incoming), ["how far?"]);
        assert!(successor.resumed(4));
        successor.written(&ours, now);
        assert_eq!(heard(&theirs, &mut incoming), ["five", "six"]);
        assert_eq!(successor.unsent().0, 6);
        for impossible in [1, 6] {
            let liar = Outbox::inherited(sent, unsent.clone(), Vec::new());
            assert!(!liar.resumed(impossible), "{impossible}");
        }
    }
}
