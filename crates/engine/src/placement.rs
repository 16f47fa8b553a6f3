//! Placement: which worker runs which nodes, and what memory lies between workers. Pure.
//!
//! Before any packet moves: from a [`Chain`] to a [`Placement`], which the supervisor carries out.
//!
//! - Nodes of mode `inline` join the worker of the node before them ([`Fusion`]); every other NF
//!   has a worker of its own.
//! - Ports of one mode, core and trust group, unless an `ro` link leaves them, share a worker
//!   (`ports`), so that a chain that reads and writes needs one core for it.
//! - An edge inside a worker costs no ring. Every other edge is a ring.
//! - A worker that makes packets (receiving port, copying NF, `copy` link into it) owns pools. A
//!   pool is seen by every worker that its packets can reach without being copied, and each of
//!   these gets a return lane to the owner.
//! - A shard is a node as any other; queues of several ports that have one number share a worker.

mod memory;
mod neighbours;

use std::collections::BTreeSet;

use catena_shm::bundle::SLOTS_PER_BUNDLE;
use catena_shm::ring::SLOT_COUNT_MAX;
use catena_shm::staging;

use crate::chain::fusion::Fusion;
use crate::chain::{Aggregate, Chain, Mode, Node, NodeKind, Protocol, Trust};
use crate::pools::POOL_COUNT_MAX;
use crate::protocol::{Bind, EdgeSpec, LEDGER_LINKS_MAX, LaneSpec, NodeSpec, PoolSpec, RingSpec};
use crate::shard::shard_name;
use crate::supervisor::renumber::{is_gone, is_link_gone};
use memory::BUNDLE_COUNT_MAX;
use neighbours::NodeLinks;

/// A worker and its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    /// Its name: that of its first NF, or `ports`.
    pub name: String,
    /// Where it runs; never `inline`.
    pub mode: Mode,
    /// Nodes by index in the chain, in topological order.
    pub nodes: Vec<usize>,
    /// Core it is pinned to, if the chain says so.
    pub core: Option<usize>,
    /// Network namespace that it enters, if the chain says so.
    pub netns: Option<String>,
    /// The node that leads it.
    pub leader: usize,
    /// The highest number that a link which leaves it has ever had in its ledgers.
    pub last_number: u8,
}

/// Workers, and the memory between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The workers.
    pub workers: Vec<WorkerSpec>,
    /// Worker of each node.
    pub worker_of: Vec<usize>,
    /// Rings between workers.
    pub rings: Vec<RingSpec>,
    /// Pools.
    pub pools: Vec<PoolSpec>,
    /// Return lanes.
    pub lanes: Vec<LaneSpec>,
    /// Edges, one per link.
    pub edges: Vec<EdgeSpec>,
}

/// Buffers of every pool owner unless the chain says otherwise: bytes per buffer, buffers.
pub const SIZE_CLASSES: [(u32, u32); 4] = [(128, 8192), (2048, 4096), (16_384, 128), (262_144, 32)];

/// Most buffers that one worker may own, beside bundles: for each, and for each packet of a bundle,
/// there is a slot in the lane by which another worker returns it.
pub const BUFFER_COUNT_MAX: u32 = SLOT_COUNT_MAX - BUNDLE_COUNT_MAX * SLOTS_PER_BUNDLE;

/// Why a chain cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are more pools than a descriptor can tell apart.
    #[error(
        "the chain needs more than {POOL_COUNT_MAX} pools: one for each size of buffers and worker \
         that makes packets"
    )]
    TooManyPools,
    /// More links leave a worker than its ledgers can tell apart, those among them that have gone.
    #[error("more than {LEDGER_LINKS_MAX} links leave the worker {worker}, in all its life")]
    TooManyLinks {
        /// Its name.
        worker: String,
    },
}

impl PlacementError {
    /// What to do.
    pub fn repair(&self) -> &'static str {
        match self {
            Self::TooManyPools => {
                "join workers that make packets (mode: inline), use fewer copy links, or fewer \
                 sizes of buffers"
            }
            Self::TooManyLinks { .. } => {
                "give some of its nodes another worker, or start the chain anew"
            }
        }
    }

    /// Both in one sentence.
    pub fn sentence(&self) -> String {
        format!("{self}; {}", self.repair())
    }
}

