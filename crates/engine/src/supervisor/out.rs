//! How much of a pool is out, by its ledger: what `status` counts as in flight.
//!
//! Beside the life of packets: their owner notes here what it gives away.

use std::collections::BTreeSet;

use catena_shm::descriptor::SLOTS_PER_BUNDLE;
use catena_shm::pool::PoolGeometry;

/// How many buffers of a pool are out, by its ledger: the packets of a bundle share one.
pub(super) fn buffers_of(out: &[(u32, u8)], geometry: PoolGeometry) -> u64 {
    let per_buffer = if geometry.bundles {
        SLOTS_PER_BUNDLE
    } else {
        1
    };
    let buffers: BTreeSet<u32> = out.iter().map(|(unit, _)| unit / per_buffer).collect();
    buffers.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_of_a_bundle_are_one_buffer() {
        let geometry = |bundles| PoolGeometry {
            log2_stride: 14,
            buffer_count: 4,
            headroom: 0,
            bundles,
        };
        let out = [
            (0, 1),
            (1, 1),
            (SLOTS_PER_BUNDLE - 1, 2),
            (SLOTS_PER_BUNDLE, 1),
        ];
        assert_eq!(buffers_of(&out, geometry(true)), 2);
        assert_eq!(buffers_of(&out, geometry(false)), 4);
    }
}
