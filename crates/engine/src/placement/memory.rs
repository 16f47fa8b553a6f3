//! Memory between workers: who owns pools, who sees them, and how buffers come home. Pure.

use std::collections::{BTreeMap, BTreeSet};

use catena_shm::ring::SLOT_COUNT_MAX;

use super::buffers::{BUNDLE_COUNT_MAX, headroom, size_classes};
use super::neighbours::Shares;
use super::plan::{Placement, PlacementError, WorkerSpec};
use crate::aggregation::BUNDLE_BYTES;
use crate::chain::model::{Aggregate, Chain, NodeKind, Trust};
use crate::geometry::pool_geometry;
use crate::pools::POOL_COUNT_MAX;
use crate::protocol::{LEDGER_LINKS_MAX, LaneSpec, PoolSpec, RingSpec};

/// Gives each ring its number in the ledgers of its sender: what stays keeps its own, and none is
/// used twice, since buffers that left by a link that has gone may still be out.
pub(super) fn number(
    rings: &mut [RingSpec],
    workers: &mut [WorkerSpec],
    running: Option<&Placement>,
) -> Result<(), PlacementError> {
    let old = running.map_or(&[][..], |placement| &placement.rings);
    let kept: BTreeMap<usize, u8> = old.iter().map(|ring| (ring.link, ring.number)).collect();
    for ring in rings {
        if let Some(number) = kept.get(&ring.link) {
            ring.number = *number;
            continue;
        }
        let sender = &mut workers[ring.from];
        if sender.last_number == LEDGER_LINKS_MAX {
            return Err(PlacementError::TooManyLinks {
                worker: sender.name.clone(),
            });
        }
        sender.last_number += 1;
        ring.number = sender.last_number;
    }
    Ok(())
}

/// Pools of each worker, and how many numbers were ever given. What stays keeps its own, and none
/// is used twice: packets of a pool that has gone may still be on links, and would be taken for
/// another one's. A worker that stays keeps its pools, whether it still makes packets or not:
/// buffers of them are out, and come home to it.
pub(super) fn pools(
    chain: &Chain,
    workers: &[WorkerSpec],
    rings: &[RingSpec],
    running: Option<&Placement>,
) -> Result<(Vec<PoolSpec>, u16), PlacementError> {
    let old: &[PoolSpec] = running.map_or(&[], |placement| &placement.pools);
    let mut numbers = running.map_or(0, |placement| placement.pool_numbers);
    let shares = Shares::of(chain, rings, workers.len());
    let mut pools = Vec::new();
    for (index, worker) in workers.iter().enumerate() {
        let classes = classes_needed(chain, worker, rings, index);
        let writable = !reaches_read_only(rings, &shares, index);
        let kept = old.iter().filter(|pool| pool.owner == index);
        let kept = kept.filter(|_| !worker.nodes.is_empty());
        pools.extend(kept.clone().map(|pool| PoolSpec {
            writable,
            ..pool.clone()
        }));
        for (bytes, buffer_count, bundles) in classes {
            #[expect(clippy::cast_possible_truncation, reason = "sizes are small")]
            let log2_stride = bytes.trailing_zeros() as u8;
            if kept
                .clone()
                .any(|pool| (pool.log2_stride, pool.bundles) == (log2_stride, bundles))
            {
                continue;
            }
            if usize::from(numbers) == POOL_COUNT_MAX {
                return Err(PlacementError::TooManyPools);
            }
            pools.push(PoolSpec {
                id: numbers,
                log2_stride,
                buffer_count,
                headroom: if bundles { 0 } else { headroom(bytes) },
                owner: index,
                writable,
                bundles,
            });
            numbers += 1;
        }
    }
    Ok((pools, numbers))
}

/// Sizes of the buffers that worker `index` makes packets in: bytes, how many, and whether for
/// bundles.
fn classes_needed(
    chain: &Chain,
    worker: &WorkerSpec,
    rings: &[RingSpec],
    index: usize,
) -> Vec<(u32, u32, bool)> {
    let mut nodes = worker.nodes.iter();
    let makes = nodes.any(|node| match &chain.nodes[*node].kind {
        NodeKind::Port { role, .. } => role.receives,
        NodeKind::Nf { plan, .. } => plan.allocates,
    });
    let mut into = rings.iter().filter(|ring| ring.to == index);
    let copies_in = into.any(|ring| ring.trust == Trust::Copy);
    let mut classes = Vec::new();
    if makes || copies_in {
        let plain = size_classes(&chain.run.buffers).into_iter();
        classes.extend(plain.map(|(bytes, count)| (bytes, count, false)));
    }
    let bundles = bundles_needed(rings, index);
    classes.extend(bundles.map(|count| (BUNDLE_BYTES, count, true)));
    classes
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
fn reaches_read_only(rings: &[RingSpec], shares: &Shares<'_>, owner: usize) -> bool {
    let mut seals = rings
        .iter()
        .filter(|ring| ring.trust == Trust::Ro)
        .peekable();
    if seals.peek().is_none() {
        return false;
    }
    let mut holders = BTreeSet::from([owner]);
    for ring in shares.leaving(owner) {
        holders.append(&mut shares.reach(owner, ring));
    }
    seals.any(|ring| holders.contains(&ring.from))
}

pub(super) fn lanes(pools: &[PoolSpec], shares: &Shares<'_>, worker_count: usize) -> Vec<LaneSpec> {
    let mut own_of = vec![Vec::new(); worker_count];
    for pool in pools {
        own_of[pool.owner].push(pool);
    }
    let mut lanes = Vec::new();
    for (owner, own) in own_of.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
        let mut links: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for ring in shares.leaving(owner) {
            for from in shares.reach(owner, ring) {
                links.entry(from).or_default().push(ring.number);
            }
        }
        lanes.extend(links.into_iter().map(|(from, links)| LaneSpec {
            from,
            to: owner,
            slot_count: lane_slots(own),
            pools: own.iter().map(|pool| pool.id).collect(),
            links,
        }));
    }
    lanes
}

/// Every buffer of these pools, and every packet of a bundle, may come home by itself.
pub(super) fn lane_slots(pools: &[&PoolSpec]) -> u32 {
    let units: u32 = pools.iter().map(|pool| pool_geometry(pool).units()).sum();
    units.next_power_of_two().min(SLOT_COUNT_MAX)
}
