//! Replacement of dead workers: when, by whom, and what neighbours do meanwhile.
//!
//! The first restart is immediate; a node that keeps dying by itself waits longer each time. See
//! `burial` for the table of states.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::chain::OnDeath;
use crate::protocol::{RegionName, ToWorker};
use crate::supervisor::clock::now;
use crate::supervisor::instance::State;
use crate::supervisor::memory::rings;
use crate::supervisor::reclaim;
use crate::supervisor::restarts::Respawn;
use crate::supervisor::{Event, Supervisor};

/// Longest wait before a node that keeps dying is started again.
const DELAY_MAX: Duration = Duration::from_secs(5);
const DELAY_MIN: Duration = Duration::from_millis(20);
/// How often it is looked for buffers that a dead owner waits for.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Gaps that are kept for percentiles.
const GAPS_MAX: usize = 10_000;
/// A worker that lives longer than this has not died of its start.
const SETTLED_AFTER: Duration = Duration::from_secs(1);

impl Supervisor {
    /// Tells neighbours what to do with packets for a dead node.
    pub(super) fn apply_policy(&self, worker: usize) {
        for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
            let node = self.chain.links[ring.link].to;
            if self.chain.nodes[node].on_death == OnDeath::Drop {
                self.tell(ring.from, &ToWorker::PeerDown { link: ring.link });
            }
        }
    }

    pub(super) fn respawn_entry(&mut self, worker: usize) -> &mut Respawn {
        let now = now();
        self.respawns.entry(worker).or_insert_with(|| Respawn {
            due: now,
            since: now,
            quick_deaths: 0,
            is_up: false,
            waits_for: BTreeMap::new(),
            looked: None,
        })
    }

    pub(super) fn schedule(&mut self, worker: usize, by_itself: bool) {
        let lived = self.instances[worker]
            .running_since
            .map_or(Duration::ZERO, |since| {
                now().saturating_duration_since(since)
            });
        let was_bypass = self.instances[worker].is_bypass;
        let now = now();
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
                true => respawn.due.saturating_duration_since(now()),
                false => Duration::from_millis(1),
            })
            .min()
    }

    /// Starts workers whose time has come.
    pub(super) fn respawn_due(&mut self) {
        if self.is_stopping || self.change.holds_successors() {
            return;
        }
        let now = now();
        let workers: Vec<usize> = self.respawns.keys().copied().collect();
        for worker in workers {
            let has_left = self.placement.workers[worker].nodes.is_empty();
            let stands = self.standing.contains(&worker);
            if self.instances[worker].state != State::Dead || has_left || stands {
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

    pub(super) fn may_bypass(&self, worker: usize) -> bool {
        let nodes = &self.placement.workers[worker].nodes;
        nodes.iter().all(|node| {
            self.chain.nodes[*node].on_death == OnDeath::Bypass
                && !self.chain.nodes[*node].ends_paths()
        })
    }

    /// Stand-ins whose node may be tried again are stopped; the node itself follows.
    pub(super) fn end_bypasses(&mut self, now: Instant) {
        for (worker, respawn) in &mut self.respawns {
            let instance = &mut self.instances[*worker];
            if instance.is_bypass && instance.state == State::Running && respawn.due <= now {
                instance.state = State::Stopping;
                instance.send(&ToWorker::Stop);
            }
        }
    }

    /// An owner of sealed pools makes them anew; until the old buffers are home, it waits.
    pub(super) fn watch_drain(&mut self, worker: usize) {
        let waits = |respawn: &Respawn| !respawn.waits_for.is_empty();
        if !self.respawns.get(&worker).is_some_and(waits) {
            return;
        }
        let geometries = self.pool_geometries();
        let leaving = self.change.leaving().iter().copied();
        let lanes = rings(&self.placement).into_iter().chain(leaving);
        let lanes: Vec<_> = lanes
            .filter(|ring| ring.to == worker && ring.link.is_none())
            .collect();
        for ring in lanes {
            let from = self.memory.start(ring.consumer);
            let (returned, count) = self.memory.published_from(&ring, from);
            let links = self.links_between(worker, ring.from);
            if let Some(respawn) = self.respawns.get_mut(&worker) {
                for unit in reclaim::units_of(&returned, &geometries) {
                    let link = respawn.waits_for.get(&unit);
                    if link.is_some_and(|link| links.contains(link)) {
                        respawn.waits_for.remove(&unit);
                    }
                }
            }
            self.memory.set_start(ring.consumer, from + count);
        }
        self.empty_inputs(worker);
        self.give_up_kept(worker);
    }

    /// Buffers of a dead owner that are on no link nobody has who will return them: a hostile
    /// worker keeps them, or died with them. The owner being dead, none comes into use again.
    fn give_up_kept(&mut self, worker: usize) {
        let now = now();
        let Some(respawn) = self.respawns.get_mut(&worker) else {
            return;
        };
        let is_early = |looked: Instant| now - looked < LOOK_EVERY;
        if respawn.waits_for.is_empty() || respawn.looked.is_some_and(is_early) {
            return;
        }
        respawn.looked = Some(now);
        let on_links = self.buffers_on_links();
        if let Some(respawn) = self.respawns.get_mut(&worker) {
            let before = respawn.waits_for.len();
            respawn
                .waits_for
                .retain(|buffer, _| on_links.contains(buffer));
            let kept = before - respawn.waits_for.len();
            self.note_recovered(kept);
        }
    }

    /// Packets that wait for an owner of sealed pools may lie in those very pools: they cannot stay
    /// until it runs again. They are given up, and its senders drop (`nf_down`) what follows.
    pub(super) fn empty_inputs(&mut self, worker: usize) {
        for ring in rings(&self.placement) {
            let (true, Some(link)) = (ring.to == worker, ring.link) else {
                continue;
            };
            let from = self.memory.start(ring.consumer);
            self.give_up_waiting(&ring, self.chain.links[link].to, from);
        }
        self.flush_reclaims();
    }

    /// A worker runs: its neighbours learn of its memory.
    pub(super) fn now_running(&mut self, worker: usize) {
        self.flush_reclaims();
        if self.is_draining() {
            let round = self.drain_round;
            self.instances[worker].send(&ToWorker::Drain { round });
        }
        if let Some(settings) = self.probing_of(worker) {
            self.instances[worker].send(&ToWorker::Probe(settings));
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
                self.instances[worker].send(&ToWorker::PeerDown { link: ring.link });
            }
        }
        let is_bypass = self.instances[worker].is_bypass;
        let Some(respawn) = self.respawns.get_mut(&worker) else {
            return;
        };
        if !respawn.is_up && !is_bypass {
            respawn.is_up = true;
            let gap = now().saturating_duration_since(respawn.since);
            if self.past.gaps.len() < GAPS_MAX {
                self.past.gaps.push(gap);
            }
            let name = self.placement.workers[worker].name.clone();
            self.events
                .push_back(Event::Restarted { worker: name, gap });
        }
    }

    /// Its neighbours learn of a successor's rings. This must reach them for every instance that
    /// may have published, in order: a consumer takes what each published in that one's own memory.
    pub(super) fn introduce_rings(&self, worker: usize) {
        for ring in rings(&self.placement) {
            let (neighbour, region) = match (ring.from == worker, ring.to == worker) {
                (true, false) => (ring.to, ring.producer),
                (false, true) => (ring.from, ring.consumer),
                _ => continue,
            };
            self.introduce_successor(neighbour, region);
        }
    }

    pub(super) fn introduce_successor(&self, neighbour: usize, region: RegionName) {
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
