//! Who is joined to whom: found once, since a chain of many shards has thousands of links. Pure.

use std::collections::BTreeSet;

use crate::chain::model::is_link_gone;
use crate::chain::model::{Chain, Trust};
use crate::protocol::RingSpec;

/// Links of a chain by the nodes that they join.
pub(super) struct NodeLinks {
    /// By node, indices of the links that leave it.
    pub(super) from: Vec<Vec<usize>>,
    /// By node, indices of the links that reach it.
    pub(super) to: Vec<Vec<usize>>,
}

impl NodeLinks {
    pub(super) fn of(chain: &Chain) -> Self {
        let mut links = Self {
            from: vec![Vec::new(); chain.nodes.len()],
            to: vec![Vec::new(); chain.nodes.len()],
        };
        let here = chain.links.iter().enumerate();
        for (index, link) in here.filter(|(_, link)| !is_link_gone(link)) {
            links.from[link.from].push(index);
            links.to[link.to].push(index);
        }
        links
    }
}

/// Rings over which packets go without being copied, by the worker that sends.
pub(super) struct Shares<'r> {
    from: Vec<Vec<&'r RingSpec>>,
    /// Links that end at a port: no packet goes on from there, whatever else its worker runs.
    last: BTreeSet<usize>,
}

impl<'r> Shares<'r> {
    pub(super) fn of(chain: &Chain, rings: &'r [RingSpec], worker_count: usize) -> Self {
        let mut from = vec![Vec::new(); worker_count];
        let mut last = BTreeSet::new();
        for ring in rings.iter().filter(|ring| ring.trust != Trust::Copy) {
            from[ring.from].push(ring);
            let to = &chain.nodes[chain.links[ring.link].to];
            last.extend(to.is_port().then_some(ring.link));
        }
        Self { from, last }
    }

    /// Those that leave `worker`.
    pub(super) fn leaving(&self, worker: usize) -> impl Iterator<Item = &'r RingSpec> {
        self.from[worker].iter().copied()
    }

    /// Workers that packets of `start` can reach which leave it by `first`.
    pub(super) fn reach(&self, start: usize, first: &'r RingSpec) -> BTreeSet<usize> {
        self.follow(start, vec![first])
    }

    /// Workers that packets of `start` can reach which are at `worker`, and those may go on by its
    /// links.
    pub(super) fn reach_from(&self, start: usize, worker: usize) -> BTreeSet<usize> {
        if worker == start {
            return BTreeSet::new();
        }
        let mut reached = self.follow(start, self.leaving(worker).collect());
        reached.insert(worker);
        reached
    }

    fn follow(&self, start: usize, mut open: Vec<&'r RingSpec>) -> BTreeSet<usize> {
        let (mut reached, mut passed) = (BTreeSet::new(), BTreeSet::new());
        while let Some(ring) = open.pop() {
            if ring.to == start {
                continue;
            }
            reached.insert(ring.to);
            if !self.last.contains(&ring.link) && passed.insert(ring.to) {
                open.extend(self.leaving(ring.to));
            }
        }
        reached
    }
}
