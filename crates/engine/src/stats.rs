//! Where each counter lies in a worker's counters page: written by the worker, read by anybody.
//!
//! A page holds a worker block, then blocks for nodes, sending links, receiving links, what nodes
//! cost, and how many packets wait. Each
//! block begins with the number of its node or link plus one, 0 if it is free, so that blocks may
//! come and go while the chain changes; there are [`SPARE_BLOCKS`] more than at the start. The same
//! words name a counter here, in JSON, in `top` and in Prometheus.
//!
//! A page says what its worker wrote, which may be anything: sums over pages saturate.

use std::collections::BTreeMap;

use crate::aggregation::PackCounters;
use crate::drop_reason::{DropReason, OWN_REASON_COUNT_MAX};
use crate::link::counters::OCCUPANCY_CLASSES;
pub use crate::link::counters::{RxCounters, TxCounters};
use crate::own_counters::COUNTER_COUNT_MAX;
use crate::probe::{NodeCost, Occupancy};

/// Words of the worker block.
pub const WORKER_WORDS: usize = 10;
/// Words of a node block.
pub const NODE_WORDS: usize = 6 + DropReason::COUNT + COUNTER_COUNT_MAX;
/// Which of them is [`NodeCounters::made`].
pub const MADE_WORD: usize = 4 + DropReason::COUNT;
/// Which of them is the first of [`NodeCounters::own`].
const OWN_WORD: usize = MADE_WORD + 2;
/// Blocks of each kind that a page has beyond those it starts with.
pub const SPARE_BLOCKS: usize = 64;
/// Words of a sending link's block.
pub const TX_WORDS: usize = 11;
/// Words of a receiving link's block.
pub const RX_WORDS: usize = 4 + OCCUPANCY_CLASSES;

/// Buffers of a worker's own pools at one instant: in one word of the page, since two would be read
/// at different ones. What is neither is in its hands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnBuffers {
    /// On the free lists.
    pub free: u32,
    /// Out on links, on lanes, or in the hands of other workers.
    pub out: u32,
}

impl OwnBuffers {
    fn word(self) -> u64 {
        u64::from(self.out) << 32 | u64::from(self.free)
    }

    #[expect(clippy::cast_possible_truncation, reason = "halves of a word")]
    fn from_word(word: u64) -> Self {
        Self {
            free: word as u32,
            out: (word >> 32) as u32,
        }
    }
}

/// How a worker spent its turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WorkerCounters {
    /// Turns that moved at least one packet.
    pub busy_turns: u64,
    /// Turns that moved none.
    pub idle_turns: u64,
    /// Times it gave way to other threads.
    pub yields: u64,
    /// Times it slept.
    pub sleeps: u64,
    /// Nanoseconds asleep.
    pub sleep_ns: u64,
    /// Buffers of its own pools.
    pub buffers: OwnBuffers,
    /// The packets in them that are out on links: of a bundle, each.
    pub buffers_out: u64,
    /// Returns and descriptors refused.
    pub violations: u64,
    /// Number of the last `Reclaim` carried out.
    pub reclaimed: u64,
    /// Nanoseconds in turns that moved packets.
    pub busy_ns: u64,
}

/// Index of [`WorkerCounters::busy_turns`] in the page.
pub const BUSY_TURNS_WORD: usize = 0;
/// Index of [`WorkerCounters::idle_turns`] in the page.
pub const IDLE_TURNS_WORD: usize = 1;
/// Index of [`WorkerCounters::reclaimed`] in the page.
pub const RECLAIMED_WORD: usize = 8;

impl WorkerCounters {
    /// The words, in page order.
    pub fn words(&self) -> [u64; WORKER_WORDS] {
        [
            self.busy_turns,
            self.idle_turns,
            self.yields,
            self.sleeps,
            self.sleep_ns,
            self.buffers.word(),
            self.buffers_out,
            self.violations,
            self.reclaimed,
            self.busy_ns,
        ]
    }

    /// From the words.
    pub fn from_words(words: &[u64; WORKER_WORDS]) -> Self {
        let [
            busy_turns,
            idle_turns,
            yields,
            sleeps,
            sleep_ns,
            buffers,
            buffers_out,
            violations,
            reclaimed,
            busy_ns,
        ] = *words;
        Self {
            busy_turns,
            idle_turns,
            yields,
            sleeps,
            sleep_ns,
            buffers: OwnBuffers::from_word(buffers),
            buffers_out,
            violations,
            reclaimed,
            busy_ns,
        }
    }
}

/// What a node received, sent and dropped. For a port, `rx` is from the world and `tx` to the
/// world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeCounters {
    /// Packets that arrived at the node, or that it made.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Packets that left it.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Packets dropped by it or on its outputs, by [`DropReason::index`].
    pub drops: [u64; DropReason::COUNT],
    /// Packets that it made, copies among them; part of `rx_packets`.
    pub made: u64,
    /// Packets that it holds now: received = sent + dropped + held.
    pub held: u64,
    /// What the node counts itself, in the order of the names of its plan.
    pub own: [u64; COUNTER_COUNT_MAX],
}

