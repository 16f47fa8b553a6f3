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

mod buffers;
pub mod descriptors;
mod memory;
mod neighbours;
mod passing;
mod plan;

use std::collections::BTreeSet;

use catena_shm::staging;

use crate::chain::fusion::Fusion;
use crate::chain::model::{Aggregate, Chain, Link, Mode, Node, NodeKind, Protocol, Trust};
use crate::chain::model::{is_gone, is_link_gone};
use crate::protocol::{Bind, EdgeSpec, NodeSpec, RingSpec};
use crate::shard::shard_name;
use neighbours::{NodeLinks, Shares};
use passing::{Between, add_passing};

pub use buffers::{BUFFER_COUNT_MAX, SIZE_CLASSES, size_classes};
pub use plan::{Placement, PlacementError, WorkerSpec};

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
    let (mut pools, pool_numbers) = memory::pools(chain, &workers, &rings, running)?;
    let shares = Shares::of(chain, &rings, workers.len());
    let mut lanes = memory::lanes(&pools, &shares, workers.len());
    let between = Between {
        workers: &workers,
        pools: &mut pools,
        lanes: &mut lanes,
    };
    let passing = running.map(|running| add_passing(between, &shares, (chain, running)));
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
        pool_numbers,
        lanes,
        passing: passing.unwrap_or_default(),
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
    let between = |edge: &Link| {
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
fn takes_bundles(chain: &Chain, links: &NodeLinks, worker_of: &[usize], link: &Link) -> bool {
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
