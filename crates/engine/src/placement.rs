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

use std::collections::BTreeSet;

use catena_shm::bundle::SLOTS_PER_BUNDLE;
use catena_shm::ring::SLOT_COUNT_MAX;
use catena_shm::staging;

use crate::aggregation::BUNDLE_BYTES;
use crate::chain::fusion::Fusion;
use crate::chain::{Aggregate, Chain, Mode, NodeKind, Protocol, Trust};
use crate::pools::POOL_COUNT_MAX;
use crate::protocol::{Bind, EdgeSpec, LaneSpec, NodeSpec, PoolSpec, RingSpec};
use crate::supervisor::renumber::{is_gone, is_link_gone};
use crate::worker::build::pool_geometry;

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

/// Most bundles that one worker owns.
const BUNDLE_COUNT_MAX: u32 = 1024;

/// Most buffers that one worker may own, beside bundles: for each, and for each packet of a bundle,
/// there is a slot in the lane by which another worker returns it.
pub const BUFFER_COUNT_MAX: u32 = SLOT_COUNT_MAX - BUNDLE_COUNT_MAX * SLOTS_PER_BUNDLE;

/// Why a chain cannot be placed, and what to do.
pub const TOO_MANY_POOLS: (&str, &str) = (
    "the chain needs more than 64 pools: one for each size of buffers and worker that makes packets",
    "join workers that make packets (mode: inline), use fewer copy links, or fewer sizes of buffers",
);

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
/// A sentence, if the chain needs more pools than a descriptor can name.
pub fn place(chain: &Chain) -> Result<Placement, String> {
    place_onto(chain, None)
}

