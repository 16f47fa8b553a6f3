//! Taking over a chain whose supervisor has died, with all that it had.
//!
//! The keeper gives the estate to one caller ([`keeper`](super::keeper)); the book in it says how
//! far everything had come (`estate`). Nothing is taken from workers: what they
//! say is heard again only when each has answered `Resume`.
//!
//! | at the supervisor's death | what becomes of it |
//! |---|---|
//! | a worker runs | it goes on; it is told what it has not heard |
//! | a worker has died, then or since | it is buried and replaced, as always |
//! | a worker was starting or stopping | it is killed, buried and replaced |
//! | a change was prepared | it is forgotten |
//! | a change was being made | all workers are killed; their successors are of the new chain |

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::counters::Counters;
use catena_shm::fd_passing;
use catena_shm::ring_memory::{RingEnd, RingGeometry, Side};
use catena_shm::schedule::{SHORTEST_SLICE, ask_for_slices};
use catena_shm::tsc::Clock;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::chain::Chain;
use crate::chain::diff::diff;
use crate::placement::Placement;
use crate::protocol::parts::{Incoming, Outgoing};
use crate::protocol::{RegionName, ToWorker, VERSION};
use crate::supervisor::audits::Audits;
use crate::supervisor::book::{Book, Life, Stage, WrittenRegion};
use crate::supervisor::burial::links_to;
use crate::supervisor::change::Change;
use crate::supervisor::clock::now;
use crate::supervisor::course::Course;
use crate::supervisor::drift::Drift;
use crate::supervisor::estate::{Estate, Origin, monotonic_ns, read_text};
use crate::supervisor::instance::{Changing, Held, Instance, State};
use crate::supervisor::keeper::{Call, Reply, TEXT_BYTES_MAX};
use crate::supervisor::memory::{Memory, RingName, rings};
use crate::supervisor::outbox::Outbox;
use crate::supervisor::past::Past;
use crate::supervisor::reclaim::units_of;
use crate::supervisor::reclaims::Reclaims;
use crate::supervisor::renumber::compact;
use crate::supervisor::restarts::read_back;
use crate::supervisor::rounds::Draining;
use crate::supervisor::runtime_dir::{RuntimeDir, RuntimeDirError, dial_keeper};
use crate::supervisor::spawn::Body;
use crate::supervisor::states::States;
use crate::supervisor::tcp_links::Sockets;
use crate::supervisor::{Options, StartError, Supervisor};

/// How long the keeper, or all workers together, may take.
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

/// One question to the keeper; none if there is no keeper.
fn ask(root: &Path, name: &str, call: &Call) -> Result<Option<Reply>, Errno> {
    let Some(mut talk) = Talk::dial(root, name, call)? else {
        return Ok(None);
    };
    talk.reply().map(|(reply, _)| Some(reply))
}

/// A conversation with the keeper.
struct Talk {
    socket: OwnedFd,
    incoming: Incoming,
}

impl Talk {
    fn dial(root: &Path, name: &str, call: &Call) -> Result<Option<Self>, Errno> {
        let Some(socket) = dial_keeper(root, name)? else {
            return Ok(None);
        };
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        let bytes = serde_json::to_vec(call).map_err(|_| Errno::INVAL)?;
        match Outgoing::new(bytes).send(&socket, &[]) {
            Ok(()) => {}
            // It is ending.
            Err(Errno::CONNRESET | Errno::PIPE) => return Ok(None),
            Err(error) => return Err(error),
        }
        let incoming = Incoming::new(TEXT_BYTES_MAX);
        Ok(Some(Self { socket, incoming }))
    }

    fn record(&mut self) -> Result<fd_passing::Message, Errno> {
        loop {
            let message = fd_passing::receive(&self.socket)?.ok_or(Errno::CONNRESET)?;
            let record = self.incoming.take(message).map_err(|_| Errno::MSGSIZE)?;
            if let Some(record) = record {
                return Ok(record);
            }
        }
    }

    fn reply(&mut self) -> Result<(Reply, Vec<OwnedFd>), Errno> {
        let record = self.record()?;
        let reply = serde_json::from_slice(&record.bytes).map_err(|_| Errno::PROTO)?;
        Ok((reply, record.fds))
    }
}

/// An estate that was handed over.
struct Inheritance {
    keeper: OwnedFd,
    parcels: BTreeMap<String, Arc<OwnedFd>>,
    book: Book,
}

