//! Buffers that a dead worker had kept: given back by its cursors, and returned to nobody.
//!
//! An honest worker holds between two turns what no cursor says it holds: nothing. A hostile one
//! may take packets, say that it is done with them, and keep their buffers. Its cursors do not tell
//! which; but a buffer that is out of its pool, and on no link and no lane, nobody else has either.
//! To find those exactly while everybody runs:
//!
//! 1. The owner marks in its ledger, between two turns, what is out by a link that leads to the
//!    dead worker. A mark goes when its buffer comes home. One link at a time: should the owner
//!    die, it is known of each mark by which link its buffer left.
//! 2. Then all links are looked through in the order in which packets take them, lanes last. A
//!    packet is published further on before its slot is given back, so one that moves meanwhile is
//!    seen, unless it has come home.
//! 3. What is still marked in the ledger after that, and was not seen, nobody has. The owner takes
//!    it home if it is still marked.
//!
//! A worker that lies about its cursors while others are looked for makes its own buffers seem to
//! be somewhere: they are found when it has died in turn.

use std::collections::BTreeSet;

use catena_shm::pool::{SOUGHT, read_ledger};

use crate::chain::Trust;
use crate::protocol::{RegionName, ToWorker};
use crate::supervisor::change::Change;
use crate::supervisor::instance::State;
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::reclaim::{Unit, units_of};
use crate::supervisor::reclaims::Reclaim;
use crate::supervisor::{Event, Supervisor};
use crate::worker::build::pool_geometry;

impl Supervisor {
    /// A worker has died: what it may have kept is to be looked for.
    pub(super) fn audit_later(&mut self, worker: usize) {
        self.audits.ending.remove(&worker);
        if let Some((_, links)) = self.audits.open.remove(&worker) {
            // An owner that died in the middle. Its successor begins anew.
            self.audits.due.entry(worker).or_default().extend(links);
        }
        for lane in self
            .placement
            .lanes
            .iter()
            .filter(|lane| lane.from == worker && !self.placement.has_left(lane.to))
        {
            let due = self.audits.due.entry(lane.to).or_default();
            due.extend(&lane.links);
        }
    }

    /// Begins to look for what is due, once nobody is being started: that comes first.
    pub(super) fn begin_audits(&mut self) {
        let is_changing = !matches!(self.change, Change::No);
        if self.audits.due.is_empty() || is_changing || self.is_stopping {
            return;
        }
        let is_settled = |state| matches!(state, State::Running | State::Dead | State::Stopped);
        if !self.present().all(|instance| is_settled(instance.state)) {
            return;
        }
        let owners: Vec<usize> = self.audits.due.keys().copied().collect();
        for owner in owners {
            let instance = &self.instances[owner];
            if instance.state != State::Running || !instance.is_introduced {
                continue;
            }
            let id = self.next_request + 1;
            let Some(link) = self.audits.begin(owner, id) else {
                continue;
            };
            self.next_request = id;
            instance.send(&ToWorker::Seek { links: vec![link] });
            instance.send(&ToWorker::Sync { id });
        }
    }

    /// An owner has marked what is out: the rest of the search, if `id` is the answer to that.
    pub(super) fn conclude_audit(&mut self, owner: usize, id: u64) {
        self.audits.answered(owner, id);
        if self
            .audits
            .open
            .get(&owner)
            .is_none_or(|(asked, _)| *asked != id)
        {
            return;
        }
        let mut seen = self.buffers_on_links();
        let geometries = self.pool_geometries();
        for lane in self.memory.lanes_to(owner) {
            let returned = self.memory.not_given_back(&lane);
            seen.extend(units_of(&returned, &geometries));
        }
        // Before the ledgers are read: what is not pending any more is not marked either.
        self.forget_done();
        seen.extend(self.reclaims.pending());
        let mut found = 0;
        for (pool, marked) in self.marked(owner) {
            let nobodys = marked
                .into_iter()
                .filter(|buffer| !seen.contains(&(pool, *buffer)));
            let nobodys: Vec<u32> = nobodys.collect();
            found += nobodys.len();
            for part in nobodys.chunks(4096) {
                let buffers = part.to_vec();
                let number = self.reclaims.number(Reclaim {
                    links: BTreeSet::new(),
                    pool,
                    buffers: buffers.clone(),
                    found: true,
                });
                self.instances[owner].send(&ToWorker::TakeFound {
                    number,
                    pool,
                    buffers,
                });
            }
        }
        self.end_search(owner);
        if !self.audits.due.contains_key(&owner) {
            self.past.searches += 1;
        }
        self.note_recovered(found);
    }