/// Places a changed chain, numbered by `renumber`, onto what runs: workers and pools that stay keep
/// their numbers; workers that go have no nodes.
///
/// # Errors
/// As [`place`].
pub fn place_onto(chain: &Chain, running: Option<&Placement>) -> Result<Placement, String> {
    let order = topological(chain);
    let (workers, worker_of) = workers(chain, &order, running);
    let rings = rings(chain, &workers, &worker_of);
    let pools = pools(chain, &workers, &rings, running)?;
    let mut lanes = lanes(&pools, &rings, workers.len());
    if let Some(running) = running {
        keep_lanes(&mut lanes, &running.lanes);
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
fn topological(chain: &Chain) -> Vec<usize> {
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
            let ready = chain
                .links_to(*node)
                .all(|(_, link)| placed.contains(&link.from));
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
    let mut workers: Vec<WorkerSpec> = running.map_or_else(Vec::new, |old| old.workers.clone());
    for worker in &mut workers {
        worker.nodes.clear();
    }
    let mut worker_of = vec![usize::MAX; chain.nodes.len()];
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
        let shared = |worker: &WorkerSpec| {
            worker.name == PORTS
                && worker.mode == mode
                && worker.core == spec.core
                && worker.netns == spec.netns
                && chain.nodes[worker.leader].group == spec.group
        };
        // Pools of a port before an `ro` link are sealed: it shares them with nobody.
        let seals = chain
            .links_from(node)
            .any(|(_, link)| link.trust == Trust::Ro);
        let leads_ports = spec.is_port() && leader[node] == node && !seals;
        let worker = if leader[node] != node {
            worker_of[leader[node]]
        } else if let Some(worker) = workers.iter().position(shared).filter(|_| leads_ports) {
            worker
        } else if let Some(worker) = workers.iter().position(|worker| worker.leader == node) {
            worker
        } else {
            let name = if leads_ports {
                PORTS.to_owned()
            } else {
                spec.name.clone()
            };
            workers.push(WorkerSpec {
                name,
                mode,
                nodes: Vec::new(),
                core: spec.core,
                netns: spec.netns.clone(),
                leader: node,
            });
            workers.len() - 1
        };
        worker_of[node] = worker;
    }
    for node in topological(chain) {
        workers[worker_of[node]].nodes.push(node);
    }
    (workers, worker_of)
}

/// Name of the worker that ports share.
const PORTS: &str = "ports";

fn rings(chain: &Chain, workers: &[WorkerSpec], worker_of: &[usize]) -> Vec<RingSpec> {
    let between = |edge: &crate::chain::Link| {
        // What a port receives and what it sends are different ends, even within one worker.
        !is_link_gone(edge) && worker_of[edge.from] != worker_of[edge.to]
    };
    let classes = size_classes(&chain.run.buffers);
    let largest = classes.last().map_or(0, |(bytes, _)| *bytes);
    // The checker refuses what has no area.
    let staging_bytes = staging::bytes_for(chain.run.burst.into(), largest).unwrap_or(0);
    chain
        .links
        .iter()
        .enumerate()
        .filter(|(_, edge)| between(edge))
        .map(|(link, edge)| RingSpec {
            link,
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
            aggregate: if takes_bundles(chain, worker_of, edge) {
                edge.aggregate
            } else {
                Aggregate::Off
            },
            bundle_headroom: headroom_behind(chain, edge.to),
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
fn takes_bundles(chain: &Chain, worker_of: &[usize], link: &crate::chain::Link) -> bool {
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
            let onward = chain.links_from(node).map(|(_, onward)| onward.to);
            open.extend(onward.filter(|to| worker_of.get(*to) == worker_of.get(node)));
        }
    }
    link.protocol == Protocol::Ring
}

/// Most bytes that the NFs from `node` on put in front of a packet, on any way through the chain.
fn headroom_behind(chain: &Chain, node: usize) -> u8 {
    let mut most = vec![0_u8; chain.nodes.len()];
    for node in topological(chain).into_iter().rev() {
        let NodeKind::Nf { plan, .. } = &chain.nodes[node].kind else {
            continue;
        };
        if plan.ends_paths() {
            continue;
        }
        let links = chain.links_from(node);
        let behind = links.map(|(_, link)| most.get(link.to).copied().unwrap_or(0));
        most[node] = plan.headroom.saturating_add(behind.max().unwrap_or(0));
    }
    most.get(node).copied().unwrap_or(0)
}

/// Workers that packets leaving `start` by `first` (or by any ring) can reach without being copied.
fn reach(rings: &[RingSpec], start: usize, first: Option<usize>) -> BTreeSet<usize> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<usize> = rings
        .iter()
        .filter(|ring| ring.trust != Trust::Copy && ring.from == start)
        .filter(|ring| first.is_none_or(|link| link == ring.link))
        .map(|ring| ring.to)
        .collect();
    while let Some(worker) = open.pop() {
        if worker != start && reached.insert(worker) {
            let onward = rings
                .iter()
                .filter(|ring| ring.trust != Trust::Copy && ring.from == worker);
            open.extend(onward.map(|ring| ring.to));
        }
    }
    reached
}

fn pools(
    chain: &Chain,
    workers: &[WorkerSpec],
    rings: &[RingSpec],
    running: Option<&Placement>,
) -> Result<Vec<PoolSpec>, String> {
    let old: &[PoolSpec] = running.map_or(&[], |placement| &placement.pools);
    let mut next_id = old
        .iter()
        .map(|pool| usize::from(pool.id) + 1)
        .max()
        .unwrap_or(0);
    let mut pools = Vec::new();
    for (index, worker) in workers.iter().enumerate() {
        let makes = worker
            .nodes
            .iter()
            .any(|node| match &chain.nodes[*node].kind {
                NodeKind::Port { role, .. } => role.receives,
                NodeKind::Nf { plan, .. } => plan.allocates,
            });
        let copies_in = rings
            .iter()
            .any(|ring| ring.to == index && ring.trust == Trust::Copy);
        let bundles = bundles_needed(rings, index);
        let mut classes = Vec::new();
        if makes || copies_in {
            let plain = size_classes(&chain.run.buffers).into_iter();
            classes.extend(plain.map(|(bytes, count)| (bytes, count, false)));
        }
        classes.extend(bundles.map(|count| (BUNDLE_BYTES, count, true)));
        let writable = !reaches_read_only(rings, index);
        for (bytes, buffer_count, bundles) in classes {
            let kept = old.iter().find(|pool| {
                (pool.owner, pool.bundles) == (index, bundles)
                    && pool.log2_stride == bytes.trailing_zeros() as u8
            });
            if let Some(kept) = kept {
                pools.push(PoolSpec {
                    writable,
                    ..kept.clone()
                });
                continue;
            }
            if next_id == POOL_COUNT_MAX {
                return Err(format!("{}; {}", TOO_MANY_POOLS.0, TOO_MANY_POOLS.1));
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "checked above; sizes are small"
            )]
            pools.push(PoolSpec {
                id: next_id as u8,
                log2_stride: bytes.trailing_zeros() as u8,
                buffer_count,
                headroom: if bundles { 0 } else { headroom(bytes) },
                owner: index,
                writable,
                bundles,
            });
            next_id += 1;
        }
    }
    Ok(pools)
}

