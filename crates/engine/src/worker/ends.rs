//! Ends of links that are ports: a link over TCP is a port beside the node at either end (ADR 13).
//!
//! Control path: `add_port` expands such a link when a worker is built, so that all behind it
//! knows nodes, queues and rings only; [`Plugs`] are how the control thread gives its connections
//! to these ports. What a turn does with them: `turn/ends.rs`.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use crate::geometry::pool_geometry;
use crate::link::counters::{RxCounters, TxCounters};
use crate::link::tcp::{News, RX_NAMES, TX_NAMES, TcpRx, TcpTx, rx_counters, tx_counters};
use crate::load::Load;
use crate::port::{Port, RxState};
use crate::probe::NodeCost;
use crate::protocol::{Assignment, EdgeSpec, RegionName, RingSpec};
use crate::stats::NodeCounters;
use crate::worker::build_error::BuildError;
use crate::worker::connect::Joined;
use crate::worker::graph::{Graph, InEdge, OutEdge, WorkerNode};
use crate::worker::holding::Holding;
use crate::worker::link_end::LinkEnd;
use crate::worker::socket_wait::SocketWait;
use crate::worker::work::Work;

/// Packets that such a queue takes without allocating.
const QUEUE: usize = 256;

/// By which of a node's sides an end of a link serves it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way {
    /// Packets leave by this output.
    Out(u8),
    /// They come to this input.
    In(u8),
}

/// Puts a port for this worker's end of the link `spec` beside the node that it serves: the sender
/// or the receiver of `edge`, by its position. `start_of` says where the sides of links continue.
/// Gives by what the port is told of connections.
pub(super) fn add_port(
    graph: &mut Graph,
    (assignment, start_of): (&Assignment, impl Fn(RegionName) -> u64),
    spec: &RingSpec,
    (edge, from, to): (&EdgeSpec, Option<usize>, Option<usize>),
) -> Result<Sender<News>, BuildError> {
    let (plug, news) = channel();
    match (from, to) {
        (Some(from), _) => {
            let start = start_of(RegionName::LinkProducer(spec.link));
            let port = Box::new(TcpTx::new(spec, start, news));
            graph.add_end(spec.link, from, Way::Out(edge.output), port)?;
        }
        (None, Some(to)) => {
            let start = start_of(RegionName::LinkConsumer(spec.link));
            let port = Box::new(TcpRx::new(start, packet_len_max(assignment), news));
            graph.add_end(spec.link, to, Way::In(edge.input), port)?;
        }
        (None, None) => return Err(BuildError::Inconsistent("a link that ends elsewhere")),
    }
    Ok(plug)
}

/// Longest packet that a worker's own pools hold.
fn packet_len_max(assignment: &Assignment) -> usize {
    let own = assignment.pools.iter().filter(|pool| {
        // Bundles are filled with packets that came in one piece.
        pool.owner == assignment.worker && !pool.bundles
    });
    own.map(|pool| pool_geometry(pool).packet_len_max())
        .max()
        .unwrap_or(0)
}

fn node(port: Box<dyn Port>, receives: bool) -> WorkerNode {
    let names = if receives { &RX_NAMES[..] } else { &TX_NAMES };
    let work = Work::Port {
        port,
        receives,
        state: RxState::Idle,
    };
    WorkerNode {
        index: usize::MAX,
        name: String::new(),
        counter_names: names.iter().map(|&name| name.to_owned()).collect(),
        holding: Holding::of(&work),
        work,
        inputs: Vec::new(),
        input_numbers: Vec::new(),
        outputs: Vec::new(),
        is_end: false,
        has_dropped: false,
        fan: 1,
        counters: NodeCounters::default(),
        cost: NodeCost::default(),
    }
}

