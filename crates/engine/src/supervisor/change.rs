//! How far a change of the running chain has come, and what of the old chain is still in use.

use crate::placement::Placement;
use crate::protocol::PoolSpec;
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
    /// The chain is the new one. Rings and pools of the old one that are still in use.
    Switching(Vec<RingName>, Vec<PoolSpec>),
    /// The same, but its supervisor has died, and so has every worker: none is replaced before all
    /// that they left is settled.
    Completing(Vec<RingName>, Vec<PoolSpec>),
}

impl Change {
    /// Whether a worker has died while the change was prepared.
    pub(super) fn has_lost(&self, worker: usize) -> bool {
        matches!(self, Self::Preparing(dead) if dead.contains(&worker))
    }

    /// What of `old` is in use while the chain becomes `now`.
    pub(super) fn switching(old: &Placement, now: &Placement) -> Self {
        let kept = rings(now);
        let is_kept = |ring: &RingName| kept.iter().any(|other| other.producer == ring.producer);
        let leaving = rings(old).into_iter().filter(|ring| !is_kept(ring));
        let is_gone = |pool: &&PoolSpec| !now.pools.iter().any(|other| other.id == pool.id);
        let pools = old.pools.iter().filter(is_gone).cloned();
        Self::Switching(leaving.collect(), pools.collect())
    }

    /// Rings in use that the placement does not name.
    pub(super) fn leaving(&self) -> &[RingName] {
        match self {
            Self::Switching(rings, _) | Self::Completing(rings, _) => rings,
            Self::No | Self::Preparing(_) => &[],
        }
    }

    /// Pools in use that the placement does not name: their owners wait for the last buffer.
    pub(super) fn leaving_pools(&self) -> &[PoolSpec] {
        match self {
            Self::Switching(_, pools) | Self::Completing(_, pools) => pools,
            Self::No | Self::Preparing(_) => &[],
        }
    }
}
