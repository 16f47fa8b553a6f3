//! Memory that outlives NFs: made here, kept here, and given to whoever runs the node next.
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
use crate::protocol::ToWorker;
use crate::supervisor::Supervisor;
use crate::supervisor::apply::Change;
use crate::supervisor::renumber::is_gone;

/// One region.
#[derive(Clone, Debug)]
struct Kept {
    fd: Arc<OwnedFd>,
    len: usize,
    plan: StatePlan,
    /// Whether an NF has had it.
    is_used: bool,
}

/// Regions of a chain, by node and name.
#[derive(Debug, Default)]
pub(super) struct States {
    kept: BTreeMap<(usize, String), Kept>,
    /// Made for a change that is being prepared.
    new: BTreeMap<(usize, String), Kept>,
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

/// What becomes of the memory of nodes that are in both chains, for people: one line for each
/// region that a node with other settings keeps, or does not.
pub fn fates(old: &Chain, new: &Chain) -> Vec<String> {
    let mut lines = Vec::new();
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

impl Supervisor {
    /// Gives a worker the memory of `nodes`, before it is told to build them. One that runs already
    /// (`is_running`) has what it was given before.
    pub(super) fn give_states(
        &mut self,
        worker: usize,
        nodes: &[usize],
        is_running: bool,
    ) -> Result<(), String> {
        let is_prepared = matches!(self.change, Change::Preparing(_));
        for node in nodes {
            for plan in states_of(&self.chain.nodes[*node]) {
                let key = (*node, plan.name.clone());
                let kept = self.states.kept.get(&key);
                let kept = kept.filter(|kept| kept.plan == *plan).cloned();
                let is_here = kept.is_some();
                let state = match kept {
                    Some(kept) => kept,
                    None => make(plan).map_err(|error| format!("{}: {error}", plan.name))?,
                };
                if !(is_here && is_running) {
                    let record = ToWorker::State {
                        node: *node,
                        name: plan.name.clone(),
                        len: state.len,
                        is_taken_over: state.is_used,
                    };
                    self.instances[worker].send_with(&record, Some(&state.fd));
                }
                if !is_here {
                    let is_used = true;
                    let state = Kept { is_used, ..state };
                    let place = match is_prepared {
                        true => &mut self.states.new,
                        false => &mut self.states.kept,
                    };
                    place.insert(key, state);
                }
            }
        }
        Ok(())
    }

    /// A change is not made: nobody has had what was made for it.
    pub(super) fn forget_new_states(&mut self) {
        self.states.new.clear();
    }

    /// A change is made: what is new is kept, what no plan asks for any more is let go of.
    pub(super) fn adopt_new_states(&mut self) {
        let new = std::mem::take(&mut self.states.new);
        self.states.kept.extend(new);
        let nodes = &self.chain.nodes;
        self.states.kept.retain(|(node, _), kept| {
            let node = nodes.get(*node).filter(|node| !is_gone(node));
            node.is_some_and(|node| states_of(node).contains(&kept.plan))
        });
    }
}

fn make(plan: &StatePlan) -> Result<Kept, String> {
    let (fd, len) = state::create(plan.bytes).map_err(|error| error.to_string())?;
    Ok(Kept {
        fd: Arc::new(fd),
        len,
        plan: plan.clone(),
        is_used: false,
    })
}
