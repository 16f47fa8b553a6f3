//! Counters by name: what nodes and links had counted that have left the chain, or were replaced,
//! counts on with those that have their names.
//!
//! Whoever reads counters knows names only, and takes one that falls for a restart. So a link that
//! `apply` replaces by another (other slots, another receiver), and a node that leaves and comes
//! again, or moves to another worker, begin where those before them ended. What a node counts
//! itself counts on if both name it alike; drops keep the names of their reasons. What a thread has
//! counted that does not end (`switching`) is in no sum.

use std::collections::BTreeMap;

use crate::drop_reason::DropReason;
use crate::own_counters::COUNTER_COUNT_MAX;
use crate::stats::NodeCounters;
use crate::supervisor::Supervisor;
use crate::supervisor::change::Change;
use crate::supervisor::memory::RingName;
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

    /// Times that workers of this name were started again, also those that have left.
    pub(super) fn restarts_named(&self, name: &str) -> u32 {
        let workers = self.placement.workers.iter().enumerate();
        let named = workers.filter(|(_, worker)| worker.name == name);
        let restarts = named.filter_map(|(worker, _)| self.past.restarts.get(&worker));
        restarts.fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// What nodes had counted that had the name of `node` and have left.
    pub(super) fn former_node(&self, node: usize) -> FormerNode {
        let here = &self.chain.nodes[node];
        let mut sum = FormerNode::default();
        let left = self.past.left.iter();
        for (former, _) in left.filter(|(_, name)| **name == here.name) {
            let mut counted = self.past.nodes.get(former).copied().unwrap_or_default();
            let (was, now) = (&self.chain.nodes[*former].kind, &here.kind);
            if was.counter_names() != now.counter_names() {
                counted.own = [0; COUNTER_COUNT_MAX];
            }
            if was.drop_reason_names() != now.drop_reason_names() {
                sum.take_own_drops(&mut counted, &was.drop_reason_names());
            }
            sum.counters.add(&counted);
            let killed = self.past.killed.get(former).copied().unwrap_or(0);
            sum.killed = sum.killed.saturating_add(killed);
        }
        sum
    }
}

/// What nodes of a name had counted that have left.
#[derive(Debug, Default)]
pub(super) struct FormerNode {
    pub(super) counters: NodeCounters,
    /// Drops for reasons that the node which has the name does not know.
    pub(super) drops: BTreeMap<String, u64>,
    pub(super) killed: u64,
}

impl FormerNode {
    fn take_own_drops(&mut self, counted: &mut NodeCounters, names: &[String]) {
        for (name, number) in names.iter().zip(0..) {
            let drops = &mut counted.drops[DropReason::own(number).index()];
            let sum = self.drops.entry(name.clone()).or_default();
            *sum = sum.saturating_add(std::mem::take(drops));
        }
        self.drops.retain(|_, count| *count > 0);
    }
}
