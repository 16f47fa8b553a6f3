//! A node gets more shards or fewer: what shards know of a flow goes with the flow.
//!
//! Part of a change of the running chain (`switching`). Splitters turn to their new table all at
//! once, and packets that they had sent before still lie in front of the shards that lose flows.
//! So, in this order:
//!
//! 1. Whoever gets flows stands still before splitters turn: shards that are new, or, if some go,
//!    those that stay. Packets wait in front of them.
//! 2. Splitters turn. Whoever loses flows takes what had been sent to it until then: shards that go
//!    run empty anyway, those that stay are waited for.
//! 3. Whoever loses flows stands still, too. Here, each entry is copied to where it belongs, and
//!    then removed from where it was, some thousand at a time.
//! 4. All go on.
//!
//! A worker that dies while it stands still is replaced when all go on: nobody reads or writes its
//! NFs' memory meanwhile. So no flow is in two shards, and none is lost but for want of room.
//! Limits: [`PATIENCE`] for packets in front of a shard, [`MOVING_MAX`] for the moving; what is not
//! done by then starts anew, which people are told.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use catena_shm::ring::RingMemory;
use catena_shm::state::SharedRegion;
use catena_shm::sync::Ordering;

use crate::chain::model::is_gone;
use crate::chain::{Chain, Node, NodeKind};
use crate::placement::Placement;
use crate::protocol::ToWorker;
use crate::shard::moving::{MakeMover, Moved, Mover, ShardMemory};
use crate::shard::own::Choice;
use crate::supervisor::Supervisor;
use crate::supervisor::apply::PATIENCE;
use crate::supervisor::clock::now;
use crate::supervisor::instance::{Changing, State};
use crate::supervisor::memory::{RingName, rings};
use crate::supervisor::states::mover_between;
use crate::supervisor::switching::Life;

/// Longest that shards stand still while entries are moved.
const MOVING_MAX: Duration = Duration::from_secs(30);
/// Entries that are looked at before the rest of the chain is seen to.
const ENTRIES_AT_A_TIME: u32 = 4096;

/// All that a change moves between shards.
#[derive(Debug, Default)]
pub(super) struct HandOffs(Vec<HandOff>);

/// One node of the file whose shards become more or fewer.
#[derive(Debug)]
struct HandOff {
    of: String,
    make: MakeMover,
    config: serde_json::Value,
    /// How many there will be.
    count: u16,
    shards: Vec<Part>,
}

/// A shard of it, of before or of now.
#[derive(Debug)]
struct Part {
    worker: usize,
    /// Which one it is from now on.
    shard: Option<u16>,
    /// Whether it gets flows, and loses none.
    receives: bool,
    /// Its regions; none of one that is new, whose regions are kept since it was made.
    memory: Vec<Lent>,
}

/// A region.
#[derive(Debug)]
struct Lent {
    name: String,
    fd: Arc<OwnedFd>,
    len: usize,
    bytes: usize,
}

/// Up to where a ring is to be taken.
pub(super) type Mark = (RingName, u64);

impl HandOffs {
    /// Workers that stand still before splitters turn.
    pub(super) fn receivers(&self) -> Vec<usize> {
        self.workers(true)
    }

    fn workers(&self, receives: bool) -> Vec<usize> {
        let parts = self.0.iter().flat_map(|hand_off| &hand_off.shards);
        let chosen = parts.filter(|part| part.receives == receives);
        chosen.map(|part| part.worker).collect()
    }
}

impl Supervisor {
    /// What is to be moved, now that the chain is the new one: before regions of nodes that go are
    /// let go of.
    pub(super) fn hand_offs(&self, old_chain: &Chain, old: &Placement) -> HandOffs {
        let mut all = Vec::new();
        for after in self.chain.nodes.iter().filter(|node| !is_gone(node)) {
            let first = after.shard.as_ref().filter(|shard| shard.index == 0);
            let Some(shard) = first else { continue };
            let is_one = |node: &Node| !is_gone(node) && mover_between(node, after).is_some();
            let Some(before) = old_chain.nodes.iter().find(|node| is_one(node)) else {
                continue;
            };
            let (Some(make), NodeKind::Nf { config, .. }) =
                (mover_between(before, after), &after.kind)
            else {
                continue;
            };
            all.push(HandOff {
                of: shard.of.clone(),
                make,
                config: config.clone(),
                count: shard.count,
                shards: self.parts(&shard.of, old_chain, old),
            });
        }
        HandOffs(all)
    }

