//! One instance of a worker, as the supervisor sees it.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::counters::Counters;
use catena_shm::fd_passing;
use catena_shm::ring_memory::RingEnd;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::protocol::{FromWorker, PortClosing, RegionName, ToWorker};
use crate::stats::PageLayout;
use crate::supervisor::outbox::Outbox;
use crate::supervisor::spawn::Body;

/// How far an instance has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
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
    /// It was told to turn to its new outputs.
    Rewiring,
    /// It has turned.
    Rewired,
}

/// Records of one worker within a second, at most: a start of the largest chain takes fewer.
pub const RECORDS_PER_SECOND_MAX: u32 = 4096;

/// How much a worker says.
#[derive(Debug, Default)]
pub(super) struct Talk {
    second: Option<Instant>,
    count: u32,
}

impl Talk {
    /// Counts one record at time `now`; false if they are too many.
    pub(super) fn count(&mut self, now: Instant) -> bool {
        let is_past =
            |second: Instant| now.saturating_duration_since(second) >= Duration::from_secs(1);
        if self.second.is_none_or(is_past) {
            *self = Self {
                second: Some(now),
                count: 0,
            };
        }
        self.count += 1;
        self.count <= RECORDS_PER_SECOND_MAX
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
    /// What it has accused its neighbours of, by their memory.
    pub accusations: BTreeMap<RegionName, u64>,
    /// Its counters page.
    pub counters: Option<Counters>,
    /// The page that its probes write into, and its size.
    pub records: Option<(Arc<OwnedFd>, usize)>,
    /// Where blocks lie in the counters page.
    pub layout: PageLayout,
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
    /// Whether it leaves the chain for good.
    pub is_retiring: bool,
    /// Whether it passes packets on in place of its nodes.
    pub is_bypass: bool,
    /// Whether it has stopped taking packets in.
    pub is_drained: bool,
    /// Whether it was ended for breaking the rules.
    pub is_detached: bool,
    /// Why it failed, if it said so.
    pub failure: Option<String>,
}

impl Instance {
    /// An instance that has just been started.
    pub fn new(epoch: u32, body: Body, socket: Option<OwnedFd>, token: String) -> Self {
        Self {
            epoch,
            state: State::Starting,
            body: Some(body),
            socket,
            token,
            made: BTreeSet::new(),
            awaits: BTreeMap::new(),
            started: Instant::now(),
            outbox: Outbox::default(),
            talk: Talk::default(),
            accusations: BTreeMap::new(),
            counters: None,
            records: None,
            layout: PageLayout::default(),
            running_since: None,
            closings: Vec::new(),
            is_finished: false,
            is_drained: false,
            is_introduced: false,
            changing: Changing::No,
            is_retiring: false,
            is_bypass: false,
            is_detached: false,
            failure: None,
        }
    }

    /// Sends a record; it waits here while the worker does not read.
    pub fn send(&self, record: &ToWorker) {
        self.send_with(record, None);
    }

    /// Sends a record with memory.
    pub fn send_with(&self, record: &ToWorker, memory: Option<&Arc<OwnedFd>>) {
        if let (Some(socket), Ok(bytes)) = (&self.socket, serde_json::to_vec(record)) {
            self.outbox.send(socket, bytes, memory);
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

    /// Receives one record, if there is one.
    pub fn receive(&self) -> Heard {
        let Some(socket) = &self.socket else {
            return Heard::End;
        };
        match fd_passing::receive(socket) {
            Ok(Some(message)) => match serde_json::from_slice(&message.bytes) {
                Ok(record) => Heard::Record(Box::new(record), message.fds),
                Err(error) => Heard::Garbage(format!("a record that does not parse: {error}")),
            },
            Ok(None) => Heard::End,
            Err(Errno::AGAIN) => Heard::Nothing,
            Err(Errno::MSGSIZE) => {
                Heard::Garbage("a record with too many bytes or descriptors".to_owned())
            }
            Err(_) => Heard::End,
        }
    }

    /// Whether a record, or the connection's end, can be received without waiting.
    pub fn has_word(&self) -> bool {
        let Some(socket) = &self.socket else {
            return false;
        };
        let at_once = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        poll(&mut fds, Some(&at_once)).is_ok_and(|count| count > 0)
    }

    /// Whether it is, or soon will be, moving packets.
    pub fn is_live(&self) -> bool {
        !matches!(self.state, State::Dead | State::Stopped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_told_from_a_busy_start() {
        let mut talk = Talk::default();
        let start = Instant::now();
        assert!((0..RECORDS_PER_SECOND_MAX).all(|_| talk.count(start)));
        assert!(!talk.count(start + Duration::from_millis(999)));
        assert!(talk.count(start + Duration::from_secs(1)));
    }
}
