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
}

impl<'r> Shares<'r> {
    pub(super) fn of(rings: &'r [RingSpec], worker_count: usize) -> Self {
        let mut from = vec![Vec::new(); worker_count];
        for ring in rings.iter().filter(|ring| ring.trust != Trust::Copy) {
            from[ring.from].push(ring);
        }
        Self { from }
    }

    /// Those that leave `worker`.
    pub(super) fn leaving(&self, worker: usize) -> impl Iterator<Item = &'r RingSpec> {
        self.from[worker].iter().copied()
    }

    /// Workers that packets of `start` can reach once they have come to `first`.
    pub(super) fn reach(&self, start: usize, first: usize) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open = vec![first];
        while let Some(worker) = open.pop() {
            if worker != start && reached.insert(worker) {
                open.extend(self.leaving(worker).map(|ring| ring.to));
            }
        }
        reached
    }
}
