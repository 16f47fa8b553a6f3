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

use catena_shm::pool::PoolGeometry;
use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use crate::chain::Trust;
use crate::protocol::{RegionName, ToWorker};
use crate::supervisor::audit;
use crate::supervisor::change::Change;
use crate::supervisor::instance::State;
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::reclaim::{self, Inbound, Outbound, Unit};
use crate::supervisor::spawn::Body;
use crate::supervisor::tcp_links::has_sockets;
use crate::supervisor::{Event, Supervisor};
use crate::worker::build::pool_geometry;

/// What a dead worker left.
#[derive(Debug, Default)]
pub(super) struct Remains {
    pub(super) inbound: Vec<(RingName, Inbound)>,
    pub(super) outbound: Vec<(RingName, Outbound)>,
}

impl Supervisor {
    /// A worker's exit is certain.
    pub(super) fn bury(&mut self, worker: usize) {
        if let Change::Preparing(dead) = &mut self.change {
            // Which chain it belongs to is not decided: later.
            if !dead.contains(&worker) {
                dead.push(worker);
            }
            return;
        }
        let epoch = self.instances[worker].epoch;
        self.hear_last_words(worker);
        if !self.instances[worker].is_live() || self.instances[worker].epoch != epoch {
            // It had ended in order, and may be replaced already.
            return;
        }
        let body = self.instances[worker].body.take();
        let was_adopted = body.as_ref().is_some_and(Body::is_adopted);
        let how = body.map_or_else(String::new, |body| self.part_with(body));
        let instance = &mut self.instances[worker];
        instance.socket = None;
        let had_run = matches!(
            instance.state,
            State::Running | State::Made | State::Stopping
        );
        let epoch = instance.epoch;
        self.forget_addresses(worker);
        let instance = &mut self.instances[worker];
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
        if !had_run && epoch == 0 {
            return;
        }
        if self.has_left(worker) {
            let lost = self.settle_estate(worker);
            self.respawns.remove(&worker);
            return self.note_death(worker, how, lost);
        }
        let is_detached = self.instances[worker].is_detached;
        let lost = if had_run {
            self.settle_estate(worker)
        } else {
            0
        };
        self.audit_later(worker);
        // Whoever kills a worker from outside is not its fault.
        let died_by_itself = !was_adopted && !how.contains("signal: 9");
        self.note_death(worker, how, lost);
        if self.is_stopping {
            return;
        }
        self.apply_policy(worker);
        self.schedule(worker, is_detached || died_by_itself);
    }

    fn note_death(&mut self, worker: usize, how: String, lost: u64) {
        self.past.deaths += 1;
        let name = self.placement.workers[worker].name.clone();
        self.events.push_back(Event::Died {
            worker: name,
            how,
            lost,
        });
    }

    /// Whether the chain has no nodes for a worker any more.
    fn has_left(&self, worker: usize) -> bool {
        self.instances[worker].is_retiring || self.placement.workers[worker].nodes.is_empty()
    }

    /// A worker ended on request while the chain runs on (it is being replaced).
    pub(super) fn bury_stopped(&mut self, worker: usize) {
        self.forget_addresses(worker);
        self.settle_estate(worker);
        self.instances[worker].state = State::Dead;
        self.await_no_more(worker);
        self.audit_later(worker);
        self.schedule(worker, false);
    }