impl Default for NodeCounters {
    fn default() -> Self {
        Self::from_words(&[0; NODE_WORDS])
    }
}

impl NodeCounters {
    /// The words, in page order.
    pub fn words(&self) -> [u64; NODE_WORDS] {
        let mut words = [0; NODE_WORDS];
        words[..4].copy_from_slice(&[
            self.rx_packets,
            self.rx_bytes,
            self.tx_packets,
            self.tx_bytes,
        ]);
        words[4..MADE_WORD].copy_from_slice(&self.drops);
        words[MADE_WORD..OWN_WORD].copy_from_slice(&[self.made, self.held]);
        words[OWN_WORD..].copy_from_slice(&self.own);
        words
    }

    /// From the words.
    pub fn from_words(words: &[u64; NODE_WORDS]) -> Self {
        let mut counters = Self {
            rx_packets: words[0],
            rx_bytes: words[1],
            tx_packets: words[2],
            tx_bytes: words[3],
            drops: [0; DropReason::COUNT],
            made: words[MADE_WORD],
            held: words[MADE_WORD + 1],
            own: [0; COUNTER_COUNT_MAX],
        };
        counters.drops.copy_from_slice(&words[4..MADE_WORD]);
        counters.own.copy_from_slice(&words[OWN_WORD..]);
        counters
    }

    /// Drops by name, those that occurred; `own` are the names of the node's own reasons. A reason
    /// without a name is shown by its number: its packets are packets all the same.
    pub fn drops_by_name(&self, own: &[String]) -> BTreeMap<String, u64> {
        let all = (0..).take(OWN_REASON_COUNT_MAX).map(DropReason::own);
        let all = DropReason::ALL.into_iter().chain(all);
        let counted = all.map(|reason| (reason, self.drops[reason.index()]));
        let counted = counted.filter(|(_, count)| *count > 0);
        let named = counted.map(|(reason, count)| match reason.name_among(own) {
            Some(name) => (name.to_owned(), count),
            None => (format!("{reason:?}"), count),
        });
        named.collect()
    }

    /// What the node counts itself, by name; two wrappers of a kind share one.
    pub fn own_by_name(&self, names: &[String]) -> BTreeMap<String, u64> {
        let mut named = BTreeMap::new();
        for (name, value) in names.iter().zip(self.own) {
            let sum: &mut u64 = named.entry(name.clone()).or_default();
            *sum = sum.saturating_add(value);
        }
        named
    }

    /// Sum of all drops.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().copied().fold(0, u64::saturating_add)
    }

    /// Adds another instance's counters.
    pub fn add(&mut self, other: &Self) {
        self.rx_packets = self.rx_packets.saturating_add(other.rx_packets);
        self.rx_bytes = self.rx_bytes.saturating_add(other.rx_bytes);
        self.tx_packets = self.tx_packets.saturating_add(other.tx_packets);
        self.tx_bytes = self.tx_bytes.saturating_add(other.tx_bytes);
        for (sum, drops) in self.drops.iter_mut().zip(other.drops) {
            *sum = sum.saturating_add(drops);
        }
        for (sum, own) in self.own.iter_mut().zip(other.own) {
            *sum = sum.saturating_add(own);
        }
        self.made = self.made.saturating_add(other.made);
        self.held = self.held.saturating_add(other.held);
    }
}

impl TxCounters {
    /// The words, in page order.
    pub fn words(&self) -> [u64; TX_WORDS] {
        [
            self.packets,
            self.bytes,
            self.wakes,
            self.blocked,
            self.violations,
            self.packed.bundles,
            self.packed.bundled_packets,
            self.packed.packed_bytes,
            self.packed.is_packing,
            self.packed.burst_mean_x16,
            self.packed.len_mean_x16,
        ]
    }

    /// From the words.
    pub fn from_words(words: &[u64; TX_WORDS]) -> Self {
        let [packets, bytes, wakes, blocked, violations, packed @ ..] = *words;
        let [
            bundles,
            bundled_packets,
            packed_bytes,
            is_packing,
            burst_mean_x16,
            len_mean_x16,
        ] = packed;
        Self {
            packets,
            bytes,
            wakes,
            blocked,
            violations,
            packed: PackCounters {
                bundles,
                bundled_packets,
                packed_bytes,
                is_packing,
                burst_mean_x16,
                len_mean_x16,
            },
        }
    }

    /// Adds another instance's counters.
    pub fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.wakes = self.wakes.saturating_add(other.wakes);
        self.blocked = self.blocked.saturating_add(other.blocked);
        self.violations = self.violations.saturating_add(other.violations);
        let (packed, other) = (&mut self.packed, other.packed);
        // What the latest instance decides, and sums of what all of them did.
        *packed = PackCounters {
            bundles: packed.bundles.saturating_add(other.bundles),
            bundled_packets: packed.bundled_packets.saturating_add(other.bundled_packets),
            packed_bytes: packed.packed_bytes.saturating_add(other.packed_bytes),
            ..other
        };
    }
}

