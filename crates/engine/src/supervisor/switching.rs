//! A change of the running chain from its second step on: the chain is the new one, and those that
//! stay turn to it. `apply` has the first step, and says what the others are for.
//!
//! Each of these is asked of all that stay, and begun when all have done the one before it:
//!
//! | record | what it does | what could happen otherwise |
//! |---|---|---|
//! | `Admit` | takes new pools and lanes in | packets of a pool that a neighbour does not know |
//! | `Rewire` | turns to new outputs, and exchanges nodes | packets enter a link that runs empty |
//! | `Inputs` | turns from a link that is empty by now (`emptying`) | packets overtake others |
//! | `Inputs`, `Sync` | lets go of all that go | what is left in them is given up while read |
//!
//! Whoever does not answer in time is ended: it stands still, and its successor is made for the new
//! chain. A thread cannot be ended.

use std::time::Duration;

use crate::chain::Chain;
use crate::placement::Placement;
use crate::protocol::{Assignment, ToWorker};
use crate::supervisor::Supervisor;
use crate::supervisor::apply::{ApplyError, PATIENCE};
use crate::supervisor::body::Body;
use crate::supervisor::change::{Change, Leaving};
use crate::supervisor::clock::now;
use crate::supervisor::instance::{Changing, State};
use crate::supervisor::memory::{RingName, needed_by, rings};

/// A worker that was there when the change began, and which life of it.
pub(super) type Life = (usize, u32);

impl Supervisor {
    /// Steps 2 to 4. A worker that dies from here on is replaced by one that is made for the chain
    /// as it is to be, and is told nothing of the change.
    pub(super) fn switch(&mut self, old_chain: &Chain, old: &Placement) -> Result<(), ApplyError> {
        let stays = |worker: usize| !self.placement.workers[worker].nodes.is_empty();
        let staying = (0..old.workers.len()).filter(|worker| stays(*worker));
        let staying: Vec<Life> = staying
            .map(|worker| (worker, self.instances[worker].epoch))
            .collect();
        self.change = Change::Admitting(Leaving::of(old, &self.placement));
        let hand_offs = self.hand_offs(old_chain, old);
        self.adopt_new_states();
        let leaving = self.leaving(old);
        // Those that go take in by which lanes their last buffers come home.
        let owed = |(worker, _): &&Life| self.placement.lanes.iter().any(|lane| lane.to == *worker);
        let owed = leaving.iter().filter(owed).copied();
        let admitting: Vec<Life> = staying.iter().copied().chain(owed).collect();
        for (worker, _) in &admitting {
            let had = needed_by(old, *worker);
            for region in needed_by(&self.placement, *worker) {
                if let (false, Some(held)) = (had.contains(&region), self.memory.latest(region)) {
                    self.instances[*worker].attach(region, held, 0);
                }
            }
        }
        for life in &admitting {
            self.have_admit(*life);
        }
        self.introduce();
        self.await_each(&admitting, Changing::Admitted);
        self.change.has_admitted();
        self.await_new(old.workers.len());
        self.hold(&hand_offs.receivers());
        self.keep_names_of_drops(old_chain);
        for life in &staying {
            let rewiring = self.rewiring(life.0);
            if let Some(instance) = self.same_life(*life) {
                instance.changing = Changing::Rewiring;
                instance.send(&ToWorker::Rewire(Box::new(rewiring)));
            }
        }
        self.await_each(&staying, Changing::Rewired);
        self.forget_own_counters(old_chain);
        let behind = self.marks_in_front_of(&hand_offs);
        let going: Vec<RingName> = self.going(old_chain, &rings(old));
        let drained = self.run_empty(old_chain, (&staying, &leaving), &going);
        self.hand_off(hand_offs, behind);
        for life in &staying {
            self.have_let_go(*life);
        }
        self.await_each(&staying, Changing::No);
        self.retire(&leaving, (old_chain, &going, &staying));
        self.close(old_chain, &going, &staying);
        if drained {
            Ok(())
        } else {
            Err(ApplyError::NotDrained(PATIENCE))
        }
    }

    /// Tells a worker to take new pools and lanes in.
    fn have_admit(&mut self, life: Life) {
        let worker = life.0;
        // Letting go of a link needs no memory, but the same steps.
        let empty = Assignment {
            nodes: Vec::new(),
            edges: Vec::new(),
            rings: Vec::new(),
            lanes: Vec::new(),
            pools: Vec::new(),
            starts: Vec::new(),
            ..self.assignment(worker, Vec::new())
        };
        let admission = self.admission(worker);
        let Some(instance) = self.same_life(life) else {
            return;
        };
        if instance.changing == Changing::No {
            instance.send(&ToWorker::Change(Box::new(empty)));
        }
        instance.changing = Changing::Admitting;
        instance.send(&ToWorker::Admit(Box::new(admission)));
    }

