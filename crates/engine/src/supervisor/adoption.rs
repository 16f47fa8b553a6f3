//! Taking over a chain whose supervisor has died, with all that it had.
//!
//! The keeper gives the estate to one caller ([`keeper`](super::keeper)); the book in it says how
//! far everything had come (`estate`), and `inheritance` makes of it what it was. Nothing is taken
//! from workers: what they say is heard again only when each has answered `Resume`.
//!
//! | at the supervisor's death | what becomes of it |
//! |---|---|
//! | a worker runs | it goes on; it is told what it has not heard |
//! | a worker has died, then or since | it is buried and replaced, as always |
//! | a worker was starting or stopping | it is killed, buried and replaced |
//! | a change was prepared | it is forgotten |
//! | a change was being made | all workers are killed; their successors are of the new chain |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::time::Duration;

use catena_shm::schedule::{SHORTEST_SLICE, ask_for_slices};
use catena_shm::tsc::Clock;

use crate::chain::Chain;
use crate::chain::diff::diff;
use crate::placement::Placement;
use crate::protocol::ToWorker;
use crate::supervisor::audits::Audits;
use crate::supervisor::book::Stage;
use crate::supervisor::change::{Change, Leaving};
use crate::supervisor::clock::now;
use crate::supervisor::course::Course;
use crate::supervisor::drift::Drift;
use crate::supervisor::estate::{Estate, Origin};
use crate::supervisor::inheritance::{self, Inheritance, ask};
use crate::supervisor::instance::{Changing, State};
use crate::supervisor::keeper::{Call, Reply};
use crate::supervisor::memory::rings;
use crate::supervisor::past::Past;
use crate::supervisor::pulse::Pulse;
use crate::supervisor::reclaims::Reclaims;
use crate::supervisor::renumber::compact;
use crate::supervisor::restarts::read_back;
use crate::supervisor::rounds::Draining;
use crate::supervisor::runtime_dir::{RuntimeDir, RuntimeDirError};
use crate::supervisor::tcp_links::Sockets;
use crate::supervisor::{Options, StartError, Supervisor};

/// How long all workers together may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// A chain without a supervisor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Orphan {
    /// There is none: either nobody keeps anything, or the chain is supervised.
    No,
    /// Its workers go on for so long.
    Left(Duration),
}

/// Whether chain `name` runs without a supervisor.
pub fn orphan(root: &Path, name: &str) -> Orphan {
    match ask(root, name, &Call::Who) {
        Ok(Some(Reply::Orphaned { left_ms })) => Orphan::Left(Duration::from_millis(left_ms)),
        _ => Orphan::No,
    }
}

/// Why a chain cannot be started: one that runs without a supervisor can be taken over.
pub(super) fn why_busy(error: RuntimeDirError, root: &Path) -> StartError {
    if let RuntimeDirError::Busy { name, .. } = &error
        && let Orphan::Left(left) = orphan(root, name)
    {
        return StartError::Orphan(format!(
            "chain \"{name}\" runs without a supervisor, for another {} s; take it over with \
             `catena run FILE --adopt`, or end it with `catena stop {name}`",
            left.as_secs()
        ));
    }
    error.into()
}

/// Kills the workers of chain `name`, if it runs without a supervisor; says whether it did.
pub fn kill_orphan(root: &Path, name: &str) -> bool {
    matches!(ask(root, name, &Call::Kill), Ok(Some(Reply::Killed)))
}

impl Supervisor {
    /// Takes over the running workers of a chain whose supervisor has died; none if there is
    /// nothing to take over. `read` gives the chain that an origin (see [`Supervisor::keep`])
    /// stands for; `wanted` is what the caller believes to run.
    ///
    /// # Errors
    /// [`StartError::Adoption`] if somebody supervises it, if it was started by another version of
    /// Catena, or is another chain than `wanted`: it stays as it is.
    pub fn adopt(
        options: Options,
        wanted: &Chain,
        read: &dyn Fn(&str) -> Result<Chain, String>,
    ) -> Result<Option<Self>, StartError> {
        let failed = |why: String| StartError::Adoption {
            chain: wanted.name.clone(),
            why,
        };
        let inherited = Inheritance::ask_for(&options.runtime_root, &wanted.name);
        let Some(inherited) = inherited.map_err(failed)? else {
            return Ok(None);
        };
        let origins = inherited.origins().map_err(failed)?;
        let course = Course::replay(&origins, read).map_err(failed)?;
        let difference = diff(&compact(&course.now.0), wanted);
        if !difference.is_empty() {
            return Err(failed(format!(
                "it is not what the file says, which would be these changes:\n{difference}take it \
                 over with the file that it runs from, then `catena apply` the other"
            )));
        }
        ask_for_slices(Some(SHORTEST_SLICE));
        let origins = origins.into_iter().map(|(origin, _)| origin).collect();
        let Course { before, now } = course;
        let old = before.as_ref().map(|(_, placement)| placement);
        let restored = Self::restored(options, inherited, origins, (now, old));
        let mut supervisor = restored.map_err(failed)?;
        supervisor.resume();
        if let Some((old_chain, old)) = &before {
            supervisor.complete_change(old_chain, old);
        }
        supervisor.prepare_spare();
        Ok(Some(supervisor))
    }

