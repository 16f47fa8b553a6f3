//! Why a worker ended before it was told to: for whoever waits for its thread or process.

use rustix::io::Errno;

use crate::worker::build_error::BuildError;

/// Why a worker ended otherwise than by `Stop`.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The supervisor is gone.
    #[error("the supervisor closed the connection")]
    Disconnected,
    /// The kernel refused.
    #[error("control connection: {0}")]
    Os(Errno),
    /// A record that no supervisor of this version sends.
    #[error("control connection: {0}")]
    Protocol(String),
    /// What was assigned could not be built; the supervisor has been told.
    #[error(transparent)]
    Build(#[from] BuildError),
}

impl From<Errno> for ServeError {
    /// A supervisor that has ended while this worker had something to say is gone as any other: it
    /// has told why, and one line is enough.
    fn from(error: Errno) -> Self {
        match error {
            Errno::PIPE | Errno::CONNRESET => Self::Disconnected,
            other => Self::Os(other),
        }
    }
}
