//! The worker's end of the control connection, and what its data path has to say over it.
//!
//! Only the control thread speaks to the supervisor. The data path leaves what it has to say in a
//! queue ([`Reports`]) and goes on: a supervisor that does not read holds up no packet. The queue
//! is as long as what was asked of the data path, and a few words about neighbours.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use catena_shm::fd_passing;
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;

use crate::chain::limits::NODE_COUNT_MAX;
use crate::protocol::parts::{FROM_WORKER_BYTES_MAX, Incoming, Outgoing, TO_WORKER_BYTES_MAX};
use crate::protocol::{FromWorker, ToWorker};
use crate::worker::build_error::BuildError;
use crate::worker::serve_error::ServeError;

/// The control connection.
pub(super) struct Connection {
    socket: Arc<OwnedFd>,
    incoming: Incoming,
    /// Records that have come, for a supervisor that takes over.
    heard: u64,
    /// What was said of its sources, for the same.
    is_finished: Cell<bool>,
    drained: Cell<Option<u64>>,
    /// Requests that amend settings, and what was made of them, for the same.
    changes: RefCell<VecDeque<(u64, Option<bool>)>>,
}

/// Requests of which it is remembered what was made of them: of each node of a worker one is under
/// way at most, and the supervisor has heard of all others.
const CHANGES_MAX: usize = NODE_COUNT_MAX;

impl Connection {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Self {
            socket: Arc::new(socket),
            incoming: Incoming::new(TO_WORKER_BYTES_MAX),
            heard: 0,
            is_finished: Cell::new(false),
            drained: Cell::new(None),
            changes: RefCell::new(VecDeque::new()),
        }
    }

    pub(super) fn socket(&self) -> &Arc<OwnedFd> {
        &self.socket
    }

    /// Says something, in as many messages as it takes. In place of an answer that is longer than
    /// the supervisor takes, whoever asked is told so: as an error, unless a change was accepted.
    pub(super) fn send(
        &self,
        record: &FromWorker,
        fds: &[BorrowedFd<'_>],
    ) -> Result<(), ServeError> {
        match record {
            FromWorker::Finished => self.is_finished.set(true),
            FromWorker::Drained { round } => self.drained.set(Some(*round)),
            FromWorker::Answer { id, result } => self.note_answer(*id, result.is_ok()),
            _ => {}
        }
        let text = |record| {
            serde_json::to_vec(record).map_err(|error| ServeError::Protocol(error.to_string()))
        };
        let mut bytes = text(record)?;
        if let FromWorker::Answer { id, .. } = record
            && bytes.len() > FROM_WORKER_BYTES_MAX
        {
            let (len, most) = (bytes.len(), FROM_WORKER_BYTES_MAX);
            let reason = format!("its answer has {len} bytes, at most {most} can be passed on");
            // What was accepted would be taken back at a refusal.
            let result = match self.changed().contains(&(*id, true)) {
                true => Ok(reason.into()),
                false => Err(reason),
            };
            bytes = text(&FromWorker::Answer { id: *id, result })?;
        }
        Ok(Outgoing::new(bytes).send(&*self.socket, fds)?)
    }

    /// Says that something could not be built.
    pub(super) fn send_failure(&self, error: &BuildError) -> Result<(), ServeError> {
        let node = match error {
            BuildError::Node { node, .. } => Some(*node),
            _ => None,
        };
        let message = error.to_string();
        self.send(&FromWorker::Failed { node, message }, &[])
    }

    /// Receives one message; the record whose end it was, if it was one's.
    pub(super) fn hear(&mut self) -> Result<Option<(ToWorker, Vec<OwnedFd>)>, ServeError> {
        let protocol = |error: &dyn ToString| ServeError::Protocol(error.to_string());
        let message = fd_passing::receive(&*self.socket)?.ok_or(ServeError::Disconnected)?;
        let Some(record) = self
            .incoming
            .take(message)
            .map_err(|error| protocol(&error))?
        else {
            return Ok(None);
        };
        let parsed = serde_json::from_slice(&record.bytes).map_err(|error| protocol(&error))?;
        if !matches!(parsed, ToWorker::Resume { .. }) {
            self.heard += 1;
        }
        if let ToWorker::Control {
            id,
            is_change: true,
            ..
        } = parsed
        {
            let changes = self.changes.get_mut();
            changes.truncate(CHANGES_MAX - 1);
            changes.push_front((id, None));
        }
        Ok(Some((parsed, record.fds)))
    }

    fn note_answer(&self, id: u64, is_accepted: bool) {
        let mut changes = self.changes.borrow_mut();
        if let Some(change) = changes.iter_mut().find(|(asked, _)| *asked == id) {
            change.1 = Some(is_accepted);
        }
    }

    /// Tells a supervisor that has taken over how far its predecessor came.
    pub(super) fn resume(&self, nonce: u64) -> Result<(), ServeError> {
        let record = FromWorker::Resumed {
            nonce,
            heard: self.heard,
            is_finished: self.is_finished.get(),
            drained: self.drained.get(),
            changed: self.changed(),
        };
        let bytes = serde_json::to_vec(&record);
        let bytes = bytes.map_err(|error| ServeError::Protocol(error.to_string()))?;
        Ok(Outgoing::anew(bytes).send(&*self.socket, &[])?)
    }

    fn changed(&self) -> Vec<(u64, bool)> {
        let changes = self.changes.borrow();
        let changes = changes.iter();
        changes
            .filter_map(|(id, made)| made.map(|made| (*id, made)))
            .collect()
    }

    /// Waits for a record.
    pub(super) fn receive(&mut self) -> Result<(ToWorker, Vec<OwnedFd>), ServeError> {
        loop {
            if let Some(record) = self.hear()? {
                return Ok(record);
            }
        }
    }
}