    /// Reads what a worker left and gives everything to whom it belongs. Gives the number of
    /// packets lost.
    fn settle_estate(&mut self, worker: usize) -> u64 {
        let remains = self.remains(worker);
        let geometries = self.pool_geometries();
        let in_hand: Vec<_> = remains
            .inbound
            .iter()
            .filter(|(ring, _)| ring.link.is_some() && self.shares_buffers(ring))
            .flat_map(|(_, inbound)| &inbound.in_hand)
            .collect();
        let sent_descriptors = remains
            .outbound
            .iter()
            .filter(|(ring, _)| self.shares_buffers(ring))
            .flat_map(|(_, outbound)| &outbound.sent);
        let sent = reclaim::units_of(sent_descriptors, &geometries);
        let held = reclaim::units_of(in_hand, &geometries);
        let lost = reclaim::lost(&held, &sent);
        self.settle_own_pools(worker, &remains, &held, &geometries);
        let packets_lost = self.account(worker, &remains, lost.len() as u64);
        self.settle_sockets(worker);
        let is_own = |(pool, _): &Unit| self.owner_of(*pool) == Some(worker);
        let others: BTreeSet<Unit> = lost.into_iter().filter(|unit| !is_own(unit)).collect();
        self.send_home(&others, |this, owner| this.links_between(owner, worker));
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
        packets_lost
    }

    /// Whether descriptors on `ring` name buffers of pools: on all but `copy` links.
    pub(super) fn shares_buffers(&self, ring: &RingName) -> bool {
        ring.link
            .is_none_or(|link| self.chain.links[link].trust != Trust::Copy)
    }

    /// Buffers of every pool, by its number.
    pub(super) fn pool_geometries(&self) -> BTreeMap<u16, PoolGeometry> {
        let pools = self.placement.pools.iter();
        pools.map(|pool| (pool.id, pool_geometry(pool))).collect()
    }

