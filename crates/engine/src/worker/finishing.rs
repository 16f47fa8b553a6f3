//! The end of a worker: its last turns, in which ports send what they hold, and what is said when
//! they are closed.

use crate::nf::Nanos;
use crate::protocol::PortClosing;
use crate::worker::graph::Work;
use crate::worker::runner::Runner;

impl Runner {
    /// Last turns: ports send what they hold, then close.
    pub(super) fn finish(mut self) -> Vec<PortClosing> {
        self.turn.receiving = false;
        self.turn.emitting = false;
        let deadline = self.clock.now_ns() + 5_000_000_000;
        while self.clock.now_ns() < deadline {
            let now = Nanos(self.clock.now_ns());
            let moved = self.turn.run(&mut self.graph, &mut self.pools, now);
            let holds = self.graph.nodes.iter().any(|node| match &node.work {
                Work::Port { port, .. } => port.holds_packets(),
                _ => false,
            });
            if !moved && !holds {
                break;
            }
        }
        let mut closed = Vec::new();
        for node in &mut self.graph.nodes {
            node.let_go(&mut self.pools);
            closed.push(node.close_port(&mut self.pools));
        }
        let mut closings = Vec::new();
        let nodes = self.graph.chain_node_count();
        for (node, closed) in self.graph.nodes[..nodes].iter_mut().zip(closed) {
            let (error, counted) = match &mut node.work {
                Work::Port { port, .. } => (closed.err(), port.report()),
                Work::Nf(nf) => (None, nf.report()),
                Work::Bypass => continue,
            };
            let has_word = |name: &str| node.counter_names.iter().any(|known| known == name);
            let rest = counted.into_iter().filter(|(name, _)| !has_word(name));
            closings.push(PortClosing {
                node: node.index,
                counters: rest.map(|(name, value)| (name.to_owned(), value)).collect(),
                error: error.map(|error| error.to_string()),
            });
        }
        // Behind the closing, which counts too.
        self.store_counters(self.clock.now_ns());
        closings
    }
}
