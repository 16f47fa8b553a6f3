//! The run loop: turn after turn, and what happens when a turn moves nothing.
//!
//! One runner is one thread of the data path. The control thread of the same worker reaches it by a
//! queue of [`Command`]s, looked at when a flag says so, and by a private bell.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::Duration;

use catena_shm::bell::{self, WaitWord};
use catena_shm::counters::Counters;
use catena_shm::pool::PoolView;
use catena_shm::ring_memory::RingEnd;
use catena_shm::schedule::ask_for_slices;
use catena_shm::tsc::Clock;
use rustix::event::epoll;

use crate::link::RxLink;
use crate::nf::Nanos;
use crate::nf::exchange::BUDGET;
use crate::pools::Pools;
use crate::port::RxState;
use crate::probe::ProbeSettings;
use crate::protocol::{Admission, FromWorker, PortClosing, RegionName, Rewiring};
use crate::stats::{IDLE_TURNS_WORD, PageLayout, RECLAIMED_WORD, WorkerCounters};
use crate::wait::WaitPolicy;
use crate::worker::build::{Additions, Admitted, link_set};
use crate::worker::doorbell::Doorbell;
use crate::worker::gone_links::GoneLinks;
use crate::worker::graph::{Graph, Work};
use crate::worker::idleness::Idleness;
use crate::worker::node_memory::Rebuild;
use crate::worker::socket_wait::SocketWait;
use crate::worker::turn::Turn;

/// What the control thread asks of the data path, between two turns.
#[derive(Debug)]
pub enum Command {
    /// The sender of a link was replaced.
    ReplaceProducer(usize, RingEnd, u64),
    /// The receiver of a link was replaced.
    ReplaceConsumer(usize, RingEnd),
    /// A worker that returns buffers here was replaced.
    ReplaceHomeLane(usize, RingEnd, u64),
    /// An owner that buffers are returned to was replaced.
    ReplaceReturnLane(usize, RingEnd),
    /// A pool became visible.
    AddView(PoolView),
    /// The receiver of a link is down and packets for it are to be dropped.
    PeerDown(usize),
    /// Buffers of a pool owned here that a dead worker held.
    Reclaim {
        /// Number of the request.
        number: u64,
        /// Links by which they can be out.
        links: Vec<u8>,
        /// The pool.
        pool: u16,
        /// Its buffers.
        buffers: Vec<u32>,
    },
    /// Mark what is out by these links, by index.
    Seek(Vec<u8>),
    /// Marked buffers of a pool owned here that nobody has.
    TakeFound {
        /// Number of the request.
        number: u64,
        /// The pool.
        pool: u16,
        /// Its buffers.
        buffers: Vec<u32>,
    },
    /// Nothing is looked for any more.
    EndSeek,
    /// Say so when this is reached.
    Sync(u64),
    /// New lanes and pools, and whose lanes may return what.
    Admit(Box<Admitted>, Admission),
    /// New links and settings, and how outputs are to be.
    Rewire(Box<Additions>, Rewiring),
    /// Links that reach each node, in order; new ones among them come along.
    Inputs(Vec<(usize, Vec<(usize, u8)>)>, Vec<RxLink>),
    /// Take no more packets in; the round in which this is asked.
    Drain(u64),
    /// Stand still, or go on.
    Hold(bool),
    /// Finish.
    Stop,
    /// What probes are to note.
    Probe(ProbeSettings),
    /// A request to a node.
    Control(u64, usize, serde_json::Value),
}

/// How often NFs are ticked and an idle worker looks around by itself.
const TICK_NS: u64 = 10_000_000;
/// Ticks during which a new data path keeps the short slices that its control thread asked for.
const TICKS_AT_START: u32 = 3;
/// How long a data path runs at a time where others want its core, too: some thousand packets, and
/// short enough for a neighbour that shares the core, or for a worker that is to die.
const DATA_PATH_SLICE: Duration = Duration::from_micros(300);
/// Below this, waiting for a time is done awake: a sleep would overshoot it.
const AWAKE_NS: u64 = 80_000;

/// Number of the event by which the control thread learns of sockets that a data path asleep on
/// futexes cannot see.
pub(super) const SOCKETS_EVENT: u64 = u64::MAX;