impl Graph {
    /// Puts `port`, an end of `link`, beside the node at position `beside`.
    pub(super) fn add_end(
        &mut self,
        link: usize,
        beside: usize,
        way: Way,
        port: Box<dyn Port>,
    ) -> Result<(), BuildError> {
        let queue = self.queues.len();
        let (target, receives) = match way {
            Way::Out(output) => {
                let slot = self.nodes[beside].outputs.get_mut(usize::from(output));
                let none = "a link from an output that does not exist";
                *slot.ok_or(BuildError::Inconsistent(none))? = OutEdge::Local { queue };
                (self.nodes.len(), false)
            }
            Way::In(input) => {
                self.nodes[beside].add_input(InEdge::Local { queue }, input);
                (beside, true)
            }
        };
        self.queues.push(Load::with_capacity(QUEUE));
        self.queue_targets.push(target);
        self.nodes.push(node(port, receives));
        self.congested.push(false);
        self.ends.push(LinkEnd {
            link,
            beside,
            queue,
            receives,
        });
        Ok(())
    }

    /// How many of the nodes are the chain's; the rest are ends of links.
    #[inline]
    pub fn chain_node_count(&self) -> usize {
        self.nodes.len() - self.ends.len()
    }

    /// What the links that leave have counted, by index of the link; those that have gone last.
    pub fn tx_counters(&self) -> impl Iterator<Item = (usize, TxCounters)> {
        let links = self.tx_links().map(|link| (link.index, link.counters));
        let ports = self.end_nodes().filter(|(end, _)| !end.receives);
        let ports = ports.map(|(end, node)| (end.link, tx_counters(&node.counters)));
        links.chain(ports).chain(self.gone.sent.iter().copied())
    }

    /// What the links that come have counted, by index of the link; those that have gone last.
    pub fn rx_counters(&self) -> impl Iterator<Item = (usize, RxCounters)> {
        let links = self.rx_links().map(|link| (link.index, link.counters));
        let ports = self.end_nodes().filter(|(end, _)| end.receives);
        let ports = ports.map(|(end, node)| (end.link, rx_counters(&node.counters)));
        links.chain(ports).chain(self.gone.received.iter().copied())
    }

    fn end_nodes(&self) -> impl Iterator<Item = (&LinkEnd, &WorkerNode)> {
        self.ends.iter().zip(&self.nodes[self.chain_node_count()..])
    }
}

/// How the control thread reaches the ports of links.
#[derive(Debug, Default)]
pub struct Plugs {
    /// By index of the link.
    plugs: Vec<(usize, Sender<News>)>,
    /// What the data path sleeps on, if it has such ports.
    pub(super) sockets: Option<Arc<SocketWait>>,
}

impl Plugs {
    /// The port of `link` is told by `plug`.
    pub fn add(&mut self, link: usize, plug: Sender<News>) {
        self.plugs.push((link, plug));
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.plugs.is_empty()
    }

    /// A connection has come, or gone. The data path is to be woken.
    pub(super) fn join(&self, joined: Joined) {
        match joined {
            Joined::Receive(link, socket) | Joined::Send(link, Some(socket)) => {
                self.sleep_on(&socket);
                self.tell(link, News::Connected(socket));
            }
            Joined::Send(link, None) => {
                self.tell(link, News::Disconnected);
            }
        }
    }

    /// The receiver of `link` is down; false if the link has no port.
    pub fn peer_down(&self, link: usize) -> bool {
        self.tell(link, News::PeerDown)
    }

    fn tell(&self, link: usize, news: News) -> bool {
        let plug = self.plugs.iter().find(|(here, _)| *here == link);
        // The data path may have ended.
        plug.is_some_and(|(_, plug)| plug.send(news).is_ok())
    }

    /// Without this the data path would see what a socket has no later than at its next tick.
    fn sleep_on(&self, socket: &OwnedFd) {
        if let Some(sockets) = &self.sockets {
            let _ = sockets.add(socket);
        }
    }
}

#[cfg(test)]
#[path = "ends_tests.rs"]
mod tests;
