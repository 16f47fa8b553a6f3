//! Assignments, and memory on its way from those who make it to those who need it.
//!
//! A new instance is told what to build, hands over the regions it has made, and is introduced to
//! its neighbours, that is, given theirs, as soon as all are known.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use catena_shm::counters::Counters;
use catena_shm::record_ring::RecordPage;
use catena_shm::region::{Region, RegionError, Sharing};
use catena_shm::ring_memory::{RingEnd, Side};

use crate::chain::files;
use crate::placement::node_spec;
use crate::protocol::{Adoption, Assignment, RegionName, StartIndex, ToWorker};
use crate::supervisor::clock::now;
use crate::supervisor::cores::core_for;
use crate::supervisor::instance::{Held, State};
use crate::supervisor::{Supervisor, memory};
use crate::worker::build::{page_layout, pool_geometry, pool_sharing};
use crate::worker::open::check_len;

impl Supervisor {
    /// Tells a new instance what to build.
    pub(super) fn assign(&mut self, worker: usize) {
        let own_pools = self
            .placement
            .pools
            .iter()
            .filter(|pool| pool.owner == worker);
        let mut adoptions = Vec::new();
        for pool in own_pools.filter(|pool| pool.writable) {
            let Some(out) = self.adoptions.get(&pool.id).cloned() else {
                continue;
            };
            if let Some(held) = self.memory.latest(RegionName::Pool(pool.id)) {
                let record = ToWorker::Adopt(pool.id);
                self.instances[worker].send_with(&record, Some(&held.fd));
                adoptions.push(Adoption {
                    pool: pool.id,
                    len: held.len,
                    out,
                });
            }
        }
        if !self.instances[worker].is_bypass {
            let nodes = self.placement.workers[worker].nodes.clone();
            if let Err(why) = self.give_states(worker, &nodes, false) {
                return self.detach(worker, &format!("its memory cannot be made: {why}"));
            }
        }
        let assignment = self.assignment(worker, adoptions);
        self.instances[worker].layout = page_layout(&assignment);
        let record = ToWorker::Assign(Box::new(assignment));
        self.instances[worker].send(&record);
        self.instances[worker].state = State::Making;
    }

    pub(super) fn assignment(&self, worker: usize, adoptions: Vec<Adoption>) -> Assignment {
        let placement = &self.placement;
        let spec = &placement.workers[worker];
        let touches = |node: usize| spec.nodes.contains(&node);
        let lanes: Vec<_> = placement
            .lanes
            .iter()
            .filter(|lane| lane.from == worker || lane.to == worker)
            .cloned()
            .collect();
        let sees = |id: &u16| lanes.iter().any(|lane| lane.pools.contains(id));
        let starts = self
            .memory
            .starts()
            .map(|(region, index)| StartIndex { region, index });
        Assignment {
            worker,
            reclaimed: self.reclaims.last_number(),
            epoch: self.instances[worker].epoch,
            chain: self.chain.name.clone(),
            dir: self.chain.dir.clone(),
            nodes: spec
                .nodes
                .iter()
                .map(|node| node_spec(&self.chain, &placement.worker_of, *node))
                .collect(),
            edges: placement
                .edges
                .iter()
                .filter(|edge| touches(edge.from) || touches(edge.to))
                .copied()
                .collect(),
            rings: placement
                .rings
                .iter()
                .filter(|ring| ring.from == worker || ring.to == worker)
                .cloned()
                .collect(),
            pools: placement
                .pools
                .iter()
                .filter(|pool| pool.owner == worker || sees(&pool.id))
                .cloned()
                .collect(),
            secrets: self.secrets_of(worker),
            lanes,
            adoptions,
            starts: starts.collect(),
            split_seed: self.split_seed,
            burst: self.chain.run.burst,
            wait: self.wait.policy,
            core: spec.core.or_else(|| self.core_for(worker)),
            clock: self.clock.parts(),
            mode: spec.mode,
            processes: placement.process_count(),
            netns: spec.netns.clone(),
            is_bypass: self.instances[worker].is_bypass,
            files: files::there(&self.chain, &self.options.registry),
        }
    }

    pub(super) fn core_for(&self, worker: usize) -> Option<usize> {
        self.options
            .pin
            .then(|| core_for(&self.chain, &self.placement, worker))?
    }

    /// Keeps memory that a worker has made, if it is what it should be: neighbours take it at the
    /// supervisor's word.
    pub(super) fn take_memory(
        &mut self,
        worker: usize,
        region: RegionName,
        len: usize,
        fd: OwnedFd,
    ) {
        if !memory::may_make(&self.placement, worker, region) {
            let why = format!("it made {region:?}, which is not its to make");
            return self.detach(worker, &why);
        }
        if self.instances[worker].made.contains(&region) {
            return self.detach(worker, &format!("it made {region:?} twice"));
        }
        let end = match self.inspect(worker, region, len, &fd) {
            Ok(end) => end,
            Err(reason) => return self.detach(worker, &format!("{region:?}: {reason}")),
        };
        self.instances[worker].made.insert(region);
        let fd = Arc::new(fd);
        match region {
            RegionName::Records => {
                self.instances[worker].records = Some((fd, len));
                return;
            }
            RegionName::Counters => self.instances[worker].page = Some((fd.clone(), len)),
            _ => {}
        }
        self.memory.keep(region, Held { fd, len, end });
        if let Some((ring, Side::Producer)) = memory::ring_of(&self.placement, region) {
            self.memory.forget_passed(&ring);
        }
    }