/// One data-path thread.
pub struct Runner {
    /// Index of the worker.
    pub worker: usize,
    /// Its nodes.
    pub graph: Graph,
    /// Its pools.
    pub pools: Pools,
    /// Scratch space.
    pub turn: Turn,
    /// The clock.
    pub clock: Clock,
    /// How it waits.
    pub wait: WaitPolicy,
    /// Its counters page.
    pub counters: Arc<Counters>,
    /// Where blocks lie in the page.
    pub layout: PageLayout,
    /// Commands from the control thread.
    pub commands: Receiver<Command>,
    /// How the control thread rings.
    pub doorbell: Arc<Doorbell>,
    /// Where file descriptors of ports are watched.
    pub watch: Arc<OwnedFd>,
    /// Tells the supervisor something; false if it is gone.
    pub report: Box<dyn FnMut(&FromWorker) -> bool + Send>,
    /// Sums since the start.
    pub sums: WorkerCounters,
    /// The round in which it was last asked whether it is drained.
    pub drain_round: u64,
    /// Whether the supervisor knows that this worker is drained.
    pub drained_said: bool,
    /// Whether it stands still, since somebody else changes the memory of its NFs.
    pub is_held: bool,
    /// Words to sleep on; kept, so that falling asleep allocates nothing.
    pub words: Vec<WaitWord>,
    /// What it sleeps on if links of it are sockets.
    pub sockets: Option<Arc<SocketWait>>,
    /// When all counters were stored last.
    pub stored_at: u64,
}

/// What a runner remembers from one turn to the next.
#[derive(Debug, Default)]
pub(super) struct Pace {
    next_tick: u64,
    ticks: u32,
    finished_said: bool,
    busy_since: Option<u64>,
}

impl std::fmt::Debug for Runner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner")
            .field("graph", &self.graph)
            .finish_non_exhaustive()
    }
}

impl Runner {
    /// Runs until told to stop; closes the ports, and gives what they and the NFs said.
    pub fn run(mut self) -> Vec<PortClosing> {
        let mut idle = Idleness::default();
        let mut pace = Pace::default();
        self.prepare();
        loop {
            if self.doorbell.is_rung() && !self.obey() {
                break;
            }
            let now = self.clock.now_ns();
            if self.pass(&mut pace, now) {
                idle.end();
            } else {
                self.idle(&mut idle, now, pace.next_tick);
            }
        }
        self.finish()
    }

    /// A tick, if it is time, and a turn; says whether that moved anything.
    #[inline]
    pub(super) fn pass(&mut self, pace: &mut Pace, now: u64) -> bool {
        if let Some(since) = pace.busy_since.take() {
            self.sums.busy_ns += now.saturating_sub(since);
        }
        if now >= pace.next_tick {
            self.tick(now);
            // Also of one that only spins: whoever watches sees that it turns.
            self.counters
                .store(IDLE_TURNS_WORD, &[self.sums.idle_turns]);
            pace.ticks = pace.ticks.saturating_add(1);
            if pace.ticks == TICKS_AT_START {
                // The first packets have waited for this thread; from now on bursts count.
                ask_for_slices(Some(DATA_PATH_SLICE));
            }
            pace.next_tick = now + TICK_NS;
            self.tell_drained();
            if !pace.finished_said && self.turn.receiving && self.graph.sources_finished() {
                pace.finished_said = (self.report)(&FromWorker::Finished);
            }
        }
        let moved = self.turn(now);
        if moved {
            self.sums.busy_turns += 1;
            pace.busy_since = Some(now);
            self.store_some(now);
        } else {
            self.sums.idle_turns += 1;
        }
        moved
    }

    /// A turn, unless it stands still.
    #[inline]
    fn turn(&mut self, now: u64) -> bool {
        !self.is_held && self.turn.run(&mut self.graph, &mut self.pools, Nanos(now))
    }

    /// Before the first turn.
    pub(super) fn prepare(&mut self) {
        self.turn.page = Some((self.counters.clone(), self.layout));
        let own = self.pools.own().iter();
        let plain = own.filter(|pool| !pool.geometry().bundles);
        let buffers: usize = plain.map(|pool| pool.free_count() as usize).sum();
        for node in &mut self.graph.nodes {
            if node.holding.emits {
                node.holding.hold.reserve(buffers);
            }
        }
        self.graph.list_nodes();
    }

