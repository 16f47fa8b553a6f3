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

pub use super::limits::{LINK_COUNT_MAX, NODE_COUNT_MAX, SHARD_COUNT_MAX};
pub use super::link::{
    Aggregate, Link, Overflow, Protocol, SLOT_COUNT, SLOT_COUNT_LIMITS, SLOT_COUNT_PACKING, Trust,
};
pub use super::run::{
    BURST, BURST_LIMITS, Mode, ORPHAN_MS, ORPHAN_MS_MAX, OnDeath, Run, WaitChoice,
};
use crate::nf::{COUNTER_COUNT_MAX, NfKind, NfPlan};
use crate::port::{PortKind, PortRole, WrapKind};
use crate::shard::sharding::{Shard, Shards};

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
#[expect(
    clippy::large_enum_variant,
    reason = "nodes are few, made once, and mostly functions"
)]
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

/// Whether a node's place is empty: it has left a running chain, and its number stays.
pub fn is_gone(node: &Node) -> bool {
    node.name.is_empty()
}

/// Whether a link's place is empty, as [`is_gone`].
pub fn is_link_gone(link: &Link) -> bool {
    link.from == usize::MAX
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

    /// Places of those counters among its own that are not summed over lives of its worker.
    pub fn standing_counters(&self) -> Vec<usize> {
        let Self::Nf { plan, .. } = self else {
            return Vec::new();
        };
        let names = self.counter_names().into_iter().enumerate();
        let standing = names.filter(|(_, name)| plan.standing.contains(name));
        standing.map(|(at, _)| at).collect()
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
