//! What is left in a chain that has ended: packets that never arrived, by name.

use std::collections::BTreeSet;

use catena_shm::descriptor::SLOTS_PER_BUNDLE;
use catena_shm::pool::PoolGeometry;

use crate::supervisor::status::Status;

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

impl Status {
    /// What did not leave a chain that has ended, a sentence for each place; none if it drained.
    pub fn remains(&self) -> Vec<String> {
        let links = self.links.iter().filter(|link| link.kind != "tcp");
        let links = links
            .filter(|link| link.occupancy > 0)
            .map(|link| format!("{}: {} packets are left in it", link.name, link.occupancy));
        let nodes = self.nodes.iter().filter(|node| node.held > 0);
        let nodes = nodes.map(|node| format!("{}: it holds {} packets", node.name, node.held));
        let buffers = self.buffers;
        let missing = buffers
            .allocated
            .saturating_sub(buffers.free + buffers.in_flight);
        let missing = (missing > 0).then(|| format!("{missing} buffers were not found again"));
        links.chain(nodes).chain(missing).collect()
    }
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