/// How many bundles worker `index` needs: enough to fill the links that it sends bundles into, and
/// to copy what comes over `copy` links, when bundles are an eighth full. None if it has none.
fn bundles_needed(rings: &[RingSpec], index: usize) -> Option<u32> {
    let ring_slots = rings.iter().filter(|ring| {
        let makes = ring.from == index && ring.trust != Trust::Copy;
        let copies = ring.to == index && ring.trust == Trust::Copy;
        ring.aggregate != Aggregate::Off && (makes || copies)
    });
    let slots: u32 = ring_slots.map(|ring| ring.slot_count).sum();
    (slots > 0).then(|| (slots / 8).clamp(16, BUNDLE_COUNT_MAX))
}

/// Whether packets of `owner` go over an `ro` link somewhere: its pools are then sealed for all
/// others.
fn reaches_read_only(rings: &[RingSpec], owner: usize) -> bool {
    let mut holders = reach(rings, owner, None);
    holders.insert(owner);
    rings
        .iter()
        .any(|ring| ring.trust == Trust::Ro && holders.contains(&ring.from))
}

fn lanes(pools: &[PoolSpec], rings: &[RingSpec], worker_count: usize) -> Vec<LaneSpec> {
    let mut lanes = Vec::new();
    for owner in 0..worker_count {
        let own: Vec<_> = pools.iter().filter(|pool| pool.owner == owner).collect();
        if own.is_empty() {
            continue;
        }
        // Every buffer, and every packet of a bundle, may come home by itself.
        let units = |pool: &&PoolSpec| pool_geometry(pool).units();
        let units: u32 = own.iter().map(units).sum();
        for from in reach(rings, owner, None) {
            let links = rings
                .iter()
                .filter(|ring| ring.from == owner && ring.trust != Trust::Copy)
                .filter(|ring| reach(rings, owner, Some(ring.link)).contains(&from))
                .map(|ring| ring.link)
                .collect();
            lanes.push(LaneSpec {
                from,
                to: owner,
                slot_count: units.next_power_of_two().min(SLOT_COUNT_MAX),
                pools: own.iter().map(|pool| pool.id).collect(),
                links,
            });
        }
    }
    lanes
}

/// A lane that runs keeps its size, and the links that have gone: buffers which left by these may
/// still be out, and numbers of links are never used again.
fn keep_lanes(lanes: &mut [LaneSpec], running: &[LaneSpec]) {
    for lane in lanes {
        let Some(before) = running
            .iter()
            .find(|before| (before.from, before.to) == (lane.from, lane.to))
        else {
            continue;
        };
        lane.slot_count = before.slot_count;
        let gone = before
            .links
            .iter()
            .filter(|link| !lane.links.contains(link));
        let gone: Vec<usize> = gone.copied().collect();
        lane.links.extend(gone);
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
        receives,
        config: config.clone(),
        wraps,
        outputs,
        counters: node.kind.counter_names(),
        fan: fan(chain, worker_of, index),
    }
}
