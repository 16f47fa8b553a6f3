//! One instance of a worker, as the supervisor sees it: from its start, over its handshake, to its
//! exit.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::counters::Counters;
use catena_shm::fd_passing;
use catena_shm::ring_memory::RingEnd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::protocol::parts::{FROM_WORKER_BYTES_MAX, Incoming};
use crate::protocol::{FromWorker, PortClosing, RegionName, ToWorker};
use crate::stats::PageLayout;
use crate::supervisor::body::Body;
use crate::supervisor::clock::now;
use crate::supervisor::outbox::Outbox;
use crate::supervisor::turns::{Hearing, Watch};

/// How far an instance has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Started, not yet heard of.
    Starting,
    /// Has its assignment.
    Making,
    /// Its memory is made; it waits for the neighbours'.
    Made,
    /// Its data path runs.
    Running,
    /// Told to stop.
    Stopping,
    /// Dead, its remains not yet buried; or waiting to be started again.
    Dead,
    /// Ended as it was told to.
    Stopped,
}

/// A region that a worker has made: the supervisor keeps the descriptor, for those who come later.
#[derive(Debug)]
pub struct Held {
    /// The memory.
    pub fd: Arc<OwnedFd>,
    /// Its size in bytes.
    pub len: usize,
    /// The same, mapped, if it is one side of a ring.
    pub end: Option<RingEnd>,
}

/// What came over a control connection.
#[derive(Debug)]
pub enum Heard {
    /// A record with its descriptors.
    Record(Box<FromWorker>, Vec<OwnedFd>),
    /// Part of a record.
    Part,
    /// Nothing now.
    Nothing,
    /// The connection has ended.
    End,
    /// Something that no worker of this version sends, and what.
    Garbage(String),
}

/// How far a running worker has come with a change of the chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changing {
    /// Nothing changes for it.
    No,
    /// It makes what is to be added.
    Making,
    /// It has made it.
    Made,
    /// It could not.
    Failed,
    /// It was told to forget it, and has not said the last of it.
    Forgetting,
    /// It was told to take new pools and lanes in.
    Admitting,
    /// It has.
    Admitted,
    /// It was told to turn to its new outputs.
    Rewiring,
    /// It has turned.
    Rewired,
    /// It was told to let go of the links that go.
    LettingGo,
}

/// Messages of one worker that are heard within a second, at most: a start of the largest chain
/// takes fewer.
pub const MESSAGES_PER_SECOND_MAX: u32 = 4096;
/// Their bytes: twice the longest record.
pub const BYTES_PER_SECOND_MAX: usize = 2 * FROM_WORKER_BYTES_MAX;

/// How much a worker says. One that says more is not heard until the second is over: its
/// connection fills, and whoever speaks there waits. The worker lives, and the others are served.
#[derive(Debug, Default)]
pub(super) struct Talk {
    second: Option<Instant>,
    messages: u32,
    bytes: usize,
}

const SECOND: Duration = Duration::from_secs(1);

