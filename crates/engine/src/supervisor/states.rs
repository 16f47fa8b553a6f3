//! Memory that outlives NFs: made here, kept here, and given to whoever runs the node next
//! (`handover`).
//!
//! A node's plan names it ([`StatePlan`]). The first instance of its worker
//! gets it, its successor after a death, and the NF with other settings after a change, if name,
//! size and layout are the same; else that one gets new memory, which `catena plan` says. It is
//! handed on only after the kernel has confirmed the exit of whoever had it; within one worker the
//! old NF is gone before the new one is given it. A node that moves to another worker starts anew.
//!
//! A region that shards share ([`StatePlan::is_shared`]) is given to each of them, and stays while
//! one of those is there that had it, whichever that is: shards may come, die and go in any order.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use catena_shm::state;

use crate::chain::model::is_gone;
use crate::chain::{Chain, Node, NodeKind};
use crate::nf::{NfPlan, StatePlan};
use crate::shard::moving::MakeMover;
use crate::shard::{is_splitter, name_in_file};

/// One region.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) len: usize,
    pub(super) plan: StatePlan,
    /// Whether an NF has had it.
    pub(super) is_used: bool,
    /// Nodes that have been given it: one, or shards of one node.
    pub(super) users: BTreeSet<usize>,
}

/// The node for which a region was made, and its name there.
pub(super) type Key = (usize, String);

/// Regions of a chain.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) kept: BTreeMap<Key, Kept>,
    /// Made for a change that is being prepared.
    pub(super) new: BTreeMap<Key, Kept>,
}

impl States {
    /// Every region: a node that has it, name, memory and size.
    pub(super) fn everything(&self) -> impl Iterator<Item = (usize, &str, &Arc<OwnedFd>, usize)> {
        let kept = self.kept.iter();
        kept.map(|((node, name), kept)| {
            let user = kept.users.first().unwrap_or(node);
            (*user, name.as_str(), &kept.fd, kept.len)
        })
    }

    /// The region that a plan of `node` asks for, if it is there: the node's own, or what a shard
    /// beside it has that is there still.
    pub(super) fn find(&self, chain: &Chain, node: usize, plan: &StatePlan) -> Option<(Key, Kept)> {
        let named = |(key, kept): (&Key, &Kept)| (key.clone(), kept.clone());
        if !plan.is_shared {
            let key = (node, plan.name.clone());
            let kept = self.kept.get_key_value(&key);
            return kept.filter(|(_, kept)| kept.plan == *plan).map(named);
        }
        let beside = users_of(chain, node);
        let is_its =
            |(_, kept): &(&Key, &Kept)| kept.plan == *plan && !kept.users.is_disjoint(&beside);
        // What a change makes is what its further shards get.
        self.new.iter().chain(&self.kept).find(is_its).map(named)
    }

    /// Keeps a region as a former supervisor had it, if the chain still asks for it.
    pub(super) fn restore(
        &mut self,
        chain: &Chain,
        (node, name): (usize, &str),
        fd: Arc<OwnedFd>,
        len: usize,
    ) {
        let plans = chain.nodes.get(node).map_or(&[][..], states_of);
        if let Some(plan) = plans.iter().find(|plan| plan.name == name) {
            let users = match plan.is_shared {
                true => users_of(chain, node),
                false => BTreeSet::from([node]),
            };
            let kept = Kept {
                fd,
                len,
                plan: plan.clone(),
                is_used: true,
                users,
            };
            self.kept.insert((node, name.to_owned()), kept);
        }
    }
}

/// A node with the shards beside it, as far as they are there.
fn users_of(chain: &Chain, node: usize) -> BTreeSet<usize> {
    let there = |node: usize| chain.nodes.get(node).filter(|node| !is_gone(node));
    let Some(name) = there(node).map(|node| name_in_file(&node.name)) else {
        return BTreeSet::new();
    };
    let all = 0..chain.nodes.len();
    let is_beside = |other: &usize| {
        let other = there(*other).filter(|other| !is_splitter(&other.name));
        other.is_some_and(|other| name_in_file(&other.name) == name)
    };
    all.filter(is_beside).collect()
}

