//! Packets that do not come from an input: what NFs hold and make, asked for when it is time.
//!
//! Beside the path of a packet: behind a burst, and in turns without one.

use super::Turn;
use crate::nf::{Emission, Nanos};
use crate::pools::Pools;
use crate::stats::MADE_WORD;
use crate::worker::graph::{Graph, Work, WorkerNode};

impl Turn {
    /// Steps 2 and 3: an NF sends what it holds or makes, if it is time to ask it.
    #[inline]
    pub(super) fn emit_from(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        position: usize,
        now: Nanos,
    ) -> bool {
        let holding = &graph.nodes[position].holding;
        if !(holding.emits && self.emitting) {
            return false;
        }
        let asked = holding.is_to_be_asked(now) && self.ask(graph, pools, position, now);
        let next = graph.nodes[position].holding.next;
        self.next_event = [self.next_event, next].into_iter().flatten().min();
        asked
    }

    /// Asks an NF for what it sends now.
    fn ask(&mut self, graph: &mut Graph, pools: &mut Pools, position: usize, now: Nanos) -> bool {
        self.rooms.clear();
        for output in 0..graph.nodes[position].outputs.len() {
            // What is not connected takes anything, and drops it.
            let room = graph.output_room(position, output, self.burst, 1);
            self.rooms.push(room.unwrap_or(self.burst));
        }
        let node = &mut graph.nodes[position];
        let Work::Nf(nf) = &mut node.work else {
            return false;
        };
        let holding = &mut node.holding;
        let mut out = Emission::new(pools, &mut holding.hold, &mut self.rooms, !self.receiving)
            .with_shared_room(node.fan > 1);
        let next = nf.emit(&mut out, now);
        holding.waits = out.waits();
        // What waits for room is told by a bell: its instant, which is over, keeps nobody awake.
        holding.next = next.filter(|next| *next > now || !holding.waits);
        holding.is_due = false;
        if node.holding.hold.is_idle() {
            return false;
        }
        self.verdicts.clear();
        self.carry_out(graph, pools, position);
        self.probe.is_unseen();
        self.probe.note_cursors(&mut graph.nodes[position].outputs);
        true
    }

    /// Counts packets of the NF's own making: as received, so that received = sent + dropped + held
    /// holds for every node. Before they leave, so that the account of a worker that is killed
    /// knows of them: no cursor does.
    pub(super) fn count_made(&self, node: &mut WorkerNode, position: usize) {
        let (made, bytes) = node.holding.hold.take_made();
        if made == 0 {
            return;
        }
        node.counters.made += made;
        node.counters.rx_packets += made;
        node.counters.rx_bytes += bytes;
        if let Some((page, layout)) = &self.page
            && position < layout.node_count
        {
            page.store(layout.node(position) + 1 + MADE_WORD, &[node.counters.made]);
        }
    }
}
