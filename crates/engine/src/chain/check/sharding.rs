//! `shards` of an NF and `queues` of a port, from text to a key and a number.

use std::net::IpAddr;

use super::fields::{entry, integer, known_keys, suggestion};
use crate::chain::diagnostic::{Position, Report};
use crate::chain::limits::SHARD_COUNT_MAX;
use crate::chain::parse::{Entry, Tree, Value};
use crate::shard::key::KEY_WORDS;
use crate::shard::{ShardKey, Shards, UeSpace};

/// Keys of `shards` and `queues` that are written as a map.
const KEYS: &[&str] = &["count", "key"];
const SPACE_KEYS: &[&str] = &["teids", "ue"];

/// What the file says, and where.
#[derive(Debug)]
pub(super) struct ShardsDraft {
    pub(super) at: Position,
    /// Where the key is.
    pub(super) key_at: Position,
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