/// What the data path has to say, on its way to the control thread.
pub(super) struct Reports {
    waiting: Receiver<FromWorker>,
    event: Arc<OwnedFd>,
}

/// The data path's end of [`Reports`].
pub(super) struct Reporter {
    waiting: Sender<FromWorker>,
    event: Arc<OwnedFd>,
}

impl Reports {
    pub(super) fn new() -> Result<(Reporter, Self), Errno> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let event = Arc::new(event);
        let (sender, receiver) = channel();
        let reporter = Reporter {
            waiting: sender,
            event: event.clone(),
        };
        let reports = Self {
            waiting: receiver,
            event,
        };
        Ok((reporter, reports))
    }

    /// Readable while something waits.
    pub(super) fn event(&self) -> BorrowedFd<'_> {
        self.event.as_fd()
    }

    /// Passes on everything that waits.
    pub(super) fn pass_on(&self, connection: &Connection) -> Result<(), ServeError> {
        // Emptied first: what comes later rings again.
        let _ = rustix::io::read(&*self.event, &mut [0_u8; 8]);
        while let Ok(record) = self.waiting.try_recv() {
            connection.send(&record, &[])?;
        }
        Ok(())
    }
}

impl Reporter {
    /// Leaves a record for the supervisor; false if nobody passes it on any more.
    pub(super) fn say(&self, record: &FromWorker) -> bool {
        let is_left = self.waiting.send(record.clone()).is_ok();
        // Full after 2^64 rings; that it is not empty is all that counts.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
        is_left
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    fn answer(id: u64, bytes: usize) -> FromWorker {
        FromWorker::Answer {
            id,
            result: Ok("x".repeat(bytes).into()),
        }
    }

    fn heard(socket: &OwnedFd, incoming: &mut Incoming) -> FromWorker {
        loop {
            let message = fd_passing::receive(socket).unwrap().unwrap();
            if let Some(record) = incoming.take(message).unwrap() {
                return serde_json::from_slice(&record.bytes).unwrap();
            }
        }
    }

    #[test]
    fn a_supervisor_that_does_not_read_holds_up_nobody_but_the_control_thread() {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let (reporter, reports) = Reports::new().unwrap();
        // More than a socket's queue takes: this thread must come through all the same.
        for id in 0..100 {
            assert!(reporter.say(&answer(id, 100_000)));
        }
        assert!(reporter.say(&answer(100, FROM_WORKER_BYTES_MAX)));
        let control = std::thread::spawn(move || {
            reports.pass_on(&Connection::new(ours)).unwrap();
        });
        let mut incoming = Incoming::new(FROM_WORKER_BYTES_MAX);
        for id in 0..100 {
            assert_eq!(heard(&theirs, &mut incoming), answer(id, 100_000));
        }
        let FromWorker::Answer {
            id: 100,
            result: Err(why),
        } = heard(&theirs, &mut incoming)
        else {
            panic!("an answer that is too long must become an error");
        };
        assert!(why.contains("at most"), "{why}");
        control.join().unwrap();
    }

    #[test]
    fn what_was_accepted_stays_so_however_long_the_answer() {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let mut connection = Connection::new(ours);
        let request = ToWorker::Control {
            id: 7,
            node: 0,
            request: serde_json::Value::Null,
            is_change: true,
        };
        let bytes = serde_json::to_vec(&request).unwrap();
        Outgoing::new(bytes).send(&theirs, &[]).unwrap();
        connection.receive().unwrap();
        connection
            .send(&answer(7, FROM_WORKER_BYTES_MAX), &[])
            .unwrap();
        let mut incoming = Incoming::new(FROM_WORKER_BYTES_MAX);
        let FromWorker::Answer { id: 7, result } = heard(&theirs, &mut incoming) else {
            panic!("it was asked");
        };
        let said = result.expect("the supervisor would take it back");
        assert!(said.as_str().unwrap().contains("at most"), "{said}");
        assert_eq!(connection.changed(), [(7, true)]);
    }
}
