//! The worker's control connection: from first word to last.
//!
//! One function serves all modes: a thread is given its end of a socket pair, a process inherits
//! one, a container connects to the socket that is mounted into it. The thread that calls [`serve`]
//! stays on the control path; the data path runs in a thread of its own until the supervisor says
//! `Stop` or the connection ends.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use catena_shm::bell;
use catena_shm::record_ring::RecordPage;
use catena_shm::schedule::{SHORTEST_SLICE, ask_for_slices};
use catena_shm::tsc::{self, Clock};
use rustix::event::{Timespec, epoll};

use crate::chain::registry::Registry;
use crate::link::RxLink;
use crate::nf::exchange::{Handled, NfControl};
use crate::probe::Tier;
use crate::protocol::{Assignment, FromWorker, PortClosing, RegionName, ToWorker, VERSION};
use crate::stats::{RECLAIMED_WORD, WorkerCounters};
use crate::worker::berth::Berth;
use crate::worker::build::{Built, Controls, Making, page_layout};
use crate::worker::confine::{Kept, enter_netns, give_up_rights};
use crate::worker::connect::{Connector, FIRST_EVENT, Joined};
use crate::worker::connection::{Connection, Reports};
use crate::worker::doorbell::Doorbell;
use crate::worker::ends::Plugs;
use crate::worker::node_memory::{Brought, BroughtState, NewControls, NodeMemory};
use crate::worker::open::{Attached, attach};
use crate::worker::probe::Probe;
use crate::worker::runner::{Command, Runner, SOCKETS_EVENT};
pub use crate::worker::serve_error::ServeError;
use crate::worker::socket_wait::SocketWait;
use crate::worker::turn::Turn;

/// Serves one assignment over `socket`, then returns. `token` is what the supervisor knows this
/// worker by.
///
/// # Errors
/// [`ServeError`]; the data path has stopped and ports are closed in any case.
pub fn serve(socket: OwnedFd, token: &str, registry: &Registry) -> Result<(), ServeError> {
    let mut connection = Connection::new(socket);
    ask_for_slices(Some(SHORTEST_SLICE));
    connection.send(
        &FromWorker::Hello {
            version: VERSION,
            token: token.to_owned(),
        },
        &[],
    )?;
    let (assignment, brought) = receive_assignment(&mut connection)?;
    enter_netns(&connection, &assignment)?;
    let kept = Kept::of(&assignment, registry);
    give_up_rights(&connection, &assignment, &kept)?;
    let berth = Berth::start(&assignment, kept)?;
    let mut making = make(&connection, assignment, brought, registry)?;
    loop {
        let (record, fds) = connection.receive()?;
        if is_start(&mut making, record, fds)? {
            break;
        }
    }
    let (mut control, runner) = Control::of(connection, making, registry)?;
    control.start(runner, berth)?;
    let stopped = control.obey();
    let Control {
        connection,
        running,
        ..
    } = control;
    running.stop(&connection)?;
    stopped
}

fn receive_assignment(connection: &mut Connection) -> Result<(Assignment, Brought), ServeError> {
    let mut brought = Brought::default();
    loop {
        let (record, fds) = connection.receive()?;
        if let Some(assignment) = assigned(&mut brought, record, fds)? {
            return Ok((assignment, brought));
        }
    }
}

/// What comes before the assignment, or it.
fn assigned(
    brought: &mut Brought,
    record: ToWorker,
    fds: Vec<OwnedFd>,
) -> Result<Option<Assignment>, ServeError> {
    match record {
        ToWorker::Adopt(pool) => {
            let fd = fds.into_iter().next();
            brought.pools.extend(fd.map(|fd| (pool, fd)));
        }
        record @ ToWorker::State { .. } => {
            brought.states.extend(BroughtState::of(record, one(fds)?));
        }
        ToWorker::Assign(assignment) => return Ok(Some(*assignment)),
        other => return Err(unexpected("before Assign", &other)),
    }
    Ok(None)
}

