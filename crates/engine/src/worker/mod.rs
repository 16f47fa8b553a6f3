//! The worker: runs a part of the chain, in a thread, a process or a container.
//!
//! - `graph`: its nodes and edges.
//! - `turn`: one pass of the loop; the path of a packet.
//! - `split`: bundles whose packets part.
//! - `seal`: the end of a pass.
//! - `probe`: when the clock is read in a turn, and what is noted of it.
//! - `holding`: what NFs hold between turns.
//! - `runner`: the loop, and waiting when a pass moved nothing.
//! - `accounts`: when counters are stored.
//! - `build`: from an assignment to a graph.
//! - `node_memory`: memory that outlives NFs.
//! - `built`: what comes of it.
//! - `geometry`: sizes of its memory.
//! - `finishing`: its last turns.
//! - `open`: ports, NFs and neighbours' memory.
//! - `serve`: what the supervisor says, from first word to last; `connection`: how it is heard.
//! - `confine`: where a worker runs, and what one in a process of its own gives up.
//! - `doorbell`: how the control thread reaches the data path.
//! - `connect`: who connects to whom on TCP links; `address`: where.
//! - `ends`: ends of links that are ports.
//! - `socket_wait`: sleeping on sockets.

mod accounts;
mod address;
pub mod build;
mod built;
mod confine;
mod connect;
mod connection;
pub mod doorbell;
pub mod ends;
mod finishing;
mod geometry;
pub mod graph;
pub mod holding;
mod idleness;
pub mod node_memory;
pub mod open;
pub mod probe;
pub mod runner;
mod seal;
pub mod serve;
pub mod socket_wait;
mod split;
pub mod turn;
