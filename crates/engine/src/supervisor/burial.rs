//! Death and replacement of workers: the undertaker at work on real memory, and restart policies.
//!
//! | state | event | what is done |
//! |---|---|---|
//! | running | exit | read what it held; lost buffers go home; counters are kept; it is replaced |
//! | making, starting | exit | nothing to read: it never ran; it is replaced |
//! | stopped on request | last record | the same as an exit, with nothing in hand |
//! | any, while the chain stops | exit | nothing: the chain ends |
//!
//! Packets on the way to a dead node wait in their links (`hold`), are dropped by its neighbours
//! (`drop`), or pass through a worker that stands in for it (`bypass`). The first restart is
//! immediate; a node that keeps dying by itself within a second of its start waits longer each
//! time, up to [`DELAY_MAX`], and only then are `drop` and `bypass` seen for longer than a restart
//! takes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use crate::chain::{OnDeath, Trust};
use crate::placement::Placement;
use crate::protocol::{RegionName, ToWorker};
use crate::supervisor::instance::State;
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::reclaim::{self, Buffer, Inbound, Outbound};
use crate::supervisor::{Event, Supervisor};
use crate::worker::build::pool_geometry;

/// Longest wait before a node that keeps dying is started again.
const DELAY_MAX: Duration = Duration::from_secs(5);
const DELAY_MIN: Duration = Duration::from_millis(20);
/// Gaps that are kept for percentiles.
const GAPS_MAX: usize = 10_000;
/// A worker that lives longer than this has not died of its start.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

/// A worker to be started again.
#[derive(Debug)]
pub(super) struct Respawn {
    /// When.
    due: Instant,
    /// Since when its packets wait.
    since: Instant,
    /// How often in a row it died soon after its start.
    quick_deaths: u32,
    /// Whether it is up again, and this entry only remembers its deaths.
    is_up: bool,
    /// Buffers that must come home before it may make its pools anew.
    waits_for: BTreeMap<Buffer, u8>,
}

/// Buffers of one pool that a dead worker held.
#[derive(Debug)]
pub(super) struct Reclaim {
    from: usize,
    pool: u8,
    buffers: Vec<u32>,
}

/// What is still to be taken home. An owner may die before it has done so: then nobody holds these
/// buffers, and they are simply not out any more.
#[derive(Debug, Default)]
pub(super) struct Reclaims {
    /// For owners that do not run now.
    waiting: Vec<Reclaim>,
    /// Sent, by number; done when the owner's page says so.
    under_way: Vec<(u64, Reclaim)>,
    last: u64,
}

impl Reclaims {
    /// Number of the last one sent.
    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    fn sent(&mut self, reclaim: Reclaim) -> ToWorker {
        self.last += 1;
        let record = ToWorker::Reclaim {
            number: self.last,
            from: reclaim.from,
            pool: reclaim.pool,
            buffers: reclaim.buffers.clone(),
        };
        self.under_way.push((self.last, reclaim));
        record
    }

    /// The owner of `pool` is dead and had done all up to number `done`: of what its ledger calls
    /// `out`, the rest of what it was to take home is at home.
    fn settle(&mut self, pool: u8, out: Vec<(u32, u8)>, done: u64) -> Vec<(u32, u8)> {
        let mut home = BTreeSet::new();
        self.waiting.retain_mut(|reclaim| {
            let here = reclaim.pool == pool;
            if here {
                home.extend(reclaim.buffers.drain(..));
            }
            !here
        });
        self.under_way.retain_mut(|(number, reclaim)| {
            let here = reclaim.pool == pool;
            if here && *number > done {
                home.extend(reclaim.buffers.drain(..));
            }
            !here
        });
        let mut out = out;
        out.retain(|(buffer, _)| !home.contains(buffer));
        out
    }
}

/// What a dead worker left.
#[derive(Debug, Default)]
struct Remains {
    inbound: Vec<(RingName, Inbound)>,
    outbound: Vec<(RingName, Outbound)>,
}