/// Sizes and numbers of buffers that each owner of pools has, smallest first: the usual ones, with
/// those of `chosen` instead or in addition.
pub fn size_classes(chosen: &[(u32, u32)]) -> Vec<(u32, u32)> {
    let usual = SIZE_CLASSES
        .iter()
        .filter(|(bytes, _)| chosen.iter().all(|(other, _)| other != bytes));
    let mut classes: Vec<_> = usual.chain(chosen).copied().collect();
    classes.sort_unstable();
    classes
}

/// Bytes kept free in front of a received packet.
fn headroom(bytes: u32) -> u32 {
    if bytes <= 128 { 64 } else { 128 }
}

/// Places a chain.
///
/// # Errors
/// [`PlacementError`].
pub fn place(chain: &Chain) -> Result<Placement, PlacementError> {
    place_onto(chain, None)
}

/// Places a changed chain, numbered by `renumber`, onto what runs: workers and pools that stay keep
/// their numbers; workers that go have no nodes.
///
/// # Errors
/// As [`place`].
pub fn place_onto(chain: &Chain, running: Option<&Placement>) -> Result<Placement, PlacementError> {
    let links = NodeLinks::of(chain);
    let order = topological(chain, &links);
    let (mut workers, worker_of) = workers(chain, &order, running);
    let mut rings = rings(chain, (&order, &links), &workers, &worker_of);
    memory::number(&mut rings, &mut workers, running)?;
    let pools = memory::pools(chain, &workers, &rings, running)?;
    let mut lanes = memory::lanes(&pools, &rings, workers.len());
    if let Some(running) = running {
        memory::keep_lanes(&mut lanes, &running.lanes);
    }
    let edges = chain
        .links
        .iter()
        .enumerate()
        .filter(|(_, edge)| !is_link_gone(edge))
        .map(|(link, edge)| EdgeSpec {
            link,
            from: edge.from,
            output: edge.output,
            to: edge.to,
            input: edge.input,
        })
        .collect();
    Ok(Placement {
        workers,
        worker_of,
        rings,
        pools,
        lanes,
        edges,
    })
}

/// Nodes in topological order; a port counts as a source here, what it sends is the end of a path.
/// So does an NF at which packets end.
fn topological(chain: &Chain, links: &NodeLinks) -> Vec<usize> {
    let here: Vec<usize> = (0..chain.nodes.len())
        .filter(|node| !is_gone(&chain.nodes[*node]))
        .collect();
    let (mut order, nfs): (Vec<usize>, Vec<usize>) = here
        .iter()
        .partition(|node| chain.nodes[**node].ends_paths());
    let mut placed: BTreeSet<usize> = order.iter().copied().collect();
    while order.len() < here.len() {
        let before = order.len();
        for node in &nfs {
            let mut arriving = links.to[*node].iter();
            let ready = arriving.all(|link| placed.contains(&chain.links[*link].from));
            if ready && placed.insert(*node) {
                order.push(*node);
            }
        }
        // The checker refuses cycles; without progress the rest is appended as it is.
        if order.len() == before {
            order.extend(nfs.iter().filter(|node| !placed.contains(node)));
        }
    }
    order
}

fn workers(
    chain: &Chain,
    order: &[usize],
    running: Option<&Placement>,
) -> (Vec<WorkerSpec>, Vec<usize>) {
    let modes: Vec<Mode> = chain.nodes.iter().map(|node| node.mode).collect();
    let edges: Vec<_> = chain
        .links
        .iter()
        .filter(|link| !is_link_gone(link))
        .map(|link| (link.from, link.to))
        .collect();
    let leader = Fusion::of(&modes, &edges).leader;
    let seals = seals(chain, &leader);
    let mut workers: Vec<WorkerSpec> = running.map_or_else(Vec::new, |old| old.workers.clone());
    for worker in &mut workers {
        worker.nodes.clear();
    }
    let mut worker_of = vec![usize::MAX; chain.nodes.len()];
    let in_order = order;
    let mut order = order.to_vec();
    // A leader comes before those fused with it.
    order.sort_by_key(|node| leader[*node] != *node);
    for node in order {
        let spec = &chain.nodes[node];
        // A chain that is inline as a whole runs in one thread of the supervisor's process.
        let mode = if spec.mode == Mode::Inline {
            Mode::Thread
        } else {
            spec.mode
        };
        let name = ports_name(spec);
        let shared = |worker: &WorkerSpec| {
            worker.name == name
                && shard_of(&chain.nodes[worker.leader]) == shard_of(spec)
                && worker.mode == mode
                && worker.core == spec.core
                && worker.netns == spec.netns
                && chain.nodes[worker.leader].group == spec.group
        };
        // Pools of a port before an `ro` link are sealed: it shares them with nobody.
        let leads_ports = spec.is_port() && leader[node] == node && !seals[node];
        let worker = if leader[node] != node {
            worker_of[leader[node]]
        } else if let Some(worker) = workers.iter().position(shared).filter(|_| leads_ports) {
            worker
        } else if let Some(worker) = workers.iter().position(|worker| worker.leader == node) {
            worker
        } else {
            let name = if leads_ports { name } else { spec.name.clone() };
            workers.push(WorkerSpec {
                name,
                mode,
                nodes: Vec::new(),
                core: spec.core,
                netns: spec.netns.clone(),
                leader: node,
                last_number: 0,
            });
            workers.len() - 1
        };
        worker_of[node] = worker;
    }
    for node in in_order {
        workers[worker_of[*node]].nodes.push(*node);
    }
    (workers, worker_of)
}

