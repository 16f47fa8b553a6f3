//! What is written down for a successor of this supervisor.
//!
//! The book is one text, written whole or not at all. It names descriptors by the keys under which
//! the keeper has them. Both sides are of one version: whoever has another is refused.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::probe::ProbeSettings;
use crate::protocol::{LinkSecret, PortClosing, RegionName};
use crate::stats::PageLayout;
use crate::supervisor::burial::Reclaim;
use crate::supervisor::instance::State;
use crate::wait::ChosenWait;

/// How far a change of the chain had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::supervisor) enum Stage {
    /// There was none.
    Settled,
    /// Nothing new was in use.
    Preparing,
    /// The chain is the new one, and parts of the old one were in use.
    Switching,
}

/// What is written down. Descriptors are named by keys.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct Book {
    /// Every descriptor that is needed; the keeper closes others.
    pub(in crate::supervisor) keys: BTreeSet<String>,
    /// Processes of workers; the keeper gives the estate to none of them.
    pub(in crate::supervisor) pids: Vec<u32>,
    /// Keys have been made up to this number.
    pub(in crate::supervisor) serial: u64,
    /// What the chain was started from, and each change, in order: texts in memory.
    pub(in crate::supervisor) origins: Vec<(String, usize)>,
    pub(in crate::supervisor) stage: Stage,
    pub(in crate::supervisor) pin: bool,
    pub(in crate::supervisor) wait: ChosenWait,
    pub(in crate::supervisor) clock: [u64; 3],
    /// When it started, on the kernel's monotonic clock.
    pub(in crate::supervisor) started_ns: u64,
    /// What splitters' hashes are keyed with: a flow stays with its shard.
    pub(in crate::supervisor) split_seed: u64,
    pub(in crate::supervisor) next_request: u64,
    pub(in crate::supervisor) is_draining: bool,
    pub(in crate::supervisor) probing: Option<ProbeSettings>,
    pub(in crate::supervisor) lives: Vec<Life>,
    pub(in crate::supervisor) regions: Vec<WrittenRegion>,
    pub(in crate::supervisor) starts: Vec<(RegionName, u64)>,
    pub(in crate::supervisor) states: Vec<WrittenState>,
    pub(in crate::supervisor) secrets: Vec<LinkSecret>,
    pub(in crate::supervisor) addresses: BTreeMap<usize, SocketAddrV4>,
    pub(in crate::supervisor) past: WrittenPast,
    pub(in crate::supervisor) waiting: Vec<Reclaim>,
    pub(in crate::supervisor) under_way: Vec<(u64, Reclaim)>,
    pub(in crate::supervisor) last_reclaim: u64,
    pub(in crate::supervisor) audits_due: BTreeMap<usize, BTreeSet<u8>>,
    /// Owners that were asked to mark their buffers.
    pub(in crate::supervisor) audits_open: BTreeMap<usize, BTreeSet<u8>>,
    pub(in crate::supervisor) audits_last: BTreeMap<usize, BTreeSet<u8>>,
    pub(in crate::supervisor) adoptions: BTreeMap<u16, Vec<(u32, u8)>>,
    pub(in crate::supervisor) respawns: Vec<WrittenRespawn>,
}

/// One life of a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct Life {
    pub(in crate::supervisor) epoch: u32,
    pub(in crate::supervisor) state: State,
    pub(in crate::supervisor) pid: Option<u32>,
    pub(in crate::supervisor) socket: Option<String>,
    pub(in crate::supervisor) process: Option<String>,
    pub(in crate::supervisor) page: Option<(String, usize)>,
    pub(in crate::supervisor) records: Option<(String, usize)>,
    pub(in crate::supervisor) layout: PageLayout,
    pub(in crate::supervisor) rx_gone: u64,
    pub(in crate::supervisor) tx_gone: u64,
    pub(in crate::supervisor) is_retiring: bool,
    pub(in crate::supervisor) is_bypass: bool,
    pub(in crate::supervisor) is_introduced: bool,
    pub(in crate::supervisor) is_detached: bool,
    pub(in crate::supervisor) is_changing: bool,
    pub(in crate::supervisor) failure: Option<String>,
    pub(in crate::supervisor) closings: Vec<PortClosing>,
    /// Records that its socket had taken, and those to be sent next, with the key of their memory.
    pub(in crate::supervisor) sent: u64,
    pub(in crate::supervisor) unsent: Vec<(String, Option<String>)>,
}

/// Memory that a worker has made.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct WrittenRegion {
    pub(in crate::supervisor) name: RegionName,
    pub(in crate::supervisor) start: u64,
    pub(in crate::supervisor) key: String,
    pub(in crate::supervisor) len: usize,
    /// Slots and staging bytes, of one side of a ring.
    pub(in crate::supervisor) ring: Option<(u32, u32)>,
}

/// Memory that outlives an NF.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct WrittenState {
    pub(in crate::supervisor) node: usize,
    pub(in crate::supervisor) name: String,
    pub(in crate::supervisor) key: String,
    pub(in crate::supervisor) len: usize,
}

/// What dead instances counted.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct WrittenPast {
    pub(in crate::supervisor) nodes: BTreeMap<usize, Vec<u64>>,
    pub(in crate::supervisor) tx: BTreeMap<usize, Vec<u64>>,
    pub(in crate::supervisor) rx: BTreeMap<usize, Vec<u64>>,
    pub(in crate::supervisor) killed: BTreeMap<usize, u64>,
    pub(in crate::supervisor) restarts: BTreeMap<usize, u32>,
    pub(in crate::supervisor) deaths: u64,
    pub(in crate::supervisor) gaps: Vec<Duration>,
    pub(in crate::supervisor) detached: Vec<String>,
    pub(in crate::supervisor) accusations: Vec<String>,
    pub(in crate::supervisor) recovered: u64,
    pub(in crate::supervisor) searches: u64,
}

/// A worker to be started again, or one that has died before.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::supervisor) struct WrittenRespawn {
    pub(in crate::supervisor) worker: usize,
    pub(in crate::supervisor) quick_deaths: u32,
    pub(in crate::supervisor) is_up: bool,
    pub(in crate::supervisor) waits_for: Vec<((u16, u32), u8)>,
}
