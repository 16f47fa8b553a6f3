//! Where the buffers of a chain are: what `status` calls free, in flight and held.
//!
//! Beside the life of packets: their owner notes in its ledger what it gives away, and says in its
//! counters page how much that is.

use std::collections::BTreeSet;

use catena_shm::descriptor::SLOTS_PER_BUNDLE;
use catena_shm::pool::{PoolGeometry, read_ledger};
use serde::{Deserialize, Serialize};

use crate::protocol::{PoolSpec, RegionName};
use crate::stats::{OwnBuffers, WorkerCounters};
use crate::supervisor::Supervisor;
use crate::worker::build::pool_geometry;

/// Buffers of all pools: `allocated = free + in_flight + held + unread` at any time, and what is
/// not free is in flight once the chain is at rest. Each owner counts at one instant what is on its
/// free lists and what it has given away; owners are looked at one after another. Of a dead one the
/// ledger is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BufferStatus {
    /// All.
    pub allocated: u64,
    /// On the free lists of their owners; of a dead owner, all that its ledger does not call out.
    pub free: u64,
    /// Out on links, on lanes, or in the hands of other workers; bundles also in those of their
    /// owner.
    pub in_flight: u64,
    /// All others, which nobody but their owners knows: packets that NFs and ports keep, a burst in
    /// hand, and pools that a change has made and whose owner has not told of them yet.
    #[serde(default)]
    pub held: u64,
    /// Of dead owners whose ledger cannot be read: nobody knows.
    #[serde(default)]
    pub unread: u64,
}

impl BufferStatus {
    /// Counts `all` buffers, of which so many are free and out; what is more than all, as a page
    /// that lies may say, is left out.
    fn count(&mut self, all: u64, free: u64, out: u64) {
        let free = free.min(all);
        let out = out.min(all - free);
        self.allocated += all;
        self.free += free;
        self.in_flight += out;
        self.held += all - free - out;
    }
}

impl Supervisor {
    /// Buffers of all pools that belong to the chain.
    pub(super) fn buffer_status(&self) -> BufferStatus {
        let mut status = BufferStatus::default();
        for (worker, instance) in self.instances.iter().enumerate() {
            let pools = self.placement.present_pools();
            let own = pools.filter(|pool| pool.owner == worker);
            let all_of = |pool: &PoolSpec| u64::from(pool.buffer_count);
            if let Some(page) = &instance.counters {
                let counters = WorkerCounters::from_words(&std::array::from_fn(|n| page.load(n)));
                let OwnBuffers { free, out } = counters.buffers;
                status.count(own.map(all_of).sum(), free.into(), out.into());
                continue;
            }
            for pool in own {
                let all = all_of(pool);
                match self.out_of(pool) {
                    Some(out) => status.count(all, all.saturating_sub(out), out),
                    None => {
                        status.allocated += all;
                        status.unread += all;
                    }
                }
            }
        }
        status
    }

    /// How many buffers are out of a pool, by its ledger, if that can be read.
    fn out_of(&self, pool: &PoolSpec) -> Option<u64> {
        let held = self.memory.latest(RegionName::Ledger(pool.id))?;
        let fd = held.fd.try_clone().ok()?;
        let geometry = pool_geometry(pool);
        let out = read_ledger(fd, held.len, geometry).ok()?;
        Some(buffers_of(&out, geometry))
    }
}

/// How many buffers of a pool are out, by its ledger: the packets of a bundle share one.
fn buffers_of(out: &[(u32, u8)], geometry: PoolGeometry) -> u64 {
    let per_buffer = if geometry.bundles {
        SLOTS_PER_BUNDLE
    } else {
        1
    };
    let buffers: BTreeSet<u32> = out.iter().map(|(unit, _)| unit / per_buffer).collect();
    buffers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_bundle_are_one_buffer() {
        let geometry = |bundles| PoolGeometry {
            log2_stride: 14,
            buffer_count: 4,
            headroom: 0,
            bundles,
        };
        let out = [
            (0, 1),
            (1, 1),
            (SLOTS_PER_BUNDLE - 1, 2),
            (SLOTS_PER_BUNDLE, 1),
        ];
        assert_eq!(buffers_of(&out, geometry(true)), 2);
        assert_eq!(buffers_of(&out, geometry(false)), 4);
    }

    /// Whatever a page says: what it does not account for is held, and no more than all is counted.
    #[test]
    fn all_buffers_are_somewhere_whatever_their_owner_says() {
        for (free, out) in [
            (0, 0),
            (60, 40),
            (60, 30),
            (200, 7),
            (60, 70),
            (u64::MAX, u64::MAX),
        ] {
            let mut status = BufferStatus::default();
            status.count(100, free, out);
            status.count(10, 10, 0);
            let found = status.free + status.in_flight + status.held + status.unread;
            assert_eq!((status.allocated, found), (110, 110), "{free} {out}");
        }
    }
}