    /// Tells a worker that stays which links reach it: it takes nothing more from others.
    fn have_let_go(&mut self, life: Life) {
        let inputs = self.inputs(life.0, |_| true, &[]);
        self.next_request += 1;
        let id = self.next_request;
        if let Some(instance) = self.same_life(life) {
            instance.send(&ToWorker::Inputs(inputs));
            instance.send(&ToWorker::Sync { id });
            instance.changing = Changing::LettingGo;
            instance.forgets = Some(id);
        }
    }

    /// Waits until those that live on have come so far, and ends who does not.
    pub(super) fn await_each(&mut self, lives: &[Life], wanted: Changing) {
        let is_late = |this: &Self, life: &Life| {
            this.is_same_life(*life) && this.instances[life.0].changing != wanted
        };
        let deadline = now() + PATIENCE;
        while lives.iter().any(|life| is_late(self, life)) && now() < deadline {
            self.step(Duration::from_millis(1), &[]);
        }
        let late = lives.iter().filter(|life| is_late(self, life));
        let late: Vec<usize> = late.map(|(worker, _)| *worker).collect();
        self.end_those(&late, "it did not follow a change of the chain");
    }

    /// Ends workers that live, if they can be ended, and waits until they have.
    pub(super) fn end_those(&mut self, workers: &[usize], why: &str) {
        let mut ended = Vec::new();
        for worker in workers {
            let instance = &self.instances[*worker];
            if instance.is_live() && !matches!(instance.body, Some(Body::Thread(..)) | None) {
                ended.push((*worker, instance.epoch));
                self.detach(*worker, &format!("{why} within {PATIENCE:?}"));
            }
        }
        let deadline = now() + PATIENCE;
        while ended.iter().any(|life| self.is_same_life(*life)) && now() < deadline {
            self.step(Duration::from_millis(1), &[]);
        }
    }

    /// Waits until new workers, those from `first` on, run, and ends who does not: a successor is
    /// watched.
    fn await_new(&mut self, first: usize) {
        let deadline = now() + PATIENCE;
        let runs = |this: &Self, worker: usize| this.instances[worker].state == State::Running;
        while (first..self.instances.len()).any(|worker| !runs(self, worker)) && now() < deadline {
            self.step(Duration::from_millis(5), &[]);
        }
        // A successor of one that has died meanwhile has begun later, and is watched.
        let is_first = |this: &Self, worker: usize| this.instances[worker].epoch == 0;
        let late = (first..self.instances.len())
            .filter(|worker| !runs(self, *worker) && is_first(self, *worker));
        let late: Vec<usize> = late.collect();
        self.end_those(&late, "it did not begin");
    }

    /// Workers that go, as they are now.
    fn leaving(&self, old: &Placement) -> Vec<Life> {
        let workers = old.workers.iter().zip(&self.placement.workers).enumerate();
        let leaving =
            workers.filter(|(_, (old, now))| !old.nodes.is_empty() && now.nodes.is_empty());
        let lives = leaving.map(|(worker, _)| (worker, self.instances[worker].epoch));
        lives.collect()
    }

    /// Step 4, for workers that go: their buffers come home, then they stop. What lies in a link
    /// whose receiver has died (`links`) nobody else sends home.
    fn retire(&mut self, leaving: &[Life], links: (&Chain, &[RingName], &[Life])) {
        let going: Vec<usize> = leaving.iter().map(|(worker, _)| *worker).collect();
        let deadline = now() + PATIENCE;
        // One that has died waits for none: its page says for ever what it last stored.
        let waits = |supervisor: &Self, worker: usize| {
            supervisor.instances[worker].is_live() && supervisor.buffers_out(worker) > 0
        };
        while going.iter().any(|worker| waits(self, *worker)) && now() < deadline {
            self.give_up_unread(links);
            self.step(Duration::from_millis(5), &[]);
        }
        for worker in &going {
            self.instances[*worker].is_retiring = true;
            self.instances[*worker].send(&ToWorker::Stop);
        }
        let deadline = now() + PATIENCE;
        while going.iter().any(|worker| self.instances[*worker].is_live()) && now() < deadline {
            self.step(Duration::from_millis(5), &[]);
        }
        // What one that does not end still has is settled while its links are known.
        self.end_those(&going, "it did not leave");
    }
}
