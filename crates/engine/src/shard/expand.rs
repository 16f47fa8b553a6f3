//! The pure pass: from a chain whose nodes have shards to one in which each shard is a node.
//!
//! | link from | to | becomes |
//! |---|---|---|
//! | one node | one node | itself |
//! | n shards | one node | n links, to the same input |
//! | one node | n shards | a splitter in the sender's loop, and n links |
//! | n shards | n shards by the same key, if packets keep it | n links, from each to its like |
//! | n shards | m shards otherwise | a splitter in each sender's loop, and n times m links |
//! | any | a port with m queues | n links, from sender i to queue i mod m: a port takes all |
//!
//! Nodes stand where the file has them, a node's shards one behind the other, and splitters behind
//! all; the same file gives the same chain, and a node keeps its name whatever the others become.

use super::key::ShardKey;
use super::names::{shard_name, splitter_name};
use super::sharding::Shard;
use super::split::{self, Config};
use crate::chain::link::{Aggregate, Link, Overflow, Protocol, SLOT_COUNT, Trust};
use crate::chain::model::{Chain, Mode, Node, NodeKind};
use crate::nf::{Inputs, NfPlan};

/// Makes a node of each shard. A chain without shards is left as it is.
pub fn expand(chain: Chain) -> Chain {
    if chain.nodes.iter().all(|node| node.shards.is_none()) {
        return chain;
    }
    let mut pass = Pass::over(&chain);
    for link in &chain.links {
        pass.link(link);
    }
    let Pass { nodes, links, .. } = pass;
    Chain {
        nodes,
        links,
        ..chain
    }
}

struct Pass<'c> {
    chain: &'c Chain,
    /// Where the shards of each node of the file begin.
    first: Vec<usize>,
    nodes: Vec<Node>,
    links: Vec<Link>,
}

/// How many workers a node of the file becomes.
pub(crate) fn count_of(node: &Node) -> u16 {
    node.shards.as_ref().map_or(1, |shards| shards.count)
}

/// How a link of the file is told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Sender i to receiver i.
    Alike,
    /// Sender i to receiver i mod m: a port takes what comes.
    Spread,
    /// By splitters.
    Split,
}

/// How packets go from `from` to `to`.
pub(crate) fn way(from: &Node, to: &Node) -> Way {
    let (Some(shards), false) = (&to.shards, to.is_port()) else {
        return Way::Spread;
    };
    let is_alike = from.shards.as_ref().is_some_and(|before| {
        before.count == shards.count && before.key.is_some() && before.key == shards.key
    });
    let is_same_function =
        shards.key != Some(ShardKey::Own) || (own_of(from) == own_of(to) && !knows_inputs(from));
    if is_alike && is_same_function && keeps_keys(from) {
        Way::Alike
    } else {
        Way::Split
    }
}

/// Whether packets leave a node with the key with which they came.
fn keeps_keys(node: &Node) -> bool {
    match &node.kind {
        NodeKind::Port { .. } => true,
        NodeKind::Nf { plan, .. } => plan.keeps_keys(),
    }
}

/// Whether a node's own key may depend on where packets come in.
fn knows_inputs(node: &Node) -> bool {
    matches!(&node.kind, NodeKind::Nf { plan, .. } if plan.inputs != Inputs::One)
}

/// Whose function a node's own key is.
fn own_of(node: &Node) -> Option<(String, serde_json::Value)> {
    match &node.kind {
        NodeKind::Port { .. } => None,
        NodeKind::Nf { kind, config, .. } => Some((kind.name.to_owned(), config.clone())),
    }
}

impl<'c> Pass<'c> {
    fn over(chain: &'c Chain) -> Self {
        let mut pass = Self {
            chain,
            first: Vec::with_capacity(chain.nodes.len()),
            nodes: Vec::new(),
            links: Vec::new(),
        };
        for node in &chain.nodes {
            pass.first.push(pass.nodes.len());
            let shard_of = |index| Node {
                name: shard_name(&node.name, index),
                shards: None,
                shard: Some(Shard {
                    of: node.name.clone(),
                    index,
                    count: count_of(node),
                }),
                ..node.clone()
            };
            match &node.shards {
                None => pass.nodes.push(node.clone()),
                Some(shards) => pass.nodes.extend((0..shards.count).map(shard_of)),
            }
        }
        pass
    }

    fn link(&mut self, link: &Link) {
        let (from, to) = (&self.chain.nodes[link.from], &self.chain.nodes[link.to]);
        let (senders, receivers) = (count_of(from), count_of(to));
        let way = way(from, to);
        for sender in 0..senders {
            let node = self.first[link.from] + usize::from(sender);
            match way {
                Way::Alike | Way::Spread => {
                    let receiver = self.first[link.to] + usize::from(sender % receivers);
                    self.add(Link {
                        from: node,
                        to: receiver,
                        ..link.clone()
                    });
                }
                Way::Split => self.split(node, link, to),
            }
        }
    }

    /// A splitter behind an output of `sender`, and a link to each shard.
    fn split(&mut self, sender: usize, link: &Link, to: &Node) {
        let Some(shards) = &to.shards else { return };
        let key = shards.key.clone().unwrap_or(ShardKey::Flow);
        let config = Config {
            own: (key == ShardKey::Own).then(|| own_of(to)).flatten(),
            key,
            shards: shards.count,
            input: link.input,
        };
        let config = config.to_json();
        let splitter = self.nodes.len();
        let node = &self.nodes[sender];
        self.nodes.push(Node {
            name: splitter_name(&node.name, output_name(node, link.output)),
            kind: NodeKind::Nf {
                kind: &split::KIND,
                plan: split_plan(&config),
                config,
            },
            mode: Mode::Inline,
            core: None,
            netns: None,
            group: node.group.clone(),
            // It does its work even where its sender is bypassed.
            on_death: node.on_death,
            shards: None,
            shard: None,
        });
        self.add(Link {
            from: sender,
            to: splitter,
            input: 0,
            ..within_a_loop(link)
        });
        for index in 0..shards.count {
            self.add(Link {
                from: splitter,
                output: u8::try_from(index).unwrap_or(u8::MAX),
                to: self.first[link.to] + usize::from(index),
                ..link.clone()
            });
        }
    }

    fn add(&mut self, link: Link) {
        let (from, to) = (&self.nodes[link.from], &self.nodes[link.to]);
        let name = match output_name(from, link.output) {
            Some(output) => format!("{}.{output} -> {}", from.name, to.name),
            None => format!("{} -> {}", from.name, to.name),
        };
        self.links.push(Link { name, ..link });
    }
}

/// The name of an output, if its node has several, or may have as many as it likes.
pub(crate) fn output_name(node: &Node, output: u8) -> Option<&str> {
    match &node.kind {
        NodeKind::Nf { plan, kind, .. } if plan.outputs.len() > 1 || kind.name == split::NAME => {
            plan.outputs.get(usize::from(output)).map(String::as_str)
        }
        _ => None,
    }
}

/// A link with no ring, whose settings are the same for every such link.
fn within_a_loop(link: &Link) -> Link {
    Link {
        trust: Trust::Shared,
        slot_count: SLOT_COUNT,
        overflow: Overflow::default(),
        protocol: Protocol::default(),
        aggregate: Aggregate::default(),
        ..link.clone()
    }
}

fn split_plan(config: &serde_json::Value) -> NfPlan {
    (split::KIND.plan)(config, &[]).unwrap_or_default()
}

#[cfg(test)]
#[path = "expand_tests.rs"]
mod tests;
