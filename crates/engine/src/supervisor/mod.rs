//! The supervisor: starts a chain's workers, watches over them, buries and replaces the dead.
//!
//! Control plane only: packets go from worker to worker. The supervisor keeps a descriptor of every
//! region that a worker has made, so that it can introduce neighbours to each other, read what a
//! dead worker left, and give its successor what it needs.
//!
//! - `apply`: changes of a running chain; `renumber`: what stays keeps its number.
//! - `spawn`: threads, processes, containers.
//! - `container`: container engines, and workers that connect from inside.
//! - `instance`: one life of a worker.
//! - `reclaim`: what a dead worker held; pure.
//! - `burial`: the same, done on real memory; restart and its policies.
//! - `memory`: every region, by whom and for whom it was made.
//! - `status`: counters summed over lives, for people and machines.
//! - `runtime_dir`: the folder of a running chain: lock and sockets.
//!
//! One loop ([`Supervisor::step`]) serves everything; it never waits for a worker.

pub mod apply;
pub mod container;
pub mod instance;
pub mod reclaim;
pub mod renumber;
pub mod runtime_dir;
pub mod spawn;

mod burial;
mod memory;
pub mod status;

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::counters::Counters;
use catena_shm::region::{Region, RegionError, Sharing};
use catena_shm::ring_memory::{RingEnd, Side};
use catena_shm::tsc::Clock;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::chain::registry::Registry;
use crate::chain::{Chain, Mode};
use crate::placement::{Placement, node_spec, place};
use crate::protocol::{
    Adoption, Assignment, FromWorker, RegionName, StartIndex, ToWorker, VERSION,
};
use crate::stats::{NodeCounters, RxCounters, TxCounters};
use crate::supervisor::burial::Reclaims;
use crate::supervisor::container::Containers;
use crate::supervisor::instance::{Changing, Heard, Held, Instance, State};
use crate::supervisor::memory::Memory;
use crate::supervisor::runtime_dir::RuntimeDir;
use crate::supervisor::spawn::{Body, SpawnError};
use crate::wait::{ChosenWait, choose, measure};
use crate::worker::build::{page_layout, pool_geometry, pool_sharing};

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
    past: Past,
    events: VecDeque<Event>,
    reclaims: Reclaims,
    adoptions: BTreeMap<u8, Vec<(u32, u8)>>,
    respawns: BTreeMap<usize, burial::Respawn>,
    spare: Option<Spare>,
    containers: Option<Containers>,
    answers: BTreeMap<u64, Result<serde_json::Value, String>>,
    next_request: u64,
    started: Instant,
    is_draining: bool,
    is_stopping: bool,
}

/// Where a counters page holds the number of buffers that are out (see `WorkerCounters::words`).
const BUFFERS_OUT_WORD: usize = 6;
const START_TIMEOUT: Duration = Duration::from_secs(30);

impl Supervisor {
    /// Starts a chain: every worker runs when this returns, or nothing does.
    ///
    /// # Errors
    /// [`StartError`].
    pub fn start(chain: Chain, options: Options) -> Result<Self, StartError> {
        let placement = place(&chain).map_err(StartError::Placement)?;
        let runtime = RuntimeDir::create(&options.runtime_root, &chain.name)?;
        let cores = cores_used(&chain, &placement, options.pin);
        let wait = choose(chain.run.wait, measure(placement.workers.len(), cores));
        let containers = Containers::for_chain(&chain, &placement, &runtime)?;
        if let Some(containers) = &containers {
            containers.remove_leftovers();
        }
        let mut supervisor = Self {
            memory: Memory::default(),
            clock: Clock::calibrate(Duration::from_millis(10)),
            past: Past::default(),
            events: VecDeque::new(),
            reclaims: Reclaims::default(),
            adoptions: BTreeMap::new(),
            respawns: BTreeMap::new(),
            spare: None,
            answers: BTreeMap::new(),
            next_request: 0,
            started: Instant::now(),
            is_draining: false,
            is_stopping: false,
            instances: Vec::new(),
            chain,
            placement,
            options,
            wait,
            runtime,
            containers,
        };
        let result = supervisor.start_all();
        if result.is_err() {
            supervisor.kill_all();
        }
        result.map(|()| supervisor)
    }