impl Inheritance {
    /// Asks for the estate of chain `name`; none if nobody keeps one.
    fn ask_for(root: &Path, name: &str) -> Result<Option<Self>, String> {
        let failed = |error: Errno| format!("its keeper does not answer: {error}");
        let call = Call::Adopt { version: VERSION };
        let Some(mut talk) = Talk::dial(root, name, &call).map_err(failed)? else {
            return Ok(None);
        };
        let mut parcels = BTreeMap::new();
        loop {
            let (reply, fds) = match talk.reply() {
                Ok(reply) => reply,
                // It had nothing to keep, and is ending.
                Err(Errno::CONNRESET | Errno::PIPE) if parcels.is_empty() => return Ok(None),
                Err(error) => return Err(failed(error)),
            };
            match reply {
                Reply::Parcels(keys) => {
                    parcels.extend(keys.into_iter().zip(fds.into_iter().map(Arc::new)));
                }
                Reply::Book => break,
                Reply::Refused(why) => return Err(why),
                Reply::Supervised { pid } => return Err(format!("process {pid} supervises it")),
                other => return Err(format!("its keeper says {other:?}")),
            }
        }
        let text = talk.record().map_err(failed)?;
        let book = serde_json::from_slice(&text.bytes).map_err(|error| error.to_string())?;
        Ok(Some(Self {
            keeper: talk.socket,
            parcels,
            book,
        }))
    }

    fn shared(&self, key: &str) -> Result<Arc<OwnedFd>, String> {
        let found = self.parcels.get(key).cloned();
        found.ok_or_else(|| format!("its estate lacks \"{key}\""))
    }

    fn own(&self, key: &str) -> Result<OwnedFd, String> {
        let copy = self.shared(key)?.try_clone();
        copy.map_err(|error| error.to_string())
    }

    fn origin(&self, text: Option<&(String, usize)>) -> Result<Option<Origin>, String> {
        let origin = text.map(|(key, len)| {
            let memory = self.shared(key)?;
            Ok(Origin { memory, len: *len })
        });
        origin.transpose()
    }

