//! What a checked chain file says, with every default filled in.
//!
//! Invariants, held by the checker: names are unique; links join existing nodes, and a circle of
//! links leads through a port or an NF at which packets end;
//! each output feeds one link, and an input many only from shards of one node; inputs and outputs
//! are numbered from 0 in file order; at most
//! [`NODE_COUNT_MAX`] nodes and [`LINK_COUNT_MAX`] links; trust is resolved per link so that no NF
//! that writes packets reads from an `ro` link, and no packet that came over an `ro` link goes on
//! over a `shared` one.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::nf::{COUNTER_COUNT_MAX, NfKind, NfPlan};
use crate::port::{PortKind, PortRole, WrapKind};
use crate::shard::{Shard, Shards};

/// Most nodes in a chain, each shard being one: what 64 cores need.
pub const NODE_COUNT_MAX: usize = 1024;
/// Most links in a chain, each between two shards being one: 64 to 64, twice.
pub const LINK_COUNT_MAX: usize = 8192;
/// Most shards of a node, and queues of a port.
pub const SHARD_COUNT_MAX: u16 = 64;
/// Fewest and most slots of a link; the defaults are [`SLOT_COUNT`] and [`SLOT_COUNT_PACKING`].
pub const SLOT_COUNT_LIMITS: (u32, u32) = (2, 16_384);
/// Slots of a link that packs nothing, unless the file says otherwise: small enough that what is
/// in flight stays in L2.
pub const SLOT_COUNT: u32 = 1024;
/// Slots of a link that may pack packets, unless the file says otherwise. Slots count packets: with
/// fewer, so few bundles are in flight that their two sides wait for each other.
pub const SLOT_COUNT_PACKING: u32 = 2048;
/// Packets in a burst unless the file says otherwise.
pub const BURST: u16 = 128;
/// Fewest and most packets in a burst.
pub const BURST_LIMITS: (u16, u16) = (1, 256);

/// A checked chain.
#[derive(Clone, Debug)]
pub struct Chain {
    /// Its name: one running chain per name and user.
    pub name: String,
    /// Folder of the chain file; relative paths in it start here.
    pub dir: PathBuf,
    /// Ports and NFs, in file order, ports first.
    pub nodes: Vec<Node>,
    /// Links, in file order.
    pub links: Vec<Link>,
    /// How it runs.
    pub run: Run,
}

/// A port or an NF.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// What it is.
    pub kind: NodeKind,
    /// Where it runs (`run.mode` unless it says otherwise).
    pub mode: Mode,
    /// The core it is pinned to, if the file says so.
    pub core: Option<usize>,
    /// The network namespace it runs in, if the file says so.
    pub netns: Option<String>,
    /// Its trust group.
    pub group: String,
    /// What happens to its packets while it is down.
    pub on_death: OnDeath,
    /// How the file has it sharded; none once the shards are nodes.
    pub shards: Option<Shards>,
    /// Which shard it is, of a node of the file.
    pub shard: Option<Shard>,
}

/// What a node is.
#[derive(Clone, Debug)]
pub enum NodeKind {
    /// Packet input and output.
    Port {
        /// Its type.
        kind: &'static PortKind,
        /// Its configuration, as JSON.
        config: serde_json::Value,
        /// Its directions.
        role: PortRole,
        /// Wrappers, innermost first.
        wraps: Vec<WrapSpec>,
    },
    /// A network function.
    Nf {
        /// Its type.
        kind: &'static NfKind,
        /// Its configuration, as JSON.
        config: serde_json::Value,
        /// What it is planned as.
        plan: NfPlan,
    },
}

/// A wrapper around a port.
#[derive(Clone, Debug)]
pub struct WrapSpec {
    /// Its type.
    pub kind: &'static WrapKind,
    /// Its configuration, as JSON.
    pub config: serde_json::Value,
}

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

/// How a chain runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Run {
    /// Mode of nodes that name none.
    pub mode: Mode,
    /// How idle workers wait.
    pub wait: WaitChoice,
    /// Packets in a burst.
    pub burst: u16,
    /// Cores that workers may use; all allowed ones if empty.
    pub cores: Vec<usize>,
    /// Buffers of each size in each pool, where the file says so: (bytes per buffer, count).
    pub buffers: Vec<(u32, u32)>,
    /// Image for `container` mode.
    pub image: Option<String>,
    /// For how long workers go on without a supervisor, in milliseconds; 0: they end with it.
    pub orphan_ms: u64,
}

