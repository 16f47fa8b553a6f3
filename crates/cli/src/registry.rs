//! What this binary can run: the NFs and ports of all crates it is built with.

use std::sync::Arc;

use catena_engine::chain::registry::Registry;

/// Every NF, port and wrapper.
pub(crate) fn registry() -> Arc<Registry> {
    Arc::new(Registry {
        nfs: [catena_engine::nfs::KINDS, catena_epon::NFS].concat(),
        ports: [
            catena_port::PORTS,
            catena_measure::traffic::PORTS,
            catena_epon::PORTS,
        ]
        .concat(),
        wraps: catena_port::WRAPS.to_vec(),
    })
}