    /// All shards of a node, of before and of now.
    fn parts(&self, of: &str, old_chain: &Chain, old: &Placement) -> Vec<Part> {
        let index_in = |chain: &Chain, node: usize| -> Option<u16> {
            let node = chain.nodes.get(node).filter(|node| !is_gone(node))?;
            let shard = node.shard.as_ref().filter(|shard| shard.of == of)?;
            Some(shard.index)
        };
        let count_in = |chain: &Chain| {
            let nodes = 0..chain.nodes.len();
            nodes
                .filter(|node| index_in(chain, *node).is_some())
                .count()
        };
        let grows = count_in(&self.chain) > count_in(old_chain);
        let parts = (0..self.chain.nodes.len()).filter_map(|node| {
            let (was, is) = (index_in(old_chain, node), index_in(&self.chain, node));
            let placement = if is.is_some() { &self.placement } else { old };
            was.or(is)?;
            Some(Part {
                worker: placement.worker_of[node],
                shard: is,
                // The table of more shards takes nothing from one to give it to another that was
                // there, and that of fewer leaves with each what it had.
                receives: is.is_some() && !(grows && was.is_some()),
                memory: self.lent(node),
            })
        });
        parts.collect()
    }

    /// Regions that are a node's alone, those that were made for this change among them. What
    /// shards share stays where it is.
    fn lent(&self, node: usize) -> Vec<Lent> {
        let kept = self.states.kept.iter().chain(&self.states.new);
        let own = kept.filter(|((of, _), kept)| *of == node && !kept.plan.is_shared);
        let lent = own.map(|((_, name), kept)| Lent {
            name: name.clone(),
            fd: kept.fd.clone(),
            len: kept.len,
            bytes: kept.plan.bytes,
        });
        lent.collect()
    }

    /// Has workers stand still, and replaces none of them until they go on.
    pub(super) fn hold(&mut self, workers: &[usize]) {
        self.standing.extend(workers);
        // One that is about to run is waited for: it must not begin meanwhile.
        let begins = |this: &Self, worker: &usize| {
            let instance = &this.instances[*worker];
            instance.is_live() && instance.state != State::Running
        };
        let deadline = now() + PATIENCE;
        while workers.iter().any(|worker| begins(self, worker)) && now() < deadline {
            self.step(Duration::from_millis(1), &[]);
        }
        let late = workers.iter().filter(|worker| begins(self, worker));
        let late: Vec<usize> = late.copied().collect();
        self.end_those(&late, "it did not begin");
        let mut lives: Vec<Life> = Vec::new();
        for worker in workers {
            self.next_request += 1;
            let id = self.next_request;
            let instance = &mut self.instances[*worker];
            if instance.is_live() {
                instance.send(&ToWorker::Hold { is_held: true });
                instance.send(&ToWorker::Sync { id });
                instance.changing = Changing::LettingGo;
                instance.forgets = Some(id);
                lives.push((*worker, instance.epoch));
            }
        }
        self.await_each(&lives, Changing::No);
    }

    fn release(&mut self, workers: &[usize]) {
        for worker in workers {
            self.standing.remove(worker);
            self.tell(*worker, &ToWorker::Hold { is_held: false });
        }
        self.respawn_due();
    }

    /// Up to where shards that stay, and lose flows, are to take what was sent to them: splitters
    /// have just turned.
    pub(super) fn marks_in_front_of(&self, hand_offs: &HandOffs) -> Vec<Mark> {
        let losing = hand_offs.workers(false);
        self.marks(|worker| losing.contains(&worker))
    }

