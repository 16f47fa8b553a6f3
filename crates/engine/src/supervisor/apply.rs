//! Changing a running chain: what stays, stays; no packet is lost on the way.
//!
//! 1. New workers are started and those that stay make what they need of new memory. Nothing is
//!    used yet: if anything fails, all of it is forgotten and the chain runs on as it was.
//! 2. Everybody is given the neighbours' memory, and, once all know the pools that are new,
//!    producers turn to their new links. From here on nothing enters a link that goes.
//! 3. Workers that go take nothing more in and send what they hold; links that go run empty, in the
//!    order packets take them.
//! 4. Receivers let go of empty links and turn to new ones, so packets of a flow keep their order;
//!    a worker that goes waits until the buffers it owns are home, then stops.
//!
//! A node with other settings is exchanged between two turns of its worker, links and neighbours
//! untouched; its state starts anew.

use std::time::Duration;

use crate::chain::Chain;
use crate::chain::diff::{Plan, diff};
use crate::chain::model::{is_gone, is_link_gone};
use crate::placement::{Placement, node_spec, place_onto};
use crate::protocol::{Assignment, ToWorker};
use crate::shard::name_in_file;
use crate::supervisor::Supervisor;
use crate::supervisor::change::Change;
use crate::supervisor::clock::now;
use crate::supervisor::descriptors;
use crate::supervisor::drift::Drift;
use crate::supervisor::instance::{Changing, Instance, State};
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::renumber::{compact, renumber, same_settings, splits_otherwise};

/// Why a running chain could not be changed. It runs on as it was, unless said otherwise.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The change cannot be made while the chain runs.
    #[error("{0}; stop the chain and run the new file instead")]
    NeedsRestart(String),
    /// Packets could overtake each other.
    #[error(
        "links into and out of {0} would change at once, and packets could overtake each other; \
         apply a file that changes one side first, then this one"
    )]
    TwoSteps(String),
    /// More descriptors are needed than are allowed; nothing was changed.
    #[error("{0}; nothing was changed")]
    Descriptors(String),
    /// A worker is not running just now.
    #[error("worker {0} is being restarted; try again in a moment")]
    NotSettled(String),
    /// A worker has not answered the last part of the change before, or of what took it back.
    #[error("worker {0} is still at the change before; try again in a moment")]
    StillChanging(String),
    /// A control request that changes a node has not been answered.
    #[error("a control request is changing {0}; try again in a moment")]
    Asked(String),
    /// Something new could not be started; nothing was changed.
    #[error("{0}; nothing was changed")]
    Failed(String),
    /// Packets did not leave the links that go in time. The new links are in use, the old ones were
    /// cut off.
    #[error("links that go did not run empty within {0:?}; packets in them are lost and counted")]
    NotDrained(Duration),
}

/// How long new workers may take to start, and old links to run empty.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

impl Supervisor {
    /// Changes the running chain to `file`, which has the same name, and what control requests have
    /// changed stays as far as it fits. Gives what was done. `origin` is what `file` comes from, as
    /// of [`Supervisor::keep`].
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn apply(&mut self, file: &Chain, origin: &str) -> Result<Plan, ApplyError> {
        self.become_as(file, origin, false)
    }

    /// As [`Supervisor::apply`]; if it `discards`, nothing stays of what control requests have
    /// changed: every node is as the file says.
    ///
    /// # Errors
    /// [`ApplyError`].
    pub fn become_as(
        &mut self,
        file: &Chain,
        origin: &str,
        discards: bool,
    ) -> Result<Plan, ApplyError> {
        let (new, drift, _) = self.amended(file, discards);
        let plan = diff(&compact(&self.chain), &new);
        if !plan.is_empty() {
            self.check_settled()?;
            // While links come and go it is not known where buffers can be.
            self.end_audits();
            self.change = Change::Preparing(Vec::new());
            let result = self.change(&new, origin, drift);
            self.change = Change::No;
            result?;
        } else if !self.drift.kept.is_empty() {
            // The file may say now what only requests had said.
            self.check_asked()?;
            self.comes_from(origin);
            self.drift = drift;
            self.write_drift();
        }
        Ok(plan)
    }