    /// Nothing moved: spin, give way, or sleep, by the policy.
    fn idle(&mut self, idle: &mut Idleness, now: u64, next_tick: u64) {
        let since_ns = idle.go_on(now);
        let sums = || (self.graph.packets(), self.sums.busy_turns);
        let event = self.turn.next_event.map_or(u64::MAX, |time| time.0);
        let is_near = event < now + AWAKE_NS;
        let spins = since_ns < self.wait.spin_ns;
        // Until a near instant comes, giving way all the time would keep others from the core, not
        // let them to it (docs/adr/0007).
        let yields = !spins
            && (idle.may_yield(self.wait, self.turn.burst, sums)
                || !self.wait.sleeps
                || (is_near && idle.owes_a_yield(now)));
        if !spins && !yields && !is_near {
            return self.sleep(now, next_tick);
        }
        if self.is_behind(now) {
            self.store_counters(now);
        }
        if yields {
            idle.yielded(now);
            self.sums.yields += 1;
            std::thread::yield_now();
            self.turn.probe.gave_way();
        } else {
            std::hint::spin_loop();
        }
    }

    fn sleep(&mut self, now: u64, until: u64) {
        self.store_counters(now);
        let mut words = std::mem::take(&mut self.words);
        words.clear();
        words.push(self.doorbell.word());
        for link in self.graph.rx_links_mut() {
            link.prepare_to_sleep(&mut words);
        }
        for link in self.graph.tx_links_mut() {
            link.prepare_to_sleep(&mut words);
        }
        self.pools.prepare_to_sleep(&mut words);
        // Nothing but the doorbell can ring by futex: sockets then are slept on directly.
        let only_sockets = words.len() == 1;
        if let Some(sockets) = &self.sockets {
            sockets.clear();
        }
        self.watch_ports(only_sockets);
        bell::full_fence();
        // The last look: whoever published before seeing that we wait is found now.
        let now = self.clock.now_ns();
        let moved = self.turn(now);
        if moved {
            self.sums.busy_turns += 1;
        }
        // It may also have found a link full that had room before, or an instant that is near.
        let event = self.turn.next_event.map_or(u64::MAX, |time| time.0);
        let is_heard = !self.graph.tx_links_mut().any(|link| link.lacks_bell());
        if !moved && is_heard && event >= now + AWAKE_NS && !self.doorbell.has_command() {
            // The rest is waited for awake, so that the instant is met.
            let until = until.min(event - AWAKE_NS);
            self.sums.sleeps += 1;
            let time = Duration::from_nanos(until.saturating_sub(now));
            match &self.sockets {
                Some(sockets) if only_sockets => sockets.sleep(time),
                _ => bell::sleep(&words, time),
            }
            let woke = self.clock.now_ns();
            self.sums.sleep_ns += woke.saturating_sub(now);
            self.turn.probe.woke(woke);
        }
        for link in self.graph.rx_links_mut() {
            link.after_sleep();
        }
        for link in self.graph.tx_links_mut() {
            link.after_sleep();
        }
        self.pools.after_sleep();
        self.words = words;
    }

    /// Asks the control thread to ring when a port's descriptor becomes readable, or a socket if
    /// this thread cannot wait for it by itself.
    fn watch_ports(&self, only_sockets: bool) {
        if let Some(sockets) = self.sockets.as_ref().filter(|_| !only_sockets) {
            self.watch_once(sockets.as_fd(), SOCKETS_EVENT);
        }
        for (position, node) in self.graph.nodes.iter().enumerate() {
            let Work::Port {
                port,
                receives: true,
                state,
            } = &node.work
            else {
                continue;
            };
            if matches!(state, RxState::Finished | RxState::Failed) {
                continue;
            }
            if let Some(fd) = port.poll_fd() {
                self.watch_once(fd, position as u64 + 1);
            }
        }
    }

    fn watch_once(&self, fd: BorrowedFd<'_>, event: u64) {
        let data = epoll::EventData::new_u64(event);
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        if epoll::modify(&*self.watch, fd, data, flags) == Err(rustix::io::Errno::NOENT) {
            let _ = epoll::add(&*self.watch, fd, data, flags);
        }
    }

