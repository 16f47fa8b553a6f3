//! A worker's part of the chain: its nodes, and the edges between them and to other workers.
//!
//! Edges inside a worker are plain queues that live for one turn; edges to other workers are links.
//! The order of [`Graph::nodes`] is topological, so one pass moves a packet through all nodes of
//! the worker. A node that both receives and sends (a TAP) is asked for packets first and given
//! packets last; see `turn`.

use crate::drop_reason::DropReason;
use crate::link::{RxLink, TxLink};
use crate::load::Load;
use crate::nf::Nanos;
use crate::own_counters::CounterSink;
use crate::packet::Packet;
use crate::pools::Pools;
use crate::port::{Buffers, Port, PortError, RxState};
use crate::probe::NodeCost;
use crate::stats::NodeCounters;
use crate::worker::gone_links::GoneLinks;
use crate::worker::holding::Holding;
use crate::worker::link_end::LinkEnd;
use crate::worker::lists::Lists;
pub use crate::worker::work::Work;

/// Where packets of a node's output go.
#[derive(Debug)]
pub enum OutEdge {
    /// Nowhere: dropped as `not_connected`.
    Open,
    /// To input queue `queue` of a node of this worker.
    Local {
        /// Index of the queue.
        queue: usize,
    },
    /// Over a link.
    Link(Box<TxLink>),
}

/// Where packets of a node's input come from.
#[derive(Debug)]
pub enum InEdge {
    /// From a node of this worker.
    Local {
        /// Index of the queue.
        queue: usize,
    },
    /// Over a link.
    Link(Box<RxLink>),
}

impl InEdge {
    /// Whether it comes from another worker.
    pub fn is_link(&self) -> bool {
        matches!(self, Self::Link(_))
    }
}

/// A node of this worker.
#[derive(Debug)]
pub struct WorkerNode {
    /// Its index in the chain.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Names of what it counts itself.
    pub counter_names: Vec<String>,
    /// What it does.
    pub work: Work,
    /// Where its packets come from, in the order of its inputs.
    pub inputs: Vec<InEdge>,
    /// Which input of the node each of them is: shards of one sender share one.
    pub input_numbers: Vec<u8>,
    /// Its outputs, by index.
    pub outputs: Vec<OutEdge>,
    /// Whether packets end here although it is no port: see
    /// [`Nf::ends_paths`](crate::nf::Nf::ends_paths).
    pub is_end: bool,
    /// Whether it has dropped anything, or its port has kept packets or given some back, since its
    /// counters were stored.
    pub has_dropped: bool,
    /// What it holds between turns.
    pub holding: Holding,
    /// By how much the room of its outputs is divided: above 1 where copies of a packet can meet
    /// again within this worker.
    pub fan: usize,
    /// Its counters since this worker started.
    pub counters: NodeCounters,
    /// What timed bursts cost here.
    pub cost: NodeCost,
}

/// All nodes of a worker, in topological order, and the queues between them.
#[derive(Debug, Default)]
pub struct Graph {
    /// The nodes.
    pub nodes: Vec<WorkerNode>,
    /// Local queues; empty between turns.
    pub queues: Vec<Load>,
    /// For each queue, the node (by position) that it feeds.
    pub queue_targets: Vec<usize>,
    /// For each node, how many packets it can be given in this turn without waiting: a port that
    /// paces takes few. Nodes behind the end take any number.
    pub port_rooms: Vec<usize>,
    /// For each node, whether a link its packets can leave by is above its watermark.
    pub congested: Vec<bool>,
    /// Those of the nodes, at the end of their list and in its order, that are ends of links.
    pub ends: Vec<LinkEnd>,
    /// What nodes have said of their room.
    pub asking: Asking,
    /// Which of the nodes are ports, and which NFs: see [`Graph::list_nodes`].
    pub lists: Option<Lists>,
    /// What links had counted that went with the last change.
    pub gone: GoneLinks,
}

/// The question for room that is being answered.
#[derive(Debug, Default)]
pub struct Asking {
    question: u64,
    /// By node.
    answers: Vec<Answer>,
}

/// How much room a node said that there is, and to which question.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    /// Number of the question, packets wanted and needed.
    asked: (u64, usize, usize),
    room: usize,
}

impl Graph {
    /// Lists the nodes, before the first turn and when one has got other work; else a turn does.
    pub fn list_nodes(&mut self) {
        let lists = self.take_lists();
        self.lists = Some(lists);
    }

