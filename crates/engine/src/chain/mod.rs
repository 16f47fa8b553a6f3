//! The chain: the graph of ports, NFs and links as passive data.
//!
//! Before any packet moves: a chain file is parsed and checked into a [`Chain`], which the engine
//! deploys. Nothing here opens a port or starts a worker. A change of a running chain is the
//! difference of two of these values.

pub mod model;
pub mod registry;

pub use model::{
    Chain, Link, Mode, Node, NodeKind, OnDeath, Overflow, Protocol, Run, Trust, WaitChoice,
    WrapSpec,
};
