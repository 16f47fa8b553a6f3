//! What an NF gives up to the one that comes in its place.
//!
//! Beside the path of a packet, between two turns, when a running chain is changed
//! (`succession.rs`).

use std::any::Any;

use super::keep::Kept;
use super::nanos::Nanos;

/// What an NF gives up to the one that comes in its place.
#[derive(Debug, Default)]
pub struct HandOver {
    /// Packets that it held, with the instants at which each came, in the order in which they are
    /// to leave.
    pub held: Vec<(Nanos, Kept)>,
    /// What else it knows of them, in a type of its own: for a successor of its kind.
    pub note: Option<Box<dyn Any + Send>>,
}
