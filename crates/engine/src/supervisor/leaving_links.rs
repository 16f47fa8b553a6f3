//! What a change of a running chain means for its links: which go, which each worker sends and
//! receives by then, and what has passed by those that go.

use catena_shm::ring::RingMemory;
use catena_shm::sync::Ordering;

use crate::chain::Chain;
use crate::chain::ways::longest_way;
use crate::protocol::{Admission, Rewiring};
use crate::supervisor::Supervisor;
use crate::supervisor::memory::RingName;

impl Supervisor {
    /// A link goes: what passed it stays in its ends' accounts, and what is left in it, because its
    /// receiver died, is lost and goes home.
    pub(super) fn close_accounts(
        &mut self,
        ring: &RingName,
        old_chain: &Chain,
        staying: &[(usize, u32)],
    ) {
        let Some(link) = ring.link else { return };
        let starts = (
            self.memory.start(ring.producer),
            self.memory.start(ring.consumer),
        );
        let Some(mapped) = self.memory.ring(ring, None) else {
            return;
        };
        let settled = mapped.settled().load(Ordering::Acquire);
        let tail = mapped.tail().load(Ordering::Acquire);
        let life = |worker: usize| staying.iter().find(|(stays, _)| *stays == worker).copied();
        if let Some(sender) = life(ring.from).and_then(|life| self.same_life(life)) {
            sender.tx_gone += settled.saturating_sub(starts.0);
        }
        if let Some(receiver) = life(ring.to).and_then(|life| self.same_life(life)) {
            receiver.rx_gone += tail.saturating_sub(starts.1);
        }
        // Nobody takes it any more. One that is dead has left its start where its successor would
        // go on.
        let from = starts.1.max(tail);
        self.give_up_waiting(ring, old_chain.links[link].to, from);
        // What was given up counts as received, there and here.
        let sent = settled.max(self.memory.start(ring.producer));
        let taken = tail.max(self.memory.start(ring.consumer));
        self.keep_counts_of_link(ring, link, (sent, taken));
    }

    /// What lies in links that go and whose receivers have died is lost, and its buffers go home
    /// now: a worker that leaves waits for those that are its own.
    pub(super) fn give_up_unread(
        &mut self,
        (old_chain, going, staying): (&Chain, &[RingName], &[(usize, u32)]),
    ) {
        for ring in going {
            let life = staying.iter().find(|(worker, _)| *worker == ring.to);
            let is_read = match life {
                Some(life) => self.same_life(*life).is_some(),
                None => self.instances[ring.to].is_live(),
            };
            let Some(link) = ring.link.filter(|_| !is_read) else {
                continue;
            };
            let Some(mapped) = self.memory.ring(ring, None) else {
                continue;
            };
            let start = self.memory.start(ring.consumer);
            let from = start.max(mapped.tail().load(Ordering::Acquire));
            self.give_up_waiting(ring, old_chain.links[link].to, from);
        }
    }

    /// Rings of links that go, in the order packets take them.
    pub(super) fn going(&self, old_chain: &Chain, old_rings: &[RingName]) -> Vec<RingName> {
        let kept: Vec<_> = self.placement.rings.iter().map(|ring| ring.link).collect();
        let mut going: Vec<RingName> = old_rings
            .iter()
            .filter(|ring| ring.link.is_some_and(|link| !kept.contains(&link)))
            .copied()
            .collect();
        let ways = old_chain.links.iter();
        // The places of links that are gone lead nowhere.
        let goes_on = |node: usize| old_chain.nodes.get(node).is_some_and(|n| !n.ends_paths());
        let ways = ways.filter(|link| goes_on(link.to));
        let ways: Vec<(usize, usize)> = ways.map(|link| (link.from, link.to)).collect();
        going.sort_by_cached_key(|ring| {
            ring.link
                .map_or(0, |link| longest_way(old_chain.links[link].from, &ways))
        });
        going
    }

    /// Whose lanes return what to `worker`, and from it.
    pub(super) fn admission(&self, worker: usize) -> Admission {
        let lanes = &self.placement.lanes;
        let home = lanes.iter().filter(|lane| lane.to == worker);
        let away = lanes.iter().filter(|lane| lane.from == worker);
        Admission {
            home_links: home.map(|lane| (lane.from, lane.links.clone())).collect(),
            lane_pools: away.map(|lane| (lane.to, lane.pools.clone())).collect(),
        }
    }

    /// By which links the nodes of `worker` send.
    pub(super) fn rewiring(&self, worker: usize) -> Rewiring {
        let chain = &self.chain;
        let output_count = |node: usize| match &chain.nodes[node].kind {
            crate::chain::NodeKind::Port { .. } => 1,
            crate::chain::NodeKind::Nf { plan, .. } => plan.outputs.len(),
        };
        let is_ring = |link: usize| self.placement.rings.iter().any(|ring| ring.link == link);
        let outputs = self.placement.workers[worker].nodes.iter().map(|node| {
            let mut links = vec![None; output_count(*node)];
            for (index, link) in chain.links_from(*node).filter(|(index, _)| is_ring(*index)) {
                if let Some(slot) = links.get_mut(usize::from(link.output)) {
                    *slot = Some(index);
                }
            }
            (*node, links)
        });
        Rewiring {
            outputs: outputs.collect(),
        }
    }

    /// The links that reach each node of `worker`, in order of its inputs: those of the chain that
    /// it reads by now, and `old` ones, each with its number, its receiving node and its input.
    pub(super) fn inputs(
        &self,
        worker: usize,
        is_read: impl Fn(usize) -> bool,
        old: &[(usize, usize, u8)],
    ) -> Vec<(usize, Vec<(usize, u8)>)> {
        let nodes = self.placement.workers[worker].nodes.iter();
        let is_ring = |link: usize| self.placement.rings.iter().any(|ring| ring.link == link);
        let inputs = nodes.map(|node| {
            let here = self.chain.links_to(*node);
            let here = here.filter(|(index, _)| is_read(*index) && is_ring(*index));
            let here = here.map(|(index, link)| (index, link.input));
            let old = old.iter().filter(|(_, to, _)| to == node);
            let old = old.map(|(index, _, input)| (*index, *input));
            let mut links: Vec<_> = here.chain(old).collect();
            links.sort_by_key(|(_, input)| *input);
            (*node, links)
        });
        inputs.collect()
    }
}
