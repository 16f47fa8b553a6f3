//! What a supervisor that has died left with the keeper, made into what it was: containers, memory,
//! instances of workers.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catena_shm::counters::Counters;
use catena_shm::fd_passing;
use catena_shm::ring_memory::{RingEnd, RingGeometry, Side};
use catena_shm::tsc::kernel_ns;
use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::process::Pid;

use crate::chain::Chain;
use crate::placement::Placement;
use crate::protocol::parts::{Incoming, Outgoing};
use crate::protocol::{RegionName, ToWorker, VERSION};
use crate::supervisor::book::{Book, Life, Stage, WrittenRegion};
use crate::supervisor::clock::now;
use crate::supervisor::container::{Container, Containers, Process};
use crate::supervisor::estate::{Origin, read_text};
use crate::supervisor::instance::{Changing, Held, Instance, State};
use crate::supervisor::keeper::{Call, Reply, TEXT_BYTES_MAX};
use crate::supervisor::memory::{Memory, rings};
use crate::supervisor::outbox::Outbox;
use crate::supervisor::runtime_dir::{RuntimeDir, dial_keeper};
use crate::supervisor::spawn::Body;
use crate::supervisor::states::States;

/// How long the keeper may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// One question to the keeper; none if there is no keeper.
pub(super) fn ask(root: &Path, name: &str, call: &Call) -> Result<Option<Reply>, Errno> {
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
pub(super) struct Inheritance {
    pub(super) keeper: OwnedFd,
    pub(super) parcels: BTreeMap<String, Arc<OwnedFd>>,
    pub(super) book: Book,
}

impl Inheritance {
    /// Asks for the estate of chain `name`; none if nobody keeps one.
    pub(super) fn ask_for(root: &Path, name: &str) -> Result<Option<Self>, String> {
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

    pub(super) fn own(&self, key: &str) -> Result<OwnedFd, String> {
        let copy = self.shared(key)?.try_clone();
        copy.map_err(|error| error.to_string())
    }

    pub(super) fn origin(&self, text: Option<&(String, usize)>) -> Result<Option<Origin>, String> {
        let origin = text.map(|(key, len)| {
            let memory = self.shared(key)?;
            Ok(Origin { memory, len: *len })
        });
        origin.transpose()
    }

    /// The texts that the chain came from, in order.
    pub(super) fn origins(&self) -> Result<Vec<(Origin, String)>, String> {
        let origins = self.book.origins.iter().map(|(key, len)| {
            let (memory, len) = (self.shared(key)?, *len);
            let text = read_text(&memory, len)?;
            Ok((Origin { memory, len }, text))
        });
        origins.collect()
    }
}

/// The containers of the workers that have come go on.
pub(super) fn containers(book: &Book, runtime: &RuntimeDir) -> Option<Containers> {
    let lives = book.lives.iter().filter_map(|life| life.container.as_ref());
    let kept = lives.filter(|container| container.has_come);
    let kept: Vec<&str> = kept.map(|container| container.name.as_str()).collect();
    Containers::inherited(book.containers.as_ref()?, &kept, runtime)
}

/// What workers have made: regions that the chain has a use for.
pub(super) fn memory(
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

/// `placement` without the pools of those who have left of which nothing was on its way any more.
pub(super) fn known(mut placement: Placement, memory: &Memory) -> Placement {
    let is_known = |id: u16| memory.latest(RegionName::Pool(id)).is_some();
    let left = placement.passing_pools();
    let passed = left.filter(|pool| !is_known(pool.id));
    let owners: BTreeSet<usize> = passed.map(|pool| pool.owner).collect();
    for owner in owners {
        placement.forget_owner(owner);
    }
    placement
}

/// Memory that outlives NFs.
pub(super) fn states(inherited: &Inheritance, chain: &Chain) -> Result<States, String> {
    let mut states = States::default();
    for state in &inherited.book.states {
        let fd = inherited.shared(&state.key)?;
        states.restore(chain, (state.node, &state.name), fd, state.len);
    }
    Ok(states)
}

pub(super) fn started(at_ns: u64) -> Instant {
    let since = Duration::from_nanos(kernel_ns().saturating_sub(at_ns));
    let now = now();
    now.checked_sub(since).unwrap_or(now)
}

pub(super) fn instance(inherited: &Inheritance, life: &Life) -> Result<Instance, String> {
    let body = body(inherited, life)?;
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

/// What runs a worker: a process, or a container whose worker has come or was to join. An engine's
/// client whose worker had not come is a process to be ended.
fn body(inherited: &Inheritance, life: &Life) -> Result<Option<Body>, String> {
    let process = life.process.as_ref().map(|key| inherited.own(key));
    let process = process.transpose()?;
    let Some(written) = &life.container else {
        let parts = process.zip(life.pid);
        return Ok(parts.map(|(process, pid)| Body::Adopted(pid, process)));
    };
    if let (false, Some(client), Some(pid)) = (written.has_come, &process, life.pid) {
        let client = client.try_clone().map_err(|error| error.to_string())?;
        return Ok(Some(Body::Adopted(pid, client)));
    }
    let containers = inherited.book.containers.as_ref();
    let containers = containers.ok_or("its estate does not say what runs its containers")?;
    let pid = life.pid.and_then(|pid| Pid::from_raw(pid.cast_signed()));
    let worker = process.map(|exit| Process { pid, exit });
    let container = Container::inherited(containers, &written.name, worker);
    let container = container.ok_or("its containers are run by an engine that is not known")?;
    Ok(Some(Body::Container(container)))
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
