//! From what a chain file says of shards, held to what the nodes can be, to the chain in which each
//! shard is a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::nodes::{Draft, Drafts, Part};
use super::sharding::ShardsDraft;
use crate::chain::diagnostic::{Position, Report};
use crate::chain::model::{Chain, LINK_COUNT_MAX, NODE_COUNT_MAX, NodeKind};
use crate::shard::expand::{Way, count_of, expand, way};
use crate::shard::{ShardKey, Sharding, name_in_file};

/// Holds what the file says to what the nodes are planned as, and fills in the key that it leaves
/// to an NF.
pub(super) fn check(report: &mut Report<'_>, drafts: &mut [Draft<'_>]) {
    for draft in drafts {
        let name = draft.name;
        let Some(shards) = &mut draft.shards else {
            continue;
        };
        match &draft.part {
            Part::Port { role, kind, .. } => {
                let most = role.as_ref().map_or(u16::MAX, |role| role.queues_max);
                if shards.resolved.count > most {
                    let kind = kind.map_or("", |kind| kind.name);
                    report.error(
                        shards.at,
                        format!(
                            "port {name} cannot have {} queues: {kind} has {most}",
                            shards.resolved.count
                        ),
                        match most {
                            1 => "remove queues; shards behind it get their packets by a splitter"
                                .to_owned(),
                            _ => format!("write queues: {most}"),
                        },
                    );
                }
                if shards.resolved.key == Some(ShardKey::Own) {
                    report.error(
                        shards.key_at,
                        format!("port {name} has no key of its own"),
                        "write flow or inner_flow if its device splits its queues so, or remove \
                         key",
                    );
                }
            }
            Part::Nf { plan, .. } => {
                if let Some(plan) = plan {
                    key_of_nf(report, name, shards, &plan.sharding);
                }
            }
        }
        check_ranges(report, shards);
    }
}

fn key_of_nf(report: &mut Report<'_>, name: &str, shards: &mut ShardsDraft, can: &Sharding) {
    let said = shards.resolved.key.clone();
    let key = match (can, said) {
        (Sharding::No(why), _) => {
            return report.error(
                shards.at,
                format!("{name} cannot be sharded: {why}"),
                "remove shards",
            );
        }
        (Sharding::Any, None) => {
            return report.error(
                shards.at,
                format!("nothing says which packets of {name} belong to one shard"),
                format!(
                    "write shards: {{ count: {}, key: flow }}",
                    shards.resolved.count
                ),
            );
        }
        (Sharding::Any, Some(ShardKey::Own)) => {
            return report.error(
                shards.key_at,
                format!("{name} has no key of its own"),
                "write flow or inner_flow",
            );
        }
        (Sharding::Own(_), None | Some(ShardKey::Own)) => ShardKey::Own,
        (Sharding::By(key), None) => key.clone(),
        (Sharding::By(key), Some(said)) if *key == said => said,
        (Sharding::Any, Some(said)) => said,
        (Sharding::By(_) | Sharding::Own(_), Some(_)) => {
            return report.error(
                shards.key_at,
                format!("{name} is sharded by a key that its type names, and by no other"),
                "remove key",
            );
        }
    };
    shards.resolved.key = Some(key);
}

/// Each shard gets a part of every range.
fn check_ranges(report: &mut Report<'_>, shards: &ShardsDraft) {
    let Some(ShardKey::Session(space)) = &shards.resolved.key else {
        return;
    };
    let bits = space.ue.iter().map(|(address, len)| match address {
        IpAddr::V4(_) => 32 - len,
        IpAddr::V6(_) => 64 - len,
    });
    let least = bits.chain([space.teid_bits()]).min().unwrap_or(0);
    if u64::from(shards.resolved.count) > 1_u64.checked_shl(least).unwrap_or(u64::MAX) {
        report.error(
            shards.key_at,
            format!("a range is too small for {} parts", shards.resolved.count),
            "write fewer shards, or a shorter prefix",
        );
    }
}

