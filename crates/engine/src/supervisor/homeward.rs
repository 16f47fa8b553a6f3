//! Buffers that nobody has any more, on their way home: each owner is told which it is to take.
//!
//! At the ends of packets' lives that no worker sees: what a dead worker held, what waits in a link
//! that nobody reads any more, and what was returned to an owner that has died by a lane that goes.
//! What its ledger says is out by a link over which it cannot have come there, is none of it: a
//! hostile worker's memory lied.

use std::collections::{BTreeMap, BTreeSet};

use crate::supervisor::Supervisor;
use crate::supervisor::instance::State;
use crate::supervisor::memory::RingName;
use crate::supervisor::reclaim::{Unit, units_of};
use crate::supervisor::reclaims::Reclaim;

impl Supervisor {
    /// Numbers of links, in the ledgers of `owner`, over which its buffers can have come to
    /// `holder`.
    pub(super) fn links_between(&self, owner: usize, holder: usize) -> BTreeSet<u8> {
        let leaving = self.change.leaving_lanes().iter();
        let lanes = self.placement.lanes.iter().chain(leaving);
        lanes
            .filter(|lane| (lane.from, lane.to) == (holder, owner))
            .flat_map(|lane| lane.links.iter().copied())
            .collect()
    }

    /// Numbers of links over which buffers that lie in `ring` can have left `owner`.
    fn links_into(&self, ring: &RingName, owner: usize) -> BTreeSet<u8> {
        match ring.from == owner {
            true => BTreeSet::from([ring.number]),
            false => self.links_between(owner, ring.from),
        }
    }

    /// Who owns a pool.
    pub(super) fn owner_of(&self, pool: u16) -> Option<usize> {
        let spec = self.placement.pools.iter().find(|spec| spec.id == pool);
        spec.map(|spec| spec.owner)
    }

    /// Units that nobody has any more go home, if they are out by links which `links` gives for
    /// their owner.
    pub(super) fn send_home(
        &mut self,
        units: &BTreeSet<Unit>,
        links: impl Fn(&Self, usize) -> BTreeSet<u8>,
    ) {
        let mut by_pool: BTreeMap<u16, Vec<u32>> = BTreeMap::new();
        for (pool, unit) in units {
            by_pool.entry(*pool).or_default().push(*unit);
        }
        for (pool, mut buffers) in by_pool {
            let Some(owner) = self.owner_of(pool) else {
                continue;
            };
            let links = links(self, owner);
            if let Some(respawn) = self.respawns.get_mut(&owner) {
                let waits_for = &mut respawn.waits_for;
                buffers.retain(|buffer| {
                    let left_by = waits_for.get(&(pool, *buffer));
                    let is_awaited = left_by.is_some_and(|link| links.contains(link));
                    !(is_awaited && waits_for.remove(&(pool, *buffer)).is_some())
                });
            }
            if buffers.is_empty() {
                continue;
            }
            self.reclaims.waiting.push(Reclaim {
                links,
                pool,
                buffers,
                found: false,
            });
        }
        self.flush_reclaims();
    }

    /// Packets that wait in a link from index `from` on are lost to its receiving node `to`: they
    /// are counted there, and their buffers go home.
    pub(super) fn give_up_waiting(&mut self, ring: &RingName, to: usize, from: u64) {
        let (waiting, count) = self.memory.published_from(ring, from);
        if waiting.is_empty() {
            return;
        }
        self.memory.set_start(ring.consumer, from + count);
        let killed = self.past.killed.entry(to).or_default();
        *killed = killed.saturating_add(count);
        let past = self.past.nodes.entry(to).or_default();
        past.rx_packets = past.rx_packets.saturating_add(count);
        if !self.shares_buffers(ring) {
            return;
        }
        let units = units_of(&waiting, &self.pool_geometries());
        self.send_home(&units, |this, owner| this.links_into(ring, owner));
    }

    /// What was returned by lanes that go, to owners of which others live by now, they do not take:
    /// they have other lanes. `reads` says whose owner has lived since the change began.
    pub(super) fn settle_leaving_lanes(&mut self, reads: impl Fn(&Self, usize) -> bool) {
        let lanes: Vec<RingName> = self.change.leaving().to_vec();
        for lane in lanes.iter().filter(|ring| ring.link.is_none()) {
            if reads(self, lane.to) {
                continue;
            }
            let returned = self.memory.not_given_back(lane);
            let units = units_of(&returned, &self.pool_geometries());
            self.send_home(&units, |this, owner| match owner == lane.to {
                true => this.links_between(owner, lane.from),
                false => BTreeSet::new(),
            });
        }
    }

    /// Tells owners that run to take home what nobody has.
    pub(super) fn flush_reclaims(&mut self) {
        for reclaim in std::mem::take(&mut self.reclaims.waiting) {
            let Some(owner) = self.owner_of(reclaim.pool) else {
                continue;
            };
            if self.instances[owner].state != State::Running {
                self.reclaims.waiting.push(reclaim);
                continue;
            }
            // A record holds a few thousand numbers.
            for part in reclaim.buffers.chunks(4096) {
                let part = Reclaim {
                    buffers: part.to_vec(),
                    ..reclaim.clone()
                };
                let record = self.reclaims.sent(part);
                self.instances[owner].send(&record);
            }
        }
        self.forget_done();
    }

    /// What an owner has done needs no memory here.
    pub(super) fn forget_done(&mut self) {
        let owners = self
            .placement
            .pools
            .iter()
            .map(|spec| (spec.id, spec.owner));
        let owners: BTreeMap<u16, usize> = owners.collect();
        let instances = &self.instances;
        self.reclaims.under_way.retain(|(number, reclaim)| {
            let owner = owners.get(&reclaim.pool);
            let page = owner.and_then(|owner| instances[*owner].counters.as_ref());
            page.is_none_or(|page| page.load(crate::stats::RECLAIMED_WORD) < *number)
        });
    }
}
