//! The worker: runs a part of the chain, in a thread, a process or a container.
//!
//! - `graph`: its nodes and edges.
//! - `turn`: one pass of the loop; the path of a packet.
//! - `probe`: when the clock is read in a turn, and what is noted of it.
//! - `runner`: the loop, and waiting when a pass moved nothing.
//! - `build`: from an assignment to a graph.
//! - `open`: ports, NFs and neighbours' memory.
//! - `serve`: the control connection to the supervisor.

pub mod build;
pub mod graph;
pub mod open;
pub mod probe;
pub mod runner;
pub mod serve;
pub mod turn;
