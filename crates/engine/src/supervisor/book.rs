//! What is written down for a successor of this supervisor.
//!
//! The book is one text, written whole or not at all. It names descriptors by the keys under which
//! the keeper has them. Both sides are of one version: whoever has another is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::probe::ProbeSettings;
use crate::protocol::{LinkSecret, PortClosing, RegionName};
use crate::stats::PageLayout;
use crate::supervisor::instance::State;
use crate::supervisor::reclaims::Reclaim;
use crate::wait::ChosenWait;

/// How far a change of the chain had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    /// There was none.
    Settled,
    /// Nothing new was in use.
    Preparing,
    /// The chain is the new one, and parts of the old one were in use.
    Switching,
}

/// What is written down. Descriptors are named by keys.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Book {
    /// Every descriptor that is needed; the keeper closes others.
    pub(super) keys: BTreeSet<String>,
    /// Processes of workers; the keeper gives the estate to none of them.
    pub(super) pids: Vec<u32>,
    /// Keys have been made up to this number.
    pub(super) serial: u64,
    /// What the chain was started from, and each change, in order: texts in memory.
    pub(super) origins: Vec<(String, usize)>,
    /// What control requests have changed of it since: a text in memory.
    pub(super) drift: Option<(String, usize)>,
    pub(super) stage: Stage,
    pub(super) pin: bool,
    pub(super) wait: ChosenWait,
    pub(super) clock: [u64; 3],
    /// When it started, on the kernel's monotonic clock.
    pub(super) started_ns: u64,
    /// What splitters' hashes are keyed with: a flow stays with its shard.
    pub(super) split_seed: u64,
    pub(super) next_request: u64,
    pub(super) drain_round: u64,
    pub(super) probing: Option<ProbeSettings>,
    pub(super) lives: Vec<Life>,
    pub(super) containers: Option<WrittenContainers>,
    pub(super) regions: Vec<WrittenRegion>,
    pub(super) starts: Vec<(RegionName, u64)>,
    pub(super) states: Vec<WrittenState>,
    pub(super) secrets: Vec<LinkSecret>,
    pub(super) addresses: BTreeMap<usize, SocketAddrV4>,
    pub(super) past: WrittenPast,
    pub(super) waiting: Vec<Reclaim>,
    pub(super) under_way: Vec<(u64, Reclaim)>,
    pub(super) last_reclaim: u64,
    pub(super) audits_due: BTreeMap<usize, BTreeSet<u8>>,
    /// Owners that were asked to mark their buffers.
    pub(super) audits_open: BTreeMap<usize, BTreeSet<u8>>,
    pub(super) audits_last: BTreeMap<usize, BTreeSet<u8>>,
    pub(super) adoptions: BTreeMap<u16, Vec<(u32, u8)>>,
    pub(super) respawns: Vec<WrittenRespawn>,
}

/// One life of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Life {
    pub(super) epoch: u32,
    pub(super) state: State,
    pub(super) pid: Option<u32>,
    pub(super) socket: Option<String>,
    pub(super) process: Option<String>,
    pub(super) container: Option<WrittenContainer>,
    pub(super) page: Option<(String, usize)>,
    pub(super) records: Option<(String, usize)>,
    pub(super) layout: PageLayout,
    pub(super) rx_gone: u64,
    pub(super) tx_gone: u64,
    pub(super) is_retiring: bool,
    pub(super) is_bypass: bool,
    pub(super) is_introduced: bool,
    pub(super) is_detached: bool,
    pub(super) is_changing: bool,
    pub(super) failure: Option<String>,
    pub(super) closings: Vec<PortClosing>,
    /// Records that its socket had taken, and those to be sent next, with the key of their memory.
    pub(super) sent: u64,
    pub(super) unsent: Vec<(String, Option<String>)>,
}

/// What containers are run from.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenContainers {
    pub(super) engine: String,
    pub(super) system_calls: Option<PathBuf>,
    pub(super) user: String,
}

/// A worker's container.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenContainer {
    pub(super) name: String,
    /// Whether its worker has connected: then `process` is the worker, else the engine's client.
    pub(super) has_come: bool,
}

/// Memory that a worker has made.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenRegion {
    pub(super) name: RegionName,
    pub(super) start: u64,
    pub(super) key: String,
    pub(super) len: usize,
    /// Slots and staging bytes, of one side of a ring.
    pub(super) ring: Option<(u32, u32)>,
}

/// Memory that outlives an NF.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenState {
    pub(super) node: usize,
    pub(super) name: String,
    pub(super) key: String,
    pub(super) len: usize,
}

/// What dead instances counted.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenPast {
    pub(super) nodes: BTreeMap<usize, Vec<u64>>,
    pub(super) tx: BTreeMap<usize, Vec<u64>>,
    pub(super) rx: BTreeMap<usize, Vec<u64>>,
    pub(super) killed: BTreeMap<usize, u64>,
    pub(super) left: BTreeMap<usize, String>,
    pub(super) drops: Vec<WrittenDrops>,
    pub(super) links: Vec<WrittenLink>,
    pub(super) restarts: BTreeMap<usize, u32>,
    pub(super) deaths: u64,
    pub(super) gaps: Vec<Duration>,
    pub(super) detached: Vec<String>,
    pub(super) accusations: Vec<String>,
    pub(super) recovered: u64,
    pub(super) searches: u64,
}

/// A node, what it had dropped under other types, and what of its counters that is.
pub(super) type WrittenDrops = (usize, BTreeMap<String, u64>, BTreeMap<usize, u64>);

/// A link's name, packets sent and taken, and the words of both sides.
pub(super) type WrittenLink = (String, [u64; 2], Vec<u64>, Vec<u64>);

/// A worker to be started again, or one that has died before.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenRespawn {
    pub(super) worker: usize,
    pub(super) quick_deaths: u32,
    pub(super) is_up: bool,
    pub(super) waits_for: Vec<((u16, u32), u8)>,
}
