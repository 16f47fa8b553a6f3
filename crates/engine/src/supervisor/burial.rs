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
use crate::protocol::{RegionName, ToWorker};
use crate::supervisor::instance::State;
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::reclaim::{self, Buffer, Inbound, Outbound};
use crate::supervisor::{Event, Supervisor};
use crate::worker::build::pool_geometry;

/// Longest wait before a node that keeps dying is started again.
const DELAY_MAX: Duration = Duration::from_secs(5);
const DELAY_MIN: Duration = Duration::from_millis(20);
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
    waits_for: BTreeSet<Buffer>,
}

/// What a dead worker left.
#[derive(Debug, Default)]
struct Remains {
    inbound: Vec<(RingName, Inbound)>,
    outbound: Vec<(RingName, Outbound)>,
}

impl Supervisor {
    /// A worker's exit is certain.
    pub(super) fn bury(&mut self, worker: usize, _killed_by: Option<&str>) {
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
        instance.state = State::Dead;
        if instance.failure.is_none() {
            instance.failure = Some(how.clone());
        }
        if self.is_stopping || self.instances[worker].is_retiring || (!had_run && epoch == 0) {
            return;
        }
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
        self.apply_policy(worker);
        self.schedule(worker, !how.contains("signal: 9"));
    }

    /// A worker ended on request while the chain runs on (it is being replaced).
    pub(super) fn bury_stopped(&mut self, worker: usize) {
        self.settle_estate(worker);
        self.instances[worker].state = State::Dead;
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
        self.account(worker, &remains);
        self.settle_own_pools(worker, &remains, &held, &strides);
        let owner_of = |pool: u8| self.placement.pools.iter().find(|spec| spec.id == pool);
        let mut by_pool: BTreeMap<u8, Vec<u32>> = BTreeMap::new();
        for (pool, buffer) in &lost {
            if owner_of(*pool).is_some_and(|spec| spec.owner != worker) {
                by_pool.entry(*pool).or_default().push(*buffer);
            }
        }
        self.reclaims.extend(by_pool);
        self.flush_reclaims();
        for (ring, inbound) in &remains.inbound {
            self.memory.set_start(ring.consumer, inbound.resume);
            self.memory.forget_before(ring.producer, inbound.resume);
            if inbound.is_corrupt {
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
                remains.outbound.push((ring, reclaim::outbound(&mapped)));
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
        let returning = remains
            .inbound
            .iter()
            .filter(|(ring, _)| ring.link.is_none())
            .flat_map(|(_, inbound)| &inbound.in_hand);
        let mut arrived = reclaim::buffers_of(returning, strides);
        arrived.extend(held);
        let mut sent = BTreeMap::new();
        for (ring, outbound) in &remains.outbound {
            let Some(link) = ring.link else { continue };
            let number = u8::try_from(link + 1).unwrap_or(u8::MAX);
            for buffer in reclaim::buffers_of(&outbound.sent, strides) {
                sent.insert(buffer, number);
            }
        }
        let mut waits_for = BTreeSet::new();
        for pool in self
            .placement
            .pools
            .iter()
            .filter(|pool| pool.owner == worker)
        {
            let Some(held) = self.memory.latest(RegionName::Ledger(pool.id)) else {
                continue;
            };
            let Ok(fd) = held.fd.try_clone() else {
                continue;
            };
            let ledger = catena_shm::pool::read_ledger(fd, held.len, pool_geometry(pool));
            let out = reclaim::still_out(pool.id, &ledger.unwrap_or_default(), &arrived, &sent);
            if pool.writable {
                self.adoptions.insert(pool.id, out);
            } else {
                waits_for.extend(out.into_iter().map(|(buffer, _)| (pool.id, buffer)));
            }
        }
        if !waits_for.is_empty() {
            let entry = self.respawn_entry(worker);
            entry.waits_for = waits_for;
        }
    }

    /// Adds the counters of a dead instance to the past, so that received = sent + dropped + killed
    /// holds for a node that had a worker of its own.
    fn account(&mut self, worker: usize, remains: &Remains) {
        let layout = self.instances[worker].layout;
        let Some(counters) = self.instances[worker].counters.take() else {
            return;
        };
        let spec = self.placement.workers[worker].clone();
        for node in &spec.nodes {
            let mut now = super::status::node_counters(&counters, layout, *node);
            let past = self.past.nodes.entry(*node).or_default();
            if spec.nodes.len() == 1 && !self.chain.nodes[*node].is_port() {
                // The page may be a turn behind; the rings' cursors are exact.
                let links =
                    |list: &[(RingName, u64)]| -> u64 { list.iter().map(|(_, n)| *n).sum() };
                let rx: Vec<_> = remains
                    .inbound
                    .iter()
                    .filter(|(ring, _)| ring.link.is_some())
                    .map(|(ring, inbound)| (*ring, inbound.resume))
                    .collect();
                let tx: Vec<_> = remains
                    .outbound
                    .iter()
                    .filter(|(ring, _)| ring.link.is_some())
                    .map(|(ring, outbound)| (*ring, outbound.resume))
                    .collect();
                let killed = self.past.killed.entry(*node).or_default();
                now.rx_packets = links(&rx).saturating_sub(past.rx_packets);
                now.tx_packets = links(&tx).saturating_sub(past.tx_packets);
                let gone = now
                    .rx_packets
                    .saturating_sub(now.tx_packets + now.dropped());
                *killed += gone;
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
        let mut waiting = Vec::new();
        for (pool, buffers) in std::mem::take(&mut self.reclaims) {
            let owner = self.placement.pools.iter().find(|spec| spec.id == pool);
            let Some(owner) = owner.map(|spec| spec.owner) else {
                continue;
            };
            if self.instances[owner].state == State::Running {
                // A record holds a few thousand numbers.
                for part in buffers.chunks(4096) {
                    let record = ToWorker::Reclaim {
                        pool,
                        buffers: part.to_vec(),
                    };
                    self.instances[owner].send(&record, &[]);
                }
            } else {
                waiting.push((pool, buffers));
            }
        }
        self.reclaims = waiting;
    }

    /// Tells neighbours what to do with packets for a dead node.
    fn apply_policy(&self, worker: usize) {
        for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
            let node = self.chain.links[ring.link].to;
            if self.chain.nodes[node].on_death == OnDeath::Drop {
                self.instances[ring.from].send(&ToWorker::PeerDown { link: ring.link }, &[]);
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
            waits_for: BTreeSet::new(),
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
        } else if !by_itself {
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
        let waiting = self.respawns.values().filter(|respawn| !respawn.is_up);
        waiting
            .map(|respawn| match respawn.waits_for.is_empty() {
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
            for buffer in reclaim::buffers_of(&returned, &BTreeMap::new()) {
                respawn.waits_for.remove(&buffer);
            }
            self.memory
                .set_start(ring.consumer, from + returned.len() as u64);
        }
        for (pool, buffers) in &self.reclaims {
            for buffer in buffers {
                respawn.waits_for.remove(&(*pool, *buffer));
            }
        }
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
        for ring in rings(&self.placement) {
            let (neighbour, region) = match (ring.from == worker, ring.to == worker) {
                (true, false) => (ring.to, ring.producer),
                (false, true) => (ring.from, ring.consumer),
                _ => continue,
            };
            self.introduce_successor(neighbour, region);
        }
        let own = self
            .placement
            .pools
            .iter()
            .filter(|pool| pool.owner == worker && !pool.writable);
        let own: Vec<u8> = own.map(|pool| pool.id).collect();
        for pool in own {
            let lanes = self
                .placement
                .lanes
                .iter()
                .filter(|lane| lane.pools.contains(&pool));
            for lane in lanes {
                self.introduce_successor(lane.from, RegionName::Pool(pool));
            }
        }
        let is_bypass = self.instances[worker].is_bypass;
        let Some(respawn) = self.respawns.get_mut(&worker) else {
            return;
        };
        if !respawn.is_up && !is_bypass {
            respawn.is_up = true;
            let gap = respawn.since.elapsed();
            self.past.gaps.push(gap);
            let name = self.placement.workers[worker].name.clone();
            self.events
                .push_back(Event::Restarted { worker: name, gap });
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
