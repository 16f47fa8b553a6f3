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
use crate::supervisor::keeper::{BOOK, END, PARK};

/// How long the keeper, which does nothing else, may take to read.
const PATIENCE: Duration = Duration::from_secs(5);

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
    pub(super) serial: u64,
    /// When the chain started, on the kernel's monotonic clock.
    pub(super) started_ns: u64,
    pub(super) origins: Vec<Origin>,
    /// What control requests have changed since.
    pub(super) drift: Option<Origin>,
    /// The book as it was written last.
    pub(super) written: Vec<u8>,
}

/// What a book needs, while it is written.
pub(super) struct Parcels<'a> {
    pub(super) estate: &'a mut Estate,
    pub(super) keys: BTreeSet<String>,
    pub(super) new: Vec<(String, OwnedFd)>,
    pub(super) failure: Option<std::io::Error>,
}

impl Parcels<'_> {
    pub(super) fn put(&mut self, key: String, fd: BorrowedFd<'_>) -> String {
        if !self.estate.parked.contains(&key) && !self.keys.contains(&key) {
            match fd.try_clone_to_owned() {
                Ok(copy) => self.new.push((key.clone(), copy)),
                Err(error) => self.failure = Some(error),
            }
        }
        self.keys.insert(key.clone());
        key
    }

    pub(super) fn put_shared(&mut self, fd: &Arc<OwnedFd>) -> String {
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
            drift: None,
            written: Vec::new(),
        })
    }

    /// Says something to the keeper.
    pub(super) fn tell(&self, kind: u8, text: &[u8], fds: &[BorrowedFd<'_>]) -> Result<(), Errno> {
        let bytes = [&[kind][..], text].concat();
        Outgoing::new(bytes).send(&self.keeper, fds)
    }

    /// Hands over what is new, then the book: the keeper has all of it or what it had before.
    pub(super) fn write(
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

/// Whether a chain can do as it says when its supervisor has died.
pub(super) fn check_possible(chain: &Chain, placement: &Placement) -> Result<(), String> {
    match placement.not_kept() {
        Some(why) if chain.run.orphan_ms > 0 => Err(why),
        _ => Ok(()),
    }
}

/// Puts a text into memory of its own.
pub(super) fn write_text(text: &str) -> Result<OwnedFd, Errno> {
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
