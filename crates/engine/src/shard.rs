//! Shards: one node of a chain file as several workers, each with its part of the packets.
//!
//! Before any packet: [`expand()`] makes of a chain whose nodes say `shards: n` (a port:
//! `queues: n`) one in which each shard is a node of its own, and puts splitters where packets must
//! be told apart. While packets move: [`split`] sends each to the shard that its key says. A shard
//! shares nothing with the others; `docs/adr/0019-shards.md` has the reasons.
//!
//! - [`key`]: what decides; [`hash`]: keys that are hashed; [`table`]: which shard has which hash.
//! - [`own`]: keys that an NF reads itself.

use std::borrow::Cow;

pub mod expand;
pub mod hash;
pub mod key;
pub mod own;
pub mod split;
pub mod table;

pub use expand::expand;
pub use key::{ShardKey, UeSpace};
pub use own::{ALL_SHARDS, Choice, Chooser, OwnKey};

pub use crate::chain::model::SHARD_COUNT_MAX;

/// How a node of the chain file is sharded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shards {
    /// How many there are: 1 to [`SHARD_COUNT_MAX`].
    pub count: u16,
    /// What decides which packet is whose. None at a port whose queues are split by its device in a
    /// way that nobody has named.
    pub key: Option<ShardKey>,
}

/// Which shard of a node of the chain file a node is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Name of the node in the file.
    pub of: String,
    /// Which one, from 0.
    pub index: u16,
    /// How many there are.
    pub count: u16,
}

/// Whether a node can be sharded, and by what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sharding {
    /// It cannot: why, as a sentence about the node.
    No(Cow<'static, str>),
    /// By any key that keeps what belongs together together: the chain file says which.
    Any,
    /// By this key only, which the chain file need not say.
    By(ShardKey),
    /// By a function of its own, which the chain file need not say.
    Own(OwnKey),
}

impl Default for Sharding {
    fn default() -> Self {
        Self::No("its type does not say that it can be".into())
    }
}

/// What separates the name of a node from the number of its shard. No name in a file has it.
const SHARD_SEPARATOR: char = '/';
/// What separates the name of a sender from the word for its splitter.
const SPLIT_SUFFIX: &str = ":split";

/// The name of a shard: `nf/3`.
pub fn shard_name(node: &str, index: u16) -> String {
    format!("{node}{SHARD_SEPARATOR}{index}")
}

/// The name of the splitter behind an output of `node`: `in:split`, or `sort.red:split` if the node
/// has several outputs.
pub fn splitter_name(node: &str, output: Option<&str>) -> String {
    match output {
        Some(output) => format!("{node}.{output}{SPLIT_SUFFIX}"),
        None => format!("{node}{SPLIT_SUFFIX}"),
    }
}

/// The name in the chain file of the node that `name` is a shard or a splitter of; the name of a
/// node that is neither.
pub fn name_in_file(name: &str) -> &str {
    let name = name.strip_suffix(SPLIT_SUFFIX).unwrap_or(name);
    let name = name.split_once('.').map_or(name, |(node, _)| node);
    name.split_once(SHARD_SEPARATOR)
        .map_or(name, |(node, _)| node)
}

/// Whether `name` is a splitter's.
pub fn is_splitter(name: &str) -> bool {
    name.ends_with(SPLIT_SUFFIX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_the_file() {
        assert_eq!(shard_name("nf", 3), "nf/3");
        for (name, file) in [
            ("nf/3", "nf"),
            ("nf", "nf"),
            ("in:split", "in"),
            ("sort.red:split", "sort"),
            ("sort/12.red:split", "sort"),
        ] {
            assert_eq!(name_in_file(name), file);
        }
        assert!(is_splitter(&splitter_name("in", None)) && !is_splitter("in/0"));
    }
}
