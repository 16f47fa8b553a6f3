//! Why a worker cannot do what it was assigned: the supervisor is told.

use catena_shm::region::RegionError;

/// Why a worker cannot do what it was assigned.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// Memory could not be made or attached.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// A node could not be built.
    #[error("{message}")]
    Node {
        /// Its index in the chain.
        node: usize,
        /// Why.
        message: String,
    },
    /// The assignment contradicts itself: the two sides are not of the same build.
    #[error("inconsistent assignment: {0}")]
    Inconsistent(&'static str),
}
