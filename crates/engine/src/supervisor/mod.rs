//! The supervisor: starts a chain's workers, watches over them, buries and replaces the dead.
//!
//! Control plane only: packets go from worker to worker. The supervisor keeps a descriptor of every
//! region that a worker has made, so that it can introduce neighbours to each other, read what a
//! dead worker left, and give its successor what it needs.
//!
//! - `attention`: the loop; what happens, in turn.
//! - `apply`: changes of a running chain; `renumber`: what stays keeps its number.
//! - `spawn`: threads, processes, containers; `cores`: where they run.
//! - `container`: container engines, and workers that connect from inside.
//! - `instance`: one life of a worker; `outbox`: what it is told.
//! - `hearing`: what workers say; `introduction`: what they are given.
//! - `evidence`: what a worker's own memory says against it.
//! - `reclaim`: what a dead worker held; pure.
//! - `burial`: the same, done on real memory; `respawn`: restart and its policies.
//! - `audit`: buffers that a dead worker had kept without saying so.
//! - `draining`: nothing more is taken in; `ending`: the chain's end.
//! - `clock`: what time it is.
//! - `memory`: every region, by whom and for whom it was made.
//! - `probing`: what probes of workers note, and who reads it.
//! - `status`: counters summed over lives, for people and machines; `merged`: over shards.
//! - `sockets`: introductions over TCP.
//! - `states`: memory that outlives NFs.
//! - `estate`: what is written down for a successor of this supervisor; `keeper`: the process that
//!   keeps it; `adoption`: taking it over.
//! - `watchdog`: data paths that stand still.
//! - `remains`: what a chain leaves at its end.
//! - `runtime_dir`: the folder of a running chain: lock and sockets.
//!
//! One loop ([`Supervisor::step`]) serves everything; it never waits for a worker.

pub mod adoption;
pub mod apply;
pub mod container;
pub mod instance;
pub mod keeper;
pub mod probing;
pub mod reclaim;
pub mod renumber;
pub mod runtime_dir;
pub mod spawn;

mod attention;
mod audit;
mod burial;
mod clock;
mod cores;
mod draining;
mod ending;
mod estate;
mod evidence;
mod hearing;
mod introduction;
mod memory;
mod merged;
mod outbox;
mod remains;
mod respawn;
#[cfg(test)]
mod simulation;
mod sockets;
pub mod states;
pub mod status;
pub mod watchdog;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::schedule::{SHORTEST_SLICE, ask_for_slices};
use catena_shm::tsc::Clock;

use crate::chain::registry::Registry;
use crate::chain::{Chain, Mode, NodeKind};
use crate::nf::Inputs;
use crate::placement::{Placement, place};
use crate::probe::ProbeSettings;
use crate::protocol::ToWorker;
use crate::stats::{NodeCounters, RxCounters, TxCounters};
use crate::supervisor::audit::Audits;
use crate::supervisor::burial::Reclaims;
use crate::supervisor::clock::{measured, now};
use crate::supervisor::container::{Containers, Network};
use crate::supervisor::cores::cores_used;
use crate::supervisor::draining::Draining;
use crate::supervisor::estate::Estate;
use crate::supervisor::instance::{Instance, State};
use crate::supervisor::memory::Memory;
use crate::supervisor::runtime_dir::RuntimeDir;
use crate::supervisor::sockets::{Sockets, has_sockets};
use crate::supervisor::spawn::{Body, SpawnError};
use crate::supervisor::states::States;
use crate::wait::{ChosenWait, choose};
use crate::worker::build::pool_geometry;

/// What the supervisor needs to know besides the chain.
#[derive(Clone, Debug)]
pub struct Options {
    /// Types of NFs and ports.
    pub registry: Arc<Registry>,
    /// The binary that process workers run.
    pub program: PathBuf,
    /// Where the folders of running chains are.
    pub runtime_root: PathBuf,
    /// Which core each worker gets where the chain does not say.
    pub pin: bool,
}