    /// Nothing is looked for in the pools of `owner` any more, as soon as it has read so.
    fn end_search(&mut self, owner: usize) {
        self.next_request += 1;
        let id = self.next_request;
        self.instances[owner].send(&ToWorker::EndSeek);
        self.instances[owner].send(&ToWorker::Sync { id });
        self.audits.end(owner, id);
    }

    /// Gives up what has begun, to begin it anew later.
    pub(super) fn end_audits(&mut self) {
        let open = std::mem::take(&mut self.audits.open);
        for (owner, (_, links)) in open {
            if self.instances[owner].is_live() {
                self.end_search(owner);
            }
            if !links.is_empty() {
                self.audits.due.entry(owner).or_default().extend(links);
            }
        }
    }

    /// Says that `count` buffers were found which dead workers had kept.
    pub(super) fn note_recovered(&mut self, count: usize) {
        if count > 0 {
            let buffers = count as u64;
            self.past.recovered = self.past.recovered.saturating_add(buffers);
            self.events.push_back(Event::Recovered { buffers });
        }
    }

    /// Buffers that lie on links, also on those that go, waiting or in the hands of a receiver in
    /// the middle of its turn. One that moves on meanwhile is not missed.
    pub(super) fn buffers_on_links(&self) -> BTreeSet<Unit> {
        let geometries = self.pool_geometries();
        let mut links: Vec<(usize, RingName)> = rings(&self.placement)
            .into_iter()
            .filter_map(|ring| {
                let link = &self.chain.links[ring.link?];
                (link.trust != Trust::Copy).then(|| (self.depth_of(link.from), ring))
            })
            .collect();
        links.sort_by_key(|(depth, _)| *depth);
        // Of a change that is being made: packets leave these for links that stay. In which order
        // they lie nobody says any more, so what moves on within them is followed by looking again.
        let leaving = self.change.leaving().iter();
        let leaving: Vec<&RingName> = leaving
            .filter(|ring| ring.link.is_some() && self.shares_buffers(ring))
            .collect();
        let leaving = leaving.repeat(leaving.len());
        let mut found = BTreeSet::new();
        for ring in leaving
            .into_iter()
            .chain(links.iter().map(|(_, ring)| ring))
        {
            found.extend(units_of(&self.memory.not_given_back(ring), &geometries));
        }
        found
    }

    /// Longest way from a source to a node, in links; what a port receives begins a way.
    fn depth_of(&self, node: usize) -> usize {
        let mut depth = 0;
        let mut front = BTreeSet::from([node]);
        while depth <= self.chain.nodes.len() {
            front.retain(|node| !self.chain.nodes[*node].ends_paths());
            let links = self.chain.links.iter();
            front = links
                .filter(|link| front.contains(&link.to))
                .map(|link| link.from)
                .collect();
            if front.is_empty() {
                break;
            }
            depth += 1;
        }
        depth
    }

    /// Marked buffers of each pool of `owner`.
    fn marked(&self, owner: usize) -> Vec<(u16, Vec<u32>)> {
        let own = self
            .placement
            .pools
            .iter()
            .filter(|pool| pool.owner == owner);
        let mut all = Vec::new();
        for pool in own {
            let Some(held) = self.memory.latest(RegionName::Ledger(pool.id)) else {
                continue;
            };
            let Ok(fd) = held.fd.try_clone() else {
                continue;
            };
            let out = read_ledger(fd, held.len, pool_geometry(pool)).unwrap_or_default();
            all.push((pool.id, marked_in(&out).into_iter().collect()));
        }
        all
    }

    /// A dead owner's ledger without marks: what was looked for left by one of those links.
    pub(super) fn unmarked(&self, owner: usize, ledger: Vec<(u32, u8)>) -> Vec<(u32, u8)> {
        let links = self.audits.last.get(&owner);
        let number = links.and_then(|links| links.first()).copied().unwrap_or(1);
        let of = |link| if link == SOUGHT { number } else { link };
        ledger
            .into_iter()
            .map(|(buffer, link)| (buffer, of(link)))
            .collect()
    }
}

/// Buffers that a ledger says are looked for.
pub(super) fn marked_in(ledger: &[(u32, u8)]) -> BTreeSet<u32> {
    let marked = ledger.iter().filter(|(_, link)| *link == SOUGHT);
    marked.map(|(buffer, _)| *buffer).collect()
}