    fn start_all(&mut self) -> Result<(), StartError> {
        for worker in 0..self.placement.workers.len() {
            let instance = self.spawn(worker, 0)?;
            self.instances.push(instance);
        }
        let deadline = Instant::now() + START_TIMEOUT;
        while !self
            .instances
            .iter()
            .all(|instance| instance.state == State::Running)
        {
            self.step(Duration::from_millis(50), &[]);
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
            if Instant::now() > deadline {
                let late = self.instances.iter().zip(&self.placement.workers);
                let late: Vec<_> = late
                    .filter(|(instance, _)| instance.state != State::Running)
                    .map(|(_, worker)| worker.name.clone())
                    .collect();
                return Err(StartError::Timeout(late.join(", "), START_TIMEOUT));
            }
        }
        self.started = Instant::now();
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
                let (body, socket) = spawn::process(&spec.name, &self.chain.name, &token, program)?;
                (body, Some(socket))
            }
            Mode::Container => {
                let containers = self.containers.as_ref();
                let plan = &containers.expect("made where a worker needs it").plan;
                (plan.start(&spec.name, &self.chain, epoch, &token)?, None)
            }
        };
        Ok(Instance::new(epoch, body, socket, token))
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
        let program = &self.options.program;
        if let Ok((body, socket)) = spawn::process("spare", &self.chain.name, &token, program) {
            self.spare = Some(Spare {
                body,
                socket,
                token,
            });
        }
    }

    /// Serves everything that has happened, waiting at most `timeout` for something to happen. Gives
    /// for each of `also` whether it became readable.
    pub fn step(&mut self, timeout: Duration, also: &[BorrowedFd<'_>]) -> Vec<bool> {
        let (ready, extra) = self.wait_for_events(timeout, also);
        if ready.contains(&Source::Accept) {
            self.admit_containers();
        }
        for source in ready {
            match source {
                Source::Worker(worker) => self.hear(worker),
                Source::Exit(worker) => self.bury(worker),
                Source::Accept => {}
            }
        }
        self.respawn_due();
        self.see_containers_off();
        if !self.respawns.is_empty() {
            self.prepare_spare();
        }
        extra
    }

    fn wait_for_events(
        &self,
        timeout: Duration,
        also: &[BorrowedFd<'_>],
    ) -> (Vec<Source>, Vec<bool>) {
        let mut sources = Vec::new();
        let mut fds = Vec::new();
        for (worker, instance) in self.instances.iter().enumerate() {
            if !instance.is_live() {
                continue;
            }
            if let Some(socket) = &instance.socket {
                sources.push(Source::Worker(worker));
                fds.push(PollFd::new(socket, PollFlags::IN));
            }
            if let Some(exit) = instance.body.as_ref().and_then(Body::exit_fd) {
                sources.push(Source::Exit(worker));
                fds.push(PollFd::new(exit, PollFlags::IN));
            }
        }
        if let Some(containers) = &self.containers {
            for socket in containers.doors(&self.runtime) {
                sources.push(Source::Accept);
                fds.push(PollFd::new(socket, PollFlags::IN));
            }
        }
        fds.extend(
            also.iter()
                .map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)),
        );
        let timeout = self
            .time_to_respawn()
            .map_or(timeout, |time| timeout.min(time));
        let timeout = Timespec::try_from(timeout).unwrap_or(Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        });
        if poll(&mut fds, Some(&timeout)).is_err() {
            return (Vec::new(), vec![false; also.len()]);
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let extra = fds[sources.len()..].iter().map(is_ready).collect();
        let ready = sources.into_iter().zip(&fds).filter(|(_, fd)| is_ready(fd));
        (ready.map(|(source, _)| source).collect(), extra)
    }

    /// One record of a worker. A broken connection, or a record that no worker of this version
    /// sends, is its death.
    fn hear(&mut self, worker: usize) {
        if !self.instances[worker].is_live() {
            return;
        }
        match self.instances[worker].receive() {
            Heard::Record(record, fds) => self.obey(worker, *record, fds),
            Heard::Garbage(why) => self.detach(worker, &why),
            Heard::End => self.disconnected(worker),
        }
    }

    /// A worker's exit is certain, but not all that it said has been heard: its last records count.
    fn hear_last_words(&mut self, worker: usize) {
        while self.instances[worker].is_live() && self.instances[worker].has_word() {
            match self.instances[worker].receive() {
                Heard::Record(record, fds) => self.obey(worker, *record, fds),
                Heard::Garbage(_) | Heard::End => return,
            }
        }
    }

    fn obey(&mut self, worker: usize, record: FromWorker, fds: Vec<OwnedFd>) {
        let expected = usize::from(matches!(record, FromWorker::Made { .. }));
        if fds.len() != expected {
            let why = format!("a record with {} descriptors, not {expected}", fds.len());
            return self.detach(worker, &why);
        }
        let instance = &mut self.instances[worker];
        match (record, instance.state) {
            (FromWorker::Hello { version, token }, State::Starting) => {
                if version == VERSION && token == instance.token {
                    self.assign(worker);
                } else {
                    self.detach(worker, "its token or its version is wrong");
                }
            }
            (FromWorker::Made { region, len }, State::Making | State::Running) => {
                if let Some(fd) = fds.into_iter().next() {
                    self.take_memory(worker, region, len, fd);
                }
            }
            (FromWorker::AllMade { notices }, State::Making) => {
                if let Some(region) = self.not_made(worker) {
                    return self.detach(worker, &format!("it has not made {region:?}"));
                }
                self.instances[worker].state = State::Made;
                for notice in notices {
                    self.notice(notice);
                }
                self.show_pools(worker);
                self.introduce();
            }
            (FromWorker::AllMade { .. }, State::Running) => {
                if instance.changing == Changing::Making {
                    instance.changing = Changing::Made;
                    self.introduce();
                }
            }
            (FromWorker::Rewired, State::Running) => instance.changing = Changing::Rewired,
            (FromWorker::Started, State::Made) => {
                instance.state = State::Running;
                instance.running_since = Some(Instant::now());
                self.now_running(worker);
            }
            (FromWorker::Failed { node, message }, _) => {
                let name = node.and_then(|node| self.chain.nodes.get(node));
                let name = name.map_or(String::new(), |node| format!("{}: ", node.name));
                instance.failure = Some(format!("{name}{message}"));
                if instance.changing == Changing::Making {
                    instance.changing = Changing::Failed;
                }
            }
            (FromWorker::Synced { id }, _) => self.synced(worker, id),
            (FromWorker::Violation { region, count }, State::Running) => {
                self.accused(worker, region, count);
            }
            (FromWorker::Finished, _) => instance.is_finished = true,
            (FromWorker::Drained, _) => instance.is_drained = true,
            (FromWorker::Answer { id, result }, _) => {
                self.answers.insert(id, result);
            }
            (FromWorker::Stopped { ports }, State::Running | State::Stopping) => {
                instance.closings = ports;
                instance.state = State::Stopped;
                self.stopped(worker);
            }
            (record, state) => {
                let text = format!("{record:?}");
                let text: String = text.chars().take(200).collect();
                self.detach(
                    worker,
                    &format!("unexpected record in state {state:?}: {text}"),
                );
            }
        }
    }

    /// A neighbour of `worker` broke the rules, as far as `worker` can tell. It is believed of the
    /// other end of its own rings only, so that it can do no more harm than by not taking packets.
    fn accused(&mut self, worker: usize, region: RegionName, count: u64) {
        let Some((ring, side)) = memory::ring_of(&self.placement, region) else {
            return self.detach(worker, "it accuses nobody");
        };
        let (maker, peer) = match side {
            Side::Producer => (ring.from, ring.to),
            Side::Consumer => (ring.to, ring.from),
        };
        if peer != worker {
            return self.detach(worker, "it accuses a worker that is no neighbour");
        }
        if self.instances[maker].state == State::Running {
            let what = match ring.link {
                Some(link) => format!("link {}", self.chain.links[link].name),
                None => "the way of buffers home".to_owned(),
            };
            let why = format!("{count} impossible descriptors or cursors on {what}");
            self.detach(maker, &why);
        }
    }

    /// The connection ended. A process may still be running: its exit must be certain first.
    fn disconnected(&mut self, worker: usize) {
        let instance = &mut self.instances[worker];
        instance.socket = None;
        match &mut instance.body {
            Some(body @ (Body::Process(..) | Body::Container(_))) => {
                body.kill();
                if body.exit_fd().is_none() {
                    self.bury(worker);
                }
            }
            _ => self.bury(worker),
        }
    }

    /// Ends a worker that broke the rules.
    fn detach(&mut self, worker: usize, why: &str) {
        let name = self.placement.workers[worker].name.clone();
        if self.past.detached.len() == status::DETACHED_MAX {
            self.past.detached.pop_front();
        }
        self.past.detached.push_back(format!("{name}: {why}"));
        self.events.push_back(Event::Detached {
            worker: name,
            why: why.to_owned(),
        });
        self.instances[worker].is_detached = true;
        self.instances[worker].failure.get_or_insert(why.to_owned());
        self.disconnected(worker);
    }

    fn notice(&mut self, notice: String) {
        let event = Event::Notice(notice);
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    /// Tells a new instance what to build.
    fn assign(&mut self, worker: usize) {
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
                self.instances[worker].send(&ToWorker::Adopt(pool.id), &[held.fd.as_fd()]);
                adoptions.push(Adoption {
                    pool: pool.id,
                    len: held.len,
                    out,
                });
            }
        }
        let assignment = self.assignment(worker, adoptions);
        self.instances[worker].layout = page_layout(&assignment);
        let record = ToWorker::Assign(Box::new(assignment));
        self.instances[worker].send(&record, &[]);
        self.instances[worker].state = State::Making;
    }

    fn assignment(&self, worker: usize, adoptions: Vec<Adoption>) -> Assignment {
        let placement = &self.placement;
        let spec = &placement.workers[worker];
        let touches = |node: usize| spec.nodes.contains(&node);
        let lanes: Vec<_> = placement
            .lanes
            .iter()
            .filter(|lane| lane.from == worker || lane.to == worker)
            .cloned()
            .collect();
        let sees = |id: &u8| lanes.iter().any(|lane| lane.pools.contains(id));
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
            lanes,
            adoptions,
            starts: starts.collect(),
            burst: self.chain.run.burst,
            wait: self.wait.policy,
            core: spec.core.or_else(|| self.core_for(worker)),
            clock: self.clock.parts(),
            mode: spec.mode,
            is_bypass: self.instances[worker].is_bypass,
        }
    }

    fn core_for(&self, worker: usize) -> Option<usize> {
        self.options
            .pin
            .then(|| core_for(&self.chain, &self.placement, worker))?
    }

    /// Keeps memory that a worker has made, if it is what it should be: neighbours take it at the
    /// supervisor's word.
    fn take_memory(&mut self, worker: usize, region: RegionName, len: usize, fd: OwnedFd) {
        if !memory::may_make(&self.placement, worker, region) {
            let why = format!("it made {region:?}, which is not its to make");
            return self.detach(worker, &why);
        }
        let end = match self.inspect(worker, region, len, &fd) {
            Ok(end) => end,
            Err(reason) => return self.detach(worker, &format!("{region:?}: {reason}")),
        };
        self.instances[worker].made.insert(region);
        self.memory.keep(region, Held { fd, len, end });
        if let Some((ring, Side::Producer)) = memory::ring_of(&self.placement, region) {
            self.memory.forget_passed(&ring);
        }
    }

    /// Checks memory that a worker has made, and maps what the supervisor itself will read.
    fn inspect(
        &mut self,
        worker: usize,
        region: RegionName,
        len: usize,
        fd: &OwnedFd,
    ) -> Result<Option<RingEnd>, String> {
        let spec = |id: u8| self.placement.pools.iter().find(|pool| pool.id == id);
        let at_least = |bytes: u64| match len as u64 >= bytes {
            true => Ok(()),
            false => Err(format!("{len} bytes, needed are {bytes}")),
        };
        let text = |error: RegionError| error.to_string();
        match region {
            RegionName::Counters => {
                let words = self.instances[worker].layout.word_count();
                let copy = fd.try_clone().map_err(|error| error.to_string())?;
                let counters = Counters::attach(copy, len, words).map_err(text)?;
                self.instances[worker].counters = Some(counters);
            }
            RegionName::Pool(id) => {
                let spec = spec(id).ok_or("no such pool")?;
                Region::check(fd, len, pool_sharing(spec)).map_err(text)?;
                at_least(pool_geometry(spec).bytes())?;
            }
            RegionName::Ledger(id) => {
                let spec = spec(id).ok_or("no such pool")?;
                Region::check(fd, len, Sharing::ReadOnly).map_err(text)?;
                at_least(spec.buffer_count.into())?;
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
    fn not_made(&self, worker: usize) -> Option<RegionName> {
        let made = &self.instances[worker].made;
        memory::all_of(&self.placement, worker)
            .into_iter()
            .find(|region| !made.contains(region))
    }

    /// Those who see an owner's new pools must have taken them before the first packet can reach them:
    /// until then the same pool number means its predecessor's memory.
    fn show_pools(&mut self, worker: usize) {
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
                self.instances[worker].awaits.insert(viewer, id);
            }
        }
        for (viewer, id) in &self.instances[worker].awaits {
            self.instances[*viewer].send(&ToWorker::Sync { id: *id }, &[]);
        }
    }

    fn synced(&mut self, viewer: usize, id: u64) {
        for instance in &mut self.instances {
            if instance.awaits.get(&viewer) == Some(&id) {
                instance.awaits.remove(&viewer);
            }
        }
        self.introduce();
    }

    /// Nobody waits for the dead.
    fn await_no_more(&mut self, viewer: usize) {
        for instance in &mut self.instances {
            instance.awaits.remove(&viewer);
        }
        self.introduce();
    }

    /// Introduces workers whose neighbours are all known: they get their memory and may run.
    fn introduce(&mut self) {
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
                instance.send(&ToWorker::Start, &[]);
                self.instances[worker].is_introduced = true;
            }
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

    /// Whether every worker's sources have come to their end.
    pub fn is_finished(&self) -> bool {
        self.present().all(|instance| {
            instance.is_finished && instance.state == State::Running && !instance.is_bypass
        })
    }

    /// Tells a worker something that only one which was told to run understands. Others learn it when
    /// they run.
    fn tell(&self, worker: usize, record: &ToWorker) {
        let instance = &self.instances[worker];
        if instance.is_introduced && instance.is_live() {
            instance.send(record, &[]);
        }
    }

    /// Takes nothing more in; packets inside go on.
    pub fn drain(&mut self) {
        if !std::mem::replace(&mut self.is_draining, true) {
            for worker in 0..self.instances.len() {
                self.tell(worker, &ToWorker::Drain);
            }
        }
    }

    /// Sends a request to a node; the answer is fetched by [`Supervisor::answer`].
    pub fn request(&mut self, node: usize, request: serde_json::Value) -> u64 {
        self.next_request += 1;
        let id = self.next_request;
        let worker = self.placement.worker_of[node];
        if self.instances[worker].is_introduced && self.instances[worker].is_live() {
            self.tell(worker, &ToWorker::Control { id, node, request });
        } else {
            let reason = "it is being restarted; ask again".to_owned();
            self.answers.insert(id, Err(reason));
        }
        id
    }

    /// The answer to a request, once.
    pub fn answer(&mut self, id: u64) -> Option<Result<serde_json::Value, String>> {
        self.answers.remove(&id)
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

    /// Stops the chain: those who own no pools first, so that every buffer comes home. Waits at
    /// most `patience`, then kills.
    pub fn stop(&mut self, patience: Duration) {
        self.is_stopping = true;
        let deadline = Instant::now() + patience;
        let owners: Vec<usize> = self.placement.pools.iter().map(|pool| pool.owner).collect();
        for round in [false, true] {
            let chosen: Vec<usize> = (0..self.instances.len())
                .filter(|worker| owners.contains(worker) == round)
                .collect();
            for worker in &chosen {
                if self.instances[*worker].is_live() {
                    self.instances[*worker].send(&ToWorker::Stop, &[]);
                }
            }
            while chosen
                .iter()
                .any(|worker| self.instances[*worker].is_live())
                && Instant::now() < deadline
            {
                self.step(Duration::from_millis(20), &[]);
            }
        }
        self.kill_all();
    }

    fn stopped(&mut self, worker: usize) {
        let instance = &mut self.instances[worker];
        instance.socket = None;
        if let Some(body) = instance.body.take() {
            self.part_with(body);
        }
        if !self.is_stopping && !self.instances[worker].is_retiring {
            self.bury_stopped(worker);
        }
    }

    fn kill_all(&mut self) {
        if let Some(mut spare) = self.spare.take() {
            spare.body.kill();
            spare.body.reap();
        }
        for worker in 0..self.instances.len() {
            self.instances[worker].socket = None;
            if let Some(mut body) = self.instances[worker].body.take() {
                body.kill();
                self.part_with(body);
            }
        }
        self.remove_containers();
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Worker(usize),
    Exit(usize),
    Accept,
}

/// Workers are spread over the cores they may use, neighbours in the chain together.
fn core_for(chain: &Chain, placement: &Placement, worker: usize) -> Option<usize> {
    let allowed = allowed_cores();
    let cores = if chain.run.cores.is_empty() {
        &allowed
    } else {
        &chain.run.cores
    };
    let count = placement.workers.len().max(1);
    cores.get(worker * cores.len() / count).copied()
}

/// How many cores the workers have to themselves: fewer than workers if any two share one.
fn cores_used(chain: &Chain, placement: &Placement, pin: bool) -> usize {
    if !pin {
        return allowed_cores().len();
    }
    let workers = placement.workers.iter().enumerate();
    let cores = workers.filter_map(|(n, spec)| spec.core.or_else(|| core_for(chain, placement, n)));
    cores
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        .max(1)
}

/// Cores this process may use.
pub fn allowed_cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect();
    if cores.is_empty() { vec![0] } else { cores }
}