/// What `orphan: keep` means: ten minutes, in milliseconds.
pub const ORPHAN_MS: u64 = 600_000;
/// The longest that workers may go on without a supervisor: an hour.
pub const ORPHAN_MS_MAX: u64 = 3_600_000;

/// Where a node runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Fused with the node before it into one run-to-completion loop.
    Inline,
    /// A thread of the `catena run` process.
    Thread,
    /// A process of its own.
    #[default]
    Process,
    /// A container of its own.
    Container,
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

/// What happens to the packets of a node that has died, until it runs again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDeath {
    /// They wait in its input links.
    #[default]
    Hold,
    /// They pass unprocessed to its first output.
    Bypass,
    /// They are dropped (`nf_down`).
    Drop,
}

/// How idle workers wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitChoice {
    /// Decided by measuring at start.
    #[default]
    Auto,
    /// Never sleep.
    Spin,
    /// Give way to others, never sleep.
    Yield,
    /// Sleep at once.
    Sleep,
}

impl Chain {
    /// Index of the node with this name.
    pub fn node_index(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|node| node.name == name)
    }

    /// Indices of the node with this name, or of the shards of the node that has it in the file.
    pub fn nodes_named(&self, name: &str) -> Vec<usize> {
        if let Some(node) = self.node_index(name) {
            return vec![node];
        }
        let is_shard = |node: &Node| node.shard.as_ref().is_some_and(|shard| shard.of == name);
        // The place of one that has gone has no name.
        let here = |node: &&usize| !self.nodes[**node].name.is_empty();
        let all: Vec<usize> = (0..self.nodes.len()).collect();
        let shards = all
            .iter()
            .filter(here)
            .filter(|node| is_shard(&self.nodes[**node]));
        shards.copied().collect()
    }

    /// Links that leave node `node`, with their indices.
    pub fn links_from(&self, node: usize) -> impl Iterator<Item = (usize, &Link)> {
        self.links
            .iter()
            .enumerate()
            .filter(move |(_, link)| link.from == node)
    }

    /// Links that reach node `node`, with their indices.
    pub fn links_to(&self, node: usize) -> impl Iterator<Item = (usize, &Link)> {
        self.links
            .iter()
            .enumerate()
            .filter(move |(_, link)| link.to == node)
    }
}

impl NodeKind {
    /// Names of what the node counts itself, as many as its block of counters holds; a wrapper's
    /// follow those of the port inside.
    pub fn counter_names(&self) -> Vec<String> {
        let mut names: Vec<String> = match self {
            Self::Port { kind, wraps, .. } => {
                let wraps = wraps.iter().flat_map(|wrap| wrap.kind.counters);
                let names = kind.counters.iter().chain(wraps);
                names.map(|name| (*name).to_owned()).collect()
            }
            Self::Nf { plan, .. } => plan.counters.clone(),
        };
        names.truncate(COUNTER_COUNT_MAX);
        names
    }

    /// Names of the drop reasons of the node's own.
    pub fn drop_reason_names(&self) -> Vec<String> {
        match self {
            Self::Port { kind, .. } => {
                let names = kind.drop_reasons.iter();
                names.map(|name| (*name).to_owned()).collect()
            }
            Self::Nf { plan, .. } => plan.drop_reasons.clone(),
        }
    }
}

impl Node {
    /// Whether it is a port.
    pub fn is_port(&self) -> bool {
        matches!(self.kind, NodeKind::Port { .. })
    }

    /// Whether the way of every packet that reaches it ends there: it is a port, or an NF whose
    /// packets are of its own making.
    pub fn ends_paths(&self) -> bool {
        match &self.kind {
            NodeKind::Port { .. } => true,
            NodeKind::Nf { plan, .. } => plan.ends_paths(),
        }
    }

    /// Whether it is a port that takes packets one by one.
    pub fn takes_singly(&self) -> bool {
        match &self.kind {
            NodeKind::Port { wraps, .. } => wraps.iter().any(|wrap| wrap.kind.takes_singly),
            NodeKind::Nf { .. } => false,
        }
    }

    /// The word that names its type in the chain file.
    pub fn type_name(&self) -> &'static str {
        match &self.kind {
            NodeKind::Port { kind, .. } => kind.name,
            NodeKind::Nf { kind, .. } => kind.name,
        }
    }
}
