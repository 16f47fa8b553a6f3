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

pub(super) fn pools(
    chain: &Chain,
    workers: &[WorkerSpec],
    rings: &[RingSpec],
    running: Option<&Placement>,
) -> Result<Vec<PoolSpec>, PlacementError> {
    let old: &[PoolSpec] = running.map_or(&[], |placement| &placement.pools);
    let mut next_id = old
        .iter()
        .map(|pool| usize::from(pool.id) + 1)
        .max()
        .unwrap_or(0);
    let shares = Shares::of(rings, workers.len());
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
        let writable = !reaches_read_only(rings, &shares, index);
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
                return Err(PlacementError::TooManyPools);
            }
            #[expect(
                clippy::cast_possible_truncation,
                reason = "checked above; sizes are small"
            )]
            pools.push(PoolSpec {
                id: next_id as u16,
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
        holders.append(&mut shares.reach(owner, ring.to));
    }
    seals.any(|ring| holders.contains(&ring.from))
}

pub(super) fn lanes(pools: &[PoolSpec], rings: &[RingSpec], worker_count: usize) -> Vec<LaneSpec> {
    let shares = Shares::of(rings, worker_count);
    let mut own_of = vec![Vec::new(); worker_count];
    for pool in pools {
        own_of[pool.owner].push(pool);
    }
    let mut lanes = Vec::new();
    for (owner, own) in own_of.iter().enumerate().filter(|(_, own)| !own.is_empty()) {
        // Every buffer, and every packet of a bundle, may come home by itself.
        let units: u32 = own.iter().map(|pool| pool_geometry(pool).units()).sum();
        let mut links: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        for ring in shares.leaving(owner) {
            for from in shares.reach(owner, ring.to) {
                links.entry(from).or_default().push(ring.number);
            }
        }
        lanes.extend(links.into_iter().map(|(from, links)| LaneSpec {
            from,
            to: owner,
            slot_count: units.next_power_of_two().min(SLOT_COUNT_MAX),
            pools: own.iter().map(|pool| pool.id).collect(),
            links,
        }));
    }
    lanes
}

/// A lane that runs keeps its size, and the links that have gone: buffers which left by these may
/// still be out, and numbers of links are never used again.
pub(super) fn keep_lanes(lanes: &mut [LaneSpec], running: &[LaneSpec]) {
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
        let gone: Vec<u8> = gone.copied().collect();
        lane.links.extend(gone);
    }
}
