//! Why a chain, or a worker of it, could not be started: a sentence for people.

use std::time::Duration;

use crate::supervisor::runtime_dir::RuntimeDirError;

/// Why a chain could not be started. Nothing of it is left running.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It cannot be placed.
    #[error("{0}")]
    Placement(String),
    /// More descriptors are needed than are allowed.
    #[error("{0}")]
    Descriptors(String),
    /// A worker could not be started.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A worker said why it cannot run.
    #[error("{worker}: {message}")]
    Worker {
        /// Its name, or that of the node at fault.
        worker: String,
        /// What it said.
        message: String,
    },
    /// The folder of the running chain.
    #[error(transparent)]
    RuntimeDir(#[from] RuntimeDirError),
    /// Somebody asked for the end before it had begun.
    #[error("interrupted before all workers ran; nothing is left of it")]
    Interrupted,
    /// A chain cannot be taken over. It stays as it is.
    #[error("chain \"{chain}\" cannot be taken over: {why}")]
    Adoption {
        /// Its name.
        chain: String,
        /// Why, and what to do.
        why: String,
    },
    /// The chain cannot outlive this process as its file says.
    #[error("{0}")]
    Orphan(String),
    /// It took too long.
    #[error("workers {0} did not start within {1:?}")]
    Timeout(String, Duration),
}

/// A worker that could not be started.
#[derive(Debug, thiserror::Error)]
#[error("cannot start worker {worker}: {reason}")]
pub struct SpawnError {
    /// Name of the worker.
    pub worker: String,
    /// Why, and what to do.
    pub reason: String,
}
