//! The estate of a chain that may outlive its supervisor: what a successor needs to go on.
//!
//! It is a *book*, one text that says how far everything has come, and the descriptors that the
//! book names. Both lie with the keeper ([`keeper`](super::keeper)), a process of its own that
//! outlives this one. The book is written at the beginning and at the end of each step of the
//! supervisor's loop, and only then the workers are told what was decided in that step. So
//! whenever the supervisor dies,
//!
//! - what it had decided and not written down, nobody has been told: its successor finds the same
//!   exits and the same memory, and decides again;
//! - what is written down and was perhaps not sent, the successor sends, as far as each worker has
//!   not heard it ([`Outbox::resumed`](super::outbox::Outbox::resumed)).
//!
//! Nothing here is written by a worker, nor can be.

mod book;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::Arc;
use std::time::Duration;

use catena_shm::fd_passing::FDS_MAX;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::chain::Chain;
use crate::placement::Placement;
use crate::protocol::parts::Outgoing;
use crate::stats::{NodeCounters, RxCounters, TxCounters};
use crate::supervisor::apply::Change;
use crate::supervisor::clock::now;
pub(super) use crate::supervisor::estate::book::{
    Book, Life, Stage, WrittenPast, WrittenRegion, WrittenRespawn, WrittenState,
};
use crate::supervisor::instance::{Changing, Instance, State};
use crate::supervisor::keeper::{BOOK, END, OPEN, Opening, PARK};
use crate::supervisor::{Past, StartError, Supervisor, spawn};

/// How long the keeper, which does nothing else, may take to read.
const PATIENCE: Duration = Duration::from_secs(5);
/// Gaps that a successor remembers, for its percentiles.
pub(super) const GAPS_MAX: usize = 1000;

/// A text that a chain came from, in memory.
#[derive(Debug)]
pub(super) struct Origin {
    pub(super) memory: Arc<OwnedFd>,
    pub(super) len: usize,
}

/// The supervisor's side of its estate.
#[derive(Debug)]
pub(super) struct Estate {
    keeper: OwnedFd,
    /// The keeper's process, if this supervisor has started it.
    child: Option<Child>,
    /// Keys of what the keeper has.
    parked: BTreeSet<String>,
    /// Keys of shared descriptors, by their address; kept, so that no address is used again.
    shared: BTreeMap<usize, (Arc<OwnedFd>, String)>,
    serial: u64,
    /// When the chain started, on the kernel's monotonic clock.
    started_ns: u64,
    pub(super) origins: Vec<Origin>,
    /// The book as it was written last.
    written: Vec<u8>,
}

/// What a book needs, while it is written.
struct Parcels<'a> {
    estate: &'a mut Estate,
    keys: BTreeSet<String>,
    new: Vec<(String, OwnedFd)>,
    failure: Option<std::io::Error>,
}

impl Parcels<'_> {
    fn put(&mut self, key: String, fd: BorrowedFd<'_>) -> String {
        if !self.estate.parked.contains(&key) && !self.keys.contains(&key) {
            match fd.try_clone_to_owned() {
                Ok(copy) => self.new.push((key.clone(), copy)),
                Err(error) => self.failure = Some(error),
            }
        }
        self.keys.insert(key.clone());
        key
    }

    fn put_shared(&mut self, fd: &Arc<OwnedFd>) -> String {
        let address = Arc::as_ptr(fd).addr();
        let key = match self.estate.shared.get(&address) {
            Some((_, key)) => key.clone(),
            None => {
                self.estate.serial += 1;
                let key = format!("memory {}", self.estate.serial);
                let shared = (fd.clone(), key.clone());
                self.estate.shared.insert(address, shared);
                key
            }
        };
        self.put(key, fd.as_fd())
    }
}

impl Estate {
    /// With a keeper that has just been started, or one whose estate has been taken over.
    pub(super) fn new(
        keeper: OwnedFd,
        child: Option<Child>,
        (serial, started_ns): (u64, u64),
        parked: &BTreeMap<String, Arc<OwnedFd>>,
    ) -> Result<Self, Errno> {
        set_socket_timeout(&keeper, Timeout::Send, Some(PATIENCE))?;
        let shared = parked.iter().map(|(key, fd)| {
            let address = Arc::as_ptr(fd).addr();
            (address, (fd.clone(), key.clone()))
        });
        Ok(Self {
            keeper,
            child,
            parked: parked.keys().cloned().collect(),
            shared: shared.collect(),
            serial,
            started_ns,
            origins: Vec::new(),
            written: Vec::new(),
        })
    }