    fn tick(&mut self, now: u64) {
        let ticked = if self.is_held {
            &mut [][..]
        } else {
            &mut self.graph.nodes[..]
        };
        for node in ticked {
            if let Work::Nf(nf) = &mut node.work {
                nf.tick(Nanos(now));
                node.holding.is_due = node.holding.emits;
            }
        }
        self.turn.probe.note_all(&mut self.graph.nodes, Nanos(now));
        self.turn.probe.tick(Nanos(now));
        self.accuse();
    }

    /// Tells the supervisor once that nothing is taken in any more, and that no NF holds what must
    /// leave.
    fn tell_drained(&mut self) {
        if !self.turn.receiving && !self.drained_said && !self.graph.holds_packets() {
            let round = self.drain_round;
            self.drained_said = (self.report)(&FromWorker::Drained { round });
        }
    }

    /// Lets NFs take what their control halves have sent, each a bounded number between two turns.
    fn exchange(&mut self) {
        let mut has_more = false;
        for node in &mut self.graph.nodes {
            if let Work::Nf(nf) = &mut node.work {
                has_more |= nf.exchange(BUDGET);
            }
        }
        if has_more {
            self.doorbell.has_more_values();
        }
    }

    /// Carries out what the control thread asked; false to stop.
    pub(super) fn obey(&mut self) -> bool {
        if self.doorbell.take_values() {
            self.exchange();
        }
        while let Ok(command) = self.commands.try_recv() {
            match command {
                Command::ReplaceProducer(link, end, start) => {
                    if let Some(rx) = self.graph.rx_links_mut().find(|rx| rx.index == link) {
                        rx.replace_producer(end, start);
                    }
                }
                Command::ReplaceConsumer(link, end) => {
                    if let Some(tx) = self.graph.tx_links_mut().find(|tx| tx.index == link) {
                        tx.replace_consumer(end);
                    }
                }
                Command::ReplaceHomeLane(from, end, start) => {
                    if let Some(lane) = self.pools.home_lane_mut(from) {
                        lane.replace_producer(end, start);
                    }
                }
                Command::ReplaceReturnLane(to, end) => {
                    if let Some(lane) = self.pools.return_lane_mut(to) {
                        lane.replace_consumer(end);
                    }
                }
                Command::AddView(view) => self.pools.add_view(view),
                Command::PeerDown(link) => {
                    if let Some(tx) = self.graph.tx_links_mut().find(|tx| tx.index == link) {
                        tx.set_peer_down();
                    }
                }
                Command::Reclaim {
                    number,
                    links,
                    pool,
                    buffers,
                } => {
                    self.pools.reclaim(link_set(&links), pool, &buffers);
                    self.has_reclaimed(number);
                }
                Command::Seek(links) => self.pools.begin_search(&link_set(&links)),
                Command::TakeFound {
                    number,
                    pool,
                    buffers,
                } => {
                    self.pools.take_found(pool, &buffers);
                    self.has_reclaimed(number);
                }
                Command::EndSeek => self.pools.end_search(),
                Command::Sync(id) => {
                    (self.report)(&FromWorker::Synced { id });
                }
                Command::Admit(admitted, admission) => self.admit(*admitted, admission),
                Command::Rewire(additions, rewiring) => self.rewire(*additions, rewiring),
                Command::Inputs(inputs, links) => self.set_inputs(&inputs, links),
                Command::Drain(round) => {
                    self.turn.receiving = false;
                    self.drain_round = round;
                    self.drained_said = false;
                    self.tell_drained();
                }
                Command::Hold(is_held) => {
                    self.is_held = is_held;
                    // What was due before may not be now; the next turn says what is.
                    self.turn.next_event = None;
                }
                Command::Stop => return false,
                Command::Probe(settings) => {
                    let now = Nanos(self.clock.now_ns());
                    self.turn.probe.set(settings, now);
                }
                Command::Control(id, node, request) => self.answer(id, node, &request),
            }
        }
        true
    }