    fn change(&mut self, new: &Chain, origin: &str, drift: Drift) -> Result<(), ApplyError> {
        let chain = renumber(&self.chain, new);
        let placement = place_onto(&chain, Some(&self.placement));
        let placement = placement.map_err(|error| ApplyError::Failed(error.sentence()))?;
        check_possible(&self.chain, &self.placement, &chain, &placement)?;
        check_descriptors((&self.chain, &self.placement), &chain, &placement)?;
        let old = (
            std::mem::replace(&mut self.chain, chain),
            std::mem::replace(&mut self.placement, placement),
        );
        let prepared = self.prepare(&old.0, &old.1);
        // From here on deaths are dealt with as they come, in the chain that is then the chain.
        let dead = match std::mem::replace(&mut self.change, Change::No) {
            Change::Preparing(dead) => dead,
            Change::Admitting(_) | Change::Switching(_) | Change::Completing(_) | Change::No => {
                Vec::new()
            }
        };
        if let Err(error) = prepared {
            let stays = old.1.workers.len();
            self.forget(old);
            dead.into_iter()
                .filter(|worker| *worker < stays)
                .for_each(|worker| self.bury(worker));
            return Err(error);
        }
        let nodes = old.0.nodes.iter().zip(&self.chain.nodes).enumerate();
        let left = nodes.filter(|(_, (was, now))| !is_gone(was) && is_gone(now));
        let left = left.map(|(node, (was, _))| (node, was.name.clone()));
        self.past.left.extend(left);
        self.came_from(origin);
        self.drift = drift;
        self.write_drift();
        self.switch(&old.0, &old.1)
    }

    /// What a node was asked to change would not be in the settings of its successor.
    fn check_asked(&self) -> Result<(), ApplyError> {
        let under_way = self.drift.under_way();
        under_way.map_or(Ok(()), |node| Err(ApplyError::Asked(node.to_owned())))
    }

    pub(super) fn check_settled(&self) -> Result<(), ApplyError> {
        self.check_asked()?;
        let workers = self.instances.iter().zip(&self.placement.workers);
        let mut unsettled = workers.filter(|(instance, worker)| {
            let runs = instance.state == State::Running && !instance.is_bypass;
            !worker.nodes.is_empty() && (!runs || instance.changing != Changing::No)
        });
        let Some((instance, worker)) = unsettled.next() else {
            return Ok(());
        };
        let why = match instance.state {
            State::Running if !instance.is_bypass => ApplyError::StillChanging,
            _ => ApplyError::NotSettled,
        };
        Err(why(worker.name.clone()))
    }

    /// Step 1.
    fn prepare(&mut self, old_chain: &Chain, old: &Placement) -> Result<(), ApplyError> {
        for worker in 0..old.workers.len() {
            let delta = self.delta(worker, old_chain, old);
            // One that goes makes lanes, by which what is on its way comes home.
            if is_worth_sending(&delta) {
                self.instances[worker].changing = Changing::Making;
                // What it makes now is new, whatever it is called.
                self.instances[worker].made.clear();
                let nodes: Vec<usize> = delta.nodes.iter().map(|node| node.index).collect();
                let given = self.give_states(worker, &nodes, true);
                given.map_err(ApplyError::Failed)?;
                self.instances[worker].send(&ToWorker::Change(Box::new(delta)));
            }
        }
        let planned = self.plan_containers();
        planned.map_err(|error| ApplyError::Failed(error.to_string()))?;
        for worker in old.workers.len()..self.placement.workers.len() {
            match self.spawn(worker, 0) {
                Ok(instance) => self.instances.push(instance),
                Err(error) => return Err(ApplyError::Failed(error.to_string())),
            }
        }
        let deadline = now() + PATIENCE;
        loop {
            self.step(Duration::from_millis(5), &[]);
            let mut waiting: Vec<&str> = Vec::new();
            for (worker, instance) in self.instances.iter().enumerate() {
                let is_new = worker >= old.workers.len();
                if instance.changing == Changing::Failed || self.change.has_lost(worker) {
                    let name = &self.placement.workers[worker].name;
                    let why = instance.failure.clone();
                    let why = why.unwrap_or_else(|| "ended meanwhile".to_owned());
                    return Err(ApplyError::Failed(format!("{name}: {why}")));
                }
                let is_made = !is_new || !matches!(instance.state, State::Starting | State::Making);
                if instance.changing == Changing::Making || !is_made {
                    waiting.push(&self.placement.workers[worker].name);
                }
            }
            if waiting.is_empty() {
                return Ok(());
            }
            if now() > deadline {
                let names = waiting.join(", ");
                let why = format!("no answer of {names} within {PATIENCE:?}");
                return Err(ApplyError::Failed(why));
            }
        }
    }