impl RxCounters {
    /// The words, in page order.
    pub fn words(&self) -> [u64; RX_WORDS] {
        let mut words = [0; RX_WORDS];
        words[..4].copy_from_slice(&[self.packets, self.bytes, self.violations, self.discarded]);
        words[4..].copy_from_slice(&self.occupancy);
        words
    }

    /// From the words.
    pub fn from_words(words: &[u64; RX_WORDS]) -> Self {
        let mut counters = Self {
            packets: words[0],
            bytes: words[1],
            violations: words[2],
            discarded: words[3],
            occupancy: [0; OCCUPANCY_CLASSES],
        };
        counters.occupancy.copy_from_slice(&words[4..]);
        counters
    }

    /// Adds another instance's counters.
    pub fn add(&mut self, other: &Self) {
        self.packets = self.packets.saturating_add(other.packets);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.violations = self.violations.saturating_add(other.violations);
        self.discarded = self.discarded.saturating_add(other.discarded);
        for (sum, count) in self.occupancy.iter_mut().zip(other.occupancy) {
            *sum = sum.saturating_add(count);
        }
    }
}

/// Where the blocks of one worker's page start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct PageLayout {
    /// Number of nodes.
    pub node_count: usize,
    /// Number of sending links.
    pub tx_count: usize,
    /// Number of receiving links.
    pub rx_count: usize,
}

impl PageLayout {
    /// First word of node block `n`.
    pub fn node(&self, n: usize) -> usize {
        WORKER_WORDS + n * (1 + NODE_WORDS)
    }

    /// First word of sending block `n`.
    pub fn tx(&self, n: usize) -> usize {
        self.node(self.node_count) + n * (1 + TX_WORDS)
    }

    /// First word of receiving block `n`.
    pub fn rx(&self, n: usize) -> usize {
        self.tx(self.tx_count) + n * (1 + RX_WORDS)
    }

    /// First word of the block that says what node `n` costs.
    pub fn cost(&self, n: usize) -> usize {
        self.rx(self.rx_count) + n * (1 + NodeCost::WORDS)
    }

    /// First word of the block that says how many packets wait in receiving link `n`.
    pub fn occupancy(&self, n: usize) -> usize {
        self.cost(self.node_count) + n * (1 + Occupancy::WORDS)
    }

    /// Words of the page.
    pub fn word_count(&self) -> usize {
        self.occupancy(self.rx_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_survive_the_page() {
        let mut node = NodeCounters {
            rx_packets: 1,
            rx_bytes: 2,
            tx_packets: 3,
            ..Default::default()
        };
        node.drops[DropReason::LinkFull.index()] = 9;
        node.drops[DropReason::COUNT - 1] = 8;
        (node.own[0], node.own[COUNTER_COUNT_MAX - 1]) = (7, 6);
        (node.made, node.held) = (2, 1);
        assert_eq!(NodeCounters::from_words(&node.words()), node);
        let rx = RxCounters {
            packets: 5,
            occupancy: [3; OCCUPANCY_CLASSES],
            ..Default::default()
        };
        assert_eq!(RxCounters::from_words(&rx.words()), rx);
        let tx = TxCounters {
            packets: 5,
            wakes: 7,
            ..Default::default()
        };
        assert_eq!(TxCounters::from_words(&tx.words()), tx);
    }

    #[test]
    fn lives_are_summed_by_name_and_no_drop_is_lost() {
        let names = ["seen", "late", "seen"].map(str::to_owned);
        let mut life = NodeCounters::default();
        life.own[..3].copy_from_slice(&[1, 2, 3]);
        life.drops[DropReason::own(0).index()] = 4;
        life.drops[DropReason::own(1).index()] = 5;
        let mut sum = life;
        sum.add(&life);
        let own = sum.own_by_name(&names);
        assert_eq!((own["seen"], own["late"]), (8, 4));
        let drops = sum.drops_by_name(&["refused".to_owned()]);
        assert_eq!((drops["refused"], drops["own(1)"]), (8, 10));
        assert_eq!(drops.len(), 2);
    }

    #[test]
    fn blocks_do_not_overlap() {
        let layout = PageLayout {
            node_count: 2,
            tx_count: 3,
            rx_count: 1,
        };
        assert_eq!(layout.tx(0), layout.node(1) + 1 + NODE_WORDS);
        assert_eq!(layout.rx(0), layout.tx(2) + 1 + TX_WORDS);
        assert_eq!(layout.cost(0), layout.rx(0) + 1 + RX_WORDS);
        assert_eq!(layout.occupancy(0), layout.cost(1) + 1 + NodeCost::WORDS);
        let words = layout.occupancy(0) + 1 + Occupancy::WORDS;
        assert_eq!(layout.word_count(), words);
    }
}