    /// Takes the lists for a turn, which is to put them back.
    #[inline]
    pub fn take_lists(&mut self) -> Lists {
        self.lists.take().unwrap_or_else(|| {
            let nodes = &self.nodes[..self.chain_node_count()];
            Lists::of(nodes.iter().map(|node| &node.work))
        })
    }

    /// Gives the node with an index in the chain other settings, if it is here.
    pub fn replace_work(&mut self, index: usize, work: Work, pools: &mut Pools) {
        if let Some(node) = self.nodes.iter_mut().find(|node| node.index == index) {
            node.replace_work(work, pools);
            self.lists = None;
        }
    }

    /// Names what the node with an index in the chain counts itself from now on.
    pub fn name_counters(&mut self, index: usize, names: Vec<String>) {
        let mut nodes = self.nodes.iter_mut();
        let node = nodes.find(|node| node.index == index && node.counter_names != names);
        if let Some(node) = node {
            node.counter_names = names;
            node.counters.own = Default::default();
        }
    }

    /// How many packets node `position` may take without loss on a link that blocks, at most
    /// `wanted`. Packets already queued for it are subtracted. `need` is how many it takes or none:
    /// see [`TxLink::room`].
    pub fn room(&mut self, position: usize, wanted: usize, need: usize) -> usize {
        self.begin_question();
        self.room_of(position, wanted, need)
    }

    /// How many packets may be queued for node `position`, at most `wanted`: what it takes to pass
    /// on, or as a port takes to send.
    pub fn room_for(&mut self, position: usize, wanted: usize) -> usize {
        self.begin_question();
        self.room_before(position, wanted, 1)
    }

    /// How many packets can leave node `position` by `output`, at most `wanted`; nothing is said
    /// of an output that is not connected. `need` as in [`Graph::room`].
    pub fn output_room(
        &mut self,
        position: usize,
        output: usize,
        wanted: usize,
        need: usize,
    ) -> Option<usize> {
        self.begin_question();
        self.room_behind(position, output, wanted, need)
    }

    /// What was found for an earlier question is of no more use.
    fn begin_question(&mut self) {
        self.asking.question += 1;
        let count = self.nodes.len();
        self.asking.answers.resize(count, Answer::default());
    }

    /// Each node is asked once in a question, by however many ways it is reached; unless they ask
    /// for different numbers, which takes copies that are made on one way only.
    fn room_of(&mut self, position: usize, wanted: usize, need: usize) -> usize {
        if self.nodes[position].is_end {
            // What it is given goes no further.
            return wanted;
        }
        let asked = (self.asking.question, wanted, need);
        if self.asking.answers[position].asked == asked {
            return self.asking.answers[position].room;
        }
        let fan = self.nodes[position].fan;
        let (all, need) = (wanted * fan, need * fan);
        let mut room = all;
        for output in 0..self.nodes[position].outputs.len() {
            if let Some(here) = self.room_behind(position, output, all, need) {
                room = room.min(here);
            }
        }
        let queued = self.queued_for(position);
        let shared = if fan > 1 && room > 0 {
            (room / fan).max(1)
        } else {
            room
        };
        let room = shared.saturating_sub(queued);
        self.asking.answers[position] = Answer { asked, room };
        room
    }

    /// Packets that wait for node `position` in this turn.
    fn queued_for(&self, position: usize) -> usize {
        let queues = self.queue_targets.iter().zip(&self.queues);
        let here = queues.filter(|(target, _)| **target == position);
        here.map(|(_, queue)| queue.count()).sum()
    }

    fn room_behind(
        &mut self,
        position: usize,
        output: usize,
        wanted: usize,
        need: usize,
    ) -> Option<usize> {
        match &mut self.nodes[position].outputs[output] {
            OutEdge::Open => None,
            OutEdge::Link(link) => Some(link.room(wanted, need)),
            OutEdge::Local { queue } => {
                let target = self.queue_targets[*queue];
                Some(self.room_before(target, wanted, need))
            }
        }
    }

    fn room_before(&mut self, target: usize, wanted: usize, need: usize) -> usize {
        let takes = self.port_rooms.get(target).copied().unwrap_or(usize::MAX);
        let target_node = &self.nodes[target];
        if matches!(target_node.work, Work::Port { .. }) || target_node.is_end {
            // What it is given ends there: what it sends may come round to it again.
            wanted.min(takes).saturating_sub(self.queued_for(target))
        } else {
            self.room_of(target, wanted.min(takes), need)
        }
    }

