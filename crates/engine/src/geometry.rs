//! Sizes of a worker's memory, from its assignment: pools, rings, lanes, the counters page.
//!
//! Whoever makes memory, maps it, or reads what a dead worker left in it computes them alike.

use catena_shm::pool::PoolGeometry;
use catena_shm::region::Sharing;
use catena_shm::ring_memory::RingGeometry;

use crate::protocol::{Assignment, LaneSpec, PoolSpec, RingSpec};
use crate::stats::{PageLayout, SPARE_BLOCKS};

/// Geometry of a pool.
pub fn pool_geometry(spec: &PoolSpec) -> PoolGeometry {
    PoolGeometry {
        log2_stride: spec.log2_stride,
        buffer_count: spec.buffer_count,
        headroom: spec.headroom,
        bundles: spec.bundles,
    }
}

/// Geometry of a link's ring.
pub fn ring_geometry(spec: &RingSpec) -> RingGeometry {
    RingGeometry {
        slot_count: spec.slot_count,
        staging_bytes: spec.staging_bytes,
    }
}

/// Geometry of a lane's ring.
pub fn lane_geometry(spec: &LaneSpec) -> RingGeometry {
    RingGeometry {
        slot_count: spec.slot_count,
        staging_bytes: 0,
    }
}

/// Whether neighbours may write a pool.
pub fn pool_sharing(spec: &PoolSpec) -> Sharing {
    if spec.writable {
        Sharing::ReadWrite
    } else {
        Sharing::ReadOnly
    }
}

/// Layout of a worker's counters page.
pub fn page_layout(assignment: &Assignment) -> PageLayout {
    let worker = assignment.worker;
    let rings = |sends: bool| {
        let here = move |ring: &&RingSpec| {
            if sends {
                ring.from == worker
            } else {
                ring.to == worker
            }
        };
        assignment.rings.iter().filter(here).count()
    };
    PageLayout {
        node_count: assignment.nodes.len(),
        tx_count: rings(true) + SPARE_BLOCKS,
        rx_count: rings(false) + SPARE_BLOCKS,
    }
}
