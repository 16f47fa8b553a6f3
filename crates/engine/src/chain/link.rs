//! A link as a chain file describes it: what it joins, and how packets are handed over on it.
//!
//! Placement makes a ring of it, or a connection; [`crate::link`] is what moves packets then.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Fewest and most slots of a link; the defaults are [`SLOT_COUNT`] and [`SLOT_COUNT_PACKING`].
pub const SLOT_COUNT_LIMITS: (u32, u32) = (2, 16_384);
/// Slots of a link that packs nothing, unless the file says otherwise: small enough that what is
/// in flight stays in L2.
pub const SLOT_COUNT: u32 = 1024;
/// Slots of a link that may pack packets, unless the file says otherwise. Slots count packets: with
/// fewer, so few bundles are in flight that their two sides wait for each other.
pub const SLOT_COUNT_PACKING: u32 = 2048;

/// A link between two nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Its name: `from -> to`, with `.output` where the node has several.
    pub name: String,
    /// Index of the node it leaves.
    pub from: usize,
    /// Index of the output it leaves by.
    pub output: u8,
    /// Index of the node it reaches.
    pub to: usize,
    /// Index of the input it reaches, in file order of the links to that node.
    pub input: u8,
    /// What the two sides may do to each other's memory.
    pub trust: Trust,
    /// What happens when it is full.
    pub overflow: Overflow,
    /// Number of slots, a power of two (1 in flag protocol, 0 over TCP).
    pub slot_count: u32,
    /// How packets are handed over.
    pub protocol: Protocol,
    /// Whether small packets share bundles.
    pub aggregate: Aggregate,
}

/// What the two sides of a link may do to each other's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Trust {
    /// Zero-copy; both sides may write packets.
    Shared,
    /// Zero-copy; the receiver's mapping is read-only.
    Ro,
    /// Nothing is shared but the ring; packets are copied.
    Copy,
}

/// What happens to a packet for which a link has no slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// The sender waits: it pulls nothing that it could not pass on. Pressure reaches the chain's
    /// entry.
    #[default]
    Block,
    /// The newest packet is dropped (`link_full`).
    DropTail,
    /// The oldest packets are dropped (`link_stale`), so that those that pass are fresh.
    DropHead,
}

/// How packets are handed over on a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// A ring with one publish per burst.
    #[default]
    Ring,
    /// One slot with an update flag (NTT, OFC 2024).
    Flag,
    /// A TCP connection, through the kernel: the conventional way, for comparison.
    Tcp,
}

/// Whether small packets that are in hand together share a bundle (PA-Flow).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Aggregate {
    /// While bursts are large and packets small.
    #[default]
    Auto,
    /// Never; bundles that arrive travel on packet by packet.
    Off,
    /// Whenever two small packets are in hand.
    On,
}