    fn remains(&self, worker: usize) -> Remains {
        let mut remains = Remains::default();
        let leaving = self.change.leaving().iter().copied();
        for ring in rings(&self.placement).into_iter().chain(leaving) {
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
        held: &BTreeSet<Unit>,
        geometries: &BTreeMap<u16, PoolGeometry>,
    ) {
        let mut sent = BTreeMap::new();
        for (ring, outbound) in &remains.outbound {
            // What passed a `copy` link lies in no pool.
            if ring.link.is_none() || !self.shares_buffers(ring) {
                continue;
            }
            for buffer in reclaim::units_of(&outbound.sent, geometries) {
                sent.insert(buffer, ring.number);
            }
        }
        let reclaimed = self.instances[worker]
            .counters
            .as_ref()
            .map_or(u64::MAX, |page| page.load(crate::stats::RECLAIMED_WORD));
        let mut waits_for = BTreeMap::new();
        for pool in self
            .placement
            .present_pools()
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
            let marked = audit::marked_in(&ledger);
            let ledger = self.unmarked(worker, ledger);
            let mut arrived = held.clone();
            for (ring, inbound) in &remains.inbound {
                if ring.link.is_none() {
                    let returned = reclaim::units_of(&inbound.in_hand, geometries);
                    arrived.extend(self.credible(ring, returned, pool.id, &ledger));
                }
            }
            let out = reclaim::still_out(pool.id, &ledger, &arrived, &sent);
            let out = self.reclaims.settle(pool.id, out, reclaimed, &marked);
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
        entry.looked = None;
        if !entry.waits_for.is_empty() {
            for ring in self.placement.rings.iter().filter(|ring| ring.to == worker) {
                self.tell(ring.from, &ToWorker::PeerDown { link: ring.link });
            }
        }
    }

    /// Of the buffers of `pool` that came over a lane, those that can have been on the other side:
    /// a hostile worker returns what it never had.
    fn credible(
        &self,
        lane: &RingName,
        returned: BTreeSet<Unit>,
        pool: u16,
        ledger: &[(u32, u8)],
    ) -> BTreeSet<Unit> {
        let links = self.links_between(lane.to, lane.from);
        let theirs = ledger.iter().filter(|(_, link)| links.contains(link));
        let theirs: BTreeSet<Unit> = theirs.map(|(buffer, _)| (pool, *buffer)).collect();
        returned.intersection(&theirs).copied().collect()
    }

    /// Adds the counters of a dead instance to the past, so that received = sent + dropped + killed
    /// holds for a node that had a worker of its own. `lost` is how many of the buffers that it
    /// held it had not passed on; a packet that it had passed on as a copy is not lost, though its
    /// buffer is among them. What its NFs held between turns is lost too. Gives how many packets
    /// were lost.
    fn account(&mut self, worker: usize, remains: &Remains, lost: u64) -> u64 {
        let layout = self.instances[worker].layout;
        let Some(counters) = self.instances[worker].counters.take() else {
            return lost;
        };
        // A successor of this supervisor would count it once more.
        self.instances[worker].page = None;
        let mut packets_lost = None;
        let gone_by_links = (
            self.instances[worker].rx_gone,
            self.instances[worker].tx_gone,
        );
        let mut held = 0_u64;
        let nodes = self.placement.workers[worker].nodes.iter();
        let leaving = self.change.leaving_nodes(worker).iter();
        let nodes: Vec<usize> = nodes.chain(leaving).copied().collect();
        // What came or went over TCP has no cursor.
        let has_sockets = has_sockets(&self.placement, worker);
        let is_corrupt = remains.inbound.iter().any(|(_, found)| found.is_corrupt)
            || remains.outbound.iter().any(|(_, found)| found.is_corrupt);
        for node in &nodes {
            let mut now = super::status::node_counters(&counters, layout, *node);
            let is_port = self.chain.nodes[*node].is_port();
            if nodes.len() == 1 && !is_port && !is_corrupt && !has_sockets {
                // The page may be a turn behind; the rings' cursors are exact.
                let starts: BTreeMap<RegionName, u64> = self.memory.starts().collect();
                let since = |region: RegionName, end: u64| {
                    end.saturating_sub(starts.get(&region).copied().unwrap_or(0))
                };
                let links = |ring: &RingName| ring.link.is_some();
                let rx = remains.inbound.iter().filter(|(ring, _)| links(ring));
                now.rx_packets = rx.map(|(ring, end)| since(ring.consumer, end.resume)).sum();
                now.rx_packets = now.rx_packets.saturating_add(gone_by_links.0);
                let tx = remains.outbound.iter().filter(|(ring, _)| links(ring));
                now.tx_packets = tx.map(|(ring, end)| since(ring.producer, end.resume)).sum();
                now.tx_packets = now.tx_packets.saturating_add(gone_by_links.1);
                // What an NF makes has no cursor, and is in the page before it leaves.
                now.rx_packets = now.rx_packets.saturating_add(now.made);
                let gone = now.tx_packets.saturating_add(now.dropped());
                now.rx_packets = now.rx_packets.max(gone);
                // Held packets are among those: they came and did not go.
                let here = now.rx_packets - gone;
                packets_lost = Some(here);
                let killed = self.past.killed.entry(*node).or_default();
                *killed = killed.saturating_add(here);
            } else if let Some(port) = self.port_counts(worker, *node, &now, remains) {
                now.rx_packets = port.received;
                now.tx_packets = port.sent;
                held = held.saturating_add(now.held);
                let killed = self.past.killed.entry(*node).or_default();
                *killed = killed.saturating_add(port.in_hand);
            } else if now.held > 0 {
                held = held.saturating_add(now.held);
                let killed = self.past.killed.entry(*node).or_default();
                *killed = killed.saturating_add(now.held);
            }
            now.held = 0;
            for counter in self.chain.nodes[*node].kind.standing_counters() {
                now.own[counter] = 0;
            }
            self.past.nodes.entry(*node).or_default().add(&now);
        }
        let leaving = self.change.leaving().iter();
        let leaving = leaving.filter_map(|ring| Some((ring.link?, ring.from, ring.to)));
        let here = self.placement.rings.iter();
        let here = here.map(|ring| (ring.link, ring.from, ring.to));
        for (link, from, to) in here.chain(leaving) {
            if from == worker {
                let now = super::status::tx_counters(&counters, layout, link);
                self.past.tx.entry(link).or_default().add(&now);
            }
            if to == worker {
                let now = super::status::rx_counters(&counters, layout, link);
                self.past.rx.entry(link).or_default().add(&now);
            }
        }
        packets_lost.unwrap_or(lost.saturating_add(held))
    }
}