    /// Says something to the keeper.
    pub(super) fn tell(&self, kind: u8, text: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes = [&[kind][..], text].concat();
        Outgoing::new(bytes).send(&self.keeper, fds)
    }

    /// Hands over what is new, then the book: the keeper has all of it or what it had before.
    fn write(
        &mut self,
        bytes: Vec<u8>,
        keys: BTreeSet<String>,
        new: &[(String, OwnedFd)],
    ) -> Result<(), Errno> {
        for parcels in new.chunks(FDS_MAX) {
            let keys: Vec<&String> = parcels.iter().map(|(key, _)| key).collect();
            let fds: Vec<BorrowedFd<'_>> = parcels.iter().map(|(_, fd)| fd.as_fd()).collect();
            let keys = serde_json::to_vec(&keys).map_err(|_| Errno::INVAL)?;
            self.tell(PARK, &keys, &fds)?;
        }
        self.tell(BOOK, &bytes, &[])?;
        self.shared.retain(|_, (_, key)| keys.contains(key));
        self.parked = keys;
        self.written = bytes;
        Ok(())
    }

    /// There is nothing left to keep. Waits until the keeper has gone.
    pub(super) fn end(mut self) {
        let _ = self.tell(END, &[], &[]);
        let _ = set_socket_timeout(&self.keeper, Timeout::Recv, Some(PATIENCE));
        // It says nothing more: what comes is its end.
        let _ = catena_shm::fd_passing::receive(&self.keeper);
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Supervisor {
    /// Has the chain outlive this process for as long as its file says, if it says so. `origin` is
    /// what the chain came from, as whoever takes it over reads it (see [`Supervisor::adopt`]).
    ///
    /// # Errors
    /// [`StartError::Orphan`]: then it ends with this process.
    pub fn keep(&mut self, origin: &str) -> Result<(), StartError> {
        if self.chain.run.orphan_ms == 0 || self.estate.is_some() {
            return Ok(());
        }
        let failed = |why: String| StartError::Orphan(format!("the chain cannot be kept: {why}"));
        let (child, keeper) = spawn::keeper(&self.chain.name, &self.options.program)?;
        let started = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let numbers = (0, monotonic_ns().saturating_sub(started));
        let estate = Estate::new(keeper, child, numbers, &BTreeMap::new());
        let estate = estate.map_err(|error| failed(error.to_string()))?;
        let door = self.runtime.keeper_listener();
        let door = door.map_err(|error| failed(error.to_string()))?;
        let opening = Opening {
            pid: std::process::id(),
            limit_ms: self.chain.run.orphan_ms,
        };
        let text = serde_json::to_vec(&opening).map_err(|error| failed(error.to_string()))?;
        let told = estate.tell(OPEN, &text, &[door.as_fd()]);
        told.map_err(|error| failed(error.to_string()))?;
        self.estate = Some(estate);
        self.came_from(origin);
        self.commit();
        match self.estate {
            Some(_) => Ok(()),
            None => Err(failed(
                "its keeper does not take what it is given".to_owned(),
            )),
        }
    }

    /// From now on the chain is what `origin` says.
    pub(super) fn came_from(&mut self, origin: &str) {
        let Some(estate) = &mut self.estate else {
            return;
        };
        match write_text(origin) {
            Ok(memory) => estate.origins.push(Origin {
                memory: Arc::new(memory),
                len: origin.len(),
            }),
            Err(error) => {
                self.estate = None;
                self.let_go(&error.to_string());
            }
        }
    }

    /// Nobody will take the chain over.
    fn let_go(&mut self, why: &str) {
        self.notice(format!(
            "the chain is not kept any more ({why}): it ends when this process is killed"
        ));
        for instance in &self.instances {
            instance.outbox.journal(false);
        }
    }

    /// Writes down how far everything has come, and then tells workers what they are to be told.
    /// Without a keeper, nothing is written and nothing has waited.
    pub(super) fn commit(&mut self) {
        let Some(mut estate) = self.estate.take() else {
            return;
        };
        let result = self.write_down(&mut estate);
        #[cfg(test)]
        crate::supervisor::simulation::may_die();
        if let Err(why) = &result {
            self.let_go(why);
        }
        let now = now();
        for instance in &self.instances {
            instance.outbox.journal(result.is_ok());
            if let Some(socket) = instance.socket.as_ref().filter(|_| instance.is_live()) {
                instance.outbox.written(socket, now);
            }
        }
        self.estate = result.is_ok().then_some(estate);
    }

    fn write_down(&self, estate: &mut Estate) -> Result<(), String> {
        let mut parcels = Parcels {
            estate,
            keys: BTreeSet::new(),
            new: Vec::new(),
            failure: None,
        };
        let mut book = self.book(&mut parcels);
        let Parcels {
            keys, new, failure, ..
        } = parcels;
        if let Some(error) = failure {
            return Err(error.to_string());
        }
        book.keys = keys.clone();
        book.serial = estate.serial;
        let bytes = serde_json::to_vec(&book).map_err(|error| error.to_string())?;
        if bytes == estate.written {
            return Ok(());
        }
        let written = estate.write(bytes, keys, &new);
        written.map_err(|error| error.to_string())
    }

    fn book(&self, parcels: &mut Parcels<'_>) -> Book {
        let stage = match self.change {
            Change::No => Stage::Settled,
            Change::Preparing(_) => Stage::Preparing,
            Change::Switching(..) | Change::Completing(..) => Stage::Switching,
        };
        let origins = parcels.estate.origins.iter();
        let origins: Vec<_> = origins.map(|one| (one.memory.clone(), one.len)).collect();
        let origins = origins
            .iter()
            .map(|(fd, len)| (parcels.put_shared(fd), *len));
        let origins = origins.collect();
        parcels.put("lock".to_owned(), self.runtime.lock());
        let lives = self.instances.iter().enumerate();
        let lives = lives.map(|(worker, instance)| life(worker, instance, parcels));
        let lives: Vec<Life> = lives.collect();
        let regions = self.memory.everything().map(|(name, start, held)| {
            let ring = held.end.as_ref().map(|end| end.geometry());
            WrittenRegion {
                name,
                start,
                key: parcels.put_shared(&held.fd),
                len: held.len,
                ring: ring.map(|ring| (ring.slot_count, ring.staging_bytes)),
            }
        });
        let regions = regions.collect();
        let states = self.states.everything();
        let states = states.map(|(node, name, fd, len)| WrittenState {
            node,
            name: name.to_owned(),
            key: parcels.put_shared(fd),
            len,
        });
        let states = states.collect();
        Book {
            keys: BTreeSet::new(),
            serial: 0,
            pids: lives.iter().filter_map(|life| life.pid).collect(),
            origins,
            stage,
            pin: self.options.pin,
            wait: self.wait,
            clock: self.clock.parts(),
            started_ns: parcels.estate.started_ns,
            split_seed: self.split_seed,
            next_request: self.next_request,
            is_draining: self.is_draining,
            probing: self.probing.map(|(settings, _)| settings),
            lives,
            regions,
            starts: self.memory.starts().collect(),
            states,
            secrets: self.sockets.secrets.clone(),
            addresses: self.sockets.addresses.clone(),
            past: self.past.written(),
            waiting: self.reclaims.waiting.clone(),
            under_way: self.reclaims.under_way.clone(),
            last_reclaim: self.reclaims.last,
            audits_due: self.audits.due.clone(),
            audits_open: self.audits.open_links(),
            audits_last: self.audits.last.clone(),
            adoptions: self.adoptions.clone(),
            respawns: self.written_respawns(),
        }
    }

    fn written_respawns(&self) -> Vec<WrittenRespawn> {
        let entries = self.respawns.iter().map(|(worker, entry)| WrittenRespawn {
            worker: *worker,
            quick_deaths: entry.quick_deaths,
            is_up: entry.is_up,
            waits_for: entry
                .waits_for
                .iter()
                .map(|(unit, by)| (*unit, *by))
                .collect(),
        });
        entries.collect()
    }
}

impl Past {
    fn written(&self) -> WrittenPast {
        let gaps = self.gaps.len().saturating_sub(GAPS_MAX);
        WrittenPast {
            nodes: words(&self.nodes, |node| node.words().to_vec()),
            tx: words(&self.tx, |tx| tx.words().to_vec()),
            rx: words(&self.rx, |rx| rx.words().to_vec()),
            killed: self.killed.clone(),
            restarts: self.restarts.clone(),
            deaths: self.deaths,
            gaps: self.gaps[gaps..].to_vec(),
            detached: self.detached.iter().cloned().collect(),
            accusations: self.accusations.iter().cloned().collect(),
            recovered: self.recovered,
            searches: self.searches,
        }
    }

    /// As a former supervisor wrote it down.
    pub(super) fn of(written: &WrittenPast) -> Self {
        Self {
            nodes: counters(&written.nodes, NodeCounters::from_words),
            tx: counters(&written.tx, TxCounters::from_words),
            rx: counters(&written.rx, RxCounters::from_words),
            killed: written.killed.clone(),
            restarts: written.restarts.clone(),
            deaths: written.deaths,
            gaps: written.gaps.clone(),
            detached: written.detached.iter().cloned().collect(),
            accusations: written.accusations.iter().cloned().collect(),
            recovered: written.recovered,
            searches: written.searches,
        }
    }
}

type Numbered<T> = BTreeMap<usize, T>;

fn words<T>(all: &Numbered<T>, of: impl Fn(&T) -> Vec<u64>) -> Numbered<Vec<u64>> {
    all.iter().map(|(index, one)| (*index, of(one))).collect()
}

fn counters<T, const N: usize>(
    written: &Numbered<Vec<u64>>,
    of: impl Fn(&[u64; N]) -> T,
) -> Numbered<T> {
    let whole = written.iter().filter_map(|(index, words)| {
        let words: &[u64; N] = words.as_slice().try_into().ok()?;
        Some((*index, of(words)))
    });
    whole.collect()
}

/// Whether a chain can do as it says when its supervisor has died.
pub(super) fn check_possible(chain: &Chain, placement: &Placement) -> Result<(), String> {
    match placement.not_kept() {
        Some(why) if chain.run.orphan_ms > 0 => Err(why),
        _ => Ok(()),
    }
}

fn life(worker: usize, instance: &Instance, parcels: &mut Parcels<'_>) -> Life {
    let epoch = instance.epoch;
    let own = |what: &str| format!("{what} {worker} {epoch}");
    let body = instance.body.as_ref();
    let exit = body.and_then(super::Body::exit_fd);
    let (sent, unsent) = match instance.state {
        State::Running => instance.outbox.unsent(),
        // One that does not run yet is not taken over.
        _ => (0, Vec::new()),
    };
    let mut shared = |of: &Option<(Arc<OwnedFd>, usize)>| {
        let (fd, len) = of.as_ref()?;
        Some((parcels.put_shared(fd), *len))
    };
    let (page, records) = (shared(&instance.page), shared(&instance.records));
    let unsent = unsent.into_iter().map(|(text, memory)| {
        let key = memory.map(|memory| parcels.put_shared(&memory));
        (text, key)
    });
    let unsent = unsent.collect();
    let socket = instance.socket.as_ref();
    Life {
        epoch,
        state: instance.state,
        pid: body.and_then(super::Body::pid),
        socket: socket.map(|fd| parcels.put(own("socket"), fd.as_fd())),
        process: exit.map(|fd| parcels.put(own("process"), fd.as_fd())),
        page,
        records,
        layout: instance.layout,
        rx_gone: instance.rx_gone,
        tx_gone: instance.tx_gone,
        is_retiring: instance.is_retiring,
        is_bypass: instance.is_bypass,
        is_introduced: instance.is_introduced,
        is_detached: instance.is_detached,
        is_changing: instance.changing != Changing::No,
        failure: instance.failure.clone(),
        closings: instance.closings.clone(),
        sent,
        unsent,
    }
}

/// Puts a text into memory of its own.
fn write_text(text: &str) -> Result<OwnedFd, Errno> {
    let memory = memfd_create("catena-origin", MemfdFlags::CLOEXEC)?;
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let count = rustix::io::write(&memory, rest)?;
        rest = &rest[count..];
    }
    Ok(memory)
}

/// Reads such a text, of `len` bytes.
pub(super) fn read_text(memory: &OwnedFd, len: usize) -> Result<String, String> {
    let mut bytes = vec![0; len];
    let mut at = 0;
    while at < len {
        let count = rustix::io::pread(memory, &mut bytes[at..], at as u64);
        match count.map_err(|error| error.to_string())? {
            0 => return Err("a text of its estate is cut short".to_owned()),
            count => at += count,
        }
    }
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// The kernel's monotonic clock, which is the same for all processes.
pub(super) fn monotonic_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let parts = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
    parts.0.unwrap_or(0) * 1_000_000_000 + parts.1.unwrap_or(0)
}
