//! `shards` of an NF and `queues` of a port: from text to a key and a number, and to the chain in
//! which each shard is a node.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::Drafts;
use super::fields::{entry, integer, known_keys, suggestion};
use super::nodes::{Draft, Part};
use crate::chain::diagnostic::{Position, Report};
use crate::chain::model::{Chain, LINK_COUNT_MAX, NODE_COUNT_MAX, NodeKind, SHARD_COUNT_MAX};
use crate::chain::parse::{Entry, Tree, Value};
use crate::shard::expand::{Way, count_of, expand, way};
use crate::shard::key::KEY_WORDS;
use crate::shard::{ShardKey, Sharding, Shards, UeSpace, name_in_file};

/// Keys of `shards` and `queues` that are written as a map.
const KEYS: &[&str] = &["count", "key"];
const SPACE_KEYS: &[&str] = &["teids", "ue"];

/// What the file says, and where.
#[derive(Debug)]
pub(super) struct ShardsDraft {
    at: Position,
    /// Where the key is.
    key_at: Position,
    pub(super) resolved: Shards,
}

/// Reads `16`, or `{ count: 16, key: flow }`.
pub(super) fn shards(report: &mut Report<'_>, said: &Entry) -> Option<ShardsDraft> {
    let (count, key) = match &said.tree.value {
        Value::Map(entries) => {
            known_keys(report, entries, &said.key, KEYS);
            let Some(count) = entry(entries, "count") else {
                report.error(
                    said.at,
                    format!("{} has no count", said.key),
                    "add count: 16, or as many as there are cores for it",
                );
                return None;
            };
            (&count.tree, entry(entries, "key"))
        }
        _ => (&said.tree, None),
    };
    let count = integer(report, count, &said.key, 1..=SHARD_COUNT_MAX.into())?;
    let key_at = key.map_or(said.at, |key| key.tree.at);
    let key = match key {
        Some(key) => Some(shard_key(report, &key.tree)?),
        None => None,
    };
    Some(ShardsDraft {
        at: said.at,
        key_at,
        resolved: Shards {
            count: u16::try_from(count).ok()?,
            key,
        },
    })
}

fn shard_key(report: &mut Report<'_>, tree: &Tree) -> Option<ShardKey> {
    match &tree.value {
        Value::Map(entries) => {
            known_keys(report, entries, "key", SPACE_KEYS);
            let teids = entry(entries, "teids");
            let ue = entry(entries, "ue");
            let (Some(teids), Some(ue)) = (teids, ue) else {
                report.error(
                    tree.at,
                    "a key by ranges lacks teids or ue",
                    "write it like { teids: 0x10000000/4, ue: [10.60.0.0/16] }",
                );
                return None;
            };
            let teids = teid_range(report, &teids.tree)?;
            let Value::List(items) = &ue.tree.value else {
                let message = format!("ue must be a list, not {}", ue.tree.noun());
                report.error(ue.tree.at, message, "write it like [10.60.0.0/16]");
                return None;
            };
            let ue = items.iter().map(|item| prefix(report, item));
            let ue = ue.collect::<Option<Vec<_>>>()?;
            Some(ShardKey::Session(UeSpace { teids, ue }))
        }
        _ => {
            let word = tree.shown();
            match word.as_str() {
                "flow" => Some(ShardKey::Flow),
                "inner_flow" => Some(ShardKey::InnerFlow),
                "own" => Some(ShardKey::Own),
                _ => {
                    let message = format!("key cannot be \"{word}\"");
                    report.error(tree.at, message, suggestion(&word, &KEY_WORDS));
                    None
                }
            }
        }
    }
}

/// `0x10000000/4`: the first one, and how many leading bits all have in common.
fn teid_range(report: &mut Report<'_>, tree: &Tree) -> Option<(u32, u32)> {
    let text = tree.shown();
    let parsed = text.split_once('/').and_then(|(first, len)| {
        let first = match first.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => first.parse(),
        };
        let len = len.parse().ok().filter(|len| *len <= u32::BITS)?;
        let first = first.ok()?;
        let free = u32::MAX.checked_shr(len).unwrap_or(0);
        (first & free == 0).then_some((first, len))
    });
    if parsed.is_none() {
        report.error(
            tree.at,
            format!("\"{text}\" is not a range of TEIDs"),
            "write it like 0x10000000/4: the first one, and how many leading bits all have in \
             common",
        );
    }
    parsed
}

/// A prefix of UEs' addresses.
fn prefix(report: &mut Report<'_>, tree: &Tree) -> Option<(IpAddr, u32)> {
    let text = tree.shown();
    let parsed = text.split_once('/').and_then(|(address, len)| {
        let address: IpAddr = address.parse().ok()?;
        let len: u32 = len.parse().ok()?;
        let is_whole = match address {
            IpAddr::V4(address) => {
                len <= 32 && address.to_bits() & u32::MAX.checked_shr(len).unwrap_or(0) == 0
            }
            // A UE has 64 bits of its own.
            IpAddr::V6(address) => {
                len <= 64 && address.to_bits() & u128::MAX.checked_shr(len).unwrap_or(0) == 0
            }
        };
        is_whole.then_some((address, len))
    });
    if parsed.is_none() {
        report.error(
            tree.at,
            format!("\"{text}\" is not a prefix that UEs get their addresses from"),
            "write it like 10.60.0.0/16, or 2001:db8::/32 with at most 64 bits",
        );
    }
    parsed
}

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