    /// Whether an NF has something that must leave before the chain may end.
    pub fn holds_packets(&self) -> bool {
        self.nodes.iter().any(|node| match &node.work {
            Work::Nf(nf) => nf.holds_packets() || node.holding.hold.count() > 0,
            _ => false,
        })
    }

    /// Begins a turn at time `now`: asks ports that nodes of this worker send to how much they
    /// take. Gives the time when one that takes nothing will.
    pub fn ask_ports(&mut self, now: Nanos) -> Option<Nanos> {
        self.port_rooms.resize(self.nodes.len(), usize::MAX);
        let mut next = None;
        for target in &self.queue_targets {
            if let Work::Port { port, .. } = &mut self.nodes[*target].work {
                let room = port.tx_room(now);
                self.port_rooms[*target] = room;
                if room == 0 {
                    next = [next, port.tx_room_at()].into_iter().flatten().min();
                }
            }
        }
        next
    }

    /// Gives nodes other outputs: for each node, by index in the chain, the link of each output.
    /// Links that stay are kept, new ones are taken from `new`, others are let go of: their
    /// receivers still take what is in them. Edges inside the worker are kept.
    pub fn set_outputs(&mut self, outputs: &[(usize, Vec<Option<usize>>)], new: Vec<TxLink>) {
        let mut links: Vec<Box<TxLink>> = new.into_iter().map(Box::new).collect();
        for (index, chosen) in outputs {
            let Some(node) = self.nodes.iter_mut().find(|node| node.index == *index) else {
                continue;
            };
            let mut local = Vec::new();
            for (output, edge) in node.outputs.drain(..).enumerate() {
                match edge {
                    OutEdge::Link(link) => links.push(link),
                    OutEdge::Local { queue } => local.push((output, queue)),
                    OutEdge::Open => {}
                }
            }
            node.outputs
                .extend(chosen.iter().enumerate().map(|(output, link)| {
                    if let Some((_, queue)) = local.iter().find(|(at, _)| *at == output) {
                        return OutEdge::Local { queue: *queue };
                    }
                    let found = link.and_then(|link| links.iter().position(|l| l.index == link));
                    found.map_or(OutEdge::Open, |at| OutEdge::Link(links.swap_remove(at)))
                }));
        }
        self.gone.keep_sent(&links);
    }

    /// Gives nodes other inputs: for each node, by index in the chain, its links in order, with the
    /// input that each reaches. Links that stay are kept, new ones are taken from `new`, others are
    /// let go of; they must be empty. Edges inside the worker are kept, behind the links.
    pub fn set_inputs(&mut self, inputs: &[(usize, Vec<(usize, u8)>)], new: Vec<RxLink>) {
        let mut links: Vec<Box<RxLink>> = new.into_iter().map(Box::new).collect();
        for (index, chosen) in inputs {
            let Some(node) = self.nodes.iter_mut().find(|node| node.index == *index) else {
                continue;
            };
            let mut local = Vec::new();
            for (edge, number) in node.inputs.drain(..).zip(node.input_numbers.drain(..)) {
                match edge {
                    InEdge::Link(link) => links.push(link),
                    edge @ InEdge::Local { .. } => local.push((edge, number)),
                }
            }
            for (link, number) in chosen {
                if let Some(at) = links.iter().position(|here| here.index == *link) {
                    node.add_input(InEdge::Link(links.swap_remove(at)), *number);
                }
            }
            for (edge, number) in local {
                node.add_input(edge, number);
            }
        }
        self.gone.keep_received(&links);
    }

    /// Every sending link.
    pub fn tx_links_mut(&mut self) -> impl Iterator<Item = &mut TxLink> {
        self.nodes
            .iter_mut()
            .flat_map(|node| node.outputs.iter_mut())
            .filter_map(|edge| match edge {
                OutEdge::Link(link) => Some(link.as_mut()),
                _ => None,
            })
    }

    /// Every sending link, to be looked at.
    pub fn tx_links(&self) -> impl Iterator<Item = &TxLink> {
        let edges = self.nodes.iter().flat_map(|node| &node.outputs);
        edges.filter_map(|edge| match edge {
            OutEdge::Link(link) => Some(link.as_ref()),
            _ => None,
        })
    }