/// Why a chain could not be started. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be placed.
    #[error("{0}")]
    Placement(String),
    /// A worker could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A worker said why it cannot run.
    #[error("{worker}: {message}")]
    Worker {
        /// Its name, or that of the node at fault.
        worker: String,
        /// What it said.
        message: String,
    },
    /// The folder of the running chain.
    #[error(transparent)]
    RuntimeDir(#[from] runtime_dir::RuntimeDirError),
    /// Somebody asked for the end before it had begun.
    #[error("interrupted before all workers ran; nothing is left of it")]
    Interrupted,
    /// A chain cannot be taken over. It stays as it is.
    #[error("chain \"{chain}\" cannot be taken over: {why}")]
    Adoption {
        /// Its name.
        chain: String,
        /// Why, and what to do.
        why: String,
    },
    /// The chain cannot outlive this process as its file says.
    #[error("{0}")]
    Orphan(String),
    /// It took too long.
    #[error("workers {0} did not start within {1:?}")]
    Timeout(String, Duration),
}

/// Something worth telling people while a chain runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A remark of a worker.
    Notice(String),
    /// A worker died.
    Died {
        /// Its name.
        worker: String,
        /// How.
        how: String,
        /// Packets it held, now counted as lost.
        lost: u64,
    },
    /// A worker runs again.
    Restarted {
        /// Its name.
        worker: String,
        /// How long its packets waited.
        gap: Duration,
    },
    /// A worker or its memory is not what it should be; it is detached.
    Detached {
        /// Its name.
        worker: String,
        /// What it did.
        why: String,
    },
    /// A worker says that its neighbour broke the rules, and nothing of it is to be seen.
    Accused {
        /// Who says so.
        by: String,
        /// Of whom.
        worker: String,
        /// What.
        what: String,
    },
    /// Buffers that dead workers had kept are home again.
    Recovered {
        /// How many.
        buffers: u64,
    },
}

/// Counters of dead instances, summed.
#[derive(Debug, Default)]
struct Past {
    nodes: BTreeMap<usize, NodeCounters>,
    tx: BTreeMap<usize, TxCounters>,
    rx: BTreeMap<usize, RxCounters>,
    /// Packets a node held when it was killed.
    killed: BTreeMap<usize, u64>,
    restarts: BTreeMap<usize, u32>,
    deaths: u64,
    gaps: Vec<Duration>,
    /// Who was detached, and why.
    detached: VecDeque<String>,
    /// Who accused whom of what, without evidence.
    accusations: VecDeque<String>,
    /// Buffers that dead workers had kept.
    recovered: u64,
    /// Searches for such that have ended.
    searches: u64,
}

/// A process that has started and has no assignment yet.
#[derive(Debug)]
struct Spare {
    body: Body,
    socket: OwnedFd,
    token: String,
}

/// A running chain.
#[derive(Debug)]
pub struct Supervisor {
    chain: Chain,
    placement: Placement,
    options: Options,
    wait: ChosenWait,
    clock: Clock,
    runtime: RuntimeDir,
    instances: Vec<Instance>,
    memory: Memory,
    sockets: Sockets,
    states: States,
    past: Past,
    events: VecDeque<Event>,
    reclaims: Reclaims,
    audits: Audits,
    adoptions: BTreeMap<u16, Vec<(u32, u8)>>,
    respawns: BTreeMap<usize, respawn::Respawn>,
    spare: Option<Spare>,
    containers: Option<Containers>,
    questions: BTreeMap<u64, Question>,
    next_request: u64,
    started: Instant,
    /// What splitters' hashes are keyed with, drawn anew for each run: nobody outside may know
    /// which flows meet at one shard.
    split_seed: u64,
    is_draining: bool,
    draining: Draining,
    is_stopping: bool,
    /// How far a change of the chain has come.
    change: apply::Change,
    /// What probes note, and since when.
    probing: Option<(ProbeSettings, Instant)>,
    /// What a successor of this supervisor needs, if the chain may outlive it.
    estate: Option<Estate>,
}

/// A request to a node, on its way or answered.
#[derive(Debug)]
struct Question {
    /// Who was asked.
    worker: usize,
    answer: Option<Result<serde_json::Value, String>>,
}

/// Questions that are remembered; whoever asked older ones has given up.
const QUESTIONS_MAX: usize = 256;