impl Talk {
    /// Counts a message that came at time `now`.
    pub(super) fn count(&mut self, bytes: usize, now: Instant) {
        let is_past = |second: Instant| now.saturating_duration_since(second) >= SECOND;
        if self.second.is_none_or(is_past) {
            *self = Self {
                second: Some(now),
                ..Self::default()
            };
        }
        self.messages = self.messages.saturating_add(1);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// How long it is not to be heard from `now` on, if it has said too much.
    pub(super) fn rests(&self, now: Instant) -> Option<Duration> {
        let is_much =
            self.messages >= MESSAGES_PER_SECOND_MAX || self.bytes >= BYTES_PER_SECOND_MAX;
        let left = SECOND.saturating_sub(now.saturating_duration_since(self.second?));
        (is_much && !left.is_zero()).then_some(left)
    }
}

/// One instance of a worker.
#[derive(Debug)]
pub struct Instance {
    /// Which instance of the worker this is, from 0.
    pub epoch: u32,
    /// How far it has come.
    pub state: State,
    /// What runs it.
    pub body: Option<Body>,
    /// The control connection.
    pub socket: Option<OwnedFd>,
    /// What it must say to be believed.
    pub token: String,
    /// Which of its regions it has made.
    pub made: BTreeSet<RegionName>,
    /// Workers that must have taken its pools' memory before it may run, each with the number of
    /// the question it was asked, and when.
    pub awaits: BTreeMap<usize, (u64, Instant)>,
    /// When it was started.
    pub started: Instant,
    /// What it has not read yet.
    pub(super) outbox: Outbox,
    /// How much it says.
    pub(super) talk: Talk,
    /// What of a record has come.
    incoming: Incoming,
    /// Whether people know that it says too much.
    pub(super) is_talkative: bool,
    /// What it has accused its neighbours of, by their memory.
    pub accusations: BTreeMap<RegionName, u64>,
    /// Its counters page.
    pub counters: Option<Counters>,
    /// The memory of that page, and its size.
    pub page: Option<(Arc<OwnedFd>, usize)>,
    /// The page that its probes write into, and its size.
    pub records: Option<(Arc<OwnedFd>, usize)>,
    /// Where blocks lie in the counters page.
    pub layout: PageLayout,
    /// What was seen of its turns.
    pub(super) watch: Watch,
    /// Whether its control thread answers.
    pub(super) hearing: Hearing,
    /// When it began to run.
    pub running_since: Option<Instant>,
    /// What its ports said when it stopped.
    pub closings: Vec<PortClosing>,
    /// Whether its sources have come to their end.
    pub is_finished: bool,
    /// Whether it has been given its neighbours' memory and told to run.
    pub is_introduced: bool,
    /// How far it has come with a change of the chain.
    pub changing: Changing,
    /// Packets of this life that came, and went, by links that are no more.
    pub rx_gone: u64,
    /// As above.
    pub tx_gone: u64,
    /// Whether it leaves the chain for good.
    pub is_retiring: bool,
    /// Whether it passes packets on in place of its nodes.
    pub is_bypass: bool,
    /// The last round in which it was asked to take nothing more in, and said that it holds
    /// nothing; 0 if there was none.
    pub drained: u64,
    /// Whether it was ended for breaking the rules.
    pub is_detached: bool,
    /// Why it failed, if it said so.
    pub failure: Option<String>,
    /// Of one that was taken over and has not answered: the number of the question, and when.
    pub resuming: Option<(u64, Instant)>,
    /// Of one that lets go of links, or was taken over in the middle of a change: when it has
    /// answered this, it has said the last of it.
    pub forgets: Option<u64>,
}

impl Instance {
    /// An instance that has just been started.
    pub fn new(epoch: u32, body: Body, socket: Option<OwnedFd>, token: String) -> Self {
        Self::with(epoch, Some(body), socket, token)
    }

    /// One of which nothing is known but this; without a body, it has ended.
    pub(super) fn with(
        epoch: u32,
        body: Option<Body>,
        socket: Option<OwnedFd>,
        token: String,
    ) -> Self {
        Self {
            epoch,
            state: State::Starting,
            body,
            socket,
            token,
            made: BTreeSet::new(),
            awaits: BTreeMap::new(),
            started: now(),
            outbox: Outbox::default(),
            talk: Talk::default(),
            incoming: Incoming::new(FROM_WORKER_BYTES_MAX),
            is_talkative: false,
            accusations: BTreeMap::new(),
            counters: None,
            page: None,
            records: None,
            layout: PageLayout::default(),
            watch: Watch::default(),
            hearing: Hearing::default(),
            running_since: None,
            closings: Vec::new(),
            is_finished: false,
            drained: 0,
            is_introduced: false,
            changing: Changing::No,
            rx_gone: 0,
            tx_gone: 0,
            is_retiring: false,
            is_bypass: false,
            is_detached: false,
            failure: None,
            resuming: None,
            forgets: None,
        }
    }

    /// Sends a record; it waits here while the worker does not read.
    pub fn send(&self, record: &ToWorker) {
        self.send_with(record, None);
    }

    /// Sends a record with memory.
    pub fn send_with(&self, record: &ToWorker, memory: Option<&Arc<OwnedFd>>) {
        if let (Some(socket), Ok(bytes)) = (&self.socket, serde_json::to_vec(record)) {
            self.outbox.send(socket, bytes, memory, now());
        }
    }

    /// Passes memory on to it.
    pub fn attach(&self, region: RegionName, held: &Held, start: u64) {
        let record = ToWorker::Attach {
            region,
            len: held.len,
            start,
        };
        self.send_with(&record, Some(&held.fd));
    }