    /// The chain changes: packets of new pools may come.
    fn admit(&mut self, admitted: Admitted, admission: Admission) {
        // What went with the change before is in the supervisor's sums by now.
        self.graph.gone = GoneLinks::default();
        for owner in admitted.owners {
            self.pools.add_owner(owner);
        }
        for view in admitted.views {
            self.pools.add_view(view);
        }
        for lane in admitted.return_lanes {
            self.pools.add_return_lane(lane);
        }
        for lane in admitted.home_lanes {
            self.pools.add_home_lane(lane);
        }
        for (from, links) in admission.home_links {
            if let Some(lane) = self.pools.home_lane_mut(from) {
                lane.links = link_set(&links);
            }
        }
        for (to, pools) in admission.lane_pools {
            self.pools.set_lane_pools(to, pools);
        }
        (self.report)(&FromWorker::Admitted);
    }

    /// The chain changes: what was added is used from the next turn on.
    fn rewire(&mut self, additions: Additions, rewiring: Rewiring) {
        for (index, work) in additions.works {
            self.graph.replace_work(index, work, &mut self.pools);
        }
        for (index, names) in additions.counter_names {
            self.graph.name_counters(index, names);
        }
        for (index, rebuild) in additions.rebuilds {
            self.rebuild(index, rebuild);
        }
        self.graph.set_outputs(&rewiring.outputs, additions.tx);
        self.graph.list_nodes();
        self.free_blocks();
        (self.report)(&FromWorker::Rewired);
    }

    /// Builds an NF again, now that the one before has let go of its memory. Packets wait for it in
    /// the node's links. One that does not take what was left goes on without, and says so.
    fn rebuild(&mut self, index: usize, rebuild: Rebuild) {
        match rebuild.build() {
            Ok(work) => self.graph.replace_work(index, work, &mut self.pools),
            Err(error) => {
                let message = format!("it runs without what was left to it: {error}");
                let node = Some(index);
                (self.report)(&FromWorker::Failed { node, message });
            }
        }
    }

    fn set_inputs(&mut self, inputs: &[(usize, Vec<(usize, u8)>)], links: Vec<RxLink>) {
        self.graph.set_inputs(inputs, links);
        self.free_blocks();
    }

    /// Buffers of dead workers are home. The number of the request is stored before the next turn:
    /// should this worker die, whatever the ledger still calls out of an unfinished request is not.
    fn has_reclaimed(&mut self, number: u64) {
        self.sums.reclaimed = number;
        bell::full_fence();
        self.counters.store(RECLAIMED_WORD, &[number]);
        bell::full_fence();
    }

    /// Tells the supervisor of neighbours that wrote what no honest one would.
    fn accuse(&mut self) {
        let mut accused = Vec::new();
        for link in self.graph.tx_links_mut() {
            let count = link.accusation();
            accused.extend(count.map(|count| (RegionName::LinkConsumer(link.index), count)));
        }
        for link in self.graph.rx_links_mut() {
            let count = link.accusation();
            accused.extend(count.map(|count| (RegionName::LinkProducer(link.index), count)));
        }
        let me = self.worker;
        for lane in self.pools.home_lanes_mut() {
            let (from, to) = (lane.from, me);
            let count = lane.accusation();
            accused.extend(count.map(|count| (RegionName::LaneProducer { from, to }, count)));
        }
        for lane in self.pools.return_lanes_mut() {
            let (from, to) = (me, lane.to);
            let count = lane.accusation();
            accused.extend(count.map(|count| (RegionName::LaneConsumer { from, to }, count)));
        }
        for (region, count) in accused {
            (self.report)(&FromWorker::Violation { region, count });
        }
    }

    fn answer(&mut self, id: u64, node: usize, request: &serde_json::Value) {
        let found = self.graph.nodes.iter_mut().find(|here| here.index == node);
        let result = match found.map(|node| (&mut node.work, &mut node.holding)) {
            Some((Work::Nf(nf), holding)) => {
                holding.is_due = holding.emits;
                nf.control(request)
            }
            Some(_) => Err("this node takes no control requests".to_owned()),
            None => Err("this node does not run here".to_owned()),
        };
        (self.report)(&FromWorker::Answer { id, result });
    }
}

#[cfg(test)]
#[path = "runner_tests.rs"]
mod tests;
