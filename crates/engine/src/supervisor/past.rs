//! What workers that are no more have done: counters of all their lives, summed.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::stats::{NodeCounters, RxCounters, TxCounters};
use crate::supervisor::book::{WrittenDrops, WrittenLink, WrittenPast};

/// Gaps that a successor remembers, for its percentiles.
pub(super) const GAPS_MAX: usize = 1000;

/// What passed by links of a name that are no more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FormerLink {
    /// Packets that were sent into them, by cursors.
    pub(super) sent: u64,
    /// Packets that were taken from them.
    pub(super) taken: u64,
    pub(super) tx: TxCounters,
    pub(super) rx: RxCounters,
}

/// Drops of a node under types that it had before.
#[derive(Debug, Default)]
pub(super) struct FormerDrops {
    /// By reason.
    pub(super) named: BTreeMap<String, u64>,
    /// By index of reasons of its own: what is counted there up to this is among those.
    pub(super) until: BTreeMap<usize, u64>,
}

/// What all nodes of a name have counted.
#[derive(Debug, Default)]
pub(super) struct NamedCounts {
    pub(super) counters: NodeCounters,
    pub(super) drops: BTreeMap<String, u64>,
    pub(super) killed: u64,
}

/// Counters of dead instances, summed.
#[derive(Debug, Default)]
pub(super) struct Past {
    pub(super) nodes: BTreeMap<usize, NodeCounters>,
    pub(super) tx: BTreeMap<usize, TxCounters>,
    pub(super) rx: BTreeMap<usize, RxCounters>,
    /// Packets a node held when it was killed.
    pub(super) killed: BTreeMap<usize, u64>,
    /// Names of nodes that have left the chain.
    pub(super) left: BTreeMap<usize, String>,
    /// What nodes that stay had dropped under another type.
    pub(super) drops: BTreeMap<usize, FormerDrops>,
    /// What links had passed that have gone, by their names.
    pub(super) links: BTreeMap<String, FormerLink>,
    pub(super) restarts: BTreeMap<usize, u32>,
    pub(super) deaths: u64,
    pub(super) gaps: Vec<Duration>,
    /// Who was detached, and why.
    pub(super) detached: VecDeque<String>,
    /// Who accused whom of what, without evidence.
    pub(super) accusations: VecDeque<String>,
    /// Buffers that dead workers had kept.
    pub(super) recovered: u64,
    /// Searches for such that have ended.
    pub(super) searches: u64,
}

impl Past {
    /// As a successor of this supervisor reads it.
    pub(super) fn written(&self) -> WrittenPast {
        let gaps = self.gaps.len().saturating_sub(GAPS_MAX);
        WrittenPast {
            nodes: words(&self.nodes, |node| node.words().to_vec()),
            tx: words(&self.tx, |tx| tx.words().to_vec()),
            rx: words(&self.rx, |rx| rx.words().to_vec()),
            killed: self.killed.clone(),
            left: self.left.clone(),
            drops: self.drops.iter().map(written_drops).collect(),
            links: self.links.iter().map(written_link).collect(),
            restarts: self.restarts.clone(),
            deaths: self.deaths,
            gaps: self.gaps[gaps..].to_vec(),
            detached: self.detached.iter().cloned().collect(),
            accusations: self.accusations.iter().cloned().collect(),
            recovered: self.recovered,
            searches: self.searches,
        }
    }

    /// Packets that were killed in all lives of nodes that have left the chain, by name; those of a
    /// name that `is_here` again count with the node that has it.
    pub(super) fn killed_with_left(&self, is_here: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        let mut sums = BTreeMap::new();
        for (node, name) in self.left.iter().filter(|(_, name)| !is_here(name)) {
            if let Some(count) = self.killed.get(node).filter(|count| **count > 0) {
                let sum: &mut u64 = sums.entry(name.clone()).or_default();
                *sum = sum.saturating_add(*count);
            }
        }
        sums
    }

    /// As a former supervisor wrote it down.
    pub(super) fn of(written: &WrittenPast) -> Self {
        Self {
            nodes: counters(&written.nodes, NodeCounters::from_words),
            tx: counters(&written.tx, TxCounters::from_words),
            rx: counters(&written.rx, RxCounters::from_words),
            killed: written.killed.clone(),
            left: written.left.clone(),
            drops: written.drops.iter().cloned().map(read_drops).collect(),
            links: written.links.iter().filter_map(read_link).collect(),
            restarts: written.restarts.clone(),
            deaths: written.deaths,
            gaps: written.gaps.clone(),
            detached: written.detached.iter().cloned().collect(),
            accusations: written.accusations.iter().cloned().collect(),
            recovered: written.recovered,
            searches: written.searches,
        }
    }
}

fn written_drops((node, drops): (&usize, &FormerDrops)) -> WrittenDrops {
    (*node, drops.named.clone(), drops.until.clone())
}

fn read_drops((node, named, until): WrittenDrops) -> (usize, FormerDrops) {
    (node, FormerDrops { named, until })
}

fn written_link((name, link): (&String, &FormerLink)) -> WrittenLink {
    let words = (link.tx.words().to_vec(), link.rx.words().to_vec());
    (name.clone(), [link.sent, link.taken], words.0, words.1)
}

fn read_link((name, passed, tx, rx): &WrittenLink) -> Option<(String, FormerLink)> {
    let [sent, taken] = *passed;
    let link = FormerLink {
        sent,
        taken,
        tx: TxCounters::from_words(tx.as_slice().try_into().ok()?),
        rx: RxCounters::from_words(rx.as_slice().try_into().ok()?),
    };
    Some((name.clone(), link))
}

type Numbered<T> = BTreeMap<usize, T>;

fn words<T>(all: &Numbered<T>, of: impl Fn(&T) -> Vec<u64>) -> Numbered<Vec<u64>> {
    all.iter().map(|(index, one)| (*index, of(one))).collect()
}

fn counters<T, const N: usize>(
    written: &Numbered<Vec<u64>>,
    of: impl Fn(&[u64; N]) -> T,
) -> Numbered<T> {
    let whole = written.iter().filter_map(|(index, words)| {
        let words: &[u64; N] = words.as_slice().try_into().ok()?;
        Some((*index, of(words)))
    });
    whole.collect()
}