    fn marks(&self, is_meant: impl Fn(usize) -> bool) -> Vec<Mark> {
        let rings = rings(&self.placement).into_iter();
        let rings = rings.filter(|ring| ring.link.is_some() && is_meant(ring.to));
        let marked = rings.map(|ring| {
            let from = self.taken_of(&ring);
            (ring, from + self.memory.published_from(&ring, from).1)
        });
        marked.collect()
    }

    /// Up to where a ring was taken.
    fn taken_of(&self, ring: &RingName) -> u64 {
        let mapped = self.memory.ring(ring, None);
        let tail = mapped.map_or(0, |mapped| mapped.tail().load(Ordering::Acquire));
        tail.max(self.memory.start(ring.consumer))
    }

    /// Waits until rings are taken up to their marks; whether they are.
    fn await_marks(&mut self, marks: &[Mark]) -> bool {
        let deadline = now() + PATIENCE;
        let waits = |this: &Self| {
            let mut marks = marks.iter();
            marks.any(|(ring, mark)| this.taken_of(ring) < *mark)
        };
        while waits(self) && now() < deadline {
            self.step(Duration::from_millis(1), &[]);
        }
        !waits(self)
    }

    /// Moves what shards know, and has all go on. `behind`: what those that stay take before.
    pub(super) fn hand_off(&mut self, hand_offs: HandOffs, behind: Vec<Mark>) {
        if hand_offs.0.is_empty() {
            return;
        }
        let mut are_taken = self.await_marks(&behind);
        // Shards in front of shards, whose links lead from like to like, had split packets before:
        // what they had taken then has gone on into these rings.
        for _ in 1..hand_offs.0.len() {
            let marks = self.marks_in_front_of(&hand_offs);
            are_taken &= self.await_marks(&marks);
        }
        if !are_taken {
            self.notice(format!(
                "packets in front of shards did not leave within {PATIENCE:?}: flows of theirs \
                 may start anew"
            ));
        }
        let (losing, receiving) = (hand_offs.workers(false), hand_offs.workers(true));
        self.hold(&losing);
        for hand_off in hand_offs.0 {
            let of = hand_off.of.clone();
            match self.move_entries(hand_off) {
                Ok((moved, is_over)) => self.notice(told(&of, moved, is_over)),
                Err(why) => self.notice(format!("{of}: its flows start anew: {why}")),
            }
        }
        self.release(&losing);
        self.release(&receiving);
    }

    /// Gives what has been moved, and whether that is all.
    fn move_entries(&mut self, hand_off: HandOff) -> Result<(Moved, bool), String> {
        let choice = Choice {
            shards: hand_off.count,
            seed: self.split_seed,
            input: 0,
        };
        let shards: Result<Vec<ShardMemory>, String> =
            hand_off.shards.iter().map(Part::open).collect();
        let mut mover: Box<dyn Mover> = (hand_off.make)(&hand_off.config, choice, shards?)?;
        let deadline = now() + MOVING_MAX;
        while mover.step(ENTRIES_AT_A_TIME) {
            if now() > deadline {
                return Ok((mover.moved(), false));
            }
            self.step(Duration::ZERO, &[]);
        }
        Ok((mover.moved(), true))
    }
}

fn told(of: &str, moved: Moved, is_over: bool) -> String {
    let Moved { entries, lost } = moved;
    let lost = match lost {
        0 => String::new(),
        lost => format!(", {lost} found no room there and are gone"),
    };
    let rest = match is_over {
        true => String::new(),
        false => format!("; the rest starts anew, since {MOVING_MAX:?} were over"),
    };
    format!("{of}: {entries} flows went to other shards{lost}{rest}")
}

impl Part {
    fn open(&self) -> Result<ShardMemory, String> {
        let regions = self.memory.iter().map(|lent| {
            let fd = lent.fd.try_clone().map_err(|error| error.to_string())?;
            let region = SharedRegion::attach_beside(fd, lent.len);
            let memory = region.and_then(|region| region.words(lent.bytes));
            Ok((
                lent.name.clone(),
                memory.map_err(|error| error.to_string())?,
            ))
        });
        Ok(ShardMemory {
            shard: self.shard,
            regions: regions.collect::<Result<_, String>>()?,
        })
    }
}