impl Supervisor {
    /// A worker's exit is certain.
    pub(super) fn bury(&mut self, worker: usize) {
        self.hear_last_words(worker);
        if !self.instances[worker].is_live() {
            return;
        }
        let body = self.instances[worker].body.take();
        let how = body.map_or_else(String::new, |body| self.part_with(body));
        let instance = &mut self.instances[worker];
        instance.socket = None;
        let had_run = matches!(
            instance.state,
            State::Running | State::Made | State::Stopping
        );
        let epoch = instance.epoch;
        let was_told_to_run = instance.state == State::Made && instance.is_introduced;
        instance.state = State::Dead;
        if was_told_to_run && epoch > 0 {
            // It may have run without having come to say so.
            self.introduce_rings(worker);
        }
        let instance = &mut self.instances[worker];
        if instance.failure.is_none() {
            instance.failure = Some(how.clone());
        }
        self.await_no_more(worker);
        if self.instances[worker].is_retiring || (!had_run && epoch == 0) {
            return;
        }
        let is_detached = self.instances[worker].is_detached;
        let lost = if had_run {
            self.settle_estate(worker)
        } else {
            0
        };
        self.past.deaths += 1;
        let name = self.placement.workers[worker].name.clone();
        self.events.push_back(Event::Died {
            worker: name,
            how: how.clone(),
            lost,
        });
        if self.is_stopping {
            return;
        }
        self.apply_policy(worker);
        // Whoever kills a worker from outside is not its fault.
        self.schedule(worker, is_detached || !how.contains("signal: 9"));
    }

    /// A worker ended on request while the chain runs on (it is being replaced).
    pub(super) fn bury_stopped(&mut self, worker: usize) {
        self.settle_estate(worker);
        self.instances[worker].state = State::Dead;
        self.await_no_more(worker);
        self.schedule(worker, false);
    }

    /// Reads what a worker left and gives everything to whom it belongs. Gives the number of
    /// packets lost.
    fn settle_estate(&mut self, worker: usize) -> u64 {
        let remains = self.remains(worker);
        let strides: BTreeMap<u8, u8> = self
            .placement
            .pools
            .iter()
            .map(|pool| (pool.id, pool.log2_stride))
            .collect();
        let zero_copy = |ring: &RingName| {
            ring.link
                .is_none_or(|link| self.chain.links[link].trust != Trust::Copy)
        };
        let in_hand: Vec<_> = remains
            .inbound
            .iter()
            .filter(|(ring, _)| ring.link.is_some() && zero_copy(ring))
            .flat_map(|(_, inbound)| &inbound.in_hand)
            .collect();
        let sent_descriptors = remains
            .outbound
            .iter()
            .filter(|(ring, _)| zero_copy(ring))
            .flat_map(|(_, outbound)| &outbound.sent);
        let sent = reclaim::buffers_of(sent_descriptors, &strides);
        let held = reclaim::buffers_of(in_hand, &strides);
        let lost = reclaim::lost(&held, &sent);
        self.settle_own_pools(worker, &remains, &held, &strides);
        self.account(worker, &remains, lost.len() as u64);
        let owner_of = |pool: u8| self.placement.pools.iter().find(|spec| spec.id == pool);
        let mut by_pool: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (pool, buffer) in &lost {
            if owner_of(*pool).is_some_and(|spec| spec.owner != worker) {
                by_pool.entry(*pool).or_default().push(*buffer);
            }
        }
        for (pool, buffers) in by_pool {
            self.reclaims.waiting.push(Reclaim {
                from: worker,
                pool,
                buffers,
            });
        }
        self.flush_reclaims();
        for (ring, inbound) in &remains.inbound {
            self.memory.set_start(ring.consumer, inbound.resume);
            self.memory.forget_before(ring.producer, inbound.resume);
            if inbound.is_corrupt && !self.instances[worker].is_detached {
                let name = self.placement.workers[worker].name.clone();
                let why = format!("its cursors on {:?} were impossible", ring.consumer);
                self.events.push_back(Event::Detached { worker: name, why });
            }
        }
        for (ring, outbound) in &remains.outbound {
            self.memory.set_start(ring.producer, outbound.resume);
        }
        lost.len() as u64
    }

    fn remains(&self, worker: usize) -> Remains {
        let mut remains = Remains::default();
        for ring in rings(&self.placement) {
            if ring.to == worker {
                let tail = self.memory.ring(&ring, None);
                let tail = tail.map(|mapped| mapped.tail().load(Ordering::Acquire));
                if let Some(mapped) = self.memory.ring(&ring, tail) {
                    remains.inbound.push((ring, reclaim::inbound(&mapped)));
                }
            }
            if ring.from == worker
                && let Some(mapped) = self.memory.ring(&ring, None)
            {
                let start = self.memory.latest_start(ring.producer);
                let found = reclaim::outbound(&mapped, start);
                remains.outbound.push((ring, found));
            }
        }
        remains
    }

