//! The supervisor: starts a chain's workers, watches over them, buries and replaces the dead.
//!
//! Control plane only: packets go from worker to worker. The supervisor keeps a descriptor of every
//! region that a worker has made, so that it can introduce neighbours to each other, read what a
//! dead worker left, and give its successor what it needs.
//!
//! - `attention`: the loop; what happens, in turn; `pulse`: signs of life.
//! - `starting`: the chain's beginning; `start_error`: why there is none; `descriptors`: whether as
//!   many are allowed as it needs.
//! - `apply`: changes of a running chain; `switching`: those that stay turn to it; `change`: how
//!   far one has come; `leaving_links`: links that go; `emptying`: they run empty, and receivers
//!   turn from them to new ones; `links_in_turn`: from which to which; `circles`: where links would
//!   wait for each other; `passing`: packets that are on their way meanwhile; `renumber`: what
//!   stays keeps its number.
//! - `spawn`: threads, processes, containers; `body`: what runs a worker; `cores`: where they run.
//! - `container`: container engines; `arrivals`: workers that connect from inside.
//! - `instance`: one life of a worker; `outbox`: what it is told.
//! - `hearing`: what workers say; `introduction`: what they are given.
//! - `evidence`: what a worker's own memory says against it.
//! - `reclaim`: what a dead worker held; pure.
//! - `burial`: the same, done on real memory; `past`: what the dead had counted; `port_counts`:
//!   what their ports had received and sent; `homeward`: what nobody has goes home; `reclaims`: how
//!   far it is.
//! - `respawn`: restart and its policies; `restarts`: what is to be started again.
//! - `audit`: buffers that a dead worker had kept without saying so; `audits`: which are sought.
//! - `asking`: what a change would come to; `clock`: what time it is.
//! - `requests`: what nodes are asked; `drift`: what that has changed of the chain.
//! - `draining`: nothing more is taken in; `ending`: the chain's end; `remains`: what it leaves.
//! - `watchdog`: data paths that stand still, by their `turns`; `rounds`: how far draining is;
//!   `out`: how much of a pool is out.
//! - `memory`: every region, by whom and for whom it was made.
//! - `probing`: what probes of workers note, and who reads it.
//! - `status`: counters summed over lives, for people and machines; `former`: over what had the
//!   same name; `merged`: over shards.
//! - `sockets`: introductions over TCP; `tcp_links`: which links those are for.
//! - `states`: memory that outlives NFs; `handover`: who is given it; `hand_off`: what shards know
//!   goes with flows that get another shard.
//! - `estate`: what a successor of this supervisor needs; `book`: the text of it; `bookkeeping`:
//!   when it is written; `keeper`: the process that keeps it; `adoption`: taking it over;
//!   `inheritance`: what was left; `course`: how it came to be.
//! - `runtime_dir`: the folder of a running chain: lock and sockets.
//!
//! One loop ([`Supervisor::step`]) serves everything; it never waits for a worker.

pub mod adoption;
pub mod apply;
pub mod asking;
pub mod container;
pub mod descriptors;
pub mod instance;
pub mod keeper;
pub mod probing;
pub mod reclaim;
pub mod renumber;
pub mod runtime_dir;
pub mod spawn;

mod arrivals;
mod attention;
mod audit;
mod audits;
mod body;
mod book;
mod bookkeeping;
mod burial;
mod change;
mod circles;
mod clock;
mod cores;
mod course;
mod draining;
mod drift;
mod emptying;
mod ending;
mod estate;
mod evidence;
mod former;
mod hand_off;
mod handover;
mod hearing;
mod homeward;
mod inheritance;
mod introduction;
mod leaving_links;
mod links_in_turn;
mod memory;
mod merged;
mod out;
mod outbox;
mod passing;
mod past;
mod port_counts;
mod pulse;
mod reclaims;
mod remains;
mod requests;
mod respawn;
mod restarts;
mod rounds;
#[cfg(test)]
mod simulation;
mod sockets;
mod start_error;
mod starting;
pub mod states;
pub mod status;
mod switching;
mod tcp_links;
mod turns;
pub mod watchdog;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::tsc::Clock;

use crate::chain::registry::Registry;
use crate::chain::{Chain, NodeKind};
use crate::nf::Inputs;
use crate::placement::Placement;
use crate::probe::ProbeSettings;
use crate::protocol::ToWorker;
use crate::supervisor::audits::Audits;
use crate::supervisor::body::Body;
use crate::supervisor::change::Change;
use crate::supervisor::container::Containers;
use crate::supervisor::drift::{Drift, Question};
use crate::supervisor::estate::Estate;
use crate::supervisor::instance::{Instance, State};
use crate::supervisor::memory::Memory;
use crate::supervisor::past::Past;
use crate::supervisor::pulse::Pulse;
use crate::supervisor::reclaims::Reclaims;
use crate::supervisor::restarts::Respawn;
use crate::supervisor::rounds::Draining;
use crate::supervisor::runtime_dir::RuntimeDir;
pub use crate::supervisor::start_error::StartError;
use crate::supervisor::states::States;
use crate::supervisor::tcp_links::Sockets;
use crate::wait::ChosenWait;

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
    respawns: BTreeMap<usize, Respawn>,
    spare: Option<Spare>,
    containers: Option<Containers>,
    questions: BTreeMap<u64, Question>,
    next_request: u64,
    /// What control requests have changed of the chain.
    drift: Drift,
    started: Instant,
    /// What splitters' hashes are keyed with, drawn anew for each run: nobody outside may know
    /// which flows meet at one shard.
    split_seed: u64,
    /// The round in which workers were last asked whether they hold nothing; 0 while packets are
    /// taken in.
    drain_round: u64,
    draining: Draining,
    is_stopping: bool,
    /// How far a change of the chain has come.
    change: Change,
    /// Workers that stand still, and are not replaced: their NFs' memory is being changed.
    standing: BTreeSet<usize>,
    /// Before when nobody looks for packets of those who have left the chain.
    passed: Option<Instant>,
    /// What probes note, and since when.
    probing: Option<(ProbeSettings, Instant)>,
    /// What a successor of this supervisor needs, if the chain may outlive it.
    estate: Option<Estate>,
    /// What is done at each step.
    pulse: Pulse,
}

/// Where a counters page holds the number of buffers that are out (see `WorkerCounters::words`).
const BUFFERS_OUT_WORD: usize = 6;
const START_TIMEOUT: Duration = Duration::from_secs(30);

impl Supervisor {
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

    /// Has `act` done at each step from now on, also while the chain changes or ends.
    pub fn at_each_step(&mut self, act: impl FnMut(Instant) + Send + 'static) {
        self.pulse = Pulse::of(act);
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