/// By leader, whether an `ro` link leaves its loop.
fn seals(chain: &Chain, leader: &[usize]) -> Vec<bool> {
    let mut seals = vec![false; leader.len()];
    let links = chain.links.iter().filter(|link| !is_link_gone(link));
    for link in links.filter(|link| link.trust == Trust::Ro) {
        seals[leader[link.from]] |= leader[link.from] != leader[link.to];
    }
    seals
}

/// Name of the worker that ports share: one for all, and one for queues of one number.
fn ports_name(port: &Node) -> String {
    match shard_of(port) {
        Some((queue, _)) => shard_name(PORTS, queue),
        None => PORTS.to_owned(),
    }
}

/// Which queue of how many a port is.
fn shard_of(port: &Node) -> Option<(u16, u16)> {
    port.shard.as_ref().map(|shard| (shard.index, shard.count))
}

const PORTS: &str = "ports";

fn rings(
    chain: &Chain,
    (order, links): (&[usize], &NodeLinks),
    workers: &[WorkerSpec],
    worker_of: &[usize],
) -> Vec<RingSpec> {
    let between = |edge: &crate::chain::Link| {
        // What a port receives and what it sends are different ends, even within one worker.
        !is_link_gone(edge) && worker_of[edge.from] != worker_of[edge.to]
    };
    let classes = size_classes(&chain.run.buffers);
    let largest = classes.last().map_or(0, |(bytes, _)| *bytes);
    // The checker refuses what has no area.
    let staging_bytes = staging::bytes_for(chain.run.burst.into(), largest).unwrap_or(0);
    let headrooms = headrooms(chain, order, links);
    chain
        .links
        .iter()
        .enumerate()
        .filter(|(_, edge)| between(edge))
        .map(|(link, edge)| RingSpec {
            link,
            number: 0,
            from: worker_of[edge.from],
            to: worker_of[edge.to],
            slot_count: if edge.protocol == Protocol::Flag {
                1
            } else {
                edge.slot_count
            },
            staging_bytes: if edge.trust == Trust::Copy {
                staging_bytes
            } else {
                0
            },
            trust: edge.trust,
            overflow: edge.overflow,
            aggregate: if takes_bundles(chain, links, worker_of, edge) {
                edge.aggregate
            } else {
                Aggregate::Off
            },
            bundle_headroom: headrooms[edge.to],
            tcp: (edge.protocol == Protocol::Tcp)
                .then(|| bind(&workers[worker_of[edge.from]], &workers[worker_of[edge.to]])),
        })
        .collect()
}

/// Where the receiver of a TCP link listens: where its sender reaches it.
fn bind(from: &WorkerSpec, to: &WorkerSpec) -> Bind {
    let is_apart = |worker: &WorkerSpec| worker.mode == Mode::Container || worker.netns.is_some();
    match (is_apart(from), is_apart(to)) {
        (_, true) => Bind::Own,
        (true, false) => Bind::Any,
        (false, false) => Bind::Loopback,
    }
}