    /// Works out which buffers of a dead owner's pools are still out.
    fn settle_own_pools(
        &mut self,
        worker: usize,
        remains: &Remains,
        held: &BTreeSet<Buffer>,
        strides: &BTreeMap<u8, u8>,
    ) {
        let mut sent = BTreeMap::new();
        for (ring, outbound) in &remains.outbound {
            let Some(link) = ring.link else { continue };
            let number = u8::try_from(link + 1).unwrap_or(u8::MAX);
            for buffer in reclaim::buffers_of(&outbound.sent, strides) {
                sent.insert(buffer, number);
            }
        }
        let reclaimed = self.instances[worker]
            .counters
            .as_ref()
            .map_or(u64::MAX, |page| page.load(crate::stats::RECLAIMED_WORD));
        let mut waits_for = BTreeMap::new();
        for pool in self
            .placement
            .pools
            .iter()
            .filter(|pool| pool.owner == worker)
        {
            let Some(kept) = self.memory.latest(RegionName::Ledger(pool.id)) else {
                continue;
            };
            let Ok(fd) = kept.fd.try_clone() else {
                continue;
            };
            let ledger = catena_shm::pool::read_ledger(fd, kept.len, pool_geometry(pool));
            let ledger = ledger.unwrap_or_default();
            let mut arrived = held.clone();
            for (ring, inbound) in &remains.inbound {
                if ring.link.is_none() {
                    let returned = reclaim::buffers_of(&inbound.in_hand, strides);
                    arrived.extend(self.credible(ring, returned, pool.id, &ledger));
                }
            }
            let out = reclaim::still_out(pool.id, &ledger, &arrived, &sent);
            let out = self.reclaims.settle(pool.id, out, reclaimed);
            if pool.writable {
                self.adoptions.insert(pool.id, out);
            } else {
                waits_for.extend(
                    out.into_iter()
                        .map(|(buffer, link)| ((pool.id, buffer), link)),
                );
            }
        }
        let entry = self.respawn_entry(worker);
        entry.waits_for = waits_for;
        if !entry.waits_for.is_empty() {
            for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
                self.tell(ring.from, &ToWorker::PeerDown { link: ring.link });
            }
        }
    }

    /// Of the buffers of `pool` that came over a lane, those that can have been on the other side: a
    /// hostile worker returns what it never had.
    fn credible(
        &self,
        lane: &RingName,
        returned: BTreeSet<Buffer>,
        pool: u8,
        ledger: &[(u32, u8)],
    ) -> BTreeSet<Buffer> {
        let links = links_to(&self.placement, lane);
        let theirs = ledger.iter().filter(|(_, link)| links.contains(link));
        let theirs: BTreeSet<Buffer> = theirs.map(|(buffer, _)| (pool, *buffer)).collect();
        returned.intersection(&theirs).copied().collect()
    }

    /// Adds the counters of a dead instance to the past, so that received = sent + dropped + killed
    /// holds for a node that had a worker of its own. `lost` is what it held.
    fn account(&mut self, worker: usize, remains: &Remains, lost: u64) {
        let layout = self.instances[worker].layout;
        let Some(counters) = self.instances[worker].counters.take() else {
            return;
        };
        let spec = self.placement.workers[worker].clone();
        let is_corrupt = remains.inbound.iter().any(|(_, found)| found.is_corrupt)
            || remains.outbound.iter().any(|(_, found)| found.is_corrupt);
        for node in &spec.nodes {
            let mut now = super::status::node_counters(&counters, layout, *node);
            let past = self.past.nodes.entry(*node).or_default();
            if spec.nodes.len() == 1 && !self.chain.nodes[*node].is_port() && !is_corrupt {
                // The page may be a turn behind; the rings' cursors are exact.
                let starts: BTreeMap<RegionName, u64> = self.memory.starts().collect();
                let since = |region: RegionName, end: u64| {
                    end.saturating_sub(starts.get(&region).copied().unwrap_or(0))
                };
                let links = |ring: &RingName| ring.link.is_some();
                let rx = remains.inbound.iter().filter(|(ring, _)| links(ring));
                now.rx_packets = rx.map(|(ring, end)| since(ring.consumer, end.resume)).sum();
                let tx = remains.outbound.iter().filter(|(ring, _)| links(ring));
                now.tx_packets = tx.map(|(ring, end)| since(ring.producer, end.resume)).sum();
                // Copies that it made itself have no cursor: they are what it sent beyond.
                let gone = now.tx_packets.saturating_add(now.dropped());
                now.rx_packets = now.rx_packets.max(gone.saturating_add(lost));
                let killed = self.past.killed.entry(*node).or_default();
                *killed = killed.saturating_add(now.rx_packets - gone);
            }
            past.add(&now);
        }
        for ring in self
            .placement
            .rings
            .iter()
            .filter(|ring| ring.from == worker)
        {
            let now = super::status::tx_counters(&counters, layout, ring.link);
            self.past.tx.entry(ring.link).or_default().add(&now);
        }
        for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
            let now = super::status::rx_counters(&counters, layout, ring.link);
            self.past.rx.entry(ring.link).or_default().add(&now);
        }
    }

    /// Tells owners that run to take home what the dead held.
    pub(super) fn flush_reclaims(&mut self) {
        for reclaim in std::mem::take(&mut self.reclaims.waiting) {
            let owner = self
                .placement
                .pools
                .iter()
                .find(|spec| spec.id == reclaim.pool);
            let Some(owner) = owner.map(|spec| spec.owner) else {
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
                    ..reclaim
                };
                let record = self.reclaims.sent(part);
                self.instances[owner].send(&record, &[]);
            }
        }
        // What an owner has done needs no memory here.
        let pools = &self.placement.pools;
        let instances = &self.instances;
        self.reclaims.under_way.retain(|(number, reclaim)| {
            let owner = pools.iter().find(|spec| spec.id == reclaim.pool);
            let page = owner.and_then(|spec| instances[spec.owner].counters.as_ref());
            page.is_none_or(|page| page.load(crate::stats::RECLAIMED_WORD) < *number)
        });
    }

    /// Tells neighbours what to do with packets for a dead node.
    fn apply_policy(&self, worker: usize) {
        for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
            let node = self.chain.links[ring.link].to;
            if self.chain.nodes[node].on_death == OnDeath::Drop {
                self.tell(ring.from, &ToWorker::PeerDown { link: ring.link });
            }
        }
    }

    fn respawn_entry(&mut self, worker: usize) -> &mut Respawn {
        let now = Instant::now();
        self.respawns.entry(worker).or_insert_with(|| Respawn {
            due: now,
            since: now,
            quick_deaths: 0,
            is_up: false,
            waits_for: BTreeMap::new(),
        })
    }

    fn schedule(&mut self, worker: usize, by_itself: bool) {
        let lived = self.instances[worker]
            .running_since
            .map_or(Duration::ZERO, |t| t.elapsed());
        let was_bypass = self.instances[worker].is_bypass;
        let now = Instant::now();
        let entry = self.respawn_entry(worker);
        if by_itself && lived < SETTLED_AFTER && !was_bypass {
            entry.quick_deaths += 1;
        } else if !by_itself && !was_bypass {
            entry.quick_deaths = 0;
        }
        if entry.is_up {
            entry.since = now;
            entry.is_up = false;
        }
        let delay = match entry.quick_deaths {
            0 | 1 => Duration::ZERO,
            n => (DELAY_MIN * 2_u32.saturating_pow(n.min(16) - 2)).min(DELAY_MAX),
        };
        entry.due = now + delay;
        self.past
            .restarts
            .entry(worker)
            .and_modify(|n| *n += 1)
            .or_insert(1);
        self.respawn_due();
    }

    pub(super) fn time_to_respawn(&self) -> Option<Duration> {
        // Those on their way say themselves when they are up.
        let waiting = self.respawns.iter().filter(|(worker, respawn)| {
            let instance = &self.instances[**worker];
            let stands_in = instance.is_bypass && instance.state == State::Running;
            !respawn.is_up && (instance.state == State::Dead || stands_in)
        });
        waiting
            .map(|(_, respawn)| match respawn.waits_for.is_empty() {
                true => respawn.due.saturating_duration_since(Instant::now()),
                false => Duration::from_millis(1),
            })
            .min()
    }

    /// Starts workers whose time has come.
    pub(super) fn respawn_due(&mut self) {
        if self.is_stopping {
            return;
        }
        let now = Instant::now();
        let workers: Vec<usize> = self.respawns.keys().copied().collect();
        for worker in workers {
            if self.instances[worker].state != State::Dead {
                continue;
            }
            self.watch_drain(worker);
            let Some(respawn) = self.respawns.get(&worker) else {
                continue;
            };
            if !respawn.waits_for.is_empty() {
                continue;
            }
            let is_early = respawn.due > now;
            if is_early && !self.may_bypass(worker) {
                continue;
            }
            let epoch = self.instances[worker].epoch + 1;
            match self.spawn(worker, epoch) {
                Ok(mut instance) => {
                    instance.is_bypass = is_early;
                    self.instances[worker] = instance;
                }
                Err(error) => {
                    self.notice(error.to_string());
                    if let Some(respawn) = self.respawns.get_mut(&worker) {
                        respawn.due = now + DELAY_MAX;
                    }
                }
            }
        }
        self.end_bypasses(now);
    }

    fn may_bypass(&self, worker: usize) -> bool {
        let nodes = &self.placement.workers[worker].nodes;
        nodes.iter().all(|node| {
            self.chain.nodes[*node].on_death == OnDeath::Bypass
                && !self.chain.nodes[*node].is_port()
        })
    }

    /// Stand-ins whose node may be tried again are stopped; the node itself follows.
    fn end_bypasses(&mut self, now: Instant) {
        for (worker, respawn) in &mut self.respawns {
            let instance = &mut self.instances[*worker];
            if instance.is_bypass && instance.state == State::Running && respawn.due <= now {
                instance.state = State::Stopping;
                instance.send(&ToWorker::Stop, &[]);
            }
        }
    }

    /// An owner of sealed pools makes them anew; until the old buffers are home, it waits.
    fn watch_drain(&mut self, worker: usize) {
        let Some(respawn) = self.respawns.get_mut(&worker) else {
            return;
        };
        if respawn.waits_for.is_empty() {
            return;
        }
        let lanes: Vec<_> = rings(&self.placement)
            .into_iter()
            .filter(|ring| ring.to == worker && ring.link.is_none())
            .collect();
        for ring in lanes {
            let start = self
                .memory
                .starts()
                .find(|(region, _)| *region == ring.consumer);
            let from = start.map_or(0, |(_, index)| index);
            let Some(mapped) = self.memory.ring(&ring, Some(from)) else {
                continue;
            };
            let returned = catena_shm::ring::published_since(&mapped, from);
            let links = links_to(&self.placement, &ring);
            for buffer in reclaim::buffers_of(&returned, &BTreeMap::new()) {
                let link = respawn.waits_for.get(&buffer);
                if link.is_some_and(|link| links.contains(link)) {
                    respawn.waits_for.remove(&buffer);
                }
            }
            self.memory
                .set_start(ring.consumer, from + returned.len() as u64);
        }
        self.empty_inputs(worker);
    }

    /// Packets that wait for an owner of sealed pools may lie in those very pools: they cannot stay
    /// until it runs again. They are given up, and its senders drop (`nf_down`) what follows.
    fn empty_inputs(&mut self, worker: usize) {
        let strides: BTreeMap<u8, u8> = self
            .placement
            .pools
            .iter()
            .map(|pool| (pool.id, pool.log2_stride))
            .collect();
        for ring in rings(&self.placement) {
            let (true, Some(link)) = (ring.to == worker, ring.link) else {
                continue;
            };
            let start = self
                .memory
                .starts()
                .find(|(region, _)| *region == ring.consumer);
            let from = start.map_or(0, |(_, index)| index);
            let Some(mapped) = self.memory.ring(&ring, Some(from)) else {
                continue;
            };
            let waiting = catena_shm::ring::published_since(&mapped, from);
            if waiting.is_empty() {
                continue;
            }
            self.memory
                .set_start(ring.consumer, from + waiting.len() as u64);
            let to = self.chain.links[link].to;
            let killed = self.past.killed.entry(to).or_default();
            *killed = killed.saturating_add(waiting.len() as u64);
            let past = self.past.nodes.entry(to).or_default();
            past.rx_packets = past.rx_packets.saturating_add(waiting.len() as u64);
            if self.chain.links[link].trust == Trust::Copy {
                continue;
            }
            for (pool, buffer) in reclaim::buffers_of(&waiting, &strides) {
                let own = self.respawns.get_mut(&worker);
                if own.is_none_or(|respawn| respawn.waits_for.remove(&(pool, buffer)).is_none()) {
                    self.reclaims.waiting.push(Reclaim {
                        from: worker,
                        pool,
                        buffers: vec![buffer],
                    });
                }
            }
        }
        self.flush_reclaims();
    }

    /// A worker runs: its neighbours learn of its memory.
    pub(super) fn now_running(&mut self, worker: usize) {
        self.flush_reclaims();
        if self.is_draining {
            self.instances[worker].send(&ToWorker::Drain, &[]);
        }
        if self.instances[worker].epoch == 0 {
            return;
        }
        self.introduce_rings(worker);
        // It does not know who was down before it came.
        for ring in self
            .placement
            .rings
            .iter()
            .filter(|ring| ring.from == worker)
        {
            let node = &self.chain.nodes[self.chain.links[ring.link].to];
            let drains = self.respawns.get(&ring.to);
            let drains = drains.is_some_and(|respawn| !respawn.waits_for.is_empty());
            let drops = drains || node.on_death == OnDeath::Drop;
            if drops && self.instances[ring.to].state == State::Dead {
                self.instances[worker].send(&ToWorker::PeerDown { link: ring.link }, &[]);
            }
        }
        let is_bypass = self.instances[worker].is_bypass;
        let Some(respawn) = self.respawns.get_mut(&worker) else {
            return;
        };
        if !respawn.is_up && !is_bypass {
            respawn.is_up = true;
            let gap = respawn.since.elapsed();
            if self.past.gaps.len() < GAPS_MAX {
                self.past.gaps.push(gap);
            }
            let name = self.placement.workers[worker].name.clone();
            self.events
                .push_back(Event::Restarted { worker: name, gap });
        }
    }

    /// Its neighbours learn of a successor's rings. This must reach them for every instance that may
    /// have published, in order: a consumer takes what each published in that one's own memory.
    fn introduce_rings(&self, worker: usize) {
        for ring in rings(&self.placement) {
            let (neighbour, region) = match (ring.from == worker, ring.to == worker) {
                (true, false) => (ring.to, ring.producer),
                (false, true) => (ring.from, ring.consumer),
                _ => continue,
            };
            self.introduce_successor(neighbour, region);
        }
    }

    fn introduce_successor(&self, neighbour: usize, region: RegionName) {
        let instance = &self.instances[neighbour];
        if !instance.is_live() || !instance.is_introduced {
            return;
        }
        let start = self.memory.starts().find(|(name, _)| *name == region);
        if let Some(held) = self.memory.latest(region) {
            instance.attach(region, held, start.map_or(0, |(_, index)| index));
        }
    }
}

