//! Why a worker ended before it was told to: for whoever waits for its thread or process.

use crate::worker::build_error::BuildError;

/// Why a worker ended otherwise than by `Stop`.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The supervisor is gone.
    #[error("the supervisor closed the connection")]
    Disconnected,
    /// The kernel refused.
    #[error("control connection: {0}")]
    Os(#[from] rustix::io::Errno),
    /// A record that no supervisor of this version sends.
    #[error("control connection: {0}")]
    Protocol(String),
    /// What was assigned could not be built; the supervisor has been told.
    #[error(transparent)]
    Build(#[from] BuildError),
}