    /// What a worker that stays has to make.
    fn delta(&self, worker: usize, old_chain: &Chain, old: &Placement) -> Assignment {
        let full = self.assignment(worker, Vec::new());
        let had_pool = |id: u16| {
            let saw = |pool: &&crate::protocol::PoolSpec| pool.id == id;
            let lanes = old.lanes.iter().filter(|lane| lane.from == worker);
            old.pools
                .iter()
                .find(saw)
                .is_some_and(|pool| pool.owner == worker)
                || lanes.into_iter().any(|lane| lane.pools.contains(&id))
        };
        let changed =
            |node: &usize| !same_settings(&old_chain.nodes[*node], &self.chain.nodes[*node]);
        let nodes = self.placement.workers[worker]
            .nodes
            .iter()
            .filter(|node| changed(node));
        Assignment {
            nodes: nodes
                .map(|node| node_spec(&self.chain, &self.placement.worker_of, *node))
                .collect(),
            rings: full
                .rings
                .iter()
                .filter(|ring| !old.rings.iter().any(|other| other.link == ring.link))
                .cloned()
                .collect(),
            lanes: full
                .lanes
                .iter()
                .filter(|lane| {
                    !old.lanes
                        .iter()
                        .any(|other| (other.from, other.to) == (lane.from, lane.to))
                })
                .cloned()
                .collect(),
            pools: full
                .pools
                .iter()
                .filter(|pool| !had_pool(pool.id))
                .cloned()
                .collect(),
            edges: Vec::new(),
            starts: Vec::new(),
            ..full
        }
    }

    /// Nothing of what was prepared is used.
    fn forget(&mut self, old: (Chain, Placement)) {
        self.forget_new_states();
        let count = old.1.workers.len();
        self.respawns.retain(|worker, _| *worker < count);
        for instance in &mut self.instances {
            instance.awaits.retain(|viewer, _| *viewer < count);
        }
        for mut instance in self.instances.split_off(count) {
            instance.socket = None;
            if let Some(mut body) = instance.body.take() {
                body.kill();
                self.part_with(body);
            }
        }
        for instance in &mut self.instances {
            if instance.changing != Changing::No {
                // One that still makes it has said some of that already.
                instance.changing = match instance.changing {
                    Changing::Making | Changing::Forgetting => Changing::Forgetting,
                    _ => Changing::No,
                };
                instance.failure = None;
                instance.send(&ToWorker::Forget);
            }
        }
        for ring in rings(&self.placement) {
            if !rings(&old.1)
                .iter()
                .any(|other| other.producer == ring.producer)
            {
                self.memory.forget(ring.producer);
                self.memory.forget(ring.consumer);
            }
        }
        (self.chain, self.placement) = old;
    }

    /// The last of a change: what passed by links that go is accounted for, their memory forgotten.
    pub(super) fn close(
        &mut self,
        old_chain: &Chain,
        going: &[RingName],
        staying: &[(usize, u32)],
    ) {
        for ring in going {
            self.close_accounts(ring, old_chain, staying);
        }
        self.settle_leaving_lanes(|this, owner| {
            let life = staying.iter().find(|(worker, _)| *worker == owner);
            life.is_some_and(|life| this.is_same_life(*life))
        });
        let change = std::mem::take(&mut self.change);
        self.keep_counts_of_leavers(&change);
        for ring in change.leaving() {
            self.memory.forget(ring.producer);
            self.memory.forget(ring.consumer);
        }
    }

    /// The instance of a worker that was there when the change began.
    pub(super) fn same_life(&mut self, (worker, epoch): (usize, u32)) -> Option<&mut Instance> {
        let is_same = self.is_same_life((worker, epoch));
        is_same.then(|| &mut self.instances[worker])
    }

    pub(super) fn is_same_life(&self, (worker, epoch): (usize, u32)) -> bool {
        let instance = &self.instances[worker];
        instance.epoch == epoch && instance.is_live()
    }
}

fn is_worth_sending(delta: &Assignment) -> bool {
    !(delta.nodes.is_empty()
        && delta.rings.is_empty()
        && delta.lanes.is_empty()
        && delta.pools.is_empty())
}

