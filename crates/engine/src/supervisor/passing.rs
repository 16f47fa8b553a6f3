//! Pools of workers that have left the chain: known until no packet in them is on its way.
//!
//! Who is replaced meanwhile, or was new with the change, gets such packets by links that stay.

use crate::protocol::RegionName;
use crate::supervisor::Supervisor;
use crate::supervisor::change::Change;
use crate::supervisor::clock::now;
use crate::supervisor::memory::rings;
use crate::supervisor::respawn::LOOK_EVERY;

/// So many times as long as a look takes there is none.
const REST_FACTOR: u32 = 50;

impl Supervisor {
    /// Forgets the pools of those who have left and whose last packet has ended.
    pub(super) fn forget_passed(&mut self) {
        let left = self.placement.passing_pools().map(|pool| pool.owner);
        let mut owners: Vec<usize> = left.collect();
        let is_early = self.passed.is_some_and(|next| now() < next);
        if owners.is_empty() || is_early || !matches!(self.change, Change::No) {
            return;
        }
        // Who is being made was told of these pools.
        let is_told = |worker: usize| {
            let instance = &self.instances[worker];
            !instance.is_live() || instance.is_introduced
        };
        if !(0..self.instances.len()).all(is_told) {
            return;
        }
        owners.dedup();
        let begun = now();
        let on_links = self.buffers_on_links();
        // A look at a large chain takes a while, and must not take all of the supervisor's time.
        let rest = LOOK_EVERY.max((now() - begun) * REST_FACTOR);
        self.passed = Some(now() + rest);
        for owner in owners {
            let own = self.placement.pools.iter();
            let own = own.filter(|pool| pool.owner == owner);
            let own: Vec<u16> = own.map(|pool| pool.id).collect();
            let is_awaited = on_links.iter().any(|(pool, _)| own.contains(pool));
            if !is_awaited && !self.instances[owner].is_live() {
                self.forget_owner(owner, &own);
            }
        }
    }

    fn forget_owner(&mut self, owner: usize, pools: &[u16]) {
        for lane in rings(&self.placement) {
            if lane.link.is_none() && lane.to == owner {
                self.memory.forget(lane.producer);
                self.memory.forget(lane.consumer);
            }
        }
        for pool in pools {
            self.adoptions.remove(pool);
            self.reclaims.forget(*pool);
            self.memory.forget(RegionName::Pool(*pool));
            self.memory.forget(RegionName::Ledger(*pool));
        }
        self.placement.forget_owner(owner);
    }
}
