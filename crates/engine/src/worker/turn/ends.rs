//! Ports that are ends of links: what comes by them, and what leaves.
//!
//! Beside the path of a packet through rings: in place of its pull, or of its send. What they count
//! is the link's (`worker/ends.rs`); what is lost at them counts for the node that they serve.

use super::Turn;
use crate::drop_reason::DropReason;
use crate::link::bytes_of;
use crate::nf::Nanos;
use crate::pools::Pools;
use crate::port::{RxBurst, TxBurst};
use crate::worker::graph::{Graph, Work};
use crate::worker::link_end::LinkEnd;

impl Turn {
    /// Step 2: what comes by links joins the queues of the nodes that it is for; also while the
    /// chain drains.
    #[inline]
    pub(super) fn receive_by_links(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        now: Nanos,
    ) -> bool {
        let mut moved = false;
        for n in 0..graph.ends.len() {
            let end = graph.ends[n];
            if end.receives {
                let position = graph.chain_node_count() + n;
                moved |= self.receive_by(graph, pools, (position, end), now);
            }
        }
        moved
    }

    fn receive_by(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        (position, end): (usize, LinkEnd),
        now: Nanos,
    ) -> bool {
        let room = graph.room_for(end.beside, self.burst);
        let node = &mut graph.nodes[position];
        let Work::Port { port, .. } = &mut node.work else {
            return false;
        };
        if room == 0 {
            return false;
        }
        self.probe.before_taking();
        let (packets, drops) = (&mut self.load.packets, &mut node.counters.drops);
        port.rx(&mut RxBurst::new(pools, packets, room, drops), now);
        let count = self.load.count() as u64;
        node.counters.rx_packets += count;
        node.counters.rx_bytes += self.load.count_bytes();
        let lost = std::mem::take(&mut node.counters.drops[DropReason::LinkLost.index()]);
        let beside = &mut graph.nodes[end.beside];
        if !matches!(beside.work, Work::Port { .. }) {
            beside.counters.rx_packets += lost;
        }
        beside.count_drops(DropReason::LinkLost, lost);
        if count == 0 {
            return lost > 0;
        }
        beside.cost.take_ns += self.probe.carried(&self.load);
        self.load.append_to(&mut graph.queues[end.queue]);
        true
    }

    /// Step 4: what nodes have sent leaves by links.
    #[inline]
    pub(super) fn transmit_by_links(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        now: Nanos,
    ) -> bool {
        let mut moved = false;
        for n in 0..graph.ends.len() {
            let end = graph.ends[n];
            if !end.receives && !graph.queues[end.queue].is_empty() {
                let position = graph.chain_node_count() + n;
                self.transmit_by(graph, pools, (position, end), now);
                moved = true;
            }
        }
        moved
    }

    fn transmit_by(
        &mut self,
        graph: &mut Graph,
        pools: &mut Pools,
        (position, end): (usize, LinkEnd),
        now: Nanos,
    ) {
        let node = &mut graph.nodes[position];
        let Work::Port { port, .. } = &mut node.work else {
            return;
        };
        graph.queues[end.queue].append_to(&mut self.load);
        let (count, bytes) = (self.load.count(), self.load.count_bytes());
        self.probe.before_taking();
        let mut burst = TxBurst::new(&mut self.load, pools);
        let sent = port.tx(&mut burst, now);
        let why = burst.rest();
        let lost = if sent < count {
            self.load.take_apart(pools);
            bytes.saturating_sub(bytes_of(&self.load.packets[..sent]))
        } else {
            0
        };
        node.counters.tx_packets += sent as u64;
        node.counters.tx_bytes += bytes - lost;
        let beside = &mut graph.nodes[end.beside];
        let unsent = (count - sent) as u64;
        if !matches!(beside.work, Work::Port { .. }) {
            // It was counted as sent when it joined the queue.
            beside.counters.tx_packets -= unsent;
            beside.counters.tx_bytes -= lost;
        }
        beside.count_drops(why, unsent);
        beside.cost.send_ns += self.probe.carried(&self.load);
        self.load.release(pools);
    }
}
