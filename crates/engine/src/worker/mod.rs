//! The worker: runs a part of the chain, in a thread, a process or a container.
//!
//! - `graph`: its nodes and edges; `work`: what a node does.
//! - `lists`: which of them are ports, and which NFs.
//! - `gone_links`: what links had counted that have gone.
//! - `turn`: one pass of the loop; the path of a packet.
//! - `split`: bundles whose packets part.
//! - `seal`: the end of a pass.
//! - `probe`: when the clock is read in a turn, and what is noted of it.
//! - `holding`: what NFs hold between turns.
//! - `runner`: the loop, and waiting when a pass moved nothing.
//! - `accounts`: when counters are stored.
//! - `build`: from an assignment to a graph; `build_error`: why there is none.
//! - `node_memory`: memory that outlives NFs.
//! - `built`: what comes of it.
//! - `finishing`: its last turns.
//! - `open`: ports, NFs and neighbours' memory.
//! - `serve`: what the supervisor says, from first word to last; `connection`: how it is heard;
//!   `serve_error`: why it is heard no more.
//! - `confine`: where a worker runs, and what one in a process of its own gives up.
//! - `berth`: the data path's thread.
//! - `doorbell`: how the control thread reaches the data path.
//! - `connect`: who connects to whom on TCP links; `address`: where.
//! - `ends`: ends of links that are ports; `link_end`: which they are.
//! - `socket_wait`: sleeping on sockets.

mod accounts;
mod address;
mod berth;
pub mod build;
mod build_error;
mod built;
pub(crate) mod confine;
mod connect;
mod connection;
pub mod doorbell;
pub mod ends;
mod finishing;
pub mod gone_links;
pub mod graph;
pub mod holding;
mod idleness;
pub mod link_end;
mod lists;
pub mod node_memory;
pub mod open;
pub mod probe;
pub mod runner;
mod seal;
pub mod serve;
pub(crate) mod serve_error;
pub mod socket_wait;
mod split;
pub mod turn;
mod work;
