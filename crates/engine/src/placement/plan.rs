//! What placement makes of a chain: the plan that the supervisor carries out, or why there is none.

use crate::chain::model::{Chain, Mode};
use crate::pools::POOL_COUNT_MAX;
use crate::protocol::{EdgeSpec, LEDGER_LINKS_MAX, LaneSpec, PoolSpec, RingSpec};

/// A worker and its nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkerSpec {
    /// Its name: that of its first NF, or `ports`.
    pub name: String,
    /// Where it runs; never `inline`.
    pub mode: Mode,
    /// Nodes by index in the chain, in topological order.
    pub nodes: Vec<usize>,
    /// Core it is pinned to, if the chain says so.
    pub core: Option<usize>,
    /// Network namespace that it enters, if the chain says so.
    pub netns: Option<String>,
    /// The node that leads it.
    pub leader: usize,
    /// The highest number that a link which leaves it has ever had in its ledgers.
    pub last_number: u8,
}

/// Workers, and the memory between them.
#[derive(Clone, Debug, PartialEq)]
pub struct Placement {
    /// The workers.
    pub workers: Vec<WorkerSpec>,
    /// Worker of each node.
    pub worker_of: Vec<usize>,
    /// Rings between workers.
    pub rings: Vec<RingSpec>,
    /// Pools; of workers that have left the chain too, as long as packets in them are on their way.
    pub pools: Vec<PoolSpec>,
    /// How many numbers pools have ever been given, those among them that have gone.
    pub pool_numbers: u16,
    /// Return lanes.
    pub lanes: Vec<LaneSpec>,
    /// Those among them, from which worker to which, that only packets take which were on their way
    /// when the chain changed.
    pub passing: Vec<(usize, usize)>,
    /// Edges, one per link.
    pub edges: Vec<EdgeSpec>,
}

impl Placement {
    /// How many of the workers are processes, in containers or not.
    pub(crate) fn process_count(&self) -> usize {
        let is_process = |mode| matches!(mode, Mode::Process | Mode::Container);
        let modes = self.workers.iter().map(|worker| worker.mode);
        modes.filter(|mode| is_process(*mode)).count()
    }
}

/// Why a chain cannot be placed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// There are more pools than a descriptor can tell apart, those among them that have gone.
    #[error(
        "the chain needs more than {POOL_COUNT_MAX} pools, in all its life: one for each size of \
         buffers and worker that makes packets"
    )]
    TooManyPools,
    /// More links leave a worker than its ledgers can tell apart, those among them that have gone.
    #[error("more than {LEDGER_LINKS_MAX} links leave the worker {worker}, in all its life")]
    TooManyLinks {
        /// Its name.
        worker: String,
    },
}

impl PlacementError {
    /// What to do.
    pub fn repair(&self) -> &'static str {
        match self {
            Self::TooManyPools => {
                "join workers that make packets (mode: inline), use fewer copy links, or fewer \
                 sizes of buffers; or start the chain anew"
            }
            Self::TooManyLinks { .. } => {
                "give some of its nodes another worker, or start the chain anew"
            }
        }
    }

    /// Both in one sentence.
    pub fn sentence(&self) -> String {
        format!("{self}; {}", self.repair())
    }
}

impl Placement {
    /// Whether a worker is none of the chain any more.
    pub fn has_left(&self, worker: usize) -> bool {
        self.workers[worker].nodes.is_empty()
    }

    /// Pools of workers of the chain.
    pub fn present_pools(&self) -> impl Iterator<Item = &PoolSpec> {
        let pools = self.pools.iter();
        pools.filter(|pool| !self.has_left(pool.owner))
    }

    /// Pools of workers that have left the chain, packets in which may still be on their way.
    pub fn passing_pools(&self) -> impl Iterator<Item = &PoolSpec> {
        let pools = self.pools.iter();
        pools.filter(|pool| self.has_left(pool.owner))
    }

    /// No packet of the pools of `owner` is on its way any more, and no lane leads there.
    pub(crate) fn forget_owner(&mut self, owner: usize) {
        self.pools.retain(|pool| pool.owner != owner);
        self.lanes.retain(|lane| lane.to != owner);
        self.passing.retain(|(_, to)| *to != owner);
    }

    /// Why the chain cannot go on when its supervisor has died (`run.orphan`), if there is a worker
    /// that cannot: as a sentence.
    pub fn not_kept(&self) -> Option<String> {
        let mut others = self.workers.iter();
        let other =
            others.find(|worker| !matches!(worker.mode, Mode::Process | Mode::Container))?;
        Some(format!(
            "only processes and containers can go on without a supervisor: worker {} is a thread of \
             the supervisor",
            other.name
        ))
    }

    /// The core that a worker gets of `cores` where the chain does not say: a shard the one of its
    /// number, so that shards of one number are together; the others are spread, neighbours in the
    /// chain together.
    pub fn core_of(&self, chain: &Chain, worker: usize, cores: &[usize]) -> Option<usize> {
        let leader = &chain.nodes[self.workers[worker].leader];
        let (index, count) = match &leader.shard {
            Some(shard) => (usize::from(shard.index), usize::from(shard.count)),
            None => (worker, self.workers.len()),
        };
        cores.get(index * cores.len() / count.max(1)).copied()
    }
}