/// Where nodes and their shards are said, by name.
pub(super) struct Places(BTreeMap<String, (Position, Position)>);

impl Places {
    /// Of all nodes.
    pub(super) fn of(drafts: Drafts<'_>) -> Self {
        let place = |draft: &Draft<'_>| {
            let shards_at = draft.shards.as_ref().map_or(draft.at, |shards| shards.at);
            (draft.name.to_owned(), (draft.at, shards_at))
        };
        Self(drafts.iter().map(place).collect())
    }

    fn node(&self, name: &str) -> Position {
        let found = self.0.get(name_in_file(name));
        found.map_or(Position::FILE, |(node, _)| *node)
    }

    fn shards(&self, name: &str) -> Position {
        let found = self.0.get(name_in_file(name));
        found.map_or(Position::FILE, |(_, shards)| *shards)
    }
}

/// The chain in which each shard is a node, unless it would be too large, or shards would not run
/// side by side.
pub(super) fn expanded(report: &mut Report<'_>, chain: Chain, places: &Places) -> Option<Chain> {
    let last = chain.nodes.iter().rfind(|node| node.shards.is_some());
    let Some(last) = last else { return Some(chain) };
    let (nodes, links) = size_of(&chain);
    for (count, most, what) in [
        (nodes, NODE_COUNT_MAX, "ports, NFs and splitters"),
        (links, LINK_COUNT_MAX, "links"),
    ] {
        if count > most {
            report.error(
                places.shards(&last.name),
                format!("with all shards there are {count} {what}, and {most} is the most"),
                "write fewer shards, or the same key and number where shards follow each other",
            );
            return None;
        }
    }
    let chain = expand(chain);
    check_loops(report, &chain, places);
    Some(chain)
}

/// Nodes and links with all shards.
fn size_of(chain: &Chain) -> (usize, usize) {
    let mut nodes: usize = chain
        .nodes
        .iter()
        .map(|node| usize::from(count_of(node)))
        .sum();
    let mut links = 0;
    for link in &chain.links {
        let (from, to) = (&chain.nodes[link.from], &chain.nodes[link.to]);
        let (senders, receivers) = (usize::from(count_of(from)), usize::from(count_of(to)));
        match way(from, to) {
            Way::Alike | Way::Spread => links += senders,
            Way::Split => {
                nodes += senders;
                links += senders * (receivers + 1);
            }
        }
    }
    (nodes, links)
}

/// Shards are there to run side by side, and an inline node runs in one loop.
fn check_loops(report: &mut Report<'_>, chain: &Chain, places: &Places) {
    let fusion = chain.fusion();
    let mut told = Vec::new();
    let mut tell = |report: &mut Report<'_>, name: &str, message: String| {
        let name = name_in_file(name).to_owned();
        if !told.contains(&name) {
            report.error(
                places.node(&name),
                message,
                "give it mode: thread or process, or as many shards, by the same key, as what \
                 sends to it",
            );
            told.push(name);
        }
    };
    for &node in &fusion.torn {
        let name = &chain.nodes[node].name;
        let message = format!(
            "{} is inline, but its packets come from several workers, shards of one node",
            name_in_file(name)
        );
        tell(report, name, message);
    }
    for (index, node) in chain.nodes.iter().enumerate() {
        let Some(shard) = node.shard.as_ref().filter(|shard| shard.index > 0) else {
            continue;
        };
        let leader = fusion.leader[index];
        let first = index - usize::from(shard.index);
        if leader == fusion.leader[first] {
            let noun = match node.kind {
                NodeKind::Port { .. } => "queues",
                NodeKind::Nf { .. } => "shards",
            };
            let message = format!(
                "{} is inline: its {} {noun} would all run in the loop of {}",
                shard.of, shard.count, chain.nodes[leader].name
            );
            tell(report, &shard.of, message);
        }
    }
}