/// Whether there are descriptors for what a running chain is to become.
pub(super) fn check_descriptors(
    running: (&Chain, &Placement),
    chain: &Chain,
    new: &Placement,
) -> Result<(), ApplyError> {
    let short = descriptors::shortage(chain, new, Some(running));
    short.map_or(Ok(()), |why| Err(ApplyError::Descriptors(why)))
}

/// What a running chain cannot become.
pub(super) fn check_possible(
    old_chain: &Chain,
    old: &Placement,
    chain: &Chain,
    new: &Placement,
) -> Result<(), ApplyError> {
    let refuse = |why: String| Err(ApplyError::NeedsRestart(why));
    // Workers that stay were made with these: their memory, their scratch space, their place.
    let (run, new_run) = (&old_chain.run, &chain.run);
    for (changes, key) in [
        (run.buffers != new_run.buffers, "buffers"),
        (run.burst != new_run.burst, "burst"),
        (run.cores != new_run.cores, "cores"),
        (run.wait != new_run.wait, "wait"),
        (run.orphan_ms != new_run.orphan_ms, "orphan"),
    ] {
        if changes {
            return refuse(format!("run.{key} would change for workers that run"));
        }
    }
    for ring in old.rings.iter().chain(&new.rings) {
        let has = |placement: &Placement| placement.rings.contains(ring);
        if ring.tcp.is_some() && !(has(old) && has(new)) {
            let link = [chain, old_chain].into_iter().find_map(|chain| {
                let link = chain.links.get(ring.link)?;
                (!is_link_gone(link)).then_some(&link.name)
            });
            let link = link.map_or("a link", String::as_str);
            return refuse(format!(
                "{link} is a TCP link, and would come, go or change"
            ));
        }
    }
    for (before, after) in old.workers.iter().zip(&new.workers) {
        if !after.nodes.is_empty() && before.nodes != after.nodes {
            return refuse(format!("worker {} would run other nodes", before.name));
        }
    }
    for (index, link) in old_chain.links.iter().enumerate() {
        let was_ring = old.rings.iter().any(|ring| ring.link == index);
        let is_ring = new.rings.iter().any(|ring| ring.link == index);
        let remains = chain.links[index].from != usize::MAX;
        if !was_ring && !link.name.is_empty() && link.from != usize::MAX && !remains {
            return refuse(format!("link {} lies inside a worker", link.name));
        }
        if remains && was_ring != is_ring {
            return refuse(format!(
                "link {} would move into or out of a worker",
                link.name
            ));
        }
    }
    for (index, link) in chain.links.iter().enumerate().skip(old_chain.links.len()) {
        if !new.rings.iter().any(|ring| ring.link == index) {
            return refuse(format!(
                "link {} would lie inside a worker that runs",
                link.name
            ));
        }
    }
    for pool in &old.pools {
        let now = new.pools.iter().find(|other| other.id == pool.id);
        if now.is_some_and(|other| other.writable != pool.writable) {
            let owner = &old.workers[pool.owner].name;
            return refuse(format!(
                "pools of {owner} would have to be sealed or unsealed"
            ));
        }
    }
    for node in 0..old_chain.nodes.len() {
        let links = |chain: &Chain, into: bool| -> Vec<usize> {
            let here = |link: &crate::chain::Link| if into { link.to } else { link.from } == node;
            let all = chain.links.iter().enumerate();
            all.filter(|(_, link)| here(link))
                .map(|(index, _)| index)
                .collect()
        };
        let changes = |into| links(old_chain, into) != links(chain, into);
        let stays = !is_gone(&chain.nodes[node]) && !is_gone(&old_chain.nodes[node]);
        if stays && !old_chain.nodes[node].is_port() && changes(true) && changes(false) {
            // What it still takes from its old inputs would leave by its new outputs.
            let name = &chain.nodes[node].name;
            return Err(ApplyError::TwoSteps(name.clone()));
        }
    }
    for (before, after) in old_chain.nodes.iter().zip(&chain.nodes) {
        if !is_gone(before) && !is_gone(after) && splits_otherwise(before, after) {
            let name = name_in_file(&after.name);
            return refuse(format!(
                "packets would be told apart by another key among the shards of {name}, and what \
                 one knows of a flow another would be asked for"
            ));
        }
        if before.is_port() && !is_gone(before) && is_gone(after) {
            let stays = chain.nodes.iter().any(|node| node.name == before.name);
            if stays {
                return refuse(format!("port {} would move to another worker", before.name));
            }
        }
    }
    Ok(())
}