/// Whether bundles may travel on a link: not through a single slot, and not where a port in the
/// receiver's own loop takes packets one by one.
fn takes_bundles(
    chain: &Chain,
    links: &NodeLinks,
    worker_of: &[usize],
    link: &crate::chain::Link,
) -> bool {
    let mut open = vec![link.to];
    let mut seen = BTreeSet::new();
    while let Some(node) = open.pop() {
        if !seen.insert(node) {
            continue;
        }
        if chain.nodes[node].takes_singly() {
            return false;
        }
        if !chain.nodes[node].ends_paths() {
            let onward = links.from[node].iter().map(|link| chain.links[*link].to);
            open.extend(onward.filter(|to| worker_of.get(*to) == worker_of.get(node)));
        }
    }
    link.protocol == Protocol::Ring
}

/// By node, most bytes that the NFs from it on put in front of a packet, on any way through the
/// chain.
fn headrooms(chain: &Chain, order: &[usize], links: &NodeLinks) -> Vec<u8> {
    let mut most = vec![0_u8; chain.nodes.len()];
    for node in order.iter().rev() {
        let NodeKind::Nf { plan, .. } = &chain.nodes[*node].kind else {
            continue;
        };
        if plan.ends_paths() {
            continue;
        }
        let onward = links.from[*node].iter().map(|link| chain.links[*link].to);
        let behind = onward.map(|to| most[to]).max().unwrap_or(0);
        most[*node] = plan.headroom.saturating_add(behind);
    }
    most
}

impl Placement {
    /// Why the chain cannot go on when its supervisor has died (`run.orphan`), if there is a worker
    /// that cannot: as a sentence.
    pub fn not_kept(&self) -> Option<String> {
        let mut others = self.workers.iter();
        let other = others.find(|worker| worker.mode != Mode::Process)?;
        let why = match other.mode {
            Mode::Container => {
                "is a container, which the supervisor watches by the client of its engine until the \
                 worker has come, and that client cannot be taken over"
            }
            _ => "is a thread of the supervisor",
        };
        Some(format!(
            "only processes can go on without a supervisor: worker {} {why}",
            other.name
        ))
    }

    /// The core that a worker gets of `cores` where the chain does not say: a shard the one of its
    /// number, so that shards of one number are together; the others are spread, neighbours in the
    /// chain together.
    pub fn core_of(&self, chain: &Chain, worker: usize, cores: &[usize]) -> Option<usize> {
        let leader = &chain.nodes[self.workers[worker].leader];
        let (index, count) = match &leader.shard {
            Some(shard) => (usize::from(shard.index), usize::from(shard.count)),
            None => (worker, self.workers.len()),
        };
        cores.get(index * cores.len() / count.max(1)).copied()
    }
}

/// By how much a node's room is divided: the number of its outputs inside the worker, if packets
/// that leave by different ones can meet again inside it.
fn fan(chain: &Chain, worker_of: &[usize], node: usize) -> usize {
    let local = |from: usize| {
        chain
            .links_from(from)
            .map(|(_, link)| link.to)
            .filter(move |to| worker_of[*to] == worker_of[node] && !chain.nodes[*to].ends_paths())
    };
    let mut seen = BTreeSet::new();
    let mut meets = false;
    for start in local(node) {
        let mut branch = BTreeSet::new();
        let mut open = vec![start];
        while let Some(next) = open.pop() {
            if branch.insert(next) {
                open.extend(local(next));
            }
        }
        meets |= branch.iter().any(|reached| seen.contains(reached));
        seen.append(&mut branch);
    }
    if meets { local(node).count().max(1) } else { 1 }
}

/// What a worker needs to know of one of its nodes.
pub fn node_spec(chain: &Chain, worker_of: &[usize], index: usize) -> NodeSpec {
    let node = &chain.nodes[index];
    let (shard, shard_count) = shard_of(node).unwrap_or((0, 1));
    let (is_port, receives, config, wraps, outputs) = match &node.kind {
        NodeKind::Port {
            config,
            role,
            wraps,
            ..
        } => {
            let wraps = wraps
                .iter()
                .map(|wrap| (wrap.kind.name.to_owned(), wrap.config.clone()))
                .collect();
            let receives = role.receives && chain.links_from(index).next().is_some();
            (true, receives, config, wraps, vec!["out".to_owned()])
        }
        NodeKind::Nf { config, plan, .. } => {
            (false, false, config, Vec::new(), plan.outputs.clone())
        }
    };
    NodeSpec {
        index,
        name: node.name.clone(),
        type_name: node.type_name().to_owned(),
        is_port,
        shard,
        shard_count,
        receives,
        config: config.clone(),
        wraps,
        outputs,
        counters: node.kind.counter_names(),
        fan: fan(chain, worker_of, index),
    }
}
