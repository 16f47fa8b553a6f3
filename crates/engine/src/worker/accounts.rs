//! When a worker's counters are stored in its page, where others read them.
//!
//! Behind a turn: not each of them, since the page's lines are in other cores while somebody looks.
//! Whoever buries this worker knows what it received and sent from cursors, which are exact; what
//! no cursor knows is stored at once: drops and what ports keep here, packets of an NF's own making
//! before they leave (`Turn::count_made`).

use catena_shm::pool::PoolOwner;

use crate::stats::OwnBuffers;
use crate::worker::graph::Work;
use crate::worker::runner::Runner;

/// How old counters in the page may get while packets move.
const STORE_NS: u64 = 20_000;

impl Runner {
    /// After a turn that moved something: stores all counters, if it is time, or what must not
    /// wait.
    pub(super) fn store_some(&mut self, now: u64) {
        let probe = &self.turn.probe;
        let is_noted = probe.is_timed() | (probe.moments() > 0);
        if is_noted || now.saturating_sub(self.stored_at) >= STORE_NS {
            self.store_counters(now);
        } else {
            self.store_losses();
        }
    }

    /// Whether packets have moved since the counters were stored, some time ago.
    pub(super) fn is_behind(&self, now: u64) -> bool {
        let age = now.saturating_sub(self.stored_at);
        age >= STORE_NS && self.sums.busy_turns != self.counters.load(0)
    }

    /// Stores what nodes have dropped, or ports keep, and no cursor knows: should this worker be
    /// killed, it is not taken for what it held.
    fn store_losses(&mut self) {
        let nodes = self.graph.nodes.iter_mut().enumerate();
        for (n, node) in nodes.take(self.layout.node_count) {
            if std::mem::take(&mut node.has_dropped) {
                let at = self.layout.node(n);
                self.counters.store(at, &[node.index as u64 + 1]);
                self.counters.store(at + 1, &node.counters.words());
            }
        }
    }

    /// Stores all counters.
    pub(super) fn store_counters(&mut self, now: u64) {
        self.stored_at = now;
        for node in &mut self.graph.nodes {
            node.read_own_counters();
            if !matches!(node.work, Work::Port { .. }) {
                node.counters.held = node.holding.hold.count();
            }
            node.has_dropped = false;
        }
        self.sums.violations = self.pools.violations();
        let own = self.pools.own();
        self.sums.buffers = OwnBuffers {
            free: own.iter().map(PoolOwner::free_count).sum(),
            out: own.iter().map(PoolOwner::out_buffers).sum(),
        };
        self.sums.buffers_out = own.iter().map(|pool| u64::from(pool.out_count())).sum();
        self.counters.store(0, &self.sums.words());
        let (layout, counters) = (self.layout, &self.counters);
        let store = |at: usize, id: usize, words: &[u64]| {
            counters.store(at, &[id as u64 + 1]);
            counters.store(at + 1, words);
        };
        for (n, node) in self.graph.nodes.iter().take(layout.node_count).enumerate() {
            store(layout.node(n), node.index, &node.counters.words());
        }
        if self.turn.probe.is_timed() | (self.turn.probe.moments() > 0) {
            for (n, node) in self.graph.nodes.iter().take(layout.node_count).enumerate() {
                store(layout.cost(n), node.index, &node.cost.words());
            }
            for (n, link) in self.graph.rx_links().take(layout.rx_count).enumerate() {
                store(layout.occupancy(n), link.index, &link.occupancy.words());
            }
        }
        let links = self.graph.tx_counters().take(layout.tx_count);
        for (n, (link, counters)) in links.enumerate() {
            store(layout.tx(n), link, &counters.words());
        }
        let links = self.graph.rx_counters().take(layout.rx_count);
        for (n, (link, counters)) in links.enumerate() {
            store(layout.rx(n), link, &counters.words());
        }
    }

    /// After links came or went: what is counted now is in the page, and blocks behind the last one
    /// are free.
    pub(super) fn free_blocks(&mut self) {
        self.store_counters(self.stored_at);
        let layout = self.layout;
        let (tx, rx) = (
            self.graph.tx_counters().count(),
            self.graph.rx_counters().count(),
        );
        for n in tx..layout.tx_count {
            self.counters.store(layout.tx(n), &[0]);
        }
        for n in rx..layout.rx_count {
            self.counters.store(layout.rx(n), &[0]);
            self.counters.store(layout.occupancy(n), &[0]);
        }
    }
}