/// Makes regions and ports, and hands the memory over.
fn make(
    connection: &Connection,
    assignment: Assignment,
    brought: Brought,
    registry: &Registry,
) -> Result<Making, ServeError> {
    let mut making = match Making::start(assignment, brought, registry) {
        Ok(making) => making,
        Err(error) => {
            connection.send_failure(&error)?;
            return Err(error.into());
        }
    };
    for (region, len, fd) in making.made() {
        connection.send(&FromWorker::Made { region, len }, &[fd])?;
    }
    making.close_descriptors();
    for (link, address) in making.listening() {
        connection.send(&FromWorker::Listening { link, address }, &[])?;
    }
    let notices = std::mem::take(&mut making.notices);
    connection.send(&FromWorker::AllMade { notices }, &[])?;
    Ok(making)
}

fn unexpected(when: &str, record: &ToWorker) -> ServeError {
    ServeError::Protocol(format!("unexpected {when}: {record:?}"))
}

/// The neighbours' memory, or that all of it has come.
fn is_start(making: &mut Making, record: ToWorker, fds: Vec<OwnedFd>) -> Result<bool, ServeError> {
    match record {
        ToWorker::Attach { region, len, start } => {
            making.attach(region, len, start, one(fds)?)?;
            Ok(false)
        }
        ToWorker::Start => Ok(true),
        ToWorker::Stop => Err(ServeError::Disconnected),
        other => Err(unexpected("before Start", &other)),
    }
}

fn one(fds: Vec<OwnedFd>) -> Result<OwnedFd, ServeError> {
    let missing = || ServeError::Protocol("a record came without its descriptor".to_owned());
    fds.into_iter().next().ok_or_else(missing)
}

/// Number of the event by which the control thread learns that the data path has said something.
const REPORTS_EVENT: u64 = SOCKETS_EVENT - 1;

/// The data path of this worker, running.
struct Running {
    commands: Sender<Command>,
    doorbell: Arc<Doorbell>,
    watch: Arc<OwnedFd>,
    thread: Option<JoinHandle<Vec<PortClosing>>>,
    /// Where its probes write.
    records: RecordPage,
    /// What it has to say.
    reports: Reports,
    /// How ports of links are told of connections.
    plugs: Plugs,
}

impl Running {
    fn command(&self, command: Command) {
        // The receiver lives as long as the thread, which ends only by `Stop`.
        let _ = self.commands.send(command);
        self.doorbell.command();
    }

    fn stop(self, connection: &Connection) -> Result<(), ServeError> {
        self.command(Command::Stop);
        let ports = self.thread.map_or_else(|| Ok(Vec::new()), JoinHandle::join);
        let ports = ports.map_err(|_| ServeError::Protocol("the data path panicked".to_owned()))?;
        let _ = self.reports.pass_on(connection);
        // The supervisor may be gone already.
        let _ = connection.send(&FromWorker::Stopped { ports }, &[]);
        Ok(())
    }
}

