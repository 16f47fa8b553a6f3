//! Cores that this process may use, and thus its chains: what the file says is held to them.

/// Cores that this process may use.
pub(super) type Available<'a> = &'a [usize];

/// Cores in this process's affinity mask.
pub(super) fn available_cores() -> Vec<usize> {
    match rustix::thread::sched_getaffinity(None) {
        Ok(set) => (0..rustix::thread::CpuSet::MAX_CPU)
            .filter(|&core| set.is_set(core))
            .collect(),
        // Only a kernel with more cores than the mask holds refuses this.
        Err(_) => (0..rustix::thread::CpuSet::MAX_CPU).collect(),
    }
}