    /// The supervisor of before, from its book.
    fn restored(
        options: Options,
        inherited: Inheritance,
        origins: Vec<Origin>,
        ((mut chain, placement), old): ((Chain, Placement), Option<&Placement>),
    ) -> Result<Self, String> {
        let book = &inherited.book;
        let change = switching(book.stage, old, &placement);
        let count = placement.workers.len();
        let mut instances = Vec::new();
        for (worker, life) in book.lives.iter().enumerate() {
            let instance = inheritance::instance(&inherited, life)?;
            if worker < count {
                instances.push(instance);
            } else if let Some(mut body) = instance.body {
                // New with a change that is forgotten.
                body.kill();
            }
        }
        if instances.len() < count {
            return Err("its estate lacks workers".to_owned());
        }
        let serial = (book.serial, book.started_ns);
        let keeper = inherited
            .keeper
            .try_clone()
            .map_err(|error| error.to_string())?;
        let estate = Estate::new(keeper, None, serial, &inherited.parcels);
        let mut estate = estate.map_err(|error| error.to_string())?;
        estate.origins = origins;
        let drift = inherited.origin(book.drift.as_ref())?;
        let drift_now = Drift::read(drift.as_ref(), &mut chain)?;
        estate.drift = drift;
        let memory = inheritance::memory(&inherited, &placement, old)?;
        let placement = inheritance::known(placement, &memory);
        let states = inheritance::states(&inherited, &chain)?;
        // Last: from here on nothing fails, and what fails would remove the chain's folder.
        let lock = inherited.own("lock")?;
        let runtime = RuntimeDir::adopt(&options.runtime_root, &chain.name, lock);
        let runtime = runtime.map_err(|error| error.to_string())?;
        Ok(Self {
            memory,
            sockets: Sockets::written(book.secrets.clone(), book.addresses.clone()),
            states,
            clock: Clock::from_parts(book.clock),
            past: Past::of(&book.past),
            events: VecDeque::new(),
            reclaims: Reclaims {
                waiting: book.waiting.clone(),
                under_way: book.under_way.clone(),
                last: book.last_reclaim,
            },
            audits: Audits::written(book),
            adoptions: book.adoptions.clone(),
            respawns: read_back(&book.respawns),
            spare: None,
            questions: BTreeMap::new(),
            next_request: book.next_request,
            drift: drift_now,
            started: inheritance::started(book.started_ns),
            split_seed: book.split_seed,
            drain_round: book.drain_round,
            draining: Draining::default(),
            is_stopping: false,
            change,
            standing: BTreeSet::new(),
            passed: None,
            pulse: Pulse::default(),
            probing: book.probing.map(|settings| (settings, now())),
            estate: Some(estate),
            instances,
            chain,
            placement,
            options: Options {
                pin: book.pin,
                ..options
            },
            wait: book.wait,
            containers: inheritance::containers(book, &runtime),
            runtime,
        })
    }

    /// Has every worker that runs say how far it came, and ends all others that live.
    fn resume(&mut self) {
        let is_changing = !matches!(self.change, Change::No);
        for worker in 0..self.instances.len() {
            let instance = &self.instances[worker];
            let runs = instance.state == State::Running && !is_changing;
            if instance.is_live() && !runs {
                self.disconnected(worker);
            }
        }
        let lives: Vec<(usize, u32)> = self
            .instances
            .iter()
            .enumerate()
            .filter(|(_, instance)| instance.is_live())
            .map(|(worker, instance)| (worker, instance.epoch))
            .collect();
        let deadline = now() + PATIENCE;
        let is_awaited = |supervisor: &Self, (worker, epoch): (usize, u32)| {
            let instance = &supervisor.instances[worker];
            let is_same = instance.epoch == epoch && instance.is_live();
            is_same && (instance.resuming.is_some() || instance.socket.is_none())
        };
        // One that does not answer is ended for it in time (`lose_patience`).
        while lives.iter().any(|life| is_awaited(self, *life)) && now() < deadline {
            self.step(Duration::from_millis(20), &[]);
        }
        self.end_audits();
    }

    /// Completes a change that was being made. All workers have ended, and those that follow are
    /// made for the chain as it is now.
    fn complete_change(&mut self, old_chain: &Chain, old: &Placement) {
        if !matches!(self.change, Change::Completing(..)) {
            return;
        }
        let going = self.going(old_chain, &rings(old));
        // What lies in links that go is given up first: it comes home with the rest.
        for ring in &going {
            self.close_accounts(ring, old_chain, &[]);
        }
        self.close(old_chain, &[], &[]);
    }

    /// A worker has answered `Resume`.
    pub(super) fn resumed(&mut self, worker: usize, heard: u64, said: (bool, Option<u64>)) {
        let instance = &mut self.instances[worker];
        instance.resuming = None;
        if !instance.outbox.resumed(heard) {
            return self.detach(worker, "it has heard more, or less, than it was told");
        }
        instance.is_finished = said.0;
        instance.drained = said.1.unwrap_or(0);
        if instance.changing == Changing::No {
            return;
        }
        // What it still says of the change counts no more, until it has been told so.
        self.next_request += 1;
        let id = self.next_request;
        let instance = &mut self.instances[worker];
        instance.changing = Changing::Forgetting;
        instance.forgets = Some(id);
        instance.send(&ToWorker::Forget);
        instance.send(&ToWorker::Sync { id });
    }
}

/// The change that is to be completed: one that had begun to be made.
fn switching(stage: Stage, before: Option<&Placement>, now: &Placement) -> Change {
    let (Stage::Switching, Some(old)) = (stage, before) else {
        return Change::No;
    };
    Change::Completing(Leaving::of(old, now))
}