/// The data path, and what the control thread reaches it by.
fn assemble(
    connection: &Connection,
    mut making: Making,
) -> Result<(Runner, Running, Connector), ServeError> {
    let doors = making.take_doors();
    let Built {
        graph,
        pools,
        counters,
        records,
        mut plugs,
        assignment,
    } = making.finish()?;
    let clock = Clock::from_parts(assignment.clock);
    let seed = tsc::ticks() ^ (assignment.worker as u64) << 48;
    let probe = Probe::new(clock, Some(records.clone()), seed);
    let watch = Arc::new(epoll::create(epoll::CreateFlags::CLOEXEC)?);
    let control = epoll::EventData::new_u64(0);
    epoll::add(
        &*watch,
        connection.socket().as_fd(),
        control,
        epoll::EventFlags::IN,
    )?;
    let connector = Connector::new(watch.clone(), assignment.secrets.clone(), doors)?;
    if !plugs.is_empty() {
        plugs.sockets = Some(Arc::new(SocketWait::new()?));
    }
    let sockets = plugs.sockets.clone();
    let (sender, receiver) = channel();
    let bell = sockets.as_ref().map(|sockets| sockets.bell());
    let doorbell = Arc::new(Doorbell::new(bell));
    let (reporter, reports) = Reports::new()?;
    let said = epoll::EventData::new_u64(REPORTS_EVENT);
    epoll::add(&*watch, reports.event(), said, epoll::EventFlags::IN)?;
    // Stored before the first turn: an owner that dies before its next one has done no less.
    counters.store(RECLAIMED_WORD, &[assignment.reclaimed]);
    let runner = Runner {
        worker: assignment.worker,
        graph,
        pools,
        turn: Turn::new(usize::from(assignment.burst), probe),
        clock,
        wait: assignment.wait,
        counters,
        layout: page_layout(&assignment),
        commands: receiver,
        doorbell: doorbell.clone(),
        watch: watch.clone(),
        report: Box::new(move |record| reporter.say(record)),
        sums: WorkerCounters {
            reclaimed: assignment.reclaimed,
            ..WorkerCounters::default()
        },
        drain_round: 0,
        drained_said: false,
        is_held: false,
        words: Vec::with_capacity(bell::WORDS_MAX),
        sockets,
        stored_at: 0,
    };
    let running = Running {
        commands: sender,
        doorbell,
        watch,
        thread: None,
        records,
        reports,
        plugs,
    };
    Ok((runner, running, connector))
}

/// The control thread while the data path runs.
struct Control<'a> {
    connection: Connection,
    assignment: Assignment,
    connector: Connector,
    running: Running,
    registry: &'a Registry,
    /// What is being added.
    change: Option<Change>,
    /// Memory that outlives its NFs.
    memory: NodeMemory,
    /// Such memory that has come for a change.
    brought: Vec<BroughtState>,
    /// Control halves of its NFs.
    controls: BTreeMap<usize, Box<dyn NfControl>>,
    /// Those of NFs that the data path has built again come by this.
    new_controls: NewControls,
    rebuilt: Receiver<(usize, Option<Box<dyn NfControl>>)>,
}

/// What is being added to a running worker.
enum Change {
    /// Regions made; the neighbours' come in.
    Making(Box<Making>),
    /// Outputs are rewired; these inputs wait for their turn.
    Inputs(Vec<RxLink>),
}

impl<'a> Control<'a> {
    /// That of a worker whose memory is made, and its data path.
    fn of(
        connection: Connection,
        mut making: Making,
        registry: &'a Registry,
    ) -> Result<(Self, Runner), ServeError> {
        let (memory, controls) = (making.take_memory(), making.take_controls());
        let (new_controls, rebuilt) = channel();
        let assignment = making.assignment().clone();
        let (runner, running, connector) = assemble(&connection, making)?;
        let mut control = Self {
            connection,
            assignment,
            connector,
            running,
            registry,
            change: None,
            memory,
            brought: Vec::new(),
            controls: BTreeMap::new(),
            new_controls,
            rebuilt,
        };
        control.adopt_controls(controls);
        Ok((control, runner))
    }

    /// Starts the data path.
    fn start(&mut self, runner: Runner, berth: Berth) -> Result<(), ServeError> {
        self.running.thread = Some(berth.run(runner, self.connection.socket().clone()));
        self.connection.send(&FromWorker::Started, &[])
    }

