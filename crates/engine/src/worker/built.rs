//! What comes of an assignment: a worker ready to run, or what one that runs adds.

use std::sync::Arc;

use catena_shm::counters::Counters;
use catena_shm::pool::{PoolOwner, PoolView};
use catena_shm::record_ring::RecordPage;

use crate::link::{RxLink, TxLink};
use crate::pools::{HomeLane, Pools, ReturnLane};
use crate::protocol::Assignment;
use crate::worker::ends::Plugs;
use crate::worker::graph::{Graph, Work};
use crate::worker::node_memory::Rebuild;

/// A worker, ready to run.
#[derive(Debug)]
pub struct Built {
    /// Its nodes and edges.
    pub graph: Graph,
    /// Its pools.
    pub pools: Pools,
    /// Its counters page.
    pub counters: Arc<Counters>,
    /// Where its probes write.
    pub records: RecordPage,
    /// Where ports of links are told of their connections.
    pub plugs: Plugs,
    /// What it was assigned.
    pub assignment: Assignment,
}

/// What a running worker adds.
#[derive(Debug, Default)]
pub struct Additions {
    /// New sending links.
    pub tx: Vec<TxLink>,
    /// New receiving links.
    pub rx: Vec<RxLink>,
    /// Nodes with new settings, by index in the chain.
    pub works: Vec<(usize, Work)>,
    /// What each of them counts itself, by name.
    pub counter_names: Vec<(usize, Vec<String>)>,
    /// Those of them that are built once more, with the memory that those before them leave.
    pub rebuilds: Vec<(usize, Rebuild)>,
}

/// Pools and lanes that a running worker adds: all that may come to know a packet of them have
/// added theirs before the first is made.
#[derive(Debug, Default)]
pub struct Admitted {
    /// New ways home for buffers that end here.
    pub return_lanes: Vec<ReturnLane>,
    /// New ways home for buffers of pools owned here.
    pub home_lanes: Vec<HomeLane>,
    /// New pools owned here.
    pub owners: Vec<PoolOwner>,
    /// New pools seen here.
    pub views: Vec<PoolView>,
}