/// What the plan of a node asks for.
pub(super) fn states_of(node: &Node) -> &[StatePlan] {
    match &node.kind {
        NodeKind::Nf { plan, .. } => &plan.state,
        NodeKind::Port { .. } => &[],
    }
}

/// Whether, and how, what the shards of `before` know can be had by those of `after`.
pub(super) fn mover_between(before: &Node, after: &Node) -> Option<MakeMover> {
    let (
        NodeKind::Nf {
            kind: was,
            plan: old,
            ..
        },
        NodeKind::Nf { kind, plan, .. },
    ) = (&before.kind, &after.kind)
    else {
        return None;
    };
    let (from, to) = (before.shard.as_ref()?, after.shard.as_ref()?);
    // What shards share stays where it is, and is no reason to lose what each has for itself.
    let own = |plan: &NfPlan| -> Vec<StatePlan> {
        let own = plan.state.iter().filter(|state| !state.is_shared);
        own.cloned().collect()
    };
    let is_same = from.of == to.of && was.name == kind.name && own(old) == own(plan);
    (is_same && from.count != to.count && old.splits_by == plan.splits_by)
        .then_some(plan.moves.0)
        .flatten()
}

/// What becomes of the memory of nodes that are in both chains, for people: one line for each
/// region that a node with other settings keeps, or does not.
pub fn fates(old: &Chain, new: &Chain) -> Vec<String> {
    let mut lines = Vec::new();
    for after in &new.nodes {
        let moves = |before: &&Node| mover_between(before, after).is_some();
        let first = after.shard.as_ref().filter(|shard| shard.index == 0);
        if let (Some(shard), Some(before)) = (first, old.nodes.iter().find(moves)) {
            let was = before.shard.as_ref().map_or(1, |shard| shard.count);
            lines.push(format!(
                "  node {}: flows go with their shard, of {} instead of {was}",
                shard.of, shard.count
            ));
        }
    }
    for before in &old.nodes {
        let Some(after) = new.nodes.iter().find(|node| node.name == before.name) else {
            continue;
        };
        if super::renumber::same_settings(before, after) && super::renumber::stays(before, after) {
            continue;
        }
        // What shards share is told of below.
        for state in states_of(before).iter().filter(|state| !state.is_shared) {
            let is_same = super::renumber::stays(before, after);
            let is_kept = is_same && states_of(after).contains(state);
            let what = if is_kept { "is kept" } else { "starts anew" };
            lines.push(format!("  node {}: {} {what}", before.name, state.name));
        }
    }
    lines.extend(shared_fates(old, new));
    lines
}

/// What becomes of regions that shards share, where a shard's settings change: one line for each.
fn shared_fates(old: &Chain, new: &Chain) -> BTreeSet<String> {
    let mut fates: BTreeMap<(String, String), (bool, bool)> = BTreeMap::new();
    for before in &old.nodes {
        let after = new.nodes.iter().find(|node| node.name == before.name);
        for state in states_of(before).iter().filter(|state| state.is_shared) {
            let stays = after.filter(|after| super::renumber::stays(before, after));
            let is_kept = stays.is_some_and(|after| states_of(after).contains(state));
            let changes = stays.is_none_or(|a| !super::renumber::same_settings(before, a));
            let key = (name_in_file(&before.name).to_owned(), state.name.clone());
            let fate = fates.entry(key).or_default();
            *fate = (fate.0 | is_kept, fate.1 | changes);
        }
    }
    let is_there = |name: &str| {
        new.nodes
            .iter()
            .any(|node| name_in_file(&node.name) == name)
    };
    let told = fates.into_iter();
    let told = told.filter(|((node, _), (_, changes))| *changes && is_there(node));
    let line = |((node, name), (is_kept, _)): ((String, String), (bool, bool))| {
        let what = if is_kept { "is kept" } else { "starts anew" };
        format!("  node {node}: {name} {what}")
    };
    told.map(line).collect()
}

/// New memory, as `plan` asks for it.
pub(super) fn make(plan: &StatePlan) -> Result<Kept, String> {
    let (fd, len) = state::create(plan.bytes).map_err(|error| error.to_string())?;
    Ok(Kept {
        fd: Arc::new(fd),
        len,
        plan: plan.clone(),
        is_used: false,
        users: BTreeSet::new(),
    })
}

#[cfg(test)]
#[path = "states_tests.rs"]
mod tests;
