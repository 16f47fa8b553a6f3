//! What dead workers held, on its way home: each owner is told which buffers of its pools to take.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::protocol::ToWorker;
use crate::supervisor::reclaim::Unit;

/// Buffers of one pool that a dead worker held, or nobody took from its links and lanes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Reclaim {
    /// Links over which that worker can have come to hold them, by their numbers in the ledgers.
    pub(super) links: BTreeSet<u8>,
    pub(super) pool: u16,
    pub(super) buffers: Vec<u32>,
    /// Whether they were found to be nobody's: then those count that are still marked.
    pub(super) found: bool,
}

/// What is still to be taken home. An owner may die before it has done so: then nobody holds these
/// buffers, and they are simply not out any more.
#[derive(Debug, Default)]
pub(super) struct Reclaims {
    /// For owners that do not run now.
    pub(super) waiting: Vec<Reclaim>,
    /// Sent, by number; done when the owner's page says so.
    pub(super) under_way: Vec<(u64, Reclaim)>,
    pub(super) last: u64,
}

impl Reclaims {
    /// Number of the last one sent.
    pub(super) fn last_number(&self) -> u64 {
        self.last
    }

    pub(super) fn sent(&mut self, reclaim: Reclaim) -> ToWorker {
        let (pool, buffers) = (reclaim.pool, reclaim.buffers.clone());
        let links = reclaim.links.iter().copied().collect();
        ToWorker::Reclaim {
            number: self.number(reclaim),
            links,
            pool,
            buffers,
        }
    }

    /// A number for what an owner is about to be told to take home.
    pub(super) fn number(&mut self, reclaim: Reclaim) -> u64 {
        self.last += 1;
        self.under_way.push((self.last, reclaim));
        self.last
    }

    /// A pool is no more.
    pub(super) fn forget(&mut self, pool: u16) {
        self.waiting.retain(|reclaim| reclaim.pool != pool);
        self.under_way.retain(|(_, reclaim)| reclaim.pool != pool);
    }

    /// Buffers that an owner was told, or will be told, to take home, and had not by its page.
    pub(super) fn pending(&self) -> BTreeSet<Unit> {
        let under_way = self.under_way.iter().map(|(_, reclaim)| reclaim);
        let all = self.waiting.iter().chain(under_way);
        all.flat_map(|reclaim| reclaim.buffers.iter().map(|buffer| (reclaim.pool, *buffer)))
            .collect()
    }

    /// The owner of `pool` is dead and had done all up to number `done`: of what its ledger calls
    /// `out`, the rest of what it was to take home is at home. `marked` are the buffers that it was
    /// looking for.
    pub(super) fn settle(
        &mut self,
        pool: u16,
        out: Vec<(u32, u8)>,
        done: u64,
        marked: &BTreeSet<u32>,
    ) -> Vec<(u32, u8)> {
        let mut home = BTreeSet::new();
        self.waiting.retain_mut(|reclaim| {
            let here = reclaim.pool == pool;
            if here {
                home.extend(reclaim.buffers.drain(..));
            }
            !here
        });
        self.under_way.retain_mut(|(number, reclaim)| {
            let here = reclaim.pool == pool;
            if here && *number > done {
                let buffers = reclaim.buffers.drain(..);
                home.extend(buffers.filter(|buffer| !reclaim.found || marked.contains(buffer)));
            }
            !here
        });
        let mut out = out;
        out.retain(|(buffer, _)| !home.contains(buffer));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reclaim(pool: u16, buffers: &[u32]) -> Reclaim {
        Reclaim {
            links: BTreeSet::from([1]),
            pool,
            buffers: buffers.to_vec(),
            found: false,
        }
    }

    /// An owner that dies between being told to take buffers home and doing so must not leave them
    /// out for ever, and one that had done so must not lose what it has sent out again since.
    #[test]
    fn what_a_dead_owner_had_not_taken_home_is_home() {
        let mut reclaims = Reclaims::default();
        reclaims.sent(reclaim(7, &[1, 2]));
        reclaims.sent(reclaim(7, &[3]));
        reclaims.sent(reclaim(8, &[4]));
        reclaims.waiting.push(reclaim(7, &[5]));
        // Found to be nobody's: 7 is still marked, 8 came home and went out again.
        let found = Reclaim {
            found: true,
            ..reclaim(7, &[7, 8])
        };
        reclaims.number(found);
        let out = (1..=8).map(|buffer| (buffer, 1)).collect();
        let still = reclaims.settle(7, out, 1, &BTreeSet::from([7]));
        assert_eq!(still, [(1, 1), (2, 1), (4, 1), (6, 1), (8, 1)]);
        assert!(reclaims.waiting.is_empty());
        assert_eq!(reclaims.under_way.len(), 1, "the other pool's owner lives");
    }
}