    /// Every receiving link, to be looked at.
    pub fn rx_links(&self) -> impl Iterator<Item = &RxLink> {
        let edges = self.nodes.iter().flat_map(|node| &node.inputs);
        edges.filter_map(|edge| match edge {
            InEdge::Link(link) => Some(link.as_ref()),
            InEdge::Local { .. } => None,
        })
    }

    /// Every receiving link.
    pub fn rx_links_mut(&mut self) -> impl Iterator<Item = &mut RxLink> {
        self.nodes
            .iter_mut()
            .flat_map(|node| node.inputs.iter_mut())
            .filter_map(|edge| match edge {
                InEdge::Link(link) => Some(link.as_mut()),
                InEdge::Local { .. } => None,
            })
    }

    /// Whether some neighbour may have to be woken at the end of the turn.
    pub fn has_news(&self) -> bool {
        self.nodes.iter().any(|node| {
            let sends = |edge: &OutEdge| matches!(edge, OutEdge::Link(link) if link.has_news());
            let frees = |edge: &InEdge| matches!(edge, InEdge::Link(link) if link.has_news());
            node.outputs.iter().any(sends) || node.inputs.iter().any(frees)
        })
    }

    /// Packets that the busiest node has had since the start.
    pub fn packets(&self) -> u64 {
        let counts = self.nodes.iter().map(|node| {
            let counters = &node.counters;
            counters.rx_packets.max(counters.tx_packets)
        });
        counts.max().unwrap_or(0)
    }

    /// Whether every receiving port of the chain has come to its end.
    pub fn sources_finished(&self) -> bool {
        let mut nodes = self.nodes[..self.chain_node_count()].iter();
        nodes.all(|node| match &node.work {
            Work::Port {
                receives, state, ..
            } => !receives || matches!(state, RxState::Finished | RxState::Failed),
            _ => true,
        })
    }
}

impl WorkerNode {
    /// Adds a source of packets for input `number`.
    pub fn add_input(&mut self, edge: InEdge, number: u8) {
        self.inputs.push(edge);
        self.input_numbers.push(number);
    }

    /// Gives the node other settings. A port that goes is closed; what it says is of no consequence
    /// for the one that comes. What an NF that goes still held is the one's that comes, if it takes
    /// it, or dropped.
    fn replace_work(&mut self, mut work: Work, pools: &mut Pools) {
        std::mem::swap(&mut self.work, &mut work);
        self.is_end = self.work.ends_paths();
        match (&mut work, &mut self.work) {
            (Work::Nf(old), Work::Nf(new)) if new.emits() => {
                let rest = self.holding.hold.change_hands(old.as_mut(), new.as_mut());
                self.drop_unsent(rest, pools);
            }
            _ => self.let_go(pools),
        }
        self.holding.begin(&self.work);
        if let Work::Port { port, .. } = &mut work {
            let _ = close(port.as_mut(), pools, &mut self.counters);
        }
    }

    /// Closes its port, if it is one: what a device had is given back.
    ///
    /// # Errors
    /// What the port says.
    pub fn close_port(&mut self, pools: &mut Pools) -> Result<(), PortError> {
        match &mut self.work {
            Work::Port { port, .. } => close(port.as_mut(), pools, &mut self.counters),
            _ => Ok(()),
        }
    }

    /// Reads what the node counts itself.
    pub fn read_own_counters(&mut self) {
        if self.counter_names.is_empty() {
            return;
        }
        let mut out = CounterSink::live(&self.counter_names, &mut self.counters.own);
        match &self.work {
            Work::Port { port, .. } => port.counters(&mut out),
            Work::Nf(nf) => nf.counters(&mut out),
            Work::Bypass => {}
        }
    }

    /// Drops what its NF holds.
    pub fn let_go(&mut self, pools: &mut Pools) {
        let held = self.holding.hold.drain().collect();
        self.drop_unsent(held, pools);
    }

    fn drop_unsent(&mut self, packets: Vec<Packet>, pools: &mut Pools) {
        for packet in packets {
            self.count_drops(DropReason::Unsent, 1);
            pools.free(packet);
        }
    }

    /// Counts `count` drops of this node.
    pub fn count_drops(&mut self, reason: DropReason, count: u64) {
        self.counters.drops[reason.index()] += count;
        self.has_dropped |= count > 0;
    }
}

fn close(
    port: &mut dyn Port,
    pools: &mut Pools,
    counters: &mut NodeCounters,
) -> Result<(), PortError> {
    let closed = port.close();
    port.reap(&mut Buffers::new(pools, counters), Nanos(0));
    closed
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
