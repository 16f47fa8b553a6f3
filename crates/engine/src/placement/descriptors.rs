//! How many descriptors the processes of a placed chain need at most. Pure.
//!
//! Before any packet moves. The supervisor keeps one of every region that a worker has made, for
//! those who come later; a worker closes what it has mapped. So the supervisor needs the most: two
//! for each ring and each return lane, and there is a lane for each pair of an owner and whoever
//! its packets reach. In mode `thread` workers need theirs in the supervisor's process. All workers
//! may die at once: what a dead one has published is kept until it is taken, so of each ring and
//! each lane the slots of two lives are there, and of one worker at a time all else. Who asks of
//! the chain has [`ASKERS_MAX`].

use std::collections::BTreeSet;

use super::plan::Placement;
use crate::chain::model::{Chain, Mode, Node, NodeKind};
use crate::protocol::LaneSpec;

/// Descriptors of those who ask something of a running chain, at most, all at once: whoever lets
/// them in holds to it.
pub const ASKERS_MAX: usize = 320;
/// Descriptors of a supervisor that its chain does not ask for: streams, its folder, signals, its
/// keeper, a spare process, and who asks.
const SUPERVISOR: u64 = 32 + ASKERS_MAX as u64;
/// What it has of each worker beside memory: connection, process, an engine's client, and the pages
/// with counters and records.
const PER_WORKER: u64 = 5;
/// Descriptors of a worker that its nodes do not ask for: streams, connection, what it waits with.
const WORKER: u64 = 12;
/// What it has of a link or a lane: both sides, and the slots of a sender that has died.
const PER_RING: u64 = 3;
/// What a port may open: files, sockets and rings of a device.
const PER_PORT: u64 = 16;
/// A TCP link's ends: who listens, and who is connected, also while that is replaced.
const PER_TCP_END: u64 = 3;

/// Descriptors that processes of a chain need, at most.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The supervisor, with all workers that are its threads.
    pub supervisor: u64,
    /// Each worker, while it makes its memory; 0 of those that have left.
    pub workers: Vec<u64>,
}

/// What `placement` of `chain` needs.
pub fn needed(chain: &Chain, placement: &Placement) -> Needed {
    let count = placement.workers.len();
    let (mut made, mut workers) = (vec![0; count], vec![0; count]);
    let mut supervisor = SUPERVISOR;
    for ring in &placement.rings {
        let per_end = if ring.tcp.is_some() { PER_TCP_END } else { 1 };
        for worker in [ring.from, ring.to] {
            made[worker] += per_end;
        }
        supervisor += if ring.tcp.is_some() { 0 } else { PER_RING };
    }
    for lane in &placement.lanes {
        made[lane.from] += 1;
        made[lane.to] += 1;
        supervisor += PER_RING;
    }
    for pool in &placement.pools {
        made[pool.owner] += 2;
        supervisor += 2;
    }
    let present = placement.workers.iter().enumerate();
    for (worker, spec) in present.filter(|(_, spec)| !spec.nodes.is_empty()) {
        let nodes = || spec.nodes.iter().map(|node| &chain.nodes[*node]);
        let states: u64 = nodes().map(states_of).sum();
        let ports = nodes().filter(|node| node.is_port()).count() as u64;
        workers[worker] = WORKER + made[worker] + 2 * states + PER_PORT * ports;
        supervisor += PER_WORKER + states;
        if spec.mode == Mode::Thread {
            supervisor += workers[worker];
        }
    }
    // A successor's memory comes while its predecessor's is looked through.
    supervisor += made.iter().copied().max().unwrap_or(0);
    Needed {
        supervisor,
        workers,
    }
}

fn states_of(node: &Node) -> u64 {
    match &node.kind {
        NodeKind::Nf { plan, .. } => plan.state.len() as u64,
        NodeKind::Port { .. } => 0,
    }
}

impl Needed {
    /// As [`needed`], while a chain that runs as `old` becomes `new`, of which this is told: what
    /// goes is kept until it is empty, and workers that leave are there until then.
    #[must_use]
    pub fn while_changing(mut self, (chain, old): (&Chain, &Placement), new: &Placement) -> Self {
        let rings = old.rings.iter();
        let going = rings.filter(|ring| !new.rings.iter().any(|other| other.link == ring.link));
        let rings = going.filter(|ring| ring.tcp.is_none()).count();
        let kept: BTreeSet<_> = new.lanes.iter().map(|lane| (lane.from, lane.to)).collect();
        let going = |lane: &&LaneSpec| !kept.contains(&(lane.from, lane.to));
        let lanes = old.lanes.iter().filter(going).count();
        self.supervisor += PER_RING * (rings + lanes) as u64;
        let before = needed(chain, old);
        let is_empty = |worker: usize| {
            let spec = new.workers.get(worker);
            spec.is_none_or(|spec| spec.nodes.is_empty())
        };
        let workers = old.workers.iter().enumerate();
        let leaving = workers.filter(|(worker, was)| !was.nodes.is_empty() && is_empty(*worker));
        for (worker, was) in leaving {
            let nodes = was.nodes.iter().map(|node| &chain.nodes[*node]);
            self.supervisor += PER_WORKER + nodes.map(states_of).sum::<u64>();
            if was.mode == Mode::Thread {
                self.supervisor += before.workers[worker];
            }
        }
        self
    }

    /// Why it is too much, as a sentence, where a process may have `allowed`, and a worker that is
    /// one no more than `worker_max`.
    pub fn shortage(&self, placement: &Placement, allowed: u64, worker_max: u64) -> Option<String> {
        let what_to_do = |count: u64| match count > allowed {
            false => format!(
                "and a worker may have {worker_max}: have fewer workers (mode: inline joins nodes) \
                 or links"
            ),
            true => format!(
                "and {allowed} are allowed (hard limit): allow more (`ulimit -n {count}` as root \
                 before `catena run`, LimitNOFILE={count} in its unit), or have fewer workers \
                 (mode: inline joins nodes) or lanes (aggregate: off for links)"
            ),
        };
        if self.supervisor > allowed {
            let lanes = placement.lanes.len();
            let links = placement.rings.len();
            let workers = self.workers.iter().filter(|count| **count > 0).count();
            return Some(format!(
                "the supervisor would need {} descriptors, for the memory of {workers} workers, \
                 {links} links and {lanes} lanes by which buffers go home, {}",
                self.supervisor,
                what_to_do(self.supervisor)
            ));
        }
        let mut workers = placement.workers.iter().zip(&self.workers);
        let limit = allowed.min(worker_max);
        let (worker, count) =
            workers.find(|(worker, count)| worker.mode == Mode::Process && **count > limit)?;
        Some(format!(
            "worker {} would need {count} descriptors, for the links and lanes at which it stands, {}",
            worker.name,
            what_to_do(*count)
        ))
    }
}