/// Where a counters page holds the number of buffers that are out (see `WorkerCounters::words`).
const BUFFERS_OUT_WORD: usize = 6;
const START_TIMEOUT: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Starts a chain: every worker runs when this returns, or nothing does. The calling thread,
    /// which is to serve it, asks for short slices of its core.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(chain: Chain, options: Options) -> Result<Self, StartError> {
        Self::start_unless(chain, options, None)
    }

    /// As [`Supervisor::start`], given up when `interrupt` becomes readable.
    ///
    /// # Errors
    /// As [`Supervisor::start`]; [`StartError::Interrupted`].
    pub fn start_unless(
        chain: Chain,
        options: Options,
        interrupt: Option<BorrowedFd<'_>>,
    ) -> Result<Self, StartError> {
        // Recovery is a dozen short steps, each of which may wait for a core.
        ask_for_slices(Some(SHORTEST_SLICE));
        let placement = place(&chain).map_err(|error| StartError::Placement(error.sentence()))?;
        estate::check_possible(&chain, &placement).map_err(StartError::Orphan)?;
        let runtime = RuntimeDir::create(&options.runtime_root, &chain.name);
        let runtime = runtime.map_err(|error| adoption::why_busy(error, &options.runtime_root))?;
        let cores = cores_used(&chain, &placement, options.pin);
        let (clock, basis) = measured(placement.workers.len(), cores);
        let wait = choose(chain.run.wait, basis);
        let containers = Containers::for_chain(&chain, &placement, &runtime)?;
        if let Some(containers) = &containers {
            containers.remove_leftovers();
        }
        let mut supervisor = Self {
            memory: Memory::default(),
            sockets: Sockets::new(&placement),
            states: States::default(),
            clock,
            past: Past::default(),
            events: VecDeque::new(),
            reclaims: Reclaims::default(),
            audits: Audits::default(),
            adoptions: BTreeMap::new(),
            respawns: BTreeMap::new(),
            spare: None,
            questions: BTreeMap::new(),
            next_request: 0,
            started: now(),
            split_seed: runtime_dir::random_word(),
            is_draining: false,
            draining: Draining::default(),
            is_stopping: false,
            change: apply::Change::No,
            probing: None,
            estate: None,
            instances: Vec::new(),
            chain,
            placement,
            options,
            wait,
            runtime,
            containers,
        };
        let result = supervisor.start_all(interrupt);
        if result.is_err() {
            supervisor.kill_all();
        }
        result.map(|()| supervisor)
    }

    fn start_all(&mut self, interrupt: Option<BorrowedFd<'_>>) -> Result<(), StartError> {
        for worker in 0..self.placement.workers.len() {
            let instance = self.spawn(worker, 0)?;
            self.instances.push(instance);
        }
        let deadline = now() + START_TIMEOUT;
        while !self
            .instances
            .iter()
            .all(|instance| instance.state == State::Running)
        {
            let asked = self.step(Duration::from_millis(50), interrupt.as_slice());
            if asked.contains(&true) {
                return Err(StartError::Interrupted);
            }
            if let Some((worker, failed)) = self
                .instances
                .iter()
                .enumerate()
                .find(|(_, instance)| !instance.is_live())
            {
                let message = failed.failure.clone();
                return Err(StartError::Worker {
                    worker: self.placement.workers[worker].name.clone(),
                    message: message.unwrap_or_else(|| "ended while starting".to_owned()),
                });
            }
            if now() > deadline {
                let late = self.instances.iter().zip(&self.placement.workers);
                let late: Vec<_> = late
                    .filter(|(instance, _)| instance.state != State::Running)
                    .map(|(_, worker)| worker.name.clone())
                    .collect();
                return Err(StartError::Timeout(late.join(", "), START_TIMEOUT));
            }
        }
        self.started = now();
        self.prepare_spare();
        Ok(())
    }

    fn spawn(&mut self, worker: usize, epoch: u32) -> Result<Instance, SpawnError> {
        let spec = &self.placement.workers[worker];
        let token = runtime_dir::random_token();
        let (body, socket) = match spec.mode {
            Mode::Inline | Mode::Thread => {
                let (body, socket) = spawn::thread(&spec.name, &token, &self.options.registry)?;
                (body, Some(socket))
            }
            Mode::Process => {
                if epoch > 0
                    && let Some(spare) = self.spare.take()
                {
                    return Ok(Instance::new(
                        epoch,
                        spare.body,
                        Some(spare.socket),
                        spare.token,
                    ));
                }
                let program = &self.options.program;
                let how = (program.as_path(), self.chain.run.orphan_ms > 0);
                let (body, socket) = spawn::process(&spec.name, &self.chain.name, &token, how)?;
                (body, Some(socket))
            }
            Mode::Container => {
                let containers = self.containers.as_ref();
                let plan = &containers.expect("made where a worker needs it").plan;
                let network = if has_sockets(&self.placement, worker) {
                    Network::Bridge
                } else {
                    Network::None
                };
                let shared = self.shared_bytes();
                let body = plan.start(&spec.name, &self.chain, epoch, &token, (network, shared))?;
                (body, None)
            }
        };
        Ok(Instance::new(epoch, body, socket, token))
    }

    /// Bytes of all pools, any of which a worker may be the first to touch.
    fn shared_bytes(&self) -> u64 {
        let pools = self.placement.pools.iter();
        let bytes = pools.map(|pool| pool_geometry(pool).bytes());
        bytes.fold(0, u64::saturating_add)
    }

    /// Keeps a process ready that has started and waits for its assignment, so that a restart costs
    /// neither fork nor exec. Without one, a restart only takes longer.
    fn prepare_spare(&mut self) {
        let wants = self
            .placement
            .workers
            .iter()
            .any(|worker| worker.mode == Mode::Process);
        let all_run = self
            .present()
            .all(|instance| instance.state == State::Running);
        if !wants || !all_run || self.is_stopping || self.spare.is_some() {
            return;
        }
        let token = runtime_dir::random_token();
        let how = (self.options.program.as_path(), self.chain.run.orphan_ms > 0);
        if let Ok((body, socket)) = spawn::process("spare", &self.chain.name, &token, how) {
            self.spare = Some(Spare {
                body,
                socket,
                token,
            });
        }
    }

    fn notice(&mut self, notice: String) {
        let event = Event::Notice(notice);
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    /// Instances of workers that belong to the chain.
    fn present(&self) -> impl Iterator<Item = &Instance> {
        let workers = self.instances.iter().zip(&self.placement.workers);
        workers
            .filter(|(_, worker)| !worker.nodes.is_empty())
            .map(|(instance, _)| instance)
    }

    /// Buffers of a worker's pools that are out, as it last said.
    fn buffers_out(&self, worker: usize) -> u64 {
        let page = self.instances[worker].counters.as_ref();
        page.map_or(0, |page| page.load(BUFFERS_OUT_WORD))
    }

    /// Whether an NF of the chain may hold packets, or makes some of its own: it must be drained at
    /// the end.
    pub fn stores_packets(&self) -> bool {
        let may_hold = |kind: &NodeKind| {
            matches!(kind, NodeKind::Nf { plan, .. }
                if plan.allocates || plan.inputs == Inputs::Ending)
        };
        self.chain.nodes.iter().any(|node| may_hold(&node.kind))
    }

    /// Whether every worker's sources have come to their end.
    pub fn is_finished(&self) -> bool {
        self.present().all(|instance| {
            instance.is_finished && instance.state == State::Running && !instance.is_bypass
        })
    }

    /// Tells a worker something that only one which was told to run understands. Others learn it
    /// when they run.
    fn tell(&self, worker: usize, record: &ToWorker) {
        let instance = &self.instances[worker];
        if instance.is_introduced && instance.is_live() {
            instance.send(record);
        }
    }

    /// Sends a request to a node; the answer is fetched by [`Supervisor::answer`].
    pub fn request(&mut self, node: usize, request: serde_json::Value) -> u64 {
        self.next_request += 1;
        let id = self.next_request;
        let worker = self.placement.worker_of[node];
        let instance = &self.instances[worker];
        let refusal = if !(instance.is_introduced && instance.is_live()) {
            Some("it is being restarted; ask again")
        } else if !instance.outbox.has_room_for_requests() {
            Some("it has not taken what it was asked before; ask again")
        } else {
            None
        };
        if refusal.is_none() {
            self.tell(worker, &ToWorker::Control { id, node, request });
        }
        let answer = refusal.map(|later| Err(later.to_owned()));
        self.questions.insert(id, Question { worker, answer });
        if self.questions.len() > QUESTIONS_MAX {
            self.questions.pop_first();
        }
        id
    }

    /// The answer to a request, once.
    pub fn answer(&mut self, id: u64) -> Option<Result<serde_json::Value, String>> {
        self.questions.get(&id)?.answer.as_ref()?;
        self.questions.remove(&id)?.answer
    }

    /// Nobody waits for the answer to a request any more.
    pub fn withdraw(&mut self, id: u64) {
        self.questions.remove(&id);
    }

    /// Something worth telling people, if there is anything.
    pub fn next_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The chain.
    pub fn chain(&self) -> &Chain {
        &self.chain
    }

    /// How workers wait.
    pub fn wait_policy(&self) -> &ChosenWait {
        &self.wait
    }

    /// The running chain's folder.
    pub fn runtime(&self) -> &RuntimeDir {
        &self.runtime
    }
}