    /// Checks memory that a worker has made, and maps what the supervisor itself will read.
    pub(super) fn inspect(
        &mut self,
        worker: usize,
        region: RegionName,
        len: usize,
        fd: &OwnedFd,
    ) -> Result<Option<RingEnd>, String> {
        let spec = |id: u16| self.placement.pools.iter().find(|pool| pool.id == id);
        let text = |error: RegionError| error.to_string();
        // Lies are bounded above, too: neighbours touch all of what they are given.
        let is_of = |bytes: u64| check_len(len, bytes).map_err(text);
        match region {
            RegionName::Counters => {
                let words = self.instances[worker].layout.word_count();
                is_of(words as u64 * 8)?;
                let copy = fd.try_clone().map_err(|error| error.to_string())?;
                let counters = Counters::attach(copy, len, words).map_err(text)?;
                self.instances[worker].counters = Some(counters);
            }
            RegionName::Records => {
                Region::check(fd, len, Sharing::ReadOnly).map_err(text)?;
                is_of(RecordPage::bytes() as u64)?;
            }
            RegionName::Pool(id) => {
                let spec = spec(id).ok_or("no such pool")?;
                Region::check(fd, len, pool_sharing(spec)).map_err(text)?;
                is_of(pool_geometry(spec).bytes())?;
            }
            RegionName::Ledger(id) => {
                let spec = spec(id).ok_or("no such pool")?;
                Region::check(fd, len, Sharing::ReadOnly).map_err(text)?;
                is_of(pool_geometry(spec).units().into())?;
            }
            _ => {
                let found = memory::ring_of(&self.placement, region);
                let (ring, side) = found.ok_or("no such ring")?;
                let copy = fd.try_clone().map_err(|error| error.to_string())?;
                return RingEnd::inspect(copy, side, ring.geometry)
                    .map(Some)
                    .map_err(text);
            }
        }
        Ok(None)
    }

    /// A region that a worker should have made and has not.
    pub(super) fn not_made(&self, worker: usize) -> Option<RegionName> {
        let made = &self.instances[worker].made;
        memory::all_of(&self.placement, worker)
            .into_iter()
            .find(|region| !made.contains(region))
    }

    /// Those who see an owner's new pools must have taken them before the first packet can reach
    /// them: until then the same pool number means its predecessor's memory.
    pub(super) fn show_pools(&mut self, worker: usize) {
        if self.instances[worker].epoch == 0 {
            return;
        }
        for (viewer, region) in memory::views_of(&self.placement, worker) {
            let instance = &self.instances[viewer];
            if viewer == worker || !instance.is_live() || !instance.is_introduced {
                continue;
            }
            if let Some(held) = self.memory.latest(region) {
                instance.attach(region, held, 0);
            }
            if !self.instances[worker].awaits.contains_key(&viewer) {
                self.next_request += 1;
                let id = self.next_request;
                self.instances[worker].awaits.insert(viewer, (id, now()));
            }
        }
        for (viewer, (id, _)) in &self.instances[worker].awaits {
            self.instances[*viewer].send(&ToWorker::Sync { id: *id });
        }
    }

    pub(super) fn synced(&mut self, viewer: usize, id: u64) {
        self.instances[viewer].hearing.answered(id);
        for instance in &mut self.instances {
            if instance
                .awaits
                .get(&viewer)
                .is_some_and(|(asked, _)| *asked == id)
            {
                instance.awaits.remove(&viewer);
            }
        }
        self.introduce();
    }

    /// Nobody waits for the dead.
    pub(super) fn await_no_more(&mut self, viewer: usize) {
        for instance in &mut self.instances {
            instance.awaits.remove(&viewer);
        }
        self.introduce();
    }

    /// Introduces workers whose neighbours are all known: they get their memory and may run.
    pub(super) fn introduce(&mut self) {
        for worker in 0..self.instances.len() {
            let instance = &self.instances[worker];
            if instance.state != State::Made
                || instance.is_introduced
                || !instance.awaits.is_empty()
            {
                continue;
            }
            let needs = memory::needed_by(&self.placement, worker);
            if needs
                .iter()
                .all(|region| self.memory.latest(*region).is_some())
            {
                let instance = &self.instances[worker];
                for region in needs {
                    for (start, held) in self.memory.all(region) {
                        instance.attach(region, held, start);
                    }
                }
                instance.send(&ToWorker::Start);
                self.instances[worker].is_introduced = true;
                self.tell_addresses(worker);
            }
        }
    }
}
