//! Which core each worker gets, and how many they have to themselves.

use crate::chain::Chain;
use crate::placement::Placement;

/// Of the cores that workers may use.
pub(super) fn core_for(chain: &Chain, placement: &Placement, worker: usize) -> Option<usize> {
    let allowed = allowed_cores();
    let cores = if chain.run.cores.is_empty() {
        &allowed
    } else {
        &chain.run.cores
    };
    placement.core_of(chain, worker, cores)
}

/// How many cores the workers have to themselves: fewer than workers if any two share one.
pub(super) fn cores_used(chain: &Chain, placement: &Placement, pin: bool) -> usize {
    if !pin {
        return allowed_cores().len();
    }
    let workers = placement.workers.iter().enumerate();
    let cores = workers.filter_map(|(n, spec)| spec.core.or_else(|| core_for(chain, placement, n)));
    cores
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        .max(1)
}

/// Cores this process may use.
pub(super) fn allowed_cores() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    let cores: Vec<usize> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|core| set.is_set(*core))
        .collect();
    if cores.is_empty() { vec![0] } else { cores }
}