    /// Passes on what the supervisor says, until `Stop`.
    fn obey(&mut self) -> Result<(), ServeError> {
        let mut events = Vec::with_capacity(8);
        loop {
            events.clear();
            let space = rustix::buffer::spare_capacity(&mut events);
            // Rounded up, so that what is due is due then.
            let due = self
                .connector
                .due_in()
                .map(|due| due + Duration::from_millis(1));
            let due = due.and_then(|due| Timespec::try_from(due).ok());
            match epoll::wait(&*self.running.watch, space, due.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            let mut control = false;
            for event in &events {
                match event.data.u64() {
                    0 => control = true,
                    SOCKETS_EVENT => self.running.doorbell.wake(),
                    REPORTS_EVENT => self.running.reports.pass_on(&self.connection)?,
                    event if event >= FIRST_EVENT => {
                        let joined = self.connector.serve(event);
                        joined.into_iter().for_each(|joined| self.join(joined));
                    }
                    _ => self.running.doorbell.wake(),
                }
            }
            self.connector.retry();
            if control {
                match self.connection.hear()? {
                    Some((ToWorker::Stop, _)) => return Ok(()),
                    Some((record, fds)) => self.record(record, fds)?,
                    None => {}
                }
            }
        }
    }

    /// A connection has come, or gone.
    fn join(&self, joined: Joined) {
        self.running.plugs.join(joined);
        self.running.doorbell.wake();
    }

    fn record(&mut self, record: ToWorker, fds: Vec<OwnedFd>) -> Result<(), ServeError> {
        let running = &self.running;
        match record {
            ToWorker::Attach { region, len, start } => {
                self.attach(region, len, start, one(fds)?)?;
            }
            ToWorker::Connect { link, address } => {
                let joined = self.connector.call(link, address);
                joined.into_iter().for_each(|joined| self.join(joined));
            }
            ToWorker::PeerDown { link } => {
                if running.plugs.peer_down(link) {
                    running.doorbell.wake();
                } else {
                    running.command(Command::PeerDown(link));
                }
            }
            ToWorker::Reclaim {
                number,
                links,
                pool,
                buffers,
            } => running.command(Command::Reclaim {
                number,
                links,
                pool,
                buffers,
            }),
            ToWorker::Seek { links } => running.command(Command::Seek(links)),
            ToWorker::TakeFound {
                number,
                pool,
                buffers,
            } => running.command(Command::TakeFound {
                number,
                pool,
                buffers,
            }),
            ToWorker::EndSeek => running.command(Command::EndSeek),
            ToWorker::Sync { id } => running.command(Command::Sync(id)),
            ToWorker::Drain { round } => running.command(Command::Drain(round)),
            ToWorker::Hold { is_held } => running.command(Command::Hold(is_held)),
            ToWorker::Resume { nonce } => self.connection.resume(nonce)?,
            ToWorker::Probe(settings) => {
                // Here, so that the data path meets no page fault.
                if settings.tier > Tier::Sums {
                    running.records.prefault();
                }
                running.command(Command::Probe(settings));
            }
            ToWorker::Control {
                id, node, request, ..
            } => self.ask(id, node, request)?,
            record @ ToWorker::State { .. } => {
                self.brought.extend(BroughtState::of(record, one(fds)?));
            }
            ToWorker::Change(delta) => self.begin_change(*delta)?,
            ToWorker::Admit(admission) => {
                if let Some(Change::Making(making)) = &mut self.change {
                    let (admitted, lanes, pools) = making.admit()?;
                    self.assignment.lanes.extend(lanes);
                    self.assignment.pools.extend(pools);
                    running.command(Command::Admit(Box::new(admitted), *admission));
                }
            }
            ToWorker::Rewire(rewiring) => {
                if let Some(Change::Making(mut making)) = self.change.take() {
                    self.memory.adopt(making.take_memory());
                    self.adopt_controls(making.take_controls());
                    // From now on it belongs to the assignment, so that successors are attached.
                    self.assignment.take_up(making.assignment());
                    let mut additions = making.additions()?;
                    self.change = Some(Change::Inputs(std::mem::take(&mut additions.rx)));
                    self.running
                        .command(Command::Rewire(Box::new(additions), *rewiring));
                }
            }
            ToWorker::Inputs(inputs) => {
                if let Some(Change::Inputs(waiting)) = &mut self.change {
                    let chosen = |rx: &mut RxLink| {
                        let mut all = inputs.iter().flat_map(|(_, links)| links);
                        all.any(|(link, _)| *link == rx.index)
                    };
                    let links = waiting.extract_if(.., chosen).collect();
                    running.command(Command::Inputs(inputs, links));
                }
            }
            ToWorker::Forget => {
                self.change = None;
                self.brought.clear();
            }
            other => return Err(unexpected("while running", &other)),
        }
        Ok(())
    }

    /// Nodes have these control halves from now on.
    fn adopt_controls(&mut self, controls: Controls) {
        for (node, control) in controls {
            match control {
                Some(control) => drop(self.controls.insert(node, control)),
                None => drop(self.controls.remove(&node)),
            }
        }
    }

    /// Asks a node something: its control half here, or the data path.
    fn ask(&mut self, id: u64, node: usize, request: serde_json::Value) -> Result<(), ServeError> {
        let rebuilt = self.rebuilt.try_iter().collect();
        self.adopt_controls(rebuilt);
        if let Some(half) = self.controls.get_mut(&node) {
            let handled = half.control(&request);
            self.running.doorbell.values();
            if let Handled::Answered(result) = handled {
                return self
                    .connection
                    .send(&FromWorker::Answer { id, result }, &[]);
            }
        }
        self.running.command(Command::Control(id, node, request));
        Ok(())
    }

    /// Memory of a neighbour: of one that is new with the change under way, or a successor.
    fn attach(
        &mut self,
        region: RegionName,
        len: usize,
        start: u64,
        fd: OwnedFd,
    ) -> Result<(), ServeError> {
        if let Some(Change::Making(making)) = &mut self.change
            && making.expects(region)
        {
            return Ok(making.attach(region, len, start, fd)?);
        }
        let attached = attach(&self.assignment, region, len, fd)?;
        if let (Some(Change::Inputs(links)), RegionName::LinkProducer(link), Attached::End(end)) =
            (&mut self.change, region, &attached)
            && let Some(rx) = links.iter_mut().find(|rx| rx.index == link)
        {
            // Its turn has not come: the data path does not know it yet.
            rx.replace_producer(end.clone(), start);
            return Ok(());
        }
        self.running.command(successor(region, attached, start)?);
        Ok(())
    }

    /// Makes what is to be added and hands it over, as at the start.
    fn begin_change(&mut self, delta: Assignment) -> Result<(), ServeError> {
        let brought = Brought {
            states: std::mem::take(&mut self.brought),
            ..Brought::default()
        };
        let running = Some((&*self.assignment.nodes, &self.memory, &self.new_controls));
        match Making::start_beside(delta, brought, self.registry, running) {
            Ok(mut making) => {
                for (region, len, fd) in making.made() {
                    if !matches!(region, RegionName::Counters | RegionName::Records) {
                        self.connection
                            .send(&FromWorker::Made { region, len }, &[fd])?;
                    }
                }
                making.close_descriptors();
                let notices = std::mem::take(&mut making.notices);
                self.change = Some(Change::Making(Box::new(making)));
                self.connection.send(&FromWorker::AllMade { notices }, &[])
            }
            Err(error) => self.connection.send_failure(&error),
        }
    }
}

/// The command by which a replaced neighbour's memory reaches the data path.
fn successor(region: RegionName, attached: Attached, start: u64) -> Result<Command, ServeError> {
    Ok(match (region, attached) {
        (RegionName::LinkProducer(link), Attached::End(end)) => {
            Command::ReplaceProducer(link, end, start)
        }
        (RegionName::LinkConsumer(link), Attached::End(end)) => Command::ReplaceConsumer(link, end),
        (RegionName::LaneProducer { from, .. }, Attached::End(end)) => {
            Command::ReplaceHomeLane(from, end, start)
        }
        (RegionName::LaneConsumer { to, .. }, Attached::End(end)) => {
            Command::ReplaceReturnLane(to, end)
        }
        (RegionName::Pool(_), Attached::View(view)) => Command::AddView(view),
        _ => {
            return Err(ServeError::Protocol(
                "memory that cannot be replaced".to_owned(),
            ));
        }
    })
}

#[cfg(test)]
#[path = "stepped.rs"]
pub(crate) mod stepped;
