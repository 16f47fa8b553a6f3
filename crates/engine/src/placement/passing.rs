//! Packets that are on their way while a chain changes: who can come to hold them. Pure.
//!
//! They have left their owner by links of the chain as it was, and go on by links of the chain as
//! it is to be. So they come to workers that no packet reaches which is sent from now on: those
//! behind a source that goes, new ones among them. All of these know the pools, and have a lane to
//! the owner: whoever is replaced meanwhile, too.
//!
//! A pool of an owner that has gone stays until its last packet has ended, which the supervisor
//! sees. A lane that only such packets take is kept for one change: after the next one, successors
//! of those who hold such packets still do not know them.

use std::collections::{BTreeMap, BTreeSet};

use super::memory::lane_slots;
use super::neighbours::Shares;
use super::plan::{Placement, WorkerSpec};
use crate::chain::model::{Chain, is_gone};
use crate::protocol::{LaneSpec, PoolSpec};

/// Memory between workers, as it is to be.
pub(super) struct Between<'m> {
    pub(super) workers: &'m [WorkerSpec],
    pub(super) pools: &'m mut Vec<PoolSpec>,
    pub(super) lanes: &'m mut Vec<LaneSpec>,
}

/// Adds pools and lanes for what is on its way in `running`, and goes on by the links of `shares`.
/// Gives the lanes that nothing else takes.
pub(super) fn add_passing(
    between: Between<'_>,
    shares: &Shares<'_>,
    (chain, running): (&Chain, &Placement),
) -> Vec<(usize, usize)> {
    let Between {
        workers,
        pools,
        lanes,
    } = between;
    let stays = |worker: usize| !workers[worker].nodes.is_empty();
    let left = running.pools.iter().filter(|pool| !stays(pool.owner));
    pools.extend(left.cloned());
    let lasted: BTreeSet<(usize, usize)> = running.passing.iter().copied().collect();
    let places = lanes.iter().enumerate();
    let mut places: BTreeMap<_, _> = places.map(|(at, lane)| (ends(lane), at)).collect();
    let mut passing = Vec::new();
    let at_ports = ends_of_ways(chain, running);
    for before in &running.lanes {
        let to = before.to;
        // It makes no lane any more.
        let has_gone = running.workers[to].nodes.is_empty();
        let is_over = lasted.contains(&ends(before)) && !places.contains_key(&ends(before));
        let holders = if is_over && !has_gone {
            BTreeSet::new()
        } else if has_gone || at_ports.contains(&before.from) {
            BTreeSet::from([before.from])
        } else {
            shares.reach_from(to, before.from)
        };
        for from in holders.into_iter().filter(|worker| stays(*worker)) {
            if let Some(at) = places.get(&(from, to)) {
                let lane = &mut lanes[*at];
                let gone = before.links.iter().copied();
                let gone: Vec<u8> = gone.filter(|link| !lane.links.contains(link)).collect();
                lane.links.extend(gone);
            } else {
                places.insert((from, to), lanes.len());
                lanes.push(lane_between(from, before, pools));
                passing.push((from, to));
            }
        }
    }
    // One that runs keeps its size.
    for before in &running.lanes {
        if let Some(at) = places.get(&ends(before)) {
            lanes[*at].slot_count = before.slot_count;
        }
    }
    passing
}

/// Workers that packets have come to by links which end at ports, and by no others: what was on its
/// way there goes nowhere else.
fn ends_of_ways(chain: &Chain, running: &Placement) -> BTreeSet<usize> {
    let ends_at_port = |link: usize| {
        let edge = running.edges.iter().find(|edge| edge.link == link);
        let to = edge.and_then(|edge| chain.nodes.get(edge.to));
        to.is_some_and(|node| !is_gone(node) && node.is_port())
    };
    let mut ends = BTreeSet::new();
    let mut others = BTreeSet::new();
    for ring in &running.rings {
        let known = if ends_at_port(ring.link) {
            &mut ends
        } else {
            &mut others
        };
        known.insert(ring.to);
    }
    &ends - &others
}

fn ends(lane: &LaneSpec) -> (usize, usize) {
    (lane.from, lane.to)
}

/// A lane for what has come, or will, from where `before` leads to its owner.
fn lane_between(from: usize, before: &LaneSpec, pools: &[PoolSpec]) -> LaneSpec {
    let own = pools.iter().filter(|pool| pool.owner == before.to);
    let own: Vec<&PoolSpec> = own.collect();
    LaneSpec {
        from,
        to: before.to,
        slot_count: lane_slots(&own),
        pools: own.iter().map(|pool| pool.id).collect(),
        links: before.links.clone(),
    }
}