    /// Receives one message, if there is one.
    pub fn receive(&mut self) -> Heard {
        let Some(socket) = &self.socket else {
            return Heard::End;
        };
        let mut received = fd_passing::receive(socket);
        if received.as_ref().err() == Some(&Errno::CONNRESET) {
            // It ended without having read all that it was told. This is said once, and before what
            // it had said itself, which counts all the same.
            received = fd_passing::receive(socket);
        }
        let message = match received {
            Ok(Some(message)) => message,
            Ok(None) => return Heard::End,
            Err(Errno::AGAIN) => return Heard::Nothing,
            Err(Errno::MSGSIZE) => {
                return Heard::Garbage("a record with too many bytes or descriptors".to_owned());
            }
            Err(_) => return Heard::End,
        };
        self.talk.count(message.bytes.len(), now());
        match self.incoming.take(message) {
            Ok(Some(record)) => match serde_json::from_slice(&record.bytes) {
                Ok(parsed) => Heard::Record(Box::new(parsed), record.fds),
                Err(error) => Heard::Garbage(format!("a record that does not parse: {error}")),
            },
            Ok(None) => Heard::Part,
            Err(error) => Heard::Garbage(error.to_string()),
        }
    }

    /// Whether the other side of its connection is closed: what is left in it has an end.
    pub(super) fn has_hung_up(&self) -> bool {
        self.polls(PollFlags::empty())
    }

    /// Whether a record, or the connection's end, can be received without waiting.
    pub fn has_word(&self) -> bool {
        self.polls(PollFlags::IN)
    }

    fn polls(&self, flags: PollFlags) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(socket, flags)];
        poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    /// It says that it has done what it was told of a change; what it says unasked is nothing.
    pub(super) fn has_followed(&mut self, told: Changing, done: Changing) {
        if self.changing == told {
            self.changing = done;
        }
    }

    /// It has said what is likely the last of a change that it was told to forget. Where it was
    /// asked to say so, it is the answer that counts: told to change again before, it would be
    /// taken for done by that answer.
    pub(super) fn has_said_the_last(&mut self) {
        if self.forgets.is_none() {
            self.changing = Changing::No;
        }
    }

    /// Whether it is, or soon will be, moving packets.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, State::Dead | State::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::protocol::parts::Outgoing;

    /// A worker that was told to stop reads no more, whatever it is told then, and its last word
    /// says that it ended in order.
    #[test]
    fn the_last_word_of_one_that_has_not_read_everything_is_heard() {
        let kind = SocketType::SEQPACKET;
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        let mut instance = Instance::with(0, None, Some(ours), String::new());
        instance.send(&ToWorker::Stop);
        instance.send(&ToWorker::EndSeek);
        let stopped = FromWorker::Stopped { ports: Vec::new() };
        let bytes = serde_json::to_vec(&stopped).unwrap();
        Outgoing::new(bytes).send(&theirs, &[]).unwrap();
        drop(theirs);
        let heard = instance.receive();
        assert!(
            matches!(&heard, Heard::Record(record, _) if **record == stopped),
            "{heard:?}"
        );
        assert!(matches!(instance.receive(), Heard::End));
    }

    /// Else the answer, which comes when it is told of another change, would end that one.
    #[test]
    fn one_that_was_asked_for_its_last_word_is_changing_until_it_comes() {
        let mut instance = Instance::with(0, None, None, String::new());
        instance.changing = Changing::Forgetting;
        instance.forgets = Some(7);
        instance.has_said_the_last();
        assert_eq!(instance.changing, Changing::Forgetting);
        instance.forgets = None;
        instance.has_said_the_last();
        assert_eq!(instance.changing, Changing::No);
    }

    #[test]
    fn a_flood_is_told_from_a_busy_start_and_has_its_second() {
        let mut talk = Talk::default();
        let start = Instant::now();
        for _ in 1..MESSAGES_PER_SECOND_MAX {
            talk.count(10, start);
            assert_eq!(talk.rests(start), None);
        }
        talk.count(10, start);
        let later = start + Duration::from_millis(600);
        assert_eq!(talk.rests(later), Some(Duration::from_millis(400)));
        assert_eq!(talk.rests(start + SECOND), None);
        talk.count(BYTES_PER_SECOND_MAX, start + SECOND);
        assert_eq!(talk.rests(start + SECOND), Some(SECOND));
        assert_eq!(talk.rests(start + 2 * SECOND), None);
    }
}
