//! Counters by name: what nodes and links had counted that have left the chain, or were replaced,
//! counts on with those that have their names.
//!
//! Whoever reads counters knows names only, and takes one that falls for a restart. So a link that
//! `apply` replaces by another (other slots, another receiver), and a node that leaves and comes
//! again, or moves to another worker, begin where those before them ended. What a node counts
//! itself counts on if both name it alike; drops keep the names of their reasons. What a thread has
//! counted that does not end (`switching`) is in no sum.

use crate::chain::Chain;
use crate::chain::model::is_gone;
use crate::drop_reason::DropReason;
use crate::own_counters::COUNTER_COUNT_MAX;
use crate::stats::NodeCounters;
use crate::supervisor::Supervisor;
use crate::supervisor::change::Change;
use crate::supervisor::memory::RingName;
use crate::supervisor::past::NamedCounts;
use crate::supervisor::status::node_counters;

impl Supervisor {
    /// A link goes; `passed` is what its cursors say: packets sent and taken.
    pub(super) fn keep_counts_of_link(&mut self, ring: &RingName, link: usize, passed: (u64, u64)) {
        let (tx, rx) = self.counted_between(link, (ring.from, ring.to));
        self.past.tx.remove(&link);
        self.past.rx.remove(&link);
        // The place of a link that has gone keeps its name.
        let name = self.chain.links[link].name.clone();
        let former = self.past.links.entry(name).or_default();
        former.sent = former.sent.saturating_add(passed.0);
        former.taken = former.taken.saturating_add(passed.1);
        former.tx.add(&tx);
        former.rx.add(&rx);
    }

    /// Workers that go have stopped: what their pages say is kept with what their nodes had counted
    /// before.
    pub(super) fn keep_counts_of_leavers(&mut self, change: &Change) {
        for (worker, nodes) in change.leavers() {
            let instance = &mut self.instances[worker];
            if instance.is_live() {
                continue;
            }
            let Some(page) = instance.counters.take() else {
                continue;
            };
            instance.page = None;
            for node in nodes {
                let mut counted = node_counters(&page, instance.layout, *node);
                counted.held = 0;
                for counter in self.chain.nodes[*node].kind.standing_counters() {
                    counted.own[counter] = 0;
                }
                self.past.nodes.entry(*node).or_default().add(&counted);
            }
        }
    }

    /// Times that a worker was started again, and those of its name that have left. Others that are
    /// there may have its name, too: ports of two trust groups.
    pub(super) fn restarts_counted(&self, worker: usize) -> u32 {
        let all = &self.placement.workers;
        let name = &all[worker].name;
        let is_meant = |other: &usize| {
            *other == worker || (all[*other].nodes.is_empty() && all[*other].name == *name)
        };
        let counts = (0..all.len()).filter(is_meant);
        let counts = counts.filter_map(|other| self.past.restarts.get(&other));
        counts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Nodes that stay and get another type: what they have dropped until now keeps the names that
    /// it has. What is dropped before they turn to it goes by the new ones.
    pub(super) fn keep_names_of_drops(&mut self, old_chain: &Chain) {
        for (node, was) in old_chain.nodes.iter().enumerate() {
            let names = was.kind.drop_reason_names();
            if is_gone(was) || names == self.chain.nodes[node].kind.drop_reason_names() {
                continue;
            }
            let counted = self.counted_by(node);
            let kept = self.past.drops.entry(node).or_default();
            for (name, number) in names.iter().zip(0..) {
                let index = DropReason::own(number).index();
                let before = kept.until.get(&index).copied().unwrap_or(0);
                kept.until.insert(index, counted.drops[index].max(before));
                let sum = kept.named.entry(name.clone()).or_default();
                *sum = sum.saturating_add(counted.drops[index].saturating_sub(before));
            }
        }
    }

    /// They have turned: what those before them counted themselves has no name here.
    pub(super) fn forget_own_counters(&mut self, old_chain: &Chain) {
        for (node, was) in old_chain.nodes.iter().enumerate() {
            if was.kind.counter_names() != self.chain.nodes[node].kind.counter_names()
                && let Some(past) = self.past.nodes.get_mut(&node)
            {
                past.own = [0; COUNTER_COUNT_MAX];
            }
        }
    }

    /// What a node counts, in all its lives.
    fn counted_by(&self, node: usize) -> NodeCounters {
        let mut counters = self.past.nodes.get(&node).copied().unwrap_or_default();
        let worker = self.placement.worker_of.get(node);
        let instance = worker.and_then(|worker| self.instances.get(*worker));
        if let Some((page, layout)) =
            instance.and_then(|one| Some((one.counters.as_ref()?, one.layout)))
        {
            counters.add(&node_counters(page, layout, node));
        }
        counters
    }

    /// What a node counts, with what others had counted that had its name and have left.
    pub(super) fn named_counts(&self, node: usize) -> NamedCounts {
        let here = &self.chain.nodes[node];
        let mut counts = NamedCounts::default();
        let left = self
            .past
            .left
            .iter()
            .filter(|(_, name)| **name == here.name);
        for (former, _) in left {
            let mut counted = self.past.nodes.get(former).copied().unwrap_or_default();
            let was = &self.chain.nodes[*former].kind;
            if was.counter_names() != here.kind.counter_names() {
                counted.own = [0; COUNTER_COUNT_MAX];
            }
            self.add_counts(&mut counts, *former, counted);
        }
        self.add_counts(&mut counts, node, self.counted_by(node));
        counts
    }

    fn add_counts(&self, counts: &mut NamedCounts, node: usize, mut counted: NodeCounters) {
        let names = self.chain.nodes[node].kind.drop_reason_names();
        let kept = self.past.drops.get(&node);
        for (index, until) in kept.into_iter().flat_map(|kept| &kept.until) {
            if let Some(count) = counted.drops.get_mut(*index) {
                *count = count.saturating_sub(*until);
            }
        }
        let named = kept.into_iter().flat_map(|kept| kept.named.clone());
        for (name, count) in counted.drops_by_name(&names).into_iter().chain(named) {
            let sum = counts.drops.entry(name).or_default();
            *sum = sum.saturating_add(count);
        }
        counts.drops.retain(|_, count| *count > 0);
        let killed = self.past.killed.get(&node).copied().unwrap_or(0);
        counts.killed = counts.killed.saturating_add(killed);
        counts.counters.add(&counted);
    }
}
