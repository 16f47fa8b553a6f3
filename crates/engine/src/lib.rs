//! Packet, link, NF, port and chain, and the loop that runs them.
//!
//! - [`packet`], [`nf`], [`port`]: three of the four nouns, as NF and port authors meet them.
//! - [`drop_reason`], [`config`], [`units`]: their vocabulary.
//! - [`link`], [`aggregation`]: one hop between workers, and how packets share it.
//! - [`pools`]: where packets come from and go home to.
//! - [`probe`]: what is noted of a packet on its way.
//! - [`segments`]: what a sender left to a network card, done.
//! - [`chain`]: the graph as data, from file to checked value; [`shard`]: one node as several.

pub mod aggregation;
pub mod chain;
pub mod config;
pub mod drop_reason;
mod geometry;
pub mod link;
pub mod load;
pub mod nf;
pub mod nf_bench;
pub mod nfs;
pub mod own_counters;
pub mod packet;
pub mod placement;
pub mod pools;
pub mod port;
pub mod probe;
pub mod protocol;
pub mod segments;
pub mod shard;
pub mod stats;
pub mod supervisor;
pub mod units;
pub mod wait;
pub mod worker;
