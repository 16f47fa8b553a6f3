//! Memory that outlives NFs: made here, kept here, and given to whoever runs the node next
//! (`handover`).
//!
//! A node's plan names it ([`StatePlan`]). The first instance of its worker
//! gets it, its successor after a death, and the NF with other settings after a change, if name,
//! size and layout are the same; else that one gets new memory, which `catena plan` says. It is
//! handed on only after the kernel has confirmed the exit of whoever had it; within one worker the
//! old NF is gone before the new one is given it. A node that moves to another worker starts anew.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use catena_shm::state;

use crate::chain::{Chain, Node, NodeKind};
use crate::nf::StatePlan;
use crate::shard::moving::MakeMover;

/// One region.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) fd: Arc<OwnedFd>,
    pub(super) len: usize,
    pub(super) plan: StatePlan,
    /// Whether an NF has had it.
    pub(super) is_used: bool,
}

/// Regions of a chain, by node and name.
#[derive(Debug, Default)]
pub(super) struct States {
    pub(super) kept: BTreeMap<(usize, String), Kept>,
    /// Made for a change that is being prepared.
    pub(super) new: BTreeMap<(usize, String), Kept>,
}

impl States {
    /// Every region: node, name, memory and size.
    pub(super) fn everything(&self) -> impl Iterator<Item = (usize, &str, &Arc<OwnedFd>, usize)> {
        let kept = self.kept.iter();
        kept.map(|((node, name), kept)| (*node, name.as_str(), &kept.fd, kept.len))
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
            let kept = Kept {
                fd,
                len,
                plan: plan.clone(),
                is_used: true,
            };
            self.kept.insert((node, name.to_owned()), kept);
        }
    }
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
    let is_same = from.of == to.of && was.name == kind.name && old.state == plan.state;
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
        for state in states_of(before) {
            let is_same = super::renumber::stays(before, after);
            let is_kept = is_same && states_of(after).contains(state);
            let what = if is_kept { "is kept" } else { "starts anew" };
            lines.push(format!("  node {}: {} {what}", before.name, state.name));
        }
    }
    lines
}

/// New memory, as `plan` asks for it.
pub(super) fn make(plan: &StatePlan) -> Result<Kept, String> {
    let (fd, len) = state::create(plan.bytes).map_err(|error| error.to_string())?;
    Ok(Kept {
        fd: Arc::new(fd),
        len,
        plan: plan.clone(),
        is_used: false,
    })
}