/// Numbers of the owner's links over which buffers can have come to the worker that returns by `lane`.
fn links_to(placement: &Placement, lane: &RingName) -> BTreeSet<u8> {
    let lanes = placement.lanes.iter();
    lanes
        .filter(|spec| (spec.from, spec.to) == (lane.from, lane.to))
        .flat_map(|spec| &spec.links)
        .map(|link| u8::try_from(link + 1).unwrap_or(u8::MAX))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaim(pool: u8, buffers: &[u32]) -> Reclaim {
        Reclaim {
            from: 1,
            pool,
            buffers: buffers.to_vec(),
        }
    }

    /// An owner that dies between being told to take buffers home and doing so must not leave them
    /// out for ever, and one that had done so must not lose what it has sent out again since.
    #[test]
    fn what_a_dead_owner_had_not_taken_home_is_home() {
        let mut reclaims = Reclaims::default();
        reclaims.sent(reclaim(7, &[1, 2]));
        reclaims.sent(reclaim(7, &[3]));
        reclaims.sent(reclaim(8, &[4]));
        reclaims.waiting.push(reclaim(7, &[5]));
        let out = (1..=6).map(|buffer| (buffer, 1)).collect();
        let still = reclaims.settle(7, out, 1);
        assert_eq!(still, [(1, 1), (2, 1), (4, 1), (6, 1)]);
        assert!(reclaims.waiting.is_empty());
        assert_eq!(reclaims.under_way.len(), 1, "the other pool's owner lives");
    }
}