    /// The texts that the chain came from, in order.
    fn origins(&self) -> Result<Vec<(Origin, String)>, String> {
        let origins = self.book.origins.iter().map(|(key, len)| {
            let (memory, len) = (self.shared(key)?, *len);
            let text = read_text(&memory, len)?;
            Ok((Origin { memory, len }, text))
        });
        origins.collect()
    }
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
            let instance = instance(&inherited, life)?;
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
        let memory = memory(&inherited, &placement, old)?;
        let states = states(&inherited, &chain)?;
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
            started: started(book.started_ns),
            split_seed: book.split_seed,
            is_draining: book.is_draining,
            draining: Draining::default(),
            is_stopping: false,
            change,
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
            runtime,
            containers: None,
        })
    }

    /// Has every worker that runs say how far it came, and ends all others that live.
    fn resume(&mut self) {
        let is_changing = !matches!(self.change, Change::No);
        for instance in &mut self.instances {
            let runs = instance.state == State::Running && !is_changing;
            if instance.is_live() && !runs {
                instance.socket = None;
                if let Some(body) = &mut instance.body {
                    body.kill();
                }
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
        self.settle_lanes(old);
        self.close(old_chain, &[], &[]);
    }

    /// What came home by lanes that go, and what is to come home otherwise, is not out any more:
    /// its owners are dead, and their successors have other lanes.
    fn settle_lanes(&mut self, old: &Placement) {
        let geometries = self.pool_geometries();
        let leaving = self.change.leaving().iter();
        let lanes: Vec<RingName> = leaving
            .filter(|ring| ring.link.is_none())
            .copied()
            .collect();
        for lane in lanes {
            let links = links_to(old, &lane);
            let returned = self.memory.not_given_back(&lane);
            let returned = units_of(&returned, &geometries);
            let is_home = |pool: u16, buffer: u32, link: u8| {
                returned.contains(&(pool, buffer)) && links.contains(&link)
            };
            for (pool, out) in &mut self.adoptions {
                out.retain(|(buffer, link)| !is_home(*pool, *buffer, *link));
            }
            if let Some(respawn) = self.respawns.get_mut(&lane.to) {
                let waits_for = &mut respawn.waits_for;
                waits_for.retain(|(pool, buffer), link| !is_home(*pool, *buffer, *link));
            }
        }
        for (pool, out) in &mut self.adoptions {
            let before = std::mem::take(out);
            *out = self
                .reclaims
                .settle(*pool, before, u64::MAX, &BTreeSet::new());
        }
    }

    /// A worker has answered `Resume`.
    pub(super) fn resumed(&mut self, worker: usize, heard: u64, said: (bool, bool)) {
        let instance = &mut self.instances[worker];
        instance.resuming = None;
        if !instance.outbox.resumed(heard) {
            return self.detach(worker, "it has heard more, or less, than it was told");
        }
        (instance.is_finished, instance.is_drained) = said;
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
    match Change::switching(old, now) {
        Change::Switching(rings, pools) => Change::Completing(rings, pools),
        other => other,
    }
}

/// What workers have made: regions that the chain has a use for.
fn memory(
    inherited: &Inheritance,
    now: &Placement,
    old: Option<&Placement>,
) -> Result<Memory, String> {
    let book = &inherited.book;
    let old = old.filter(|_| book.stage == Stage::Switching);
    let placements = || std::iter::once(now).chain(old);
    let ends = placements().flat_map(rings);
    let ends = ends.flat_map(|ring| [ring.producer, ring.consumer]);
    let pools = placements().flat_map(|placement| &placement.pools);
    let pools = pools.flat_map(|pool| [RegionName::Pool(pool.id), RegionName::Ledger(pool.id)]);
    let named: BTreeSet<RegionName> = ends.chain(pools).collect();
    let mut memory = Memory::default();
    let regions = book.regions.iter();
    for region in regions.filter(|region| named.contains(&region.name)) {
        let held = held(inherited, region)?;
        memory.restore(region.name, region.start, held);
    }
    let starts = book.starts.iter();
    for (name, index) in starts.filter(|(name, _)| named.contains(name)) {
        memory.set_start(*name, *index);
    }
    Ok(memory)
}

/// Memory that outlives NFs.
fn states(inherited: &Inheritance, chain: &Chain) -> Result<States, String> {
    let mut states = States::default();
    for state in &inherited.book.states {
        let fd = inherited.shared(&state.key)?;
        states.restore(chain, (state.node, &state.name), fd, state.len);
    }
    Ok(states)
}

fn started(at_ns: u64) -> Instant {
    let since = Duration::from_nanos(monotonic_ns().saturating_sub(at_ns));
    let now = now();
    now.checked_sub(since).unwrap_or(now)
}

fn instance(inherited: &Inheritance, life: &Life) -> Result<Instance, String> {
    let process = life.process.as_ref().map(|key| inherited.own(key));
    let body = match (process.transpose()?, life.pid) {
        (Some(process), Some(pid)) => Some(Body::Adopted(pid, process)),
        _ => None,
    };
    let runs = life.state == State::Running;
    let socket = life
        .socket
        .as_ref()
        .filter(|_| runs)
        .map(|key| inherited.own(key));
    let socket = socket.transpose()?;
    let mut instance = Instance::with(life.epoch, body, socket, String::new());
    let shared = |parcel: &Option<(String, usize)>| match parcel {
        Some((key, len)) => inherited.shared(key).map(|fd| Some((fd, *len))),
        None => Ok(None),
    };
    instance.page = shared(&life.page)?;
    instance.records = shared(&life.records)?;
    if let Some((fd, len)) = &instance.page {
        let copy = fd.try_clone().map_err(|error| error.to_string())?;
        let counters = Counters::attach(copy, *len, life.layout.word_count());
        instance.counters = Some(counters.map_err(|error| error.to_string())?);
    }
    instance.state = life.state;
    instance.layout = life.layout;
    (instance.rx_gone, instance.tx_gone) = (life.rx_gone, life.tx_gone);
    instance.is_retiring = life.is_retiring;
    instance.is_bypass = life.is_bypass;
    instance.is_introduced = life.is_introduced;
    instance.is_detached = life.is_detached;
    instance.failure = life.failure.clone();
    instance.closings = life.closings.clone();
    if life.is_changing {
        instance.changing = Changing::Forgetting;
    }
    if runs {
        instance.running_since = Some(now());
        let nonce = rand();
        let question = serde_json::to_vec(&ToWorker::Resume { nonce });
        let question = question.map_err(|error| error.to_string())?;
        let unsent = life.unsent.iter().map(|(text, key)| {
            let memory = key.as_ref().map(|key| inherited.shared(key)).transpose()?;
            Ok((text.clone(), memory))
        });
        let unsent = unsent.collect::<Result<_, String>>()?;
        instance.outbox = Outbox::inherited(life.sent, unsent, question);
        instance.resuming = Some((nonce, now()));
    }
    Ok(instance)
}

/// A number that no former answer bears.
fn rand() -> u64 {
    let token = super::runtime_dir::random_token();
    u64::from_str_radix(&token[..16], 16).unwrap_or(0)
}

fn held(inherited: &Inheritance, region: &WrittenRegion) -> Result<Held, String> {
    let fd = inherited.shared(&region.key)?;
    let end = region.ring.map(|(slot_count, staging_bytes)| {
        let geometry = RingGeometry {
            slot_count,
            staging_bytes,
        };
        let side = match region.name {
            RegionName::LinkProducer(_) | RegionName::LaneProducer { .. } => Side::Producer,
            _ => Side::Consumer,
        };
        let copy = fd.as_fd().try_clone_to_owned();
        let copy = copy.map_err(|error| error.to_string())?;
        // Its maker may have changed the header since: it decides nothing.
        RingEnd::attach(copy, side, geometry).map_err(|error| error.to_string())
    });
    Ok(Held {
        len: region.len,
        end: end.transpose()?,
        fd,
    })
}
