//! How far a change of the running chain has come, and what of the old chain is still in use.

use std::collections::BTreeMap;

use crate::placement::Placement;
use crate::protocol::LaneSpec;
use crate::supervisor::memory::{RingName, rings};

/// How far a change of the running chain has come.
#[derive(Debug, Default)]
pub(super) enum Change {
    /// There is none.
    #[default]
    No,
    /// What is new is made; nothing is used yet. Workers that have died since are buried when it is
    /// decided which chain they belong to: the change fails, and it is the old one.
    Preparing(Vec<usize>),
    /// The chain is the new one, but not everybody knows its pools: a worker that dies is not
    /// replaced yet, since its successor would make packets of them.
    Admitting(Leaving),
    /// The chain is the new one.
    Switching(Leaving),
    /// The same, but its supervisor has died, and so has every worker: none is replaced before all
    /// that they left is settled.
    Completing(Leaving),
}

/// What of the old chain is still in use while the chain is the new one.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    rings: Vec<RingName>,
    lanes: Vec<LaneSpec>,
    /// Nodes of workers that go.
    nodes: BTreeMap<usize, Vec<usize>>,
    /// Nodes between which links lay that go.
    ends: BTreeMap<usize, (usize, usize)>,
}

impl Change {
    /// Whether a worker has died while the change was prepared.
    pub(super) fn has_lost(&self, worker: usize) -> bool {
        matches!(self, Self::Preparing(dead) if dead.contains(&worker))
    }

    /// Everybody knows the new pools.
    pub(super) fn has_admitted(&mut self) {
        *self = match std::mem::take(self) {
            Self::Admitting(leaving) => Self::Switching(leaving),
            other => other,
        };
    }

    /// Whether workers that have died wait to be replaced.
    pub(super) fn holds_successors(&self) -> bool {
        !matches!(self, Self::No | Self::Switching(_))
    }

    fn left(&self) -> Option<&Leaving> {
        match self {
            Self::Admitting(leaving) | Self::Switching(leaving) | Self::Completing(leaving) => {
                Some(leaving)
            }
            Self::No | Self::Preparing(_) => None,
        }
    }

    /// Rings in use that the placement does not name.
    pub(super) fn leaving(&self) -> &[RingName] {
        self.left().map_or(&[], |leaving| &leaving.rings)
    }

    /// Nodes of a worker that goes; none of one that stays.
    pub(super) fn leaving_nodes(&self, worker: usize) -> &[usize] {
        let nodes = self.left().and_then(|leaving| leaving.nodes.get(&worker));
        nodes.map_or(&[], Vec::as_slice)
    }

    /// Workers that go, each with its nodes.
    pub(super) fn leavers(&self) -> impl Iterator<Item = (usize, &[usize])> {
        let left = self.left().into_iter();
        left.flat_map(|leaving| {
            leaving
                .nodes
                .iter()
                .map(|(worker, nodes)| (*worker, &**nodes))
        })
    }

    /// Between which nodes a link lies that goes.
    pub(super) fn leaving_ends(&self, link: usize) -> Option<(usize, usize)> {
        self.left()?.ends.get(&link).copied()
    }

    /// Lanes among those rings, and by which links buffers came to who returns by them.
    pub(super) fn leaving_lanes(&self) -> &[LaneSpec] {
        self.left().map_or(&[], |leaving| &leaving.lanes)
    }
}

impl Leaving {
    /// What of `old` is in use while the chain becomes `now`.
    pub(super) fn of(old: &Placement, now: &Placement) -> Self {
        let kept = rings(now);
        let is_kept = |ring: &RingName| kept.iter().any(|other| other.producer == ring.producer);
        let leaving = rings(old).into_iter().filter(|ring| !is_kept(ring));
        let ends = |lane: &LaneSpec| (lane.from, lane.to);
        let is_over = |lane: &&LaneSpec| !now.lanes.iter().any(|other| ends(other) == ends(lane));
        let workers = old.workers.iter().zip(&now.workers).enumerate();
        let going = workers.filter(|(_, (_, now))| now.nodes.is_empty());
        let nodes = going.map(|(worker, (old, _))| (worker, old.nodes.clone()));
        let stays = |link: usize| now.edges.iter().any(|edge| edge.link == link);
        let edges = old.edges.iter().filter(|edge| !stays(edge.link));
        Self {
            nodes: nodes.collect(),
            ends: edges
                .map(|edge| (edge.link, (edge.from, edge.to)))
                .collect(),
            rings: leaving.collect(),
            lanes: old.lanes.iter().filter(is_over).cloned().collect(),
        }
    }
}
